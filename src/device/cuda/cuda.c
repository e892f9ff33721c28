/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs, and the memory on them. */
#include "device/cuda/cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "device/cuda/cuda_int.h"

enum { PAGE = 4096 };

static const struct tp_device_ops ops;

/* ---- GPUs ---------------------------------------------------------------------------- */

CUresult
tp_cuda_enter(struct tp_cuda_gpu *gpu)
{
    return gpu->all->api.CtxPush(gpu->context);
}

void
tp_cuda_leave(struct tp_cuda_gpu *gpu)
{
    CUcontext context;

    (void)gpu->all->api.CtxPop(&context);
}

static void
gpu_init(struct tp_cuda_gpu *gpu, struct tp_cuda *c)
{
    gpu->device.ops = &ops;
    gpu->all = c;
    for (int i = 0; i < TP_CUDA_LANES; i++) {
        tp_list_init(&gpu->lanes[i].running);
    }
}

/* With the context current; so far there may be only some of it. */
static void
destroy_streams(struct tp_cuda_gpu *gpu)
{
    const struct tp_cuda_api *api = &gpu->all->api;

    for (int i = 0; i < TP_CUDA_LANES; i++) {
        if (gpu->lanes[i].stream != NULL) {
            (void)api->StreamDestroy(gpu->lanes[i].stream);
            gpu->lanes[i].stream = NULL;
        }
    }
    if (gpu->order != NULL) {
        (void)api->EventDestroy(gpu->order);
        gpu->order = NULL;
    }
    tp_cuda_events_fini(gpu);
}

static CUresult
make_streams(struct tp_cuda_gpu *gpu)
{
    const struct tp_cuda_api *api = &gpu->all->api;
    CUresult error = tp_cuda_enter(gpu);

    if (error != CUDA_SUCCESS) {
        return error;
    }
    for (int i = 0; i < TP_CUDA_LANES && error == CUDA_SUCCESS; i++) {
        error = api->StreamCreate(&gpu->lanes[i].stream, CU_STREAM_NON_BLOCKING);
    }
    if (error == CUDA_SUCCESS) {
        error = api->EventCreate(&gpu->order, CU_EVENT_DISABLE_TIMING);
    }
    if (error != CUDA_SUCCESS) {
        destroy_streams(gpu);
    }
    tp_cuda_leave(gpu);
    return error;
}

static uint64_t
unit_of(const struct tp_cuda_gpu *gpu)
{
    uint64_t halves[2] = {0, 0};
    CUuuid uuid;

    if (gpu->all->api.DeviceGetUuid(&uuid, gpu->id) == CUDA_SUCCESS) {
        memcpy(halves, &uuid, sizeof(halves));
    }
    return halves[0] ^ halves[1];
}

static telpher_status
gpu_open(struct tp_cuda_gpu *gpu, int ordinal)
{
    struct tp_cuda *c = gpu->all;
    CUresult error = c->api.DeviceGet(&gpu->id, ordinal);

    if (error == CUDA_SUCCESS) {
        error = c->api.PrimaryCtxRetain(&gpu->context, gpu->id);
    }
    if (error == CUDA_SUCCESS) {
        error = make_streams(gpu);
        if (error != CUDA_SUCCESS) {
            (void)c->api.PrimaryCtxRelease(gpu->id);
        }
    }
    if (error != CUDA_SUCCESS) {
        tp_error("mem", "cuda: device %d cannot be used: %s", ordinal,
                 tp_cuda_error_name(&c->api, error));
        return tp_cuda_status(error);
    }
    gpu->ordinal = ordinal;
    gpu->unit = unit_of(gpu);
    gpu->open = true;
    c->gpus[ordinal] = gpu;
    c->open_count++;
    tp_debug("mem", "cuda: device %d", ordinal);
    return TELPHER_OK;
}

static void
gpu_close(struct tp_cuda_gpu *gpu)
{
    if (gpu->open && tp_cuda_enter(gpu) == CUDA_SUCCESS) {
        destroy_streams(gpu);
        tp_cuda_leave(gpu);
        (void)gpu->all->api.PrimaryCtxRelease(gpu->id);
    }
    tp_free(gpu->events);
}

/* Initialises the driver, which takes a while. */
static telpher_status
need_driver(struct tp_cuda *c)
{
    CUresult error;

    if (!c->ready && !c->absent) {
        error = c->api.Init(0);
        if (error == CUDA_SUCCESS) {
            error = c->api.DeviceGetCount(&c->count);
        }
        c->count = TP_MIN(c->count, TP_CUDA_GPUS_MAX);
        c->ready = error == CUDA_SUCCESS && c->count > 0;
        c->absent = !c->ready;
        if (c->absent) {
            tp_debug("mem", "no cuda memory: %s", tp_cuda_error_name(&c->api, error));
        }
    }
    return c->ready ? TELPHER_OK : TELPHER_ERR_UNSUPPORTED;
}

telpher_status
tp_cuda_need_home(struct tp_cuda *c)
{
    telpher_status status = need_driver(c);
    uint32_t ordinal;

    if (status != TELPHER_OK || c->home.open) {
        return status;
    }
    ordinal =
        c->ordinal != UINT32_MAX ? c->ordinal : c->local_rank % (uint32_t)c->count;
    if (ordinal >= (uint32_t)c->count) {
        tp_error("mem", "TELPHER_MAPPING: cuda device %u does not exist, there are %d",
                 ordinal, c->count);
        return TELPHER_ERR_UNSUPPORTED;
    }
    return gpu_open(&c->home, (int)ordinal);
}

/* The GPU that has a pointer, which may be the first that is met of it. */
static struct tp_cuda_gpu *
gpu_at(struct tp_cuda *c, int ordinal)
{
    struct tp_cuda_gpu *gpu;

    if (tp_cuda_need_home(c) != TELPHER_OK || ordinal < 0 || ordinal >= c->count) {
        return NULL;
    }
    if (c->gpus[ordinal] != NULL) {
        return c->gpus[ordinal];
    }
    gpu = tp_zalloc(sizeof(*gpu), "gpu");
    if (gpu == NULL) {
        return NULL;
    }
    gpu_init(gpu, c);
    if (gpu_open(gpu, ordinal) != TELPHER_OK) {
        tp_free(gpu);
        return NULL;
    }
    return gpu;
}

/* An address this far above the known break is not checked against sbrk(0). */
#define HEAP_GROWTH ((uintptr_t)16 << 30)

/* ---- addresses ----------------------------------------------------------------------- */

/* The start of the heap that brk() grows: it does not change during the life of the process. */
static uintptr_t
find_heap(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uintptr_t start = (uintptr_t)sbrk(0);
    char line[512];

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        uintptr_t from;

        if (strstr(line, "[heap]") != NULL && sscanf(line, "%" SCNxPTR, &from) == 1) {
            start = TP_MIN(start, from);
        }
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    return start;
}

/* No driver can have memory there: so that small host memory is found fast. The break is asked
 * for only where it may have passed the address: in a process with UCX's memory hooks sbrk() is
 * a system call, of 0.2 us. Below a break that went down again lies nothing of a driver. */
static bool
is_heap(struct tp_cuda *c, const void *ptr)
{
    uintptr_t address = (uintptr_t)ptr;
    uintptr_t end = atomic_load_explicit(&c->heap_end, memory_order_relaxed);

    if (address >= end && address - end < HEAP_GROWTH) {
        end = (uintptr_t)sbrk(0);
        atomic_store_explicit(&c->heap_end, end, memory_order_relaxed);
    }
    return address - c->heap_start < end - c->heap_start;
}

bool
tp_cuda_ask(const struct tp_cuda *c, const void *ptr, struct tp_cuda_pointer *ret)
{
    int attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_BUFFER_ID,
    };
    void *data[] = {&ret->type,  &ret->managed, &ret->ordinal,
                    &ret->start, &ret->size,    &ret->id};
    CUdeviceptr address = (uintptr_t)ptr;

    *ret = (struct tp_cuda_pointer){.type = 0};
    if (c->api.PointerGetAttributes(TP_ARRAY_LEN(attributes), attributes, data,
                                    address) != CUDA_SUCCESS ||
        (ret->type != CU_MEMORYTYPE_DEVICE && ret->managed == 0)) {
        return false;
    }
    if (ret->size == 0 || address - ret->start >= ret->size) {
        /* it would not say how much; no allocation ends inside a page */
        ret->start = address & ~(CUdeviceptr)(PAGE - 1);
        ret->size = PAGE;
    }
    return true;
}

/* ---- memory -------------------------------------------------------------------------- */

/* Managed memory may move while a network has its address. */
static void
tell(struct tp_cuda_gpu *gpu, CUdeviceptr start, uint64_t size, bool managed,
     struct tp_device_memory *ret)
{
    *ret = (struct tp_device_memory){
        .device = &gpu->device,
        .mem = (void *)(uintptr_t)start,
        .base = (void *)(uintptr_t)start,
        .size = size,
        .by_net = managed ? NULL : (void *)(uintptr_t)start,
        .kind = TELPHER_MEM_CUDA,
    };
}

static bool
cuda_find(struct tp_device *d, const void *ptr, struct tp_device_memory *ret)
{
    struct tp_cuda *c = tp_cuda_gpu_of(d)->all;
    struct tp_cuda_pointer pointer;
    struct tp_cuda_gpu *gpu;

    if (is_heap(c, ptr) || !tp_cuda_ask(c, ptr, &pointer)) {
        return false;
    }
    gpu = gpu_at(c, TP_MAX(pointer.ordinal, 0)); /* managed memory may be nowhere yet */
    if (gpu == NULL) {
        return false;
    }
    tell(gpu, pointer.start, pointer.size, pointer.managed != 0, ret);
    return true;
}

static telpher_status
cuda_alloc(struct tp_device *d, uint64_t bytes, struct tp_device_memory *ret)
{
    struct tp_cuda *c = tp_cuda_gpu_of(d)->all;
    telpher_status status = tp_cuda_need_home(c);
    CUdeviceptr ptr;
    CUresult error;

    if (status != TELPHER_OK) {
        return status;
    }
    error = tp_cuda_enter(&c->home);
    if (error == CUDA_SUCCESS) {
        error = c->api.MemAlloc(&ptr, bytes);
        tp_cuda_leave(&c->home);
    }
    if (error == CUDA_SUCCESS) {
        tell(&c->home, ptr, bytes, false, ret);
    }
    return tp_cuda_status(error);
}

static void
cuda_free(struct tp_device *d, void *mem)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);

    if (tp_cuda_enter(gpu) == CUDA_SUCCESS) {
        (void)gpu->all->api.MemFree((uintptr_t)mem);
        tp_cuda_leave(gpu);
    }
}

/* Any part of memory that the driver knows; its queue is named with each copy. */
static telpher_status
cuda_adopt(struct tp_device *d, void *object, uint64_t bytes, void *queue,
           struct tp_device_memory *ret)
{
    struct tp_device_memory memory;
    uint64_t offset;

    if (bytes == 0 || !cuda_find(d, object, &memory)) {
        return TELPHER_ERR_INVALID;
    }
    offset = (uintptr_t)object - (uintptr_t)memory.base;
    if (bytes > memory.size - offset) {
        return TELPHER_ERR_INVALID;
    }
    tell(tp_cuda_gpu_of(memory.device), (uintptr_t)object, bytes, memory.by_net == NULL,
         ret);
    return TELPHER_OK;
}

static void *
cuda_chunk_alloc(struct tp_device *d, size_t bytes)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);
    void *chunk = NULL;

    if (!gpu->open || tp_cuda_enter(gpu) != CUDA_SUCCESS) {
        return NULL;
    }
    if (gpu->all->api.MemHostAlloc(&chunk, bytes, CU_MEMHOSTALLOC_PORTABLE) !=
        CUDA_SUCCESS) {
        chunk = NULL;
    }
    tp_cuda_leave(gpu);
    return chunk;
}

static void
cuda_chunk_free(struct tp_device *d, void *chunk, size_t bytes)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);

    if (tp_cuda_enter(gpu) == CUDA_SUCCESS) {
        (void)gpu->all->api.MemFreeHost(chunk);
        tp_cuda_leave(gpu);
    }
}

static telpher_status
cuda_pin(struct tp_device *d, void *memory, size_t bytes)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);
    CUresult error;

    if (!gpu->open) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    error = tp_cuda_enter(gpu);
    if (error == CUDA_SUCCESS) {
        error =
            gpu->all->api.MemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
        tp_cuda_leave(gpu);
    }
    if (error != CUDA_SUCCESS) {
        tp_debug("mem", "cuda: host memory cannot be pinned: %s",
                 tp_cuda_error_name(&gpu->all->api, error));
    }
    return tp_cuda_status(error);
}

static void
cuda_unpin(struct tp_device *d, void *memory, size_t bytes)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);

    if (tp_cuda_enter(gpu) == CUDA_SUCCESS) {
        (void)gpu->all->api.MemHostUnregister(memory);
        tp_cuda_leave(gpu);
    }
}

/* ---- the domain ---------------------------------------------------------------------- */

static void
cuda_flush(struct tp_device *d)
{
    (void)d; /* streams run by themselves */
}

static void
cuda_destroy(struct tp_device *d)
{
    struct tp_cuda *c = tp_cuda_gpu_of(d)->all;

    for (int i = 0; i < TP_CUDA_GPUS_MAX; i++) {
        if (c->gpus[i] != NULL && c->gpus[i] != &c->home) {
            gpu_close(c->gpus[i]);
            tp_free(c->gpus[i]);
        }
    }
    gpu_close(&c->home);
    tp_free(c);
}

static const struct tp_device_ops ops = {
    .name = "cuda",
    .kind = TELPHER_MEM_CUDA,
    .read = tp_cuda_read,
    .write = tp_cuda_write,
    .flush = cuda_flush,
    .destroy = cuda_destroy,
    .progress = tp_cuda_progress,
    .move = tp_cuda_move,
    .move_takes_turns = tp_cuda_move_takes_turns,
    .combine = tp_cuda_combine,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .adopt = cuda_adopt,
    .find = cuda_find,
    .export_mem = tp_cuda_export,
    .import_mem = tp_cuda_import,
    .close_mem = tp_cuda_close,
    .chunk_alloc = cuda_chunk_alloc,
    .chunk_free = cuda_chunk_free,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
};

static telpher_status
create(const struct tp_device_params *params, struct tp_device **ret_device,
       struct tp_error *err)
{
    struct tp_cuda *c = tp_zalloc(sizeof(*c), "cuda domain");
    telpher_status status;

    if (c == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the table of CUDA memory");
    }
    status = tp_cuda_load(&c->api, err);
    if (status != TELPHER_OK) {
        tp_free(c);
        return status;
    }
    c->heap_start = find_heap();
    atomic_init(&c->heap_end, (uintptr_t)sbrk(0));
    c->ordinal = params->ordinal;
    c->local_rank = params->local_rank;
    c->local_size = params->local_size;
    tp_list_init(&c->imports);
    gpu_init(&c->home, c);
    *ret_device = &c->home.device;
    return TELPHER_OK;
}

const struct tp_device_maker tp_cuda_maker = {
    .name = "cuda",
    .kind = TELPHER_MEM_CUDA,
    .create = create,
};
