/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls of adaptive MPI. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_COLLECTIVE_H
#define TELPHER_AMPI_MPI_COLLECTIVE_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

TELPHER_MPI_CALL(int, Barrier, (MPI_Comm comm));
TELPHER_MPI_CALL(int, Ibarrier, (MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Bcast,
                 (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ibcast,
                 (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Gather,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Igather,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Gatherv,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Igatherv,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  int root, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Scatter,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Iscatter,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Scatterv,
                 (const void *out, const int out_counts[], const int displs[],
                  MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
                  int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Iscatterv,
                 (const void *out, const int out_counts[], const int displs[],
                  MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
                  int root, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Allgather,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Iallgather,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Allgatherv,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Iallgatherv,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  const int in_counts[], const int displs[], MPI_Datatype in_type,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoall,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ialltoall,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoallv,
                 (const void *out, const int out_counts[], const int out_displs[],
                  MPI_Datatype out_type, void *in, const int in_counts[],
                  const int in_displs[], MPI_Datatype in_type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ialltoallv,
                 (const void *out, const int out_counts[], const int out_displs[],
                  MPI_Datatype out_type, void *in, const int in_counts[],
                  const int in_displs[], MPI_Datatype in_type, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Alltoallw,
                 (const void *out, const int out_counts[], const int out_displs[],
                  const MPI_Datatype out_types[], void *in, const int in_counts[],
                  const int in_displs[], const MPI_Datatype in_types[], MPI_Comm comm));
TELPHER_MPI_CALL(int, Ialltoallw,
                 (const void *out, const int out_counts[], const int out_displs[],
                  const MPI_Datatype out_types[], void *in, const int in_counts[],
                  const int in_displs[], const MPI_Datatype in_types[], MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  int root, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ireduce,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  int root, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Allreduce,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Iallreduce,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_scatter,
                 (const void *out, void *in, const int counts[], MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ireduce_scatter,
                 (const void *out, void *in, const int counts[], MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_scatter_block,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Ireduce_scatter_block,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Scan,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Iscan,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Exscan,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Iexscan,
                 (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm, MPI_Request *request));

#ifdef __cplusplus
}
#endif

#endif
