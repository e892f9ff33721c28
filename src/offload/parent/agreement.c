/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement of the parents: whether all of them can make a call, and whether one has
 * lost the workers. A parent that waits here keeps sending queued launches, because
 * other parents may wait for kernels in them.
 */
#include "base/hash.h"
#include "offload/offload_int.h"

/* The minimum over all parents. */
enum { KEY, NOT_KEY, STATUS, ENDED };
_Static_assert(ENDED + 1 == TP_OFFLOAD_AGREED_COUNT, "one place each");

enum { LOOK_EVERY = 64 };

static void
move_queues(void)
{
    tp_mutex_lock(&tp_offload_lock);
    (void)tp_offload_progress_thread_round();
    tp_mutex_unlock(&tp_offload_lock);
}

void
tp_offload_agree(MPI_Comm comm)
{
    struct tp_offload_idle idle = TP_OFFLOAD_IDLE_INIT;
    MPI_Request request;
    int done = 0;

    PMPI_Ibarrier(comm, &request);
    while (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        move_queues();
        tp_offload_idle_round(&idle);
    }
}

void
tp_offload_group_tell_lost(struct tp_offload_group *g)
{
    if (!g->attached || g->lost_is_known) {
        return;
    }
    g->lost_is_known = true;
    for (int i = 0; i < g->parents; i++) {
        MPI_Request request;

        /* an empty message carries the information; MPI needs no buffer of ours */
        if (i != g->rank && PMPI_Isend(NULL, 0, MPI_BYTE, i, TP_OFFLOAD_TAG_LOST,
                                       g->local, &request) == MPI_SUCCESS) {
            PMPI_Request_free(&request);
        }
    }
}

void
tp_offload_group_check_lost(struct tp_offload_group *g)
{
    MPI_Status from;
    int found = 0;

    if (g->parents == 1 || !g->attached || g->lost || g->looks++ % LOOK_EVERY != 0) {
        return;
    }
    PMPI_Iprobe(MPI_ANY_SOURCE, TP_OFFLOAD_TAG_LOST, g->local, &found, &from);
    if (found) {
        PMPI_Recv(NULL, 0, MPI_BYTE, from.MPI_SOURCE, TP_OFFLOAD_TAG_LOST, g->local,
                  MPI_STATUS_IGNORE);
        g->lost_is_known = true;
        tp_offload_group_lose(g, TELPHER_ERR_PEER_LOST);
    }
}

/* Waits until all parents have answered, or one has reported the loss of the
 * workers. */
static bool
await_others(struct tp_offload_group *g)
{
    struct tp_offload_idle idle = TP_OFFLOAD_IDLE_INIT;
    int done = 0;
    bool lost = false;
    int rc = PMPI_Iallreduce(g->said, g->agreed, TP_OFFLOAD_AGREED_COUNT, MPI_INT64_T,
                             MPI_MIN, g->local, &g->agreeing);

    while (!done && !lost) {
        if (rc == MPI_SUCCESS) {
            rc = PMPI_Test(&g->agreeing, &done, MPI_STATUS_IGNORE);
        }
        tp_mutex_lock(&tp_offload_lock);
        if (rc != MPI_SUCCESS) {
            tp_offload_group_lose(g, TELPHER_ERR_IO);
        } else if (!done) {
            tp_offload_send_progress(g);
            (void)tp_offload_progress_thread_round();
        }
        lost = g->lost;
        tp_mutex_unlock(&tp_offload_lock);
        tp_offload_idle_round(&idle);
    }
    return !lost;
}

static int64_t
key_of(const struct tp_offload_agreement *call)
{
    const uint64_t parts[] = {call->call, (uint64_t)call->root, call->a, call->b};

    return (int64_t)(tp_hash_add(TP_HASH_START, parts, sizeof(parts)) >> 1);
}

/* With the lock held: the result over all parents. */
static telpher_status
conclude(struct tp_offload_group *g, struct tp_error *err)
{
    telpher_status status = (telpher_status)g->agreed[STATUS];

    g->ended |= g->agreed[ENDED] != 0;
    if (g->agreed[KEY] != -g->agreed[NOT_KEY]) {
        return tp_error_set(
            err, TELPHER_ERR_INVALID,
            "the parents of these %d workers make different calls, or one call with "
            "different roots or sizes: all of them must make the same call",
            g->workers);
    }
    if (g->agreed[ENDED] != 0) { /* not g->ended: a later call may have set it */
        return tp_error_set(err, TELPHER_ERR_PEER_LOST,
                            "the workers were told to end (kernel \"\")");
    }
    if (status != TELPHER_OK && err->code != status) {
        return tp_error_set(err, status, "another parent: %s",
                            telpher_status_text(status));
    }
    return status;
}

telpher_status
tp_offload_group_agree(struct tp_offload_group *g,
                       const struct tp_offload_agreement *call, struct tp_error *err)
{
    bool good;
    telpher_status status;

    tp_mutex_lock(&tp_offload_lock);
    good = !g->lost;
    g->said[KEY] = key_of(call);
    g->said[NOT_KEY] = -g->said[KEY];
    g->said[STATUS] = err->code;
    g->said[ENDED] = g->ended ? -1 : 0;
    tp_mutex_unlock(&tp_offload_lock);
    good = good && await_others(g);
    tp_mutex_lock(&tp_offload_lock);
    status = good ? conclude(g, err) : tp_offload_group_error_lost(g, err);
    tp_mutex_unlock(&tp_offload_lock);
    return status;
}
