/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies of adaptive MPI, and collective calls with neighbours. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_TOPOLOGY_H
#define TELPHER_AMPI_MPI_TOPOLOGY_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Results of MPI_Topo_test. */
enum telpher_mpi_topology { MPI_GRAPH = 1, MPI_CART = 2, MPI_DIST_GRAPH = 3 };

TELPHER_MPI_CALL(int, Topo_test, (MPI_Comm comm, int *kind));
TELPHER_MPI_CALL(int, Dims_create, (int size, int count, int dims[]));

TELPHER_MPI_CALL(int, Cart_create,
                 (MPI_Comm comm, int count, const int dims[], const int periods[],
                  int reorder, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Cartdim_get, (MPI_Comm comm, int *count));
TELPHER_MPI_CALL(int, Cart_get,
                 (MPI_Comm comm, int max, int dims[], int periods[], int coords[]));
TELPHER_MPI_CALL(int, Cart_rank, (MPI_Comm comm, const int coords[], int *rank));
TELPHER_MPI_CALL(int, Cart_coords, (MPI_Comm comm, int rank, int max, int coords[]));
TELPHER_MPI_CALL(int, Cart_shift,
                 (MPI_Comm comm, int dim, int steps, int *source, int *dest));
TELPHER_MPI_CALL(int, Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *ret));
TELPHER_MPI_CALL(int, Cart_map,
                 (MPI_Comm comm, int count, const int dims[], const int periods[],
                  int *rank));

TELPHER_MPI_CALL(int, Graph_create,
                 (MPI_Comm comm, int nodes, const int index[], const int edges[],
                  int reorder, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Graphdims_get, (MPI_Comm comm, int *nodes, int *edges));
TELPHER_MPI_CALL(int, Graph_get,
                 (MPI_Comm comm, int max_index, int max_edges, int index[],
                  int edges[]));
TELPHER_MPI_CALL(int, Graph_neighbors_count, (MPI_Comm comm, int rank, int *count));
TELPHER_MPI_CALL(int, Graph_neighbors,
                 (MPI_Comm comm, int rank, int max, int neighbors[]));
TELPHER_MPI_CALL(int, Graph_map,
                 (MPI_Comm comm, int nodes, const int index[], const int edges[],
                  int *rank));

TELPHER_MPI_CALL(int, Dist_graph_create_adjacent,
                 (MPI_Comm comm, int in_count, const int sources[],
                  const int in_weights[], int out_count, const int destinations[],
                  const int out_weights[], MPI_Info info, int reorder, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Dist_graph_create,
                 (MPI_Comm comm, int count, const int sources[], const int degrees[],
                  const int destinations[], const int weights[], MPI_Info info,
                  int reorder, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Dist_graph_neighbors_count,
                 (MPI_Comm comm, int *in_count, int *out_count, int *weighted));
TELPHER_MPI_CALL(int, Dist_graph_neighbors,
                 (MPI_Comm comm, int max_in, int sources[], int in_weights[],
                  int max_out, int destinations[], int out_weights[]));

TELPHER_MPI_CALL(int, Neighbor_allgather,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ineighbor_allgather,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_allgatherv,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Ineighbor_allgatherv,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoall,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ineighbor_alltoall,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoallv,
                 (const void *out, const int out_counts[], const int out_displs[],
                  MPI_Datatype out_type, void *in, const int in_counts[],
                  const int in_displs[], MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ineighbor_alltoallv,
                 (const void *out, const int out_counts[], const int out_displs[],
                  MPI_Datatype out_type, void *in, const int in_counts[],
                  const int in_displs[], MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoallw,
                 (const void *out, const int out_counts[], const MPI_Aint out_displs[],
                  const MPI_Datatype out_types[], void *in, const int in_counts[],
                  const MPI_Aint in_displs[], const MPI_Datatype in_types[],
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Ineighbor_alltoallw,
                 (const void *out, const int out_counts[], const MPI_Aint out_displs[],
                  const MPI_Datatype out_types[], void *in, const int in_counts[],
                  const MPI_Aint in_displs[], const MPI_Datatype in_types[],
                  MPI_Comm comm, MPI_Request *request));

#ifdef __cplusplus
}
#endif

#endif
