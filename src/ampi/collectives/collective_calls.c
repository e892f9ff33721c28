/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls: checks, and their blocking and non-blocking forms. */
#include <string.h>

#include "ampi/intercomm.h"
#include "ampi/op.h"
#include "ampi/process.h"
#include "ampi/type.h"
#include "base/alloc.h"

/* ---- checks ---- */

static bool
is_type(MPI_Datatype type)
{
    return tp_ampi_type_size(type) != SIZE_MAX;
}

/* Blocks in device memory are sent and received there; they cannot be packed. */
static int
check_memory(struct tp_ampi_call *call, const struct tp_ampi_side *side, int ranks)
{
    if (side->at == NULL || !tp_ampi_is_device(side->at)) {
        return MPI_SUCCESS;
    }
    call->device = true;
    for (int i = 0; i < (side->types != NULL ? ranks : 1); i++) {
        const struct tp_ampi_type *type = tp_ampi_type_get(tp_ampi_side_type(side, i));

        if (!type->dense) {
            return tp_ampi_error(call->comm, MPI_ERR_BUFFER,
                                 "%s: elements of %s in device memory have gaps; copy "
                                 "them to host memory",
                                 call->name, type->name);
        }
    }
    return MPI_SUCCESS;
}

/* Are the blocks no longer than any memory? */
static bool
fits(const struct tp_ampi_side *side, int ranks)
{
    bool differ = side->counts != NULL || side->types != NULL, fit = true;

    for (int i = 0; i < (differ ? ranks : 1); i++) {
        size_t count = side->counts != NULL ? (size_t)side->counts[i] : side->count;

        fit &= tp_ampi_type_fits(tp_ampi_side_type(side, i),
                                 differ ? count : count * (size_t)ranks);
    }
    return fit;
}

/* Counts, types and memory of a side. @param ranks  0: the side does not count here */
static int
check_side(struct tp_ampi_call *call, const struct tp_ampi_side *side, int ranks)
{
    if (ranks == 0 || side->at == MPI_IN_PLACE) {
        return MPI_SUCCESS;
    }
    for (int i = 0; i < (side->counts != NULL ? ranks : 0); i++) {
        if (side->counts[i] < 0) {
            return tp_ampi_error(call->comm, MPI_ERR_COUNT, "%s: count %d for rank %d",
                                 call->name, side->counts[i], i);
        }
    }
    for (int i = 0; i < (side->types != NULL ? ranks : 1); i++) {
        MPI_Datatype type = tp_ampi_side_type(side, i);

        if (!is_type(type)) {
            return tp_ampi_error(call->comm, MPI_ERR_TYPE,
                                 "%s: %#x is no datatype, or not committed", call->name,
                                 type);
        }
    }
    if (side->count > INT32_MAX) {
        return tp_ampi_error(call->comm, MPI_ERR_COUNT, "%s: a count of %d is negative",
                             call->name, (int)side->count);
    }
    if (!fits(side, ranks)) {
        return tp_ampi_error(call->comm, MPI_ERR_COUNT,
                             "%s: the elements are longer than any memory", call->name);
    }
    return check_memory(call, side, ranks);
}

enum { NO_ROOT = -100 };

static bool
has_sound_root(const struct tp_ampi_call *call)
{
    int root = call->root;

    return root == NO_ROOT || (root >= 0 && root < call->comm->peers->size) ||
           (call->comm->local != NULL && (root == MPI_ROOT || root == MPI_PROC_NULL));
}

static bool
is_root(const struct tp_ampi_comm *comm, int root)
{
    return comm->local != NULL ? root == MPI_ROOT : comm->rank == root;
}

static bool
is_used(const struct tp_ampi_side *side, int ranks)
{
    bool used = ranks > 0 && side->count > 0;

    for (int i = 0; side->counts != NULL && i < ranks; i++) {
        used |= side->counts[i] > 0;
    }
    return used;
}

/* With types for each rank, their displacements may be addresses. */
static bool
is_missing(const struct tp_ampi_side *side, int ranks)
{
    return tp_ampi_is_missing(side->at, side->type) && side->types == NULL &&
           is_used(side, ranks);
}

/* Is what the rank sends where it receives, or, in a gather, where its own block goes? */
static bool
is_aliased(const struct tp_ampi_call *call, int out_ranks, int in_ranks)
{
    const struct tp_ampi_side *out = &call->out, *in = &call->in;
    bool gathers =
        call->run == tp_ampi_run_gather || call->run == tp_ampi_run_allgather;

    if (tp_likely(out->at != in->at) &&
        !(gathers && in_ranks > 0 &&
          out->at == tp_ampi_side_at(in, call->comm->rank))) {
        return false;
    }
    return call->comm->local == NULL && out->at != NULL && is_used(in, in_ranks) &&
           (call->op != MPI_OP_NULL || is_used(out, out_ranks)) &&
           (call->run != tp_ampi_run_reduce || is_root(call->comm, call->root));
}

/* Not all ranks use the receive buffer of a reduction, nor both sides between two groups. */
static int
check_buffers(const struct tp_ampi_call *call, int out_ranks, int in_ranks)
{
    bool missing = is_missing(&call->out, out_ranks) ||
                   (call->op == MPI_OP_NULL && is_missing(&call->in, in_ranks));

    return call->comm->local == NULL && missing
               ? tp_ampi_error(call->comm, MPI_ERR_BUFFER, "%s: a buffer is NULL",
                               call->name)
           : is_aliased(call, out_ranks, in_ranks)
               ? tp_ampi_error(call->comm, MPI_ERR_BUFFER,
                               "%s: both buffers are the same; use MPI_IN_PLACE",
                               call->name)
               : MPI_SUCCESS;
}

static int
check(struct tp_ampi_call *call, int out_ranks, int in_ranks)
{
    int error;

    if (!has_sound_root(call)) {
        return tp_ampi_error(call->comm, MPI_ERR_ROOT, "%s: root %d of %d ranks",
                             call->name, call->root, call->comm->peers->size);
    }
    if (call->root == MPI_PROC_NULL) {
        return MPI_SUCCESS; /* the other arguments do not count */
    }
    error = check_side(call, &call->out, out_ranks);
    if (error == MPI_SUCCESS) {
        error = check_side(call, &call->in, in_ranks);
    }
    if (error == MPI_SUCCESS) {
        error = check_buffers(call, out_ranks, in_ranks);
    }
    if (error == MPI_SUCCESS && call->op != MPI_OP_NULL &&
        !tp_ampi_op_reduces(call->op, call->in.type)) {
        error =
            tp_ampi_error(call->comm, MPI_ERR_OP, "%s: operation %#x does not take %s",
                          call->name, call->op, tp_ampi_type_get(call->in.type)->name);
    }
    return error;
}

/* ---- forms ---- */

static int
run(const struct tp_ampi_call *call)
{
    int error = call->device && call->op != MPI_OP_NULL ? tp_ampi_run_on_device(call)
                : call->comm->local != NULL             ? tp_ampi_run_between(call)
                                                        : call->run(call);

    return error == MPI_ERR_NO_MEM
               ? tp_ampi_error(call->comm, error, "%s: no memory", call->name)
               : error;
}

enum form { BLOCKING, NON_BLOCKING, PERSISTENT };

/* Copies an array of the program to *at, which it moves. */
static const void *
copy_array(const void *array, size_t len, char **at)
{
    char *copy = *at;

    if (array == NULL) {
        return NULL;
    }
    memcpy(copy, array, len);
    *at += len;
    return copy;
}

static void
copy_arrays(struct tp_ampi_side *side, int ranks, char **at)
{
    size_t n = (size_t)ranks;

    side->ranks = ranks;
    side->addresses = copy_array(side->addresses, n * sizeof(MPI_Aint), at);
    side->counts = copy_array(side->counts, n * sizeof(int), at);
    side->displs = copy_array(side->displs, n * sizeof(int), at);
    side->types = copy_array(side->types, n * sizeof(MPI_Datatype), at);
    *at += -(uintptr_t)*at % sizeof(MPI_Aint);
}

static void
each_type(const struct tp_ampi_side *side, void (*fn)(MPI_Datatype type))
{
    fn(side->type);
    for (int i = 0; side->types != NULL && i < side->ranks; i++) {
        fn(side->types[i]);
    }
}

static void
destroy_call(void *arg)
{
    struct tp_ampi_call *call = arg;

    each_type(&call->in, tp_ampi_type_unref);
    each_type(&call->out, tp_ampi_type_unref);
    tp_ampi_op_unref(call->op);
    tp_ampi_comm_unref(call->comm);
    tp_free(call);
}

/* Copies a call that goes on after its return: the program may free its arrays and types. */
static struct tp_ampi_call *
copy_call(const struct tp_ampi_call *call, int out_ranks, int in_ranks)
{
    enum { EACH = sizeof(MPI_Aint) + 2 * sizeof(int) + sizeof(MPI_Datatype) };
    size_t ranks = (size_t)out_ranks + (size_t)in_ranks;
    struct tp_ampi_call *copy = tp_malloc(
        sizeof(*copy) + ranks * EACH + 2 * sizeof(MPI_Aint), "MPI collective");
    char *at;

    if (copy == NULL) {
        return NULL;
    }
    *copy = *call;
    at = (char *)(copy + 1);
    copy_arrays(&copy->out, copy->out.at == MPI_IN_PLACE ? 0 : out_ranks, &at);
    copy_arrays(&copy->in, in_ranks, &at);
    copy->comm->refs++;
    each_type(&copy->in, tp_ampi_type_ref);
    each_type(&copy->out, tp_ampi_type_ref);
    tp_ampi_op_ref(copy->op);
    return copy;
}

static int
run_again(void *arg)
{
    return run(arg);
}

static int
run_light(void *arg)
{
    int error = run(arg);

    destroy_call(arg);
    return error;
}

static int
start_light(const struct tp_ampi_call *call, int out_ranks, int in_ranks,
            enum form form, MPI_Request *ret)
{
    struct tp_ampi_call *copy = copy_call(call, out_ranks, in_ranks);
    int error = MPI_ERR_NO_MEM;

    if (copy != NULL) {
        error = form == PERSISTENT
                    ? tp_ampi_init_light(run_again, destroy_call, copy, ret)
                    : tp_ampi_start_light(run_light, copy, ret);
    }
    return tp_ampi_error(call->comm, error, "%s: no memory", call->name);
}

/* Blocking calls and others are counted apart, since they never belong together. */
static int
take_tag(struct tp_ampi_comm *comm, bool returns)
{
    return (int)((comm->collectives[returns]++ & 0x1fffffff) << 1) | (int)returns;
}

/*
 * Runs a call, starts it, or makes it ready for MPI_Start(). @param out_ranks, in_ranks  blocks of each side
 * that this rank uses
 */
static int
begin(struct tp_ampi_call *call, int out_ranks, int in_ranks, enum form form,
      MPI_Request *request)
{
    int error;

    error = check(call, out_ranks, in_ranks);
    if (error == MPI_SUCCESS) { /* ranks without the error find a call made again */
        call->tag = take_tag(call->comm, form != BLOCKING);
        error = form != BLOCKING ? start_light(call, out_ranks, in_ranks, form, request)
                                 : run(call);
    }
    return error;
}

static struct tp_ampi_comm *
find(MPI_Comm handle, const char *name)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_get(handle);

    if (comm == NULL) {
        (void)tp_ampi_error(NULL, MPI_ERR_COMM, "%s: %#x is no communicator", name,
                            handle);
    }
    return comm;
}

/* ---- calls ---- */

#define ALL (comm->peers->size)
#define OWN (comm->size)
#define ROOT_ONLY (is_root(comm, root) ? comm->peers->size : 0)
#define OUTS(...)                                                                      \
    (struct tp_ampi_side) { __VA_ARGS__ }
#define BUFFER(buffer, n, t)                                                           \
    OUTS(.at = (char *)(uintptr_t)(buffer), .count = (size_t)(n), .type = (t))
#define BLOCKS(buffer, ns, ds, t)                                                      \
    OUTS(.at = (char *)(uintptr_t)(buffer), .counts = (ns), .displs = (ds), .type = (t))
#define TYPED(buffer, ns, ds, ts)                                                      \
    OUTS(.at = (char *)(uintptr_t)(buffer), .counts = (ns), .displs = (ds),            \
         .types = (ts), .type = MPI_BYTE)
#define ADDRESSED(buffer, ns, as, ts)                                                  \
    OUTS(.at = (char *)(uintptr_t)(buffer), .counts = (ns), .addresses = (as),         \
         .types = (ts), .type = MPI_BYTE)
#define NOTHING OUTS(.type = MPI_BYTE)
#define SOURCES tp_ampi_source_count(comm)
#define DESTINATIONS tp_ampi_destination_count(comm)

/*
 * COLLECTIVE(name, non-blocking name, algorithm, parameters, arguments, out side, its ranks, in
 * side, its ranks, operation, root)
 */
#define UNPACK(...) __VA_ARGS__
#define COLLECTIVE(Name, Iname, algorithm, params, args, outs, out_ranks, ins,         \
                   in_ranks, operation, from)                                          \
    static int start_##Name(UNPACK params, enum form form, MPI_Request *request,       \
                            const char *call_name)                                     \
    {                                                                                  \
        struct tp_ampi_comm *comm;                                                     \
        int error = MPI_ERR_COMM;                                                      \
                                                                                       \
        tp_ampi_enter();                                                               \
        comm = find(comm_handle, call_name);                                           \
        if (comm != NULL) {                                                            \
            struct tp_ampi_call call; /* compilers clear it slowly */                  \
                                                                                       \
            call.run = tp_ampi_run_##algorithm;                                        \
            call.name = call_name;                                                     \
            call.comm = comm;                                                          \
            call.out = outs;                                                           \
            call.in = ins;                                                             \
            call.op = operation;                                                       \
            call.root = from;                                                          \
            call.tag = 0;                                                              \
            call.device = false;                                                       \
            call.kind = 0;                                                             \
            error = begin(&call, out_ranks, in_ranks, form, request);                  \
        }                                                                              \
        tp_ampi_leave();                                                               \
        return error;                                                                  \
    }                                                                                  \
    int PMPI_##Name(UNPACK params)                                                     \
    {                                                                                  \
        return start_##Name(UNPACK args, BLOCKING, NULL, "MPI_" #Name);                \
    }                                                                                  \
    TP_MPI_NAME(Name);                                                                 \
    int PMPI_##Iname(UNPACK params, MPI_Request *request)                              \
    {                                                                                  \
        return start_##Name(UNPACK args, NON_BLOCKING, request, "MPI_" #Iname);        \
    }                                                                                  \
    TP_MPI_NAME(Iname);                                                                \
    int PMPI_##Name##_init(UNPACK params, MPI_Info info, MPI_Request *request)         \
    {                                                                                  \
        (void)info; /* no hints are known */                                           \
        return start_##Name(UNPACK args, PERSISTENT, request, "MPI_" #Name "_init");   \
    }                                                                                  \
    TP_MPI_NAME(Name##_init)

/* clang-format off */
COLLECTIVE(Barrier, Ibarrier, barrier, (MPI_Comm comm_handle), (comm_handle),
    NOTHING, 0, NOTHING, 0, MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Bcast, Ibcast, bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm_handle),
    (buffer, count, type, root, comm_handle), NOTHING, 0, BUFFER(buffer, count, type), ALL, MPI_OP_NULL, root);
COLLECTIVE(Gather, Igather, gather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root,
     MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_count, in_type, root, comm_handle),
    BUFFER(out, out_count, out_type), ALL, BUFFER(in, in_count, in_type), ROOT_ONLY, MPI_OP_NULL, root);
COLLECTIVE(Gatherv, Igatherv, gather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[], const int displs[],
     MPI_Datatype in_type, int root, MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_counts, displs, in_type, root, comm_handle),
    BUFFER(out, out_count, out_type), ALL, BLOCKS(in, in_counts, displs, in_type), ROOT_ONLY, MPI_OP_NULL, root);
COLLECTIVE(Scatter, Iscatter, scatter,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root,
     MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_count, in_type, root, comm_handle),
    BUFFER(out, out_count, out_type), ROOT_ONLY, BUFFER(in, in_count, in_type), ALL, MPI_OP_NULL, root);
COLLECTIVE(Scatterv, Iscatterv, scatter,
    (const void *out, const int out_counts[], const int displs[], MPI_Datatype out_type, void *in, int in_count,
     MPI_Datatype in_type, int root, MPI_Comm comm_handle),
    (out, out_counts, displs, out_type, in, in_count, in_type, root, comm_handle),
    BLOCKS(out, out_counts, displs, out_type), ROOT_ONLY, BUFFER(in, in_count, in_type), ALL, MPI_OP_NULL, root);
COLLECTIVE(Allgather, Iallgather, allgather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_count, in_type, comm_handle),
    BUFFER(out, out_count, out_type), ALL, BUFFER(in, in_count, in_type), ALL, MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Allgatherv, Iallgatherv, allgather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[], const int displs[],
     MPI_Datatype in_type, MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_counts, displs, in_type, comm_handle),
    BUFFER(out, out_count, out_type), ALL, BLOCKS(in, in_counts, displs, in_type), ALL, MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Alltoall, Ialltoall, alltoall,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_count, in_type, comm_handle),
    BUFFER(out, out_count, out_type), ALL, BUFFER(in, in_count, in_type), ALL, MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Alltoallv, Ialltoallv, alltoall,
    (const void *out, const int out_counts[], const int out_displs[], MPI_Datatype out_type, void *in,
     const int in_counts[], const int in_displs[], MPI_Datatype in_type, MPI_Comm comm_handle),
    (out, out_counts, out_displs, out_type, in, in_counts, in_displs, in_type, comm_handle),
    BLOCKS(out, out_counts, out_displs, out_type), ALL, BLOCKS(in, in_counts, in_displs, in_type), ALL,
    MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Alltoallw, Ialltoallw, alltoall,
    (const void *out, const int out_counts[], const int out_displs[], const MPI_Datatype out_types[], void *in,
     const int in_counts[], const int in_displs[], const MPI_Datatype in_types[], MPI_Comm comm_handle),
    (out, out_counts, out_displs, out_types, in, in_counts, in_displs, in_types, comm_handle),
    TYPED(out, out_counts, out_displs, out_types), ALL, TYPED(in, in_counts, in_displs, in_types), ALL,
    MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Reduce, Ireduce, reduce,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm_handle),
    (out, in, count, type, op, root, comm_handle),
    BUFFER(out, count, type), ALL, BUFFER(in, count, type), ALL, op, root);
COLLECTIVE(Allreduce, Iallreduce, allreduce,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm_handle),
    (out, in, count, type, op, comm_handle),
    BUFFER(out, count, type), ALL, BUFFER(in, count, type), ALL, op, NO_ROOT);
COLLECTIVE(Reduce_scatter, Ireduce_scatter, reduce_scatter,
    (const void *out, void *in, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm_handle),
    (out, in, counts, type, op, comm_handle),
    BUFFER(out, 0, type), ALL, BLOCKS(in, counts, NULL, type), OWN, op, NO_ROOT);
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, reduce_scatter,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm_handle),
    (out, in, count, type, op, comm_handle),
    BUFFER(out, 0, type), ALL, BUFFER(in, count, type), OWN, op, NO_ROOT);
COLLECTIVE(Scan, Iscan, scan,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm_handle),
    (out, in, count, type, op, comm_handle),
    BUFFER(out, count, type), ALL, BUFFER(in, count, type), ALL, op, NO_ROOT);
COLLECTIVE(Exscan, Iexscan, exscan,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm_handle),
    (out, in, count, type, op, comm_handle),
    BUFFER(out, count, type), ALL, BUFFER(in, count, type), ALL, op, NO_ROOT);
COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, neighbor_allgather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_count, in_type, comm_handle),
    BUFFER(out, out_count, out_type), DESTINATIONS, BUFFER(in, in_count, in_type), SOURCES, MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv, neighbor_allgather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[], const int displs[],
     MPI_Datatype in_type, MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_counts, displs, in_type, comm_handle),
    BUFFER(out, out_count, out_type), DESTINATIONS, BLOCKS(in, in_counts, displs, in_type), SOURCES,
    MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, neighbor_alltoall,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     MPI_Comm comm_handle),
    (out, out_count, out_type, in, in_count, in_type, comm_handle),
    BUFFER(out, out_count, out_type), DESTINATIONS, BUFFER(in, in_count, in_type), SOURCES, MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv, neighbor_alltoall,
    (const void *out, const int out_counts[], const int out_displs[], MPI_Datatype out_type, void *in,
     const int in_counts[], const int in_displs[], MPI_Datatype in_type, MPI_Comm comm_handle),
    (out, out_counts, out_displs, out_type, in, in_counts, in_displs, in_type, comm_handle),
    BLOCKS(out, out_counts, out_displs, out_type), DESTINATIONS, BLOCKS(in, in_counts, in_displs, in_type), SOURCES,
    MPI_OP_NULL, NO_ROOT);
COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw, neighbor_alltoall,
    (const void *out, const int out_counts[], const MPI_Aint out_displs[], const MPI_Datatype out_types[], void *in,
     const int in_counts[], const MPI_Aint in_displs[], const MPI_Datatype in_types[], MPI_Comm comm_handle),
    (out, out_counts, out_displs, out_types, in, in_counts, in_displs, in_types, comm_handle),
    ADDRESSED(out, out_counts, out_displs, out_types), DESTINATIONS,
    ADDRESSED(in, in_counts, in_displs, in_types), SOURCES, MPI_OP_NULL, NO_ROOT);
/* clang-format on */
