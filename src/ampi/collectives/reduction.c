/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions. Operands are combined in the order of ranks, so that operations need not commute:
 * what comes from lower ranks stands on the left.
 */
#include "ampi/collectives/sum.h"
#include "ampi/op.h"
#include "ampi/process.h"
#include "ampi/type.h"
#include "base/alloc.h"

char *
tp_ampi_take_elements(const struct tp_ampi_call *call, size_t count, void **ret_block)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(call->in.type);
    MPI_Aint last = count > 0 ? (MPI_Aint)(count - 1) * (type->ub - type->lb) : 0;
    MPI_Aint low = type->true_lb + TP_MIN(last, 0),
             high = type->true_ub + TP_MAX(last, 0);

    *ret_block = call->kind != TELPHER_MEM_HOST
                     ? tp_ampi_room_take(call->kind, (size_t)(high - low) + 16)
                     : tp_malloc((size_t)(high - low) + 16, "MPI reduction");
    return *ret_block != NULL ? (char *)*ret_block - low : NULL;
}

void
tp_ampi_give_elements(const struct tp_ampi_call *call, void *block)
{
    if (call->kind == TELPHER_MEM_HOST) {
        tp_free(block);
    } else if (block != NULL) {
        tp_ampi_room_give(block);
    }
}

void
tp_ampi_sum_fini(const struct tp_ampi_call *call, struct tp_ampi_sum *sum)
{
    tp_ampi_give_elements(call, sum->value_block);
    tp_ampi_give_elements(call, sum->other_block);
}

void
tp_ampi_sum_init(struct tp_ampi_sum *sum, const struct tp_ampi_call *call, size_t count,
                 char *value)
{
    sum->at = tp_ampi_operand(call); /* `small` stays as it is */
    sum->value = value;
    sum->other = NULL;
    sum->value_block = sum->other_block = NULL;
    sum->count = count;
    sum->spoilt = false;
    sum->type = call->in.type;
}

static char *
take_other(const struct tp_ampi_call *call, struct tp_ampi_sum *sum)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(sum->type);
    bool small = call->kind == TELPHER_MEM_HOST && type->dense &&
                 type->size <= sizeof(sum->small) &&
                 sum->count <= sizeof(sum->small) / TP_MAX(type->size, 1u);

    return small ? sum->small
                 : tp_ampi_take_elements(call, sum->count, &sum->other_block);
}

/* A rank that only sends takes no memory. */
static bool
reserve(const struct tp_ampi_call *call, struct tp_ampi_sum *sum)
{
    if (sum->other == NULL) {
        sum->other = take_other(call, sum);
    }
    if (sum->value == NULL) {
        sum->value = tp_ampi_take_elements(call, sum->count, &sum->value_block);
    }
    return sum->other != NULL && sum->value != NULL;
}

int
tp_ampi_sum_send(const struct tp_ampi_call *call, const struct tp_ampi_sum *sum, int to)
{
    return tp_ampi_send(call->comm, true, sum->at, sum->spoilt ? 0 : sum->count,
                        sum->type, to, call->tag);
}

int
tp_ampi_sum_recv(const struct tp_ampi_call *call, struct tp_ampi_sum *sum, int from)
{
    return reserve(call, sum)
               ? tp_ampi_recv(call->comm, true, sum->other, sum->count, sum->type, from,
                              call->tag, MPI_STATUS_IGNORE)
               : MPI_ERR_NO_MEM;
}

int
tp_ampi_sum_exchange(const struct tp_ampi_call *call, struct tp_ampi_sum *sum, int peer)
{
    return reserve(call, sum)
               ? tp_ampi_sendrecv(call->comm, true, sum->at,
                                  sum->spoilt ? 0 : sum->count, sum->type, peer,
                                  call->tag, sum->other, sum->count, sum->type, peer,
                                  call->tag, MPI_STATUS_IGNORE)
               : MPI_ERR_NO_MEM;
}

int
tp_ampi_sum_combine(const struct tp_ampi_call *call, struct tp_ampi_sum *sum,
                    bool is_lower)
{
    int error =
        tp_ampi_combine(call, is_lower ? sum->other : sum->at,
                        is_lower ? sum->at : sum->other, sum->value, sum->count);

    sum->at = sum->value;
    return error;
}

int
tp_ampi_sum_copy(const struct tp_ampi_call *call, const struct tp_ampi_sum *sum,
                 char *to)
{
    return sum->at != to ? tp_ampi_copy_in_call(call, sum->at, sum->count, sum->type,
                                                to, sum->count, sum->type)
                         : MPI_SUCCESS;
}

/* ---- reduce ---- */

/* A binomial tree with rank @p top at its root. With top 0 each subtree is a range of ranks. */
static int
reduce_to(const struct tp_ampi_call *call, struct tp_ampi_sum *sum, int top)
{
    const struct tp_ampi_comm *comm = call->comm;
    int self = tp_ampi_around(comm, -top);

    for (int step = 1; step < comm->size; step *= 2) {
        int error;

        if ((self & step) != 0) {
            return tp_ampi_sum_send(call, sum, tp_ampi_around(comm, -step));
        }
        if (self + step < comm->size) {
            error = tp_ampi_sum_recv(call, sum, tp_ampi_around(comm, step));
            if (error != MPI_SUCCESS) {
                return error;
            }
            error = tp_ampi_sum_combine(call, sum, false);
            if (error != MPI_SUCCESS) {
                return error;
            }
        }
    }
    return MPI_SUCCESS;
}

int
tp_ampi_run_reduce(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    size_t count = call->in.count;
    int top = tp_ampi_op_commutes(call->op) ? call->root : 0, error;
    struct tp_ampi_sum sum;

    tp_ampi_sum_init(&sum, call, count,
                     comm->rank == top && top == call->root ? call->in.at : NULL);
    error = reduce_to(call, &sum, top);
    if (error == MPI_SUCCESS && top != call->root && comm->rank == top) {
        error = tp_ampi_sum_send(call, &sum, call->root);
    }
    if (error == MPI_SUCCESS && comm->rank == call->root) {
        error = top != call->root
                    ? tp_ampi_recv(call->comm, true, call->in.at, count, call->in.type,
                                   top, call->tag, MPI_STATUS_IGNORE)
                    : tp_ampi_sum_copy(call, &sum, call->in.at);
    }
    tp_ampi_sum_fini(call, &sum);
    return error;
}

/* ---- reduce and scatter: the parts of all are reduced at rank 0, and sent from there ---- */

int
tp_ampi_run_reduce_scatter(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    struct tp_ampi_call all = *call, scatter = *call;
    size_t count = 0;
    int displs_needed = comm->size, error;
    int *displs = tp_alloc_array((size_t)displs_needed, sizeof(int), "MPI reduction");
    struct tp_ampi_sum sum;

    if (displs == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < comm->size; i++) {
        displs[i] = (int)count;
        count += tp_ampi_side_count(&call->in, i);
    }
    all.in.count = count;
    tp_ampi_sum_init(&sum, &all, count, NULL);
    error = reduce_to(&all, &sum, 0);
    scatter.root = 0;
    scatter.out = (struct tp_ampi_side){.at = (char *)(uintptr_t)sum.at,
                                        .count = call->in.count,
                                        .type = sum.type,
                                        .counts = call->in.counts,
                                        .displs = displs};
    scatter.in.count = tp_ampi_side_count(&call->in, comm->rank);
    scatter.in.counts = NULL;
    if (error == MPI_SUCCESS) {
        error = tp_ampi_run_scatter(&scatter);
    }
    tp_ampi_sum_fini(call, &sum);
    tp_free(displs);
    return error;
}

/* ---- scans: from each rank to the next ---- */

int
tp_ampi_run_scan(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    struct tp_ampi_sum sum;
    int error = MPI_SUCCESS;

    tp_ampi_sum_init(&sum, call, call->in.count, call->in.at);
    if (comm->rank > 0) {
        error = tp_ampi_sum_recv(call, &sum, comm->rank - 1);
        if (error == MPI_SUCCESS) {
            error = tp_ampi_sum_combine(call, &sum, true);
        }
    } else {
        error = tp_ampi_sum_copy(call, &sum, call->in.at);
    }
    if (error == MPI_SUCCESS && comm->rank + 1 < comm->size) {
        error = tp_ampi_sum_send(call, &sum, comm->rank + 1);
    }
    tp_ampi_sum_fini(call, &sum);
    return error;
}

/* The sum of the ranks before goes to the program; with the own operand it goes on. */
int
tp_ampi_run_exscan(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    size_t count = call->in.count;
    struct tp_ampi_sum sum;
    int error = MPI_SUCCESS;

    tp_ampi_sum_init(&sum, call, count, NULL);
    if (comm->rank > 0) {
        error = tp_ampi_sum_recv(call, &sum, comm->rank - 1);
        if (error == MPI_SUCCESS) { /* in place, in.at is the own operand until here */
            error = tp_ampi_sum_combine(call, &sum, true);
        }
        if (error == MPI_SUCCESS) {
            error = tp_ampi_copy_in_call(call, sum.other, count, sum.type, call->in.at,
                                         count, sum.type);
        }
    }
    if (error == MPI_SUCCESS && comm->rank + 1 < comm->size) {
        error = tp_ampi_sum_send(call, &sum, comm->rank + 1);
    }
    tp_ampi_sum_fini(call, &sum);
    return error;
}
