/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and displacements of MPI_Alltoallv() for blocks of rows between the two
 * sides of an intercommunicator. */
#include <limits.h>

#include "base/alloc.h"
#include "offload/blocks.h"
#include "offload/offload_int.h"

bool
tp_offload_is_inter(MPI_Comm comm)
{
    int flag = 0;

    return comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &flag) == MPI_SUCCESS &&
           flag;
}

telpher_status
telpher_block_counts(uint64_t rows, uint64_t elements, MPI_Comm inter, int counts[],
                     int displacements[])
{
    struct tp_offload_block mine;
    int rank, parts, others;

    if (!tp_offload_is_inter(inter)) {
        return TELPHER_ERR_INVALID;
    }
    PMPI_Comm_rank(inter, &rank);
    PMPI_Comm_size(inter, &parts);
    PMPI_Comm_remote_size(inter, &others);
    mine = tp_offload_block_of(rows, parts, rank);
    if (mine.count != 0 && elements > INT_MAX / mine.count) {
        return TELPHER_ERR_RANGE;
    }
    for (int i = 0; i < others; i++) {
        struct tp_offload_block both =
            tp_offload_block_common(mine, tp_offload_block_of(rows, others, i));

        counts[i] = (int)(both.count * elements);
        displacements[i] =
            both.count != 0 ? (int)((both.first - mine.first) * elements) : 0;
    }
    return TELPHER_OK;
}

static int
exchange(void *block, bool sends, const int *counts, const int *displacements,
         const int *none, MPI_Datatype row, MPI_Comm inter)
{
    char nothing = 0;

    return sends ? PMPI_Alltoallv(block, counts, displacements, row, &nothing, none,
                                  none, row, inter)
                 : PMPI_Alltoallv(&nothing, none, none, row, block, counts,
                                  displacements, row, inter);
}

static telpher_status
move(void *block, bool sends, uint64_t rows, uint64_t elements, MPI_Datatype type,
     MPI_Comm inter)
{
    MPI_Datatype row;
    telpher_status status;
    int others, *tables;

    if (!tp_offload_is_inter(inter)) {
        return TELPHER_ERR_INVALID;
    }
    if (elements > INT_MAX || rows > INT_MAX) { /* both sides compute the same */
        return TELPHER_ERR_RANGE;
    }
    PMPI_Comm_remote_size(inter, &others);
    tables = tp_alloc_array((size_t)others, 3 * sizeof(int), "counts");
    if (tables == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = telpher_block_counts(rows, 1, inter, tables, tables + others);
    if (status == TELPHER_OK) {
        PMPI_Type_contiguous((int)elements, type, &row);
        PMPI_Type_commit(&row);
        if (exchange(block, sends, tables, tables + others, tables + 2 * others, row,
                     inter) != MPI_SUCCESS) {
            status = TELPHER_ERR_IO;
        }
        PMPI_Type_free(&row);
    }
    tp_free(tables);
    return status;
}

telpher_status
telpher_block_send(const void *block, uint64_t rows, uint64_t elements,
                   MPI_Datatype type, MPI_Comm inter)
{
    /* MPI declares arguments that it only reads without const */
    return move((void *)(uintptr_t)block, true, rows, elements, type, inter);
}

telpher_status
telpher_block_receive(void *block, uint64_t rows, uint64_t elements, MPI_Datatype type,
                      MPI_Comm inter)
{
    return move(block, false, rows, elements, type, inter);
}
