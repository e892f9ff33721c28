/* SPDX-License-Identifier: Apache-2.0 */
/* The test driver; what it promises is in testcuda.h. TESTCUDA_DEVICES says how many GPUs. */
#include "tests/support/testcuda/testcuda.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/container/list.h"
#include "base/os/memfd.h"

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES_MAX = 8, STACK_MAX = 16, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };

struct CUctx_st {
    int ordinal;
    unsigned refs;
    bool peers[DEVICES_MAX];
};

struct allocation {
    struct tp_list link;
    char *base; /* what callers see; pinned memory: the memory itself */
    char *content; /* NULL: pinned */
    size_t size;
    int fd, ordinal;
    bool opened; /* another process's */
    bool registered; /* pinned memory of the caller's */
    unsigned long long id;
};

struct CUevent_st {
    unsigned long long recorded, done; /* counts of cuEventRecord() */
};

struct CUmod_st {
    char instruction[16]; /* of the only kernel, which combines elements */
};

enum op_kind { COPY, RECORD, WAIT, COMBINE };

struct op {
    struct tp_list link;
    enum op_kind kind;
    char *dst;
    const char *src;
    size_t bytes;
    CUevent event;
    unsigned long long count; /* of the event; elements */
    const char *instruction, *higher; /* COMBINE */
};

struct CUstream_st {
    struct tp_list link;
    struct tp_list ops;
    bool held;
    int ordinal;
};

static struct {
    bool initialised;
    struct CUctx_st contexts[DEVICES_MAX];
    CUcontext stack[STACK_MAX];
    unsigned depth;
    struct tp_list allocations;
    struct tp_list streams;
    unsigned live;
    unsigned long long last_id;
    struct CUmod_st modules[64];
    unsigned module_count;
    struct {
        const char *name;
        unsigned calls, fail_at;
        CUresult error;
    } functions[64];
} drv;

/* ---- what tests ask ------------------------------------------------------------------ */

static unsigned
index_of(const char *name)
{
    unsigned i = 0;

    while (drv.functions[i].name != NULL && strcmp(drv.functions[i].name, name) != 0) {
        i++;
    }
    tp_assert(i < TP_ARRAY_LEN(drv.functions) - 1);
    drv.functions[i].name = name;
    return i;
}

/* Counts a call. @return the error that was ordered for it */
static CUresult
enter(const char *name)
{
    unsigned i = index_of(name);

    drv.functions[i].calls++;
    return drv.functions[i].calls == drv.functions[i].fail_at ? drv.functions[i].error
                                                              : CUDA_SUCCESS;
}

static void
hook_hold(CUstream stream, bool held)
{
    stream->held = held;
}

static void
hook_fail(const char *function, unsigned nth, CUresult error)
{
    unsigned i = index_of(function);

    drv.functions[i].fail_at = drv.functions[i].calls + nth;
    drv.functions[i].error = error;
}

static unsigned
hook_live(void)
{
    return drv.live;
}

static unsigned
hook_calls(const char *function)
{
    return drv.functions[index_of(function)].calls;
}

EXPORT const struct testcuda_hooks testcuda_hooks = {hook_hold, hook_fail, hook_live,
                                                     hook_calls};

/* ---- devices and contexts ------------------------------------------------------------ */

static int
device_count(void)
{
    const char *text = getenv("TESTCUDA_DEVICES");
    int count = text != NULL ? atoi(text) : 2;

    return TP_MIN(count, DEVICES_MAX);
}

#define ENTER(name)                                                                    \
    do {                                                                               \
        CUresult ordered = enter(name);                                                \
                                                                                       \
        if (ordered != CUDA_SUCCESS) {                                                 \
            return ordered;                                                            \
        }                                                                              \
        if (!drv.initialised) {                                                        \
            return CUDA_ERROR_NOT_INITIALIZED;                                         \
        }                                                                              \
    } while (0)

#define ENTER_CONTEXT(name)                                                            \
    do {                                                                               \
        ENTER(name);                                                                   \
        if (drv.depth == 0) {                                                          \
            return INVALID_CONTEXT;                                                    \
        }                                                                              \
    } while (0)

static CUcontext
current(void)
{
    return drv.stack[drv.depth - 1];
}

EXPORT CUresult cuInit(unsigned int flags);
EXPORT CUresult
cuInit(unsigned int flags)
{
    CUresult ordered = enter("cuInit");

    if (ordered != CUDA_SUCCESS || flags != 0) {
        return ordered != CUDA_SUCCESS ? ordered : CUDA_ERROR_INVALID_VALUE;
    }
    if (device_count() == 0) {
        return CUDA_ERROR_NO_DEVICE;
    }
    if (!drv.initialised) {
        drv.initialised = true;
        tp_list_init(&drv.allocations);
        tp_list_init(&drv.streams);
        for (int i = 0; i < DEVICES_MAX; i++) {
            drv.contexts[i].ordinal = i;
        }
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name);
EXPORT CUresult
cuGetErrorName(CUresult error, const char **name)
{
    (void)error;
    *name = "CUDA_ERROR_OF_A_TEST";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count);
EXPORT CUresult
cuDeviceGetCount(int *count)
{
    ENTER("cuDeviceGetCount");
    *count = device_count();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal);
EXPORT CUresult
cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER("cuDeviceGet");
    if (ordinal < 0 || ordinal >= device_count()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
EXPORT CUresult
cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    ENTER("cuDeviceGetUuid");
    memset(uuid, 0, sizeof(*uuid));
    snprintf(uuid->bytes, sizeof(uuid->bytes), "testcuda %d", device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
EXPORT CUresult
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER("cuDevicePrimaryCtxRetain");
    drv.contexts[device].refs++;
    drv.live++;
    *context = &drv.contexts[device];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
EXPORT CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER("cuDevicePrimaryCtxRelease_v2");
    if (drv.contexts[device].refs == 0) {
        return INVALID_CONTEXT;
    }
    drv.contexts[device].refs--;
    drv.live--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context);
EXPORT CUresult
cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER("cuCtxPushCurrent_v2");
    if (context == NULL || context->refs == 0 || drv.depth == STACK_MAX) {
        return INVALID_CONTEXT;
    }
    drv.stack[drv.depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context);
EXPORT CUresult
cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER_CONTEXT("cuCtxPopCurrent_v2");
    *context = drv.stack[--drv.depth];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
EXPORT CUresult
cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    ENTER_CONTEXT("cuCtxEnablePeerAccess");
    if (flags != 0 || peer == current() || peer->refs == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    current()->peers[peer->ordinal] = true;
    return CUDA_SUCCESS;
}

/* ---- memory -------------------------------------------------------------------------- */

static struct allocation *
allocation_at(uintptr_t address)
{
    tp_list_for_each(pos, &drv.allocations) {
        struct allocation *a = tp_list_entry(pos, struct allocation, link);

        if (address - (uintptr_t)a->base < a->size) {
            return a;
        }
    }
    return NULL;
}

static struct allocation *
allocation_add(char *base, char *content, size_t size, int fd)
{
    struct allocation *a = calloc(1, sizeof(*a));

    tp_assert(a != NULL);
    a->base = base;
    a->content = content;
    a->size = size;
    a->fd = fd;
    a->ordinal = current()->ordinal;
    a->id = ++drv.last_id;
    tp_list_push_back(&drv.allocations, &a->link);
    drv.live++;
    return a;
}

static void
allocation_remove(struct allocation *a)
{
    tp_list_remove(&a->link);
    if (a->content == NULL && !a->registered) {
        free(a->base);
    } else if (a->content == NULL) {
        /* the caller's */
    } else {
        munmap(a->base, a->size);
        munmap(a->content, a->size);
    }
    if (a->fd >= 0) {
        close(a->fd);
    }
    free(a);
    drv.live--;
}

/* Memory out of reach, with the content of a file. */
static struct allocation *
map_file(int fd, size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *content;

    tp_assert(base != MAP_FAILED);
    tp_assert(tp_memfd_map(fd, bytes, &content) == TELPHER_OK);
    return allocation_add(base, content, bytes, fd);
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
EXPORT CUresult
cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
    int fd;

    ENTER_CONTEXT("cuMemAlloc_v2");
    if (bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (tp_memfd_create("testcuda", bytes, &fd) != TELPHER_OK) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ptr = (uintptr_t)map_file(fd, bytes)->base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr);
EXPORT CUresult
cuMemFree_v2(CUdeviceptr ptr)
{
    struct allocation *a;

    ENTER_CONTEXT("cuMemFree_v2");
    a = allocation_at(ptr);
    if (a == NULL || (uintptr_t)a->base != ptr || a->content == NULL || a->opened) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    allocation_remove(a);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags);
EXPORT CUresult
cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
    char *memory;

    ENTER_CONTEXT("cuMemHostAlloc");
    memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (memory == NULL || flags != CU_MEMHOSTALLOC_PORTABLE) {
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)allocation_add(memory, NULL, bytes, -1);
    *ptr = memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeHost(void *ptr);
EXPORT CUresult
cuMemFreeHost(void *ptr)
{
    struct allocation *a;

    ENTER_CONTEXT("cuMemFreeHost");
    a = allocation_at((uintptr_t)ptr);
    if (a == NULL || a->base != ptr || a->content != NULL || a->registered) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    allocation_remove(a);
    return CUDA_SUCCESS;
}

/* Memory of the caller's: it is only looked whether it is registered once. */
EXPORT CUresult cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags);
EXPORT CUresult
cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
    ENTER_CONTEXT("cuMemHostRegister_v2");
    if ((uintptr_t)ptr % 4096 != 0 || bytes == 0 ||
        flags != CU_MEMHOSTREGISTER_PORTABLE || allocation_at((uintptr_t)ptr) != NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    allocation_add(ptr, NULL, bytes, -1)->registered = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostUnregister(void *ptr);
EXPORT CUresult
cuMemHostUnregister(void *ptr)
{
    struct allocation *a;

    ENTER_CONTEXT("cuMemHostUnregister");
    a = allocation_at((uintptr_t)ptr);
    if (a == NULL || a->base != ptr || !a->registered) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    allocation_remove(a);
    return CUDA_SUCCESS;
}

static void
attribute(int which, void *data, const struct allocation *a)
{
    const int memory_type = a == NULL ? 0 : a->content == NULL ? 1 : 2;

    switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)data = (unsigned int)memory_type;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)data = 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = a != NULL ? a->ordinal : -2;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = a != NULL ? (uintptr_t)a->base : 0;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = a != NULL ? a->size : 0;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = a != NULL ? a->id : 0;
        break;
    default:
        tp_assert(!"an attribute that is not in api.h");
    }
}

EXPORT CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **data,
                                       CUdeviceptr ptr);
EXPORT CUresult
cuPointerGetAttributes(unsigned int count, int *attributes, void **data,
                       CUdeviceptr ptr)
{
    const struct allocation *a;

    ENTER("cuPointerGetAttributes");
    a = allocation_at(ptr);
    for (unsigned i = 0; i < count; i++) {
        attribute(attributes[i], data[i], a);
    }
    return CUDA_SUCCESS;
}

/* The context alone: programs ask for it with this call, src/device/cuda does not. */
EXPORT CUresult cuPointerGetAttribute(void *data, int which, CUdeviceptr ptr);
EXPORT CUresult
cuPointerGetAttribute(void *data, int which, CUdeviceptr ptr)
{
    enum { CONTEXT = 1 };
    const struct allocation *a = allocation_at(ptr);

    ENTER("cuPointerGetAttribute");
    if (a == NULL || which != CONTEXT) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *(CUcontext *)data = &drv.contexts[a->ordinal];
    return CUDA_SUCCESS;
}

/* ---- other processes ----------------------------------------------------------------- */

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr);
EXPORT CUresult
cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
    struct allocation *a;
    struct tp_memfd_name name;

    ENTER_CONTEXT("cuIpcGetMemHandle");
    a = allocation_at(ptr);
    if (a == NULL || a->content == NULL || a->opened) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    tp_assert(tp_memfd_describe(a->fd, &name) == TELPHER_OK);
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &name, sizeof(name));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle handle,
                                      unsigned int flags);
EXPORT CUresult
cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
    struct tp_memfd_name name;
    struct allocation *a;
    int fd;

    ENTER_CONTEXT("cuIpcOpenMemHandle_v2");
    memcpy(&name, &handle, sizeof(name));
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || name.pid == getpid()) {
        return INVALID_CONTEXT;
    }
    if (tp_memfd_open(&name, &fd) != TELPHER_OK) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    a = map_file(fd, name.size);
    a->opened = true;
    *ptr = (uintptr_t)a->base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr ptr);
EXPORT CUresult
cuIpcCloseMemHandle(CUdeviceptr ptr)
{
    struct allocation *a;

    ENTER_CONTEXT("cuIpcCloseMemHandle");
    a = allocation_at(ptr);
    if (a == NULL || !a->opened || (uintptr_t)a->base != ptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    allocation_remove(a);
    return CUDA_SUCCESS;
}

/* ---- streams and events -------------------------------------------------------------- */

/* Does the work of the PTX of src/device/cuda/combine.c, by its instruction. */
static void
combine(struct op *op)
{
#define DO(name, type, value)                                                          \
    if (strcmp(op->instruction, name) == 0) {                                          \
        const type *lower = (const void *)op->src, *higher = (const void *)op->higher; \
        type *out = (void *)op->dst;                                                   \
        for (unsigned long long i = 0; i < op->count; i++) {                           \
            type a = lower[i], b = higher[i];                                          \
            out[i] = (type)(value);                                                    \
        }                                                                              \
        return;                                                                        \
    }
#define ORDER(suffix, type)                                                            \
    DO("max." suffix, type, a > b ? a : b) DO("min." suffix, type, a < b ? a : b)
#define INTEGER(suffix, type, whole)                                                   \
    ORDER(suffix, type)                                                                \
    DO("add." suffix, type, (whole)a + (whole)b)                                       \
    DO("mul.lo." suffix, type, (whole)a *(whole)b)
#define FLOATING(suffix, type)                                                         \
    ORDER(suffix, type)                                                                \
    DO("add.rn." suffix, type, a + b) DO("mul.rn." suffix, type, a *b)
#define BITS(suffix, type)                                                             \
    DO("and." suffix, type, a &b)                                                      \
    DO("or." suffix, type, a | b) DO("xor." suffix, type, a ^ b)
    INTEGER("s32", int32_t, uint32_t)
    INTEGER("u32", uint32_t, uint32_t)
    INTEGER("s64", int64_t, uint64_t)
    INTEGER("u64", uint64_t, uint64_t)
    FLOATING("f32", float)
    FLOATING("f64", double)
    BITS("b32", uint32_t)
    BITS("b64", uint64_t)
    tp_assert(!"an instruction of combine.c");
}

/* Runs the oldest operation of a stream if that can begin. */
static void
run_one(CUstream stream)
{
    struct tp_list *link = tp_list_first(&stream->ops);
    struct op *op;

    if (link == NULL || stream->held) {
        return;
    }
    op = tp_list_entry(link, struct op, link);
    if (op->kind == WAIT && op->event->done < op->count) {
        return;
    }
    tp_list_remove(link);
    if (op->kind == COMBINE) {
        combine(op);
    } else if (op->kind == COPY) {
        memmove(op->dst, op->src, op->bytes);
    } else if (op->kind == RECORD) {
        op->event->done = op->count;
    }
    free(op);
}

static struct op *
add(CUstream stream, enum op_kind kind)
{
    struct op *op = calloc(1, sizeof(*op));

    tp_assert(op != NULL);
    op->kind = kind;
    tp_list_push_back(&stream->ops, &op->link);
    return op;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
EXPORT CUresult
cuStreamCreate(CUstream *stream, unsigned int flags)
{
    ENTER_CONTEXT("cuStreamCreate");
    if (flags != CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *stream = calloc(1, sizeof(**stream));
    tp_assert(*stream != NULL);
    tp_list_init(&(*stream)->ops);
    tp_list_push_back(&drv.streams, &(*stream)->link);
    (*stream)->ordinal = current()->ordinal;
    drv.live++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream);
EXPORT CUresult
cuStreamDestroy_v2(CUstream stream)
{
    struct tp_list *link;

    ENTER_CONTEXT("cuStreamDestroy_v2");
    while ((link = tp_list_pop_front(&stream->ops)) != NULL) {
        free(tp_list_entry(link, struct op, link));
    }
    tp_list_remove(&stream->link);
    free(stream);
    drv.live--;
    return CUDA_SUCCESS;
}

enum { LEGACY_STREAM = 1 }; /* CU_STREAM_LEGACY */

EXPORT CUresult cuStreamSynchronize(CUstream stream);
EXPORT CUresult
cuStreamSynchronize(CUstream stream)
{
    ENTER_CONTEXT("cuStreamSynchronize");
    if ((uintptr_t)stream == LEGACY_STREAM) {
        return CUDA_SUCCESS; /* nothing here puts work on it */
    }
    while (!tp_list_is_empty(&stream->ops)) {
        run_one(stream);
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
EXPORT CUresult
cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    struct op *op;

    ENTER_CONTEXT("cuStreamWaitEvent");
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    op = add(stream, WAIT);
    op->event = event;
    op->count = event->recorded;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags);
EXPORT CUresult
cuEventCreate(CUevent *event, unsigned int flags)
{
    ENTER_CONTEXT("cuEventCreate");
    if (flags != CU_EVENT_DISABLE_TIMING) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *event = calloc(1, sizeof(**event));
    tp_assert(*event != NULL);
    drv.live++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event);
EXPORT CUresult
cuEventDestroy_v2(CUevent event)
{
    ENTER("cuEventDestroy_v2");
    free(event);
    drv.live--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream);
EXPORT CUresult
cuEventRecord(CUevent event, CUstream stream)
{
    struct op *op;

    ENTER_CONTEXT("cuEventRecord");
    if (stream->ordinal != current()->ordinal) {
        return INVALID_HANDLE;
    }
    op = add(stream, RECORD);
    op->event = event;
    op->count = ++event->recorded;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event);
EXPORT CUresult
cuEventQuery(CUevent event)
{
    if (!drv.initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    tp_list_for_each(pos, &drv.streams) {
        run_one(tp_list_entry(pos, struct CUstream_st, link));
    }
    return event->done < event->recorded ? CUDA_ERROR_NOT_READY : enter("cuEventQuery");
}

/* ---- copies -------------------------------------------------------------------------- */

/* Where the bytes really are; NULL if they are no device memory, or not all in one. */
static char *
content_at(CUdeviceptr ptr, size_t bytes)
{
    struct allocation *a = allocation_at(ptr);
    size_t offset = a != NULL ? ptr - (uintptr_t)a->base : 0;

    return a == NULL || a->content == NULL || bytes > a->size - offset
               ? NULL
               : a->content + offset;
}

static CUresult
add_copy(CUstream stream, char *dst, const char *src, size_t bytes)
{
    struct op *op;

    if (dst == NULL || src == NULL || stream->ordinal != current()->ordinal) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    op = add(stream, COPY);
    op->dst = dst;
    op->src = src;
    op->bytes = bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes,
                                     CUstream stream);
EXPORT CUresult
cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
    return add_copy(stream, dst, content_at(src, bytes), bytes);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes,
                                     CUstream stream);
EXPORT CUresult
cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
    return add_copy(stream, content_at(dst, bytes), src, bytes);
}

EXPORT CUresult cuMemcpy2DAsync_v2(const struct tp_cuda_rows *rows, CUstream stream);
EXPORT CUresult
cuMemcpy2DAsync_v2(const struct tp_cuda_rows *rows, CUstream stream)
{
    CUresult error = CUDA_SUCCESS;

    ENTER_CONTEXT("cuMemcpy2DAsync_v2");
    if (rows->src_type != CU_MEMORYTYPE_HOST ||
        rows->dst_type != CU_MEMORYTYPE_DEVICE || rows->width > rows->src_pitch ||
        rows->width > rows->dst_pitch) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t y = 0; error == CUDA_SUCCESS && y < rows->height; y++) {
        error = add_copy(
            stream, content_at(rows->dst_device + y * rows->dst_pitch, rows->width),
            (const char *)rows->src_host + y * rows->src_pitch, rows->width);
    }
    return error;
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                              CUstream stream);
EXPORT CUresult
cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT("cuMemcpyAsync");
    return add_copy(stream, content_at(dst, bytes), content_at(src, bytes), bytes);
}

/* ---- kernels ------------------------------------------------------------------------- */

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image);
EXPORT CUresult
cuModuleLoadData(CUmodule *module, const void *image)
{
    const char *use = strstr(image, " %a, %a, %b;"), *start = use;

    ENTER_CONTEXT("cuModuleLoadData");
    while (start != NULL && start[-1] != '\n') {
        start--;
    }
    if (start == NULL || drv.module_count == TP_ARRAY_LEN(drv.modules)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *module = &drv.modules[drv.module_count++];
    (void)snprintf((*module)->instruction, sizeof((*module)->instruction), "%.*s",
                   (int)(use - start), start);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                                    const char *name);
EXPORT CUresult
cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER_CONTEXT("cuModuleGetFunction");
    *function = (CUfunction)(void *)module;
    return strcmp(name, "combine") == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x,
                               unsigned int grid_y, unsigned int grid_z,
                               unsigned int block_x, unsigned int block_y,
                               unsigned int block_z, unsigned int shared,
                               CUstream stream, void **parameters, void **extra);
EXPORT CUresult
cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
               unsigned int grid_z, unsigned int block_x, unsigned int block_y,
               unsigned int block_z, unsigned int shared, CUstream stream,
               void **parameters, void **extra)
{
    const struct CUmod_st *module = (const void *)function;
    const CUdeviceptr *const *at = (const CUdeviceptr *const *)parameters;
    const unsigned long long *count = parameters[3];
    size_t bytes = (size_t)*count * (strstr(module->instruction, "64") != NULL ? 8 : 4);
    struct op *op;

    ENTER_CONTEXT("cuLaunchKernel");
    (void)extra;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_y != 1 ||
        block_z != 1 || shared != 0 || content_at(*at[0], bytes) == NULL ||
        content_at(*at[1], bytes) == NULL || content_at(*at[2], bytes) == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    op = add(stream, COMBINE);
    op->instruction = module->instruction;
    op->src = content_at(*at[0], bytes);
    op->higher = content_at(*at[1], bytes);
    op->dst = content_at(*at[2], bytes);
    op->count = *count;
    return CUDA_SUCCESS;
}
