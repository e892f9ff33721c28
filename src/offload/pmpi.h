/* SPDX-License-Identifier: Apache-2.0 */
/* Used by the generated wrappers of MPI functions. pmpi.py */
#ifndef TELPHER_OFFLOAD_PMPI_H
#define TELPHER_OFFLOAD_PMPI_H

#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop

/** The communicator that replaces MPI_COMM_WORLD; MPI_COMM_WORLD itself until MPI_Init. */
extern MPI_Comm tp_offload_world_comm;

static inline MPI_Comm
tp_offload_comm(MPI_Comm comm)
{
    return comm == MPI_COMM_WORLD ? tp_offload_world_comm : comm;
}

/** A communicator may get the handle of one that is gone; @p rc is passed on. */
int tp_offload_comm_made(int rc, const MPI_Comm *comm);

#endif
