/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls between neighbours of a topology, which tells the number of their blocks. */
#include "mpidev/collective.h"

/* Processes that send to this one, or that it sends to; 0: @p comm has no topology, and MPI will
 * say so. */
static int
neighbors(MPI_Comm comm, bool incoming)
{
    int kind = MPI_UNDEFINED, n = 0, out = 0, weighted, rank = 0;

    (void)PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART && PMPI_Cartdim_get(comm, &n) == MPI_SUCCESS) {
        return 2 * n;
    }
    if (kind == MPI_GRAPH && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS) {
        (void)PMPI_Graph_neighbors_count(comm, rank, &n);
        return n;
    }
    if (kind == MPI_DIST_GRAPH) {
        (void)PMPI_Dist_graph_neighbors_count(comm, &n, &out, &weighted);
    }
    return incoming ? n : out;
}

#define SOURCES neighbors(comm, true)
#define TARGETS neighbors(comm, false)

/* clang-format off */
COLLECTIVE(Neighbor_allgather, Ineighbor_allgather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     MPI_Comm comm),
    out, in, BUFFER(0, out, out_count, out_type, IN), BUFFER(1, in, (int64_t)in_count * SOURCES, in_type, OUT),
    (out, out_count, out_type, in, in_count, in_type, comm),
    (A, out_count, out_type, B, in_count, in_type, comm))
COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, const int *in_counts,
     const int *displs, MPI_Datatype in_type, MPI_Comm comm),
    out, in, BUFFER(0, out, out_count, out_type, IN), BLOCKS_OF(1, SOURCES, in, in_counts, displs, in_type, OUT),
    (out, out_count, out_type, in, in_counts, displs, in_type, comm),
    (A, out_count, out_type, B, in_counts, displs, in_type, comm))
COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     MPI_Comm comm),
    out, in, BUFFER(0, out, (int64_t)out_count * TARGETS, out_type, IN),
    BUFFER(1, in, (int64_t)in_count * SOURCES, in_type, OUT),
    (out, out_count, out_type, in, in_count, in_type, comm),
    (A, out_count, out_type, B, in_count, in_type, comm))
COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv,
    (const void *out, const int *out_counts, const int *out_displs, MPI_Datatype out_type, void *in,
     const int *in_counts, const int *in_displs, MPI_Datatype in_type, MPI_Comm comm),
    out, in, BLOCKS_OF(0, TARGETS, out, out_counts, out_displs, out_type, IN),
    BLOCKS_OF(1, SOURCES, in, in_counts, in_displs, in_type, OUT),
    (out, out_counts, out_displs, out_type, in, in_counts, in_displs, in_type, comm),
    (A, out_counts, out_displs, out_type, B, in_counts, in_displs, in_type, comm))
COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw,
    (const void *out, const int *out_counts, const MPI_Aint *out_displs, const MPI_Datatype *out_types,
     void *in, const int *in_counts, const MPI_Aint *in_displs, const MPI_Datatype *in_types, MPI_Comm comm),
    out, in, TYPED_OF(0, TARGETS, out, out_counts, NULL, out_displs, out_types, IN),
    TYPED_OF(1, SOURCES, in, in_counts, NULL, in_displs, in_types, OUT),
    (out, out_counts, out_displs, out_types, in, in_counts, in_displs, in_types, comm),
    (A, out_counts, out_displs, out_types, B, in_counts, in_displs, in_types, comm))
/* clang-format on */
