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

/* clang-format off */
#define CALLS(X) \
    X(cl_context, CreateContext, (const cl_context_properties *a, cl_uint b, const cl_device_id *c, void \
          (CL_CALLBACK *d)(const char * errinfo, const void * private_info, size_t cb, void * user_data), \
          void *e, cl_int *f), (a, b, c, d, e, f)) \
    X(cl_int, ReleaseContext, (cl_context a), (a)) \
    X(cl_command_queue, CreateCommandQueue, (cl_context a, cl_device_id b, cl_command_queue_properties c, \
          cl_int *d), (a, b, c, d)) \
    X(cl_int, ReleaseCommandQueue, (cl_command_queue a), (a)) \
    X(cl_mem, CreateBuffer, (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *e), (a, b, c, d, e)) \
    X(cl_mem, CreateSubBuffer, (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int \
          *e), (a, b, c, d, e)) \
    X(cl_int, RetainMemObject, (cl_mem a), (a)) \
    X(cl_int, ReleaseMemObject, (cl_mem a), (a)) \
    X(cl_int, GetSupportedImageFormats, (cl_context a, cl_mem_flags b, cl_mem_object_type c, cl_uint d, \
          cl_image_format *e, cl_uint *f), (a, b, c, d, e, f)) \
    X(cl_mem, CreateImage, (cl_context a, cl_mem_flags b, const cl_image_format *c, const cl_image_desc *d, \
          void *e, cl_int *f), (a, b, c, d, e, f)) \
    X(cl_sampler, CreateSampler, (cl_context a, cl_bool b, cl_addressing_mode c, cl_filter_mode d, cl_int \
          *e), (a, b, c, d, e)) \
    X(cl_int, ReleaseSampler, (cl_sampler a), (a)) \
    X(cl_program, CreateProgramWithSource, (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int \
          *e), (a, b, c, d, e)) \
    X(cl_program, CreateProgramWithBinary, (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, \
          const unsigned char **e, cl_int *f, cl_int *g), (a, b, c, d, e, f, g)) \
    X(cl_int, ReleaseProgram, (cl_program a), (a)) \
    X(cl_int, BuildProgram, (cl_program a, cl_uint b, const cl_device_id *c, const char *d, void \
          (CL_CALLBACK *e)(cl_program program, void * user_data), void *f), (a, b, c, d, e, f)) \
    X(cl_int, CompileProgram, (cl_program a, cl_uint b, const cl_device_id *c, const char *d, cl_uint e, \
          const cl_program *f, const char **g, void (CL_CALLBACK *h)(cl_program program, void * user_data), \
          void *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_program, LinkProgram, (cl_context a, cl_uint b, const cl_device_id *c, const char *d, cl_uint e, \
          const cl_program *f, void (CL_CALLBACK *g)(cl_program program, void * user_data), void *h, cl_int \
          *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, GetProgramInfo, (cl_program a, cl_program_info b, size_t c, void *d, size_t *e), (a, b, c, d, \
          e)) \
    X(cl_int, GetProgramBuildInfo, (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void \
          *e, size_t *f), (a, b, c, d, e, f)) \
    X(cl_kernel, CreateKernel, (cl_program a, const char *b, cl_int *c), (a, b, c)) \
    X(cl_int, CreateKernelsInProgram, (cl_program a, cl_uint b, cl_kernel *c, cl_uint *d), (a, b, c, d)) \
    X(cl_int, RetainKernel, (cl_kernel a), (a)) \
    X(cl_int, ReleaseKernel, (cl_kernel a), (a)) \
    X(cl_int, SetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d)) \
    X(cl_int, GetKernelInfo, (cl_kernel a, cl_kernel_info b, size_t c, void *d, size_t *e), (a, b, c, d, e)) \
    X(cl_int, GetKernelArgInfo, (cl_kernel a, cl_uint b, cl_kernel_arg_info c, size_t d, void *e, size_t \
          *f), (a, b, c, d, e, f)) \
    X(cl_int, GetKernelWorkGroupInfo, (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, \
          void *e, size_t *f), (a, b, c, d, e, f)) \
    X(cl_int, WaitForEvents, (cl_uint a, const cl_event *b), (a, b)) \
    X(cl_event, CreateUserEvent, (cl_context a, cl_int *b), (a, b)) \
    X(cl_int, RetainEvent, (cl_event a), (a)) \
    X(cl_int, ReleaseEvent, (cl_event a), (a)) \
    X(cl_int, GetEventProfilingInfo, (cl_event a, cl_profiling_info b, size_t c, void *d, size_t *e), (a, b, \
          c, d, e)) \
    X(cl_int, Flush, (cl_command_queue a), (a)) \
    X(cl_int, EnqueueReadBuffer, (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, \
          cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueReadBufferRect, (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t \
          *e, const size_t *f, size_t g, size_t h, size_t i, size_t j, void *k, cl_uint l, const cl_event \
          *m, cl_event *n), (a, b, c, d, e, f, g, h, i, j, k, l, m, n)) \
    X(cl_int, EnqueueWriteBuffer, (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void \
          *f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueWriteBufferRect, (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const \
          size_t *e, const size_t *f, size_t g, size_t h, size_t i, size_t j, const void *k, cl_uint l, \
          const cl_event *m, cl_event *n), (a, b, c, d, e, f, g, h, i, j, k, l, m, n)) \
    X(cl_int, EnqueueFillBuffer, (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, \
          cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueCopyBuffer, (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, \
          cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueCopyBufferRect, (cl_command_queue a, cl_mem b, cl_mem c, const size_t *d, const size_t \
          *e, const size_t *f, size_t g, size_t h, size_t i, size_t j, cl_uint k, const cl_event *l, \
          cl_event *m), (a, b, c, d, e, f, g, h, i, j, k, l, m)) \
    X(cl_int, EnqueueReadImage, (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t *e, \
          size_t f, size_t g, void *h, cl_uint i, const cl_event *j, cl_event *k), (a, b, c, d, e, f, g, h, \
          i, j, k)) \
    X(cl_int, EnqueueWriteImage, (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t *e, \
          size_t f, size_t g, const void *h, cl_uint i, const cl_event *j, cl_event *k), (a, b, c, d, e, f, \
          g, h, i, j, k)) \
    X(cl_int, EnqueueFillImage, (cl_command_queue a, cl_mem b, const void *c, const size_t *d, const size_t \
          *e, cl_uint f, const cl_event *g, cl_event *h), (a, b, c, d, e, f, g, h)) \
    X(cl_int, EnqueueCopyImage, (cl_command_queue a, cl_mem b, cl_mem c, const size_t *d, const size_t *e, \
          const size_t *f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueCopyImageToBuffer, (cl_command_queue a, cl_mem b, cl_mem c, const size_t *d, const \
          size_t *e, size_t f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueCopyBufferToImage, (cl_command_queue a, cl_mem b, cl_mem c, size_t d, const size_t *e, \
          const size_t *f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueNDRangeKernel, (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const \
          size_t *e, const size_t *f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, \
          i)) \
    X(cl_int, EnqueueMigrateMemObjects, (cl_command_queue a, cl_uint b, const cl_mem *c, \
          cl_mem_migration_flags d, cl_uint e, const cl_event *f, cl_event *g), (a, b, c, d, e, f, g)) \
    X(cl_int, EnqueueMarkerWithWaitList, (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), \
          (a, b, c, d)) \
    X(cl_int, EnqueueBarrierWithWaitList, (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), \
          (a, b, c, d))
/* clang-format on */

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
CALLS(CALL)
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
    CALLS(CALL)
#undef CALL
    cl->SetEventCallback = one_SetEventCallback;
    cl->SetUserEventStatus = one_SetUserEventStatus;
}
