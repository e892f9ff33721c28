/* SPDX-License-Identifier: Apache-2.0 */
/* Starts kernels, and tests and waits for requests. */
#include "base/alloc.h"
#include "offload/offload_int.h"
#include "offload/pmpi.h"

/* Checks that the parents are those of the intercommunicator, in its order: others
 * would not answer. */
static telpher_status
check_parents(MPI_Comm comm, int parents, int mine, struct tp_error *err)
{
    int size, rank;

    if (comm == MPI_COMM_NULL || tp_offload_is_inter(comm)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "the parents' communicator is MPI_COMM_NULL or an "
                            "intercommunicator");
    }
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

static telpher_status
check_comms(MPI_Comm inter, MPI_Comm comm, struct tp_error *err)
{
    int parents, mine;

    if (!tp_offload_is_inter(inter)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "no intercommunicator with workers was given");
    }
    PMPI_Comm_size(inter, &parents);
    PMPI_Comm_rank(inter, &mine);
    return check_parents(comm, parents, mine, err);
}

telpher_status
tp_offload_group_check_comm(struct tp_offload_group *g, MPI_Comm comm,
                            struct tp_error *err)
{
    telpher_status status;

    comm = tp_offload_comm(comm);
    if (comm != MPI_COMM_NULL && comm == g->checked) {
        return TELPHER_OK;
    }
    status = check_parents(comm, g->parents, g->rank, err);
    if (status == TELPHER_OK) {
        g->checked = comm;
    }
    return status;
}

/* The first call connects to the workers. */
static struct tp_offload_group *
meet(MPI_Comm inter, int root, MPI_Comm comm, struct tp_error *err)
{
    struct tp_offload_group *g;

    if (check_comms(inter, tp_offload_comm(comm), err) != TELPHER_OK) {
        return NULL;
    }
    tp_mutex_lock(&tp_offload_lock);
    g = tp_offload_group_of(inter, TELPHER_OFFLOAD_SPAWN);
    tp_mutex_unlock(&tp_offload_lock);
    if (g == NULL) {
        tp_offload_world_abort("out of memory"); /* the other parents would wait */
    }
    if (!g->attached &&
        tp_offload_group_attach(g, root, tp_offload_comm(comm), err) != TELPHER_OK) {
        if (g->pool == NULL && !g->attached) {
            tp_offload_group_destroy(g);
        }
        return NULL;
    }
    return g;
}

/* Sends a placeholder for a rejected call: the workers wait for its number before
 * they run later calls. */
static telpher_status
check_root(MPI_Comm inter, int root, struct tp_error *err)
{
    int parents = 0;

    if (inter != MPI_COMM_NULL) {
        PMPI_Comm_size(inter, &parents);
    }
    return root < 0 || root >= parents
               ? tp_error_set(err, TELPHER_ERR_INVALID,
                              "root %d is not a parent: there are %d, counted from 0",
                              root, parents)
               : TELPHER_OK;
}

struct tp_offload_group *
tp_offload_group_lock(MPI_Comm inter, int root, MPI_Comm comm, struct tp_error *err)
{
    struct tp_offload_group *g;

    tp_mutex_lock(&tp_offload_lock);
    g = tp_offload_group_find(inter);
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
ended(struct tp_error *err)
{
    return tp_error_set(err, TELPHER_ERR_PEER_LOST,
                        "the workers were told to end (kernel \"\")");
}

static telpher_status
start_kernels(struct tp_offload_group *g, uint64_t number,
              const struct tp_offload_calls *calls, bool wants_done,
              struct tp_error *err)
{
    telpher_status status;
    bool ends;

    if (g->ended) {
        return ended(err);
    }
    status = tp_offload_encode_all(g, calls, wants_done, &ends, err);
    if (status != TELPHER_OK) {
        tp_offload_send_nothing(g, number, wants_done && g->parents > 1);
        return status;
    }
    return ends ? tp_offload_group_send_end(g, number, wants_done, err)
                : tp_offload_send_records(g, number, err);
}

struct telpher_kernel_request *
tp_offload_request_make(struct tp_offload_group *g, uint64_t number,
                        struct tp_error *err)
{
    struct telpher_kernel_request *r = tp_offload_request_create(g, number);

    if (r == NULL) {
        (void)tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                           "out of memory for the request of call %llu",
                           (unsigned long long)number);
    } else if (r->done) {
        tp_list_remove(&r->link);
    }
    return r;
}

void
tp_offload_request_drop(struct telpher_kernel_request *r)
{
    if (r != NULL) {
        tp_list_remove(&r->link);
        tp_free(r);
    }
}

/* With the lock held. Only the root sends. Every parent counts every call, including
 * failed ones. */
static telpher_status
launch_locked(struct tp_offload_group *g, const struct tp_offload_calls *calls,
              int root, MPI_Comm comm, MPIX_Kernel_request *ret_request,
              struct tp_error *err)
{
    struct telpher_kernel_request *request = NULL;
    bool wants_done = ret_request != NULL && calls->count > 0;
    uint64_t number = g->next++;
    telpher_status status;

    if (g->lost) {
        return tp_offload_group_error_lost(g, err);
    }
    if (wants_done && g->has_ended && number > g->last) {
        return ended(err);
    }
    status = tp_offload_group_check_comm(g, comm, err);
    if (status == TELPHER_OK && wants_done) {
        request = tp_offload_request_make(g, number, err);
        status = err->code;
    }
    if (g->rank == root && status == TELPHER_OK) {
        status = start_kernels(g, number, calls, wants_done, err);
    } else if (g->rank == root) {
        tp_offload_send_nothing(g, number, g->parents > 1);
    }
    if (status != TELPHER_OK) {
        tp_offload_request_drop(request);
        return status;
    }
    if (ret_request != NULL) {
        *ret_request = request;
    }
    return TELPHER_OK;
}

telpher_status
tp_offload_launch(const struct tp_offload_calls *calls, int root, MPI_Comm comm,
                  MPI_Comm inter, MPIX_Kernel_request *ret_request,
                  struct tp_error *err)
{
    struct tp_offload_group *g = tp_offload_group_lock(inter, root, comm, err);
    telpher_status status;

    if (g == NULL) {
        return err->code;
    }
    status = launch_locked(g, calls, root, comm, ret_request, err);
    tp_mutex_unlock(&tp_offload_lock);
    return status;
}

struct launches {
    struct tp_offload_calls calls;
    const telpher_launch *all;
};

static const telpher_launch *
get_launch(const struct tp_offload_calls *calls, uint32_t i, telpher_launch *room,
           uint64_t sizes[TELPHER_KERNEL_ARGS_MAX])
{
    const telpher_launch *all = ((const struct launches *)calls)->all;

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
    status = tp_offload_launch(&given.calls, root, comm, intercomm, ret_request, &why);
    return status == TELPHER_OK ? TELPHER_OK : tp_offload_public_error(err, &why);
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
        tp_offload_send_progress(r->group);
        if (!tp_offload_world.has_threads) {
            (void)
                tp_offload_progress_thread_round(); /* its kernel may wait for kernels of
                                             * other workers */
        }
    }
    status = r->done ? r->status : TELPHER_IN_PROGRESS;
    if (r->done && ret_status != NULL) {
        *ret_status = r->result;
    }
    if (r->done) {
        tp_offload_request_release(r);
        *request = NULL;
    }
    tp_mutex_unlock(&tp_offload_lock);
    return status;
}
