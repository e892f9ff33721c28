/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case study: the largest eigenvalue by power iteration, on the grid of devices of spmv. A
 * step is a product, its norm from all ranks in a fixed order, and the way of the parts
 * from column 0 to row 0, where the next step begins. Every row of the matrix has the same
 * sum, which is the eigenvalue.
 */
#include <stdio.h>

#include "grid.h"

/* Sum of squares of this rank's stripe, by one lane, so that its order does not depend on
 * how many there are. */
TELPHER_RMA_FN static void
add_squares(const struct place *p, double *square)
{
    if (telpher_rma_lane(p->rma) == 0) {
        *square = 0;
        for (uint32_t k = p->first; p->j == 0 && k < p->first + p->count; k++) {
            *square += p->block.y[k] * p->block.y[k];
        }
    }
}

/* Part i, with length 1. */
TELPHER_RMA_FN static void
scale(const struct place *p, double norm)
{
    for (uint32_t k = telpher_rma_lane(p->rma);
         p->j == 0 && k < p->count && place_does(p, STUDY_COMPUTES);
         k += telpher_rma_lanes(p->rma)) {
        p->block.y[p->first + k] /= norm;
    }
}

/* It goes from device (i, 0) to device (0, i). */
TELPHER_RMA_FN static void
turn(const struct place *p)
{
    if (!place_does(p, STUDY_SENDS)) {
        return;
    }
    if (p->j == 0) {
        telpher_rma_put_notify(p->rma, p->x, place_partner(p, 0, p->i),
                               p->first * sizeof(double), &p->block.y[p->first],
                               p->count * sizeof(double), TURNED);
        telpher_rma_flush(p->rma, p->x); /* y is made anew soon */
    }
    if (p->i == 0) {
        telpher_rma_wait_from(p->rma, TELPHER_RMA_WORLD, place_partner(p, p->j, 0),
                              TURNED, 1);
    }
}

/* The norm's reduction is a barrier, too: nobody reads this step's x behind it. */
TELPHER_RMA_KERNEL(power)
{
    struct place p;
    TELPHER_RMA_SHARED(rma, double, square, 1);

    if (square == NULL) {
        return;
    }
    place_init(&p, rma);
    place_open(&p);
    telpher_rma_timer_start(rma);
    for (uint32_t i = 0; i < p.grid->steps; i++) {
        place_get_x(&p);
        place_multiply(&p);
        place_add_up(&p);
        telpher_rma_sync(rma);
        if (place_does(&p, STUDY_COMPUTES)) {
            add_squares(&p, square);
        }
        if (place_does(&p, STUDY_SENDS)) {
            telpher_rma_allreduce(rma, TELPHER_RMA_WORLD, square, square, 1,
                                  TELPHER_RMA_F64, TELPHER_RMA_SUM,
                                  TELPHER_RMA_FIXED_ORDER);
        }
        telpher_rma_sync(rma);
        if (rma->world_rank == 0 && telpher_rma_lane(rma) == 0) {
            p.grid->norms[i] = sqrt(*square);
        }
        scale(&p, sqrt(*square));
        turn(&p);
        telpher_rma_sync(rma);
    }
    telpher_rma_timer_stop(rma);
}

/* ---- two models: device 0 adds the ranks' squares, in their order ---- */

STUDY_PHASE(squares_phase)
{
    struct place p;

    (void)step;
    place_init(&p, rma);
    add_squares(&p, &p.block.squares[rma->world_rank]);
}

STUDY_PHASE(norm_phase)
{
    struct place p;
    double sum = 0;

    place_init(&p, rma);
    for (uint32_t r = 0; telpher_rma_lane(rma) == 0 && r < rma->world_size; r++) {
        sum += p.block.squares[r]; /* those of columns but the first are 0 */
    }
    if (telpher_rma_lane(rma) == 0) {
        *p.block.norm = p.grid->norms[step] = sqrt(sum);
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

        study_copy(host, 0, &g->blocks[0].squares[first], device,
                   &g->blocks[device].squares[first], g->stripes * sizeof(double), 0,
                   1);
    }
}

static void
two_model(study_host *host, const struct study *s, void *data)
{
    const struct grid *g = (const struct grid *)data;

    for (uint32_t i = 0; i < s->steps; i++) {
        grid_two_model(host, g);
        study_launch(host, squares_phase, i);
        copy_squares(host, g);
        study_launch_one(host, 0, norm_phase, i);
        for (uint32_t k = 1; k < g->side; k++) {
            study_copy(host, k * g->side, g->blocks[k * g->side].norm, 0,
                       g->blocks[0].norm, sizeof(double), 0, 1);
        }
        study_launch(host, scale_phase, i);
        for (uint32_t k = 0; k < g->side; k++) {
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

        for (uint32_t k = first; k < last; k++) {
            square += y[part * g->rows + k] * y[part * g->rows + k];
        }
        sum += square;
    }
    return sqrt(sum);
}

static void
serial(const struct grid *g, double *x, double *y, double *norms)
{
    size_t all = (size_t)g->side * g->rows;

    grid_vector(g, x);
    for (uint32_t i = 0; i < g->steps; i++) {
        grid_multiply(g, x, y);
        norms[i] = serial_norm(g, y);
        for (size_t k = 0; k < all; k++) {
            x[k] = y[k] / norms[i];
        }
    }
}

static void
make(const struct study *s, void *ret_data)
{
    grid_init((struct grid *)ret_data, s, 1);
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
check(const struct study *s, const void *data)
{
    const struct grid *g = (const struct grid *)data;
    size_t all = (size_t)g->side * g->rows;
    double *x = STUDY_NEW(double, all), *y = STUDY_NEW(double, all);
    double *got = STUDY_NEW(double, all), *norms = STUDY_NEW(double, s->steps);
    struct grid fresh;
    int bad;

    grid_init(&fresh, s, 1);
    serial(&fresh, x, y, norms);
    grid_free(&fresh);
    grid_vector(g, got);
    all = 0;
    for (uint32_t k = 0; k < g->side * g->rows; k++) {
        if (study_has_device(s, k / g->rows)) {
            got[all] = got[k];
            x[all++] = x[k];
        }
    }
    bad = study_compare("power", got, x, all);
    if (study_has_rank(s, 0)) {
        bad |= study_compare("power, norms", g->norms, norms, s->steps) |
               check_value(s, g);
    }
    study_free(x);
    study_free(y);
    study_free(got);
    study_free(norms);
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
        check,
        0,
    };

    return study_main(argc, argv, &program);
}
