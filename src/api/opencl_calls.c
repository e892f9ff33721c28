/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of OpenCL in front of libOpenCL's own, which report pointers to a device's memory: shared
 * virtual memory, and unified shared memory (cl_intel_unified_shared_memory), which SYCL
 * programs use. Memory that the CPU may touch at any time is not reported. Part of the MPI
 * libraries, not of libtelpher: a program that links that one makes its own calls.
 */
#pragma GCC visibility push(default)
#include <CL/cl.h>
#include <CL/cl_ext.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <string.h>

#include <telpher/interop/opencl.h>

#include "api/opencl_calls.h"
#include "base/compiler.h"
#include "base/trace/log.h"

/* A function of the libOpenCL that the program uses. */
static void *
real(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    void *library =
        symbol == NULL ? dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;

    return library != NULL ? dlsym(library, name) : symbol;
}

#define REAL(type, variable, name)                                                     \
    type variable;                                                                     \
    void *variable##_symbol = real(name);                                              \
                                                                                       \
    memcpy(&variable, &variable##_symbol, sizeof(variable))

typedef cl_int (*context_info_fn)(cl_context, cl_context_info, size_t, void *,
                                  size_t *);
typedef cl_int (*device_info_fn)(cl_device_id, cl_device_info, size_t, void *,
                                 size_t *);
typedef cl_int (*queue_info_fn)(cl_command_queue, cl_command_queue_info, size_t, void *,
                                size_t *);
typedef cl_int (*context_fn)(cl_context);
typedef void *(*svm_alloc_fn)(cl_context, cl_svm_mem_flags, size_t, cl_uint);
typedef void (*svm_free_fn)(cl_context, void *);
typedef void(CL_CALLBACK *svm_freed_fn)(cl_command_queue, cl_uint, void **, void *);
typedef cl_int (*enqueue_svm_free_fn)(cl_command_queue, cl_uint, void **, svm_freed_fn,
                                      void *, cl_uint, const cl_event *, cl_event *);
typedef void *(*extension_fn)(cl_platform_id, const char *);
typedef void *(*device_alloc_fn)(cl_context, cl_device_id,
                                 const cl_mem_properties_intel *, size_t, cl_uint,
                                 cl_int *);
typedef cl_int (*usm_free_fn)(cl_context, void *);

static cl_device_id
first_device(cl_context context)
{
    REAL(context_info_fn, get_info, "clGetContextInfo");
    cl_device_id devices[64];
    size_t size = 0;

    return get_info(context, CL_CONTEXT_DEVICES, sizeof(devices), devices, &size) ==
                       CL_SUCCESS &&
                   size >= sizeof(devices[0])
               ? devices[0]
               : NULL;
}

static telpher_status
add(cl_context context, cl_device_id device, void *pointer, size_t bytes)
{
    void *before = tp_opencl_calls_begin();
    telpher_status status = telpher_opencl_pointer_add(context, device, pointer, bytes);

    if (status == TELPHER_ERR_EXISTS) { /* it was freed past these calls */
        (void)telpher_opencl_pointer_remove(pointer);
        status = telpher_opencl_pointer_add(context, device, pointer, bytes);
    }
    tp_opencl_calls_end(before);
    return status;
}

/* From now on MPI calls treat the address as device memory. */
static void
know(cl_context context, cl_device_id device, void *pointer, size_t bytes)
{
    REAL(context_fn, retain, "clRetainContext");
    REAL(context_fn, release, "clReleaseContext");
    telpher_status status = TELPHER_ERR_DEVICE;

    if (pointer == NULL) {
        return;
    }
    (void)retain(context);
    device = device != NULL ? device : first_device(context);
    if (device != NULL) {
        status = add(context, device, pointer, bytes);
    }
    if (status != TELPHER_OK) {
        (void)release(context);
        tp_warn(
            "mpi",
            "%zu bytes of a device at %p are taken for host memory in MPI calls: %s",
            bytes, pointer, telpher_status_text(status));
    }
}

static void
forget(cl_context context, void *pointer)
{
    REAL(context_fn, release, "clReleaseContext");
    void *before = tp_opencl_calls_begin();
    telpher_status status = telpher_opencl_pointer_remove(pointer);

    tp_opencl_calls_end(before);
    if (status == TELPHER_OK) {
        (void)release(context);
    }
}

/* ---- shared virtual memory ---- */

void *
clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
    REAL(svm_alloc_fn, allocate, "clSVMAlloc");
    void *pointer = allocate(context, flags, size, alignment);

    if ((flags & CL_MEM_SVM_FINE_GRAIN_BUFFER) == 0) {
        know(context, NULL, pointer, size);
    }
    return pointer;
}

void
clSVMFree(cl_context context, void *pointer)
{
    REAL(svm_free_fn, release, "clSVMFree");

    forget(context, pointer);
    release(context, pointer);
}

cl_int
clEnqueueSVMFree(cl_command_queue queue, cl_uint count, void *pointers[],
                 svm_freed_fn freed, void *user, cl_uint wait_count,
                 const cl_event *waits, cl_event *event)
{
    REAL(enqueue_svm_free_fn, enqueue, "clEnqueueSVMFree");
    REAL(queue_info_fn, get_info, "clGetCommandQueueInfo");
    cl_context context;

    if (pointers != NULL && get_info(queue, CL_QUEUE_CONTEXT, sizeof(context), &context,
                                     NULL) == CL_SUCCESS) {
        for (cl_uint i = 0; i < count; i++) {
            forget(context, pointers[i]);
        }
    }
    return enqueue(queue, count, pointers, freed, user, wait_count, waits, event);
}

/* ---- unified shared memory: functions that a platform gives by name ---- */

static void *
extension(cl_context context, const char *name)
{
    REAL(extension_fn, get, "clGetExtensionFunctionAddressForPlatform");
    REAL(device_info_fn, get_info, "clGetDeviceInfo");
    cl_device_id device = first_device(context);
    cl_platform_id platform = NULL;

    return device != NULL && get_info(device, CL_DEVICE_PLATFORM, sizeof(platform),
                                      &platform, NULL) == CL_SUCCESS
               ? get(platform, name)
               : NULL;
}

#define EXTENSION(type, variable, context, name)                                       \
    type variable;                                                                     \
    void *variable##_symbol = extension(context, name);                                \
                                                                                       \
    memcpy(&variable, &variable##_symbol, sizeof(variable))

static void *
device_alloc(cl_context context, cl_device_id device,
             const cl_mem_properties_intel *properties, size_t size, cl_uint alignment,
             cl_int *ret_error)
{
    EXTENSION(device_alloc_fn, allocate, context, "clDeviceMemAllocINTEL");
    void *pointer = allocate(context, device, properties, size, alignment, ret_error);

    know(context, device, pointer, size);
    return pointer;
}

static void *
shared_alloc(cl_context context, cl_device_id device,
             const cl_mem_properties_intel *properties, size_t size, cl_uint alignment,
             cl_int *ret_error)
{
    EXTENSION(device_alloc_fn, allocate, context, "clSharedMemAllocINTEL");
    void *pointer = allocate(context, device, properties, size, alignment, ret_error);

    know(context, device, pointer, size);
    return pointer;
}

static cl_int
usm_free(cl_context context, void *pointer)
{
    EXTENSION(usm_free_fn, release, context, "clMemFreeINTEL");

    forget(context, pointer);
    return release(context, pointer);
}

static cl_int
usm_blocking_free(cl_context context, void *pointer)
{
    EXTENSION(usm_free_fn, release, context, "clMemBlockingFreeINTEL");

    forget(context, pointer);
    return release(context, pointer);
}

/* Host allocations stay as they are: the CPU may touch them. */
static void *
in_front(const char *name)
{
    static const struct {
        const char *name;
        union {
            device_alloc_fn alloc;
            usm_free_fn free;
            void *symbol;
        } own;
    } functions[] = {
        {"clDeviceMemAllocINTEL", {.alloc = device_alloc}},
        {"clSharedMemAllocINTEL", {.alloc = shared_alloc}},
        {"clMemFreeINTEL", {.free = usm_free}},
        {"clMemBlockingFreeINTEL", {.free = usm_blocking_free}},
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(functions); i++) {
        if (strcmp(functions[i].name, name) == 0) {
            return functions[i].own.symbol;
        }
    }
    return NULL;
}

void *
clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    REAL(extension_fn, get, "clGetExtensionFunctionAddressForPlatform");
    void *symbol = get(platform, name);
    void *own = symbol != NULL && name != NULL ? in_front(name) : NULL;

    return own != NULL ? own : symbol;
}
