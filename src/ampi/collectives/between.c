/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective calls on intercommunicators: data goes from one group to the other. A rank of
 * the group that has the root passes MPI_ROOT, if it is the root, or MPI_PROC_NULL.
 */
#include "ampi/intercomm.h"

#include "ampi/type.h"
#include "base/alloc.h"

/* Sends a block to each rank of the other group, or receives one. @param one  the same to all */
static int
start(const struct tp_ampi_call *call, const struct tp_ampi_side *side, bool sends,
      bool one, struct tp_ampi_request **requests)
{
    int error = MPI_SUCCESS;

    for (int i = 0; i < call->comm->peers->size && error == MPI_SUCCESS; i++) {
        char *at = one ? side->at : tp_ampi_side_at(side, i);
        size_t count = one ? side->count : tp_ampi_side_count(side, i);
        MPI_Datatype type = one ? side->type : tp_ampi_side_type(side, i);

        error = sends ? tp_ampi_isend(call->comm, true, at, count, type, i, call->tag,
                                      &requests[i])
                      : tp_ampi_irecv(call->comm, true, at, count, type, i, call->tag,
                                      &requests[i]);
    }
    return error;
}

/* @param out, in  NULL: none */
static int
exchange(const struct tp_ampi_call *call, const struct tp_ampi_side *out, bool one,
         const struct tp_ampi_side *in)
{
    int peers = call->comm->peers->size, error = MPI_SUCCESS;
    struct tp_ampi_request **requests = tp_alloc_array(
        2 * (size_t)peers, sizeof(struct tp_ampi_request *), "MPI collective");

    if (requests == NULL) {
        return MPI_ERR_NO_MEM;
    }
    if (in != NULL) {
        error = start(call, in, false, false, requests);
    }
    if (error == MPI_SUCCESS && out != NULL) {
        error = start(call, out, true, one, requests + peers);
    }
    error = tp_ampi_wait_all(requests, 2 * peers, error);
    tp_free(requests);
    return error;
}

/* The same call inside of the own group. */
static struct tp_ampi_call
local_call(const struct tp_ampi_call *call, int (*run)(const struct tp_ampi_call *call))
{
    struct tp_ampi_call local = *call;

    local.comm = call->comm->local;
    local.run = run;
    local.root = 0;
    return local;
}

static bool
is_leader(const struct tp_ampi_call *call)
{
    return call->comm->rank == 0;
}

/* ---- without operations ---- */

static int
run_barrier(const struct tp_ampi_call *call)
{
    const struct tp_ampi_call local = local_call(call, tp_ampi_run_barrier);
    int error = local.run(&local);

    if (error == MPI_SUCCESS && is_leader(call)) {
        error = tp_ampi_sendrecv(call->comm, true, NULL, 0, MPI_BYTE, 0, call->tag,
                                 NULL, 0, MPI_BYTE, 0, call->tag, MPI_STATUS_IGNORE);
    }
    return error == MPI_SUCCESS ? local.run(&local) : error;
}

static int
run_bcast(const struct tp_ampi_call *call)
{
    const struct tp_ampi_call local = local_call(call, tp_ampi_run_bcast);
    const struct tp_ampi_side *in = &call->in;
    int error = MPI_SUCCESS;

    if (call->root == MPI_ROOT) {
        return tp_ampi_send(call->comm, true, in->at, in->count, in->type, 0,
                            call->tag);
    }
    if (is_leader(call)) {
        error = tp_ampi_recv(call->comm, true, in->at, in->count, in->type, call->root,
                             call->tag, MPI_STATUS_IGNORE);
    }
    return error == MPI_SUCCESS ? local.run(&local) : error;
}

static int
run_gather(const struct tp_ampi_call *call)
{
    return call->root == MPI_ROOT
               ? exchange(call, NULL, false, &call->in)
               : tp_ampi_send(call->comm, true, call->out.at, call->out.count,
                              call->out.type, call->root, call->tag);
}

static int
run_scatter(const struct tp_ampi_call *call)
{
    return call->root == MPI_ROOT
               ? exchange(call, &call->out, false, NULL)
               : tp_ampi_recv(call->comm, true, call->in.at, call->in.count,
                              call->in.type, call->root, call->tag, MPI_STATUS_IGNORE);
}

/* ---- with operations: each group reduces at its leader ---- */

/* Reduces @p count elements of the group. @param ret  what the leader has; @p ret_block to be
 * freed, also with an error */
static int
reduce_local(const struct tp_ampi_call *call, size_t count, char **ret,
             void **ret_block)
{
    struct tp_ampi_call local = local_call(call, tp_ampi_run_reduce);

    *ret = tp_ampi_take_elements(call, count, ret_block);
    if (*ret == NULL) {
        return MPI_ERR_NO_MEM;
    }
    local.in = (struct tp_ampi_side){.at = *ret, .count = count, .type = call->in.type};
    return local.run(&local);
}

static int
run_reduce(const struct tp_ampi_call *call)
{
    const struct tp_ampi_side *in = &call->in;
    char *sum;
    void *block = NULL;
    int error;

    if (call->root == MPI_ROOT) {
        return tp_ampi_recv(call->comm, true, in->at, in->count, in->type, 0, call->tag,
                            MPI_STATUS_IGNORE);
    }
    error = reduce_local(call, in->count, &sum, &block);
    if (error == MPI_SUCCESS && is_leader(call)) {
        error = tp_ampi_send(call->comm, true, sum, in->count, in->type, call->root,
                             call->tag);
    }
    tp_ampi_give_elements(call, block);
    return error;
}

/* Reduces, and gives the other group's result to the leader. @param theirs  of the leader */
static int
swap_sums(const struct tp_ampi_call *call, size_t count, char *theirs)
{
    MPI_Datatype type = call->in.type;
    void *block = NULL;
    char *sum;
    int error = reduce_local(call, count, &sum, &block);

    if (error == MPI_SUCCESS && is_leader(call)) {
        error = tp_ampi_sendrecv(call->comm, true, sum, count, type, 0, call->tag,
                                 theirs, count, type, 0, call->tag, MPI_STATUS_IGNORE);
    }
    tp_ampi_give_elements(call, block);
    return error;
}

static int
run_allreduce(const struct tp_ampi_call *call)
{
    const struct tp_ampi_call local = local_call(call, tp_ampi_run_bcast);
    int error = swap_sums(call, call->in.count, call->in.at);

    return error == MPI_SUCCESS ? local.run(&local) : error;
}

static int
run_reduce_scatter(const struct tp_ampi_call *call)
{
    struct tp_ampi_call scatter = local_call(call, tp_ampi_run_scatter);
    int size = call->comm->size, error = MPI_ERR_NO_MEM;
    int *displs = tp_alloc_array((size_t)size, sizeof(*displs), "MPI collective");
    size_t count = 0;
    char *theirs;
    void *block = NULL;

    for (int i = 0; displs != NULL && i < size; i++) {
        displs[i] = (int)count;
        count += tp_ampi_side_count(&call->in, i);
    }
    theirs = tp_ampi_take_elements(call, count, &block);
    if (displs != NULL && theirs != NULL) {
        error = swap_sums(call, count, theirs);
    }
    if (error == MPI_SUCCESS) {
        scatter.out = call->in;
        scatter.out.at = theirs;
        scatter.out.displs = displs;
        scatter.in.count = tp_ampi_side_count(&call->in, call->comm->rank);
        scatter.in.counts = NULL;
        error = scatter.run(&scatter);
    }
    tp_free(displs);
    tp_ampi_give_elements(call, block);
    return error;
}

/* ---- all ---- */

int
tp_ampi_run_between(const struct tp_ampi_call *call)
{
    int (*run)(const struct tp_ampi_call *call) = call->run;

    if (call->root == MPI_PROC_NULL) {
        return MPI_SUCCESS;
    }
    if (run == tp_ampi_run_allgather) {
        return exchange(call, &call->out, true, &call->in);
    }
    if (run == tp_ampi_run_alltoall) {
        return exchange(call, &call->out, false, &call->in);
    }
    return run == tp_ampi_run_barrier     ? run_barrier(call)
           : run == tp_ampi_run_bcast     ? run_bcast(call)
           : run == tp_ampi_run_gather    ? run_gather(call)
           : run == tp_ampi_run_scatter   ? run_scatter(call)
           : run == tp_ampi_run_reduce    ? run_reduce(call)
           : run == tp_ampi_run_allreduce ? run_allreduce(call)
           : run == tp_ampi_run_reduce_scatter
               ? run_reduce_scatter(call)
               : tp_ampi_error(call->comm, MPI_ERR_COMM,
                               "%s: takes no intercommunicator", call->name);
}
