/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: look at, or take, a message before its receive. */
#include "ampi/process.h"

static void
tell(const struct tp_ampi_unexpected *u, MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE) {
        return;
    }
    status->MPI_SOURCE = u->env.source;
    status->MPI_TAG = u->env.tag;
    status->telpher_canceled = 0;
    tp_ampi_status_set_bytes(status,
                             u->sender != NULL ? u->sender->cap : (size_t)u->env.len);
}

/*
 * Looks for a message. @param wait  until there is one. @return an error class;
 * *ret is NULL if there is none, or if the source is a null process
 */
static int
look(int source, int tag, MPI_Comm handle, bool wait, struct tp_ampi_comm **ret_comm,
     struct tp_ampi_unexpected **ret)
{
    int error = tp_ampi_check(handle, NULL, 0, MPI_BYTE, source, tag, true, ret_comm);
    struct tp_ampi_waiter waiter;
    struct tp_ampi_mail *mail;

    *ret = NULL;
    if (error != MPI_SUCCESS || source == MPI_PROC_NULL) {
        return error;
    }
    mail = (*ret_comm)->mail[0];
    *ret = tp_ampi_match_unexpected(mail, source, tag);
    if (*ret == NULL && !wait) {
        tp_ampi_yield();
        *ret = tp_ampi_match_unexpected(mail, source, tag);
    }
    while (*ret == NULL && wait) {
        tp_ampi_await_signal(&mail->probes, &waiter);
        *ret = tp_ampi_match_unexpected(mail, source, tag);
    }
    return MPI_SUCCESS;
}

/* Takes the message out of its queue and gives it a handle. */
static int
take(struct tp_ampi_comm *comm, struct tp_ampi_unexpected *u, MPI_Message *message)
{
    int handle = tp_ampi_handle_create(TP_AMPI_MESSAGE, u);

    if (handle == 0) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a message");
    }
    tp_list_remove(&u->link);
    u->comm = comm;
    comm->refs++;
    *message = handle;
    return MPI_SUCCESS;
}

/* @param message  gets the message, which is taken out of its queue; NULL: it stays */
static int
probe(int source, int tag, MPI_Comm handle, bool wait, int *flag, MPI_Message *message,
      MPI_Status *status)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_unexpected *u;
    int error;

    tp_ampi_enter();
    error = look(source, tag, handle, wait, &comm, &u);
    *flag = u != NULL || source == MPI_PROC_NULL;
    if (message != NULL) {
        *message = error == MPI_SUCCESS && u == NULL && *flag ? MPI_MESSAGE_NO_PROC
                                                              : MPI_MESSAGE_NULL;
    }
    if (error == MPI_SUCCESS && u != NULL) {
        tell(u, status);
        error = message != NULL ? take(comm, u, message) : MPI_SUCCESS;
    } else if (error == MPI_SUCCESS && *flag) {
        tp_ampi_status_empty(status, MPI_PROC_NULL);
    }
    tp_ampi_leave();
    return error;
}

int
PMPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int flag;

    return probe(source, tag, comm, true, &flag, NULL, status);
}
TP_MPI_NAME(Probe);

int
PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    return probe(source, tag, comm, false, flag, NULL, status);
}
TP_MPI_NAME(Iprobe);

int
PMPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message,
            MPI_Status *status)
{
    int flag;

    return probe(source, tag, comm, true, &flag, message, status);
}
TP_MPI_NAME(Mprobe);

int
PMPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
             MPI_Status *status)
{
    return probe(source, tag, comm, false, flag, message, status);
}
TP_MPI_NAME(Improbe);

/* Starts to receive a message that a matched probe took. */
static int
receive(void *buf, int count, MPI_Datatype type, MPI_Message *message,
        struct tp_ampi_request **ret)
{
    struct tp_ampi_unexpected *u = tp_ampi_handle_get(*message, TP_AMPI_MESSAGE);
    struct tp_ampi_comm *comm = u != NULL ? u->comm : NULL;
    int error;

    *ret = NULL;
    if (u == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_REQUEST, "%#x is no message", *message);
    }
    if (count < 0 || tp_ampi_type_size(type) == SIZE_MAX) {
        return tp_ampi_error(comm, count < 0 ? MPI_ERR_COUNT : MPI_ERR_TYPE,
                             "no count of %d of %#x", count, type);
    }
    if (count > 0 && tp_ampi_is_missing(buf, type)) {
        return tp_ampi_error(comm, MPI_ERR_BUFFER, "the buffer of %d elements is NULL",
                             count);
    }
    error = tp_ampi_request_make(TP_AMPI_RECV_REQUEST, comm, false, buf, (size_t)count,
                                 type, u->env.source, u->env.tag, ret);
    if (error == MPI_SUCCESS) {
        error = tp_ampi_request_layout(*ret, false);
    }
    if (error != MPI_SUCCESS) {
        return tp_ampi_error(comm, error, "no memory for a receive");
    }
    tp_ampi_handle_destroy(*message);
    *message = MPI_MESSAGE_NULL;
    tp_ampi_take_unexpected(*ret, u);
    tp_ampi_comm_unref(comm);
    return MPI_SUCCESS;
}

/* A request that is complete, and whose status names the null process. */
static int
receive_nothing(struct tp_ampi_request **ret)
{
    struct tp_ampi_comm *comm = tp_ampi_current()->comm_self;
    int error = tp_ampi_request_make(TP_AMPI_RECV_REQUEST, comm, TP_AMPI_LANE_PROGRAM,
                                     NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, ret);

    return error == MPI_SUCCESS ? tp_ampi_request_start(*ret)
                                : tp_ampi_error(comm, error, "no memory for a request");
}

int
PMPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message,
            MPI_Request *request)
{
    struct tp_ampi_request *req;
    int error = MPI_SUCCESS;

    tp_ampi_enter();
    if (*message == MPI_MESSAGE_NO_PROC) {
        *message = MPI_MESSAGE_NULL;
        error = receive_nothing(&req);
    } else {
        error = receive(buf, count, type, message, &req);
    }
    *request = error == MPI_SUCCESS ? req->handle : MPI_REQUEST_NULL;
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Imrecv);

int
PMPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message,
           MPI_Status *status)
{
    struct tp_ampi_request *req;
    int error = MPI_SUCCESS;

    tp_ampi_enter();
    if (*message == MPI_MESSAGE_NO_PROC) {
        *message = MPI_MESSAGE_NULL;
        tp_ampi_status_empty(status, MPI_PROC_NULL);
    } else {
        error = receive(buf, count, type, message, &req);
        if (error == MPI_SUCCESS) {
            error = tp_ampi_wait(req, status);
        }
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Mrecv);
