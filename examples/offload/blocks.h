/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows in blocks, over P parents and over C children: what each sends to each. For
 * MPI_Alltoallv() over the intercommunicator between them.
 */
#ifndef OFFLOAD_BLOCKS_H
#define OFFLOAD_BLOCKS_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* First row of block @p i of @p parts; the end is the first of block i + 1. */
static inline int
first_row(int rows, int parts, int i)
{
    return (int)((long)rows * i / parts);
}

/* How many elements this side's block @p mine has in common with each of the other's
 * blocks, and where they begin in its own memory. */
static inline void
common_rows(int rows, int columns, int my_parts, int mine, int parts, int *counts,
            int *offsets)
{
    int from = first_row(rows, my_parts, mine),
        to = first_row(rows, my_parts, mine + 1);

    for (int i = 0; i < parts; i++) {
        int low = first_row(rows, parts, i), high = first_row(rows, parts, i + 1);

        low = low > from ? low : from;
        high = high < to ? high : to;
        counts[i] = high > low ? (high - low) * columns : 0;
        offsets[i] = high > low ? (low - from) * columns : 0;
    }
}

/* Sends the block @p data, if @p sends, to the other side, or receives it from there. */
static inline void
move_blocks(double *data, int rows, int columns, int sends, MPI_Comm inter)
{
    int mine, my_parts, parts, *table, *none;

    MPI_Comm_rank(inter, &mine);
    MPI_Comm_size(inter, &my_parts);
    MPI_Comm_remote_size(inter, &parts);
    table = calloc((size_t)parts * 2, sizeof(int));
    none = calloc((size_t)parts, sizeof(int));
    if (table == NULL || none == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
    common_rows(rows, columns, my_parts, mine, parts, table, table + parts);
    if (sends) {
        MPI_Alltoallv(data, table, table + parts, MPI_DOUBLE, data, none, none,
                      MPI_DOUBLE, inter);
    } else {
        MPI_Alltoallv(data, none, none, MPI_DOUBLE, data, table, table + parts,
                      MPI_DOUBLE, inter);
    }
    free(table);
    free(none);
}

/* Memory for @p count doubles of 0, or the end. */
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
