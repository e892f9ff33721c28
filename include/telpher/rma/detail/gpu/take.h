/* SPDX-License-Identifier: Apache-2.0 */
/* Tests and waits for notifications on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DETAIL_GPU_TAKE_H
#define TELPHER_RMA_DETAIL_GPU_TAKE_H

#include <cuda_runtime.h>

/* How many notifications of a tag this rank has taken; cached for the first tags. */
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

/* How many notifications of a counter were sent after mail, at the last check. Of
 * tags that are not cached, always checked. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_behind(const telpher_rma *rma, uint32_t tag)
{
    return tag < TELPHER_RMA_GPU_TAGS ? telpher_rma_gpu_state_of(rma)->behind[tag] : 0;
}

/* Ends a successful wait: the data that the counter covers is readable, and mail
 * sent before it was taken, from any sender, because the signal may lag behind. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_counted(const telpher_rma *rma, uint32_t tag, uint64_t seen)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint32_t behind = (uint32_t)(seen / TELPHER_RMA_GPU_BEHIND);

    telpher_rma_gpu_seen(state->domains);
    if (behind != telpher_rma_gpu_behind(rma, tag)) {
        if (state->signal != NULL) { /* without small puts the lower half has wrapped */
            telpher_rma_gpu_take_all_mail(rma);
        }
        if (tag < TELPHER_RMA_GPU_TAGS) {
            state->behind[tag] = behind;
        }
    }
}

/* Whether the counter holds so many notifications of a tag. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_there(const telpher_rma *rma, uint32_t tag, uint32_t count)
{
    uint64_t seen = telpher_rma_gpu_load64(&telpher_rma_gpu_state_of(rma)->counts[tag]);

    if ((uint32_t)seen - telpher_rma_gpu_taken(rma, tag) < count) {
        return 0;
    }
    telpher_rma_gpu_counted(rma, tag, seen);
    return 1;
}

/* Takes so many notifications of a tag if they arrive soon and no mail is in use:
 * data over PCIe, or long data, takes about that long. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_come_soon(const telpher_rma *rma, uint32_t tag, uint32_t count)
{
    const uint64_t *at = &telpher_rma_gpu_state_of(rma)->counts[tag];
    const uint32_t taken = telpher_rma_gpu_taken(rma, tag);
    uint64_t seen;

#pragma unroll 1
    for (uint32_t polls = 0; polls < TELPHER_RMA_GPU_SOON; polls++) {
        seen = telpher_rma_gpu_load64(at);
        if ((uint32_t)seen - taken >= count) {
            telpher_rma_gpu_seen(telpher_rma_gpu_state_of(rma)->domains);
            telpher_rma_gpu_have_taken(rma, tag, taken + count);
            return 1;
        }
    }
    return 0;
}

/* The same if mail may arrive, from any sender and of any tag. */
TELPHER_RMA_GPU_SLOW_FN_ int
telpher_rma_gpu_mail_soon(const telpher_rma *rma, uint32_t tag, uint32_t count,
                          telpher_rma_gpu_inbox *in)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint64_t *at = &state->counts[tag];

#pragma unroll 1
    for (uint32_t polls = 0; polls < TELPHER_RMA_GPU_EAGER; polls++) {
        uint64_t seen = telpher_rma_gpu_load64(at), value, meta;

        if (in != NULL) {
            telpher_rma_gpu_load_both(in->next, &value, &meta);
            if (telpher_rma_gpu_mail_is(meta, in->taken)) {
                telpher_rma_gpu_unpack(rma, in, value, meta);
            }
        }
        if ((uint32_t)seen - telpher_rma_gpu_taken(rma, tag) >= count) {
            telpher_rma_gpu_counted(rma, tag, seen);
            telpher_rma_gpu_take(rma, tag, count);
            return 1;
        }
        telpher_rma_gpu_look_for_some(rma);
    }
    return 0;
}

/* Prepares a wait: the slots of the rank that sent the tag last, or NULL. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_rma_gpu_inbox *
telpher_rma_gpu_mail_expected(const telpher_rma *rma, uint32_t tag)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_inbox *in = NULL;

    if (tag < TELPHER_RMA_GPU_TAGS && state->guess[tag] != 0) {
        in = telpher_rma_gpu_inbox_of(rma, state->guess[tag] - 1u);
        telpher_rma_gpu_tell_soon(in);
    }
    return in;
}

/* The same as come_soon() if mail may arrive. For the expected message only stores
 * are left to do. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_mail_comes(const telpher_rma *rma, uint32_t tag, uint32_t count)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (telpher_rma_gpu_there(rma, tag, count)) {
        telpher_rma_gpu_take(rma, tag, count);
        return 1;
    }

    telpher_rma_gpu_inbox *in = telpher_rma_gpu_mail_expected(rma, tag);
    const telpher_rma_gpu_inbox box = in != NULL ? *in : telpher_rma_gpu_inbox{};
    const uint64_t *at = &state->counts[tag], *signal = &state->signal->count,
                   mailed = state->mailed;
    const uint64_t *slot = in != NULL ? box.next : signal;
    const uint32_t taken = telpher_rma_gpu_taken(rma, tag), answered = state->answered,
                   behind = telpher_rma_gpu_behind(rma, tag);
    uint32_t *senders = state->senders;
    uint64_t seen, value, meta, signaled, asked;
    int came = 0;

#pragma unroll 1
    for (uint32_t polls = 0; polls < TELPHER_RMA_GPU_EAGER / 2; polls++) {
        telpher_rma_gpu_load_both(slot, &value, &meta);
        seen = telpher_rma_gpu_load64(at);
        telpher_rma_gpu_load_both(signal, &signaled, &asked);
        came = (in != NULL) & telpher_rma_gpu_mail_is(meta, box.taken);
        if (came | ((uint32_t)seen - taken >= count) |
            telpher_rma_gpu_is_signaled(signaled, mailed) |
            ((uint32_t)asked != answered)) {
            break;
        }
    }
    if (came & (telpher_rma_gpu_mail_tag(meta) == tag) &
        ((uint32_t)seen - taken == count - 1) &
        ((uint32_t)(seen / TELPHER_RMA_GPU_BEHIND) == behind)) {
        telpher_rma_gpu_seen(state->domains);
        telpher_rma_gpu_mail_write(value, meta);
        in->taken = box.taken + 1;
        in->next = box.slots + (box.taken + 1) % TELPHER_RMA_GPU_DEPTH * 2;
        state->mailed = mailed + telpher_rma_gpu_signal_of(box.source);
        state->taken[tag] = taken + count - 1;
        senders[tag] = box.source + 1;
        return 1;
    }
    if (((uint32_t)seen - taken >= count) &
        ((uint32_t)(seen / TELPHER_RMA_GPU_BEHIND) == behind)) {
        telpher_rma_gpu_seen(state->domains);
        telpher_rma_gpu_have_taken(rma, tag, taken + count);
        return 1;
    }
    return telpher_rma_gpu_mail_soon(rma, tag, count, in);
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

#endif
