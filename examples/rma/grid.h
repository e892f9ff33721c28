/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sparse matrix on a square grid of devices, and its product with a vector: what the case
 * studies spmv and power have in common. Kernels are one source, so this is a header.
 *
 * Device (i, j) has block (i, j). The vector's part j begins on device (0, j) and goes down
 * the columns by a binomial tree; products go along the rows to column 0, likewise. Rank r
 * of a device moves stripe r of both, to and from ranks r of other devices.
 */
#ifndef EXAMPLES_RMA_GRID_H
#define EXAMPLES_RMA_GRID_H

#include <math.h>

#include "phases.h"

#ifdef STUDY_THESIS /* blocks of 10,816 x 10,816, of which 0.3 % is not 0 */
enum { ENTRIES = 32, GRID_RANKS = 208, GRID_DEVICES = 1, GRID_ROWS = 52 };
enum { SPMV_STEPS = 100, POWER_STEPS = 100 };
#else
enum {
    ENTRIES = 12,
    GRID_RANKS = 8,
    GRID_DEVICES = 4,
    GRID_ROWS = 50
}; /* ENTRIES: of a block's row */
enum { SPMV_STEPS = 10, POWER_STEPS = 40 };
#endif
enum { LEVELS_MAX = 10 }; /* 2^10 columns of devices */
enum { SQUARES = 32 }; /* parts of a rank's sum, so that lanes share it in any number */
enum grid_tags { STRIPE_CAME, TURNED, SUM_CAME /* + level */ };

/** One device's memory. */
struct block {
    uint32_t *columns; /* ENTRIES a row */
    double *values;
    double *x, *y; /* y: power has two, in turns */
    double
        *raw; /* power: x without its length, as it came; in turns. spmv: the other x */
    double *came; /* sums from other devices, a vector for each level of the tree */
    double *squares; /* power: of each rank, in SQUARES parts */
    double *sums, *norm; /* power, two models: of each rank's; of this step */
};

struct grid {
    uint32_t does; /* enum study_does */
    uint32_t side, rows; /* devices in a row or column; rows of a block */
    uint32_t stripes; /* ranks of a device */
    uint32_t steps;
    struct block *blocks;
    double *norms; /* power: of each step */
};

/** A rank's place in the grid. */
struct place {
    telpher_rma *rma;
    const struct grid *grid;
    struct block block;
    telpher_rma_win x, came; /* x, or raw, and where it begins there */
    uint64_t begin;
    uint32_t i, j, first, count; /* its stripe */
};

/** Without windows. */
TELPHER_RMA_FN static inline void
place_init(struct place *p, telpher_rma *rma)
{
    const struct grid *g = (const struct grid *)telpher_rma_data(rma);

    p->rma = rma;
    p->grid = g;
    p->block = g->blocks[rma->device];
    p->begin = 0;
    p->i = rma->device / g->side;
    p->j = rma->device % g->side;
    p->first = study_first(g->rows, g->stripes, rma->device_rank);
    p->count = study_first(g->rows, g->stripes, rma->device_rank + 1) - p->first;
}

/** Opens windows; @p x is a vector of @p count times the rows. */
TELPHER_RMA_FN static inline void
place_open(struct place *p, double *x, uint32_t count)
{
    uint64_t len = p->grid->rows * sizeof(double);

    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, x, count * len, &p->x);
    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, p->block.came, LEVELS_MAX * len,
                           &p->came);
}

TELPHER_RMA_FN static inline int
place_does(const struct place *p, enum study_does what)
{
    return (p->grid->does & (uint32_t)what) != 0;
}

/** The rank with the same stripe on device (i, j). */
TELPHER_RMA_FN static inline uint32_t
place_partner(const struct place *p, uint32_t i, uint32_t j)
{
    return (i * p->grid->side + j) * p->grid->stripes + p->rma->device_rank;
}

/** This rank's stripe of @p x, what the window has, comes from above and goes down. */
TELPHER_RMA_FN static inline void
place_get_stripe(const struct place *p, const double *x)
{
    uint32_t side = p->grid->side, step = 1;

    if (!place_does(p, STUDY_SENDS)) {
        return;
    }
    while (step <= p->i) { /* the highest power of two in i says who sends to i */
        step *= 2;
    }
    if (p->i > 0) {
        telpher_rma_wait_from(p->rma, TELPHER_RMA_WORLD,
                              place_partner(p, p->i - step / 2, p->j), STRIPE_CAME, 1);
    }
    for (; p->i + step < side; step *= 2) {
        telpher_rma_put_notify(p->rma, p->x, place_partner(p, p->i + step, p->j),
                               (p->begin + p->first) * sizeof(double), &x[p->first],
                               p->count * sizeof(double), STRIPE_CAME);
    }
}

TELPHER_RMA_FN_BOTH static inline double
block_row(const struct block *b, uint32_t row)
{
    double sum = 0;

    for (uint32_t e = 0; e < ENTRIES; e++) {
        size_t entry = (size_t)row * ENTRIES + e;

        sum += b->values[entry] * b->x[b->columns[entry]];
    }
    return sum;
}

TELPHER_RMA_FN static inline void
place_multiply(const struct place *p)
{
    for (uint32_t k = telpher_rma_lane(p->rma);
         k < p->count && place_does(p, STUDY_COMPUTES);
         k += telpher_rma_lanes(p->rma)) {
        p->block.y[p->first + k] = block_row(&p->block, p->first + k);
    }
}

/** The sum that came for @p level of the tree. */
TELPHER_RMA_FN static inline void
place_add(const struct place *p, uint32_t level)
{
    size_t at = (size_t)level * p->grid->rows + p->first;

    for (uint32_t k = telpher_rma_lane(p->rma);
         k < p->count && place_does(p, STUDY_COMPUTES);
         k += telpher_rma_lanes(p->rma)) {
        p->block.y[p->first + k] += p->block.came[at + k];
    }
}

/** True if device (i, @p j) gets a sum from (i, j + @p step). */
TELPHER_RMA_FN_BOTH static inline int
grid_gets_sum(const struct grid *g, uint32_t j, uint32_t step)
{
    return j % (2 * step) == 0 && j + step < g->side;
}

/** Sums of the row's devices, in column 0. */
TELPHER_RMA_FN static inline void
place_add_up(const struct place *p)
{
    uint32_t side = p->grid->side, level = 0;

    for (uint32_t step = 1; step < side && p->j % step == 0; step *= 2, level++) {
        size_t at = (size_t)level * p->grid->rows + p->first;

        if (p->j % (2 * step) == step && place_does(p, STUDY_SENDS)) {
            telpher_rma_put_notify(p->rma, p->came, place_partner(p, p->i, p->j - step),
                                   at * sizeof(double), &p->block.y[p->first],
                                   p->count * sizeof(double), SUM_CAME + level);
        } else if (grid_gets_sum(p->grid, p->j, step)) {
            if (place_does(p, STUDY_SENDS)) {
                telpher_rma_wait_from(p->rma, TELPHER_RMA_WORLD,
                                      place_partner(p, p->i, p->j + step),
                                      SUM_CAME + level, 1);
            }
            place_add(p, level);
        }
    }
}

/* ---- two models: the host copies blocks of vectors, in the same trees ---- */

/** The start of x on a device in row @p i. There are two, used in turns: every step has
 *  another one, so that data of the step before cannot be mistaken for its own. */
TELPHER_RMA_FN_BOTH static inline double *
grid_turn(const struct grid *g, const struct block *b, uint32_t i, uint32_t turn)
{
    return i == 0 && turn % 2 != 0 ? b->raw + g->rows : b->x;
}

/* The step is x's turn. */
STUDY_PHASE(multiply_phase)
{
    struct place p;

    place_init(&p, rma);
    p.block.x = grid_turn(p.grid, &p.block, p.i, step);
    place_multiply(&p);
}

/* The step is a level of the tree. */
STUDY_PHASE(add_phase)
{
    struct place p;

    place_init(&p, rma);
    if (grid_gets_sum(p.grid, p.j, 1u << step)) {
        place_add(&p, step);
    }
}

static inline void
grid_copy_x(study_host *host, const struct grid *g, uint32_t turn)
{
    for (uint32_t step = 1; step < g->side; step *= 2) {
        for (uint32_t d = 0;
             d < step * g->side && d + step * g->side < g->side * g->side; d++) {
            study_copy(host, d + step * g->side, g->blocks[d + step * g->side].x, d,
                       grid_turn(g, &g->blocks[d], d / g->side, turn),
                       g->rows * sizeof(double), 0, 1);
        }
        study_then(host); /* who got it sends it on */
    }
}

/** A product: x to all rows of devices, then sums in column 0. @p turn: x's, of two */
static inline void
grid_two_model(study_host *host, const struct grid *g, uint32_t turn)
{
    grid_copy_x(host, g, turn);
    study_launch(host, multiply_phase, turn);
    for (uint32_t step = 1, level = 0; step < g->side; step *= 2, level++) {
        for (uint32_t d = 0; d < g->side * g->side; d++) {
            if (grid_gets_sum(g, d % g->side, step)) {
                study_copy(host, d, g->blocks[d].came + (size_t)level * g->rows,
                           d + step, g->blocks[d + step].y, g->rows * sizeof(double), 0,
                           1);
            }
        }
        study_launch(host, add_phase, level);
    }
}

#endif
