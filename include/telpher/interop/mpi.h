/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of ranks from an MPI communicator, for any MPI: all in this header, so that
 * libtelpher needs none.
 */
#ifndef TELPHER_INTEROP_MPI_H
#define TELPHER_INTEROP_MPI_H

#include <limits.h>
#include <mpi.h>

#include <telpher/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bootstrap's collective call: user points to the communicator. */
static inline telpher_status
telpher_mpi_allgather(void *user, const void *mine, size_t len, void *all)
{
    if (len > INT_MAX) {
        return TELPHER_ERR_RANGE;
    }
    return MPI_Allgather((void *)(uintptr_t)mine, (int)len, MPI_BYTE, all, (int)len,
                         MPI_BYTE, *(MPI_Comm *)user) == MPI_SUCCESS
               ? TELPHER_OK
               : TELPHER_ERR_IO;
}

/**
 * telpher_context_create() with the ranks of @p comm. Collective over it. MPI is initialised
 * already; the communicator is used during this call only.
 *
 * @param params  NULL = defaults; its bootstrap is not looked at.
 * @return as telpher_context_create(). Since: 0.1.
 */
static inline telpher_status
telpher_context_create_mpi(MPI_Comm comm, const telpher_context_params *params,
                           telpher_context **ret_ctx, telpher_error *err)
{
    telpher_context_params own = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_bootstrap bootstrap;
    int rank, size;

    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(comm, &size) != MPI_SUCCESS) {
        return TELPHER_ERR_INVALID;
    }
    if (params != NULL) {
        own = *params;
    }
    bootstrap.struct_size = sizeof(bootstrap);
    bootstrap.rank = (uint32_t)rank;
    bootstrap.size = (uint32_t)size;
    bootstrap.allgather = telpher_mpi_allgather;
    bootstrap.user = &comm;
    own.bootstrap = &bootstrap;
    return telpher_context_create(&own, ret_ctx, err);
}

#ifdef __cplusplus
}
#endif

#endif
