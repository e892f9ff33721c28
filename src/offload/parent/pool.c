/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that are part of the launch: they wait until they become members of a group,
 * serve it, and wait again. Groups are created over all parents, which all keep the
 * same table of busy workers.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "offload/offload_int.h"

int
tp_offload_pool_idle(void)
{
    int idle = 0;

    for (int i = 0; i < tp_offload_world.pool_count; i++) {
        idle += !tp_offload_world.busy[i];
    }
    return idle;
}

void
tp_offload_pool_return(const int *workers, int count)
{
    for (int i = 0; i < tp_offload_world.pool_count; i++) {
        for (int j = 0; j < count; j++) {
            if (tp_offload_world.pool[i] == workers[j]) {
                tp_offload_world.busy[i] = false;
            }
        }
    }
}

static telpher_status
check_take(int count, MPI_Comm comm, struct tp_error *err)
{
    int like = MPI_UNEQUAL, idle = tp_offload_pool_idle();

    if (count < 1) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "%d workers requested; at least one is needed", count);
    }
    if (count > idle) {
        return tp_error_set(err, TELPHER_ERR_LIMIT,
                            "%d workers requested, but %d of %d are free", count, idle,
                            tp_offload_world.pool_count);
    }
    PMPI_Comm_compare(comm, tp_offload_world.world, &like);
    if (like == MPI_UNEQUAL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "workers of the same launch are for all parents together: "
                            "the communicator must be of all of MPI_COMM_WORLD");
    }
    return TELPHER_OK;
}

/* Takes the first @p count waiting workers. */
static int *
choose(int count)
{
    int *chosen = tp_alloc_array((size_t)count, sizeof(int), "workers");

    for (int i = 0, n = 0; chosen != NULL && n < count; i++) {
        if (!tp_offload_world.busy[i]) {
            tp_offload_world.busy[i] = true;
            chosen[n++] = tp_offload_world.pool[i];
        }
    }
    return chosen;
}

/* The root sends each of them the operation, then the ranks of the others. */
static void
send_orders(const int *workers, int count, int tag)
{
    struct tp_offload_pool_order order = {TP_OFFLOAD_POOL_START, tag, 0, count};

    PMPI_Comm_rank(tp_offload_world.base, &order.leader);
    for (int i = 0; i < count; i++) {
        PMPI_Send(&order, sizeof(order), MPI_BYTE, workers[i], TP_OFFLOAD_TAG_POOL,
                  tp_offload_world.base);
        PMPI_Send(workers, count, MPI_INT, workers[i], TP_OFFLOAD_TAG_POOL,
                  tp_offload_world.base);
    }
}

telpher_status
tp_offload_pool_take(int count, int root, MPI_Comm comm, MPI_Comm *ret_inter,
                     struct tp_error *err)
{
    telpher_status status;
    struct tp_offload_group *group;
    int *workers, rank, tag = tp_offload_world.tag;

    tp_offload_agree(comm);
    /* the root's count is significant; the parent that ended a group knows that its
     * workers are free */
    PMPI_Bcast(&count, 1, MPI_INT, root, comm);
    PMPI_Allreduce(MPI_IN_PLACE, tp_offload_world.busy, tp_offload_world.pool_count,
                   MPI_C_BOOL, MPI_LAND, comm);
    status = check_take(count, comm, err);
    workers = status == TELPHER_OK ? choose(count) : NULL;
    if (status != TELPHER_OK) {
        return status;
    }
    if (workers == NULL) {
        tp_offload_world_abort("out of memory"); /* the other parents continue */
    }
    tp_offload_world.tag = (tag + 1) % TP_OFFLOAD_TAG_GROUPS_COUNT;
    PMPI_Comm_rank(comm, &rank);
    if (rank == root) {
        send_orders(workers, count, TP_OFFLOAD_TAG_GROUPS + tag);
    }
    tp_offload_watch_phase("making a group of waiting workers",
                           tp_offload_settings()->timeout_ns);
    PMPI_Intercomm_create(comm, root, tp_offload_world.base, workers[0],
                          TP_OFFLOAD_TAG_GROUPS + tag, ret_inter);
    tp_offload_watch_phase_end();
    tp_mutex_lock(&tp_offload_lock);
    group = tp_offload_group_of(*ret_inter, TELPHER_OFFLOAD_SPLIT);
    if (group == NULL) {
        tp_offload_world_abort("out of memory"); /* the workers wait for it */
    }
    group->pool = workers;
    group->launch_tag = TP_OFFLOAD_TAG_GROUPS + tag;
    tp_mutex_unlock(&tp_offload_lock);
    tp_info("offload", "took %d workers from this launch (split mode)", count);
    return TELPHER_OK;
}

void
tp_offload_pool_end(void)
{
    struct tp_offload_pool_order order = {TP_OFFLOAD_POOL_END, 0, 0, 0};
    int rank;

    if (tp_offload_world.base == MPI_COMM_NULL) {
        return;
    }
    PMPI_Comm_rank(tp_offload_world.world, &rank);
    for (int i = 0; rank == 0 && i < tp_offload_world.pool_count; i++) {
        PMPI_Send(&order, sizeof(order), MPI_BYTE, tp_offload_world.pool[i],
                  TP_OFFLOAD_TAG_POOL, tp_offload_world.base);
    }
}

/* Serves one group: creates its MPI_COMM_WORLD and intercommunicator, runs kernels
 * until the end. */
static void
serve_group(const struct tp_offload_pool_order *order)
{
    int *ranks = tp_alloc_array((size_t)order->count, sizeof(int), "workers");
    MPI_Comm world, inter;
    MPI_Group all, some;
    struct tp_error err = {0};

    if (ranks == NULL) {
        tp_offload_world_abort("out of memory");
    }
    PMPI_Recv(ranks, order->count, MPI_INT, order->leader, TP_OFFLOAD_TAG_POOL,
              tp_offload_world.base, MPI_STATUS_IGNORE);
    PMPI_Comm_group(tp_offload_world.base, &all);
    PMPI_Group_incl(all, order->count, ranks, &some);
    PMPI_Comm_create_group(tp_offload_world.base, some, order->tag, &world);
    PMPI_Group_free(&some);
    PMPI_Group_free(&all);
    tp_free(ranks);
    PMPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
    PMPI_Intercomm_create(world, 0, tp_offload_world.base, order->leader, order->tag,
                          &inter);
    if (tp_offload_worker_serve(inter, world, order->tag, &err) != TELPHER_OK) {
        tp_offload_world_abort(tp_error_text(&err));
    }
    PMPI_Comm_free(&inter);
    PMPI_Comm_free(&world);
}

void
tp_offload_pool_serve(void)
{
    struct tp_offload_pool_order order;

    for (;;) {
        MPI_Request request;

        PMPI_Irecv(&order, sizeof(order), MPI_BYTE, MPI_ANY_SOURCE, TP_OFFLOAD_TAG_POOL,
                   tp_offload_world.base, &request);
        if (tp_offload_mpi_wait(&request, TP_CLOCK_FOREVER) != TELPHER_OK) {
            tp_offload_world_abort("a waiting worker cannot receive");
        }
        if (order.op != TP_OFFLOAD_POOL_START) {
            return;
        }
        serve_group(&order);
    }
}
