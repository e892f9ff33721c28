/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent requests, and the buffer of buffered sends. */
#include "ampi/process.h"

static int
init(enum tp_ampi_request_kind kind, const void *buf, int count, MPI_Datatype type,
     int peer, int tag, MPI_Comm handle, enum tp_ampi_send_mode mode, MPI_Request *ret)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_request *req;
    int error;

    tp_ampi_enter();
    error = tp_ampi_check(handle, buf, count, type, peer, tag,
                          kind == TP_AMPI_RECV_REQUEST, &comm);
    if (error == MPI_SUCCESS) {
        error = tp_ampi_request_make(kind, comm, false, buf, (size_t)count, type, peer,
                                     tag, &req);
        (void)tp_ampi_error(comm, error, "no memory for a request");
    }
    if (error == MPI_SUCCESS) {
        req->mode = (uint8_t)mode;
        req->persistent = true;
        req->complete = true;
        *ret = req->handle;
    }
    tp_ampi_leave();
    return error;
}

#define SEND_INIT(Name, mode)                                                          \
    int PMPI_##Name(const void *buf, int count, MPI_Datatype type, int dest, int tag,  \
                    MPI_Comm comm, MPI_Request *request)                               \
    {                                                                                  \
        return init(TP_AMPI_SEND_REQUEST, buf, count, type, dest, tag, comm, mode,     \
                    request);                                                          \
    }                                                                                  \
    TP_MPI_NAME(Name)

SEND_INIT(Send_init, TP_AMPI_STANDARD);
SEND_INIT(Ssend_init, TP_AMPI_SYNCHRONOUS);
SEND_INIT(Bsend_init, TP_AMPI_BUFFERED);
SEND_INIT(Rsend_init, TP_AMPI_READY);

int
PMPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag,
               MPI_Comm comm, MPI_Request *request)
{
    return init(TP_AMPI_RECV_REQUEST, buf, count, type, source, tag, comm,
                TP_AMPI_STANDARD, request);
}
TP_MPI_NAME(Recv_init);

static int
start(MPI_Request handle)
{
    struct tp_ampi_request *req = tp_ampi_handle_get(handle, TP_AMPI_REQUEST);

    if (req == NULL || !req->persistent || req->active) {
        return tp_ampi_error(req != NULL ? req->comm : NULL, MPI_ERR_REQUEST,
                             "%#x is no persistent request that may be started",
                             handle);
    }
    if (req->mode == TP_AMPI_BUFFERED && req->peer != MPI_PROC_NULL) {
        req->active = true;
        return tp_ampi_start_buffered(req->comm, req->buf, req->count, req->type,
                                      req->peer, req->tag);
    }
    return tp_ampi_request_start(req);
}

int
PMPI_Start(MPI_Request *request)
{
    int error;

    tp_ampi_enter();
    error = start(*request);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Start);

int
PMPI_Startall(int count, MPI_Request requests[])
{
    int error = MPI_SUCCESS;

    tp_ampi_enter();
    for (int i = 0; i < count && error == MPI_SUCCESS; i++) {
        error = start(requests[i]);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Startall);

/* ---- the buffer ---- */

int
PMPI_Buffer_attach(void *buffer, int size)
{
    struct tp_ampi_rank *rank = tp_ampi_current();

    if (size < 0 || rank->bsend_bytes != 0) {
        return tp_ampi_error(NULL, MPI_ERR_BUFFER,
                             size < 0 ? "a buffer's size is negative"
                                      : "a buffer is attached already");
    }
    rank->bsend = buffer;
    rank->bsend_bytes = (size_t)size;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Buffer_attach);

int
PMPI_Buffer_detach(void *buffer_address, int *size)
{
    struct tp_ampi_rank *rank = tp_ampi_current();

    tp_ampi_enter();
    while (rank->bsend_used != 0) {
        tp_ampi_yield();
    }
    *(void **)buffer_address = rank->bsend;
    *size = (int)rank->bsend_bytes;
    rank->bsend = NULL;
    rank->bsend_bytes = 0;
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Buffer_detach);
