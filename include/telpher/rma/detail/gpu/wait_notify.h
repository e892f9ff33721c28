/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that wait for notifications; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_WAIT_NOTIFY_H
#define TELPHER_RMA_DETAIL_GPU_WAIT_NOTIFY_H

#include <cuda_runtime.h>

/* Whether all other ranks have returned, or have been in waits without a deadline
 * since before @p before. */
TELPHER_RMA_GPU_SLOW_FN_ int
telpher_rma_gpu_nobody_sends(const telpher_rma *rma, uint64_t before)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int nobody = 1;

    for (uint32_t r = 0; r < g->world && nobody; r++) {
        if (r - g->base >= g->ranks) {
            nobody = telpher_rma_gpu_load(&g->gone[r]) == TELPHER_RMA_GPU_RETURNED;
        } else if (r != rma->world_rank) {
            const telpher_rma_gpu_waiting *w =
                &g->parts[telpher_rma_gpu_domain(g, r)].waits[r];
            const uint32_t kind = telpher_rma_gpu_load(&w->kind);

            nobody = kind == TELPHER_RMA_GPU_RETURNED ||
                     (kind == TELPHER_RMA_GPU_IN_WAIT_ALWAYS &&
                      telpher_rma_gpu_load64(&w->since) < before);
        }
    }
    return nobody;
}

/* Checks now and then whether a wait without a deadline may continue: if every check
 * during a whole deadline finds no rank that could send, and all data in flight at
 * the first one has arrived long since, it may not. @p looks  successive checks
 * without a sender; @p last  time of the last one */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_look_for_senders(const telpher_rma *rma, uint32_t *looks,
                                 uint64_t *last, const char *where)
{
    enum { LOOKS = 4 };
    const uint64_t now = telpher_rma_gpu_clock();

    if (now - *last < telpher_rma_gpu_of(rma)->timeout_ns / LOOKS) {
        return TELPHER_OK;
    }
    *looks = telpher_rma_gpu_nobody_sends(rma, *last) ? *looks + 1 : 0;
    *last = now;
    return *looks <= LOOKS
               ? TELPHER_OK
               : telpher_rma_gpu_fail_at(rma, TELPHER_ERR_DEADLOCK, "wait", where);
}

/* The source of a wait that does not end at once; then takes the notification. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_wait_long(const telpher_rma *rma, uint32_t from, uint32_t tag,
                          uint32_t count, uint64_t timeout_ns, const char *where)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const uint32_t *sender = NULL; /* what it does */
    telpher_rma_gpu_waiting wait = {where,
                                    "wait",
                                    telpher_rma_gpu_clock(),
                                    timeout_ns == UINT64_MAX
                                        ? (uint32_t)TELPHER_RMA_GPU_IN_WAIT_ALWAYS
                                        : (uint32_t)TELPHER_RMA_GPU_IN_WAIT,
                                    tag,
                                    count,
                                    from,
                                    telpher_rma_gpu_taken(rma, tag)};
    telpher_status status = TELPHER_OK;
    uint64_t last = wait.since;
    uint32_t looks = 0;

    if (from != TELPHER_RMA_NO_RANK) {
        sender = from - g->base < g->ranks
                     ? &g->parts[telpher_rma_gpu_domain(g, from)].waits[from].kind
                     : &g->gone[from];
    }
    for (uint32_t polls = TELPHER_RMA_GPU_EAGER - 1; status == TELPHER_OK; polls++) {
        /* a sender whose kernel has returned sends no more; its state is read first */
        uint32_t gone =
            sender != NULL && polls % TELPHER_RMA_GPU_EAGER == 0 &&
            telpher_rma_gpu_acquire(sender, telpher_rma_gpu_state_of(rma)->domains) ==
                TELPHER_RMA_GPU_RETURNED;

        telpher_rma_gpu_look_for_mail(rma);
        if (wait.taken != telpher_rma_gpu_taken(rma, tag)) { /* small puts arrived */
            wait.taken = telpher_rma_gpu_taken(rma, tag);
            telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->taken, wait.taken);
        }
        if (telpher_rma_gpu_there(rma, tag, count)) {
            telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind,
                                  TELPHER_RMA_GPU_RUNS);
            telpher_rma_gpu_take(rma, tag, count);
            return TELPHER_OK;
        }
        status =
            gone ? telpher_rma_gpu_fail_at(rma, TELPHER_ERR_PEER_LOST, "wait", where)
                 : telpher_rma_gpu_look(rma, &wait, timeout_ns, polls);
        if (wait.kind == TELPHER_RMA_GPU_IN_WAIT_ALWAYS && status == TELPHER_OK) {
            status = telpher_rma_gpu_look_for_senders(rma, &looks, &last, where);
        }
    }
    if (status == TELPHER_ERR_TIMEOUT && timeout_ns != 0) { /* it no longer waits */
        telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind,
                              TELPHER_RMA_GPU_RUNS);
    }
    return status;
}

/* The rank of the world that a wait names, or TELPHER_RMA_NO_RANK; -1 if there is
 * none. */
TELPHER_RMA_GPU_SLOW_FN_ int64_t
telpher_rma_gpu_sender(const telpher_rma *rma, telpher_rma_comm comm, uint32_t from)
{
    telpher_rma_gpu_place place;

    if (comm == TELPHER_RMA_WORLD) {
        return from < rma->world_size ? (int64_t)from : -1;
    }
    return telpher_rma_gpu_find_rank(rma, comm, from, &place) == TELPHER_OK
               ? (int64_t)place.target
               : -1;
}

/* The slow path of all waits, one lane. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_wait_one(const telpher_rma *rma, telpher_rma_comm comm, uint32_t from,
                         uint32_t tag, uint32_t count, uint64_t timeout_ns,
                         const char *where)
{
    int64_t sender =
        from == TELPHER_RMA_NO_RANK ? from : telpher_rma_gpu_sender(rma, comm, from);

    if (tag >= rma->tags || sender < 0) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "wait", where);
    }
    return telpher_rma_gpu_wait_long(rma, (uint32_t)sender, tag, count, timeout_ns,
                                     where);
}

/* A notification that arrives soon is taken inline; the source is then only checked
 * for validity. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait(telpher_rma *rma, telpher_rma_comm comm, uint32_t from,
                     uint32_t tag, uint32_t count, uint64_t timeout_ns,
                     const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    __syncthreads();
    if (telpher_rma_gpu_lane() == 0) {
        const int known =
            tag < state->tags && (from == TELPHER_RMA_NO_RANK ||
                                  telpher_rma_gpu_sender(rma, comm, from) >= 0);

        telpher_rma_gpu_look_seldom(rma);
        const int mail = state->looks != 0;
        const int patient = timeout_ns - 1 >= TELPHER_RMA_GPU_SOON_NS; /* 0 as well */

        state->once = TELPHER_OK;
        if (!(known && !mail && patient &&
              telpher_rma_gpu_come_soon(rma, tag, count)) &&
            !(known && mail && telpher_rma_gpu_mail_comes(rma, tag, count))) {
            state->once = telpher_rma_gpu_wait_one(rma, comm, from, tag, count,
                                                   timeout_ns, where);
        }
    }
    __syncthreads();
    return state->once;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_wait_any_one(const telpher_rma *rma, const uint32_t *tags,
                             uint32_t tag_count, uint32_t *ret_tag, const char *where)
{
    telpher_rma_gpu_waiting wait = {
        where, "wait_any", telpher_rma_gpu_clock(), TELPHER_RMA_GPU_IN_WAIT_ANY,
        0,     tag_count,  TELPHER_RMA_NO_RANK,     0};
    telpher_status status =
        telpher_rma_gpu_failed(rma) ? TELPHER_ERR_CANCELED : TELPHER_OK;

    if (status == TELPHER_OK && (tag_count == 0 || tags == NULL)) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, "wait_any", where);
    }
    for (uint32_t i = 0; status == TELPHER_OK && i < tag_count; i++) {
        if (tags[i] >= rma->tags) {
            return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "wait_any", where);
        }
    }
    for (uint32_t polls = 0; status == TELPHER_OK; polls++) {
        telpher_rma_gpu_look_for_mail(rma);
        for (uint32_t i = 0; i < tag_count; i++) {
            if (telpher_rma_gpu_there(rma, tags[i], 1)) {
                *ret_tag = tags[i];
                telpher_rma_gpu_take(rma, tags[i], 1);
                if (polls >= TELPHER_RMA_GPU_EAGER) {
                    telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind,
                                          TELPHER_RMA_GPU_RUNS);
                }
                return TELPHER_OK;
            }
        }
        wait.tag = tags[0];
        wait.taken = telpher_rma_gpu_taken(rma, tags[0]);
        status = telpher_rma_gpu_look(rma, &wait, 0, polls);
    }
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait_any(telpher_rma *rma, const uint32_t *tags, uint32_t tag_count,
                         uint32_t *ret_tag, const char *where)
{
    __shared__ uint32_t tag;

    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_wait_any_one(rma, tags, tag_count, &tag, where));
    if (status == TELPHER_OK) {
        *ret_tag = tag;
    }
    return status;
}

#endif
