/* SPDX-License-Identifier: Apache-2.0 */
/* Tests and waits for notifications on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DEVICE_CUDA_TAKE_H
#define TELPHER_RMA_DEVICE_CUDA_TAKE_H

#include <cuda_runtime.h>

/* How many notifications of a tag this rank has taken. */
TELPHER_RMA_GPU_FN_ uint32_t *
telpher_rma_gpu_taken(const telpher_rma *rma, uint32_t tag)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    return tag < TELPHER_RMA_GPU_TAGS ? &state->taken[tag] : &state->taken_more[tag];
}

/* Whether so many notifications of a tag are there, by the counter and in the slots of the
 * rank that sent the tag last. Both are looked at at once. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_there_guessed(const telpher_rma *rma, uint32_t tag, uint32_t count,
                              uint32_t guess)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint32_t *taken = telpher_rma_gpu_taken(rma, tag), few = 0, got;
    const uint32_t *at = &state->counts[tag];
    uint32_t seen = telpher_rma_gpu_load(at);

    while (few < count && (got = telpher_rma_gpu_take_mail(rma, guess - 1)) != 0) {
        few += got == tag + 1;
    }
    if (few >= count && count != 0) {
        return 1;
    }
    return seen - *taken >= count &&
           telpher_rma_gpu_acquire(at, state->domains) - *taken >= count;
}

/* Whether so many of a tag are there; what else comes in slots is looked for now and then. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_there(const telpher_rma *rma, uint32_t tag, uint32_t count,
                      uint32_t polls)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint32_t guess = tag < TELPHER_RMA_GPU_TAGS ? state->guess[tag] : 0;

    if (guess != 0 ? telpher_rma_gpu_there_guessed(rma, tag, count, guess)
                   : telpher_rma_gpu_acquire(&state->counts[tag], state->domains) -
                             *telpher_rma_gpu_taken(rma, tag) >=
                         count) {
        return 1;
    }
    if (polls % 4 == 3) {
        telpher_rma_gpu_look_for_mail(rma);
    }
    return 0;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_test_one(const telpher_rma *rma, uint32_t tag, uint32_t count,
                         const char *where)
{
    int failed = telpher_rma_gpu_failed(rma);
    uint32_t *taken;

    if (tag >= rma->tags) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "test", where);
    }
    taken = telpher_rma_gpu_taken(rma, tag);
    if (!telpher_rma_gpu_there(rma, tag, count, 3)) {
        return failed ? TELPHER_ERR_CANCELED : TELPHER_ERR_AGAIN;
    }
    *taken += count;
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_test(telpher_rma *rma, uint32_t tag, uint32_t count, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_test_one(rma, tag, count, where));
    return status;
}

/* What a wait is for, looked at when it does not end at once. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_wait_long(const telpher_rma *rma, uint32_t from,
                          telpher_rma_gpu_waiting *wait, uint64_t timeout_ns)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const uint32_t *at = &telpher_rma_gpu_state_of(rma)->counts[wait->tag];
    const uint32_t *sender = NULL; /* 4: it has returned */
    telpher_status status = TELPHER_OK;

    if (from != TELPHER_RMA_NO_RANK) {
        wait->from = from;
        sender = from - g->base < g->ranks
                     ? &g->parts[telpher_rma_gpu_domain(g, from)].waits[from].kind
                     : &g->gone[from];
    }
    for (uint32_t polls = TELPHER_RMA_GPU_EAGER - 1; status == TELPHER_OK; polls++) {
        /* a sender whose kernel has returned sends no more; its state is looked at first */
        uint32_t gone = sender != NULL && polls % TELPHER_RMA_GPU_EAGER == 0 &&
                        telpher_rma_gpu_acquire(
                            sender, telpher_rma_gpu_state_of(rma)->domains) == 4;

        telpher_rma_gpu_look_for_mail(rma);
        wait->taken = *telpher_rma_gpu_taken(rma, wait->tag);
        if (telpher_rma_gpu_load(at) - wait->taken >= wait->count) {
            telpher_rma_gpu_waited(rma, at, polls + 1);
            return TELPHER_OK;
        }
        status = gone ? telpher_rma_gpu_fail_at(rma, TELPHER_ERR_PEER_LOST, "wait",
                                                wait->where)
                      : telpher_rma_gpu_look(rma, wait, timeout_ns, polls);
    }
    return status;
}

/* The rank of the world that a wait names, or TELPHER_RMA_NO_RANK; -1 if there is none. */
TELPHER_RMA_GPU_FN_ int64_t
telpher_rma_gpu_sender(const telpher_rma *rma, telpher_rma_comm comm, uint32_t from)
{
    telpher_rma_gpu_place place;

    if (from == TELPHER_RMA_NO_RANK) {
        return from;
    }
    if (comm == TELPHER_RMA_WORLD) {
        return from < rma->world_size ? (int64_t)from : -1;
    }
    return telpher_rma_gpu_find_rank(rma, comm, from, &place) == TELPHER_OK
               ? (int64_t)place.target
               : -1;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait_one(const telpher_rma *rma, telpher_rma_comm comm, uint32_t from,
                         uint32_t tag, uint32_t count, uint64_t timeout_ns,
                         const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    int64_t sender = telpher_rma_gpu_sender(rma, comm, from);
    uint64_t since = telpher_rma_gpu_clock();
    telpher_status status = TELPHER_OK;
    uint32_t *taken, polls;

    if (tag >= rma->tags || sender < 0) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "wait", where);
    }
    taken = telpher_rma_gpu_taken(rma, tag);
    if (++state->waits % 16 == 0) { /* somebody may ask, and others wait for this one */
        telpher_rma_gpu_look_for_mail(rma);
    }
    for (polls = 0; polls < TELPHER_RMA_GPU_EAGER; polls++) {
        if (telpher_rma_gpu_there(rma, tag, count, polls)) {
            break;
        }
    }
    if (polls == TELPHER_RMA_GPU_EAGER) {
        telpher_rma_gpu_waiting wait = {
            where, "wait", since, 1, tag, count, TELPHER_RMA_NO_RANK, *taken};

        status = telpher_rma_gpu_wait_long(rma, (uint32_t)sender, &wait, timeout_ns);
    }
    *taken += status == TELPHER_OK ? count : 0;
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait(telpher_rma *rma, telpher_rma_comm comm, uint32_t from,
                     uint32_t tag, uint32_t count, uint64_t timeout_ns,
                     const char *where)
{
    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_wait_one(rma, comm, from, tag, count, timeout_ns, where));
    return status;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_wait_any_one(const telpher_rma *rma, const uint32_t *tags,
                             uint32_t tag_count, uint32_t *ret_tag, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_waiting wait = {where, "wait_any", telpher_rma_gpu_clock(), 2,
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
            const uint32_t *at = &state->counts[tags[i]];
            uint32_t *taken = telpher_rma_gpu_taken(rma, tags[i]);

            if (telpher_rma_gpu_poll(rma, at, polls) != *taken) {
                *ret_tag = tags[i];
                telpher_rma_gpu_waited(rma, at, polls);
                *taken += 1;
                return TELPHER_OK;
            }
        }
        wait.tag = tags[0];
        wait.taken = *telpher_rma_gpu_taken(rma, tags[0]);
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
