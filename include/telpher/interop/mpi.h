/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of ranks from an MPI communicator, for any MPI: all in this header, so that
 * libtelpher needs none.
 */
#ifndef TELPHER_INTEROP_MPI_H
#define TELPHER_INTEROP_MPI_H

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- two_sided.h, by MPI ---- */

/* The table's user: a duplicated communicator, separate from the program's messages. */
typedef struct telpher_mpi {
    MPI_Comm comm;
    unsigned uses;
    int unclean;
} telpher_mpi;

/* A request is a number or a pointer; this is refused by the compiler if it does not fit. */
typedef char
    telpher_mpi_request_fits[sizeof(MPI_Request) <= sizeof(telpher_two_sided_op) ? 1
                                                                                 : -1];

static inline MPI_Request
telpher_mpi_request(const telpher_two_sided_op *op)
{
    MPI_Request request;

    memcpy(&request, op, sizeof(request));
    return request;
}

static inline telpher_status
telpher_mpi_begun(int error, MPI_Request request, telpher_two_sided_op *op)
{
    memcpy(op, &request, sizeof(request));
    return error == MPI_SUCCESS ? TELPHER_OK : TELPHER_ERR_IO;
}

static inline telpher_status
telpher_mpi_send(void *user, const void *src, size_t len, uint32_t to, uint32_t tag,
                 int matched, telpher_two_sided_op *op)
{
    MPI_Comm comm = ((telpher_mpi *)user)->comm;
    MPI_Request request = MPI_REQUEST_NULL;
    void *from = (void *)(uintptr_t)src;
    int error =
        matched != 0
            ? MPI_Issend(from, (int)len, MPI_BYTE, (int)to, (int)tag, comm, &request)
            : MPI_Isend(from, (int)len, MPI_BYTE, (int)to, (int)tag, comm, &request);

    return telpher_mpi_begun(error, request, op);
}

static inline telpher_status
telpher_mpi_recv(void *user, void *dst, size_t len, uint32_t from, uint32_t tag,
                 telpher_two_sided_op *op)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int source = from == TELPHER_ANY_RANK ? MPI_ANY_SOURCE : (int)from;
    int error = MPI_Irecv(dst, (int)len, MPI_BYTE, source, (int)tag,
                          ((telpher_mpi *)user)->comm, &request);

    return telpher_mpi_begun(error, request, op);
}

static inline telpher_status
telpher_mpi_test(void *user, telpher_two_sided_op *op, uint32_t *ret_from,
                 size_t *ret_len)
{
    MPI_Request request = telpher_mpi_request(op);
    MPI_Status status;
    int done = 0, canceled = 0, len = 0, kind = MPI_SUCCESS;
    int error = MPI_Test(&request, &done, &status);

    (void)user;
    memcpy(op, &request, sizeof(request));
    if (error != MPI_SUCCESS) {
        MPI_Error_class(error, &kind);
        return kind == MPI_ERR_TRUNCATE ? TELPHER_ERR_TRUNCATED : TELPHER_ERR_IO;
    }
    if (done == 0) {
        return TELPHER_IN_PROGRESS;
    }
    MPI_Test_cancelled(&status, &canceled);
    if (canceled != 0) {
        return TELPHER_ERR_CANCELED;
    }
    if (ret_from != NULL) {
        *ret_from = (uint32_t)status.MPI_SOURCE;
    }
    if (ret_len != NULL) {
        MPI_Get_count(&status, MPI_BYTE, &len);
        *ret_len = (size_t)len;
    }
    return TELPHER_OK;
}

static inline void
telpher_mpi_cancel(void *user, telpher_two_sided_op *op)
{
    MPI_Request request = telpher_mpi_request(op);

    (void)user;
    if (request != MPI_REQUEST_NULL) {
        MPI_Cancel(&request);
    }
}

static inline void
telpher_mpi_forget(void *user, telpher_two_sided_op *op)
{
    MPI_Request request = telpher_mpi_request(op);

    (void)user;
    if (request != MPI_REQUEST_NULL) {
        MPI_Request_free(&request);
    }
}

static inline void
telpher_mpi_retain(void *user)
{
    ((telpher_mpi *)user)->uses++;
}

static inline void
telpher_mpi_release(void *user, int clean)
{
    telpher_mpi *mpi = (telpher_mpi *)user;

    mpi->unclean |= clean == 0;
    if (--mpi->uses == 0) {
        if (mpi->unclean == 0) {
            MPI_Comm_free(&mpi->comm); /* else MPI_Finalize() ends it */
        }
        free(mpi);
    }
}

/* Collective over @p comm. @return NULL: no memory, or MPI refuses */
static inline telpher_mpi *
telpher_mpi_open(MPI_Comm comm, telpher_two_sided *ret_calls)
{
    telpher_mpi *mpi = (telpher_mpi *)calloc(1, sizeof(*mpi));
    int *tag_max = NULL, found = 0;

    if (mpi == NULL || MPI_Comm_dup(comm, &mpi->comm) != MPI_SUCCESS) {
        free(mpi);
        return NULL;
    }
    mpi->uses = 1;
    MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr(mpi->comm, MPI_TAG_UB, &tag_max, &found);
    memset(ret_calls, 0, sizeof(*ret_calls));
    ret_calls->struct_size = sizeof(*ret_calls);
    ret_calls->tag_max = found != 0 ? (uint32_t)*tag_max : 32767;
    ret_calls->user = mpi;
    ret_calls->send = telpher_mpi_send;
    ret_calls->recv = telpher_mpi_recv;
    ret_calls->test = telpher_mpi_test;
    ret_calls->cancel = telpher_mpi_cancel;
    ret_calls->forget = telpher_mpi_forget;
    ret_calls->retain = telpher_mpi_retain;
    ret_calls->release = telpher_mpi_release;
    return mpi;
}

/* ---- the job ---- */

/* The bootstrap's collective call. */
static inline telpher_status
telpher_mpi_allgather(void *user, const void *mine, size_t len, void *all)
{
    if (len > INT_MAX) {
        return TELPHER_ERR_RANGE;
    }
    return MPI_Allgather((void *)(uintptr_t)mine, (int)len, MPI_BYTE, all, (int)len,
                         MPI_BYTE, ((telpher_mpi *)user)->comm) == MPI_SUCCESS
               ? TELPHER_OK
               : TELPHER_ERR_IO;
}

/**
 * telpher_context_create() with the ranks of @p comm. Collective over it. MPI is initialised
 * already; the communicator itself is used during this call only.
 *
 * With TELPHER_TRANSPORTS=mpi the context's messages are MPI's, by a duplicate of @p comm:
 * then MPI must allow the context's thread to call it (MPI_THREAD_SERIALIZED if others do,
 * too), and the context ends before MPI_Finalize(). Its end waits up to 1 s for the other
 * ranks to receive the news in their progress; without that the duplicate stays until
 * MPI_Finalize(). What happens when a rank dies is then up to MPI: usually the job ends.
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
    telpher_two_sided calls;
    telpher_mpi *mpi;
    telpher_status status;
    int rank, size;

    if (params != NULL && params->struct_size != sizeof(own)) { /* of this header */
        own.struct_size = 0; /* refused with a text that says what to do */
        return telpher_context_create(&own, ret_ctx, err);
    }
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(comm, &size) != MPI_SUCCESS) {
        return TELPHER_ERR_INVALID;
    }
    mpi = telpher_mpi_open(comm, &calls);
    if (mpi == NULL) {
        return TELPHER_ERR_IO;
    }
    if (params != NULL) {
        own = *params;
    }
    bootstrap.struct_size = sizeof(bootstrap);
    bootstrap.rank = (uint32_t)rank;
    bootstrap.size = (uint32_t)size;
    bootstrap.allgather = telpher_mpi_allgather;
    bootstrap.user = mpi;
    bootstrap.two_sided = &calls;
    own.bootstrap = &bootstrap;
    status = telpher_context_create(&own, ret_ctx, err);
    telpher_mpi_release(mpi, 1);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
