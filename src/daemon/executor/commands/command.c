/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueues commands from messages in the driver's queues. */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/executor/commands/command_buffer.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/program.h"
#include "daemon/executor/quirks.h"

enum { PATTERN_MAX = 128 }; /* [bytes] of a fill */
enum { COPY_RECT = 13 }; /* values of a rectangular COPY */

/* ---- begin and end ---- */

/* Puts the native events of a command's wait list into x->waits. @return 0 or the CL error */
static int32_t
find_waits(struct tp_exec_command *c, const struct tp_wire_u64s *wait)
{
    struct tp_exec *x = c->x;
    int32_t error = 0;

    for (size_t i = 0; i < wait->count; i++) {
        uint64_t id = tp_wire_u64_at(wait, i);
        struct tp_exec_event *ev = tp_wire_id_kind(id) == TP_WIRE_KIND_EVENT
                                       ? tp_map_get(&x->objects, id)
                                       : NULL;

        /* no error and no native event: the event of this command itself */
        if (ev == NULL || (ev->native == NULL && ev->obj.error == 0)) {
            return CL_INVALID_EVENT_WAIT_LIST;
        }
        /* a driver may wait forever for an event that has failed already */
        if (ev->obj.error != 0 || tp_exec_event_status(ev) < 0) {
            return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        }
        x->waits[i] = ev->native;
        tp_exec_event_note_wait(c->ev, ev);
        error = error != 0 ? error : tp_exec_queue_wait_for(c->queue, ev);
    }
    return error;
}

/* Room for @p count events and one more. */
static telpher_status
reserve_waits(struct tp_exec *x, size_t count)
{
    cl_event *waits;

    if (count < x->waits_capacity) {
        return TELPHER_OK;
    }
    waits = tp_realloc_array(x->waits, count + 64, sizeof(*waits), "wait list");
    if (waits == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    x->waits = waits;
    x->waits_capacity = count + 64;
    return TELPHER_OK;
}

/* Enters the event of a command, if it has one. */
static telpher_status
enter_event(struct tp_exec *x, struct tp_exec_event *ev)
{
    telpher_status status;

    if (ev->obj.id == 0) {
        return TELPHER_OK;
    }
    if (tp_wire_id_kind(ev->obj.id) != TP_WIRE_KIND_EVENT) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_map_put(&x->objects, ev->obj.id, ev);
    if (status == TELPHER_OK) {
        tp_exec_ref(&ev->obj); /* reference of the table */
    }
    return status == TELPHER_ERR_EXISTS ? TELPHER_ERR_PROTO : status;
}

telpher_status
tp_exec_begin(struct tp_exec *x, struct tp_exec_command *ret, const char *call,
              const struct tp_exec_head *head)
{
    const struct tp_wire_u64s *wait = &head->wait;
    struct tp_exec_command c = {.x = x, .wait = *wait, .wait_count = wait->count};
    telpher_status status;

    if ((head->flags & ~TP_WIRE_FLAGS_ALL) != 0 ||
        (head->event == 0 && head->flags != 0)) {
        return TELPHER_ERR_PROTO;
    }
    status = reserve_waits(x, wait->count);
    if (status != TELPHER_OK) {
        return status;
    }
    c.ev = tp_exec_event_new(x, head->event);
    if (c.ev == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = enter_event(x, c.ev);
    if (status != TELPHER_OK) {
        tp_exec_unref(&c.ev->obj);
        return status;
    }
    c.ev->call = call;
    c.ev->queue_id = head->queue;
    c.ev->notify = (head->flags & TP_WIRE_NOTIFY) != 0;
    c.ev->has_waits = wait->count > 0;
    c.waits = wait->count > 0 ? x->waits : NULL;
    c.error = tp_exec_find(x, head->queue, TP_WIRE_KIND_QUEUE, &c.queue);
    if (c.error == 0) {
        tp_exec_ref(&c.queue->obj);
        c.ev->queue = c.queue;
        c.error = tp_exec_queue_renew(c.queue);
        if (atomic_load(&x->user_events_open) > 0) {
            tp_exec_queue_track(c.queue); /* a command that may fail waits for them */
        }
        if (c.error == 0) {
            c.error = find_waits(&c, wait);
        }
        if (c.error == 0) {
            c.error = tp_exec_waits_keep(c.ev, wait);
        }
    } else {
        c.queue = NULL;
    }
    *ret = c;
    return TELPHER_OK;
}

/*
 * Handles a command that failed at once. On an in-order queue its DONE must not overtake
 * earlier ones, so a marker replaces the command; the event keeps its error.
 */
static void
end_failed(struct tp_exec_command *c)
{
    struct tp_exec_event *ev = c->ev;
    struct tp_exec *x = c->x;

    if (!ev->notify) {
        tp_exec_failed(x, ev->obj.id != 0 ? ev->obj.id : ev->queue_id, c->error,
                       ev->call);
    }
    tp_debug("executor", "%s for event 0x%llx: %s", ev->call,
             (unsigned long long)ev->obj.id, tp_opencl_error_name(c->error));
    ev->obj.error = c->error;
    if (c->queue != NULL && c->queue->in_order && ev->obj.id != 0 &&
        x->cl.EnqueueMarkerWithWaitList(c->queue->native, 0, NULL, &ev->native) ==
            CL_SUCCESS) {
        tp_exec_dirty(c->queue);
        tp_exec_event_submitted(ev);
    } else if (ev->notify) {
        tp_exec_event_failed(ev);
    }
}

int32_t
tp_exec_check_waits(const struct tp_exec_command *c)
{
    if (tp_likely(c->wait_count == 0 || !atomic_load(&c->x->had_failure))) {
        return 0;
    }
    for (size_t i = 0; i < c->wait_count; i++) {
        struct tp_exec_event *ev =
            tp_map_get(&c->x->objects, tp_wire_u64_at(&c->wait, i));

        if (ev->obj.error != 0 || tp_exec_event_status(ev) < 0) {
            return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        }
    }
    return 0;
}

/* Fails an enqueued command whose wait list has failed, whatever the driver makes of it. */
static void
poison_late(struct tp_exec_command *c)
{
    struct tp_exec_event *ev = c->ev;
    int32_t error = tp_exec_check_waits(c);

    if (error == 0) {
        return;
    }
    ev->obj.error = error;
    if (ev->obj.id == 0) {
        tp_exec_failed(c->x, ev->queue_id, error, ev->call);
    }
}

telpher_status
tp_exec_end(struct tp_exec_command *c)
{
    if (c->error != 0) {
        end_failed(c);
    } else {
        poison_late(c);
        c->queue->untracked = 0;
        c->queue->launches = c->ev->notify ? 0 : c->queue->launches;
        tp_exec_dirty(c->queue);
        tp_exec_event_submitted(c->ev);
    }
    tp_exec_unref(&c->ev->obj); /* ours; the table and the queue have theirs */
    return TELPHER_OK;
}

telpher_status
tp_exec_run(struct tp_exec *x, const struct tp_exec_kind *kind,
            const struct tp_exec_head *head, const void *msg)
{
    struct tp_exec_command c;
    telpher_status status;

    if (kind->is_proper != NULL && !kind->is_proper(msg)) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_begin(x, &c, kind->call, head);
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error = kind->run(&c, msg);
    }
    return tp_exec_end(&c);
}

/* ---- copies and the rest ---- */

/* Checks and converts the values of a rectangular COPY. @return 0 or CL_INVALID_VALUE */
static int32_t
copy_rect(const struct tp_wire_u64s *rect, const struct tp_exec_mem *src,
          const struct tp_exec_mem *dst, size_t v[COPY_RECT])
{
    struct tp_device_box box;
    int32_t error;

    for (size_t i = 0; i < COPY_RECT; i++) {
        v[i] = tp_wire_u64_at(rect, i);
    }
    error = tp_exec_make_rect(
        (const uint64_t[]){v[0], v[1], v[2], v[6], v[7], v[8], v[9], v[10]}, src->size,
        &box);
    return error != 0 ? error
                      : tp_exec_make_rect((const uint64_t[]){v[3], v[4], v[5], v[6],
                                                             v[7], v[8], v[11], v[12]},
                                          dst->size, &box);
}

static bool
copy_is_proper(const void *msg)
{
    const struct tp_wire_copy *m = msg;

    return m->rect.count == 0 || m->rect.count == COPY_RECT;
}

static int32_t
run_copy(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_copy *m = msg;
    struct tp_exec_mem *src, *dst;
    size_t v[COPY_RECT];
    int32_t error = tp_exec_find_buffer(c->x, m->src, &src);

    if (error == 0) {
        error = tp_exec_find_buffer(c->x, m->dst, &dst);
    }
    if (error == 0 && m->rect.count != 0) {
        error = copy_rect(&m->rect, src, dst, v);
    }
    if (error == 0) {
        error = tp_exec_keep(c, src);
    }
    if (error == 0) {
        error = tp_exec_keep(c, dst);
    }
    if (error != 0) {
        return error;
    }
    return m->rect.count == 0
               ? TP_EXEC_CALL(c, CopyBuffer, src->native, dst->native, m->src_offset,
                              m->dst_offset, m->size)
               : TP_EXEC_CALL(c, CopyBufferRect, src->native, dst->native, v, v + 3,
                              v + 6, v[9], v[10], v[11], v[12]);
}

const struct tp_exec_kind tp_exec_copy = {"clEnqueueCopyBuffer", copy_is_proper,
                                          run_copy};
TP_EXEC_HANDLER(copy)

static bool
fill_is_proper(const void *msg)
{
    const struct tp_wire_fill *m = msg;

    return m->pattern.len > 0 && m->pattern.len <= PATTERN_MAX &&
           (m->pattern.len & (m->pattern.len - 1)) == 0;
}

static int32_t
run_fill(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_fill *m = msg;
    uint8_t pattern[PATTERN_MAX] __attribute__((aligned(PATTERN_MAX)));
    struct tp_exec_mem *mem;
    int32_t error = tp_exec_find_buffer(c->x, m->mem, &mem);

    if (error == 0) {
        error = tp_exec_keep(c, mem);
    }
    if (error != 0) {
        return error;
    }
    memcpy(pattern, m->pattern.data, m->pattern.len);
    return TP_EXEC_CALL(c, FillBuffer, mem->native, pattern, m->pattern.len, m->offset,
                        m->size);
}

const struct tp_exec_kind tp_exec_fill = {"clEnqueueFillBuffer", fill_is_proper,
                                          run_fill};
TP_EXEC_HANDLER(fill)

/*
 * On an in-order queue a marker without wait list completes with the command before it. It
 * shares the event of that command, at no cost for the driver. This does not apply with
 * profiling, where it has its own stamps, or after a failure. @return NULL: no such command
 */
static cl_event
event_of_last(const struct tp_exec_command *c)
{
    struct tp_exec_queue *q = c->queue;
    struct tp_exec_event *last;
    cl_event native = NULL;

    if (!q->in_order || q->profiling || q->untracked > 0 || c->wait_count > 0) {
        return NULL;
    }
    last = tp_exec_queue_last(q);
    if (last == NULL) {
        return NULL;
    }
    if (last->native != NULL && last->obj.error == 0 &&
        tp_exec_event_status(last) >= CL_COMPLETE && !q->failed &&
        c->x->cl.RetainEvent(last->native) == CL_SUCCESS) {
        native = last->native;
    }
    tp_exec_unref(&last->obj);
    return native;
}

/*
 * Out of order, waits for the wait list and the last barrier and for nothing else, as a marker
 * should. A buffer that no other command uses migrates.
 */
static int32_t
run_exact_marker(struct tp_exec_command *c)
{
    struct tp_exec_context *context = c->queue->context;
    cl_int error = 0;

    if (context->nothing == NULL) {
        context->nothing = c->x->cl.CreateBuffer(context->native, 0, 1, NULL, &error);
    }
    return error != 0 ? error
                      : c->x->cl.EnqueueMigrateMemObjects(
                            c->queue->native, 1, &context->nothing,
                            CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, c->wait_count,
                            c->waits, &c->ev->native);
}

static int32_t
run_marker(struct tp_exec_command *c, const void *msg)
{
    c->ev->is_whole = !c->ev->has_waits;
    if (c->wait_count > 0 && !c->queue->in_order &&
        tp_exec_has_quirk(c->x, TP_EXEC_QUIRK_MARKER_WAITS_FOR_ALL)) {
        return run_exact_marker(c);
    }
    c->ev->native = event_of_last(c);
    return c->ev->native != NULL
               ? 0
               : c->x->cl.EnqueueMarkerWithWaitList(c->queue->native, c->wait_count,
                                                    c->waits, &c->ev->native);
}

static const struct tp_exec_kind tp_exec_marker = {"clEnqueueMarkerWithWaitList", NULL,
                                                   run_marker};
TP_EXEC_HANDLER(marker)

/* Out of order: stores the last barrier for moves, which run outside of the queue. */
static void
remember_barrier(struct tp_exec_command *c)
{
    if (c->queue->in_order) {
        return;
    }
    tp_exec_queue_forget_barrier(c->queue);
    c->x->cl.RetainEvent(c->ev->native);
    c->queue->barrier = c->ev->native;
    c->ev->is_barrier = true;
}

static int32_t
run_barrier(struct tp_exec_command *c, const void *msg)
{
    int32_t error;

    if (c->record != NULL) {
        return c->x->commands.CommandBarrierWithWaitList(
            c->record->native, NULL, c->wait_count, c->points, &c->point, NULL);
    }
    c->ev->is_whole = !c->ev->has_waits;
    error = c->x->cl.EnqueueBarrierWithWaitList(c->queue->native, c->wait_count,
                                                c->waits, &c->ev->native);
    if (error == 0) {
        remember_barrier(c);
    }
    return error;
}

const struct tp_exec_kind tp_exec_barrier = {"clEnqueueBarrierWithWaitList", NULL,
                                             run_barrier};
TP_EXEC_HANDLER(barrier)
