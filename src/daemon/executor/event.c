/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the completion of native events into DONE on the wire.
 *
 * A native callback sends DONE itself, so that no completion waits for another. On an
 * in-order queue the completion of one command proves that of all before it. Failures and
 * requested DONEs among those are reported first; completed commands without DONE are then
 * dropped. A periodic sweep also drops them.
 *
 * Not every driver calls back when a command fails, so a search for failures is needed.
 */
#include "base/alloc.h"
#include "base/trace/trace.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/quirks.h"
#include "daemon/executor/transfer/shared_memory.h"

enum { SWEEP_EVERY = 64 };

struct tp_exec_event *
tp_exec_event_new(struct tp_exec *x, uint64_t id)
{
    struct tp_exec_event *ev = tp_malloc(sizeof(*ev), "event");

    if (ev == NULL) {
        return NULL;
    }
    tp_exec_count(x);
    memset(ev, 0, offsetof(struct tp_exec_event, small));
    ev->obj.x = x;
    ev->obj.id = id;
    ev->obj.kind = TP_WIRE_KIND_EVENT;
    tp_refcount_init(&ev->obj.refs);
    ev->made = atomic_fetch_add(&x->events_made, 1) + 1;
    atomic_init(&ev->seen, CL_QUEUED);
    tp_list_init(&ev->link);
    tp_list_init(&ev->read_link);
    tp_list_init(&ev->dead_link);
    tp_list_init(&ev->open_link);
    tp_list_init(&ev->waiters);
    return ev;
}

static void
free_content(struct tp_exec_event *ev)
{
    if (ev->content_from != NULL) {
        tp_host_staging_put(ev->content_from, ev->content);
    }
    tp_exec_region_unref(ev->region);
    ev->region = NULL;
    ev->content = NULL;
    ev->content_from = NULL;
}

static void
free_waits(struct tp_exec_event *ev)
{
    if (ev->waits != NULL) { /* as nothing waits for a command without */
        tp_mutex_lock(&ev->obj.x->done_lock);
        tp_exec_waits_end(ev);
        tp_mutex_unlock(&ev->obj.x->done_lock);
        tp_free(ev->waits);
    }
}

/* True for a user event, which has no queue. */
static bool
is_user_event(const struct tp_exec_event *ev)
{
    return ev->queue == NULL || ev->is_move;
}

void
tp_exec_event_free(struct tp_exec_object *o)
{
    struct tp_exec_event *ev = tp_container_of(o, struct tp_exec_event, obj);

    free_content(ev);
    if (ev->native != NULL && (ev->complete || is_user_event(ev))) {
        o->x->cl.ReleaseEvent(ev->native);
    } else if (ev->native != NULL) {
        tp_exec_release_native(o->x, ev->native);
    }
    if (ev->hold != NULL) {
        tp_exec_release_native(o->x, ev->hold);
    }
    tp_exec_unref(ev->queue != NULL ? &ev->queue->obj : NULL);
    tp_exec_event_forward(ev, CL_OUT_OF_RESOURCES); /* it cannot end any more */
    free_waits(ev);
    tp_free(ev);
}

static void
put_done(struct tp_exec_event *ev, cl_int status)
{
    struct tp_wire_done m = {.event = ev->obj.id, .status = TP_MIN(status, 0)};

    if (m.status == 0 && ev->queue != NULL && ev->queue->profiling && ev->has_stamps) {
        m.stamps = (struct tp_wire_u64s){TP_ARRAY_LEN(ev->stamps), ev->stamps};
    }
    if (m.status == 0 && ev->content_len > 0 && ev->transfer == 0) {
        m.data = (struct tp_wire_bytes){ev->content_len, ev->content};
    }
    tp_exec_put(ev->obj.x, TP_WIRE_DONE, &m);
}

/*
 * Chooses the error code to report. PoCL reports -1 for every failure, which would be
 * CL_DEVICE_NOT_FOUND; most failures come from the wait list.
 */
static cl_int
true_status(const struct tp_exec_event *ev, cl_int status)
{
    if (ev->obj.error != 0) {
        return ev->obj.error;
    }
    if (status == -1) {
        return ev->has_waits || (ev->queue != NULL && ev->queue->failed)
                   ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                   : CL_OUT_OF_RESOURCES;
    }
    return status;
}

/* Marks the queue as failed: after a failed command of an in-order queue, or a failed
 * barrier, later commands cannot run. */
static void
note_failure(struct tp_exec_event *ev, cl_int native_status)
{
    struct tp_exec_queue *q = ev->queue;

    if (native_status < 0 && q != NULL && (q->in_order || ev->is_barrier)) {
        q->failed = true;
    }
}

/*
 * Reports a completed event once and removes it from the pending list.
 * @return true: the caller now owns the list's reference and drops it without locks
 */
static bool
settle_event(struct tp_exec_event *ev, cl_int status)
{
    bool was_pending = tp_list_is_linked(&ev->link);

    tp_assert_locked(&ev->obj.x->done_lock);
    if (ev->native != NULL) {
        note_failure(ev, status);
        ev->complete = ev->complete || status == CL_COMPLETE;
    }
    status = true_status(ev, status);
    tp_list_remove(&ev->link);
    if (ev->is_read) { /* an event that is poisoned at once has no list */
        tp_list_remove(&ev->read_link);
    }
    tp_exec_event_forward(ev, status);
    if (!ev->done && (ev->notify || status < 0)) {
        ev->done = true;
        if (ev->obj.id != 0) {
            put_done(ev, status);
        } else if (ev->obj.error == 0) {
            tp_exec_failed(ev->obj.x, ev->queue_id, status, ev->call);
        }
    }
    if (was_pending) {
        tp_exec_pace_end(ev);
        tp_exec_waits_end(ev);
        ev->failed = status < 0;
        if (ev->transfer == 0) {
            free_content(ev);
        }
        atomic_fetch_add(&ev->obj.x->progress, 1);
    }
    return was_pending;
}

/* Settles a pending event and adds it to @p dead for a later tp_exec_unref(). */
static void
settle_into(struct tp_exec_event *ev, cl_int status, struct tp_list *dead)
{
    if (settle_event(ev, status)) {
        tp_list_push_back(dead, &ev->dead_link);
    }
}

/* Starts the content transfers of settled READs. Without locks. */
static void
open_all(struct tp_list *dead)
{
    tp_list_for_each_entry(struct tp_exec_event, ev, dead, dead_link) {
        if (ev->transfer != 0) {
            tp_exec_transfers_open(ev->obj.x->transfers, ev->transfer,
                                   ev->failed ? CL_OUT_OF_RESOURCES : 0);
        }
    }
}

static void
unref_all(struct tp_list *dead)
{
    struct tp_list *first;

    while ((first = tp_list_pop_front(dead)) != NULL) {
        tp_exec_unref(&tp_list_entry(first, struct tp_exec_event, dead_link)->obj);
    }
}

/*
 * Finishes settled events. Without locks. Content is sent before DONE, so that a client
 * that waits for a READ wakes up once instead of twice.
 */
static void
finish_all(struct tp_exec *x, struct tp_list *dead)
{
    open_all(dead);
    tp_exec_flush(x);
    tp_exec_peers_kick(x);
    unref_all(dead);
}

/*
 * Settles all events before @p last that have ended: all, if it is complete.
 * @param all  those too of which the driver has not said so yet, but moves
 */
static void
settle_before(struct tp_exec_event *last, bool all, struct tp_list *dead)
{
    tp_list_for_each_entry_safe(struct tp_exec_event, ev, &last->queue->pending, link) {
        cl_int status;

        if (ev == last) {
            return;
        }
        status = tp_exec_event_seen(ev);
        if (status > CL_COMPLETE && all && !ev->is_move) {
            status = CL_COMPLETE;
        }
        if (status <= CL_COMPLETE) {
            settle_into(ev, status, dead);
        }
    }
}

/*
 * Drops completed commands without DONE and schedules the next sweep: after as many
 * commands as this one found incomplete, so that long lists have a low amortised cost.
 */
static void
sweep_completed(struct tp_exec_queue *q, struct tp_list *dead)
{
    unsigned left = 0;

    tp_exec_queue_look(q, NULL, q->in_order ? TP_EXEC_LOOK_FINISHED : TP_EXEC_LOOK_ALL);
    tp_list_for_each_entry_safe(struct tp_exec_event, ev, &q->pending, link) {
        cl_int status = tp_exec_event_seen(ev);

        if (ev->notify || status > CL_COMPLETE) {
            left++;
            if (q->in_order) {
                break; /* later commands wait for it, or for its DONE */
            }
        } else {
            settle_into(ev, status, dead);
        }
    }
    q->since_sweep = 0;
    q->sweep_at = TP_MAX(left, (unsigned)SWEEP_EVERY);
}

/* True if DONE of the event says that others before it have ended, too. Under done_lock. */
static bool
has_earlier(const struct tp_exec_event *ev)
{
    return ev->queue != NULL && (ev->queue->in_order || ev->is_whole) &&
           tp_list_is_linked(&ev->link) &&
           tp_list_first(&ev->queue->pending) != &ev->link;
}

/* True if a command before @p last has not ended, though the driver has ended @p last: some
 * drivers fail a command at once. */
static bool
runs_before(const struct tp_exec_event *last)
{
    tp_list_for_each_entry(struct tp_exec_event, ev, &last->queue->pending, link) {
        if (ev == last) {
            break;
        }
        if (tp_exec_event_seen(ev) > CL_COMPLETE) {
            return true;
        }
    }
    return false;
}

/*
 * Settles failed commands of a queue. Where DONE of a command says that all before it have
 * ended, DONE of a failed one waits for those. Under done_lock, released meanwhile.
 * @return a command that one waits for and that has no callback yet, with a reference; or NULL
 */
static struct tp_exec_event *
settle_failed(struct tp_exec_queue *q, struct tp_list *dead)
{
    struct tp_exec_event *running = NULL;
    bool defers = false;

    tp_exec_queue_look(q, NULL, TP_EXEC_LOOK_ALL);
    tp_list_for_each_entry_safe(struct tp_exec_event, ev, &q->pending, link) {
        cl_int status = tp_exec_event_seen(ev);

        if (status > CL_COMPLETE) {
            running = running != NULL ? running : ev;
        } else if (status < 0 && running != NULL && has_earlier(ev)) {
            note_failure(ev, status);
            defers = true;
        } else if (status < 0) {
            if (has_earlier(ev)) {
                settle_before(ev, false, dead);
            }
            settle_into(ev, status, dead);
        }
    }
    q->defers = defers;
    if (!defers || running->is_move || atomic_load(&running->hooked)) {
        return NULL;
    }
    tp_exec_ref(&running->obj);
    return running;
}

/* Whether the driver may say that a command of an in-order queue has ended before it says so of
 * those before it. */
static bool
ends_out_of_turn(const struct tp_exec_queue *q)
{
    return q->in_order && tp_exec_has_quirk(q->obj.x, TP_EXEC_QUIRK_ENDS_OUT_OF_TURN);
}

/* Settles an event and, if failed commands of its queue wait, those that it held up.
 * @param failed  the driver shows its failure, so that it can be found again
 * @return as settle_failed() */
static struct tp_exec_event *
settle_in_order(struct tp_exec_event *ev, cl_int status, bool failed,
                struct tp_list *dead)
{
    struct tp_exec_queue *q = ev->queue;

    if (has_earlier(ev)) {
        tp_exec_queue_look(q, ev, TP_EXEC_LOOK_ALL);
    }
    if (has_earlier(ev)) {
        settle_before(ev, status == CL_COMPLETE && ends_out_of_turn(q), dead);
    }
    if (failed && has_earlier(ev) && runs_before(ev)) {
        note_failure(ev, status);
        q->defers = true;
    } else {
        settle_into(ev, status, dead);
    }
    return q != NULL && q->defers ? settle_failed(q, dead) : NULL;
}

/* Has the driver call back for an event that settle_failed() returned. */
static void
watch_awaited(struct tp_exec_event *ev)
{
    if (ev != NULL) {
        tp_exec_event_watch(ev);
        tp_exec_unref(&ev->obj);
    }
}

/*
 * Stores the end of the commands before @p ev that share its native event. In its callback
 * the driver must not be asked for that event: rusticl holds the event's lock then. Under
 * done_lock.
 */
static void
note_shared(const struct tp_exec_event *ev, cl_int status)
{
    const struct tp_list *pos = ev->link.prev;

    while (ev->queue != NULL && ev->native != NULL && tp_list_is_linked(&ev->link) &&
           pos != &ev->queue->pending) {
        struct tp_exec_event *shares = tp_list_entry(pos, struct tp_exec_event, link);

        if (shares->native != ev->native) {
            break;
        }
        atomic_store(&shares->seen, status);
        pos = pos->prev;
    }
}

/* Reports the end of a command. Without locks. */
static void
complete(struct tp_exec_event *ev, cl_int status)
{
    struct tp_exec *x = ev->obj.x;
    bool failed = status < 0 && (ev->is_move || tp_exec_event_status(ev) < 0);
    struct tp_exec_event *awaited;
    struct tp_list dead;

    tp_list_init(&dead);
    tp_exec_printf_drain(x->printf);
    if (status == CL_COMPLETE) {
        tp_exec_event_take_stamps(ev);
    }
    tp_mutex_lock(&x->done_lock);
    note_shared(ev, status);
    awaited = settle_in_order(ev, status, failed, &dead);
    tp_mutex_unlock(&x->done_lock);
    finish_all(x, &dead);
    watch_awaited(awaited);
}

/* ---- READs that a command waited for ---- */

/* The newest READ that is over when a command is over. */
static uint64_t
reads_until(const struct tp_exec_event *ev)
{
    return ev->is_read ? ev->made : ev->reads_before;
}

void
tp_exec_event_note_wait(struct tp_exec_event *ev, const struct tp_exec_event *other)
{
    ev->reads_before = TP_MAX(ev->reads_before, reads_until(other));
}

/* Records what a command waits for by its place in the queue, and what later ones do. */
static void
note_place(struct tp_exec_event *ev)
{
    struct tp_exec_queue *q = ev->queue;

    ev->reads_before = TP_MAX(
        ev->reads_before, q->in_order || ev->is_whole ? q->reads : q->barrier_reads);
    if (ev->is_barrier) {
        q->barrier_reads = ev->reads_before;
    }
    q->reads = TP_MAX(q->reads, reads_until(ev));
}

/*
 * The next READ after @p from that @p last may have waited for and that may have ended, held;
 * NULL: none. READs of the same in-order queue are settled with @p last.
 * @param from  held, or NULL: the first
 * @param idle  an in-order queue whose first READ has not ended; or NULL
 */
static struct tp_exec_event *
next_read(const struct tp_exec_event *last, const struct tp_exec_event *from,
          const struct tp_exec_queue *idle)
{
    struct tp_exec *x = last->obj.x;
    uint64_t after = from != NULL ? from->made : 0;
    struct tp_exec_event *found = NULL;
    struct tp_list *pos;

    tp_mutex_lock(&x->done_lock);
    pos = from != NULL && tp_list_is_linked(&from->read_link) ? from->read_link.next
                                                              : x->reads.next;
    for (; pos != &x->reads && found == NULL; pos = pos->next) {
        struct tp_exec_event *ev = tp_list_entry(pos, struct tp_exec_event, read_link);
        bool in_turn = ev->queue->in_order && ev->queue == last->queue;

        if (ev->made > last->reads_before) {
            break; /* the list is in the order of the commands */
        }
        if (ev->made > after && ev->blocked == 0 && ev->queue != idle && !in_turn) {
            tp_exec_ref(&ev->obj);
            found = ev;
        }
    }
    tp_mutex_unlock(&x->done_lock);
    return found;
}

/* The pending command after @p from in its queue, if it is older than @p last, held; or NULL. */
static struct tp_exec_event *
next_pending(const struct tp_exec_event *from, const struct tp_exec_event *last)
{
    struct tp_exec *x = from->obj.x;
    struct tp_exec_event *next = NULL;

    tp_mutex_lock(&x->done_lock);
    if (tp_list_is_linked(&from->link) && from->link.next != &from->queue->pending) {
        next = tp_list_entry(from->link.next, struct tp_exec_event, link);
        next = next->made < last->made ? next : NULL;
    }
    if (next != NULL) {
        tp_exec_ref(&next->obj);
    }
    tp_mutex_unlock(&x->done_lock);
    return next;
}

/*
 * Whether a READ of which the driver does not say so must have ended, since a later command of its
 * queue has. Asks only for commands older than @p last, whose callback this may be: the driver may
 * hold locks of two events then, always in this order.
 */
static bool
has_ended_untold(struct tp_exec_event *read, const struct tp_exec_event *last)
{
    struct tp_exec_event *ev = read, *next;
    bool ended = false;

    if (!ends_out_of_turn(read->queue)) {
        return false;
    }
    tp_exec_ref(&read->obj);
    while (!ended && (next = next_pending(ev, last)) != NULL) {
        ended = !next->is_move && tp_exec_event_status(next) == CL_COMPLETE;
        tp_exec_unref(&ev->obj);
        ev = next;
    }
    tp_exec_unref(&ev->obj);
    return ended;
}

/*
 * Reports READs that have ended before a command that waited for them: the client takes its DONE
 * as a sign that it has their content. A driver may call back in any order, and Intel's runtime
 * for CPUs does.
 */
static void
complete_reads_before(const struct tp_exec_event *last)
{
    const struct tp_exec_queue *idle = NULL;
    struct tp_exec_event *ev = NULL, *next;

    if (last->reads_before == 0 ||
        tp_exec_has_quirk(last->obj.x, TP_EXEC_QUIRK_LATE_CALLBACKS)) {
        return; /* with the quirk, events are polled in order */
    }
    while ((next = next_read(last, ev, idle)) != NULL) {
        cl_int status = tp_exec_event_status(next);

        if (status > CL_COMPLETE && has_ended_untold(next, last)) {
            status = CL_COMPLETE;
        }
        if (status == CL_COMPLETE) {
            complete(next, status);
        } else if (next->queue->in_order) {
            idle = next->queue;
        }
        if (ev != NULL) {
            tp_exec_unref(&ev->obj);
        }
        ev = next;
    }
    if (ev != NULL) {
        tp_exec_unref(&ev->obj);
    }
}

void
tp_exec_event_complete(struct tp_exec_event *ev, cl_int status)
{
    complete_reads_before(ev);
    complete(ev, status);
}

static void CL_CALLBACK
handle_completion(cl_event native, cl_int status, void *arg)
{
    struct tp_exec_event *ev = arg;

    tp_assert(atomic_load(&ev->hooked));
    tp_trace_instant("executor", "completed", TP_ARG("event", ev->obj.id));
    tp_exec_event_complete(ev, status);
    tp_exec_unref(&ev->obj);
}

void
tp_exec_sweep_failures(struct tp_exec *x)
{
    struct tp_list dead;

    tp_list_init(&dead);
    tp_exec_printf_drain(x->printf);
    for (struct tp_exec_queue *q = tp_exec_next_busy(x, NULL); q != NULL;
         q = tp_exec_next_busy(x, q)) {
        struct tp_exec_event *awaited;

        tp_mutex_lock(&x->done_lock);
        awaited = settle_failed(q, &dead);
        tp_mutex_unlock(&x->done_lock);
        watch_awaited(awaited);
    }
    finish_all(x, &dead);
    tp_exec_sweep_gates(x);
}

void
tp_exec_sweep_completed(struct tp_exec *x)
{
    struct tp_list dead;

    tp_list_init(&dead);
    for (struct tp_exec_queue *q = tp_exec_next_busy(x, NULL); q != NULL;
         q = tp_exec_next_busy(x, q)) {
        tp_mutex_lock(&x->done_lock);
        sweep_completed(q, &dead);
        tp_mutex_unlock(&x->done_lock);
    }
    finish_all(x, &dead);
}

void
tp_exec_event_watch(struct tp_exec_event *ev)
{
    cl_int error, status;

    tp_exec_ref(&ev->obj);
    atomic_store(&ev->hooked, true);
    status = tp_exec_has_quirk(ev->obj.x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS)
                 ? tp_exec_event_status(ev)
                 : CL_QUEUED;
    if (status <= CL_COMPLETE) {
        handle_completion(ev->native, status,
                          ev); /* oclgrind does not call back after the end */
        return;
    }
    error =
        ev->obj.x->cl.SetEventCallback(ev->native, CL_COMPLETE, handle_completion, ev);
    if (error != CL_SUCCESS) {
        handle_completion(ev->native, error, ev);
    }
}

void
tp_exec_event_submitted(struct tp_exec_event *ev)
{
    struct tp_exec *x = ev->obj.x;
    struct tp_exec_queue *q = ev->queue;
    struct tp_list dead;
    bool notify;

    tp_list_init(&dead);
    tp_exec_ref(&ev->obj);
    note_place(ev);
    tp_mutex_lock(&x->done_lock);
    if (++q->since_sweep >= TP_MAX(q->sweep_at, (unsigned)SWEEP_EVERY)) {
        sweep_completed(q, &dead); /* releases the lock meanwhile */
    }
    tp_list_push_back(&q->pending, &ev->link);
    if (ev->is_read) {
        tp_list_push_back(&x->reads, &ev->read_link);
    }
    if (ev->blocked == 0) {
        tp_exec_pace_begin(ev);
    }
    notify = ev->notify || ev->transfer != 0; /* content follows */
    tp_mutex_unlock(&x->done_lock);
    open_all(&dead);
    unref_all(&dead);
    if (notify) {
        tp_exec_event_watch(ev);
    }
}

/* Finds a pending event without callback; on an in-order queue only the last one needs
 * one. */
static struct tp_exec_event *
find_unwatched(struct tp_exec_queue *q)
{
    struct tp_exec_event *found = NULL;

    tp_list_for_each_entry(struct tp_exec_event, ev, &q->pending, link) {
        bool heard = ev->is_move || atomic_load(&ev->hooked);

        if (!q->in_order && !heard) {
            return ev;
        }
        found = heard ? NULL : ev;
    }
    return found;
}

void
tp_exec_queue_hear_out(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    struct tp_exec_event *ev;

    do {
        tp_mutex_lock(&x->done_lock);
        ev = find_unwatched(q);
        if (ev != NULL) {
            tp_exec_ref(&ev->obj);
        }
        tp_mutex_unlock(&x->done_lock);
        if (ev != NULL) {
            tp_exec_event_watch(ev);
            tp_exec_unref(&ev->obj);
        }
    } while (ev != NULL);
}

void
tp_exec_event_failed(struct tp_exec_event *ev)
{
    tp_mutex_lock(&ev->obj.x->done_lock);
    (void)settle_event(ev, ev->obj.error);
    tp_mutex_unlock(&ev->obj.x->done_lock);
}

bool
tp_exec_event_over(struct tp_exec_event *ev)
{
    return tp_exec_event_status(ev) <= CL_COMPLETE &&
           (ev->native == NULL || ev->is_move ||
            !tp_exec_has_quirk(ev->obj.x, TP_EXEC_QUIRK_LATE_CALLBACKS));
}

void
tp_exec_event_subscribe(struct tp_exec_event *ev)
{
    struct tp_exec *x = ev->obj.x;
    bool asked;

    tp_mutex_lock(&x->done_lock);
    asked = ev->notify || ev->done;
    ev->notify = true;
    tp_mutex_unlock(&x->done_lock);
    if (asked) {
        return; /* DONE has been sent or is about to be */
    }
    if (tp_exec_event_over(ev)) {
        tp_exec_event_complete(ev, tp_exec_event_seen(ev));
    } else {
        tp_exec_event_watch(ev);
    }
}

telpher_status
tp_exec_on_subscribe(struct tp_exec *x, const struct tp_wire_subscribe *m)
{
    for (size_t i = 0; i < m->events.count; i++) {
        uint64_t id = tp_wire_u64_at(&m->events, i);
        struct tp_exec_event *ev = tp_wire_id_kind(id) == TP_WIRE_KIND_EVENT
                                       ? tp_map_get(&x->objects, id)
                                       : NULL;

        if (ev != NULL) {
            tp_exec_event_subscribe(ev);
        } else {
            struct tp_wire_done done = {.event = id, .status = CL_INVALID_EVENT};

            tp_exec_put(x, TP_WIRE_DONE, &done);
        }
    }
    return TELPHER_OK;
}
