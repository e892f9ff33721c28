/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small commands that tell what programs of a device must leave out, whoever made its driver:
 * calls that it refuses though OpenCL allows them, and answers that are not OpenCL's.
 */
#include <time.h>

#include "run.h"

/** Objects shared by all probes. */
struct probe {
    const struct world *world;
    cl_command_queue queue;
    cl_mem mem[2]; /**< of PROBE_SIZE bytes */
};

enum { PROBE_SIZE = 64, PASS_MS = 300 };

/** Rectangles whose last slice, with its pitch, ends behind the buffer. */
static bool
takes_loose_pitches(const struct probe *p)
{
    const size_t origin[3] = {0}, region[3] = {4, 2, 1};

    return clEnqueueCopyBufferRect(p->queue, p->mem[0], p->mem[1], origin, origin,
                                   region, 4, PROBE_SIZE + 16, 4, PROBE_SIZE + 16, 0,
                                   NULL, NULL) == CL_SUCCESS;
}

static bool
has_type(cl_event event, cl_command_type wanted)
{
    cl_command_type type = 0;

    clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL);
    clReleaseEvent(event);
    return type == wanted;
}

static bool
fills_images_by_name(const struct probe *p)
{
    const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    const cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4, .image_height = 4};
    const size_t origin[3] = {0}, region[3] = {4, 4, 1};
    const cl_uint color[4] = {0};
    cl_event event = NULL;
    bool named;
    cl_int err;
    cl_mem image = clCreateImage(p->world->contexts[0], 0, &format, &desc, NULL, &err);

    if (err != CL_SUCCESS) {
        return true;
    }
    err = clEnqueueFillImage(p->queue, image, color, origin, region, 0, NULL, &event);
    named = err != CL_SUCCESS || has_type(event, CL_COMMAND_FILL_IMAGE);
    clFinish(p->queue);
    clReleaseMemObject(image);
    return named;
}

/** The types of commands are those of OpenCL. */
static bool
names_types(const struct probe *p)
{
    const cl_uint zero = 0;
    cl_event filled = NULL, marker = NULL;
    bool named = true;

    if (clEnqueueFillBuffer(p->queue, p->mem[0], &zero, sizeof(zero), 0, PROBE_SIZE, 0,
                            NULL, &filled) == CL_SUCCESS) {
        if (clEnqueueMarkerWithWaitList(p->queue, 1, &filled, &marker) == CL_SUCCESS) {
            named = has_type(marker, CL_COMMAND_MARKER);
        }
        clReleaseEvent(filled);
    }
    if ((p->world->features & PLAN_IMAGES) != 0) {
        named = fills_images_by_name(p) && named;
    }
    return named;
}

/** Commands that wait for an event that has failed can be enqueued, and fail. NVIDIA's driver
 *  refuses some of them. */
static bool
takes_failed_waits(const struct probe *p)
{
    const cl_uint zero = 0;
    bool takes = true;

    for (unsigned i = 0; i < 20 && takes; i++) {
        cl_event user = clCreateUserEvent(p->world->contexts[0], NULL), filled = NULL;

        clSetUserEventStatus(user, -5);
        takes = clEnqueueFillBuffer(p->queue, p->mem[0], &zero, sizeof(zero), 0,
                                    PROBE_SIZE, 1, &user, &filled) == CL_SUCCESS;
        if (takes) {
            clReleaseEvent(filled);
        }
        clReleaseEvent(user);
    }
    return takes;
}

/** clFinish succeeds after a command has failed with a user event. */
static bool
finishes_after_failure(const struct probe *p)
{
    cl_event user = clCreateUserEvent(p->world->contexts[0], NULL), marker = NULL;
    bool finishes = true;

    if (clEnqueueMarkerWithWaitList(p->queue, 1, &user, &marker) == CL_SUCCESS) {
        clSetUserEventStatus(user, -77);
        finishes = clFinish(p->queue) == CL_SUCCESS;
        clReleaseEvent(marker);
    }
    clReleaseEvent(user);
    return finishes;
}

/** Waits for a command, for a limited time. */
static bool
ends_soon(cl_event event)
{
    cl_int status = CL_QUEUED;

    for (unsigned i = 0; i < PASS_MS && status > CL_COMPLETE; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                       &status, NULL);
    }
    return status <= CL_COMPLETE;
}

/** A command of an out-of-order queue passes one that waits for a user event. */
static bool
passes_waiting(const struct probe *p)
{
    /* not ...WithProperties, which drivers of 1.2 lack: the loader then spins */
    cl_command_queue queue =
        clCreateCommandQueue(p->world->contexts[0], p->world->devices[0],
                             CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, NULL);
    cl_event user = clCreateUserEvent(p->world->contexts[0], NULL), event = NULL;
    const cl_uint zero = 0;
    bool passes = true;

    if (clEnqueueFillBuffer(queue, p->mem[0], &zero, sizeof(zero), 0, PROBE_SIZE, 1,
                            &user, NULL) == CL_SUCCESS &&
        clEnqueueFillBuffer(queue, p->mem[1], &zero, sizeof(zero), 0, PROBE_SIZE, 0,
                            NULL, &event) == CL_SUCCESS) {
        clFlush(queue);
        passes = ends_soon(event);
        clReleaseEvent(event);
    }
    clSetUserEventStatus(user, CL_COMPLETE);
    clFinish(queue);
    clReleaseEvent(user);
    clReleaseCommandQueue(queue);
    return passes;
}

static cl_int
launch(const struct probe *p, cl_kernel kernel)
{
    const size_t one = 1;
    cl_int err =
        clEnqueueNDRangeKernel(p->queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);

    clFinish(p->queue);
    return err;
}

/** An argument of a kernel may be a pointer once and a buffer then. */
static bool
takes_pointers_and_buffers(const struct probe *p)
{
    cl_context context = p->world->contexts[0];
    cl_kernel kernel = clCreateKernel(p->world->programs[0], "add", NULL);
    void *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, PROBE_SIZE, 0);
    const cl_uint one = 1;
    bool takes;

    clSetKernelArg(kernel, 1, sizeof(one), &one);
    clSetKernelArg(kernel, 2, sizeof(one), &one);
    takes = memory == NULL ||
            clSetKernelArgSVMPointer(kernel, 0, memory) != CL_SUCCESS ||
            launch(p, kernel) != CL_SUCCESS;
    clSVMFree(context, memory);
    if (!takes) {
        takes = clSetKernelArg(kernel, 0, sizeof(cl_mem), &p->mem[0]) == CL_SUCCESS &&
                launch(p, kernel) == CL_SUCCESS;
    }
    clReleaseKernel(kernel);
    return takes;
}

/**
 * A context has shared virtual memory where one of its devices does. Servers whose drivers
 * choose the addresses, as NVIDIA's does, have no address in common: decision 0025.
 */
static bool
has_pointers(const struct probe *p)
{
    cl_context context = p->world->contexts[0];
    void *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, PROBE_SIZE, 0);

    clSVMFree(context, memory);
    return memory != NULL;
}

unsigned
world_probe(const struct world *w)
{
    struct probe p = {.world = w};
    unsigned lacks = 0;

    p.queue = clCreateCommandQueue(w->contexts[0], w->devices[0], 0, NULL);
    for (unsigned i = 0; i < 2; i++) {
        p.mem[i] = clCreateBuffer(w->contexts[0], 0, PROBE_SIZE, NULL, NULL);
    }
    lacks |= takes_loose_pitches(&p) ? 0U : PLAN_LOOSE_PITCHES;
    lacks |= names_types(&p) ? 0U : PLAN_TYPES;
    if ((w->features & PLAN_SVM) != 0) {
        lacks |= has_pointers(&p) ? 0U : (unsigned)PLAN_SVM | PLAN_USM;
        lacks |= takes_pointers_and_buffers(&p) ? 0U : PLAN_KEPT_KERNELS;
    }
    if ((~w->features & (PLAN_OUT_OF_ORDER | PLAN_USER_EVENTS | PLAN_PASSING)) == 0) {
        lacks |= passes_waiting(&p) ? 0U : PLAN_PASSING;
    }
    clFinish(p.queue);
    /* Failures come last: the queue may be of no use then. */
    if ((w->features & PLAN_FAILURES) != 0) {
        lacks |= finishes_after_failure(&p) ? 0U : PLAN_WAIT_ERRORS;
    }
    if ((w->features & PLAN_FAILED_WAITS) != 0) {
        lacks |= takes_failed_waits(&p) ? 0U : PLAN_FAILED_WAITS;
    }
    for (unsigned i = 0; i < 2; i++) {
        clReleaseMemObject(p.mem[i]);
    }
    clReleaseCommandQueue(p.queue);
    return lacks;
}
