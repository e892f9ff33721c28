/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls of adaptive MPI with large counts. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_LARGE_COLLECTIVE_H
#define TELPHER_AMPI_MPI_LARGE_COLLECTIVE_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

TELPHER_MPI_CALL(int, Allgather_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Allgather_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Allgatherv_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Allgatherv_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Allreduce_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm));
TELPHER_MPI_CALL(int, Allreduce_init_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoall_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Alltoall_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoallv_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Alltoallv_init_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoallw_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], const MPI_Datatype out_types[], void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  const MPI_Datatype in_types[], MPI_Comm comm));
TELPHER_MPI_CALL(int, Alltoallw_init_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], const MPI_Datatype out_types[], void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  const MPI_Datatype in_types[], MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Bcast_c,
                 (void *buffer, MPI_Count count, MPI_Datatype type, int root,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Bcast_init_c,
                 (void *buffer, MPI_Count count, MPI_Datatype type, int root,
                  MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Exscan_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm));
TELPHER_MPI_CALL(int, Exscan_init_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Gather_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Gather_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Gatherv_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Gatherv_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Iallgather_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Iallgatherv_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Iallreduce_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ialltoall_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Ialltoallv_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ialltoallw_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], const MPI_Datatype out_types[], void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  const MPI_Datatype in_types[], MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ibcast_c,
                 (void *buffer, MPI_Count count, MPI_Datatype type, int root,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Iexscan_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Igather_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Igatherv_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ineighbor_allgather_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Ineighbor_allgatherv_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ineighbor_alltoall_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Ineighbor_alltoallv_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ineighbor_alltoallw_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], const MPI_Datatype out_types[], void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  const MPI_Datatype in_types[], MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ireduce_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, int root, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ireduce_scatter_c,
                 (const void *out, void *in, const MPI_Count counts[],
                  MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ireduce_scatter_block_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Iscan_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Iscatter_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Iscatterv_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint displs[], MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_allgather_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Neighbor_allgather_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_allgatherv_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Neighbor_allgatherv_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint displs[],
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoall_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Neighbor_alltoall_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoallv_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Neighbor_alltoallv_init_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], MPI_Datatype out_type, void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Neighbor_alltoallw_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], const MPI_Datatype out_types[], void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  const MPI_Datatype in_types[], MPI_Comm comm));
TELPHER_MPI_CALL(int, Neighbor_alltoallw_init_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint out_displs[], const MPI_Datatype out_types[], void *in,
                  const MPI_Count in_counts[], const MPI_Aint in_displs[],
                  const MPI_Datatype in_types[], MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Reduce_init_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, int root, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_scatter_c,
                 (const void *out, void *in, const MPI_Count counts[],
                  MPI_Datatype type, MPI_Op op, MPI_Comm comm));
TELPHER_MPI_CALL(int, Reduce_scatter_block_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm));
TELPHER_MPI_CALL(int, Reduce_scatter_block_init_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_scatter_init_c,
                 (const void *out, void *in, const MPI_Count counts[],
                  MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Scan_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm));
TELPHER_MPI_CALL(int, Scan_init_c,
                 (const void *out, void *in, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Scatter_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Scatter_init_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));
TELPHER_MPI_CALL(int, Scatterv_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint displs[], MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Scatterv_init_c,
                 (const void *out, const MPI_Count out_counts[],
                  const MPI_Aint displs[], MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Info info, MPI_Request *request));

#ifdef __cplusplus
}
#endif

#endif
