/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serializes driver calls, for drivers that are not thread safe, against the standard
 * (oclgrind keeps its commands in unlocked maps). Event callbacks are delayed until the
 * call that raised them has returned, on its thread. So no code of ours runs inside a call,
 * and the lock is a leaf. Two functions bypass it, since the call that holds it may take
 * long: clSetUserEventStatus, because that call may wait for it, and clGetEventInfo (a
 * plain read in oclgrind), by which the watchdog sees progress.
 */
#include "device/opencl/serial.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/thread.h"
#include "device/opencl/calls.h"

/* A callback; after its event, also the arguments for it. */
struct call_back {
    void(CL_CALLBACK *fn)(cl_event event, cl_int status, void *arg);
    void *arg;
    cl_event event; /* retained */
    cl_int status;
    struct call_back *next;
};

static struct tp_opencl driver; /* the driver's functions; fixed after the start */
static struct tp_mutex lock = TP_MUTEX_INIT;
static _Thread_local unsigned depth; /* calls that this thread is in */
static _Thread_local struct call_back *arrived, **arrived_end;

static void
enter(void)
{
    tp_mutex_lock(&lock);
    depth++;
}

/* Runs the delayed callbacks. Without the lock. */
static void
call_back(void)
{
    struct call_back *list = arrived;

    arrived = NULL;
    while (list != NULL) {
        struct call_back *c = list;

        list = c->next;
        c->fn(c->event, c->status, c->arg);
        enter();
        (void)driver.ReleaseEvent(c->event);
        depth--;
        tp_mutex_unlock(&lock);
        tp_free(c);
    }
}

static void
leave(void)
{
    depth--;
    tp_mutex_unlock(&lock);
    call_back();
}

#define CALL(type, name, parameters, arguments)                                        \
    static CL_API_ENTRY type CL_API_CALL one_##name parameters                         \
    {                                                                                  \
        type result;                                                                   \
                                                                                       \
        enter();                                                                       \
        result = driver.name arguments;                                                \
        leave();                                                                       \
        return result;                                                                 \
    }
TP_OPENCL_CALLS(CALL)
#undef CALL

/* The driver's callback: inside a call of this thread. */
static void CL_CALLBACK
arrive(cl_event event, cl_int status, void *arg)
{
    struct call_back *c = arg;

    if (depth == 0) { /* on a thread of the driver */
        c->fn(event, status, c->arg);
        tp_free(c);
        return;
    }
    (void)driver.RetainEvent(event);
    c->event = event;
    c->status = status;
    c->next = NULL;
    if (arrived == NULL) {
        arrived_end = &arrived;
    }
    *arrived_end = c;
    arrived_end = &c->next;
}

static CL_API_ENTRY cl_int CL_API_CALL
one_SetEventCallback(cl_event event, cl_int when,
                     void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *arg)
{
    struct call_back *c = tp_zalloc(sizeof(*c), "callback");
    cl_int error;

    if (c == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    c->fn = fn;
    c->arg = arg;
    enter();
    error = driver.SetEventCallback(event, when, arrive, c);
    leave();
    if (error != CL_SUCCESS) {
        tp_free(c);
    }
    return error;
}

static CL_API_ENTRY cl_int CL_API_CALL
one_SetUserEventStatus(cl_event event, cl_int status)
{
    bool locked = tp_mutex_trylock(&lock);
    cl_int error;

    depth++;
    error = driver.SetUserEventStatus(event, status);
    depth--;
    if (locked) {
        tp_mutex_unlock(&lock);
    }
    call_back();
    return error;
}

void
tp_opencl_serialize(struct tp_opencl *cl)
{
    driver = *cl;
#define CALL(type, name, parameters, arguments) cl->name = one_##name;
    TP_OPENCL_CALLS(CALL)
#undef CALL
    cl->SetEventCallback = one_SetEventCallback;
    cl->SetUserEventStatus = one_SetUserEventStatus;
}
