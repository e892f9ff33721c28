/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions. Operands are combined in the order of ranks, so that operations need not commute:
 * what comes from lower ranks stands on the left.
 */
#include "ampi/collective.h"
#include "ampi/op.h"
#include "ampi/process.h"
#include "ampi/type.h"
#include "base/alloc.h"

#define RING_BYTES ((size_t)64 << 10) /* from here on an allreduce goes around a ring */

char *
tp_ampi_take_elements(size_t count, MPI_Datatype handle, void **ret_block)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    MPI_Aint last = count > 0 ? (MPI_Aint)(count - 1) * (type->ub - type->lb) : 0;
    MPI_Aint low = type->true_lb + TP_MIN(last, 0),
             high = type->true_ub + TP_MAX(last, 0);

    *ret_block = tp_malloc((size_t)(high - low) + 16, "MPI reduction");
    return *ret_block != NULL ? (char *)*ret_block - low : NULL;
}

/* The result of a reduction as it grows, and room for what comes. */
struct sum {
    char *value, *other;
    void *value_block, *other_block; /* value_block NULL: value is the program's */
    size_t count;
    MPI_Datatype type;
};

static void
sum_end(struct sum *sum)
{
    tp_free(sum->value_block);
    tp_free(sum->other_block);
}

/* Begins with the own operand. @param value  NULL: memory of its own */
static int
sum_begin(struct sum *sum, const struct tp_ampi_call *call, size_t count, char *value)
{
    const char *own = call->out.at == MPI_IN_PLACE ? call->in.at : call->out.at;
    int error;

    *sum = (struct sum){.value = value, .count = count, .type = call->in.type};
    sum->other = tp_ampi_take_elements(count, sum->type, &sum->other_block);
    if (value == NULL) {
        sum->value = tp_ampi_take_elements(count, sum->type, &sum->value_block);
    }
    error = sum->value == NULL || sum->other == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    if (error == MPI_SUCCESS && sum->value != own) {
        error = tp_ampi_copy(own, count, sum->type, sum->value, count, sum->type);
    }
    if (error != MPI_SUCCESS) {
        sum_end(sum);
    }
    return error;
}

/* value = other op value, or value op other if what came is of higher ranks. */
static void
combine(const struct tp_ampi_call *call, struct sum *sum, bool is_lower)
{
    if (is_lower) {
        tp_ampi_op_apply(call->op, sum->other, sum->value, sum->count, sum->type);
        return;
    }
    tp_ampi_op_apply(call->op, sum->value, sum->other, sum->count, sum->type);
    if (sum->value_block != NULL) {
        char *value = sum->value;
        void *block = sum->value_block;

        sum->value = sum->other;
        sum->value_block = sum->other_block;
        sum->other = value;
        sum->other_block = block;
    } else {
        (void)tp_ampi_copy(sum->other, sum->count, sum->type, sum->value, sum->count,
                           sum->type);
    }
}

static int
send_value(const struct tp_ampi_call *call, const struct sum *sum, int to)
{
    return tp_ampi_send(call->comm, true, sum->value, sum->count, sum->type, to,
                        call->tag);
}

static int
recv_other(const struct tp_ampi_call *call, struct sum *sum, int from)
{
    return tp_ampi_recv(call->comm, true, sum->other, sum->count, sum->type, from,
                        call->tag, MPI_STATUS_IGNORE);
}

/* A binomial tree with rank @p top at its root. With top 0 each subtree is a range of ranks. */
static int
reduce_to(const struct tp_ampi_call *call, struct sum *sum, int top)
{
    const struct tp_ampi_comm *comm = call->comm;
    int self = (comm->rank - top + comm->size) % comm->size;

    for (int step = 1; step < comm->size; step *= 2) {
        int error;

        if ((self & step) != 0) {
            return send_value(call, sum, (comm->rank - step + comm->size) % comm->size);
        }
        if (self + step < comm->size) {
            error = recv_other(call, sum, (comm->rank + step) % comm->size);
            if (error != MPI_SUCCESS) {
                return error;
            }
            combine(call, sum, false);
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
    struct sum sum;

    error = sum_begin(&sum, call, count, NULL);
    if (error != MPI_SUCCESS) {
        return error;
    }
    error = reduce_to(call, &sum, top);
    if (error == MPI_SUCCESS && top != call->root && comm->rank == top) {
        error = send_value(call, &sum, call->root);
    }
    if (error == MPI_SUCCESS && comm->rank == call->root) {
        error = top != call->root
                    ? tp_ampi_recv(call->comm, true, call->in.at, count, call->in.type,
                                   top, call->tag, MPI_STATUS_IGNORE)
                    : tp_ampi_copy(sum.value, count, sum.type, call->in.at, count,
                                   sum.type);
    }
    sum_end(&sum);
    return error;
}

/* ---- allreduce ---- */

/*
 * Recursive doubling. If the number of ranks is no power of 2, the first pairs fold their odd
 * rank into the even one, which afterwards tells it the result.
 */
static int
double_up(const struct tp_ampi_call *call, struct sum *sum)
{
    const struct tp_ampi_comm *comm = call->comm;
    int power = 1, extra, self, error = MPI_SUCCESS;

    while (power * 2 <= comm->size) {
        power *= 2;
    }
    extra = comm->size - power;
    if (comm->rank < 2 * extra && comm->rank % 2 == 1) {
        error = send_value(call, sum, comm->rank - 1);
        return error != MPI_SUCCESS
                   ? error
                   : tp_ampi_recv(call->comm, true, sum->value, sum->count, sum->type,
                                  comm->rank - 1, call->tag, MPI_STATUS_IGNORE);
    }
    if (comm->rank < 2 * extra) {
        error = recv_other(call, sum, comm->rank + 1);
        if (error == MPI_SUCCESS) {
            combine(call, sum, false);
        }
    }
    self = comm->rank < 2 * extra ? comm->rank / 2 : comm->rank - extra;
    for (int step = 1; step < power && error == MPI_SUCCESS; step *= 2) {
        int other = self ^ step, peer = other < extra ? 2 * other : other + extra;

        error = tp_ampi_sendrecv(call->comm, true, sum->value, sum->count, sum->type,
                                 peer, call->tag, sum->other, sum->count, sum->type,
                                 peer, call->tag, MPI_STATUS_IGNORE);
        if (error == MPI_SUCCESS) {
            combine(call, sum, other < self);
        }
    }
    if (error == MPI_SUCCESS && comm->rank < 2 * extra) {
        error = send_value(call, sum, comm->rank + 1);
    }
    return error;
}

/* First element of a rank's part. */
static size_t
part(const struct tp_ampi_call *call, int rank)
{
    return call->in.count * (size_t)rank / (size_t)call->comm->size;
}

/* Parts go around a ring twice: they collect operands, then all get the results. */
static int
go_around(const struct tp_ampi_call *call, struct sum *sum)
{
    const struct tp_ampi_comm *comm = call->comm;
    const struct tp_ampi_type *type = tp_ampi_type_get(sum->type);
    int size = comm->size, error = MPI_SUCCESS;
    MPI_Aint extent = type->ub - type->lb;

    for (int step = 0; step < 2 * (size - 1) && error == MPI_SUCCESS; step++) {
        int give = (comm->rank - step + 2 * size) % size;
        int take_part = (comm->rank - step - 1 + 2 * size) % size;
        size_t from = part(call, give), to = part(call, take_part);
        bool collects = step < size - 1;
        char *in = (collects ? sum->other : sum->value) + (MPI_Aint)to * extent;

        error = tp_ampi_sendrecv(
            call->comm, true, sum->value + (MPI_Aint)from * extent,
            part(call, give + 1) - from, sum->type, (comm->rank + 1) % size, call->tag,
            in, part(call, take_part + 1) - to, sum->type,
            (comm->rank - 1 + size) % size, call->tag, MPI_STATUS_IGNORE);
        if (error == MPI_SUCCESS && collects) {
            tp_ampi_op_apply(call->op, in, sum->value + (MPI_Aint)to * extent,
                             part(call, take_part + 1) - to, sum->type);
        }
    }
    return error;
}

int
tp_ampi_run_allreduce(const struct tp_ampi_call *call)
{
    size_t count = call->in.count;
    struct sum sum;
    int error = sum_begin(&sum, call, count, call->in.at);

    if (error != MPI_SUCCESS) {
        return error;
    }
    error = tp_ampi_type_size(sum.type) * count >= RING_BYTES &&
                    tp_ampi_op_commutes(call->op) && count >= (size_t)call->comm->size
                ? go_around(call, &sum)
                : double_up(call, &sum);
    sum_end(&sum);
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
    struct sum sum;

    if (displs == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < comm->size; i++) {
        displs[i] = (int)count;
        count += tp_ampi_side_count(&call->in, i);
    }
    all.in.count = count;
    error = sum_begin(&sum, &all, count, NULL);
    if (error == MPI_SUCCESS) {
        error = reduce_to(&all, &sum, 0);
        scatter.root = 0;
        scatter.out = (struct tp_ampi_side){.at = sum.value,
                                            .count = call->in.count,
                                            .type = sum.type,
                                            .counts = call->in.counts,
                                            .displs = displs};
        scatter.in.count = tp_ampi_side_count(&call->in, comm->rank);
        scatter.in.counts = NULL;
        if (error == MPI_SUCCESS) {
            error = tp_ampi_run_scatter(&scatter);
        }
        sum_end(&sum);
    }
    tp_free(displs);
    return error;
}

/* ---- scans: from each rank to the next ---- */

int
tp_ampi_run_scan(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    struct sum sum;
    int error = sum_begin(&sum, call, call->in.count, call->in.at);

    if (error != MPI_SUCCESS) {
        return error;
    }
    if (comm->rank > 0) {
        error = recv_other(call, &sum, comm->rank - 1);
        if (error == MPI_SUCCESS) {
            combine(call, &sum, true);
        }
    }
    if (error == MPI_SUCCESS && comm->rank + 1 < comm->size) {
        error = send_value(call, &sum, comm->rank + 1);
    }
    sum_end(&sum);
    return error;
}

/* The sum of the ranks before goes to the program; with the own operand it goes on. */
int
tp_ampi_run_exscan(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    size_t count = call->in.count;
    struct sum sum;
    int error = sum_begin(&sum, call, count, NULL);

    if (error != MPI_SUCCESS) {
        return error;
    }
    if (comm->rank > 0) {
        error = recv_other(call, &sum, comm->rank - 1);
        if (error == MPI_SUCCESS) {
            error =
                tp_ampi_copy(sum.other, count, sum.type, call->in.at, count, sum.type);
            combine(call, &sum, true);
        }
    }
    if (error == MPI_SUCCESS && comm->rank + 1 < comm->size) {
        error = send_value(call, &sum, comm->rank + 1);
    }
    sum_end(&sum);
    return error;
}

/* ---- device memory ---- */

/* Elements of a reduction's operand. */
static size_t
operand_count(const struct tp_ampi_call *call)
{
    size_t count = 0;

    if (call->run != tp_ampi_run_reduce_scatter) {
        return call->in.count;
    }
    for (int i = 0; i < call->comm->size; i++) {
        count += tp_ampi_side_count(&call->in, i);
    }
    return count;
}

int
tp_ampi_run_staged(const struct tp_ampi_call *call)
{
    size_t size = tp_ampi_type_size(call->in.type), all = size * operand_count(call);
    bool in_place = call->out.at == MPI_IN_PLACE;
    bool has_result = call->run != tp_ampi_run_reduce || call->comm->rank == call->root;
    size_t result = in_place || call->run != tp_ampi_run_reduce_scatter
                        ? all
                        : size * tp_ampi_side_count(&call->in, call->comm->rank);
    struct tp_ampi_call staged = *call;
    struct tp_ampi_stage out = {0}, in = {0};
    int error = MPI_SUCCESS;

    staged.device = false;
    if (!in_place) {
        error = tp_ampi_stage_open(&out, call->comm, call->out.at, 0, all, true);
        staged.out.at = out.at;
    }
    if (error == MPI_SUCCESS && has_result) {
        error = tp_ampi_stage_open(&in, call->comm, call->in.at, 0, result,
                                   in_place || call->run == tp_ampi_run_exscan);
        staged.in.at = in.at;
    }
    if (error == MPI_SUCCESS) {
        error = staged.run(&staged);
    }
    error = tp_ampi_stage_close(&in, call->comm, true, error);
    return tp_ampi_stage_close(&out, call->comm, false, error);
}
