/* SPDX-License-Identifier: Apache-2.0 */
/* What programs call. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "offload/offload_int.h"
#include "offload/pmpi.h"

/* Nobody else would answer: the parents are those of the intercommunicator, in its order. */
static telpher_status
check_comms(MPI_Comm inter, MPI_Comm comm, struct tp_error *err)
{
    int is_inter = 0, size, rank, parents, mine;

    if (inter != MPI_COMM_NULL) {
        PMPI_Comm_test_inter(inter, &is_inter);
    }
    if (!is_inter) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "no intercommunicator with workers was given");
    }
    PMPI_Comm_size(inter, &parents);
    PMPI_Comm_rank(inter, &mine);
    PMPI_Comm_size(comm, &size);
    PMPI_Comm_rank(comm, &rank);
    if (size != parents || rank != mine) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "process %d of %d is %d of %d in the communicator: it must "
                            "be the parents'",
                            mine, parents, rank, size);
    }
    return TELPHER_OK;
}

/* The first call meets the workers. */
static struct tp_group *
meet(MPI_Comm inter, int root, MPI_Comm comm, struct tp_error *err)
{
    struct tp_group *g;

    if (check_comms(inter, tp_comm(comm), err) != TELPHER_OK) {
        return NULL;
    }
    tp_mutex_lock(&tp_offload_lock);
    g = tp_group_of(inter, TELPHER_OFFLOAD_SPAWN);
    tp_mutex_unlock(&tp_offload_lock);
    if (g == NULL) {
        tp_world_abort("out of memory"); /* the other parents would wait */
    }
    if (!g->attached && tp_group_attach(g, root, tp_comm(comm), err) != TELPHER_OK) {
        if (g->pool == NULL) {
            tp_group_destroy(g);
        }
        return NULL;
    }
    return g;
}

/* Nobody would send the call, and the workers wait for it before those behind. */
static telpher_status
check_root(MPI_Comm inter, int root, struct tp_error *err)
{
    int parents = 0;

    if (inter != MPI_COMM_NULL) {
        PMPI_Comm_size(inter, &parents);
    }
    return root < 0 || root >= parents
               ? tp_error_set(err, TELPHER_ERR_INVALID, "root %d of %d parents", root,
                              parents)
               : TELPHER_OK;
}

struct tp_group *
tp_group_lock(MPI_Comm inter, int root, MPI_Comm comm, struct tp_error *err)
{
    struct tp_group *g;

    tp_mutex_lock(&tp_offload_lock);
    g = tp_group_find(inter);
    if (g != NULL && g->attached && root >= 0 && root < g->parents) {
        return g;
    }
    tp_mutex_unlock(&tp_offload_lock);
    if (check_root(inter, root, err) != TELPHER_OK) {
        return NULL;
    }
    g = meet(inter, root, comm, err);
    if (g != NULL) {
        tp_mutex_lock(&tp_offload_lock);
    }
    return g;
}

static telpher_status
unknown(const struct tp_group *g, const char *name, struct tp_error *err)
{
    const char *guess = tp_offload_names_guess(&g->names, name);

    return tp_error_set(
        err, TELPHER_ERR_NOT_FOUND,
        "the workers have no kernel %.100s%s%s%s: register it with TELPHER_KERNEL(), "
        "or "
        "build them with telpher-worker-cc, so that its argument types are known",
        name, guess != NULL ? " (perhaps " : "", guess != NULL ? guess : "",
        guess != NULL ? ")" : "");
}

/* The types that the caller has said, as a signature. */
static telpher_status
caller_types(const telpher_launch *l, struct tp_offload_signature *types,
             struct tp_error *err)
{
    telpher_kernel as_kernel = {
        .struct_size = sizeof(as_kernel),
        .argcount = l->argcount,
        .args = l->types,
    };

    return tp_offload_signature_of(&as_kernel, types, err);
}

/* Of what the caller has given: a bytes argument of no bytes may be nowhere. */
static telpher_status
check_args(const telpher_launch *l, struct tp_error *err)
{
    for (uint32_t i = 0; i < l->argcount; i++) {
        if (l->args[i] == NULL && l->sizes[i] != 0) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "kernel %s: argument %u is missing", l->name, i + 1);
        }
    }
    return TELPHER_OK;
}

static telpher_status
check(const struct tp_group *g, const telpher_launch *l, int64_t index,
      struct tp_error *err)
{
    const struct tp_offload_signature *sig = &g->names.known[index].sig;
    struct tp_offload_signature types;
    telpher_status status = TELPHER_OK;

    if (l->argcount != 0 && (l->args == NULL || l->sizes == NULL)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "kernel %s: no arguments, or no sizes of them, were given",
                            l->name);
    }
    if (l->types != NULL) {
        status = caller_types(l, &types, err);
    }
    if (status == TELPHER_OK) {
        status = tp_offload_check(l->name, sig, l->argcount, l->sizes,
                                  l->types != NULL ? &types : NULL, err);
    }
    return status == TELPHER_OK ? check_args(l, err) : status;
}

/* Appends one kernel's record to the scratch buffer. */
static telpher_status
encode(struct tp_group *g, const telpher_launch *l, uint32_t flags,
       struct tp_error *err)
{
    struct tp_offload_record r = {.flags = (uint16_t)flags};
    const struct tp_offload_known *known;
    void *with_arrays[TELPHER_KERNEL_ARGS_MAX];
    uint64_t ids[TELPHER_KERNEL_ARGS_MAX];
    void *const *args = l->args;
    int64_t index = tp_offload_names_find(&g->names, l->name);
    telpher_status status;
    uint8_t *tail;

    if (index < 0) {
        return unknown(g, l->name, err);
    }
    known = &g->names.known[index];
    status = check(g, l, index, err);
    if (status == TELPHER_OK && known->sig.has_arrays) {
        status = tp_array_args(g, l, &known->sig, with_arrays, ids, err);
        args = with_arrays;
    }
    if (status != TELPHER_OK) {
        return status;
    }
    r.kernel = (uint32_t)index;
    r.len = tp_offload_args_len(&known->sig, l->sizes);
    if ((r.len == 0 && l->argcount != 0) || r.len > g->limit_bytes - sizeof(r) ||
        tp_buf_len(&g->scratch) > g->limit_bytes - sizeof(r) - r.len) {
        return tp_error_set(
            err, TELPHER_ERR_LIMIT,
            "kernel %s: the workers take no more than %llu bytes in one "
            "launch (TELPHER_OFFLOAD_LIMIT)",
            l->name, (unsigned long long)g->limit_bytes);
    }
    status = tp_buf_reserve(&g->scratch, sizeof(r) + r.len, &tail);
    if (status != TELPHER_OK) {
        return tp_error_set(err, status, "no room for the arguments");
    }
    memcpy(tail, &r, sizeof(r));
    tp_offload_args_put(&known->sig, args, l->sizes, tail + sizeof(r));
    tp_buf_commit(&g->scratch, sizeof(r) + r.len);
    return TELPHER_OK;
}

/* Encodes all kernels of a call, up to "" if that is among them. */
static telpher_status
encode_all(struct tp_group *g, const struct tp_calls *calls, bool wants_done,
           bool *ret_ends, struct tp_error *err)
{
    uint64_t sizes[TELPHER_KERNEL_ARGS_MAX];
    telpher_launch room;
    telpher_status status = TELPHER_OK;

    *ret_ends = false;
    for (uint32_t i = 0; i < calls->count && status == TELPHER_OK && !*ret_ends; i++) {
        const telpher_launch *l = calls->get(calls, i, &room, sizes);
        bool last = i + 1 == calls->count;

        if (l == NULL || l->name == NULL) {
            return tp_error_set(
                err, TELPHER_ERR_INVALID,
                "a name, a count or a size of a kernel call is missing or negative");
        }
        *ret_ends = l->name[0] == '\0'; /* what stands behind it has no workers */
        if (!*ret_ends) {
            status = encode(g, l, last && wants_done ? TP_OFFLOAD_DONE : 0, err);
        }
    }
    return status;
}

static telpher_status
ended(struct tp_error *err)
{
    return tp_error_set(err, TELPHER_ERR_PEER_LOST,
                        "the workers were told to end (kernel \"\")");
}

static telpher_status
start_kernels(struct tp_group *g, uint64_t number, const struct tp_calls *calls,
              bool wants_done, struct tp_error *err)
{
    telpher_status status;
    bool ends;

    if (g->ended) {
        return ended(err);
    }
    status = encode_all(g, calls, wants_done, &ends, err);
    if (status != TELPHER_OK) {
        tp_send_nothing(g, number, wants_done && g->parents > 1);
        return status;
    }
    return ends ? tp_group_send_end(g, number, wants_done, err)
                : tp_send_records(g, number, err);
}

struct telpher_kernel_request *
tp_request_make(struct tp_group *g, uint64_t number, struct tp_error *err)
{
    struct telpher_kernel_request *r = tp_request_create(g, number);

    if (r == NULL) {
        (void)tp_error_set(err, TELPHER_ERR_NO_MEMORY, "out of memory");
    } else if (r->done) {
        tp_list_remove(&r->link);
    }
    return r;
}

void
tp_request_drop(struct telpher_kernel_request *r)
{
    if (r != NULL) {
        tp_list_remove(&r->link);
        tp_free(r);
    }
}

/* With the lock held. Others than the root have nothing to send. Every parent counts every
 * call, whatever becomes of it. */
static telpher_status
launch_locked(struct tp_group *g, const struct tp_calls *calls, int root,
              MPIX_Kernel_request *ret_request, struct tp_error *err)
{
    struct telpher_kernel_request *request = NULL;
    bool wants_done = ret_request != NULL && calls->count > 0;
    uint64_t number = g->next++;
    telpher_status status = TELPHER_OK;

    if (g->lost) {
        return tp_error_set(err, g->status, "the workers are lost");
    }
    if (wants_done && g->has_ended) {
        return ended(err);
    }
    if (wants_done) {
        request = tp_request_make(g, number, err);
        status = err->code;
    }
    if (g->rank == root && status == TELPHER_OK) {
        status = start_kernels(g, number, calls, wants_done, err);
    } else if (g->rank == root) {
        tp_send_nothing(g, number, g->parents > 1);
    }
    if (status != TELPHER_OK) {
        tp_request_drop(request);
        return status;
    }
    if (ret_request != NULL) {
        *ret_request = request;
    }
    return TELPHER_OK;
}

telpher_status
tp_launch(const struct tp_calls *calls, int root, MPI_Comm comm, MPI_Comm inter,
          MPIX_Kernel_request *ret_request, struct tp_error *err)
{
    struct tp_group *g = tp_group_lock(inter, root, comm, err);
    telpher_status status;

    if (g == NULL) {
        return err->code;
    }
    status = launch_locked(g, calls, root, ret_request, err);
    tp_mutex_unlock(&tp_offload_lock);
    return status;
}

struct launches {
    struct tp_calls calls;
    const telpher_launch *all;
};

static const telpher_launch *
get_launch(const struct tp_calls *calls, uint32_t i, telpher_launch *room,
           uint64_t sizes[TELPHER_KERNEL_ARGS_MAX])
{
    const telpher_launch *all = ((const struct launches *)calls)->all;

    (void)room, (void)sizes;
    return all != NULL ? &all[i] : NULL;
}

telpher_status
telpher_offload_launch(uint32_t count, const telpher_launch *launches, int root,
                       MPI_Comm comm, MPI_Comm intercomm,
                       MPIX_Kernel_request *ret_request, telpher_error *err)
{
    const struct launches given = {{count, get_launch}, launches};
    struct tp_error why;
    telpher_status status;

    tp_error_init(&why);
    status = tp_launch(&given.calls, root, comm, intercomm, ret_request, &why);
    return status == TELPHER_OK ? TELPHER_OK : tp_public_error(err, &why);
}

telpher_status
telpher_offload_test(MPIX_Kernel_request *request, MPIX_Kernel_status *ret_status)
{
    struct telpher_kernel_request *r = request != NULL ? *request : NULL;
    telpher_status status;

    if (r == NULL) {
        return TELPHER_OK;
    }
    tp_mutex_lock(&tp_offload_lock);
    if (!r->done) {
        tp_send_progress(r->group);
        if (!tp_world.has_threads) {
            (void)tp_mover_round(); /* its kernel may wait for those of other workers */
        }
    }
    status = r->done ? r->status : TELPHER_IN_PROGRESS;
    if (r->done && ret_status != NULL) {
        *ret_status = r->result;
    }
    if (r->done) {
        tp_request_release(r);
        *request = NULL;
    }
    tp_mutex_unlock(&tp_offload_lock);
    return status;
}

int
telpher_offload_mode_of(MPI_Comm intercomm)
{
    struct tp_group *g;
    int mode;

    tp_mutex_lock(&tp_offload_lock);
    g = tp_group_find(intercomm);
    mode = g != NULL ? g->mode : TELPHER_OFFLOAD_AUTO;
    tp_mutex_unlock(&tp_offload_lock);
    return mode;
}

const char *
telpher_offload_mode_name(int mode)
{
    return mode == TELPHER_OFFLOAD_SPAWN   ? "spawn"
           : mode == TELPHER_OFFLOAD_SPLIT ? "split"
                                           : "auto";
}

/* Split where the launch has workers, unless something else was said. */
static int
choose_mode(const telpher_offload_params *p)
{
    int mode = p->mode != TELPHER_OFFLOAD_AUTO ? p->mode : tp_offload_settings()->mode;

    if (mode == TELPHER_OFFLOAD_AUTO) {
        mode = tp_world.base != MPI_COMM_NULL && tp_pool_idle() > 0
                   ? TELPHER_OFFLOAD_SPLIT
                   : TELPHER_OFFLOAD_SPAWN;
    }
    return mode;
}

static telpher_status
get_workers(const telpher_offload_params *p, int root, MPI_Comm comm,
            MPI_Comm *ret_inter, struct tp_error *err)
{
    if (choose_mode(p) == TELPHER_OFFLOAD_SPAWN) {
        return tp_spawn(p, root, comm, ret_inter, err);
    }
    if (tp_world.base == MPI_COMM_NULL) {
        return tp_error_set(
            err, TELPHER_ERR_UNSUPPORTED,
            "split: this launch has no workers: mpirun -np P ./program : "
            "-np C telpher-worker");
    }
    return tp_pool_take(p->workers > 0 ? p->workers : TP_MAX(tp_pool_idle(), 1), root,
                        comm, ret_inter, err);
}

static telpher_status
check_start(const telpher_offload_params *p, int root, MPI_Comm comm,
            struct tp_error *err)
{
    int size;

    PMPI_Comm_size(comm, &size);
    if (root < 0 || root >= size) {
        return tp_error_set(err, TELPHER_ERR_INVALID, "root %d of %d parents", root,
                            size);
    }
    if (p->mode < TELPHER_OFFLOAD_AUTO || p->mode > TELPHER_OFFLOAD_SPLIT) {
        return tp_error_set(err, TELPHER_ERR_INVALID, "no mode is %d", p->mode);
    }
    return TELPHER_OK;
}

telpher_status
telpher_offload_start(const telpher_offload_params *params, int root, MPI_Comm comm,
                      MPI_Comm *ret_intercomm, telpher_error *err)
{
    telpher_offload_params own = TELPHER_OFFLOAD_PARAMS_INIT;
    struct tp_error why = {0};
    MPI_Comm inter = MPI_COMM_NULL;
    telpher_status status;

    if (params != NULL) {
        memcpy(&own, params, TP_MIN(sizeof(own), params->struct_size));
    }
    status = check_start(&own, root, tp_comm(comm), &why);
    if (status == TELPHER_OK) {
        status = get_workers(&own, root, tp_comm(comm), &inter, &why);
    }
    if (status == TELPHER_OK && meet(inter, root, comm, &why) == NULL) {
        status = why.code;
    }
    if (status != TELPHER_OK) {
        return tp_public_error(err, &why);
    }
    tp_info("offload", "workers by %s",
            telpher_offload_mode_name(telpher_offload_mode_of(inter)));
    *ret_intercomm = inter;
    return TELPHER_OK;
}
