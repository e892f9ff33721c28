/* SPDX-License-Identifier: Apache-2.0 */
/* Ends workers: collective over the parents. */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "offload/offload_int.h"

/* True when all kernels have ended and no report is in flight; the report of the end
 * is the last one. Calls made after another parent ended the workers are not waited
 * for. With the lock held. */
static void
await_end(struct tp_offload_group *g)
{
    struct tp_offload_idle idle = TP_OFFLOAD_IDLE_INIT;

    while (!g->lost && !g->has_ended) {
        tp_offload_send_progress(g);
        (void)
            tp_offload_progress_thread_round(); /* kernels may wait for kernels of other
                                             * workers */
        tp_mutex_unlock(&tp_offload_lock);
        tp_offload_idle_round(&idle);
        tp_mutex_lock(&tp_offload_lock);
    }
}

telpher_status
tp_offload_group_send_end(struct tp_offload_group *g, uint64_t number, bool wants_done,
                          struct tp_error *err)
{
    struct tp_offload_record end = {.kernel = TP_OFFLOAD_NO_KERNEL,
                                    .flags = TP_OFFLOAD_END |
                                             (wants_done ? TP_OFFLOAD_DONE : 0)};
    telpher_status status = tp_buf_append(&g->scratch, &end, sizeof(end));

    g->ended = true; /* the last message requests a report, so that no failure is
                      * lost */
    if (status == TELPHER_OK) {
        status = tp_offload_send_records(g, number, err);
    } else {
        tp_offload_group_lose(g, status);
    }
    if (status == TELPHER_OK && g->mode == TELPHER_OFFLOAD_SPLIT) {
        tp_offload_pool_return(g->pool, g->workers);
    }
    return status;
}

/* No transfer of ours is in progress: the program's communicator may be freed. */
static void
disconnect(struct tp_offload_group *g)
{
    MPI_Comm inter = g->inter;
    char closing = 0;

    if (g->report_request != MPI_REQUEST_NULL) {
        PMPI_Cancel(&g->report_request);
        PMPI_Wait(&g->report_request, MPI_STATUS_IGNORE);
    }
    (void)tp_offload_send_fini(
        g); /* all are acknowledged, except calls after the end */
    if (g->mode == TELPHER_OFFLOAD_SPLIT) {
        PMPI_Comm_free(&g->control);
        PMPI_Comm_free(&inter);
        tp_offload_pool_return(g->pool, g->workers);
        return;
    }
    if (g->rank == 0) {
        PMPI_Send(&closing, 1, MPI_BYTE, 0, TP_OFFLOAD_TAG_DISCONNECT, g->control);
    }
    PMPI_Comm_disconnect(&g->control);
    PMPI_Comm_disconnect(&inter);
}

/* Collective over the parents; one of them has ended the workers before. */
static telpher_status
end_together(struct tp_offload_group *g, struct tp_error *err)
{
    const struct tp_offload_agreement call = {.call = TP_OFFLOAD_END};
    telpher_status status = tp_offload_group_agree(g, &call, err);
    MPI_Comm inter;

    tp_mutex_lock(&tp_offload_lock);
    tp_offload_watch_remove(g);
    if (g->ended && !g->lost) {
        status = TELPHER_OK;
    } else if (status == TELPHER_OK && g->rank == 0) {
        status = tp_offload_group_send_end(g, g->next++, false, err);
    }
    if (status != TELPHER_OK) {
        goto unlock;
    }
    await_end(g);
    if (g->lost) {
        status = tp_offload_group_error_lost(g, err);
    }

unlock:
    tp_mutex_unlock(&tp_offload_lock);
    if (status != TELPHER_OK) {
        return status;
    }
    inter = g->inter;
    disconnect(g);
    tp_offload_comm_gone(inter);
    return TELPHER_OK;
}

/* The workers are running, but their state is unknown. */
static bool left_behind;

/* Only groups of this launch may exist that were never used: their parents are all
 * parents. */
static void
finish(struct tp_offload_group *g)
{
    struct tp_error err = {0};
    telpher_status status = TELPHER_OK;

    if (!g->attached) {
        status = tp_offload_group_attach(g, 0, tp_offload_world.world, &err);
    }
    if (g->attached) {
        tp_error_init(&err);
        status = end_together(g, &err);
    }
    if (status != TELPHER_OK) {
        tp_warn("offload", "%d workers could not be ended, and the job may not end: %s",
                g->workers, tp_error_text(&err));
    }
    if (status != TELPHER_OK && g->attached) {
        left_behind = true;
        tp_offload_comm_gone(g->inter); /* the other side would not disconnect */
    }
    tp_offload_group_destroy(g);
}

/* Forgets the handle, because the MPI may reuse it for another communicator. With
 * the lock held. */
static void
forget_checked(MPI_Comm comm)
{
    tp_list_for_each_entry(struct tp_offload_group, g, &tp_offload_groups, link) {
        if (g->checked == comm) {
            g->checked = MPI_COMM_NULL;
        }
    }
}

void
tp_offload_group_leave(MPI_Comm comm)
{
    struct tp_offload_group *g;

    tp_mutex_lock(&tp_offload_lock);
    forget_checked(comm);
    g = comm == MPI_COMM_NULL ? NULL : tp_offload_group_find(comm);
    tp_mutex_unlock(&tp_offload_lock);
    if (g != NULL) {
        finish(g);
    }
}

void
tp_offload_group_finish_all(void)
{
    while (!tp_list_is_empty(&tp_offload_groups)) {
        finish(tp_list_entry(tp_list_first(&tp_offload_groups), struct tp_offload_group,
                             link));
    }
    if (left_behind) { /* MPI_Finalize() would block for them */
        tp_offload_world_abort(
            "workers were lost and cannot be ended; the job is ended");
    }
}

/* Groups with memory that the MPI still uses. */
static struct tp_list left_to_mpi = {&left_to_mpi, &left_to_mpi};

/* With the lock held. */
static bool
take_back_all(struct tp_offload_group *g)
{
    bool sent = tp_offload_send_fini(g);
    bool report = tp_offload_mpi_take_back(&g->report_request, true);
    bool greeting = tp_offload_mpi_take_back(&g->greeting_heard, true);
    bool agreed = g->agreeing == MPI_REQUEST_NULL; /* other parents cannot cancel it */

    return tp_offload_mpi_take_back(&g->greeting_sent, false) && sent && report &&
           greeting && agreed;
}

void
tp_offload_group_destroy(struct tp_offload_group *g)
{
    bool all_back;

    tp_mutex_lock(&tp_offload_lock);
    tp_offload_watch_remove(g);
    tp_list_remove(&g->link);
    g->lost_is_known = true; /* all parents have arrived, or know of the loss */
    tp_offload_group_lose(g, TELPHER_ERR_PEER_LOST);
    tp_offload_array_drop_all(g);
    tp_free(g->spare);
    all_back = take_back_all(g);
    if (!all_back) {
        tp_list_push_back(&left_to_mpi, &g->link);
    }
    tp_mutex_unlock(&tp_offload_lock);
    if (g->local != MPI_COMM_NULL && all_back) {
        PMPI_Comm_free(&g->local);
    }
    tp_frame_ring_close(&g->ring);
    tp_offload_names_fini(&g->names);
    tp_free(g->pool);
    if (all_back) {
        tp_free(g);
    }
}
