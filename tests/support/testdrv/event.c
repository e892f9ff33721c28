/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the test driver: status, callbacks, profiling stamps, and who waits for whom.
 * td_event_set() is the one place where a status changes.
 */
#include "td.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LATE_US = 2000, UNTOLD_US = 300000 };

pthread_cond_t td_completed = PTHREAD_COND_INITIALIZER;

static cl_ulong
host_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (cl_ulong)ts.tv_sec * 1000000000 + (cl_ulong)ts.tv_nsec;
}

cl_ulong
td_now_ns(void)
{
    return host_now_ns() + td_script()->clock_ahead_ns;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetHostTimer(cl_device_id dev, cl_ulong *host_ns)
{
    cl_int err = td_enter("clGetHostTimer", "device=%u", td_id(dev));

    if (err == CL_SUCCESS) {
        *host_ns = host_now_ns();
    }
    return err;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetDeviceAndHostTimer(cl_device_id dev, cl_ulong *device_ns, cl_ulong *host_ns)
{
    cl_int err = td_enter("clGetDeviceAndHostTimer", "device=%u", td_id(dev));

    if (err == CL_SUCCESS) {
        *host_ns = host_now_ns();
        *device_ns = *host_ns + td_script()->clock_ahead_ns;
    }
    return err;
}

/* An event that never completed (a user event given up) may still have callbacks. */
static void
destroy_event(struct td_obj *obj)
{
    cl_event e = (cl_event)obj;

    while (e->callbacks != NULL) {
        struct td_event_callback *c = e->callbacks;

        e->callbacks = c->next;
        free(c);
    }
    td_unref(e->queue);
    td_unref(e->context);
    free(e);
}

cl_event
td_event_new(cl_context context, cl_command_queue queue, cl_command_type type)
{
    cl_event e = td_new(TD_EVENT, sizeof(*e), destroy_event);

    if (e == NULL) {
        return NULL;
    }
    td_ref(context);
    td_ref(queue);
    e->context = context;
    e->queue = queue;
    e->type = type;
    e->status = queue != NULL ? CL_QUEUED : CL_SUBMITTED;
    e->stamp[0] = td_now_ns();
    return e;
}

static void
stamp(cl_event e, cl_int status)
{
    cl_ulong now = td_now_ns();

    switch (status) {
    case CL_SUBMITTED:
        e->stamp[1] = now;
        break;
    case CL_RUNNING:
        e->stamp[2] = now;
        break;
    default:
        e->stamp[3] = e->stamp[4] = now;
        break;
    }
}

/* Takes off the list the callbacks that are due at the event's status. */
static struct td_event_callback *
take_due(cl_event e)
{
    struct td_event_callback *due = NULL;

    for (struct td_event_callback **p = &e->callbacks; *p != NULL;) {
        struct td_event_callback *c = *p;

        if (e->status <= c->when) {
            *p = c->next;
            c->next = due;
            due = c;
        } else {
            p = &c->next;
        }
    }
    return due;
}

static void
call_callbacks(cl_event e, struct td_event_callback *list, cl_int status)
{
    while (list != NULL) {
        struct td_event_callback *c = list;

        list = c->next;
        c->fn(e, status < 0 ? status : c->when, c->data);
        free(c);
    }
}

static void wake_dependents(cl_event e);

/* Without a callback, and long before the command would have run. With td_mutex. */
static void
fail_at_once(cl_event e)
{
    if (e->status > CL_COMPLETE) {
        e->status = -1;
        wake_dependents(e);
        pthread_cond_broadcast(&td_completed);
    }
}

/* The command has nothing left to wait for. With td_mutex. */
static void
make_ready(struct td_cmd *cmd)
{
    struct td_cmd **p = &cmd->queue->ready;

    if (cmd->wait_failed && td_script()->cascade) {
        fail_at_once(cmd->event);
    }
    while (*p != NULL) {
        p = &(*p)->next_ready;
    }
    *p = cmd;
    td_queue_wake(cmd->queue);
}

static void *
fail_late(void *arg)
{
    usleep(LATE_US);
    pthread_mutex_lock(&td_mutex);
    make_ready(arg);
    pthread_mutex_unlock(&td_mutex);
    return NULL;
}

/* One command has one event less to wait for. With td_mutex. */
static void
count_down(struct td_cmd *cmd, bool failed)
{
    pthread_t thread;

    cmd->wait_failed |= failed && !td_script()->forgives_all;
    if (--cmd->missing > 0) {
        return;
    }
    if (cmd->wait_failed && td_script()->late &&
        pthread_create(&thread, NULL, fail_late, cmd) == 0) {
        pthread_detach(thread);
    } else {
        make_ready(cmd);
    }
}

static void
wake_dependents(cl_event e)
{
    while (e->dependents != NULL) {
        struct td_dependent *d = e->dependents;

        e->dependents = d->next;
        count_down(d->cmd, d->listed && e->status < 0);
        free(d);
    }
}

static void *
tell_late(void *arg)
{
    usleep(UNTOLD_US);
    td_event_set(arg, CL_COMPLETE);
    td_unref(arg);
    return NULL;
}

/* A read has ended, but says so later; what its queue has after it goes on. */
static bool
keep_untold(cl_event event, cl_int status)
{
    pthread_t thread;

    if (!td_script()->untold || event->type != CL_COMMAND_READ_BUFFER ||
        status != CL_COMPLETE || event->untold) {
        return false;
    }
    td_ref(event);
    if (pthread_create(&thread, NULL, tell_late, event) != 0) {
        td_unref(event);
        return false;
    }
    pthread_detach(thread);
    pthread_mutex_lock(&td_mutex);
    event->untold = true;
    wake_dependents(event);
    pthread_mutex_unlock(&td_mutex);
    return true;
}

bool
td_event_set(cl_event event, cl_int status)
{
    struct td_event_callback *due;

    if (keep_untold(event, status)) {
        return true;
    }
    pthread_mutex_lock(&td_mutex);
    if (event->status <= CL_COMPLETE) {
        pthread_mutex_unlock(&td_mutex);
        return false;
    }
    event->status = status;
    stamp(event, status);
    due = take_due(event);
    if (status <= CL_COMPLETE) {
        wake_dependents(event);
        pthread_cond_broadcast(&td_completed);
    }
    pthread_mutex_unlock(&td_mutex);
    if (event->type == CL_COMMAND_READ_BUFFER) {
        (void)td_enter_command("clSetEventCallback");
    }
    call_callbacks(event, due, status);
    return true;
}

cl_int
td_event_wait(cl_event event)
{
    cl_int status;

    pthread_mutex_lock(&td_mutex);
    while (event->status > CL_COMPLETE) {
        pthread_cond_wait(&td_completed, &td_mutex);
    }
    status = event->status;
    pthread_mutex_unlock(&td_mutex);
    return status;
}

static cl_int
event_status(cl_event event)
{
    cl_int status;

    pthread_mutex_lock(&td_mutex);
    status = event->status;
    pthread_mutex_unlock(&td_mutex);
    return status;
}

cl_int
td_check_wait(cl_context context, cl_uint count, const cl_event *list)
{
    if ((count == 0) != (list == NULL)) {
        return CL_INVALID_EVENT_WAIT_LIST;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (!td_is(list[i], TD_EVENT)) {
            return CL_INVALID_EVENT_WAIT_LIST;
        }
        if (list[i]->context != context) {
            return CL_INVALID_CONTEXT;
        }
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clWaitForEvents(cl_uint count, const cl_event *list)
{
    cl_int result = CL_SUCCESS;
    cl_int err = td_enter("clWaitForEvents", "count=%u first=%u", count,
                          count > 0 && list != NULL ? td_id(list[0]) : 0);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (count == 0 || list == NULL) {
        return CL_INVALID_VALUE;
    }
    if (!td_is(list[0], TD_EVENT)) {
        return CL_INVALID_EVENT;
    }
    err = td_check_wait(list[0]->context, count, list);
    if (err != CL_SUCCESS) {
        return err == CL_INVALID_EVENT_WAIT_LIST ? CL_INVALID_EVENT : err;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (td_script()->in_flush) {
            td_run_event(list[i]);
        } else if (list[i]->queue != NULL) {
            td_flush(list[i]->queue);
        }
    }
    for (cl_uint i = 0; i < count; i++) {
        if (td_event_wait(list[i]) < 0) {
            result = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        }
    }
    return result;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetEventInfo(cl_event e, cl_event_info name, size_t size, void *value,
                  size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetEventInfo", "event=%u name=%#x", td_id(e), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(e, TD_EVENT)) {
        return CL_INVALID_EVENT;
    }
    switch (name) {
    case CL_EVENT_COMMAND_QUEUE:
        return td_out_ptr(out, e->queue);
    case CL_EVENT_CONTEXT:
        return td_out_ptr(out, e->context);
    case CL_EVENT_COMMAND_TYPE:
        return td_out_u32(out, e->type);
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        return td_out_u32(out, (cl_uint)event_status(e));
    case CL_EVENT_REFERENCE_COUNT:
        return td_out_u32(out, td_api_refs(e));
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetEventProfilingInfo(cl_event e, cl_profiling_info name, size_t size, void *value,
                           size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_uint which = name - CL_PROFILING_COMMAND_QUEUED;
    cl_uint known = td_script()->version12 ? 4 : 5;
    cl_int err =
        td_enter("clGetEventProfilingInfo", "event=%u name=%#x", td_id(e), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(e, TD_EVENT)) {
        return CL_INVALID_EVENT;
    }
    if (e->queue == NULL || (e->queue->props & CL_QUEUE_PROFILING_ENABLE) == 0 ||
        event_status(e) != CL_COMPLETE) {
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    }
    return which < known ? td_out_u64(out, e->stamp[which]) : CL_INVALID_VALUE;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clRetainEvent(cl_event event)
{
    cl_int err = td_enter("clRetainEvent", "event=%u", td_id(event));

    return err != CL_SUCCESS ? err : td_retain(event, TD_EVENT, CL_INVALID_EVENT);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clReleaseEvent(cl_event event)
{
    cl_int err = td_enter("clReleaseEvent", "event=%u", td_id(event));

    return err != CL_SUCCESS ? err : td_release(event, TD_EVENT, CL_INVALID_EVENT);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clSetEventCallback(cl_event event, cl_int when,
                      void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *data)
{
    struct td_event_callback *c;
    struct td_event_callback *due;
    cl_int status;
    cl_int err = td_enter("clSetEventCallback", "event=%u when=%d", td_id(event), when);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(event, TD_EVENT)) {
        return CL_INVALID_EVENT;
    }
    if (fn == NULL || when < CL_COMPLETE || when > CL_SUBMITTED) {
        return CL_INVALID_VALUE;
    }
    c = malloc(sizeof(*c));
    if (c == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    *c = (struct td_event_callback){.when = when, .fn = fn, .data = data};
    pthread_mutex_lock(&td_mutex);
    c->next = event->callbacks;
    event->callbacks = c;
    due = td_script()->in_flush ? NULL : take_due(event); /* too late: never */
    status = event->status;
    pthread_mutex_unlock(&td_mutex);
    call_callbacks(event, due, status);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_event CL_API_CALL
td_clCreateUserEvent(cl_context context, cl_int *errcode_ret)
{
    cl_event e = NULL;
    cl_int err = td_enter("clCreateUserEvent", "context=%u", td_id(context));

    if (err == CL_SUCCESS && !td_is(context, TD_CONTEXT)) {
        err = CL_INVALID_CONTEXT;
    }
    if (err == CL_SUCCESS) {
        e = td_event_new(context, NULL, CL_COMMAND_USER);
        err = e != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    td_set_error(errcode_ret, err);
    return e;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clSetUserEventStatus(cl_event event, cl_int status)
{
    cl_int err =
        td_enter("clSetUserEventStatus", "event=%u status=%d", td_id(event), status);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(event, TD_EVENT) || event->queue != NULL) {
        return CL_INVALID_EVENT;
    }
    if (status > CL_COMPLETE) {
        return CL_INVALID_VALUE;
    }
    return td_event_set(event, status) ? CL_SUCCESS : CL_INVALID_OPERATION;
}

static bool
add_dependency(struct td_cmd *cmd, cl_event event, bool listed)
{
    struct td_dependent *d;

    if (event->status <= CL_COMPLETE) {
        cmd->wait_failed |= listed && event->status < 0 && !td_script()->forgives;
        return true;
    }
    d = malloc(sizeof(*d));
    if (d == NULL) {
        return false;
    }
    *d = (struct td_dependent){.next = event->dependents,
                               .cmd = cmd,
                               .listed = listed || td_script()->cascade};
    event->dependents = d;
    event->obj.refs++; /* so that a user event released too early is not freed */
    cmd->dep[cmd->num_dep++] = event;
    cmd->missing++;
    return true;
}

/* With td_mutex: what the command waits for apart from its wait list. */
static bool
add_implied(struct td_cmd *cmd, bool waits_for_all)
{
    cl_command_queue q = cmd->queue;
    bool ok = true;

    if ((q->props & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0) {
        return q->last == NULL || add_dependency(cmd, q->last, false);
    }
    if (q->barrier != NULL) {
        ok = add_dependency(cmd, q->barrier, false);
    }
    for (struct td_cmd *c = q->all; ok && waits_for_all && c != NULL; c = c->next) {
        ok = add_dependency(cmd, c->event, false);
    }
    return ok;
}

static cl_uint
count_all(cl_command_queue q)
{
    cl_uint count = 0;

    for (struct td_cmd *c = q->all; c != NULL; c = c->next) {
        count++;
    }
    return count;
}

void
td_cmd_link(struct td_cmd *cmd, const struct td_wait *wait, bool waits_for_all,
            bool is_barrier, void *ret_old[2])
{
    cl_command_queue q = cmd->queue;
    bool ok;

    cmd->dep = calloc(wait->count + count_all(q) + 2, sizeof(*cmd->dep));
    ok = cmd->dep != NULL && add_implied(cmd, waits_for_all);
    for (cl_uint i = 0; ok && i < wait->count; i++) {
        ok = add_dependency(cmd, wait->list[i], true);
    }
    if (!ok) {
        abort(); /* out of memory half-way: a test driver need not unwind this */
    }
    cmd->next = q->all;
    if (q->all != NULL) {
        q->all->prev = cmd;
    }
    q->all = cmd;
    ret_old[0] = q->last;
    q->last = cmd->event;
    cmd->event->obj.refs++;
    ret_old[1] = NULL;
    if (is_barrier) {
        ret_old[1] = q->barrier;
        q->barrier = cmd->event;
        cmd->event->obj.refs++;
    }
    if (td_script()->lazy) {
        cmd->next_gated = q->gated;
        q->gated = cmd;
        cmd->missing++;
    }
    count_down(cmd, false); /* the gate that kept it from starting until now */
}

void
td_flush(cl_command_queue queue)
{
    struct td_cmd *gated;

    if (td_script()->in_flush) {
        td_run_queue(queue);
        return;
    }
    pthread_mutex_lock(&td_mutex);
    gated = queue->gated;
    queue->gated = NULL;
    while (gated != NULL) {
        struct td_cmd *next = gated->next_gated;

        count_down(gated, false);
        gated = next;
    }
    pthread_mutex_unlock(&td_mutex);
}
