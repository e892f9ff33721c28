/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent collective calls of adaptive MPI, of MPI 4. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_PERSISTENT_H
#define TELPHER_AMPI_MPI_PERSISTENT_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

TELPHER_MPI_CALL(int, Barrier_init,
                 (MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Bcast_init,
                 (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Gather_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Gatherv_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  int root, MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Scatter_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Scatterv_init,
                 (const void *out, const int out_counts[], const int displs[],
                  MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
                  int root, MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Allgather_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Allgatherv_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoall_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoallv_init,
                 (const void *out, const int out_counts[], const int out_displs[],
                  MPI_Datatype out_type, void *in, const int in_counts[],
                  const int in_displs[], MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoallw_init,
                 (const void *out, const int out_counts[], const int out_displs[],
                  const MPI_Datatype out_types[], void *in, const int in_counts[],
                  const int in_displs[], const MPI_Datatype in_types[], MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_init,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  int root, MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Allreduce_init,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_scatter_init,
                 (const void *out, void *in, const int counts[], MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_scatter_block_init,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Scan_init,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Exscan_init,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_allgather_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_allgatherv_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoall_init,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoallv_init,
                 (const void *out, const int out_counts[], const int out_displs[],
                  MPI_Datatype out_type, void *in, const int in_counts[],
                  const int in_displs[], MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoallw_init,
                 (const void *out, const int out_counts[], const MPI_Aint out_displs[],
                  const MPI_Datatype out_types[], void *in, const int in_counts[],
                  const MPI_Aint in_displs[], const MPI_Datatype in_types[],
                  MPI_Comm comm, MPI_Info info, MPI_Request *request));

#ifdef __cplusplus
}
#endif

#endif
