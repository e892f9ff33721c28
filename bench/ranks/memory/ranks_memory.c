/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memories that patterns send from and receive into, by the names of -d, and which device of a
 * machine a rank takes. The libraries of devices are loaded when they are used.
 */
#include "bench/ranks/memory/ranks_memory.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/interop/opencl.h>

void
ranks_memory_fail(const struct ranks_pair *p, const char *what, const char *why)
{
    fprintf(stderr, "telpher-bench: rank %u: %s: %s\n", p->rank, what, why);
    fflush(NULL);
    if (p->job->abort != NULL) {
        p->job->abort();
    }
    exit(EXIT_FAILURE);
}

/* ---- mapping ---- */

static uint32_t
local_rank(uint32_t rank)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "SLURM_LOCALID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (getenv(names[i]) != NULL) {
            return (uint32_t)strtoul(getenv(names[i]), NULL, 10);
        }
    }
    return rank;
}

void
ranks_take_mapping(void)
{
    if (getenv("FPGA_MAPPING") != NULL) {
        (void)setenv("TELPHER_MAPPING", getenv("FPGA_MAPPING"), 0);
    }
}

/* OpenCL devices that Telpher shares out: CPUs only where there is nothing else. */
static unsigned
count_opencl(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0, found, cpus = 0, others = 0;

    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint i = 0; i < count && i < 16; i++) {
        found = 0;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 0, NULL, &found) ==
            CL_SUCCESS) {
            cpus += found;
        }
        found = 0;
        if (clGetDeviceIDs(platforms[i],
                           CL_DEVICE_TYPE_ALL & ~(cl_device_type)CL_DEVICE_TYPE_CPU, 0,
                           NULL, &found) == CL_SUCCESS) {
            others += found;
        }
    }
    return others != 0 ? others : cpus;
}

static unsigned
count_cuda(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned);
    int (*get_count)(int *);
    int count = 0;

    if (cuda == NULL) {
        return 0;
    }
    *(void **)&init = dlsym(cuda, "cuInit");
    *(void **)&get_count = dlsym(cuda, "cuDeviceGetCount");
    return init != NULL && get_count != NULL && init(0) == 0 && get_count(&count) == 0
               ? (unsigned)count
               : 0;
}

/* Gives the entry of TELPHER_MAPPING for a rank of this machine; "" without one. */
static void
find_entry(uint32_t rank, char *text, size_t size)
{
    const char *list = getenv("TELPHER_MAPPING"), *at = list;
    uint32_t count = 1;

    text[0] = '\0';
    for (; list != NULL && *at != '\0'; at++) {
        count += *at == ':';
    }
    for (at = list, rank %= count; at != NULL && rank > 0; rank--) {
        at = strchr(at, ':') + 1;
    }
    if (at != NULL) {
        snprintf(text, size, "%.*s", (int)strcspn(at, ":"), at);
    }
}

void
ranks_check_mapping(const struct ranks_pair *p)
{
    uint32_t kind = p->o->memory_of_device->kind;
    bool cuda = kind == TELPHER_MEM_CUDA;
    bool used = p->o->kinds[0] == kind || p->o->kinds[1] == kind;
    char entry[16], why[96];
    unsigned count;

    find_entry(local_rank(p->rank), entry, sizeof(entry));
    if (!used || (kind != TELPHER_MEM_OPENCL && !cuda) || entry[0] == '\0') {
        return;
    }
    count = cuda ? count_cuda() : count_opencl();
    if (count != 0 && strtoul(entry, NULL, 10) >= count) {
        snprintf(why, sizeof(why), "%s device %s does not exist, there are %u",
                 cuda ? "cuda" : "opencl", entry, count);
        ranks_memory_fail(p, "the mapping", why);
    }
}

/* The context believes that it is the only rank of this machine, so it gets the mapping of one device. */
void
ranks_map_alone(const struct ranks_pair *p)
{
    char text[16];
    uint32_t mine = local_rank(p->rank), count;

    find_entry(mine, text, sizeof(text));
    if (text[0] != '\0') {
        /* as it is */
    } else if (p->o->memory_of_device->kind == TELPHER_MEM_OPENCL) {
        count = count_opencl();
        snprintf(text, sizeof(text), "%u", count != 0 ? mine % count : 0);
    } else if (p->o->memory_of_device->kind == TELPHER_MEM_CUDA) {
        count = count_cuda();
        snprintf(text, sizeof(text), "%u", count != 0 ? mine % count : 0);
    }
    if (text[0] != '\0') {
        (void)setenv("TELPHER_MAPPING", text, 1);
    }
}

/* ---- OpenCL's pointers ---- */

void
ranks_opencl_site(struct ranks_pair *p, void **ret_context, void **ret_device)
{
    static cl_context context;
    static cl_device_id device;
    void *memory;
    cl_mem buffer;

    if (context == NULL) {
        ranks_check(p, telpher_mem_alloc(p->ctx, TELPHER_MEM_OPENCL, 4096, &memory),
                    "a device of OpenCL");
        ranks_check(p, telpher_opencl_buffer(p->ctx, memory, &buffer, NULL),
                    "a device of OpenCL");
        if (clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof(context), &context,
                               NULL) != CL_SUCCESS ||
            clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof(device), &device,
                             NULL) != CL_SUCCESS) {
            ranks_memory_fail(p, "a device of OpenCL", "its buffer has no context");
        }
    }
    *ret_context = context;
    *ret_device = device;
}

/* libtelpher-mpi-device may have registered it already. */
static void *
know(struct ranks_pair *p, uint32_t kind, void *memory, size_t bytes, const char *what)
{
    telpher_status status;

    if (memory == NULL) {
        ranks_memory_fail(p, what, "the driver gives no such memory");
    }
    status = telpher_mem_register(p->ctx, kind, memory, bytes);
    ranks_check(p, status == TELPHER_ERR_EXISTS ? TELPHER_OK : status, what);
    return memory;
}

static void *
extension(struct ranks_pair *p, const char *name)
{
    void *context, *device, *function;
    cl_platform_id platform = NULL;

    ranks_opencl_site(p, &context, &device);
    (void)clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform,
                          NULL);
    function = clGetExtensionFunctionAddressForPlatform(platform, name);
    if (function == NULL) {
        ranks_memory_fail(p, "-d usm",
                          "this driver lacks cl_intel_unified_shared_memory");
    }
    return function;
}

static void *
usm_alloc(struct ranks_pair *p, char letter, size_t bytes)
{
    void *(*alloc)(cl_context, cl_device_id, const cl_ulong *, size_t, cl_uint,
                   cl_int *);
    void *context, *device;
    cl_int error = CL_SUCCESS;

    *(void **)&alloc = extension(p, "clDeviceMemAllocINTEL");
    ranks_opencl_site(p, &context, &device);
    return know(p, TELPHER_MEM_OPENCL, alloc(context, device, NULL, bytes, 64, &error),
                bytes, "unified shared memory");
}

static void
usm_free(struct ranks_pair *p, void *memory)
{
    cl_int (*release)(cl_context, void *);
    void *context, *device;

    *(void **)&release = extension(p, "clMemBlockingFreeINTEL");
    ranks_opencl_site(p, &context, &device);
    (void)telpher_mem_unregister(p->ctx, memory);
    (void)release(context, memory);
}

static void *
svm_alloc(struct ranks_pair *p, char letter, size_t bytes)
{
    void *context, *device;

    ranks_opencl_site(p, &context, &device);
    return know(p, TELPHER_MEM_OPENCL,
                clSVMAlloc(context, CL_MEM_READ_WRITE, bytes, 64), bytes,
                "shared virtual memory");
}

static void
svm_free(struct ranks_pair *p, void *memory)
{
    void *context, *device;

    ranks_opencl_site(p, &context, &device);
    (void)telpher_mem_unregister(p->ctx, memory);
    clSVMFree(context, memory);
}

/* ---- CUDA's managed memory ---- */

static void *
cuda_function(struct ranks_pair *p, const char *name)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *function = cuda != NULL ? dlsym(cuda, name) : NULL;

    if (function == NULL) {
        ranks_memory_fail(p, "-d managed", "this machine has no CUDA driver");
    }
    return function;
}

static void *
managed_alloc(struct ranks_pair *p, char letter, size_t bytes)
{
    enum { CONTEXT = 1, ATTACH_GLOBAL = 1 };
    int (*get)(void **, int, unsigned long long), (*push)(void *), (*pop)(void **);
    int (*alloc)(unsigned long long *, size_t, unsigned);
    unsigned long long memory = 0;
    void *of_device, *context = NULL;

    *(void **)&get = cuda_function(p, "cuPointerGetAttribute");
    *(void **)&push = cuda_function(p, "cuCtxPushCurrent_v2");
    *(void **)&pop = cuda_function(p, "cuCtxPopCurrent_v2");
    *(void **)&alloc = cuda_function(p, "cuMemAllocManaged");
    ranks_check(p, telpher_mem_alloc(p->ctx, TELPHER_MEM_CUDA, 4096, &of_device),
                "a CUDA device");
    if (get(&context, CONTEXT, (uintptr_t)of_device) != 0 || push(context) != 0 ||
        alloc(&memory, bytes, ATTACH_GLOBAL) != 0 || pop(&context) != 0) {
        ranks_memory_fail(p, "managed memory", "the CUDA driver gives none");
    }
    ranks_check(p, telpher_mem_free(p->ctx, of_device), "a CUDA device");
    return know(p, TELPHER_MEM_CUDA, (void *)(uintptr_t)memory, bytes,
                "managed memory");
}

static void
managed_free(struct ranks_pair *p, void *memory)
{
    int (*release)(unsigned long long);

    *(void **)&release = cuda_function(p, "cuMemFree_v2");
    (void)telpher_mem_unregister(p->ctx, memory);
    (void)release((uintptr_t)memory);
}

/* ---- all of them ---- */

static const struct ranks_memory memories[] = {
    {.name = "sim", .title = "SIM", .kind = TELPHER_MEM_SIM},
    {.name = "opencl", .title = "OPENCL", .kind = TELPHER_MEM_OPENCL, .banks = true},
    {.name = "sycl",
     .title = "SYCL",
     .kind = TELPHER_MEM_OPENCL,
     .find_kind = ranks_sycl_kind,
     .alloc = ranks_sycl_alloc,
     .free = ranks_sycl_free,
     .copy = ranks_sycl_copy},
    {.name = "usm",
     .title = "OPENCL USM",
     .kind = TELPHER_MEM_OPENCL,
     .alloc = usm_alloc,
     .free = usm_free},
    {.name = "svm",
     .title = "OPENCL SVM",
     .kind = TELPHER_MEM_OPENCL,
     .alloc = svm_alloc,
     .free = svm_free},
    {.name = "cuda", .title = "CUDA", .kind = TELPHER_MEM_CUDA},
    {.name = "managed",
     .title = "CUDA MANAGED",
     .kind = TELPHER_MEM_CUDA,
     .alloc = managed_alloc,
     .free = managed_free}};

const struct ranks_memory *
ranks_find_memory(const char *name)
{
    for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++) {
        if (strcmp(memories[i].name, name) == 0) {
            return &memories[i];
        }
    }
    return NULL;
}

void
ranks_copy(struct ranks_pair *p, void *dst, const void *src, size_t len)
{
    const struct ranks_memory *m = p->o->memory_of_device;

    if (len != 0 && (m->copy == NULL || !m->copy(p, dst, src, len))) {
        ranks_check(p, telpher_mem_copy(p->ctx, dst, src, len), "copy");
    }
}

void *
ranks_alloc(struct ranks_pair *p, char letter, size_t bytes, const char *what)
{
    const struct ranks_memory *m = p->o->memory_of_device;
    uint32_t kind = letter == 'H' ? (uint32_t)TELPHER_MEM_HOST : m->kind;
    size_t size = bytes != 0 ? bytes : 1;
    void *memory = NULL;

    if (letter != 'H' && m->banks && ranks_has_placeholder(p, letter)) {
        return ranks_placeholder_alloc(p, letter, size);
    }
    if (letter != 'H' && m->alloc != NULL) {
        return m->alloc(p, letter, size);
    }
    ranks_check(p, telpher_mem_alloc(p->ctx, kind, size, &memory), what);
    if (letter == 'H') { /* pages are there before the first sample */
        memset(memory, 0, size);
    }
    return memory;
}

void
ranks_free(struct ranks_pair *p, char letter, void *memory)
{
    const struct ranks_memory *m = p->o->memory_of_device;

    if (letter != 'H' && m->banks && ranks_has_placeholder(p, letter)) {
        ranks_placeholder_free(p, memory);
    } else if (letter != 'H' && m->free != NULL) {
        m->free(p, memory);
    } else {
        ranks_check(p, telpher_mem_free(p->ctx, memory), "memory");
    }
}
