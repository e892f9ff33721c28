/* SPDX-License-Identifier: Apache-2.0 */
/* Partitioned point to point of adaptive MPI, of MPI 4. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_PARTITIONED_H
#define TELPHER_AMPI_MPI_PARTITIONED_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

TELPHER_MPI_CALL(int, Psend_init,
                 (const void *buf, int partitions, MPI_Count count, MPI_Datatype type,
                  int dest, int tag, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Precv_init,
                 (void *buf, int partitions, MPI_Count count, MPI_Datatype type,
                  int source, int tag, MPI_Comm comm, MPI_Info info,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Pready, (int partition, MPI_Request request));
TELPHER_MPI_CALL(int, Pready_range, (int low, int high, MPI_Request request));
TELPHER_MPI_CALL(int, Pready_list,
                 (int length, const int partitions[], MPI_Request request));
TELPHER_MPI_CALL(int, Parrived, (MPI_Request request, int partition, int *flag));

#ifdef __cplusplus
}
#endif

#endif
