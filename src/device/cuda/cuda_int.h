/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations shared by the files of device/cuda: cuda.c has GPUs and memory, copy.c
 * running copies, combine.c kernels of reductions, ipc.c other processes' memory, api.c the driver.
 */
#ifndef TELPHER_DEVICE_CUDA_CUDA_INT_H
#define TELPHER_DEVICE_CUDA_CUDA_INT_H

#include <stdatomic.h>

#include "base/container/list.h"
#include "device/cuda/api.h"
#include "device/cuda/cuda.h"

enum { TP_CUDA_READ, TP_CUDA_WRITE, TP_CUDA_MOVE, TP_CUDA_LANES };
enum { TP_CUDA_GPUS_MAX = 64, TP_CUDA_EXPORTS = 16 };

struct tp_cuda;

/** A stream of ours for one kind of copy. */
struct tp_cuda_lane {
    CUstream stream;
    struct tp_list running; /**< oldest first */
};

struct tp_cuda_gpu {
    struct tp_device device;
    struct tp_cuda *all;
    int ordinal;
    bool open; /**< what follows is there */
    CUdevice id;
    uint64_t unit; /**< of its UUID: the same in all processes; 0 = unknown */
    CUcontext context;
    struct tp_cuda_lane lanes[TP_CUDA_LANES];
    CUevent order; /**< stands in user's streams; used again at once */
    CUevent *events; /**< those not in use */
    size_t event_count, event_room;
    CUfunction kernels[TELPHER_MEM_OPS]
                      [TELPHER_MEM_TYPES]; /**< combine.c; NULL: not yet loaded */
    bool peers[TP_CUDA_GPUS_MAX]; /**< may copy there directly, or has tried to */
};

/** A handle that was asked for: asking again is slow. */
struct tp_cuda_export {
    unsigned long long id; /**< of the allocation; 0 = empty */
    CUipcMemHandle handle;
};

struct tp_cuda {
    struct tp_cuda_api api;
    bool ready;
    bool absent; /**< tried, and there is no GPU */
    int count;
    uint32_t ordinal, local_rank, local_size;
    uintptr_t heap_start;
    _Atomic uintptr_t heap_end; /**< the break when it was last asked for */
    struct tp_cuda_gpu home; /**< the one of this rank; memory is allocated there */
    struct tp_cuda_gpu *gpus[TP_CUDA_GPUS_MAX]; /**< by ordinal; NULL: not met */
    unsigned open_count;
    size_t running;
    struct tp_list imports;
    struct tp_cuda_export exports[TP_CUDA_EXPORTS];
};

/** The driver's attributes of an address. */
struct tp_cuda_pointer {
    unsigned int type;
    unsigned int managed;
    int ordinal;
    CUdeviceptr start;
    size_t size;
    unsigned long long id;
};

static inline struct tp_cuda_gpu *
tp_cuda_gpu_of(struct tp_device *d)
{
    return tp_container_of(d, struct tp_cuda_gpu, device);
}

/** Makes a GPU's context current, to be undone with tp_cuda_leave(). */
CUresult tp_cuda_enter(struct tp_cuda_gpu *gpu);
void tp_cuda_leave(struct tp_cuda_gpu *gpu);

/** @return false: not device memory, or the driver was never used here. */
bool tp_cuda_ask(const struct tp_cuda *c, const void *ptr, struct tp_cuda_pointer *ret);

/** Opens this rank's GPU. @return OK, UNSUPPORTED, NO_MEMORY, DEVICE. */
telpher_status tp_cuda_need_home(struct tp_cuda *c);

/** The GPU's events go back to the driver. */
void tp_cuda_events_fini(struct tp_cuda_gpu *gpu);

int32_t tp_cuda_read(struct tp_device *d, struct tp_device_copy *copy);
int32_t tp_cuda_write(struct tp_device *d, struct tp_device_copy *copy);
int32_t tp_cuda_move(struct tp_device *d, struct tp_device_copy *copy);
unsigned tp_cuda_progress(struct tp_device *d);
telpher_status tp_cuda_combine(struct tp_device *d,
                               const struct tp_device_combine *work);

telpher_status tp_cuda_export(struct tp_device *d, void *mem,
                              uint8_t blob[TP_DEVICE_BLOB_MAX], size_t *ret_len);
telpher_status tp_cuda_import(struct tp_device *d, const uint8_t *blob, size_t len,
                              struct tp_device_memory *ret);
void tp_cuda_close(struct tp_device *d, void *mem);
bool tp_cuda_move_takes_turns(struct tp_device *d, void *to, void *from);

#endif
