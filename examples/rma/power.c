/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case study: the largest eigenvalue by power iteration, on the grid of devices of spmv. A
 * step is a product, its norm from all ranks in a fixed order, and the way of the parts
 * from column 0 to row 0, where the next step begins. Every row of the matrix has the same
 * sum, which is the eigenvalue.
 */
#include <stdio.h>
#include <string.h>

#include "grid_host.h"

/* Sum of squares of this rank's stripe: parts, and their sum by one lane, so that the order
 * does not depend on how many there are. */
TELPHER_RMA_FN static void
add_squares(const struct place *p, double *square)
{
    double *parts = &p->block.squares[(size_t)p->rma->world_rank * SQUARES], sum = 0;
    const double *y = &p->block.y[p->first];

    for (uint32_t n = telpher_rma_lane(p->rma); n < SQUARES;
         n += telpher_rma_lanes(p->rma)) {
        double part = 0;

        for (uint32_t k = n; p->j == 0 && k < p->count; k += SQUARES) {
            part += y[k] * y[k];
        }
        parts[n] = part;
    }
    study_sync(p->rma);
    if (telpher_rma_lane(p->rma) == 0) {
        for (uint32_t n = 0; n < SQUARES; n++) {
            sum += parts[n];
        }
        *square = sum;
    }
}

/* This rank's stripe of x gets length 1, with the norm of the step before. */
TELPHER_RMA_FN static void
scale_x(const struct place *p, const double *raw, double norm)
{
    for (uint32_t k = telpher_rma_lane(p->rma);
         k < p->count && place_does(p, STUDY_COMPUTES);
         k += telpher_rma_lanes(p->rma)) {
        p->block.x[p->first + k] = raw[p->first + k] / norm;
    }
}

/* A stripe of the product goes from device (i, 0) to device (0, i), for the next step. That of
 * device 0 lies there: its raw is its y. */
TELPHER_RMA_FN static void
turn(const struct place *p, uint64_t begin)
{
    if (p->j == 0 && p->i != 0 && place_does(p, STUDY_SENDS)) {
        telpher_rma_put_notify(p->rma, p->x, place_partner(p, 0, p->i),
                               (begin + p->first) * sizeof(double),
                               &p->block.y[p->first], p->count * sizeof(double),
                               TURNED);
    }
}

TELPHER_RMA_FN static void
wait_turned(const struct place *p)
{
    if (p->i == 0 && p->j != 0 && place_does(p, STUDY_SENDS)) {
        telpher_rma_wait_from(p->rma, TELPHER_RMA_WORLD, place_partner(p, p->j, 0),
                              TURNED, 1);
    }
}

/* One step; *norm is that of the step before, and then this one's. Stripes go on their way
 * without their length, while the norm is added up, and get it where they came. */
TELPHER_RMA_FN static void
step(struct place *p, uint32_t number, double *square, double *norm)
{
    const uint32_t rows = p->grid->rows;
    const double *raw = p->block.raw + (size_t)(number % 2) * rows;
    double *y = p->block.y;

    p->begin = (uint64_t)(number % 2) * rows;
    p->block.y += rows - p->begin; /* what was put of the last one may be on its way */
    place_get_stripe(p, raw);
    scale_x(p, raw, *norm);
    if (place_does(p, STUDY_SENDS)) {
        telpher_rma_barrier(p->rma, TELPHER_RMA_DEVICE);
    }
    place_multiply(p);
    place_add_up(p);
    telpher_rma_sync(p->rma);
    turn(p, rows - p->begin);
    if (place_does(p, STUDY_COMPUTES)) {
        add_squares(p, square);
    }
    if (place_does(p, STUDY_SENDS)) {
        telpher_rma_allreduce(p->rma, TELPHER_RMA_WORLD, square, square, 1,
                              TELPHER_RMA_F64, TELPHER_RMA_SUM,
                              TELPHER_RMA_FIXED_ORDER);
    } else {
        telpher_rma_sync(p->rma);
    }
    *norm = sqrt(*square);
    if (p->rma->world_rank == 0 && telpher_rma_lane(p->rma) == 0) {
        p->grid->norms[number] = *norm;
    }
    wait_turned(p);
    p->block.y = y;
}

/* The norm's reduction is a barrier, too: after it no rank reads this step's x, nor data of
 * the step before. */
TELPHER_RMA_KERNEL(power)
{
    double norm = 1;
    struct place p;
    TELPHER_RMA_SHARED(rma, double, square, 1);

    if (square == NULL) {
        return;
    }
    place_init(&p, rma);
    place_open(&p, p.block.raw, 2);
    telpher_rma_timer_start(rma);
    for (uint32_t i = 0; i < p.grid->steps; i++) {
        step(&p, i, square, &norm);
    }
    if (p.i == 0) {
        scale_x(&p, p.block.raw + (size_t)(p.grid->steps % 2) * p.grid->rows, norm);
    }
    telpher_rma_timer_stop(rma);
}

/* ---- two models: device 0 adds the ranks' squares, in their order ---- */

STUDY_PHASE(squares_phase)
{
    struct place p;

    (void)step;
    place_init(&p, rma);
    add_squares(&p, &p.block.sums[rma->world_rank]);
}

STUDY_PHASE(norm_phase)
{
    enum { AT_ONCE = 32 }; /* loads under way */
    struct place p;
    double sum = 0;

    place_init(&p, rma);
    for (uint32_t r = 0; telpher_rma_lane(rma) == 0 && r < rma->world_size;
         r += AT_ONCE) {
        double some[AT_ONCE];

        for (uint32_t k = 0; k < AT_ONCE; k++) {
            some[k] = r + k < rma->world_size ? p.block.sums[r + k] : 0;
        }
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            sum += some[k]; /* those of columns but the first are 0 */
        }
    }
    if (telpher_rma_lane(rma) == 0) {
        *p.block.norm = p.grid->norms[step] = sqrt(sum);
    }
}

/* Part i, with length 1; part 0 stays where it is. */
TELPHER_RMA_FN static void
scale(const struct place *p, double norm)
{
    double *to = p->i == 0 ? p->block.x : p->block.y;

    for (uint32_t k = telpher_rma_lane(p->rma); p->j == 0 && k < p->count;
         k += telpher_rma_lanes(p->rma)) {
        to[p->first + k] = p->block.y[p->first + k] / norm;
    }
}

STUDY_PHASE(scale_phase)
{
    struct place p;

    (void)step;
    place_init(&p, rma);
    scale(&p, *p.block.norm);
}

/* Those of the first column's devices, to device 0. */
static void
copy_squares(study_host *host, const struct grid *g)
{
    for (uint32_t k = 1; k < g->side; k++) {
        uint32_t device = k * g->side;
        size_t first = (size_t)device * g->stripes;

        study_copy(host, 0, &g->blocks[0].sums[first], device,
                   &g->blocks[device].sums[first], g->stripes * sizeof(double), 0, 1);
    }
}

static void
two_model(study_host *host, const struct study *s, void *data)
{
    const struct grid *g = (const struct grid *)data;

    for (uint32_t i = 0; i < s->steps; i++) {
        grid_two_model(host, g, 0);
        study_launch(host, squares_phase, i);
        copy_squares(host, g);
        study_launch_one(host, 0, norm_phase, i);
        for (uint32_t k = 1; k < g->side; k++) {
            study_copy(host, k * g->side, g->blocks[k * g->side].norm, 0,
                       g->blocks[0].norm, sizeof(double), 0, 1);
        }
        study_launch(host, scale_phase, i);
        for (uint32_t k = 1; k < g->side; k++) {
            study_copy(host, k, g->blocks[k].x, k * g->side, g->blocks[k * g->side].y,
                       g->rows * sizeof(double), 0, 1);
        }
        study_then(host); /* the next step begins with copies of x */
    }
    study_settle(host);
}

/* ---- the serial program ---- */

static double
serial_norm(const struct grid *g, const double *y)
{
    double sum = 0;

    for (uint32_t r = 0; r < g->side * g->stripes; r++) { /* as the ranks add */
        uint32_t part = r / g->stripes, stripe = r % g->stripes;
        uint32_t first = study_first(g->rows, g->stripes, stripe);
        uint32_t last = study_first(g->rows, g->stripes, stripe + 1);
        double square = 0;

        for (uint32_t n = 0; n < SQUARES; n++) {
            double some = 0;

            for (uint32_t k = first + n; k < last; k += SQUARES) {
                some += y[part * g->rows + k] * y[part * g->rows + k];
            }
            square += some;
        }
        sum += square;
    }
    return sqrt(sum);
}

/* The vector, and behind it the norms. */
static void *
make_right(const struct study *s)
{
    struct grid g;
    double *right, *x, *y, *norms;
    size_t all;

    grid_init(&g, s, 1);
    all = (size_t)g.side * g.rows;
    right = STUDY_NEW(double, all + s->steps);
    x = right;
    norms = right + all;
    y = STUDY_NEW(double, all);
    grid_vector(&g, 0, x);
    for (uint32_t i = 0; i < g.steps; i++) {
        grid_multiply(&g, x, y);
        norms[i] = serial_norm(&g, y);
        for (size_t k = 0; k < all; k++) {
            x[k] = y[k] / norms[i];
        }
    }
    study_free(y);
    grid_free(&g);
    return right;
}

static void
make(const struct study *s, void *ret_data)
{
    struct grid *g = (struct grid *)ret_data;
    struct block *first;

    grid_init(g, s, 1);
    first = &g->blocks[0];
    study_free(first->raw);
    first->raw = first->y;
    memcpy(first->raw, first->x, g->rows * sizeof(double));
}

static void
drop(const struct study *s, void *data)
{
    (void)s;
    grid_free((struct grid *)data);
}

/* The eigenvalue after all steps against the one that the matrix was made with. */
static int
check_value(const struct study *s, const struct grid *g)
{
    double value = (double)ENTRIES * g->side, got = g->norms[s->steps - 1];

    printf("eigenvalue %.12g, exactly %g\n", got, value);
    if (s->steps >= 40 && fabs(got - value) > 1e-6 * value) {
        printf("it has not converged\n");
        return 1;
    }
    return 0;
}

static int
check(const struct study *s, const void *data, const void *serial_data)
{
    const struct grid *g = (const struct grid *)data;
    const double *right = (const double *)serial_data;
    size_t all = (size_t)g->side * g->rows, n = 0;
    double *x = STUDY_NEW(double, all), *got = STUDY_NEW(double, all);
    int bad;

    grid_vector(g, 0, got);
    for (uint32_t k = 0; k < all; k++) {
        if (study_has_device(s, k / g->rows)) {
            got[n] = got[k];
            x[n++] = right[k];
        }
    }
    bad = study_compare("power", got, x, n);
    if (study_has_rank(s, 0)) {
        bad |= study_compare("power, norms", g->norms, right + all, s->steps) |
               check_value(s, g);
    }
    study_free(x);
    study_free(got);
    return bad;
}

int
main(int argc, char **argv)
{
    const struct study_program program = {
        "power",
        {"rows of a rank", GRID_RANKS, GRID_DEVICES, GRID_ROWS, POWER_STEPS, 1, 0, 0,
         0},
        &power,
        sizeof(struct grid),
        make,
        drop,
        two_model,
        make_right,
        check,
    };

    return study_main(argc, argv, &program);
}
