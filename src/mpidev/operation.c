/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: what this library progresses beside MPI. */
#include <sched.h>
#include <stdlib.h>

#include "mpidev/mpidev_int.h"

static struct tp_mpidev_op *ops;

bool
tp_mpidev_is_busy(void)
{
    return __atomic_load_n(&ops, __ATOMIC_RELAXED) != NULL;
}

int
tp_mpidev_fail(MPI_Comm comm, int error)
{
    if (error != MPI_SUCCESS) {
        (void)PMPI_Comm_call_errhandler(comm, error);
    }
    return error;
}

int
tp_mpidev_fail_local(int error)
{
    int world = 0;

    (void)PMPI_Initialized(&world);
    return world != 0 ? tp_mpidev_fail(MPI_COMM_SELF, error) : error;
}

struct tp_mpidev_op *
tp_mpidev_op_new(MPI_Comm comm)
{
    struct tp_mpidev_op *op = calloc(1, sizeof(*op));

    if (op != NULL) {
        op->user = op->inner = MPI_REQUEST_NULL;
        op->unpack_type = MPI_DATATYPE_NULL;
        op->comm = comm;
    }
    return op;
}

static void
release(struct tp_mpidev_op *op)
{
    for (unsigned i = 0; i < TP_MPIDEV_STAGES; i++) {
        (void)tp_mpidev_stage_close(&op->stages[i], MPI_ERR_OTHER);
    }
    tp_mpidev_content_free(op->content);
    free(op);
}

int
tp_mpidev_op_drop(struct tp_mpidev_op *op, int error)
{
    MPI_Comm comm = op->comm;

    release(op);
    return tp_mpidev_fail(comm, error);
}

/* ---- progress ---- */

int
tp_mpidev_op_unpack(struct tp_mpidev_op *op, size_t bytes, int count, MPI_Datatype type)
{
    op->unpack_type = type;
    op->unpack_count = count;
    return tp_mpidev_stage_host(&op->stages[1], bytes);
}

/* Unpacks a message; without a datatype, shortens the copy to the device to the bytes that
 * arrived. @return an error */
static int
take_received(struct tp_mpidev_op *op)
{
    struct tp_mpidev_stage *stage = &op->stages[0];
    MPI_Count got = 0;
    int size = 0, position = 0, error;

    error = PMPI_Get_elements_x(&op->status, MPI_BYTE, &got);
    if (error != MPI_SUCCESS || got < 0) {
        return error;
    }
    if (op->unpack_type == MPI_DATATYPE_NULL) {
        stage->span =
            stage->dense && (size_t)got < stage->span ? (size_t)got : stage->span;
        return MPI_SUCCESS;
    }
    error = PMPI_Type_size(op->unpack_type, &size);
    return error != MPI_SUCCESS || size == 0
               ? error
               : PMPI_Unpack(op->stages[1].host, (int)got, &position, stage->mpi,
                             (int)(got / size), op->unpack_type, op->comm);
}

static void
finish(struct tp_mpidev_op *op, int error)
{
    if (error == MPI_SUCCESS && op->receives) {
        error = take_received(op);
    }
    for (unsigned i = 0; i < TP_MPIDEV_STAGES; i++) {
        error = tp_mpidev_stage_close(&op->stages[i], error);
    }
    op->error = error;
    op->done = true;
}

/* The message was an envelope: its content replaces what MPI says of it. */
static void
take_content(struct tp_mpidev_op *op)
{
    size_t len = 0;
    int error = MPI_SUCCESS;

    if (tp_mpidev_content_is_done(op->content, &len, &error)) {
        (void)PMPI_Status_set_elements_x(&op->status, MPI_BYTE, (MPI_Count)len);
        op->stages[0].copies_out &= op->unpack_type != MPI_DATATYPE_NULL;
        finish(op, error);
    }
}

static const void *
receive_dest(const struct tp_mpidev_op *op)
{
    return op->unpack_type != MPI_DATATYPE_NULL ? op->stages[1].host
                                                : op->stages[0].mpi;
}

static void
progress_op(struct tp_mpidev_op *op)
{
    int flag = 1, error = MPI_SUCCESS;

    if (op->inner != MPI_REQUEST_NULL) {
        error = PMPI_Test(&op->inner, &flag, &op->status);
        if (error != MPI_SUCCESS) {
            finish(op, error);
            return;
        }
        if (flag != 0 && op->receives && op->content != NULL &&
            !tp_mpidev_content_begin(op->content, receive_dest(op), &op->status)) {
            tp_mpidev_content_free(op->content);
            op->content = NULL;
        }
    }
    if (flag != 0 && op->content != NULL) {
        take_content(op);
    } else if (flag != 0) {
        finish(op, MPI_SUCCESS);
    }
}

/* MPI may ask for the status, and free, in this call: the list is consistent. */
static void
complete(struct tp_mpidev_op **at)
{
    struct tp_mpidev_op *op = *at;

    *at = op->next;
    if (op->user != MPI_REQUEST_NULL) {
        (void)PMPI_Grequest_complete(op->user);
    } else if (op->detached) {
        release(op);
    }
}

bool
tp_mpidev_progress(void)
{
    struct tp_mpidev_op **at = &ops;

    if (!tp_mpidev_is_busy()) {
        return false;
    }
    tp_mpidev_lock();
    (void)telpher_progress(tp_mpidev_context);
    while (*at != NULL) {
        progress_op(*at);
        if ((*at)->done) {
            complete(at);
        } else {
            at = &(*at)->next;
        }
    }
    tp_mpidev_unlock();
    return true;
}

static void
add(struct tp_mpidev_op *op)
{
    struct tp_mpidev_op **at = &ops;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = op;
}

/* ---- what the program waits for ---- */

static int
on_query(void *state, MPI_Status *status)
{
    const struct tp_mpidev_op *op = state;
    MPI_Count len = 0;
    int canceled = 0;

    status->MPI_SOURCE = op->receives ? op->status.MPI_SOURCE : MPI_UNDEFINED;
    status->MPI_TAG = op->receives ? op->status.MPI_TAG : MPI_UNDEFINED;
    if (op->receives) {
        (void)PMPI_Get_elements_x(&op->status, MPI_BYTE, &len);
    }
    (void)PMPI_Status_set_elements_x(status, MPI_BYTE, len);
    if (op->receives) {
        (void)PMPI_Test_cancelled(&op->status, &canceled);
    }
    (void)PMPI_Status_set_cancelled(status, canceled);
    return op->error;
}

static int
on_free(void *state)
{
    struct tp_mpidev_op *op = state;

    if (!op->detached) {
        release(op);
    }
    return MPI_SUCCESS;
}

/* MPI frees a generalized request at once, even if it is not complete. */
bool
tp_mpidev_op_detach(MPI_Request *request)
{
    struct tp_mpidev_op *op;

    tp_mpidev_lock();
    for (op = ops; op != NULL && op->user != *request; op = op->next) {
    }
    if (op != NULL) {
        op->detached = true;
        op->user = MPI_REQUEST_NULL;
        (void)PMPI_Grequest_complete(*request);
        (void)PMPI_Request_free(request);
    }
    tp_mpidev_unlock();
    return op != NULL;
}

static bool
has_freed_sends(void)
{
    bool found = false;

    tp_mpidev_lock();
    for (const struct tp_mpidev_op *op = ops; op != NULL; op = op->next) {
        found = found || (op->detached && !op->receives);
    }
    tp_mpidev_unlock();
    return found;
}

void
tp_mpidev_drain(void)
{
    while (tp_mpidev_is_busy() && has_freed_sends()) {
        (void)tp_mpidev_progress();
        (void)sched_yield();
    }
}

void
tp_mpidev_meet(MPI_Comm comm)
{
    MPI_Request barrier;
    int flag = 0;

    if (tp_mpidev_context == NULL || comm == MPI_COMM_NULL ||
        PMPI_Ibarrier(comm, &barrier) != MPI_SUCCESS) {
        return;
    }
    while (flag == 0) {
        (void)tp_mpidev_progress();
        if (PMPI_Test(&barrier, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return;
        }
        (void)sched_yield();
    }
}

/* A receive that no message has matched can be cancelled; others cannot, as MPI allows. */
static int
on_cancel(void *state, int is_complete)
{
    struct tp_mpidev_op *op = state;

    if (is_complete == 0 && op->receives && op->inner != MPI_REQUEST_NULL) {
        (void)PMPI_Cancel(&op->inner);
    }
    return MPI_SUCCESS;
}

int
tp_mpidev_op_start(struct tp_mpidev_op *op, int error, MPI_Request *ret_request)
{
    if (error != MPI_SUCCESS) {
        return tp_mpidev_op_drop(op, error);
    }
    error = PMPI_Grequest_start(on_query, on_free, on_cancel, op, &op->user);
    if (error != MPI_SUCCESS) {
        if (!op->keeps_inner) {
            (void)PMPI_Request_free(&op->inner);
        }
        return tp_mpidev_op_drop(op, error);
    }
    *ret_request = op->user;
    add(op);
    return MPI_SUCCESS;
}

int
tp_mpidev_op_wait(struct tp_mpidev_op *op, int error, MPI_Status *ret_status)
{
    MPI_Comm comm = op->comm;

    if (error != MPI_SUCCESS) {
        error = tp_mpidev_op_drop(op, error);
        return error;
    }
    add(op);
    while (!op->done) {
        tp_mpidev_unlock();
        (void)tp_mpidev_progress();
        (void)sched_yield();
        tp_mpidev_lock();
    }
    error = op->error;
    if (ret_status != MPI_STATUS_IGNORE) {
        *ret_status = op->status;
    }
    release(op);
    return tp_mpidev_fail(comm, error);
}
