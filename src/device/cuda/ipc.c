/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory of other processes. What travels is the driver's handle of the whole
 * allocation, and where in it the memory begins. A process cannot open its own handles, so
 * it must recognise them.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/random.h"
#include "base/trace/log.h"
#include "device/cuda/cuda_int.h"

struct blob {
    uint64_t token; /* of the process */
    uint64_t id; /* of the allocation, in that process */
    uint64_t base; /* address there */
    uint64_t offset; /* [bytes] in the allocation */
    uint64_t size; /* [bytes] from there */
    uint64_t unit; /* the GPU it is on */
    CUipcMemHandle handle;
};
_Static_assert(sizeof(struct blob) <= TP_DEVICE_BLOB_MAX, "fits a blob");

/* Memory that was opened. */
struct import {
    struct tp_list link;
    CUdeviceptr opened;
    void *mem;
    uint64_t unit; /* the GPU it is on; the driver says where it was opened */
};

/* A number that no other process has; 0 = the system gave none. */
static uint64_t
own_token(void)
{
    static _Atomic uint64_t token;
    static _Atomic int pid; /* a child of fork() is another process */
    uint64_t fresh, before = atomic_load(&token);

    if (before == 0 || atomic_load(&pid) != getpid()) {
        if (tp_random_bytes(&fresh, sizeof(fresh)) != TELPHER_OK || fresh == 0) {
            return 0;
        }
        if (atomic_compare_exchange_strong(&token, &before, fresh)) {
            atomic_store(&pid, getpid());
        }
    }
    return atomic_load(&token);
}

static CUresult
get_handle(struct tp_cuda *c, const struct tp_cuda_pointer *pointer,
           CUipcMemHandle *ret_handle)
{
    struct tp_cuda_export *e = &c->exports[pointer->id % TP_CUDA_EXPORTS];
    CUresult error = CUDA_SUCCESS;

    if (pointer->id == 0 || e->id != pointer->id) {
        e->id = 0;
        error = c->api.IpcGetMemHandle(&e->handle, pointer->start);
        if (error == CUDA_SUCCESS) {
            e->id = pointer->id;
        }
    }
    *ret_handle = e->handle;
    return error;
}

telpher_status
tp_cuda_export(struct tp_device *d, void *mem, uint8_t blob[TP_DEVICE_BLOB_MAX],
               size_t *ret_len)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);
    struct tp_cuda_pointer pointer;
    struct blob b = {.token = own_token()};
    CUresult error;

    if (b.token == 0 || !tp_cuda_ask(gpu->all, mem, &pointer) || pointer.managed != 0) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    error = tp_cuda_enter(gpu);
    if (error == CUDA_SUCCESS) {
        error = get_handle(gpu->all, &pointer, &b.handle);
        tp_cuda_leave(gpu);
    }
    if (error != CUDA_SUCCESS) {
        tp_debug("mem", "cuda: memory cannot be exported: %s",
                 tp_cuda_error_name(&gpu->all->api, error));
        return TELPHER_ERR_UNSUPPORTED;
    }
    b.id = pointer.id;
    b.base = (uintptr_t)mem;
    b.offset = (uintptr_t)mem - pointer.start;
    b.size = pointer.size - b.offset;
    b.unit = gpu->unit;
    memcpy(blob, &b, sizeof(b));
    *ret_len = sizeof(b);
    return TELPHER_OK;
}

static void
tell(struct tp_cuda_gpu *gpu, uintptr_t address, uint64_t size,
     struct tp_device_memory *ret)
{
    *ret = (struct tp_device_memory){
        .device = &gpu->device,
        .mem = (void *)address,
        .base = (void *)address,
        .size = size,
        .kind = TELPHER_MEM_CUDA,
    };
}

/* Our own memory, come back. */
static telpher_status
import_own(struct tp_cuda_gpu *gpu, const struct blob *b, struct tp_device_memory *ret)
{
    struct tp_cuda_pointer pointer;

    if (!tp_cuda_ask(gpu->all, (void *)(uintptr_t)b->base, &pointer) ||
        pointer.id != b->id || b->base - pointer.start != b->offset ||
        b->size > pointer.size - b->offset || pointer.ordinal < 0 ||
        pointer.ordinal >= gpu->all->count) {
        return TELPHER_ERR_INVALID;
    }
    if (gpu->all->gpus[pointer.ordinal] != NULL) {
        gpu = gpu->all->gpus[pointer.ordinal];
    }
    tell(gpu, b->base, b->size, ret);
    return TELPHER_OK;
}

static telpher_status
import_other(struct tp_cuda_gpu *gpu, const struct blob *b,
             struct tp_device_memory *ret)
{
    const struct tp_cuda_api *api = &gpu->all->api;
    struct import *import = tp_zalloc(sizeof(*import), "opened handle");
    struct tp_cuda_pointer pointer;
    CUresult error;

    if (import == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    error = tp_cuda_enter(gpu);
    if (error == CUDA_SUCCESS) {
        error = api->IpcOpenMemHandle(&import->opened, b->handle,
                                      CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        tp_cuda_leave(gpu);
    }
    if (error != CUDA_SUCCESS) {
        tp_debug("mem", "cuda: memory cannot be imported: %s",
                 tp_cuda_error_name(api, error));
        tp_free(import);
        return TELPHER_ERR_UNSUPPORTED;
    }
    import->mem = (void *)(uintptr_t)(import->opened + b->offset);
    tp_list_push_back(&gpu->all->imports, &import->link);
    /* what the blob says of the size is only believed as far as the driver agrees */
    if (!tp_cuda_ask(gpu->all, (void *)(uintptr_t)import->opened, &pointer) ||
        b->offset > pointer.size || b->size > pointer.size - b->offset) {
        tp_cuda_close(&gpu->device, import->mem);
        return TELPHER_ERR_INVALID;
    }
    import->unit = b->unit;
    tell(gpu, (uintptr_t)import->mem, b->size, ret);
    return TELPHER_OK;
}

telpher_status
tp_cuda_import(struct tp_device *d, const uint8_t *blob, size_t len,
               struct tp_device_memory *ret)
{
    struct tp_cuda *c = tp_cuda_gpu_of(d)->all;
    telpher_status status;
    struct blob b;

    if (len != sizeof(b)) {
        return TELPHER_ERR_INVALID;
    }
    memcpy(&b, blob, sizeof(b));
    status = tp_cuda_need_home(c);
    if (status != TELPHER_OK) {
        return status;
    }
    return b.token == own_token() ? import_own(&c->home, &b, ret)
                                  : import_other(&c->home, &b, ret);
}

/* A copy inside a GPU that two processes use took 146 us on an H200, of 8 B as of 64 KiB, and 8
 * between two GPUs: without MPS their contexts take turns. Pieces through host memory ran at
 * 40 GB/s there. */
bool
tp_cuda_move_takes_turns(struct tp_device *d, void *to, void *from)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);

    tp_list_for_each_entry(const struct import, import, &gpu->all->imports, link) {
        if (import->mem == from) {
            return gpu->unit != 0 && import->unit == gpu->unit;
        }
    }
    return false;
}

void
tp_cuda_close(struct tp_device *d, void *mem)
{
    struct tp_cuda *c = tp_cuda_gpu_of(d)->all;

    tp_list_for_each_entry(struct import, import, &c->imports, link) {
        if (import->mem == mem) {
            tp_list_remove(&import->link);
            if (tp_cuda_enter(&c->home) == CUDA_SUCCESS) {
                (void)c->api.IpcCloseMemHandle(import->opened);
                tp_cuda_leave(&c->home);
            }
            tp_free(import);
            return;
        }
    }
}
