/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case study: horizontal diffusion on a grid of x, y and levels, three stencils in a row
 * (Laplacian, limited fluxes, update). Each rank has some rows; devices have some ranks and
 * memory of their own, with a row of the neighbour device at each end.
 *
 * Ranks of one device see each other's rows and only notify; at the end of a device a row is
 * put. A rank that both neighbours notified of the end of their step may overwrite the rows
 * that they read.
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
enum tags { LAP_CAME, FLY_CAME, OUT_CAME };
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

/* A row's levels lie side by side, so that all of a row is one message. */
enum { ROW = NX * LEVELS };

TELPHER_RMA_FN_BOTH static size_t
at(uint32_t k, uint32_t j, uint32_t i)
{
    return (size_t)j * ROW + (size_t)k * NX + i;
}

/* ---- the kernel ---- */

/* This rank's place: rows first to last of its device. */
struct place {
    telpher_rma *rma;
    telpher_rma_win win[3]; /* lap, fly, and in or out in turns in two of these */
    telpher_rma_win win_out;
    struct part part;
    uint32_t rows, first, last, me, size;
    uint32_t does, steps; /* of the data, which may lie far away */
    uint32_t lane, lanes;
};

/* Two points side by side, the first one's index even: what a lane reads and writes at once. */
struct pair {
    double a, b;
} __attribute__((aligned(16)));

TELPHER_RMA_FN static struct pair
pair_at(const double *field)
{
    return *(const struct pair *)field;
}

/* Rows lie behind one another, so lanes share all points of some rows as if they were one; a lane
 * has a few pairs at a time, on GPUs, so that their loads are under way at once. Of pairs beyond
 * the end it reads the first again. */
#ifdef __CUDACC__
enum { AT_ONCE = 2 };
#else
enum { AT_ONCE = 1 };
#endif
#define EACH_PAIRS(p, low, high, base, count)                                          \
    for (uint32_t base = 2 * (p)->lane, count = ((high) - (low)) * ROW;                \
         base < (count); base += 2 * (p)->lanes * AT_ONCE)

/* Where the @p n-th of those pairs begins. */
TELPHER_RMA_FN static uint32_t
pair_of(const struct place *p, uint32_t base, uint32_t n, uint32_t count)
{
    uint32_t index = base + n * 2 * p->lanes;

    return index < count ? index : base;
}

/* Not the points at a line's ends, which @p first and @p last are. */
TELPHER_RMA_FN static void
keep(double *to, struct pair values, int first, int last)
{
    if (first) {
        to[1] = values.b;
    } else if (last) {
        to[0] = values.a;
    } else {
        *(struct pair *)to = values;
    }
}

/* Each of the three does the rows from low up to high. */
TELPHER_RMA_FN static void
laplacian(const struct place *p, uint32_t low, uint32_t high)
{
    const double *in = &p->part.in[at(0, low, 0)];
    double *lap = &p->part.lap[at(0, low, 0)];

    EACH_PAIRS(p, low, high, base, count)
    {
        struct pair sum[AT_ONCE];

        for (uint32_t n = 0; n < AT_ONCE; n++) {
            const double *from = &in[pair_of(p, base, n, count)];
            struct pair c = pair_at(from), up = pair_at(from + ROW),
                        down = pair_at(from - ROW);

            sum[n].a = 4.0 * c.a - (c.b + from[-1] + up.a + down.a);
            sum[n].b = 4.0 * c.b - (from[2] + c.a + up.b + down.b);
        }
        for (uint32_t n = 0; n < AT_ONCE; n++) {
            uint32_t c = pair_of(p, base, n, count);

            keep(&lap[c], sum[n], c % NX == 0, c % NX == NX - 2);
        }
    }
}

TELPHER_RMA_FN_BOTH static double
limited(double flux, double slope)
{
    return flux * slope > 0.0 ? 0.0 : flux;
}

TELPHER_RMA_FN static void
fluxes(const struct place *p, uint32_t low, uint32_t high)
{
    const double *in = &p->part.in[at(0, low, 0)];
    const double *lap = &p->part.lap[at(0, low, 0)];
    double *flx = &p->part.flx[at(0, low, 0)], *fly = &p->part.fly[at(0, low, 0)];

    EACH_PAIRS(p, low, high, base, count)
    {
        struct pair along[AT_ONCE], across[AT_ONCE];

        for (uint32_t n = 0; n < AT_ONCE; n++) {
            uint32_t c = pair_of(p, base, n, count);
            struct pair l = pair_at(&lap[c]), l_up = pair_at(&lap[c + ROW]);
            struct pair i = pair_at(&in[c]), i_up = pair_at(&in[c + ROW]);

            along[n].a = limited(l.b - l.a, i.b - i.a);
            along[n].b = limited(lap[c + 2] - l.b, in[c + 2] - i.b);
            across[n].a = limited(l_up.a - l.a, i_up.a - i.a);
            across[n].b = limited(l_up.b - l.b, i_up.b - i.b);
        }
        for (uint32_t n = 0; n < AT_ONCE; n++) {
            uint32_t c = pair_of(p, base, n, count);

            keep(&flx[c], along[n], 0, c % NX == NX - 2);
            keep(&fly[c], across[n], 0, c % NX == NX - 2);
        }
    }
}

TELPHER_RMA_FN static void
update(const struct place *p, uint32_t low, uint32_t high)
{
    const double *in = &p->part.in[at(0, low, 0)];
    const double *flx = &p->part.flx[at(0, low, 0)];
    const double *fly = &p->part.fly[at(0, low, 0)];
    double *ret = &p->part.out[at(0, low, 0)];

    EACH_PAIRS(p, low, high, base, count)
    {
        struct pair out[AT_ONCE];

        for (uint32_t n = 0; n < AT_ONCE; n++) {
            uint32_t c = pair_of(p, base, n, count);
            struct pair i = pair_at(&in[c]), x = pair_at(&flx[c]);
            struct pair y = pair_at(&fly[c]), y_down = pair_at(fly + c - ROW);

            out[n].a = i.a - COEFF * ((x.a - (flx + c)[-1]) + (y.a - y_down.a));
            out[n].b = i.b - COEFF * ((x.b - x.a) + (y.b - y_down.b));
        }
        for (uint32_t n = 0; n < AT_ONCE; n++) {
            uint32_t c = pair_of(p, base, n, count);

            keep(&ret[c], out[n], c % NX == 0, c % NX == NX - 2);
        }
    }
}

/* Tells rank @p to that this one's @p row is there; carries it to another device, where it is
 * its @p halo. */
TELPHER_RMA_FN static void
send(const struct place *p, telpher_rma_win win, const double *field, uint32_t row,
     uint32_t to, uint32_t halo, int other_device, uint32_t tag)
{
    if (other_device) {
        telpher_rma_put_notify(p->rma, win, to, at(0, halo, 0) * sizeof(double),
                               &field[at(0, row, 0)], ROW * sizeof(double), tag);
    } else {
        telpher_rma_notify(p->rma, TELPHER_RMA_WORLD, to, tag);
    }
}

TELPHER_RMA_FN static void
send_down(const struct place *p, telpher_rma_win win, const double *field, uint32_t tag)
{
    if (p->me > 0) {
        send(p, win, field, p->first, p->me - 1, p->rows + 1, p->first == 1, tag);
    }
}

TELPHER_RMA_FN static void
send_up(const struct place *p, telpher_rma_win win, const double *field, uint32_t tag)
{
    if (p->me < p->size - 1) {
        send(p, win, field, p->last, p->me + 1, 0, p->last == p->rows, tag);
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

/* How many neighbours there are. */
TELPHER_RMA_FN static uint32_t
neighbours(const struct place *p)
{
    return (p->me > 0) + (p->me < p->size - 1);
}

/* Up to here rows go with a message from or to the neighbour below: the Laplacian computes them
 * before it notifies, the update after it is notified. For a neighbour on another device this is
 * one row, and the others are computed meanwhile. Within a device a message takes no longer than
 * a loop iteration in which few lanes have work, so all rows wait. */
TELPHER_RMA_FN static uint32_t
lower_rows(const struct place *p)
{
    return p->first == 1 && p->me > 0 ? p->first + 1 : p->last + 1;
}

/* Computes rows that a neighbour needs first, rows that need a neighbour's row last if possible. */
TELPHER_RMA_FN static void
step_laplacian(const struct place *p, int computes, int sends)
{
    if (computes) {
        laplacian(p, p->first, lower_rows(p));
    }
    if (sends) {
        send_down(p, p->win[0], p->part.lap, LAP_CAME);
    }
    if (computes) {
        laplacian(p, lower_rows(p), p->last + 1);
    }
    if (sends) {
        wait_above(p, LAP_CAME);
    }
    telpher_rma_sync(p->rma);
}

TELPHER_RMA_FN static void
step_fluxes(const struct place *p, int computes, int sends)
{
    if (computes) {
        fluxes(p, p->last, p->last + 1);
    }
    if (sends) {
        send_up(p, p->win[1], p->part.fly, FLY_CAME);
    }
    if (computes) {
        fluxes(p, p->first, p->last);
    }
    telpher_rma_sync(p->rma);
}

/* The step is done; within a device one call says so to both sides. */
TELPHER_RMA_FN static void
send_out(const struct place *p)
{
    const uint32_t sides[2] = {p->me - 1, p->me + 1};

    if (p->first != 1 && p->last != p->rows) {
        telpher_rma_notify_each(p->rma, TELPHER_RMA_WORLD, sides, 2, OUT_CAME);
    } else {
        send_down(p, p->win_out, p->part.out, OUT_CAME);
        send_up(p, p->win_out, p->part.out, OUT_CAME);
    }
}

TELPHER_RMA_FN static void
step_update(const struct place *p, int computes, int sends)
{
    if (computes) {
        update(p, lower_rows(p), p->last + 1);
    }
    if (sends) {
        wait_below(p, FLY_CAME);
    }
    if (computes) {
        update(p, p->first, lower_rows(p));
    }
    if (sends) {
        send_out(p);
        telpher_rma_wait(p->rma, OUT_CAME, neighbours(p));
    }
    telpher_rma_sync(p->rma);
}

TELPHER_RMA_FN static void
step(struct place *p)
{
    int computes = (p->does & STUDY_COMPUTES) != 0;
    int sends = (p->does & STUDY_SENDS) != 0;
    double *swap = p->part.in;
    telpher_rma_win win = p->win[2];

    step_laplacian(p, computes, sends);
    step_fluxes(p, computes, sends);
    step_update(p, computes, sends);
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
        .lane = telpher_rma_lane(rma),
        .lanes = telpher_rma_lanes(rma)};

    if (step % 2 != 0) {
        p.part.in = data->parts[rma->device].out;
        p.part.out = data->parts[rma->device].in;
    }
    return p;
}

TELPHER_RMA_KERNEL(stencil)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    uint64_t len = at(0, data->rows + 2, 0) * sizeof(double);
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
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD); /* no rank frees memory before */
}

/* ---- two models: a launch for each stencil, the host copies rows between devices ---- */

STUDY_PHASE(laplacian_phase)
{
    struct place p = place_of(rma, step);

    laplacian(&p, p.first, p.last + 1);
}

STUDY_PHASE(fluxes_phase)
{
    struct place p = place_of(rma, step);

    fluxes(&p, p.first, p.last + 1);
}

STUDY_PHASE(update_phase)
{
    struct place p = place_of(rma, step);

    update(&p, p.first, p.last + 1);
}

enum field { LAP, FLY, OUT };

static double *
field_of(const struct part *part, enum field field, uint32_t step)
{
    double *out = step % 2 == 0 ? part->out : part->in;

    return field == LAP ? part->lap : field == FLY ? part->fly : out;
}

/* A row of device @p from, to device @p to. */
static void
copy_row(study_host *host, const struct data *d, uint32_t to, uint32_t to_row,
         uint32_t from, uint32_t from_row, enum field field, uint32_t step)
{
    study_copy(host, to, field_of(&d->parts[to], field, step) + at(0, to_row, 0), from,
               field_of(&d->parts[from], field, step) + at(0, from_row, 0),
               ROW * sizeof(double), 0, 1);
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
                    const double *c = &g->in[at(k, j, i)];

                    g->lap[at(k, j, i)] =
                        4.0 * c[0] - (c[1] + c[-1] + c[ROW] + c[-ROW]);
                }
            }
            for (uint32_t j = 1; j <= rows; j++) {
                for (uint32_t i = 0; i < NX - 1; i++) {
                    size_t c = at(k, j, i);

                    g->flx[c] =
                        limited(g->lap[c + 1] - g->lap[c], g->in[c + 1] - g->in[c]);
                    g->fly[c] =
                        limited(g->lap[c + ROW] - g->lap[c], g->in[c + ROW] - g->in[c]);
                }
            }
            for (uint32_t j = 1; j <= rows; j++) {
                for (uint32_t i = 1; i < NX - 1; i++) {
                    size_t c = at(k, j, i);

                    g->out[c] = g->in[c] - COEFF * ((g->flx[c] - g->flx[c - 1]) +
                                                    (g->fly[c] - g->fly[c - ROW]));
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
    size_t count = at(0, rows + 2, 0);
    struct part part = {STUDY_NEW(double, count), STUDY_NEW(double, count),
                        STUDY_NEW(double, count), STUDY_NEW(double, count),
                        STUDY_NEW(double, count)};

    for (uint32_t k = 0; k < LEVELS; k++) {
        for (uint32_t j = 0; j < rows + 2; j++) {
            uint32_t row = first + j;
            int edge = row == 0 || row == all + 1, halo = j == 0 || j == rows + 1;

            for (uint32_t i = 0; i < NX; i++) {
                size_t c = at(k, j, i);

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
                got[n] = field[at(k, row % d->rows + 1, i)];
                right[n] = whole[at(k, row + 1, i)];
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
    size_t len = at(0, all + 2, 0);
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
        check,
    };

    return study_main(argc, argv, &program);
}
