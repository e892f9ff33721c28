/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of point to point that send or receive: checks, then send.c and receive.c. */
#include <stdio.h>

#include "ampi/errhandler.h"
#include "ampi/process.h"
#include "base/alloc.h"

/* ---- checks ---- */

int
tp_ampi_check(MPI_Comm handle, const void *buf, int count, MPI_Datatype type, int peer,
              int tag, bool receives, struct tp_ampi_comm **ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_get(handle);

    if (tp_unlikely(comm == NULL)) {
        return tp_ampi_error(NULL, MPI_ERR_COMM, "%#x is no communicator", handle);
    }
    *ret = comm;
    if (tp_unlikely(count < 0)) {
        return tp_ampi_error(comm, MPI_ERR_COUNT, "a count of %d is negative", count);
    }
    if (tp_unlikely(tp_ampi_type_size(type) == SIZE_MAX && peer != MPI_PROC_NULL)) {
        return tp_ampi_error(comm, MPI_ERR_TYPE, "%#x is no datatype", type);
    }
    if (count > 1 && !tp_ampi_is_predefined(type) && peer != MPI_PROC_NULL &&
        tp_unlikely(!tp_ampi_type_fits(type, (size_t)count))) {
        return tp_ampi_error(comm, MPI_ERR_COUNT,
                             "%d elements are longer than any memory", count);
    }
    if (tp_unlikely(buf == NULL) && count > 0 && peer != MPI_PROC_NULL &&
        tp_ampi_is_missing(buf, type)) {
        return tp_ampi_error(comm, MPI_ERR_BUFFER, "the buffer of %d elements is NULL",
                             count);
    }
    if (tp_unlikely((peer < 0 || peer >= comm->peers->size) && peer != MPI_PROC_NULL &&
                    !(receives && peer == MPI_ANY_SOURCE))) {
        return tp_ampi_error(comm, MPI_ERR_RANK, "there is no rank %d: %s has %d ranks",
                             peer, comm->name, comm->peers->size);
    }
    if (tp_unlikely(tag < 0 && !(receives && tag == MPI_ANY_TAG))) {
        return tp_ampi_error(comm, MPI_ERR_TAG, "a tag of %d is negative", tag);
    }
    return MPI_SUCCESS;
}

/* Has a collective call received less than it wants? */
static bool
is_short(int error, const struct tp_ampi_request *req)
{
    return req->lane == TP_AMPI_LANE_COLLECTIVE && error == MPI_SUCCESS &&
           req->kind == TP_AMPI_RECV_REQUEST && req->got < req->cap &&
           req->peer != MPI_PROC_NULL;
}

void
tp_ampi_request_explain(const struct tp_ampi_request *req, int error, char *text,
                        size_t size)
{
    if (error == MPI_ERR_TRUNCATE) {
        (void)snprintf(
            text, size,
            "a message from rank %d with tag %d is longer than the %zu bytes "
            "of its receive",
            req->source, req->got_tag, req->cap);
    } else if (req->kind == TP_AMPI_LIGHT_REQUEST ||
               req->kind == TP_AMPI_GENERAL_REQUEST) {
        (void)snprintf(text, size, "an operation ended with error class %d", error);
    } else {
        (void)snprintf(text, size, "an operation with rank %d of %s failed: %s",
                       req->peer, req->comm->name, tp_ampi_class_text(error));
    }
}

int
tp_ampi_request_report(struct tp_ampi_comm *comm, int error,
                       const struct tp_ampi_request *req)
{
    char text[TP_AMPI_EXPLAIN_MAX];

    if (tp_unlikely(is_short(error, req))) {
        return tp_ampi_error(comm, MPI_ERR_TRUNCATE,
                             "rank %d sent %zu bytes, where %zu are expected: counts "
                             "or types of the ranks differ",
                             req->source, req->got, req->cap);
    }
    if (tp_likely(error == MPI_SUCCESS)) {
        return error;
    }
    tp_ampi_request_explain(req, error, text, sizeof(text));
    return tp_ampi_error(comm, error, "%s", text);
}

/* ---- blocking ---- */

static int
send_blocking(struct tp_ampi_comm *comm, bool collective, const void *buf, size_t count,
              MPI_Datatype type, int to, int tag, enum tp_ampi_send_mode mode)
{
    struct tp_ampi_request req;
    int error;

    if (mode != TP_AMPI_SYNCHRONOUS &&
        tp_ampi_send_now(comm, collective, buf, count, type, to, tag, &error)) {
        return error;
    }
    tp_ampi_request_init(&req, TP_AMPI_SEND_REQUEST, comm, collective, buf, count, type,
                         to, tag);
    req.mode = (uint8_t)mode;
    error = tp_ampi_start_send(&req);
    if (error != MPI_SUCCESS) {
        return error;
    }
    tp_ampi_request_await(&req);
    if (req.handle != 0) {
        tp_ampi_handle_destroy(req.handle);
    }
    return tp_ampi_request_report(comm, req.error, &req);
}

int
tp_ampi_send(struct tp_ampi_comm *comm, bool collective, const void *buf, size_t count,
             MPI_Datatype type, int to, int tag)
{
    return send_blocking(comm, collective, buf, count, type, to, tag, TP_AMPI_STANDARD);
}

int
tp_ampi_recv(struct tp_ampi_comm *comm, bool collective, void *buf, size_t count,
             MPI_Datatype type, int from, int tag, MPI_Status *status)
{
    struct tp_ampi_request req;

    tp_ampi_request_init(&req, TP_AMPI_RECV_REQUEST, comm, collective, buf, count, type,
                         from, tag);
    tp_ampi_post(&req);
    tp_ampi_request_await(&req);
    tp_ampi_request_status(&req, status);
    return tp_ampi_request_report(comm, req.error, &req);
}

static int
send_checked(const void *buf, int count, MPI_Datatype type, int dest, int tag,
             MPI_Comm handle, enum tp_ampi_send_mode mode)
{
    struct tp_ampi_comm *comm;
    int error;

    tp_ampi_enter();
    error = tp_ampi_check(handle, buf, count, type, dest, tag, false, &comm);
    if (error == MPI_SUCCESS && dest != MPI_PROC_NULL) {
        error = send_blocking(comm, false, buf, (size_t)count, type, dest, tag, mode);
    }
    tp_ampi_leave();
    return error;
}

int
PMPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm handle,
          MPI_Status *status)
{
    struct tp_ampi_comm *comm;
    int error;

    tp_ampi_enter();
    error = tp_ampi_check(handle, buf, count, type, source, tag, true, &comm);
    if (error == MPI_SUCCESS && source == MPI_PROC_NULL) {
        tp_ampi_status_empty(status, MPI_PROC_NULL);
    } else if (error == MPI_SUCCESS) {
        error =
            tp_ampi_recv(comm, false, buf, (size_t)count, type, source, tag, status);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Recv);

/* ---- non-blocking ---- */

/* Only tp_ampi_wait() uses these requests, before the call that holds communicator and type
 * ends: they need neither a handle nor references. */
static int
start_unnamed(enum tp_ampi_request_kind kind, struct tp_ampi_comm *comm,
              bool collective, const void *buf, size_t count, MPI_Datatype type,
              int peer, int tag, struct tp_ampi_request **ret)
{
    struct tp_ampi_request *req = tp_ampi_request_allocate();

    if (req == NULL) {
        return MPI_ERR_NO_MEM;
    }
    tp_ampi_request_init(req, kind, comm, collective, buf, count, type, peer, tag);
    *ret = req;
    return tp_ampi_request_start(req);
}

int
tp_ampi_isend(struct tp_ampi_comm *comm, bool collective, const void *buf, size_t count,
              MPI_Datatype type, int to, int tag, struct tp_ampi_request **ret)
{
    int error;

    *ret = NULL;
    if (tp_ampi_send_now(comm, collective, buf, count, type, to, tag, &error)) {
        return error;
    }
    return start_unnamed(TP_AMPI_SEND_REQUEST, comm, collective, buf, count, type, to,
                         tag, ret);
}

int
tp_ampi_irecv(struct tp_ampi_comm *comm, bool collective, void *buf, size_t count,
              MPI_Datatype type, int from, int tag, struct tp_ampi_request **ret)
{
    *ret = NULL;
    return start_unnamed(TP_AMPI_RECV_REQUEST, comm, collective, buf, count, type, from,
                         tag, ret);
}

int
tp_ampi_wait(struct tp_ampi_request *req, MPI_Status *status)
{
    struct tp_ampi_comm *comm;
    int error;

    if (req == NULL) {
        tp_ampi_status_empty(status, MPI_ANY_SOURCE);
        return MPI_SUCCESS;
    }
    comm = req->comm; /* a collective's, which lives longer */
    tp_ampi_request_await(req);
    tp_ampi_request_status(req, status);
    error = tp_ampi_request_report(comm, req->error, req);
    tp_ampi_request_give(req);
    return error;
}

int
tp_ampi_start_buffered(struct tp_ampi_comm *comm, const void *buf, size_t count,
                       MPI_Datatype type, int dest, int tag)
{
    struct tp_ampi_rank *rank = comm->owner;
    size_t len = tp_ampi_type_size(type) * count, need = len + MPI_BSEND_OVERHEAD;
    struct tp_ampi_request *req;

    if (need > rank->bsend_bytes - rank->bsend_used) {
        return tp_ampi_error(
            comm, MPI_ERR_BUFFER,
            "a buffered send of %zu bytes needs %zu, but %zu are left: "
            "attach a larger buffer",
            len, need, rank->bsend_bytes - rank->bsend_used);
    }
    if (tp_ampi_request_make(TP_AMPI_SEND_REQUEST, comm, false, buf, count, type, dest,
                             tag, &req) != MPI_SUCCESS) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a send");
    }
    rank->bsend_used += need;
    req->mode = TP_AMPI_BUFFERED;
    req->freed = true;
    return tp_ampi_request_start(req);
}

/* Starts a send; a complete one needs no request. */
static int
isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm handle,
      enum tp_ampi_send_mode mode, MPI_Request *ret)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_request *req;
    int error = tp_ampi_check(handle, buf, count, type, dest, tag, false, &comm);

    if (error != MPI_SUCCESS) {
        return error;
    }
    *ret = TP_AMPI_REQUEST_DONE;
    if (dest == MPI_PROC_NULL) {
        return MPI_SUCCESS;
    }
    if (mode == TP_AMPI_BUFFERED) {
        return tp_ampi_start_buffered(comm, buf, (size_t)count, type, dest, tag);
    }
    if (mode != TP_AMPI_SYNCHRONOUS &&
        tp_ampi_send_now(comm, false, buf, (size_t)count, type, dest, tag, &error)) {
        return error;
    }
    if (tp_ampi_request_make(TP_AMPI_SEND_REQUEST, comm, false, buf, (size_t)count,
                             type, dest, tag, &req) != MPI_SUCCESS) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a request");
    }
    req->mode = (uint8_t)mode;
    *ret = req->handle;
    return tp_ampi_request_start(req);
}

static int
isend_checked(const void *buf, int count, MPI_Datatype type, int dest, int tag,
              MPI_Comm comm, enum tp_ampi_send_mode mode, MPI_Request *ret)
{
    int error;

    tp_ampi_enter();
    error = isend(buf, count, type, dest, tag, comm, mode, ret);
    tp_ampi_leave();
    return error;
}

/* The blocking form of a buffered send is the non-blocking one, which is complete at once. */
static int
bsend_checked(const void *buf, int count, MPI_Datatype type, int dest, int tag,
              MPI_Comm comm, enum tp_ampi_send_mode mode)
{
    MPI_Request done;

    return isend_checked(buf, count, type, dest, tag, comm, mode, &done);
}

/* SEND(call, non-blocking call, mode, function of the blocking form) */
#define SEND(Name, Iname, mode, blocking)                                              \
    int PMPI_##Name(const void *buf, int count, MPI_Datatype type, int dest, int tag,  \
                    MPI_Comm comm)                                                     \
    {                                                                                  \
        return blocking(buf, count, type, dest, tag, comm, mode);                      \
    }                                                                                  \
    TP_MPI_NAME(Name);                                                                 \
    int PMPI_##Iname(const void *buf, int count, MPI_Datatype type, int dest, int tag, \
                     MPI_Comm comm, MPI_Request *request)                              \
    {                                                                                  \
        return isend_checked(buf, count, type, dest, tag, comm, mode, request);        \
    }                                                                                  \
    TP_MPI_NAME(Iname)

SEND(Send, Isend, TP_AMPI_STANDARD, send_checked);
SEND(Ssend, Issend, TP_AMPI_SYNCHRONOUS, send_checked);
SEND(Bsend, Ibsend, TP_AMPI_BUFFERED, bsend_checked);
SEND(Rsend, Irsend, TP_AMPI_READY, send_checked);

static int
irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm handle,
      MPI_Request *ret)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_request *req;
    int error = tp_ampi_check(handle, buf, count, type, source, tag, true, &comm);

    if (error != MPI_SUCCESS) {
        return error;
    }
    if (tp_ampi_request_make(TP_AMPI_RECV_REQUEST, comm, false, buf, (size_t)count,
                             type, source, tag, &req) != MPI_SUCCESS) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a request");
    }
    *ret = req->handle;
    return tp_ampi_request_start(req);
}

int
PMPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
           MPI_Request *request)
{
    int error;

    tp_ampi_enter();
    error = irecv(buf, count, type, source, tag, comm, request);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Irecv);

/* ---- send and receive at once ---- */

int
tp_ampi_sendrecv(struct tp_ampi_comm *comm, bool collective, const void *sendbuf,
                 size_t sendcount, MPI_Datatype sendtype, int to, int sendtag,
                 void *recvbuf, size_t recvcount, MPI_Datatype recvtype, int from,
                 int recvtag, MPI_Status *status)
{
    struct tp_ampi_request req;
    int error = MPI_SUCCESS;

    tp_ampi_request_init(&req, TP_AMPI_RECV_REQUEST, comm, collective, recvbuf,
                         recvcount, recvtype, from, recvtag);
    if (tp_likely(from != MPI_PROC_NULL)) {
        tp_ampi_post(&req);
    } else {
        (void)tp_ampi_request_start(&req);
    }
    if (to != MPI_PROC_NULL) {
        error =
            tp_ampi_send(comm, collective, sendbuf, sendcount, sendtype, to, sendtag);
    }
    tp_ampi_request_await(&req);
    tp_ampi_request_status(&req, status);
    return error != MPI_SUCCESS ? error : tp_ampi_request_report(comm, req.error, &req);
}

int
PMPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
              int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype,
              int source, int recvtag, MPI_Comm handle, MPI_Status *status)
{
    struct tp_ampi_comm *comm;
    int error;

    tp_ampi_enter();
    error = tp_ampi_check(handle, sendbuf, sendcount, sendtype, dest, sendtag, false,
                          &comm);
    if (error == MPI_SUCCESS) {
        error = tp_ampi_check(handle, recvbuf, recvcount, recvtype, source, recvtag,
                              true, &comm);
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_sendrecv(comm, false, sendbuf, (size_t)sendcount, sendtype,
                                 dest, sendtag, recvbuf, (size_t)recvcount, recvtype,
                                 source, recvtag, status);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Sendrecv);

static int
sendrecv_replace(struct tp_ampi_comm *comm, void *buf, size_t count, MPI_Datatype type,
                 int dest, int sendtag, int source, int recvtag, MPI_Status *status)
{
    size_t len = tp_ampi_type_size(type) * count;
    void *packed = tp_malloc(len, "MPI_Sendrecv_replace");
    int error;

    if (packed == NULL) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for %zu bytes", len);
    }
    tp_ampi_type_pack(buf, count, type, packed);
    error = tp_ampi_sendrecv(comm, false, packed, len, MPI_BYTE, dest, sendtag, buf,
                             count, type, source, recvtag, status);
    tp_free(packed);
    return error;
}

int
PMPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag,
                      int source, int recvtag, MPI_Comm handle, MPI_Status *status)
{
    struct tp_ampi_comm *comm;
    int error;

    tp_ampi_enter();
    error = tp_ampi_check(handle, buf, count, type, dest, sendtag, false, &comm);
    if (error == MPI_SUCCESS) {
        error = tp_ampi_check(handle, buf, count, type, source, recvtag, true, &comm);
    }
    if (error == MPI_SUCCESS) {
        error = sendrecv_replace(comm, buf, (size_t)count, type, dest, sendtag, source,
                                 recvtag, status);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Sendrecv_replace);

static void
end_half(struct tp_ampi_request *half, int error)
{
    tp_ampi_request_part(half->whole, error);
}

/* Starts the send half of MPI_Isendrecv(); @p receive ends with the later half.
 * @param copy  freed with the send */
static int
start_half(struct tp_ampi_request *receive, const void *buf, size_t count,
           MPI_Datatype type, int dest, int tag, void *copy)
{
    struct tp_ampi_comm *comm = receive->comm;
    struct tp_ampi_request *req;
    int error = MPI_SUCCESS;

    if (dest == MPI_PROC_NULL ||
        tp_ampi_send_now(comm, false, buf, count, type, dest, tag, &error)) {
        tp_free(copy);
        tp_ampi_request_part(receive, error);
        return error;
    }
    error = tp_ampi_request_make(TP_AMPI_SEND_REQUEST, comm, false, buf, count, type,
                                 dest, tag, &req);
    if (error != MPI_SUCCESS) {
        tp_free(copy);
        tp_ampi_request_part(receive, error);
        return tp_ampi_error(comm, error, "no memory for a send");
    }
    req->destroy = tp_free;
    req->arg = copy;
    req->whole = receive;
    req->done = end_half;
    req->freed = true;
    return tp_ampi_request_start(req);
}

/* @param replace  the buffer is both: what is sent is copied first */
static int
isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
          int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype, int source,
          int recvtag, MPI_Comm handle, bool replace, MPI_Request *ret)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_request *receive;
    void *copy = NULL;
    size_t len = (size_t)sendcount;
    int error = tp_ampi_check(handle, sendbuf, sendcount, sendtype, dest, sendtag,
                              false, &comm);

    if (error == MPI_SUCCESS) {
        error = tp_ampi_check(handle, recvbuf, recvcount, recvtype, source, recvtag,
                              true, &comm);
    }
    if (error != MPI_SUCCESS) {
        return error;
    }
    if (replace && dest != MPI_PROC_NULL) {
        len *= tp_ampi_type_size(sendtype);
        copy = tp_malloc(TP_MAX(len, 1u), "MPI_Isendrecv_replace");
        if (copy == NULL) {
            return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for %zu bytes", len);
        }
        tp_ampi_type_pack(sendbuf, (size_t)sendcount, sendtype, copy);
        sendbuf = copy;
        sendtype = MPI_BYTE;
    }
    if (tp_ampi_request_make(TP_AMPI_RECV_REQUEST, comm, false, recvbuf,
                             (size_t)recvcount, recvtype, source, recvtag,
                             &receive) != MPI_SUCCESS) {
        tp_free(copy);
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a request");
    }
    *ret = receive->handle;
    receive->parts = 2;
    (void)tp_ampi_request_start(receive); /* a receive fails when it is complete */
    return start_half(receive, sendbuf, len, sendtype, dest, sendtag, copy);
}

int
PMPI_Isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
               int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype,
               int source, int recvtag, MPI_Comm comm, MPI_Request *request)
{
    int error;

    tp_ampi_enter();
    error = isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                      recvtype, source, recvtag, comm, false, request);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Isendrecv);

int
PMPI_Isendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag,
                       int source, int recvtag, MPI_Comm comm, MPI_Request *request)
{
    int error;

    tp_ampi_enter();
    error = isendrecv(buf, count, type, dest, sendtag, buf, count, type, source,
                      recvtag, comm, true, request);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Isendrecv_replace);
