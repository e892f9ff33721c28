/* SPDX-License-Identifier: Apache-2.0 */
/* Collective exchanges with the neighbours of a topology. */
#include "ampi/collective.h"
#include "ampi/topology.h"
#include "base/alloc.h"

int
tp_ampi_source_count(const struct tp_ampi_comm *comm)
{
    const struct tp_ampi_topology *t = comm->topology;

    return t != NULL ? t->in_count : 0;
}

int
tp_ampi_destination_count(const struct tp_ampi_comm *comm)
{
    const struct tp_ampi_topology *t = comm->topology;

    return t != NULL ? t->out_count : 0;
}

/* Sends one block to all. */
static int
send_one(const struct tp_ampi_call *call, int to, int at,
         struct tp_ampi_request **request)
{
    const struct tp_ampi_side *out = &call->out;

    (void)at;
    return tp_ampi_isend(call->comm, true, out->at, out->count, out->type, to,
                         call->tag, request);
}

/* Sends each its block. */
static int
send_own(const struct tp_ampi_call *call, int to, int at,
         struct tp_ampi_request **request)
{
    const struct tp_ampi_side *out = &call->out;

    return tp_ampi_isend(call->comm, true, tp_ampi_side_at(out, at),
                         tp_ampi_side_count(out, at), tp_ampi_side_type(out, at), to,
                         call->tag, request);
}

/*
 * Messages of one rank arrive in order. If a rank is both neighbours in a dimension of a grid,
 * what it sends back comes first, and belongs to the neighbour ahead: hence receives in pairs,
 * the later one first.
 */
static int
receive_all(const struct tp_ampi_call *call, const struct tp_ampi_topology *t,
            struct tp_ampi_request **requests)
{
    const struct tp_ampi_side *in = &call->in;
    int error = MPI_SUCCESS;

    for (int i = 0; i < t->in_count && error == MPI_SUCCESS; i++) {
        int at = t->kind == MPI_CART ? i ^ 1 : i;

        if (t->sources[at] != MPI_PROC_NULL) {
            error = tp_ampi_irecv(call->comm, true, tp_ampi_side_at(in, at),
                                  tp_ampi_side_count(in, at), tp_ampi_side_type(in, at),
                                  t->sources[at], call->tag, &requests[at]);
        }
    }
    return error;
}

static int
exchange(const struct tp_ampi_call *call,
         int (*send)(const struct tp_ampi_call *call, int to, int at,
                     struct tp_ampi_request **request))
{
    const struct tp_ampi_topology *t = call->comm->topology;
    struct tp_ampi_request **requests;
    int error, count;

    if (t == NULL) {
        return tp_ampi_error(call->comm, MPI_ERR_TOPOLOGY, "%s: %s has no topology",
                             call->name, call->comm->name);
    }
    count = t->in_count + t->out_count;
    requests = tp_alloc_array((size_t)TP_MAX(count, 1),
                              sizeof(struct tp_ampi_request *), "MPI collective");
    if (requests == NULL) {
        return MPI_ERR_NO_MEM;
    }
    error = receive_all(call, t, requests);
    for (int i = 0; i < t->out_count && error == MPI_SUCCESS; i++) {
        if (t->destinations[i] != MPI_PROC_NULL) {
            error = send(call, t->destinations[i], i, &requests[t->in_count + i]);
        }
    }
    error = tp_ampi_wait_all(requests, count, error);
    tp_free(requests);
    return error;
}

int
tp_ampi_run_neighbor_allgather(const struct tp_ampi_call *call)
{
    return exchange(call, send_one);
}

int
tp_ampi_run_neighbor_alltoall(const struct tp_ampi_call *call)
{
    return exchange(call, send_own);
}
