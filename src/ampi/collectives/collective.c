/* SPDX-License-Identifier: Apache-2.0 */
/* Collective exchanges. MPI-3.1, chapter 5; trees and rings as in Thakur, Rabenseifner, Gropp 2005. */
#include "ampi/collective.h"

#include <string.h>

#include "ampi/process.h"
#include "base/alloc.h"

enum { FEW = 32 /* ranks whose requests lie on the stack */ };

int
tp_ampi_copy(const void *from, size_t from_count, MPI_Datatype from_type, void *to,
             size_t to_count, MPI_Datatype to_type)
{
    const struct tp_ampi_type *one = tp_ampi_type_get(from_type);
    const struct tp_ampi_type *other = tp_ampi_type_get(to_type);
    size_t len = TP_MIN(one->size * from_count, other->size * to_count);
    void *packed;

    if (len == 0) {
        return MPI_SUCCESS;
    }
    if (one->dense) {
        tp_ampi_type_unpack(from, len, to, to_count, to_type);
        return MPI_SUCCESS;
    }
    if (other->dense && one->size * from_count == len) {
        tp_ampi_type_pack(from, from_count, from_type, to);
        return MPI_SUCCESS;
    }
    packed = tp_malloc(one->size * from_count, "MPI collective");
    if (packed == NULL) {
        return MPI_ERR_NO_MEM;
    }
    tp_ampi_type_pack(from, from_count, from_type, packed);
    tp_ampi_type_unpack(packed, len, to, to_count, to_type);
    tp_free(packed);
    return MPI_SUCCESS;
}

/* Types in device memory have no gaps. */
int
tp_ampi_copy_in_call(const struct tp_ampi_call *call, const void *from,
                     size_t from_count, MPI_Datatype from_type, void *to,
                     size_t to_count, MPI_Datatype to_type)
{
    const struct tp_ampi_type *one = tp_ampi_type_get(from_type);
    const struct tp_ampi_type *other = tp_ampi_type_get(to_type);
    size_t own = one->size * from_count;
    size_t wanted = other->size * to_count, len = TP_MIN(own, wanted);

    if (own != wanted) {
        return tp_ampi_error(call->comm, MPI_ERR_TRUNCATE,
                             "%s: the rank sends %zu bytes to itself, and receives %zu",
                             call->name, own, wanted);
    }
    if (tp_likely(!call->device && one->dense && other->dense)) {
        if (len != 0) {
            memmove(to, from, len);
        }
        return MPI_SUCCESS;
    }
    if (!call->device) {
        return tp_ampi_copy(from, from_count, from_type, to, to_count, to_type);
    }
    return len == 0 ? MPI_SUCCESS : tp_ampi_copy_memory(call->comm, to, from, len);
}

/* ---- blocks of a side ---- */

static int
copy_block(const struct tp_ampi_call *call, const struct tp_ampi_side *out, int from,
           const struct tp_ampi_side *in, int to)
{
    return tp_ampi_copy_in_call(call, tp_ampi_side_at(out, from),
                                tp_ampi_side_count(out, from),
                                tp_ampi_side_type(out, from), tp_ampi_side_at(in, to),
                                tp_ampi_side_count(in, to), tp_ampi_side_type(in, to));
}

/* Starts a receive of each block of a side, or a send, except the own one's. */
static int
start_all(const struct tp_ampi_call *call, const struct tp_ampi_side *side, bool sends,
          struct tp_ampi_request **requests)
{
    const struct tp_ampi_comm *comm = call->comm;
    int error = MPI_SUCCESS;

    for (int step = 1; step < comm->size && error == MPI_SUCCESS; step++) {
        int peer = tp_ampi_around(comm, sends ? step : -step);

        error = sends ? tp_ampi_isend(call->comm, true, tp_ampi_side_at(side, peer),
                                      tp_ampi_side_count(side, peer),
                                      tp_ampi_side_type(side, peer), peer, call->tag,
                                      &requests[step])
                      : tp_ampi_irecv(call->comm, true, tp_ampi_side_at(side, peer),
                                      tp_ampi_side_count(side, peer),
                                      tp_ampi_side_type(side, peer), peer, call->tag,
                                      &requests[step]);
    }
    return error;
}

int
tp_ampi_wait_all(struct tp_ampi_request **requests, int count, int error)
{
    for (int i = 0; i < count; i++) {
        if (requests[i] != NULL) {
            error = tp_ampi_first_error(error,
                                        tp_ampi_wait(requests[i], MPI_STATUS_IGNORE));
        }
    }
    return error;
}

static struct tp_ampi_request **
take_requests(int count)
{
    return tp_zalloc((size_t)TP_MAX(count, 1) * sizeof(struct tp_ampi_request *),
                     "MPI collective");
}

/* ---- barrier, broadcast ---- */

int
tp_ampi_run_barrier(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    int error = MPI_SUCCESS;

    for (int step = 1; step < comm->size && error == MPI_SUCCESS; step *= 2) {
        error =
            tp_ampi_sendrecv(call->comm, true, NULL, 0, MPI_BYTE,
                             tp_ampi_around(comm, step), call->tag, NULL, 0, MPI_BYTE,
                             tp_ampi_around(comm, -step), call->tag, MPI_STATUS_IGNORE);
    }
    return error;
}

/* A binomial tree. */
int
tp_ampi_run_bcast(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    const struct tp_ampi_side *in = &call->in;
    int self = tp_ampi_around(comm, -call->root), step = 1;
    int error = MPI_SUCCESS;
    bool spoilt;

    while (step < comm->size && (self & step) == 0) {
        step *= 2;
    }
    if (self != 0) {
        error = tp_ampi_recv(call->comm, true, in->at, in->count, in->type,
                             tp_ampi_around(comm, -step), call->tag, MPI_STATUS_IGNORE);
    }
    spoilt = error != MPI_SUCCESS;
    for (step /= 2; step > 0 && tp_ampi_goes_on(error); step /= 2) {
        if (self + step < comm->size) {
            error = tp_ampi_first_error(
                error, tp_ampi_send(call->comm, true, in->at, spoilt ? 0 : in->count,
                                    in->type, tp_ampi_around(comm, step), call->tag));
        }
    }
    return error;
}

/* ---- gather, scatter ---- */

static int
gather_at_root(const struct tp_ampi_call *call)
{
    struct tp_ampi_request **requests = take_requests(call->comm->size);
    int error = MPI_ERR_NO_MEM;

    if (requests != NULL) {
        error = start_all(call, &call->in, false, requests);
        if (error == MPI_SUCCESS && call->out.at != MPI_IN_PLACE) {
            error = tp_ampi_copy_in_call(
                call, call->out.at, call->out.count, call->out.type,
                tp_ampi_side_at(&call->in, call->root),
                tp_ampi_side_count(&call->in, call->root), call->in.type);
        }
        error = tp_ampi_wait_all(requests, call->comm->size, error);
    }
    tp_free(requests);
    return error;
}

int
tp_ampi_run_gather(const struct tp_ampi_call *call)
{
    return call->comm->rank == call->root
               ? gather_at_root(call)
               : tp_ampi_send(call->comm, true, call->out.at, call->out.count,
                              call->out.type, call->root, call->tag);
}

static int
scatter_at_root(const struct tp_ampi_call *call)
{
    struct tp_ampi_request **requests = take_requests(call->comm->size);
    int error = MPI_ERR_NO_MEM;

    if (requests != NULL) {
        error = start_all(call, &call->out, true, requests);
        if (error == MPI_SUCCESS && call->in.at != MPI_IN_PLACE) {
            error = tp_ampi_copy_in_call(call, tp_ampi_side_at(&call->out, call->root),
                                         tp_ampi_side_count(&call->out, call->root),
                                         call->out.type, call->in.at, call->in.count,
                                         call->in.type);
        }
        error = tp_ampi_wait_all(requests, call->comm->size, error);
    }
    tp_free(requests);
    return error;
}

int
tp_ampi_run_scatter(const struct tp_ampi_call *call)
{
    return call->comm->rank == call->root
               ? scatter_at_root(call)
               : tp_ampi_recv(call->comm, true, call->in.at, call->in.count,
                              call->in.type, call->root, call->tag, MPI_STATUS_IGNORE);
}

/* ---- all to all ---- */

/* A ring: each rank sends on what it got last. */
int
tp_ampi_run_allgather(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    const struct tp_ampi_side *in = &call->in;
    int next = tp_ampi_around(comm, 1), error = MPI_SUCCESS;
    int before = tp_ampi_around(comm, -1);
    bool spoilt;

    if (call->out.at != MPI_IN_PLACE) {
        error = tp_ampi_copy_in_call(call, call->out.at, call->out.count,
                                     call->out.type, tp_ampi_side_at(in, comm->rank),
                                     tp_ampi_side_count(in, comm->rank), in->type);
    }
    spoilt = error != MPI_SUCCESS;
    for (int step = 0; step < comm->size - 1 && tp_ampi_goes_on(error); step++) {
        int give = tp_ampi_around(comm, -step);
        int take = tp_ampi_around(comm, -step - 1);

        int now = tp_ampi_sendrecv(call->comm, true, tp_ampi_side_at(in, give),
                                   spoilt ? 0 : tp_ampi_side_count(in, give), in->type,
                                   next, call->tag, tp_ampi_side_at(in, take),
                                   tp_ampi_side_count(in, take), in->type, before,
                                   call->tag, MPI_STATUS_IGNORE);

        spoilt = now != MPI_SUCCESS;
        error = tp_ampi_first_error(error, now);
    }
    return error;
}

/* In place: pairs exchange their blocks, one pair after the other. */
static int
alltoall_in_place(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    int error = MPI_SUCCESS;

    for (int i = 0; i < comm->size && error == MPI_SUCCESS; i++) {
        int peer = (i - comm->rank + comm->size) % comm->size;
        size_t count = tp_ampi_side_count(&call->in, peer), size;
        MPI_Datatype type = tp_ampi_side_type(&call->in, peer);
        void *packed;

        if (peer == comm->rank) {
            continue;
        }
        size = tp_ampi_type_size(type) * count;
        packed = tp_malloc(TP_MAX(size, 1u), "MPI collective");
        if (packed == NULL) {
            return MPI_ERR_NO_MEM;
        }
        error = tp_ampi_copy_in_call(call, tp_ampi_side_at(&call->in, peer), count,
                                     type, packed, size, MPI_BYTE);
        if (error == MPI_SUCCESS) {
            error = tp_ampi_sendrecv(call->comm, true, packed, size, MPI_BYTE, peer,
                                     call->tag, tp_ampi_side_at(&call->in, peer), count,
                                     type, peer, call->tag, MPI_STATUS_IGNORE);
        }
        tp_free(packed);
    }
    return error;
}

int
tp_ampi_run_alltoall(const struct tp_ampi_call *call)
{
    const struct tp_ampi_comm *comm = call->comm;
    struct tp_ampi_request *few[2 * FEW], **requests = few;
    int error;

    if (call->out.at == MPI_IN_PLACE) {
        return alltoall_in_place(call);
    }
    if (comm->size > FEW) {
        requests = take_requests(2 * comm->size);
        if (requests == NULL) {
            return MPI_ERR_NO_MEM;
        }
    } else {
        for (int i = 0; i < 2 * comm->size; i++) {
            few[i] = NULL;
        }
    }
    error = start_all(call, &call->in, false, requests);
    if (error == MPI_SUCCESS) {
        error = start_all(call, &call->out, true, requests + comm->size);
    }
    if (error == MPI_SUCCESS) {
        error = copy_block(call, &call->out, comm->rank, &call->in, comm->rank);
    }
    error = tp_ampi_wait_all(requests, 2 * comm->size, error);
    if (requests != few) {
        tp_free(requests);
    }
    return error;
}
