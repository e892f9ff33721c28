/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the examples: rows of doubles, cut as telpher_block_first() does. */
#ifndef OFFLOAD_ROWS_H
#define OFFLOAD_ROWS_H

#include <stdio.h>
#include <stdlib.h>
#include <telpher/offload.h>

static inline int
first_row(int rows, int parts, int i)
{
    return (int)telpher_block_first((uint64_t)rows, parts, i);
}

/* The nearest part before (@p step -1) or behind (1) @p mine that has rows, too. A part
 * without rows has no neighbours. */
static inline int
neighbour(int rows, int parts, int mine, int step)
{
    if (first_row(rows, parts, mine) == first_row(rows, parts, mine + 1)) {
        return MPI_PROC_NULL;
    }
    for (int i = mine + step; i >= 0 && i < parts; i += step) {
        if (first_row(rows, parts, i) < first_row(rows, parts, i + 1)) {
            return i;
        }
    }
    return MPI_PROC_NULL;
}

/* Memory for @p count doubles of 0, or the end of the job. */
static inline double *
doubles(size_t count)
{
    double *memory = calloc(count + 1, sizeof(double));

    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
    return memory;
}

#endif
