/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libOpenCL in front of the system's whose devices say that they are NVIDIA's and have some of
 * the ways of that driver, for executors (TELPHER_LIBOPENCL):
 *
 * - event callbacks never come, so events must be polled
 * - clEnqueueFillImage returns when the image is filled, after its wait list and its queue
 * - clEnqueueMigrateMemObjects of a sub-buffer ends the process
 * - with POLLED_IN_ORDER=1, out-of-order queues are in order
 */
#pragma GCC visibility push(default) /* these take the place of the system's */
#include <CL/cl.h>
#pragma GCC visibility pop

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVIDIA = 0x10de };

/** The system's function of a name. */
static void *
next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (function == NULL) {
        fprintf(stderr, "polled: no %s\n", name);
        abort();
    }
    return function;
}

#define NEXT(function)                                                                 \
    __typeof__(&(function)) real = NULL;                                               \
    void *found = next(#function);                                                     \
    memcpy(&real, &found, sizeof(found))

CL_API_ENTRY cl_int CL_API_CALL
clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t size, void *value,
                size_t *ret_size)
{
    NEXT(clGetDeviceInfo);
    cl_int err = real(device, name, size, value, ret_size);

    if (err != CL_SUCCESS || value == NULL) {
        return err;
    }
    if (name == CL_DEVICE_VENDOR_ID) {
        *(cl_uint *)value = NVIDIA;
    } else if (name == CL_DEVICE_TYPE) {
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    } else if (name == CL_DEVICE_HOST_UNIFIED_MEMORY) {
        *(cl_bool *)value = CL_FALSE;
    }
    return err;
}

CL_API_ENTRY cl_int CL_API_CALL
clSetEventCallback(cl_event event, cl_int when,
                   void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *arg)
{
    (void)event, (void)when, (void)fn, (void)arg;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL
clEnqueueFillImage(cl_command_queue queue, cl_mem image, const void *color,
                   const size_t *origin, const size_t *region, cl_uint count,
                   const cl_event *waits, cl_event *event)
{
    cl_event own = NULL;
    NEXT(clEnqueueFillImage);
    cl_int err = real(queue, image, color, origin, region, count, waits, &own);

    if (err != CL_SUCCESS) {
        return err;
    }
    (void)clWaitForEvents(1, &own);
    if (event != NULL) {
        *event = own;
    } else {
        clReleaseEvent(own);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL
clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count, const cl_mem *mems,
                           cl_mem_migration_flags flags, cl_uint wait_count,
                           const cl_event *waits, cl_event *event)
{
    NEXT(clEnqueueMigrateMemObjects);

    for (cl_uint i = 0; i < count; i++) {
        cl_mem parent = NULL;

        clGetMemObjectInfo(mems[i], CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(parent),
                           &parent, NULL);
        if (parent != NULL) {
            fprintf(stderr, "polled: a sub-buffer migrates\n");
            abort();
        }
    }
    return real(queue, count, mems, flags, wait_count, waits, event);
}

CL_API_ENTRY cl_command_queue CL_API_CALL
clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                   const cl_queue_properties *properties, cl_int *err)
{
    cl_queue_properties own[16] = {0};
    const char *in_order = getenv("POLLED_IN_ORDER");
    NEXT(clCreateCommandQueueWithProperties);

    for (unsigned i = 0; properties != NULL && properties[i] != 0 && i < 14; i += 2) {
        own[i] = properties[i];
        own[i + 1] = properties[i + 1];
        if (own[i] == CL_QUEUE_PROPERTIES && in_order != NULL) {
            own[i + 1] &= ~(cl_queue_properties)CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        }
    }
    return real(context, device, own, err);
}
