/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a session after the client has disconnected. It writes builds to the cache if the
 * session is idle, and releases all objects after an orderly end. A running kernel ends
 * with the process. An alarm ends the process if a driver call hangs on any thread.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build_cache.h"

#define IDLE_TIME                                                                      \
    (1 * TP_CLOCK_S) /* wait for commands in progress, if there are builds to write */
#define LOOK_EVERY (2 * TP_CLOCK_MS)

enum { END_TIME_S = 10 }; /* limit for the release of all objects */

void
tp_exec_queue_track(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    struct tp_exec_event *ev;

    if (q->native == NULL || q->untracked == 0) {
        return;
    }
    ev = tp_exec_queue_mark(q);
    if (ev == NULL) {
        x->lost_sight = true;
        return;
    }
    tp_exec_event_watch(ev);
    tp_exec_unref(&ev->obj);
}

static void
track_queues(struct tp_exec *x)
{
    size_t cursor = 0;
    uint64_t id;
    void *object;

    while (tp_map_next(&x->objects, &cursor, &id, &object)) {
        if (tp_wire_id_kind(id) == TP_WIRE_KIND_QUEUE) {
            struct tp_exec_queue *q =
                tp_container_of(object, struct tp_exec_queue, obj);

            tp_exec_queue_track(q);
            if (q->native != NULL) {
                (void)tp_exec_queue_flush(q);
            }
        }
    }
}

/* True if the driver still works for the session. */
static bool
is_busy(struct tp_exec *x)
{
    bool busy =
        tp_pool_pending(x->pool) > 0 || tp_exec_transfers_active(x->transfers) > 0;

    for (struct tp_exec_queue *q = tp_exec_next_busy(x, NULL); q != NULL;
         q = tp_exec_next_busy(x, q)) {
        tp_mutex_lock(&x->done_lock);
        tp_exec_queue_look(q, NULL, TP_EXEC_LOOK_ALL);
        tp_list_for_each(pos, &q->pending) {
            busy = busy || tp_exec_event_seen(tp_list_entry(pos, struct tp_exec_event,
                                                            link)) > CL_COMPLETE;
        }
        tp_mutex_unlock(&x->done_lock);
    }
    return busy;
}

/* Waits briefly for commands in progress. @return true if there are none, nor new ones */
static bool
becomes_idle(struct tp_exec *x)
{
    tp_ns deadline = tp_clock_deadline(IDLE_TIME);

    track_queues(x);
    while (is_busy(x)) {
        if (tp_clock_passed(deadline)) {
            return false;
        }
        tp_clock_sleep(LOOK_EVERY);
    }
    return !x->lost_sight;
}

void
tp_exec_end_session(struct tp_exec *x)
{
    bool write;

    x->ending = true;
    (void)alarm(END_TIME_S);
    tp_exec_transfers_end_streams(x->transfers);
    (void)shutdown(tp_stream_fd(x->stream), SHUT_RDWR); /* cleanup may take a while */
    write = tp_exec_cache_has_notes(x) && becomes_idle(x);
    /* release device memory before the slow writing of entries */
    if (write || (x->ended && !is_busy(x))) {
        tp_exec_release_all(x);
    }
    if (write) {
        tp_exec_cache_write(x);
    }
}
