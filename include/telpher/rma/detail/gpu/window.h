/* SPDX-License-Identifier: Apache-2.0 */
/* Windows on a GPU; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_WINDOW_H
#define TELPHER_RMA_DETAIL_GPU_WINDOW_H

#include <cuda_runtime.h>

/* ---- windows ---- */

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_window *
telpher_rma_gpu_window_of(const telpher_rma *rma, telpher_rma_win win)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int32_t count = TELPHER_RMA_GPU_WINDOWS * (g->shared != NULL ? 2 : 1);
    telpher_rma_gpu_window *window = win >= 0 && win < count ? &g->windows[win] : NULL;

    return window != NULL && window->open != 0 ? window : NULL;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_rma_win
telpher_rma_gpu_open_window(const telpher_rma *rma, int index,
                            const telpher_rma_gpu_slot *slots)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_group *group = &g->groups[index];

    for (int i = 0; i < TELPHER_RMA_GPU_WINDOWS; i++) {
        telpher_rma_gpu_window *w = &g->windows[i];

        if (atomicCAS_system(&w->open, 0, 2) == 0) {
            w->group = (uint32_t)index;
            for (uint32_t k = 0; k < group->size; k++) {
                w->bases[k] = telpher_rma_gpu_load64(&slots[k].base);
                w->lens[k] = telpher_rma_gpu_load64(&slots[k].len);
            }
            telpher_rma_gpu_fence(rma);
            telpher_rma_gpu_store(&w->open, 1);
            return i;
        }
    }
    return TELPHER_RMA_WIN_NONE;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_win_create_one(const telpher_rma *rma, telpher_rma_comm comm,
                               void *base, uint64_t len, telpher_rma_win *ret_win,
                               const char *where)
{
    const telpher_rma_gpu_slot slot = {
        TELPHER_RMA_GPU_WIN_CREATE, 0, 0, 0, (uint64_t)base, len, 0, 0, 0};
    telpher_status status;
    telpher_rma_gpu_slot *slots;
    int index;

    *ret_win = TELPHER_RMA_WIN_NONE;
    if (len != 0 && (base == NULL || !__isGlobal(base))) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, "win_create", where);
    }
    index = telpher_rma_gpu_group_index(rma, comm);
    if (telpher_rma_gpu_is_spread(rma, index)) {
        return telpher_rma_gpu_ask_window(rma, comm, base, len, ret_win, where);
    }
    status = telpher_rma_gpu_meet_with(rma, comm, &slot, &slots, "win_create", where);
    if (status != TELPHER_OK) {
        return status;
    }
    if (telpher_rma_gpu_position(rma, index) == 0) {
        slots[0].result = telpher_rma_gpu_open_window(rma, index, slots);
    }
    status = telpher_rma_gpu_part_one(rma, comm, "win_create", where);
    if (status == TELPHER_OK) {
        *ret_win =
            (telpher_rma_win)telpher_rma_gpu_load((const uint32_t *)&slots[0].result);
    }
    if (status == TELPHER_OK && *ret_win == TELPHER_RMA_WIN_NONE) {
        status = telpher_rma_gpu_fail_at(rma, TELPHER_ERR_LIMIT, "win_create", where);
    }
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_win_create(telpher_rma *rma, telpher_rma_comm comm, void *base,
                           uint64_t len, telpher_rma_win *ret_win, const char *where)
{
    __shared__ telpher_rma_win win;

    telpher_rma_gpu_have_read();
    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_win_create_one(rma, comm, base, len, &win, where));
    *ret_win = win;
    __syncthreads();
    return status;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_win_free_one(const telpher_rma *rma, telpher_rma_win win,
                             const char *where)
{
    telpher_rma_gpu_window *window = telpher_rma_gpu_window_of(rma, win);
    const telpher_rma_gpu_slot slot = {
        TELPHER_RMA_GPU_WIN_FREE, (uint64_t)win, 0, 0, 0, 0, 0, 0, 0};
    telpher_rma_gpu_slot *slots;
    telpher_rma_comm comm;
    telpher_status status;
    uint32_t own;
    int first;

    telpher_rma_gpu_forget_places(rma);
    if (window == NULL) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "win_free", where);
    }
    if (win >= TELPHER_RMA_GPU_WINDOWS) {
        return telpher_rma_gpu_ask_free(rma, win, where);
    }
    own = 1 + rma->device - telpher_rma_gpu_of(rma)->first_device;
    comm = window->group == 0     ? TELPHER_RMA_WORLD
           : window->group == own ? TELPHER_RMA_DEVICE
           : window->group > telpher_rma_gpu_of(rma)->devices
               ? (telpher_rma_comm)window->group + 1
               : TELPHER_RMA_COMM_NONE;
    first = telpher_rma_gpu_position(rma, (int)window->group) == 0;
    status = telpher_rma_gpu_meet_with(rma, comm, &slot, &slots, "win_free", where);
    if (status == TELPHER_OK && first) {
        telpher_rma_gpu_store(&window->open, 0);
    }
    return status == TELPHER_OK ? telpher_rma_gpu_part_one(rma, comm, "win_free", where)
                                : status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_win_free(telpher_rma *rma, telpher_rma_win win, const char *where)
{
    telpher_rma_gpu_have_read();
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_win_free_one(rma, win, where));
    return status;
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_win_size(const telpher_rma *rma, telpher_rma_win win, uint32_t rank)
{
    const telpher_rma_gpu_window *w = telpher_rma_gpu_window_of(rma, win);

    return w != NULL && rank < telpher_rma_gpu_load(
                                   &telpher_rma_gpu_of(rma)->groups[w->group].size)
               ? telpher_rma_gpu_load64(&w->lens[rank])
               : 0;
}

#endif
