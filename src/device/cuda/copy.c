/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of CUDA memory. Each kind has a stream, in order, so that only its oldest copy
 * needs to be looked at; an event after each copy says whether it has ended.
 */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "device/cuda/cuda_int.h"

enum {
    SHORT = 64 << 10
}; /* [bytes] of a write that the driver may not give to a copy engine */

/* State of a running copy, in tp_device_copy.room. */
struct running {
    struct tp_list link;
    CUevent event;
};
_Static_assert(sizeof(struct running) <= sizeof(((struct tp_device_copy *)0)->room),
               "fits the room");

static struct running *
running_of(struct tp_device_copy *copy)
{
    return (struct running *)(void *)&copy->room;
}

static CUdeviceptr
address_of(const struct tp_device_copy *copy)
{
    return (uintptr_t)copy->mem + copy->box.origin[0];
}

/* ---- events -------------------------------------------------------------------------- */

static CUresult
event_take(struct tp_cuda_gpu *gpu, CUevent *ret_event)
{
    if (gpu->event_count > 0) {
        *ret_event = gpu->events[--gpu->event_count];
        return CUDA_SUCCESS;
    }
    return gpu->all->api.EventCreate(ret_event, CU_EVENT_DISABLE_TIMING);
}

static void
event_give(struct tp_cuda_gpu *gpu, CUevent event)
{
    if (gpu->event_count == gpu->event_room) {
        size_t room = gpu->event_room * 2 + 16;
        CUevent *more = tp_realloc_array(gpu->events, room, sizeof(CUevent), "events");

        if (more == NULL) {
            (void)gpu->all->api.EventDestroy(event);
            return;
        }
        gpu->events = more;
        gpu->event_room = room;
    }
    gpu->events[gpu->event_count++] = event;
}

void
tp_cuda_events_fini(struct tp_cuda_gpu *gpu)
{
    while (gpu->event_count > 0) {
        (void)gpu->all->api.EventDestroy(gpu->events[--gpu->event_count]);
    }
}

/* ---- starting ------------------------------------------------------------------------ */

/* Lets this GPU write to the one that @p from is on, where the hardware can. */
static void
meet_peer(struct tp_cuda_gpu *gpu, const void *from)
{
    struct tp_cuda *c = gpu->all;
    struct tp_cuda_pointer pointer;
    struct tp_cuda_gpu *other;

    if (!tp_cuda_ask(c, from, &pointer) || pointer.ordinal < 0 ||
        pointer.ordinal >= c->count || pointer.ordinal == gpu->ordinal ||
        gpu->peers[pointer.ordinal]) {
        return;
    }
    gpu->peers[pointer.ordinal] =
        true; /* one attempt: without it copies go by the host */
    other = c->gpus[pointer.ordinal];
    if (other != NULL) {
        (void)c->api.CtxEnablePeerAccess(other->context, 0);
    }
}

/* Ranks of this machine share a GPU. */
static bool
is_shared(const struct tp_cuda *c)
{
    return c->local_size > (uint32_t)c->count ||
           (c->ordinal != UINT32_MAX && c->local_size > 1);
}

/* The driver gives short writes to the engine that runs kernels, which processes have in turns
 * of 100 us and more; writes of two rows always go to a copy engine. Measured on an H100, 580.159:
 * two processes 240 and 9 us, one process 5.9 and 7.7 us. scripts/gpu/ampi.sh patterns shows it. */
static CUresult
write_rows(const struct tp_cuda_api *api, CUdeviceptr dst, const void *src, size_t len,
           CUstream stream)
{
    const struct tp_cuda_rows rows = {.src_type = CU_MEMORYTYPE_HOST,
                                      .src_host = src,
                                      .src_pitch = len / 2,
                                      .dst_type = CU_MEMORYTYPE_DEVICE,
                                      .dst_device = dst,
                                      .dst_pitch = len / 2,
                                      .width = len / 2,
                                      .height = 2};

    return api->Memcpy2DAsync(&rows, stream);
}

static CUresult
write_plain(struct tp_cuda_gpu *gpu, struct tp_device_copy *copy, CUstream stream)
{
    const struct tp_cuda_api *api = &gpu->all->api;
    size_t len = copy->box.region[0];

    if (len <= SHORT && len > 0 && len % 2 == 0 && is_shared(gpu->all)) {
        return write_rows(api, address_of(copy), copy->host, len, stream);
    }
    return api->MemcpyHtoDAsync(address_of(copy), copy->host, len, stream);
}

static CUresult
enqueue_copy(struct tp_cuda_gpu *gpu, struct tp_device_copy *copy, int which)
{
    const struct tp_cuda_api *api = &gpu->all->api;
    CUstream stream = gpu->lanes[which].stream;
    size_t len = copy->box.region[0];

    switch (which) {
    case TP_CUDA_READ:
        return api->MemcpyDtoHAsync(copy->host, address_of(copy), len, stream);
    case TP_CUDA_WRITE:
        return write_plain(gpu, copy, stream);
    default:
        if (gpu->all->open_count > 1) {
            meet_peer(gpu, copy->from);
        }
        return api->MemcpyAsync(address_of(copy),
                                (uintptr_t)copy->from + copy->from_offset, len, stream);
    }
}

/* The present work of the user's stream goes first. */
static CUresult
wait_for_user(struct tp_cuda_gpu *gpu, CUstream user, CUstream ours)
{
    const struct tp_cuda_api *api = &gpu->all->api;
    CUresult error = api->EventRecord(gpu->order, user);

    return error == CUDA_SUCCESS ? api->StreamWaitEvent(ours, gpu->order, 0) : error;
}

/* With the context current. */
static CUresult
enqueue(struct tp_cuda_gpu *gpu, struct tp_device_copy *copy, int which)
{
    const struct tp_cuda_api *api = &gpu->all->api;
    struct tp_cuda_lane *lane = &gpu->lanes[which];
    struct running *r = running_of(copy);
    CUresult error = event_take(gpu, &r->event);

    if (error != CUDA_SUCCESS) {
        return error;
    }
    if (copy->queue != NULL) {
        error = wait_for_user(gpu, copy->queue, lane->stream);
    }
    if (error == CUDA_SUCCESS) {
        error = enqueue_copy(gpu, copy, which);
    }
    if (error == CUDA_SUCCESS) {
        error = api->EventRecord(r->event, lane->stream);
        if (error != CUDA_SUCCESS) { /* it runs, but its completion could not be
                                      * detected */
            (void)api->StreamSynchronize(lane->stream);
        }
    }
    if (error != CUDA_SUCCESS) {
        event_give(gpu, r->event);
        return error;
    }
    tp_list_push_back(&lane->running, &r->link);
    gpu->all->running++;
    return CUDA_SUCCESS;
}

static int32_t
start(struct tp_device *d, struct tp_device_copy *copy, int which)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);
    CUresult error = tp_cuda_enter(gpu);

    if (error == CUDA_SUCCESS) {
        error = enqueue(gpu, copy, which);
        tp_cuda_leave(gpu);
    }
    if (error != CUDA_SUCCESS) {
        tp_debug("mem", "cuda: copy refused: %s",
                 tp_cuda_error_name(&gpu->all->api, error));
    }
    return tp_cuda_status(error);
}

int32_t
tp_cuda_read(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, TP_CUDA_READ);
}

int32_t
tp_cuda_write(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, TP_CUDA_WRITE);
}

int32_t
tp_cuda_move(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, TP_CUDA_MOVE);
}

/* ---- ending -------------------------------------------------------------------------- */

static unsigned
progress_lane(struct tp_cuda_gpu *gpu, struct tp_cuda_lane *lane)
{
    const struct tp_cuda_api *api = &gpu->all->api;
    unsigned count = 0;
    struct tp_list *link;

    while ((link = tp_list_first(&lane->running)) != NULL) {
        struct tp_device_copy *copy =
            tp_container_of(link, struct tp_device_copy, room);
        struct running *r = running_of(copy);
        CUresult error = api->EventQuery(r->event);

        if (error == CUDA_ERROR_NOT_READY) {
            break;
        }
        tp_list_remove(link);
        event_give(gpu, r->event);
        gpu->all->running--;
        count++;
        if (error != CUDA_SUCCESS) {
            tp_debug("mem", "cuda: copy failed: %s", tp_cuda_error_name(api, error));
        }
        copy->done(copy, tp_cuda_status(error));
    }
    return count;
}

unsigned
tp_cuda_progress(struct tp_device *d)
{
    struct tp_cuda *c = tp_cuda_gpu_of(d)->all;
    unsigned count = 0;

    for (int i = 0; i < c->count && c->running > 0; i++) {
        for (int lane = 0; c->gpus[i] != NULL && lane < TP_CUDA_LANES; lane++) {
            count += progress_lane(c->gpus[i], &c->gpus[i]->lanes[lane]);
        }
    }
    return count;
}
