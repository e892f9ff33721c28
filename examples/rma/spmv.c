/* SPDX-License-Identifier: Apache-2.0 */
/* Case study: a sparse matrix times a vector on a square grid of devices. All numbers are
 * whole, so that the product is exact in any order. */
#include "grid.h"

TELPHER_RMA_KERNEL(spmv)
{
    struct place p;

    place_init(&p, rma);
    telpher_rma_timer_start(rma);
    for (uint32_t i = 0; i < p.grid->steps; i++) {
        place_get_x(&p);
        place_multiply(&p);
        place_add_up(&p);
        telpher_rma_barrier(rma, TELPHER_RMA_WORLD); /* x and sums may come again */
    }
    telpher_rma_timer_stop(rma);
}

int
main(int argc, char **argv)
{
    struct study s = {"rows of a rank", 8, 4, 50, 10, 1, 0};
    struct grid g;
    double *x, *y, *got;
    size_t all;
    int bad;

    study_parse(argc, argv, &s);
    grid_init(&g, &s, 4);
    all = (size_t)g.side * g.rows;
    x = STUDY_NEW(double, all);
    y = STUDY_NEW(double, all);
    got = STUDY_NEW(double, all);
    grid_vector(&g, x);
    study_run(&s, &spmv, &g, sizeof(g));
    grid_multiply(&g, x, y);
    for (size_t k = 0; k < all; k++) {
        got[k] = g.blocks[k / g.rows * g.side].y[k % g.rows];
    }
    bad = study_compare("spmv", got, y, all);
    study_free(x);
    study_free(y);
    study_free(got);
    grid_free(&g);
    return bad;
}
