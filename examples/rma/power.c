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

/* Part i, of length 1 now, from device (i, 0) to device (0, i). */
TELPHER_RMA_FN static void
turn(const struct place *p, double norm)
{
    if (p->j == 0) {
        for (uint32_t k = telpher_rma_lane(p->rma); k < p->count;
             k += telpher_rma_lanes(p->rma)) {
            p->block.y[p->first + k] /= norm;
        }
        telpher_rma_put_notify(p->rma, p->x, place_partner(p, 0, p->i),
                               p->first * sizeof(double), &p->block.y[p->first],
                               p->count * sizeof(double), TURNED);
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
    telpher_rma_timer_start(rma);
    for (uint32_t i = 0; i < p.grid->steps; i++) {
        place_get_x(&p);
        place_multiply(&p);
        place_add_up(&p);
        telpher_rma_sync(rma);
        add_squares(&p, square);
        telpher_rma_allreduce(rma, TELPHER_RMA_WORLD, square, square, 1,
                              TELPHER_RMA_F64, TELPHER_RMA_SUM,
                              TELPHER_RMA_FIXED_ORDER);
        if (rma->world_rank == 0 && telpher_rma_lane(rma) == 0) {
            p.grid->norms[i] = sqrt(*square);
        }
        turn(&p, sqrt(*square));
        telpher_rma_sync(rma);
    }
    telpher_rma_timer_stop(rma);
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

int
main(int argc, char **argv)
{
    struct study s = {"rows of a rank", 8, 4, 50, 40, 1, 0};
    struct grid g;
    double *x, *y, *norms, *got, value;
    size_t all;
    int bad;

    study_parse(argc, argv, &s);
    grid_init(&g, &s, 1);
    all = (size_t)g.side * g.rows;
    x = STUDY_NEW(double, all);
    y = STUDY_NEW(double, all);
    got = STUDY_NEW(double, all);
    norms = STUDY_NEW(double, s.steps);
    serial(&g, x, y, norms); /* first: the kernel changes where it began */
    study_run(&s, &power, &g, sizeof(g));
    grid_vector(&g, got);
    value = (double)ENTRIES * g.side;
    bad = study_compare("power", got, x, all) |
          study_compare("power, norms", g.norms, norms, s.steps);
    printf("eigenvalue %.12g, exactly %g\n", g.norms[s.steps - 1], value);
    if (s.steps >= 40 && fabs(g.norms[s.steps - 1] - value) > 1e-6 * value) {
        printf("it has not converged\n");
        bad = 1;
    }
    study_free(x);
    study_free(y);
    study_free(got);
    study_free(norms);
    grid_free(&g);
    return bad;
}
