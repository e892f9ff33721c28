/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of workers: launches go down it, results up. Binomial; worker 0 has the
 * most children. */
#include "offload/offload_int.h"

void
tp_offload_tree_init(struct tp_offload_tree *tree)
{
    int low = tree->rank == 0 ? 1 << 30 : tree->rank & -tree->rank;

    tree->parent = tree->rank & (tree->rank - 1);
    tree->count = 0;
    for (int bit = low >> 1; bit != 0; bit >>= 1) {
        if (bit < tree->size - tree->rank) {
            tree->children[tree->count++] = tree->rank + bit;
        }
    }
}

telpher_status
tp_offload_tree_merge(const struct tp_offload_tree *tree,
                      struct tp_offload_report *report)
{
    struct tp_offload_report below;
    MPI_Request request;

    /* the nearest children have the smallest subtrees and are ready first */
    for (int i = tree->count - 1; i >= 0; i--) {
        telpher_status status;

        tp_offload_report_clear(&below);
        PMPI_Irecv(&below, sizeof(below), MPI_BYTE, tree->children[i],
                   TP_OFFLOAD_TAG_MERGE, tree->comm, &request);
        status = tp_offload_mpi_wait(&request, TP_CLOCK_FOREVER);
        if (status == TELPHER_OK) {
            status = tp_offload_report_check(&below);
        }
        if (status != TELPHER_OK) {
            return status;
        }
        tp_offload_report_merge(report, &below);
    }
    if (tree->rank != 0 &&
        PMPI_Send(report, tp_offload_report_len(report), MPI_BYTE, tree->parent,
                  TP_OFFLOAD_TAG_MERGE, tree->comm) != MPI_SUCCESS) {
        return TELPHER_ERR_IO;
    }
    return TELPHER_OK;
}
