/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies OpenCL memory. Progress polls for the end of copies instead of using callbacks,
 * which some drivers call late and on their own threads. A lane is in order, so that only
 * its oldest copy needs a poll.
 */
#include "base/trace/log.h"
#include "device/opencl/memory/memory_int.h"

enum { WAITS_MAX = 2 };

/* State of a copy, stored in its private area. */
struct running {
    struct tp_list link;
    cl_event event;
};
_Static_assert(sizeof(struct running) <= sizeof(((struct tp_device_copy *)0)->room),
               "fits the room");

/* Markers for the present work of the user's queues, for which a copy waits. */
struct waits {
    cl_event events[WAITS_MAX];
    cl_uint count;
};

static struct running *
running_of(struct tp_device_copy *copy)
{
    return (struct running *)(void *)&copy->room;
}

static cl_int
wait_for_queue(const struct tp_opencl *cl, cl_command_queue queue, struct waits *waits)
{
    cl_int error =
        cl->EnqueueMarkerWithWaitList(queue, 0, NULL, &waits->events[waits->count]);

    if (error != CL_SUCCESS) {
        return error;
    }
    waits->count++;
    return cl->Flush(queue); /* without it the marker might never complete */
}

static cl_int
collect_waits(const struct tp_opencl *cl, const struct tp_device_copy *copy,
              struct waits *waits)
{
    const struct tp_opencl_memory *to = copy->mem, *from = copy->from;
    cl_command_queue first = copy->queue != NULL ? copy->queue : to->queue;
    cl_int error = CL_SUCCESS;

    if (first != NULL) {
        error = wait_for_queue(cl, first, waits);
    }
    if (error == CL_SUCCESS && copy->queue == NULL && from != NULL &&
        from->queue != NULL && from->queue != first) {
        error = wait_for_queue(cl, from->queue, waits);
    }
    return error;
}

static cl_int
enqueue_read(struct tp_opencl_memories *ms, cl_command_queue queue,
             const struct tp_device_copy *copy, const struct waits *w, cl_event *event)
{
    const struct tp_opencl_memory *m = copy->mem;
    const cl_event *list = w->count > 0 ? w->events : NULL;
    size_t offset = copy->box.origin[0], len = copy->box.region[0];

    return m->buffer != NULL
               ? ms->cl.EnqueueReadBuffer(queue, m->buffer, CL_FALSE, offset, len,
                                          copy->host, w->count, list, event)
               : tp_opencl_pointer_copy(ms, m, queue, copy->host, m->pointer + offset,
                                        len, w->count, list, event);
}

static cl_int
enqueue_write(struct tp_opencl_memories *ms, cl_command_queue queue,
              const struct tp_device_copy *copy, const struct waits *w, cl_event *event)
{
    const struct tp_opencl_memory *m = copy->mem;
    const cl_event *list = w->count > 0 ? w->events : NULL;
    size_t offset = copy->box.origin[0], len = copy->box.region[0];

    return m->buffer != NULL
               ? ms->cl.EnqueueWriteBuffer(queue, m->buffer, CL_FALSE, offset, len,
                                           copy->host, w->count, list, event)
               : tp_opencl_pointer_copy(ms, m, queue, m->pointer + offset, copy->host,
                                        len, w->count, list, event);
}

static cl_int
enqueue_move(struct tp_opencl_memories *ms, cl_command_queue queue,
             const struct tp_device_copy *copy, const struct waits *w, cl_event *event)
{
    const struct tp_opencl_memory *m = copy->mem, *from = copy->from;
    const cl_event *list = w->count > 0 ? w->events : NULL;
    size_t offset = copy->box.origin[0], len = copy->box.region[0];

    return m->buffer != NULL ? ms->cl.EnqueueCopyBuffer(queue, from->buffer, m->buffer,
                                                        copy->from_offset, offset, len,
                                                        w->count, list, event)
                             : tp_opencl_pointer_copy(ms, m, queue, m->pointer + offset,
                                                      from->pointer + copy->from_offset,
                                                      len, w->count, list, event);
}

typedef cl_int enqueue_fn(struct tp_opencl_memories *ms, cl_command_queue queue,
                          const struct tp_device_copy *copy, const struct waits *w,
                          cl_event *event);

static int32_t
start(struct tp_device *d, struct tp_device_copy *copy, int which, enqueue_fn *enqueue)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    const struct tp_opencl_memory *m = copy->mem;
    struct tp_opencl_lane *lane = &m->site->lanes[which];
    struct running *r = running_of(copy);
    struct waits waits = {.count = 0};
    cl_int error = collect_waits(&ms->cl, copy, &waits);

    if (error == CL_SUCCESS) {
        error = enqueue(ms, lane->queue, copy, &waits, &r->event);
    }
    for (cl_uint i = 0; i < waits.count; i++) {
        ms->cl.ReleaseEvent(waits.events[i]);
    }
    if (error != CL_SUCCESS) {
        tp_debug("mem", "opencl: copy refused: %s", tp_opencl_error_name(error));
        return tp_opencl_status(error);
    }
    tp_list_push_back(&lane->running, &r->link);
    ms->running++;
    (void)ms->cl.Flush(lane->queue); /* the event reports a failure */
    return 0;
}

int32_t
tp_opencl_memory_read(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, TP_OPENCL_READ, enqueue_read);
}

int32_t
tp_opencl_memory_write(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, TP_OPENCL_WRITE, enqueue_write);
}

int32_t
tp_opencl_memory_move(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, TP_OPENCL_MOVE, enqueue_move);
}

bool
tp_opencl_memory_can_move(struct tp_device *d, void *to, void *from)
{
    const struct tp_opencl_memory *a = to, *b = from;

    return a->site->context == b->site->context &&
           (a->buffer == NULL) == (b->buffer == NULL) && a->usm == b->usm;
}

/* True if the copy has ended; *ret_error is then 0 or the driver's code. */
static bool
has_ended(const struct tp_opencl *cl, const struct running *r, cl_int *ret_error)
{
    cl_int state = CL_QUEUED;
    cl_int error = cl->GetEventInfo(r->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                    sizeof(state), &state, NULL);

    *ret_error = error != CL_SUCCESS ? error : TP_MIN(state, 0);
    return error != CL_SUCCESS || state <= CL_COMPLETE;
}

static unsigned
progress_lane(struct tp_opencl_memories *ms, struct tp_opencl_lane *lane)
{
    unsigned count = 0;
    struct tp_list *link;

    while ((link = tp_list_first(&lane->running)) != NULL) {
        struct tp_device_copy *copy =
            tp_container_of(link, struct tp_device_copy, room);
        struct running *r = running_of(copy);
        cl_int error;

        if (!has_ended(&ms->cl, r, &error)) {
            break;
        }
        tp_list_remove(link);
        ms->cl.ReleaseEvent(r->event);
        ms->running--;
        count++;
        if (error != CL_SUCCESS) {
            tp_debug("mem", "opencl: copy failed: %s", tp_opencl_error_name(error));
        }
        copy->done(copy, error == CL_SUCCESS ? TELPHER_OK : TELPHER_ERR_DEVICE);
    }
    return count;
}

unsigned
tp_opencl_memory_progress(struct tp_device *d)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    unsigned count = 0;

    if (ms->running == 0) {
        return 0;
    }
    ms->walking = true;
    tp_list_for_each_entry(struct tp_opencl_site, site, &ms->sites, link) {
        for (int i = 0; i < TP_OPENCL_QUEUES; i++) {
            count += progress_lane(ms, &site->lanes[i]);
        }
    }
    ms->walking = false;
    return count;
}
