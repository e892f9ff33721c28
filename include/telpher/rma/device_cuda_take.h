/* SPDX-License-Identifier: Apache-2.0 */
/* Tests and waits for notifications on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DEVICE_CUDA_TAKE_H
#define TELPHER_RMA_DEVICE_CUDA_TAKE_H

#include <cuda_runtime.h>

/* How many notifications of a tag this rank has taken. Of the first tags that is at hand. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_taken(const telpher_rma *rma, uint32_t tag)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    return tag < TELPHER_RMA_GPU_TAGS ? state->taken[tag] : state->taken_more[tag];
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_have_taken(const telpher_rma *rma, uint32_t tag, uint32_t taken)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (tag < TELPHER_RMA_GPU_TAGS) {
        state->taken[tag] = taken;
    } else {
        state->taken_more[tag] = taken;
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_take(const telpher_rma *rma, uint32_t tag, uint32_t count)
{
    telpher_rma_gpu_have_taken(rma, tag, telpher_rma_gpu_taken(rma, tag) + count);
}

/* Behind a counter that has what was waited for: what it tells of can be read, and mail that
 * was sent before is taken. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_counted(const telpher_rma *rma, uint64_t seen)
{
    telpher_rma_gpu_seen(telpher_rma_gpu_state_of(rma)->domains);
    if (seen >= TELPHER_RMA_GPU_BEHIND) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

/* Whether so many of a tag are there, as the counter says. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_there(const telpher_rma *rma, uint32_t tag, uint32_t count)
{
    uint64_t seen =
        telpher_rma_gpu_look_at(&telpher_rma_gpu_state_of(rma)->counts[tag]);

    if ((uint32_t)seen - telpher_rma_gpu_taken(rma, tag) < count) {
        return 0;
    }
    telpher_rma_gpu_counted(rma, seen);
    return 1;
}

/* Takes so many of a tag if they come within a few looks, where no mail comes. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_come_soon(const telpher_rma *rma, uint32_t tag, uint32_t count)
{
    const uint64_t *at = &telpher_rma_gpu_state_of(rma)->counts[tag];
    const uint32_t taken = telpher_rma_gpu_taken(rma, tag);
    uint64_t seen;
#if TELPHER_RMA_GPU_POLLS_AT_ONCE > 1
    uint64_t next = telpher_rma_gpu_look_at(at);
#endif

#pragma unroll 1
    for (uint32_t polls = 0; polls < TELPHER_RMA_GPU_EAGER; polls++) {
#if TELPHER_RMA_GPU_POLLS_AT_ONCE > 1
        seen = next;
        next = telpher_rma_gpu_look_at(at);
#else
        seen = telpher_rma_gpu_look_at(at);
#endif
        if ((uint32_t)seen - taken >= count) {
            telpher_rma_gpu_seen(telpher_rma_gpu_state_of(rma)->domains);
            telpher_rma_gpu_have_taken(rma, tag, taken + count);
            return 1;
        }
    }
    return 0;
}

/* The same where mail may come: looks at the counter and in the slots of the rank that sent the
 * tag last, both at once, and elsewhere now and then. */
TELPHER_RMA_GPU_SLOW_FN_ int
telpher_rma_gpu_mail_soon(const telpher_rma *rma, uint32_t tag, uint32_t count)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint64_t *at = &state->counts[tag], *slot = at;
    telpher_rma_gpu_inbox *in = NULL;
    uint64_t seen, value = 0, meta = 0;

    if (tag < TELPHER_RMA_GPU_TAGS && state->guess[tag] != 0) {
        in = telpher_rma_gpu_inbox_of(rma, state->guess[tag] - 1u);
        slot = telpher_rma_gpu_next_slot(in);
    }
#pragma unroll 1
    for (uint32_t polls = 0; polls < TELPHER_RMA_GPU_EAGER; polls++) {
        seen = telpher_rma_gpu_look_at(at);
        if (in != NULL) {
            telpher_rma_gpu_load_both(slot, &value, &meta);
            if (telpher_rma_gpu_mail_is(meta, in->taken)) {
                telpher_rma_gpu_unpack(rma, in, value, meta);
                slot = telpher_rma_gpu_next_slot(in);
            }
        }
        if ((uint32_t)seen - telpher_rma_gpu_taken(rma, tag) >= count) {
            telpher_rma_gpu_counted(rma, seen);
            telpher_rma_gpu_take(rma, tag, count);
            return 1;
        }
        if (polls % 8 == 7 || (in == NULL && polls % 2 == 1)) {
            telpher_rma_gpu_look_for_some(rma);
            slot = in != NULL ? telpher_rma_gpu_next_slot(in) : at;
        }
    }
    return 0;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_test_one(const telpher_rma *rma, uint32_t tag, uint32_t count,
                         const char *where)
{
    int failed = telpher_rma_gpu_failed(rma);

    if (tag >= rma->tags) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "test", where);
    }
    telpher_rma_gpu_look_for_mail(rma);
    if (!telpher_rma_gpu_there(rma, tag, count)) {
        return failed ? TELPHER_ERR_CANCELED : TELPHER_ERR_AGAIN;
    }
    telpher_rma_gpu_take(rma, tag, count);
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_test(telpher_rma *rma, uint32_t tag, uint32_t count, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_test_one(rma, tag, count, where));
    return status;
}

/* What a wait is for, looked at when it does not end at once, and taken. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_wait_long(const telpher_rma *rma, uint32_t from, uint32_t tag,
                          uint32_t count, uint64_t timeout_ns, const char *where)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const uint32_t *sender = NULL; /* 4: it has returned */
    telpher_rma_gpu_waiting wait = {
        where, "wait", telpher_rma_gpu_clock(),        1, tag,
        count, from,   telpher_rma_gpu_taken(rma, tag)};
    telpher_status status = TELPHER_OK;

    if (from != TELPHER_RMA_NO_RANK) {
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
        wait.taken = telpher_rma_gpu_taken(rma, tag);
        if (telpher_rma_gpu_there(rma, tag, count)) {
            telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind, 0);
            telpher_rma_gpu_take(rma, tag, count);
            return TELPHER_OK;
        }
        status =
            gone ? telpher_rma_gpu_fail_at(rma, TELPHER_ERR_PEER_LOST, "wait", where)
                 : telpher_rma_gpu_look(rma, &wait, timeout_ns, polls);
    }
    return status;
}

/* The rank of the world that a wait names, or TELPHER_RMA_NO_RANK; -1 if there is none. */
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

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait_one(const telpher_rma *rma, telpher_rma_comm comm, uint32_t from,
                         uint32_t tag, uint32_t count, uint64_t timeout_ns,
                         const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    int64_t sender =
        from == TELPHER_RMA_NO_RANK ? from : telpher_rma_gpu_sender(rma, comm, from);
    int came;

    if (tag >= rma->tags || sender < 0) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "wait", where);
    }
    if (state->bell == NULL) {
        came = telpher_rma_gpu_come_soon(rma, tag, count);
    } else {
        if (++state->waits % 16 ==
            0) { /* somebody may ask, and others wait for this one */
            telpher_rma_gpu_look_for_some(rma);
        }
        came = telpher_rma_gpu_mail_soon(rma, tag, count);
    }
    return came ? TELPHER_OK
                : telpher_rma_gpu_wait_long(rma, (uint32_t)sender, tag, count,
                                            timeout_ns, where);
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
            if (telpher_rma_gpu_there(rma, tags[i], 1)) {
                *ret_tag = tags[i];
                telpher_rma_gpu_take(rma, tags[i], 1);
                if (polls >= TELPHER_RMA_GPU_EAGER) {
                    telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind, 0);
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
