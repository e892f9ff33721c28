/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent requests with device memory, or whose content may come apart. The program has a
 * persistent request of MPI that is never started, as a name; each start is an operation like
 * that of a non-blocking call, and calls that wait get the operation's request in its place.
 */
#include <stdlib.h>

#include "mpidev/calls.h"
#include "mpidev/mpidev_int.h"

struct persistent {
    struct persistent *next;
    MPI_Request name; /* what the program has */
    MPI_Request active; /* the operation's; MPI_REQUEST_NULL: inactive */
    MPI_Comm comm;
    /* A collective call, staged once. */
    MPI_Request inner;
    struct tp_mpidev_stage stages[TP_MPIDEV_STAGES];
    /* A message. */
    tp_mpidev_send_fn send; /* NULL: a receive */
    void *buffer;
    int count, peer, tag;
    MPI_Datatype type; /* MPI_DATATYPE_NULL: a collective call */
    bool content_may_follow;
};

static struct persistent *all;

bool
tp_mpidev_has_persistent(void)
{
    return __atomic_load_n(&all, __ATOMIC_RELAXED) != NULL;
}

static struct persistent **
find(MPI_Request request)
{
    struct persistent **at = &all;

    while (*at != NULL && (*at)->name != request) {
        at = &(*at)->next;
    }
    return at;
}

bool
tp_mpidev_persistent_get(MPI_Request request, MPI_Request *ret_active)
{
    struct persistent *one = NULL;

    if (tp_mpidev_has_persistent()) {
        tp_mpidev_lock();
        one = *find(request);
        *ret_active = one != NULL ? one->active : request;
        tp_mpidev_unlock();
    }
    return one != NULL;
}

void
tp_mpidev_persistent_set(MPI_Request request, MPI_Request active)
{
    struct persistent *one;

    tp_mpidev_lock();
    one = *find(request);
    if (one != NULL) {
        one->active = active;
    }
    tp_mpidev_unlock();
}

/* ---- make ---- */

static void
destroy(struct persistent *one)
{
    for (unsigned i = 0; i < TP_MPIDEV_STAGES; i++) {
        one->stages[i].keeps_host = false;
        (void)tp_mpidev_stage_close(&one->stages[i], MPI_ERR_OTHER);
    }
    if (one->inner != MPI_REQUEST_NULL) {
        (void)PMPI_Request_free(&one->inner);
    }
    if (one->type != MPI_DATATYPE_NULL) {
        (void)PMPI_Type_free(&one->type);
    }
    free(one);
}

static struct persistent *
create(MPI_Comm comm)
{
    struct persistent *one = calloc(1, sizeof(*one));

    if (one != NULL) {
        one->name = one->active = one->inner = MPI_REQUEST_NULL;
        one->type = MPI_DATATYPE_NULL;
        one->comm = comm;
    }
    return one;
}

/* Gives the program a name for it, or destroys it. The lock is not held. */
static int
publish(struct persistent *one, int error, MPI_Request *ret_request)
{
    MPI_Comm comm = one->comm;

    if (error == MPI_SUCCESS) {
        /* To a process: MPICH 4.0 loses its schedules with a request for MPI_PROC_NULL. */
        error = PMPI_Send_init(NULL, 0, MPI_BYTE, 0, 0, comm, &one->name);
    }
    tp_mpidev_lock();
    if (error == MPI_SUCCESS) {
        *ret_request = one->name;
        one->next = all;
        all = one;
    } else {
        destroy(one);
    }
    tp_mpidev_unlock();
    return tp_mpidev_fail(comm, error);
}

int
tp_mpidev_persistent_collective(struct tp_mpidev_op *op, int error,
                                MPI_Request *ret_request)
{
    struct persistent *one = error == MPI_SUCCESS ? create(op->comm) : NULL;
    MPI_Comm comm = op->comm;

    if (one != NULL) {
        one->inner = op->inner;
        for (unsigned i = 0; i < TP_MPIDEV_STAGES; i++) {
            one->stages[i] = op->stages[i];
            one->stages[i].keeps_host = true;
            op->stages[i].host = NULL;
        }
    } else if (error == MPI_SUCCESS) {
        (void)PMPI_Request_free(&op->inner);
        error = MPI_ERR_NO_MEM;
    }
    tp_mpidev_lock();
    (void)tp_mpidev_op_drop(op, MPI_SUCCESS);
    tp_mpidev_unlock();
    return one != NULL ? publish(one, error, ret_request) : tp_mpidev_fail(comm, error);
}

static int
message_init(tp_mpidev_send_fn send, bool content_may_follow, const void *buffer,
             int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
             MPI_Request *ret_request)
{
    struct persistent *one = create(comm);

    if (one == NULL) {
        return tp_mpidev_fail(comm, MPI_ERR_NO_MEM);
    }
    one->send = send;
    one->content_may_follow = content_may_follow;
    one->buffer = (void *)(uintptr_t)buffer;
    one->count = count;
    one->peer = peer;
    one->tag = tag;
    /* The program may free its datatype before it starts the request. */
    return publish(one, PMPI_Type_dup(type, &one->type), ret_request);
}

#define SEND_INIT(name, start, content)                                                \
    int MPI_##name(const void *buffer, int count, MPI_Datatype type, int dest,         \
                   int tag, MPI_Comm comm, MPI_Request *request)                       \
    {                                                                                  \
        return tp_mpidev_is_device(tp_mpidev_first(buffer, type))                      \
                   ? message_init(start, content, buffer, count, type, dest, tag,      \
                                  comm, request)                                       \
                   : PMPI_##name(buffer, count, type, dest, tag, comm, request);       \
    }

SEND_INIT(Send_init, PMPI_Isend, true)
SEND_INIT(Ssend_init, PMPI_Issend, true)
SEND_INIT(Rsend_init, PMPI_Irsend, true)
SEND_INIT(Bsend_init, PMPI_Ibsend, false)

int
MPI_Recv_init(void *buffer, int count, MPI_Datatype type, int source, int tag,
              MPI_Comm comm, MPI_Request *request)
{
    return tp_mpidev_is_plain_recv(buffer, count, type)
               ? PMPI_Recv_init(buffer, count, type, source, tag, comm, request)
               : message_init(NULL, true, buffer, count, type, source, tag, comm,
                              request);
}

/* ---- start ---- */

static int
start_collective(struct persistent *one, struct tp_mpidev_op *op)
{
    int error = MPI_SUCCESS;

    for (unsigned i = 0; i < TP_MPIDEV_STAGES && error == MPI_SUCCESS; i++) {
        error = tp_mpidev_stage_fill(&one->stages[i]);
        op->stages[i] = one->stages[i];
    }
    op->inner = one->inner;
    op->keeps_inner = true;
    return error == MPI_SUCCESS ? PMPI_Start(&one->inner) : error;
}

/* The lock is held. */
static int
start(struct persistent *one)
{
    struct tp_mpidev_op *op = tp_mpidev_op_new(one->comm);
    int error;

    if (op == NULL) {
        return tp_mpidev_fail(one->comm, MPI_ERR_NO_MEM);
    }
    if (one->type == MPI_DATATYPE_NULL) {
        error = start_collective(one, op);
    } else if (one->send != NULL) {
        error = tp_mpidev_send_start(op, one->send, one->buffer, one->count, one->type,
                                     one->peer, one->tag, one->content_may_follow);
    } else {
        error = tp_mpidev_recv_start(op, one->buffer, one->count, one->type, one->peer,
                                     one->tag, NULL);
    }
    return tp_mpidev_op_start(op, error, &one->active);
}

int
MPI_Start(MPI_Request *request)
{
    struct persistent *one = NULL;
    int error = MPI_SUCCESS;

    if (tp_mpidev_has_persistent()) {
        tp_mpidev_lock();
        one = *find(*request);
        if (one != NULL) {
            error = one->active == MPI_REQUEST_NULL
                        ? start(one)
                        : tp_mpidev_fail(one->comm, MPI_ERR_REQUEST);
        }
        tp_mpidev_unlock();
    }
    return one != NULL ? error : PMPI_Start(request);
}

int
MPI_Startall(int count, MPI_Request requests[])
{
    int error = MPI_SUCCESS;

    if (!tp_mpidev_has_persistent()) {
        return PMPI_Startall(count, requests);
    }
    for (int i = 0; i < count && error == MPI_SUCCESS; i++) {
        error = MPI_Start(&requests[i]);
    }
    return error;
}

/* ---- end ---- */

int
MPI_Request_free(MPI_Request *request)
{
    struct persistent **at, *one = NULL;

    if (tp_mpidev_has_persistent()) {
        tp_mpidev_lock();
        at = find(*request);
        one = *at;
        if (one != NULL) {
            *at = one->next;
        }
        tp_mpidev_unlock();
    }
    if (one == NULL) {
        return tp_mpidev_is_busy() && tp_mpidev_op_detach(request)
                   ? MPI_SUCCESS
                   : PMPI_Request_free(request);
    }
    while (one->type == MPI_DATATYPE_NULL && one->active != MPI_REQUEST_NULL) {
        int flag; /* its operation uses the host memory that goes now */

        (void)tp_mpidev_progress();
        (void)PMPI_Test(&one->active, &flag, MPI_STATUS_IGNORE);
    }
    if (one->active != MPI_REQUEST_NULL) {
        if (!tp_mpidev_op_detach(&one->active)) {
            (void)PMPI_Request_free(&one->active);
        }
        one->type = MPI_DATATYPE_NULL; /* a receive may still unpack by it */
    }
    tp_mpidev_lock();
    destroy(one);
    tp_mpidev_unlock();
    return PMPI_Request_free(request);
}

int
MPI_Cancel(MPI_Request *request)
{
    MPI_Request active;

    return tp_mpidev_persistent_get(*request, &active) ? PMPI_Cancel(&active)
                                                       : PMPI_Cancel(request);
}
