/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies of communicators. One is never changed, so duplicates share it. */
#ifndef TELPHER_AMPI_TOPOLOGY_H
#define TELPHER_AMPI_TOPOLOGY_H

#include "ampi/ampi_int.h"

struct tp_ampi_topology {
    unsigned refs;
    int kind; /**< MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH */
    int count; /**< dimensions, or nodes */
    int *dims, *periods; /**< CART */
    int *index, *edges; /**< GRAPH: neighbours of all nodes; index: where those of the
                             next node begin */
    int in_count, out_count; /**< neighbours of this rank */
    int *sources, *destinations; /**< of this rank; may be MPI_PROC_NULL */
    int *in_weights, *out_weights; /**< DIST_GRAPH: NULL: none */
    int numbers[];
};

/** A topology with room for @p room numbers. @return NULL: no memory */
struct tp_ampi_topology *tp_ampi_topology_create(int kind, size_t room);
struct tp_ampi_topology *tp_ampi_topology_ref(struct tp_ampi_topology *topology);
void tp_ampi_topology_unref(struct tp_ampi_topology *topology);
/**
 * Makes a communicator of the first @p size ranks. Takes @p topology, also with an error or at
 * the other ranks, which get MPI_COMM_NULL.
 */
int tp_ampi_topology_give(struct tp_ampi_comm *comm, int size,
                          struct tp_ampi_topology *topology, MPI_Comm *ret);
/** A call's communicator with a topology of @p kind; reports if there is none.
 *  @return an error class */
int tp_ampi_topology_find(MPI_Comm handle, int kind, struct tp_ampi_comm **ret_comm,
                          struct tp_ampi_topology **ret);

#endif
