/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of OpenCL in front of libOpenCL's own, which report pointers to a device's memory: shared
 * virtual memory, and unified shared memory (cl_intel_unified_shared_memory), which SYCL
 * programs use. Buffers (cl_mem) have no address: see telpher/interop/mpi_device.h.
 */
#pragma GCC visibility push(default)
#include <CL/cl.h>
#include <CL/cl_ext.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <string.h>

#include <telpher/interop/opencl.h>
#include <telpher/mem.h>

#include "base/compiler.h"
#include "base/trace/log.h"
#include "mpidev/mpidev_int.h"

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
typedef cl_command_queue (*create_queue_fn)(cl_context, cl_device_id,
                                            const cl_queue_properties *, cl_int *);
typedef cl_int (*release_queue_fn)(cl_command_queue);
typedef void *(*svm_alloc_fn)(cl_context, cl_svm_mem_flags, size_t, cl_uint);
typedef void (*svm_free_fn)(cl_context, void *);
typedef void *(*extension_fn)(cl_platform_id, const char *);
typedef void *(*host_alloc_fn)(cl_context, const cl_mem_properties_intel *, size_t,
                               cl_uint, cl_int *);
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

/* From now on MPI calls treat the address as device memory. */
static void
know(cl_context context, cl_device_id device, void *pointer, size_t bytes)
{
    REAL(create_queue_fn, create_queue, "clCreateCommandQueueWithProperties");
    REAL(release_queue_fn, release_queue, "clReleaseCommandQueue");
    telpher_status status = TELPHER_ERR_UNSUPPORTED;
    cl_command_queue queue;

    if (pointer == NULL || tp_mpidev_context == NULL) {
        return;
    }
    device = device != NULL ? device : first_device(context);
    queue = device != NULL ? create_queue(context, device, NULL, NULL) : NULL;
    tp_mpidev_lock();
    if (queue != NULL) {
        status = telpher_opencl_use(tp_mpidev_context, queue);
    }
    if (status == TELPHER_OK) {
        status =
            telpher_mem_register(tp_mpidev_context, TELPHER_MEM_OPENCL, pointer, bytes);
    }
    if (status != TELPHER_OK && status != TELPHER_ERR_EXISTS) {
        tp_warn("mpidev", "device memory at %p is not known to MPI calls: %s", pointer,
                telpher_last_error(tp_mpidev_context));
    }
    tp_mpidev_unlock();
    if (queue != NULL) {
        (void)release_queue(queue);
    }
}

static void
forget(void *pointer)
{
    if (pointer != NULL && tp_mpidev_context != NULL) {
        tp_mpidev_lock();
        (void)telpher_mem_unregister(tp_mpidev_context, pointer);
        tp_mpidev_unlock();
    }
}

/* ---- shared virtual memory ---- */

void *
clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
    REAL(svm_alloc_fn, allocate, "clSVMAlloc");
    void *pointer = allocate(context, flags, size, alignment);

    know(context, NULL, pointer, size);
    return pointer;
}

void
clSVMFree(cl_context context, void *pointer)
{
    REAL(svm_free_fn, release, "clSVMFree");

    forget(pointer);
    release(context, pointer);
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

    forget(pointer);
    return release(context, pointer);
}

static cl_int
usm_blocking_free(cl_context context, void *pointer)
{
    EXTENSION(usm_free_fn, release, context, "clMemBlockingFreeINTEL");

    forget(pointer);
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
