/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case study: horizontal diffusion on a grid of x, y and levels, three stencils in a row
 * (Laplacian, limited fluxes, update). Each rank has some rows; devices have some ranks and
 * memory of their own, with a row of the neighbour device at each end.
 *
 * Ranks of one device see each other's rows and only notify. At the end of a device a row
 * of each level is put, and the last put notifies. Who has heard from both neighbours that
 * their step is done may overwrite what they read of it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "phases.h"

#ifdef STUDY_THESIS /* 128 x 320 x 26 points a device */
enum { NX = 128, LEVELS = 26, RANKS = 160, ROWS = 2, STEPS = 200, CHECKED = 10 };
#else
enum { NX = 64, LEVELS = 8, RANKS = 8, ROWS = 8, STEPS = 20, CHECKED = 0 };
#endif
enum tags { LAP_CAME, FLY_CAME, OUT_FROM_BELOW, OUT_FROM_ABOVE };
#define COEFF 0.025

/* One device's part. Rows are numbered from 1; 0 and rows + 1 are the neighbours'. */
struct part {
    double *in, *lap, *flx, *fly, *out;
};

struct data {
    uint32_t does; /* enum study_does */
    uint32_t rows; /* of a device */
    uint32_t steps;
    struct part *parts;
};

TELPHER_RMA_FN_BOTH static size_t
at(uint32_t rows, uint32_t k, uint32_t j, uint32_t i)
{
    return ((size_t)k * (rows + 2) + j) * NX + i;
}

/* ---- the kernel ---- */

/* This rank's place: rows first to last of its device. */
struct place {
    telpher_rma *rma;
    telpher_rma_win win[3]; /* lap, fly, and in or out by turns in two of these */
    telpher_rma_win win_out;
    struct part part;
    uint32_t rows, first, last, me, size;
    uint32_t does, steps; /* of the data, which may lie far away */
    uint32_t row, rows_at_once, column, columns_at_once; /* this lane's */
};

/* Lanes share the points of a row, and more lanes than that share rows. A lane has a few levels
 * of a point at a time, on GPUs, so that their loads are under way at once. */
#ifdef __CUDACC__
enum { AT_ONCE = 4 };
#else
enum { AT_ONCE = 1 };
#endif
#define EACH_POINT(p, k, j, i, from, to)                                               \
    for (uint32_t k = 0; k < LEVELS; k += AT_ONCE)                                     \
        for (uint32_t j = (p)->first + (p)->row; j <= (p)->last;                       \
             j += (p)->rows_at_once)                                                   \
            for (uint32_t i = (from) + (p)->column; i < (to); i += (p)->columns_at_once)

TELPHER_RMA_FN static void
laplacian(const struct place *p)
{
    const size_t level = at(p->rows, 1, 0, 0);

    EACH_POINT(p, k, j, i, 1, NX - 1)
    {
        const double *in = &p->part.in[at(p->rows, k, j, i)];
        double *lap = &p->part.lap[at(p->rows, k, j, i)], sum[AT_ONCE];

        for (uint32_t n = 0; n < AT_ONCE; n++, in += level) {
            sum[n] = 4.0 * in[0] - (in[1] + in[-1] + in[NX] + in[-NX]);
        }
        for (uint32_t n = 0; n < AT_ONCE; n++) {
            lap[n * level] = sum[n];
        }
    }
}

TELPHER_RMA_FN_BOTH static double
limited(double flux, double slope)
{
    return flux * slope > 0.0 ? 0.0 : flux;
}

TELPHER_RMA_FN static void
fluxes(const struct place *p)
{
    const size_t level = at(p->rows, 1, 0, 0);

    EACH_POINT(p, k, j, i, 0, NX - 1)
    {
        size_t here = at(p->rows, k, j, i);
        const double *in = &p->part.in[here], *lap = &p->part.lap[here];
        double along[AT_ONCE], across[AT_ONCE];

        for (uint32_t n = 0; n < AT_ONCE; n++, in += level, lap += level) {
            along[n] = limited(lap[1] - lap[0], in[1] - in[0]);
            across[n] = limited(lap[NX] - lap[0], in[NX] - in[0]);
        }
        for (uint32_t n = 0; n < AT_ONCE; n++) {
            p->part.flx[here + n * level] = along[n];
            p->part.fly[here + n * level] = across[n];
        }
    }
}

TELPHER_RMA_FN static void
update(const struct place *p)
{
    const size_t level = at(p->rows, 1, 0, 0);

    EACH_POINT(p, k, j, i, 1, NX - 1)
    {
        size_t here = at(p->rows, k, j, i);
        const double *in = &p->part.in[here], *flx = &p->part.flx[here];
        const double *fly = &p->part.fly[here];
        double out[AT_ONCE];

        for (uint32_t n = 0; n < AT_ONCE; n++) {
            size_t c = n * level;

            out[n] = in[c] - COEFF * ((flx[c] - flx[c - 1]) + (fly[c] - fly[c - NX]));
        }
        for (uint32_t n = 0; n < AT_ONCE; n++) {
            p->part.out[here + n * level] = out[n];
        }
    }
}

/* Tells the rank below that this one's first row is there; carries it to another device. */
TELPHER_RMA_FN static void
send_down(const struct place *p, telpher_rma_win win, const double *field, uint32_t tag)
{
    if (p->me == 0) {
        return;
    }
    if (p->first != 1) {
        telpher_rma_notify(p->rma, TELPHER_RMA_WORLD, p->me - 1, tag);
        return;
    }
    for (uint32_t k = 0; k < LEVELS; k++) {
        uint64_t to = at(p->rows, k, p->rows + 1, 0) * sizeof(double);
        const double *row = &field[at(p->rows, k, 1, 0)];

        if (k < LEVELS - 1) {
            telpher_rma_put(p->rma, win, p->me - 1, to, row, NX * sizeof(double));
        } else {
            telpher_rma_put_notify(p->rma, win, p->me - 1, to, row, NX * sizeof(double),
                                   tag);
        }
    }
}

/* The same for the last row and the rank above. */
TELPHER_RMA_FN static void
send_up(const struct place *p, telpher_rma_win win, const double *field, uint32_t tag)
{
    if (p->me == p->size - 1) {
        return;
    }
    if (p->last != p->rows) {
        telpher_rma_notify(p->rma, TELPHER_RMA_WORLD, p->me + 1, tag);
        return;
    }
    for (uint32_t k = 0; k < LEVELS; k++) {
        uint64_t to = at(p->rows, k, 0, 0) * sizeof(double);
        const double *row = &field[at(p->rows, k, p->rows, 0)];

        if (k < LEVELS - 1) {
            telpher_rma_put(p->rma, win, p->me + 1, to, row, NX * sizeof(double));
        } else {
            telpher_rma_put_notify(p->rma, win, p->me + 1, to, row, NX * sizeof(double),
                                   tag);
        }
    }
}

TELPHER_RMA_FN static void
wait_below(const struct place *p, uint32_t tag)
{
    if (p->me > 0) {
        telpher_rma_wait_from(p->rma, TELPHER_RMA_WORLD, p->me - 1, tag, 1);
    }
}

TELPHER_RMA_FN static void
wait_above(const struct place *p, uint32_t tag)
{
    if (p->me < p->size - 1) {
        telpher_rma_wait_from(p->rma, TELPHER_RMA_WORLD, p->me + 1, tag, 1);
    }
}

/* What lanes wrote is read by others next. Calls to neighbours are barriers, too; a rank
 * without any has only this. */
TELPHER_RMA_FN static void
meet_lanes(const struct place *p)
{
    if (p->size == 1 || (p->does & STUDY_SENDS) == 0) {
        telpher_rma_sync(p->rma);
    }
}

TELPHER_RMA_FN static void
exchange_lap(const struct place *p)
{
    send_down(p, p->win[0], p->part.lap, LAP_CAME);
    wait_above(p, LAP_CAME);
}

TELPHER_RMA_FN static void
exchange_fly(const struct place *p)
{
    send_up(p, p->win[1], p->part.fly, FLY_CAME);
    wait_below(p, FLY_CAME);
}

TELPHER_RMA_FN static void
exchange_out(const struct place *p)
{
    send_down(p, p->win_out, p->part.out, OUT_FROM_ABOVE);
    send_up(p, p->win_out, p->part.out, OUT_FROM_BELOW);
    wait_below(p, OUT_FROM_BELOW);
    wait_above(p, OUT_FROM_ABOVE);
}

TELPHER_RMA_FN static void
step(struct place *p)
{
    int computes = (p->does & STUDY_COMPUTES) != 0;
    int sends = (p->does & STUDY_SENDS) != 0;
    double *swap = p->part.in;
    telpher_rma_win win = p->win[2];

    if (computes) {
        laplacian(p);
    }
    meet_lanes(p);
    if (sends) {
        exchange_lap(p);
    }
    if (computes) {
        fluxes(p);
    }
    meet_lanes(p);
    if (sends) {
        exchange_fly(p);
    }
    if (computes) {
        update(p);
    }
    meet_lanes(p);
    if (sends) {
        exchange_out(p);
    }
    p->part.in = p->part.out;
    p->part.out = swap;
    p->win[2] = p->win_out;
    p->win_out = win;
}

/* The rank's place, without windows; in and out change places with every step. */
TELPHER_RMA_FN static struct place
place_of(telpher_rma *rma, uint32_t step)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    uint32_t lane = telpher_rma_lane(rma), lanes = telpher_rma_lanes(rma);
    struct place p = {
        .rma = rma,
        .part = data->parts[rma->device],
        .rows = data->rows,
        .first = 1 + study_first(data->rows, rma->device_size, rma->device_rank),
        .last = study_first(data->rows, rma->device_size, rma->device_rank + 1),
        .me = rma->world_rank,
        .size = rma->world_size,
        .does = data->does,
        .steps = data->steps,
        .row = lanes < NX ? 0 : lane / NX,
        .rows_at_once = lanes < NX ? 1 : lanes / NX,
        .column = lanes < NX ? lane : lane % NX,
        .columns_at_once = lanes < NX ? lanes : NX};

    if (p.row == p.rows_at_once) { /* lanes that are left over */
        p.column = NX;
    }
    if (step % 2 != 0) {
        p.part.in = data->parts[rma->device].out;
        p.part.out = data->parts[rma->device].in;
    }
    return p;
}

TELPHER_RMA_KERNEL(stencil)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    uint64_t len = at(data->rows, LEVELS, 0, 0) * sizeof(double);
    struct place p = place_of(rma, 0);

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.part.lap, len, &p.win[0]);
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.part.fly, len, &p.win[1]);
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.part.in, len, &p.win[2]);
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.part.out, len, &p.win_out);
    telpher_rma_timer_start(rma);
    for (uint32_t i = 0; i < p.steps; i++) {
        step(&p);
    }
    telpher_rma_timer_stop(rma);
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD); /* nobody's memory goes before */
}

/* ---- two models: a launch for each stencil, the host copies rows between devices ---- */

STUDY_PHASE(laplacian_phase)
{
    struct place p = place_of(rma, step);

    laplacian(&p);
}

STUDY_PHASE(fluxes_phase)
{
    struct place p = place_of(rma, step);

    fluxes(&p);
}

STUDY_PHASE(update_phase)
{
    struct place p = place_of(rma, step);

    update(&p);
}

enum field { LAP, FLY, OUT };

static double *
field_of(const struct part *part, enum field field, uint32_t step)
{
    double *out = step % 2 == 0 ? part->out : part->in;

    return field == LAP ? part->lap : field == FLY ? part->fly : out;
}

/* A row of every level of device @p from, to device @p to. */
static void
copy_row(study_host *host, const struct data *d, uint32_t to, uint32_t to_row,
         uint32_t from, uint32_t from_row, enum field field, uint32_t step)
{
    study_copy(host, to,
               field_of(&d->parts[to], field, step) + at(d->rows, 0, to_row, 0), from,
               field_of(&d->parts[from], field, step) + at(d->rows, 0, from_row, 0),
               NX * sizeof(double), at(d->rows, 1, 0, 0) * sizeof(double), LEVELS);
}

/* The first rows go down, the last ones up. */
static void
copy_rows(study_host *host, const struct data *d, uint32_t devices, int down, int up,
          enum field field, uint32_t step)
{
    for (uint32_t i = 1; i < devices; i++) {
        if (down) {
            copy_row(host, d, i - 1, d->rows + 1, i, 1, field, step);
        }
        if (up) {
            copy_row(host, d, i, 0, i - 1, d->rows, field, step);
        }
    }
}

static void
two_model(study_host *host, const struct study *s, void *data)
{
    const struct data *d = (const struct data *)data;

    for (uint32_t i = 0; i < s->steps; i++) {
        study_launch(host, laplacian_phase, i);
        copy_rows(host, d, s->devices, 1, 0, LAP, i);
        study_launch(host, fluxes_phase, i);
        copy_rows(host, d, s->devices, 0, 1, FLY, i);
        study_launch(host, update_phase, i);
        copy_rows(host, d, s->devices, 1, 1, OUT, i);
    }
    study_settle(host);
}

/* ---- the serial program ---- */

static void
serial(uint32_t rows, uint32_t steps, struct part *g)
{
    for (uint32_t s = 0; s < steps; s++) {
        double *swap = g->in;

        for (uint32_t k = 0; k < LEVELS; k++) {
            for (uint32_t j = 1; j <= rows; j++) {
                for (uint32_t i = 1; i < NX - 1; i++) {
                    const double *c = &g->in[at(rows, k, j, i)];

                    g->lap[at(rows, k, j, i)] =
                        4.0 * c[0] - (c[1] + c[-1] + c[NX] + c[-NX]);
                }
            }
            for (uint32_t j = 1; j <= rows; j++) {
                for (uint32_t i = 0; i < NX - 1; i++) {
                    size_t c = at(rows, k, j, i);

                    g->flx[c] =
                        limited(g->lap[c + 1] - g->lap[c], g->in[c + 1] - g->in[c]);
                    g->fly[c] =
                        limited(g->lap[c + NX] - g->lap[c], g->in[c + NX] - g->in[c]);
                }
            }
            for (uint32_t j = 1; j <= rows; j++) {
                for (uint32_t i = 1; i < NX - 1; i++) {
                    size_t c = at(rows, k, j, i);

                    g->out[c] = g->in[c] - COEFF * ((g->flx[c] - g->flx[c - 1]) +
                                                    (g->fly[c] - g->fly[c - NX]));
                }
            }
        }
        g->in = g->out;
        g->out = swap;
    }
}

/* ---- data ---- */

static double
initial(uint32_t k, uint32_t row, uint32_t i)
{
    return sin(0.1 * i + k) * cos(0.07 * row) + 0.3 * study_unit(row * NX + i, k);
}

/* Rows of the whole grid from @p first on; what no neighbour sends is poison. The grid's
 * own edges stay as they are: fluxes through them are 0. */
static struct part
make_part(uint32_t rows, uint32_t first, uint32_t all)
{
    size_t count = at(rows, LEVELS, 0, 0);
    struct part part = {STUDY_NEW(double, count), STUDY_NEW(double, count),
                        STUDY_NEW(double, count), STUDY_NEW(double, count),
                        STUDY_NEW(double, count)};

    for (uint32_t k = 0; k < LEVELS; k++) {
        for (uint32_t j = 0; j < rows + 2; j++) {
            uint32_t row = first + j;
            int edge = row == 0 || row == all + 1, halo = j == 0 || j == rows + 1;

            for (uint32_t i = 0; i < NX; i++) {
                size_t c = at(rows, k, j, i);

                part.in[c] = part.out[c] = initial(k, row, i);
                if (halo && !edge) {
                    part.lap[c] = part.fly[c] = part.out[c] = NAN;
                }
            }
        }
    }
    return part;
}

static void
free_part(struct part *part)
{
    study_free(part->in);
    study_free(part->lap);
    study_free(part->flx);
    study_free(part->fly);
    study_free(part->out);
}

/* The devices' rows one behind the other against the whole grid. */
static int
check(const struct study *s, const void *data, const void *serial_data)
{
    const struct data *d = (const struct data *)data;
    const double *whole = (const double *)serial_data;
    uint32_t all = d->rows * s->devices;
    size_t count = (size_t)all * LEVELS * NX;
    double *got = STUDY_NEW(double, count), *right = STUDY_NEW(double, count);
    size_t n = 0;
    int bad;

    for (uint32_t k = 0; k < LEVELS; k++) {
        for (uint32_t row = 0; row < all; row++) {
            const struct part *part = &d->parts[row / d->rows];
            const double *field = d->steps % 2 == 0 ? part->in : part->out;

            for (uint32_t i = 0; study_has_device(s, row / d->rows) && i < NX;
                 i++, n++) {
                got[n] = field[at(d->rows, k, row % d->rows + 1, i)];
                right[n] = whole[at(all, k, row + 1, i)];
            }
        }
    }
    bad = study_compare("stencil", got, right, n);
    study_free(got);
    study_free(right);
    return bad;
}

static void
make(const struct study *s, void *ret_data)
{
    struct data *d = (struct data *)ret_data;

    d->rows = s->size * (s->ranks / s->devices);
    d->steps = s->steps;
    d->parts = STUDY_NEW(struct part, s->devices);
    for (uint32_t i = 0; i < s->devices; i++) {
        study_on(i, s->devices);
        d->parts[i] = make_part(d->rows, i * d->rows, d->rows * s->devices);
    }
    study_on(0, 0);
}

static void
drop(const struct study *s, void *data)
{
    struct data *d = (struct data *)data;

    for (uint32_t i = 0; i < s->devices; i++) {
        free_part(&d->parts[i]);
    }
    study_free(d->parts);
}

static void *
make_right(const struct study *s)
{
    uint32_t all = s->size * s->ranks;
    struct part whole = make_part(all, 0, all);
    size_t len = at(all, LEVELS, 0, 0);
    double *right = STUDY_NEW(double, len);

    serial(all, s->steps, &whole);
    memcpy(right, whole.in, len * sizeof(*right));
    free_part(&whole);
    return right;
}

int
main(int argc, char **argv)
{
    const struct study_program program = {
        "stencil", {"rows of a rank", RANKS, 1, ROWS, STEPS, 0, 0, 0, CHECKED},
        &stencil,  sizeof(struct data),
        make,      drop,
        two_model, make_right,
        check,     0,
    };

    return study_main(argc, argv, &program);
}
