/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce. Short operands: recursive doubling. Long ones are cut into a part for each rank,
 * which are reduced apart and then collected: by halves if the number of ranks is a power of 2
 * (Rabenseifner 2004), else around a ring. Received parts land where their result will be, and the
 * first step reads the program's operand, so long operands are not copied.
 */
#include "ampi/collectives/sum.h"
#include "ampi/op.h"
#include "ampi/process.h"
#include "ampi/type.h"
#include "base/alloc.h"

#define PARTS_BYTES ((size_t)4 << 10) /* from here on operands are cut */

/* Combines with what was received. @param error  of the receive */
static int
combine_after(const struct tp_ampi_call *call, struct tp_ampi_sum *sum, int error,
              bool is_lower)
{
    sum->spoilt |= error != MPI_SUCCESS;
    return tp_ampi_goes_on(error)
               ? tp_ampi_first_error(error, tp_ampi_sum_combine(call, sum, is_lower))
               : error;
}

/*
 * Recursive doubling. If the number of ranks is no power of 2, the first pairs fold their odd
 * rank into the even one, which afterwards tells it the result.
 */
static int
double_up(const struct tp_ampi_call *call, struct tp_ampi_sum *sum)
{
    const struct tp_ampi_comm *comm = call->comm;
    int power = 1, extra, self, error = MPI_SUCCESS;

    while (power * 2 <= comm->size) {
        power *= 2;
    }
    extra = comm->size - power;
    if (comm->rank < 2 * extra && comm->rank % 2 == 1) {
        error = tp_ampi_sum_send(call, sum, comm->rank - 1);
        sum->at = sum->value;
        return error != MPI_SUCCESS
                   ? error
                   : tp_ampi_recv(call->comm, true, sum->value, sum->count, sum->type,
                                  comm->rank - 1, call->tag, MPI_STATUS_IGNORE);
    }
    if (comm->rank < 2 * extra) {
        error = combine_after(call, sum, tp_ampi_sum_recv(call, sum, comm->rank + 1),
                              false);
    }
    self = comm->rank < 2 * extra ? comm->rank / 2 : comm->rank - extra;
    for (int step = 1; step < power && tp_ampi_goes_on(error); step *= 2) {
        int other = self ^ step, peer = other < extra ? 2 * other : other + extra;
        int now = tp_ampi_sum_exchange(call, sum, peer);

        error = tp_ampi_first_error(error, combine_after(call, sum, now, other < self));
    }
    if (tp_ampi_goes_on(error) && comm->rank < 2 * extra) {
        error = tp_ampi_first_error(error, tp_ampi_sum_send(call, sum, comm->rank + 1));
    }
    return error;
}

/* ---- parts: one for each rank ---- */

/* An operand in parts. */
struct parts {
    const struct tp_ampi_call *call;
    MPI_Aint extent;
    const char *at; /* the result so far: the own operand, then the result's memory */
    char *value;
    char *room; /* for what comes, if it cannot land in value */
    void *block; /* NULL: room is not allocated */
};

/* First element of a rank's part. */
static size_t
part(const struct parts *p, int rank)
{
    return p->call->in.count * (size_t)rank / (size_t)p->call->comm->size;
}

/* @param room  elements that come at once, at most */
static int
parts_init(struct parts *p, const struct tp_ampi_call *call, size_t room)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(call->in.type);

    *p = (struct parts){.call = call,
                        .extent = type->ub - type->lb,
                        .at = tp_ampi_operand(call),
                        .value = call->in.at};
    if (p->at == p->value) { /* in place */
        p->room = tp_ampi_take_elements(call, room, &p->block);
        return p->room != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    return MPI_SUCCESS;
}

/* Parts that a rank sends and those that it receives: as many. */
struct swap {
    const char *from; /* operand that `give` is a part of */
    int to, give;
    int source, take;
    int parts;
};

static char *
at_part(const struct parts *p, const char *operand, int rank)
{
    return (char *)(uintptr_t)operand + (MPI_Aint)part(p, rank) * p->extent;
}

/* @param in  where the first part that comes lands */
static int
swap(const struct parts *p, const struct swap *s, char *in)
{
    const struct tp_ampi_call *call = p->call;

    return tp_ampi_sendrecv(call->comm, true, at_part(p, s->from, s->give),
                            part(p, s->give + s->parts) - part(p, s->give),
                            call->in.type, s->to, call->tag, in,
                            part(p, s->take + s->parts) - part(p, s->take),
                            call->in.type, s->source, call->tag, MPI_STATUS_IGNORE);
}

/* The same, and combines what came with these parts of the result so far. */
static int
swap_and_combine(const struct parts *p, const struct swap *s)
{
    char *value = at_part(p, p->value, s->take),
         *in = p->room != NULL ? p->room : value;
    int error = swap(p, s, in);

    if (error == MPI_SUCCESS) {
        error = tp_ampi_combine(p->call, at_part(p, p->at, s->take), in, value,
                                part(p, s->take + s->parts) - part(p, s->take));
    }
    return error;
}

/* ---- by halves ---- */

/* Each step halves the parts that a rank reduces. */
static int
reduce_halves(struct parts *p)
{
    const struct tp_ampi_comm *comm = p->call->comm;
    int first = 0, error = MPI_SUCCESS;

    for (int step = comm->size / 2; step > 0 && error == MPI_SUCCESS; step /= 2) {
        int upper = (comm->rank & step) != 0 ? step : 0;
        const struct swap s = {.from = p->at,
                               .to = comm->rank ^ step,
                               .give = first + step - upper,
                               .source = comm->rank ^ step,
                               .take = first + upper,
                               .parts = step};

        error = swap_and_combine(p, &s);
        if (p->room == NULL) { /* the half that the rank gave away is free for now */
            p->room = at_part(p, p->value, s.give);
        }
        p->at = p->value;
        first = s.take;
    }
    return error;
}

static int
collect_halves(const struct parts *p)
{
    const struct tp_ampi_comm *comm = p->call->comm;
    int error = MPI_SUCCESS;

    for (int step = 1; step < comm->size && error == MPI_SUCCESS; step *= 2) {
        const struct swap s = {.from = p->value,
                               .to = comm->rank ^ step,
                               .give = comm->rank & ~(step - 1),
                               .source = comm->rank ^ step,
                               .take = (comm->rank ^ step) & ~(step - 1),
                               .parts = step};

        error = swap(p, &s, at_part(p, p->value, s.take));
    }
    return error;
}

static int
run_halves(const struct tp_ampi_call *call)
{
    struct parts p;
    int error = parts_init(&p, call, (call->in.count + 1) / 2);

    if (error == MPI_SUCCESS) {
        error = reduce_halves(&p);
    }
    if (error == MPI_SUCCESS) {
        error = collect_halves(&p);
    }
    tp_ampi_give_elements(call, p.block);
    return error;
}

/* ---- around a ring ---- */

/* Parts go around twice: they collect operands, then all get the results. */
static int
run_ring(const struct tp_ampi_call *call)
{
    int size = call->comm->size, rank = call->comm->rank;
    struct parts p;
    int error = parts_init(&p, call, call->in.count / (size_t)size + 1);

    for (int step = 0; step < 2 * (size - 1) && error == MPI_SUCCESS; step++) {
        const struct swap s = {.from = step == 0 ? p.at : p.value,
                               .to = (rank + 1) % size,
                               .give = (rank - step + 2 * size) % size,
                               .source = (rank - 1 + size) % size,
                               .take = (rank - step - 1 + 2 * size) % size,
                               .parts = 1};

        error = step < size - 1 ? swap_and_combine(&p, &s)
                                : swap(&p, &s, at_part(&p, p.value, s.take));
    }
    tp_ampi_give_elements(call, p.block);
    return error;
}

static bool
is_power_of_2(int n)
{
    return (n & (n - 1)) == 0;
}

int
tp_ampi_run_allreduce(const struct tp_ampi_call *call)
{
    size_t count = call->in.count;
    struct tp_ampi_sum sum;
    int error;

    if (tp_ampi_type_size(call->in.type) * count >= PARTS_BYTES &&
        tp_ampi_op_commutes(call->op) && count >= (size_t)call->comm->size &&
        call->comm->size > 1) {
        return is_power_of_2(call->comm->size) ? run_halves(call) : run_ring(call);
    }
    tp_ampi_sum_init(&sum, call, count, call->in.at);
    error = double_up(call, &sum);
    if (error == MPI_SUCCESS) {
        error = tp_ampi_sum_copy(call, &sum, call->in.at); /* of one rank */
    }
    tp_ampi_sum_fini(call, &sum);
    return error;
}
