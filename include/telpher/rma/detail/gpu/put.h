/* SPDX-License-Identifier: Apache-2.0 */
/* Puts and gets, with the fast path for small ones; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_PUT_H
#define TELPHER_RMA_DETAIL_GPU_PUT_H

#include <cuda_runtime.h>

/* Up to 8 bytes with notification, sent by one lane if the target is cached. Cached
 * values are read before the lanes meet, as above. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_access_few(telpher_rma *rma, const telpher_rma_access *a, int kind,
                           const char *call, const char *where)
{
    telpher_rma_gpu_have_read();
    const telpher_rma_gpu_place place = *telpher_rma_gpu_known(rma, a->win, a->rank);
    const uint8_t *local = (const uint8_t *)a->local;
    const uint64_t at = place.base + a->off;
    const int good =
        telpher_rma_gpu_fits(rma, &place, a) &
        (kind == TELPHER_RMA_GPU_PUT_VALUE ? at % 8 == 0
                                           : (local != NULL) & (at != (uint64_t)local));
    uint64_t value = a->value;

    __syncthreads();
    if (telpher_rma_gpu_lane() == 0 && kind != TELPHER_RMA_GPU_PUT_VALUE &&
        local != NULL) {
        value = telpher_rma_gpu_read_few(local, (uint32_t)a->len);
    }
    if (!good) {
        return telpher_rma_gpu_access(rma, a->local, a->off, a->len, value, a->win,
                                      a->rank, a->tag, kind, where);
    }
    if (telpher_rma_gpu_lane() == 0) {
        telpher_status status = TELPHER_OK;
        telpher_rma_gpu_mailing mailing = {NULL, NULL, 0, 0};

        if (place.far == TELPHER_RMA_GPU_FAR) {
            mailing = telpher_rma_gpu_may_mail(rma, place.target, a->tag, at);
        }
        if (mailing.good) {
            telpher_rma_gpu_mail_to(rma, &mailing, place.target, a->tag, at, value,
                                    (uint32_t)a->len);
        } else {
            status = telpher_rma_gpu_put_few(rma, &place, a->tag, at, value,
                                             (uint32_t)a->len, call, where);
        }
        telpher_rma_gpu_state_of(rma)->once = status;
    }
    __syncthreads();
    return telpher_rma_gpu_state_of(rma)->once;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_access_any(telpher_rma *rma, const telpher_rma_access *a, int kind,
                           const char *where)
{
    telpher_rma_gpu_have_read();
    __syncthreads();
    return telpher_rma_gpu_access(rma, a->local, a->off, a->len, a->value, a->win,
                                  a->rank, a->tag, kind, where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put(telpher_rma *rma, const telpher_rma_access *a, const char *where)
{
    return telpher_rma_gpu_access_any(rma, a, TELPHER_RMA_GPU_PUT, where);
}

/* A put with notification without further checks; all lanes, after they have met. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_put_notify_at(telpher_rma *rma, uint64_t at, const void *local,
                              uint64_t len, uint64_t *count, uint32_t *sender,
                              uint32_t far)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    telpher_rma_gpu_move(rma, (uint8_t *)at, (const uint8_t *)local, len);
    __syncthreads();
    if (telpher_rma_gpu_lane() == 0) {
        if (far) {
            telpher_rma_gpu_release_far();
            state->dirty = TELPHER_RMA_GPU_TOLD_FAR;
        } else {
            telpher_rma_gpu_release_near();
        }
        telpher_rma_gpu_add(count, 1);
        telpher_rma_gpu_store(sender, rma->world_rank + 1);
    }
    __syncthreads();
    return TELPHER_OK;
}

/* More than a few bytes, or none. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_access_many(telpher_rma *rma, const telpher_rma_access *a,
                            const char *where)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    telpher_rma_gpu_have_read();
    const telpher_rma_gpu_place place = *telpher_rma_gpu_known(rma, a->win, a->rank);
    const uint32_t busy =
        state->under_way | state->by_proxy | (place.far & TELPHER_RMA_GPU_BY_PROXY);
    const int quick =
        telpher_rma_gpu_fits(rma, &place, a) & (a->local != NULL) &
        ((place.far == 0) | (busy == 0)) &
        !telpher_rma_gpu_overlap(place.base + a->off, (uint64_t)a->local, a->len);
    __syncthreads();
    return quick ? telpher_rma_gpu_put_notify_at(rma, place.base + a->off, a->local,
                                                 a->len, &place.counts[a->tag],
                                                 &place.senders[a->tag], place.far)
                 : telpher_rma_gpu_access(rma, a->local, a->off, a->len, 0, a->win,
                                          a->rank, a->tag, TELPHER_RMA_GPU_PUT_NOTIFY,
                                          where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put_notify(telpher_rma *rma, const telpher_rma_access *a,
                           const char *where)
{
    return a->len - 1 < 8 ? telpher_rma_gpu_access_few(
                                rma, a, TELPHER_RMA_GPU_PUT_NOTIFY, "put_notify", where)
                          : telpher_rma_gpu_access_many(rma, a, where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put_value_notify(telpher_rma *rma, const telpher_rma_access *a,
                                 const char *where)
{
    return telpher_rma_gpu_access_few(rma, a, TELPHER_RMA_GPU_PUT_VALUE,
                                      "put_value_notify", where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_get(telpher_rma *rma, const telpher_rma_access *a, const char *where)
{
    return telpher_rma_gpu_access_any(rma, a, TELPHER_RMA_GPU_GET, where);
}

/* Flush: all puts have arrived before the next notification; so have this rank's own
 * stores. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_flush(telpher_rma *rma, telpher_rma_win win, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_window_of(rma, win) == NULL
                 ? telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "flush", where)
             : telpher_rma_gpu_state_of(rma)->by_proxy
                 ? telpher_rma_gpu_ask_flush(rma, win, where)
                 : (telpher_rma_gpu_fence(rma),
                    telpher_rma_gpu_settle_all(rma, "flush", where)));
    return status;
}

#endif
