/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two processes. Calls with host memory go to MPI as they are. */
#include <limits.h>
#include <stdlib.h>

#include "mpidev/calls.h"
#include "mpidev/mpidev_int.h"

/* [bytes] of a message without gaps; 0: it has gaps */
static size_t
dense_bytes(int count, MPI_Datatype type)
{
    MPI_Aint lb, step;
    int size;

    return PMPI_Type_size(type, &size) == MPI_SUCCESS &&
                   PMPI_Type_get_extent(type, &lb, &step) == MPI_SUCCESS && lb == 0 &&
                   step == size && count > 0
               ? (size_t)count * (size_t)size
               : 0;
}

/* Begins a send from device memory. The lock is held. */
int
tp_mpidev_send_start(struct tp_mpidev_op *op, tp_mpidev_send_fn start,
                     const void *buffer, int count, MPI_Datatype type, int dest,
                     int tag, bool content_may_follow)
{
    size_t len = dense_bytes(count, type);
    const void *envelope = NULL;
    int envelope_len, error;

    if (len > 0 && content_may_follow && dest != MPI_PROC_NULL &&
        tp_mpidev_is_device(buffer)) {
        op->content = tp_mpidev_content_send(buffer, len, op->comm, dest, &envelope,
                                             &envelope_len);
    }
    if (op->content != NULL) {
        return start(envelope, envelope_len, MPI_BYTE, dest, tag, op->comm, &op->inner);
    }
    error = tp_mpidev_stage_open(&op->stages[0], buffer, count, type, TP_MPIDEV_IN);
    return error != MPI_SUCCESS
               ? error
               : start(op->stages[0].mpi, count, type, dest, tag, op->comm, &op->inner);
}

/* @param request  gets the operation; NULL: it is waited for */
static int
send_staged(tp_mpidev_send_fn start, const void *buffer, int count, MPI_Datatype type,
            int dest, int tag, MPI_Comm comm, MPI_Request *request,
            bool content_may_follow)
{
    struct tp_mpidev_op *op = tp_mpidev_op_new(comm);
    int error;

    if (op == NULL) {
        return tp_mpidev_fail(comm, MPI_ERR_NO_MEM);
    }
    tp_mpidev_lock();
    error = tp_mpidev_send_start(op, start, buffer, count, type, dest, tag,
                                 content_may_follow);
    error = request != NULL ? tp_mpidev_op_start(op, error, request)
                            : tp_mpidev_op_wait(op, error, MPI_STATUS_IGNORE);
    tp_mpidev_unlock();
    return error;
}

/* SEND(mode, content): MPI_<mode>send and MPI_I<mode>send. A buffered send is complete at once, so its
 * content goes with it. */
#define SEND(name, iname, content)                                                     \
    int MPI_##name(const void *buffer, int count, MPI_Datatype type, int dest,         \
                   int tag, MPI_Comm comm)                                             \
    {                                                                                  \
        return tp_mpidev_is_plain(tp_mpidev_first(buffer, type))                       \
                   ? PMPI_##name(buffer, count, type, dest, tag, comm)                 \
                   : send_staged(PMPI_##iname, buffer, count, type, dest, tag, comm,   \
                                 NULL, content);                                       \
    }                                                                                  \
    int MPI_##iname(const void *buffer, int count, MPI_Datatype type, int dest,        \
                    int tag, MPI_Comm comm, MPI_Request *request)                      \
    {                                                                                  \
        return !tp_mpidev_is_device(tp_mpidev_first(buffer, type))                     \
                   ? PMPI_##iname(buffer, count, type, dest, tag, comm, request)       \
                   : send_staged(PMPI_##iname, buffer, count, type, dest, tag, comm,   \
                                 request, content);                                    \
    }

SEND(Send, Isend, true)
SEND(Ssend, Issend, true)
SEND(Rsend, Irsend, true)
SEND(Bsend, Ibsend, false)

/* ---- receives ---- */

/* Whether a message of so many elements may have its content apart. @return false as well if the
 * datatype is wrong: MPI will say so */
static bool
is_large(int count, MPI_Datatype type, size_t *ret_bytes)
{
    int size = 0;

    *ret_bytes = 0;
    if (count > 0 && PMPI_Type_size(type, &size) == MPI_SUCCESS && size > 0) {
        *ret_bytes = (size_t)count * (size_t)size;
    }
    return *ret_bytes >= (size_t)tp_mpidev_settings.content_min &&
           *ret_bytes <= INT_MAX;
}

/* Ends a receive whose message a probe has taken from MPI. */
static int
take_found(struct tp_mpidev_op *op, const struct tp_mpidev_found *found, void *dest,
           int count, MPI_Datatype type)
{
    int position = 0, size = 1;

    op->status = found->status;
    if (op->content != NULL &&
        tp_mpidev_content_begin(op->content, found->bytes, &op->status)) {
        return MPI_SUCCESS;
    }
    tp_mpidev_content_free(op->content);
    op->content = NULL;
    if (PMPI_Type_size(type, &size) != MPI_SUCCESS ||
        count < TP_MPIDEV_ENVELOPE / size) {
        return MPI_ERR_TRUNCATE;
    }
    return PMPI_Unpack(found->bytes, TP_MPIDEV_ENVELOPE, &position, dest,
                       TP_MPIDEV_ENVELOPE / size, type, op->comm);
}

/* Receives what a probe found, or has MPI receive. */
static int
begin_matching(struct tp_mpidev_op *op, void *dest, int count, MPI_Datatype type,
               int source, int tag, MPI_Message *message)
{
    struct tp_mpidev_found *found =
        message == NULL ? tp_mpidev_found_take(source, tag, op->comm) : NULL;
    int error;

    if (found != NULL) {
        error = take_found(op, found, dest, count, type);
        free(found);
        return error;
    }
    return message != NULL
               ? PMPI_Imrecv(dest, count, type, message, &op->inner)
               : PMPI_Irecv(dest, count, type, source, tag, op->comm, &op->inner);
}

/* Begins a receive of device memory, or of so many bytes that its content may come apart. With gaps
 * in the datatype it goes to memory without gaps first. */
int
tp_mpidev_recv_start(struct tp_mpidev_op *op, void *buffer, int count,
                     MPI_Datatype type, int source, int tag, MPI_Message *message)
{
    int error =
        tp_mpidev_stage_open(&op->stages[0], buffer, count, type, TP_MPIDEV_OUT);
    void *dest = op->stages[0].mpi, *content = buffer;
    size_t bytes;
    bool large = is_large(count, type, &bytes);

    op->receives = true;
    if (error == MPI_SUCCESS && large && dense_bytes(count, type) == 0) {
        error = tp_mpidev_op_unpack(op, bytes, count, type);
        dest = content = op->stages[1].host;
        count = (int)bytes;
        type = MPI_PACKED;
    }
    if (error == MPI_SUCCESS && (large || tp_mpidev_has_found())) {
        op->content = tp_mpidev_content_recv(content, bytes);
        error = op->content == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    }
    return error != MPI_SUCCESS
               ? error
               : begin_matching(op, dest, count, type, source, tag, message);
}

/* @param request  gets the operation; NULL: it is waited for, and its status is @p status */
static int
receive(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
        MPI_Message *message, MPI_Status *status, MPI_Request *request)
{
    struct tp_mpidev_op *op = tp_mpidev_op_new(comm);
    int error;

    if (op == NULL) {
        return tp_mpidev_fail(comm, MPI_ERR_NO_MEM);
    }
    tp_mpidev_lock();
    error = tp_mpidev_recv_start(op, buffer, count, type, source, tag, message);
    error = request != NULL ? tp_mpidev_op_start(op, error, request)
                            : tp_mpidev_op_wait(op, error, status);
    tp_mpidev_unlock();
    return error;
}

bool
tp_mpidev_is_plain_recv(const void *buffer, int count, MPI_Datatype type)
{
    size_t bytes;

    return tp_mpidev_context == NULL ||
           (!tp_mpidev_has_found() && !is_large(count, type, &bytes) &&
            !tp_mpidev_is_device(tp_mpidev_first(buffer, type)));
}

int
MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
         MPI_Status *status)
{
    return tp_mpidev_is_plain_recv(buffer, count, type) && !tp_mpidev_is_busy()
               ? PMPI_Recv(buffer, count, type, source, tag, comm, status)
               : receive(buffer, count, type, source, tag, comm, NULL, status, NULL);
}

int
MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag,
          MPI_Comm comm, MPI_Request *request)
{
    return tp_mpidev_is_plain_recv(buffer, count, type)
               ? PMPI_Irecv(buffer, count, type, source, tag, comm, request)
               : receive(buffer, count, type, source, tag, comm, NULL, NULL, request);
}

int
MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message,
          MPI_Status *status)
{
    return tp_mpidev_is_plain_recv(buffer, count, type) && !tp_mpidev_is_busy()
               ? PMPI_Mrecv(buffer, count, type, message, status)
               : receive(buffer, count, type, 0, 0, MPI_COMM_WORLD, message, status,
                         NULL);
}

int
MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message,
           MPI_Request *request)
{
    return tp_mpidev_is_plain_recv(buffer, count, type)
               ? PMPI_Imrecv(buffer, count, type, message, request)
               : receive(buffer, count, type, 0, 0, MPI_COMM_WORLD, message, NULL,
                         request);
}

/* ---- both ---- */

int
MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int dest,
             int out_tag, void *in, int in_count, MPI_Datatype in_type, int source,
             int in_tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int error;

    if (tp_mpidev_is_plain(tp_mpidev_first(out, out_type)) &&
        tp_mpidev_is_plain_recv(in, in_count, in_type)) {
        return PMPI_Sendrecv(out, out_count, out_type, dest, out_tag, in, in_count,
                             in_type, source, in_tag, comm, status);
    }
    error = MPI_Irecv(in, in_count, in_type, source, in_tag, comm, &requests[0]);
    if (error == MPI_SUCCESS) {
        error = MPI_Isend(out, out_count, out_type, dest, out_tag, comm, &requests[1]);
    }
    if (error == MPI_SUCCESS) {
        error = MPI_Waitall(2, requests, statuses);
        error = error == MPI_ERR_IN_STATUS && statuses[0].MPI_ERROR != MPI_SUCCESS
                    ? statuses[0].MPI_ERROR
                    : error;
    }
    if (error == MPI_SUCCESS && status != MPI_STATUS_IGNORE) {
        *status = statuses[0];
    }
    return error;
}

/* The old content is copied; then it is a send and a receive. */
int
MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int dest, int send_tag,
                     int source, int recv_tag, MPI_Comm comm, MPI_Status *status)
{
    struct tp_mpidev_stage stage = {0};
    int error, size = 0, len = 0;

    if (count < 0 || (tp_mpidev_is_plain_recv(buffer, count, type) &&
                      tp_mpidev_is_plain(tp_mpidev_first(buffer, type)))) {
        return PMPI_Sendrecv_replace(buffer, count, type, dest, send_tag, source,
                                     recv_tag, comm, status);
    }
    tp_mpidev_lock();
    error = tp_mpidev_stage_open(&stage, buffer, count, type, TP_MPIDEV_IN);
    if (error == MPI_SUCCESS) {
        error = PMPI_Pack_size(count, type, comm, &size);
    }
    if (error == MPI_SUCCESS) {
        void *packed = malloc((size_t)size + 1);

        error = packed == NULL
                    ? MPI_ERR_NO_MEM
                    : PMPI_Pack(stage.mpi, count, type, packed, size, &len, comm);
        tp_mpidev_unlock();
        if (error == MPI_SUCCESS) {
            error = MPI_Sendrecv(packed, len, MPI_PACKED, dest, send_tag, buffer, count,
                                 type, source, recv_tag, comm, status);
        }
        free(packed);
        tp_mpidev_lock();
    }
    error = tp_mpidev_stage_close(&stage, error);
    tp_mpidev_unlock();
    return error;
}
