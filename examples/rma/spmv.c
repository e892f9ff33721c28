/* SPDX-License-Identifier: Apache-2.0 */
/* Case study: a sparse matrix times a vector on a square grid of devices. All numbers are
 * whole, so that the product is exact in any order. Steps multiply two vectors in turns. */
#include "grid_host.h"

TELPHER_RMA_KERNEL(spmv)
{
    struct place p;
    double *even, *odd;

    place_init(&p, rma);
    even = grid_turn(p.grid, &p.block, p.i, 0);
    odd = grid_turn(p.grid, &p.block, p.i, 1);
    place_open(&p, p.block.x, 1);
    telpher_rma_timer_start(rma);
    for (uint32_t i = 0; i < p.grid->steps; i++) {
        p.block.x = i % 2 == 0 ? even : odd;
        place_get_stripe(&p, p.block.x);
        if (p.i > 0 && place_does(&p, STUDY_SENDS)) { /* all stripes have arrived */
            telpher_rma_barrier(rma, TELPHER_RMA_DEVICE);
        }
        place_multiply(&p);
        place_add_up(&p);
        if (place_does(&p, STUDY_SENDS)) {
            telpher_rma_barrier(rma, TELPHER_RMA_WORLD); /* x and sums may come again */
        }
    }
    telpher_rma_timer_stop(rma);
}

static void
two_model(study_host *host, const struct study *s, void *data)
{
    for (uint32_t i = 0; i < s->steps; i++) {
        grid_two_model(host, (const struct grid *)data, i);
    }
    study_settle(host);
}

static void
make(const struct study *s, void *ret_data)
{
    struct grid *g = (struct grid *)ret_data;

    grid_init(g, s, 4);
    for (size_t k = 0; k < (size_t)g->side * g->rows; k++) { /* the other vector */
        g->blocks[k / g->rows].raw[g->rows + k % g->rows] =
            (double)(1 + study_random(k, 11) % 9);
    }
}

static void
drop(const struct study *s, void *data)
{
    (void)s;
    grid_free((struct grid *)data);
}

static void *
make_right(const struct study *s)
{
    struct grid fresh;
    double *x, *y;

    make(s, &fresh);
    x = STUDY_NEW(double, (size_t)fresh.side *fresh.rows);
    y = STUDY_NEW(double, (size_t)fresh.side *fresh.rows);
    grid_vector(&fresh, s->steps - 1, x);
    grid_multiply(&fresh, x, y);
    grid_free(&fresh);
    study_free(x);
    return y;
}

static int
check(const struct study *s, const void *data, const void *right)
{
    const struct grid *g = (const struct grid *)data;
    size_t all = (size_t)g->side * g->rows, n = 0;
    double *got = STUDY_NEW(double, all), *y = STUDY_NEW(double, all);
    int bad;

    for (uint32_t k = 0; k < all; k++) {
        if (study_has_device(s, k / g->rows * g->side)) {
            got[n] = g->blocks[k / g->rows * g->side].y[k % g->rows];
            y[n++] = ((const double *)right)[k];
        }
    }
    bad = study_compare("spmv", got, y, n);
    study_free(y);
    study_free(got);
    return bad;
}

int
main(int argc, char **argv)
{
    const struct study_program program = {
        "spmv",
        {"rows of a rank", GRID_RANKS, GRID_DEVICES, GRID_ROWS, SPMV_STEPS, 1, 0, 0, 0},
        &spmv,
        sizeof(struct grid),
        make,
        drop,
        two_model,
        make_right,
        check,
    };

    return study_main(argc, argv, &program);
}
