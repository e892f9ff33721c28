/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of grid.h: makes the blocks, and the product as one processor makes it. */
#ifndef EXAMPLES_RMA_GRID_HOST_H
#define EXAMPLES_RMA_GRID_HOST_H

#include "grid.h"

/** Every device's block; values are 1 to @p values, whole numbers. x is poison where it
 *  must come from elsewhere, sums everywhere. */
static inline void
grid_init(struct grid *g, const struct study *s, uint32_t values)
{
    g->side = (uint32_t)(sqrt(s->devices) + 0.5);
    g->stripes = s->ranks / s->devices;
    g->rows = s->size * g->stripes;
    g->steps = s->steps;
    g->blocks = STUDY_NEW(struct block, s->devices);
    study_on(0, s->devices);
    g->norms = STUDY_NEW(double, s->steps);
    for (uint32_t d = 0; d < s->devices; d++) {
        struct block *b = &g->blocks[d];
        size_t entries = (size_t)g->rows * ENTRIES, came = (size_t)LEVELS_MAX * g->rows;

        study_on(d, s->devices);
        b->columns = STUDY_NEW(uint32_t, entries);
        b->values = STUDY_NEW(double, entries);
        b->x = STUDY_NEW(double, g->rows);
        b->y = STUDY_NEW(double, 2 * (size_t)g->rows);
        b->raw = STUDY_NEW(double, 2 * (size_t)g->rows);
        b->came = STUDY_NEW(double, came);
        b->squares = STUDY_NEW(double, (size_t)s->ranks *SQUARES);
        b->sums = STUDY_NEW(double, s->ranks);
        b->norm = STUDY_NEW(double, 1);
        study_on(0, 0);
        for (size_t e = 0; e < entries; e++) { /* the same for any number of ranks */
            uint64_t row = (uint64_t)(d / g->side) * g->rows + e / ENTRIES;
            uint64_t entry = (uint64_t)(d % g->side) * ENTRIES + e % ENTRIES;

            b->columns[e] = (uint32_t)(study_random(row, entry) % g->rows);
            b->values[e] = (double)(1 + study_random(row, ~entry) % values);
        }
        for (uint32_t k = 0; k < g->rows; k++) {
            uint64_t index = (uint64_t)(d % g->side) * g->rows + k;

            b->x[k] = d < g->side ? (double)(1 + study_random(index, 7) % 9) : NAN;
            b->y[k] = b->y[g->rows + k] = b->raw[g->rows + k] = NAN;
            b->raw[k] = b->x[k];
        }
        for (size_t k = 0; k < came; k++) {
            b->came[k] = NAN;
        }
    }
}

static inline void
grid_free(struct grid *g)
{
    for (uint32_t d = 0; d < g->side * g->side; d++) {
        study_free(g->blocks[d].columns);
        study_free(g->blocks[d].values);
        study_free(g->blocks[d].x);
        study_free(g->blocks[d].y);
        study_free(g->blocks[d].raw != g->blocks[d].y ? g->blocks[d].raw : NULL);
        study_free(g->blocks[d].came);
        study_free(g->blocks[d].squares);
        study_free(g->blocks[d].sums);
        study_free(g->blocks[d].norm);
    }
    study_free(g->blocks);
    study_free(g->norms);
}

/** The vector, which lies in parts with the first row of devices. */
static inline void
grid_vector(const struct grid *g, uint32_t turn, double *dst)
{
    for (size_t k = 0; k < (size_t)g->side * g->rows; k++) {
        dst[k] = grid_turn(g, &g->blocks[k / g->rows], 0, turn)[k % g->rows];
    }
}

/** The product with @p x, all parts one behind the other, as one processor makes it: the
 *  parts of a row are added in the order of the tree. */
static inline void
grid_multiply(const struct grid *g, double *x, double *y)
{
    double *sums = STUDY_NEW(double, g->side);

    for (uint32_t row = 0; row < g->side * g->rows; row++) {
        for (uint32_t j = 0; j < g->side; j++) {
            struct block b = g->blocks[row / g->rows * g->side + j];

            b.x = x + (size_t)j * g->rows;
            sums[j] = block_row(&b, row % g->rows);
        }
        for (uint32_t step = 1; step < g->side; step *= 2) {
            for (uint32_t j = 0; j + step < g->side; j += 2 * step) {
                sums[j] += sums[j + step];
            }
        }
        y[row] = sums[0];
    }
    study_free(sums);
}

#endif
