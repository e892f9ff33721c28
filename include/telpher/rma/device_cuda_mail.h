/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small puts between GPUs, for launches that want them so (TELPHER_RMA_SLOTS=1); part of
 * rma/device_cuda.h. Up to 8 bytes and their notification go in one store of 16 bytes to a
 * slot of the target's, which writes the bytes where they belong when it looks. So no fence
 * for the system stands between the two.
 *
 * Each pair of ranks has a ring of slots; the target says now and then how many it has
 * taken, and when it is asked. It looks while it waits: at the sender that sent the tag
 * last, and at all that rang when its bell has rung more often than it took. What a rank
 * puts a target otherwise, it does when its slots there are taken; before a barrier or the
 * kernel's end all are. So nothing passes a slot by, and ranks go on looking until all have
 * come to their end.
 *
 * Everything here is done by one lane.
 */
#ifndef TELPHER_RMA_DEVICE_CUDA_MAIL_H
#define TELPHER_RMA_DEVICE_CUDA_MAIL_H

#include <cuda_runtime.h>

/* A slot's second half: where the bytes go, the tag, how many, and the number's rest, which is
 * never 0 and not that of the slot's message before. */
enum {
    TELPHER_RMA_GPU_MAIL_TAG = 48,
    TELPHER_RMA_GPU_MAIL_LEN = 56,
    TELPHER_RMA_GPU_MAIL_NUMBER = 60,
    TELPHER_RMA_GPU_MAIL_RING = 40 /* in a bell: messages above, sums of ranks below */
};

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_mail_number(uint32_t number)
{
    return (uint64_t)(number % 15 + 1) << TELPHER_RMA_GPU_MAIL_NUMBER;
}

TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_mail_is(uint64_t meta, uint32_t number)
{
    return (meta ^ telpher_rma_gpu_mail_number(number)) >>
               TELPHER_RMA_GPU_MAIL_NUMBER ==
           0;
}

/* What a message adds to its target's bell: one, and who. So when one message is there that
 * was not taken, the difference says whose it is. */
TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_ring_of(uint32_t source)
{
    return ((uint64_t)1 << TELPHER_RMA_GPU_MAIL_RING) + source + 1;
}

/* ---- the target ---- */

/* Says how many of a source's were taken, behind what was written of them. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_tell(telpher_rma_gpu_inbox *in)
{
    telpher_rma_gpu_fence_near();
    telpher_rma_gpu_store(in->credit, in->taken);
    in->told = in->taken;
}

TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_tell_all(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    for (int i = 0; i < TELPHER_RMA_GPU_BOXES; i++) {
        if (state->in[i].taken != state->in[i].told) {
            telpher_rma_gpu_tell(&state->in[i]);
        }
    }
}

/* The same behind a fence that was for something else. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_tell_owed(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->owed != NULL) {
        telpher_rma_gpu_store(state->owed->credit, state->owed->taken);
        state->owed->told = state->owed->taken;
        state->owed = NULL;
    }
}

/* Another source's takes its box's place: what is at hand comes from the GPU's memory. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_change_inbox(const telpher_rma *rma, telpher_rma_gpu_inbox *in,
                             uint32_t source)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_part *mine = &g->parts[telpher_rma_gpu_state_of(rma)->domain];
    const telpher_rma_gpu_part *other = &g->parts[telpher_rma_gpu_domain(g, source)];
    uint64_t pair = (uint64_t)rma->world_rank * g->ranks + source;

    if (in->taken != in->told) {
        telpher_rma_gpu_tell(in);
    }
    if (telpher_rma_gpu_state_of(rma)->owed == in) {
        telpher_rma_gpu_state_of(rma)->owed = NULL;
    }
    if (in->source != TELPHER_RMA_NO_RANK) {
        *in->taken_at = in->taken;
    }
    in->source = source;
    in->slots = mine->mail + pair * TELPHER_RMA_GPU_DEPTH * 2;
    in->taken_at = &mine->mail_taken[pair];
    in->taken = in->told = *in->taken_at;
    in->credit = &other->credits[(uint64_t)source * g->ranks + rma->world_rank];
}

/* Takes the next message of a source. @return its tag and 1; 0 if there is none */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_take_mail(const telpher_rma *rma, uint32_t source)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_inbox *in = &state->in[source % TELPHER_RMA_GPU_BOXES];
    uint64_t value, meta;
    uint32_t tag;

    if (in->source != source) {
        telpher_rma_gpu_change_inbox(rma, in, source);
    }
    telpher_rma_gpu_slot_read(in->slots + in->taken % TELPHER_RMA_GPU_DEPTH * 2,
                              state->domains, &value, &meta);
    if (!telpher_rma_gpu_mail_is(meta, in->taken)) {
        return 0;
    }
    tag = (uint32_t)(meta >> TELPHER_RMA_GPU_MAIL_TAG) & 255;
    telpher_rma_gpu_write_few(
        (uint8_t *)(meta & (((uint64_t)1 << TELPHER_RMA_GPU_MAIL_TAG) - 1)), value,
        (uint32_t)(meta >> TELPHER_RMA_GPU_MAIL_LEN) & 15);
    in->taken++;
    state->mailed += telpher_rma_gpu_ring_of(source);
    state->taken[tag]--; /* one more is there than the counter says */
    state->guess[tag] = (uint16_t)(source + 1);
    state->senders[tag] = source + 1;
    if (in->taken - in->told >= TELPHER_RMA_GPU_DEPTH / 2) {
        state->owed = in; /* with the next fence there is, if there is one in time */
        if (in->taken - in->told >= TELPHER_RMA_GPU_DEPTH - 1) {
            telpher_rma_gpu_tell(in);
        }
    }
    return tag + 1;
}

/* How many messages of source @p source were taken, wherever that is. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_taken_of(const telpher_rma *rma, uint32_t source)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const telpher_rma_gpu_inbox *in = &state->in[source % TELPHER_RMA_GPU_BOXES];

    return in->source == source
               ? in->taken
               : g->parts[state->domain]
                     .mail_taken[(uint64_t)rma->world_rank * g->ranks + source];
}

/* All that has come, from whomever; some loads are under way at once. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_take_all_mail(const telpher_rma *rma)
{
    enum { N = 4 };
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const uint64_t *mail =
        g->parts[telpher_rma_gpu_state_of(rma)->domain].mail +
        (uint64_t)rma->world_rank * g->ranks * TELPHER_RMA_GPU_DEPTH * 2;

    for (uint32_t first = 0; first < g->ranks; first += N) {
        uint32_t taken[N];
        uint64_t meta[N];

#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            uint32_t source = first + i < g->ranks ? first + i : first;

            taken[i] = telpher_rma_gpu_taken_of(rma, source);
        }
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            uint64_t source = first + i < g->ranks ? first + i : first;

            meta[i] = telpher_rma_gpu_load64(
                mail +
                (source * TELPHER_RMA_GPU_DEPTH + taken[i] % TELPHER_RMA_GPU_DEPTH) *
                    2 +
                1);
        }
        for (uint32_t i = 0; i < N && first + i < g->ranks; i++) {
            if (telpher_rma_gpu_mail_is(meta[i], taken[i])) {
                while (telpher_rma_gpu_take_mail(rma, first + i) != 0) {
                }
            }
        }
    }
}

/* Takes what the bell says is there, @p bell as it was. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_answer(const telpher_rma *rma, uint64_t bell)
{
    uint64_t more = bell - telpher_rma_gpu_state_of(rma)->mailed;
    int64_t count = (int64_t)more >> TELPHER_RMA_GPU_MAIL_RING;

    if (count == 1) {
        uint32_t source =
            (uint32_t)(more & (((uint64_t)1 << TELPHER_RMA_GPU_MAIL_RING) - 1)) - 1;

        if (source < rma->world_size) {
            while (telpher_rma_gpu_take_mail(rma, source) != 0) {
            }
            return;
        }
    }
    if (count > 0) { /* else some were taken before they rang */
        telpher_rma_gpu_take_all_mail(rma);
    }
}

/* Looks whether there is any, and whether somebody asks. For all loops that wait. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_look_for_mail(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint64_t bell;
    uint32_t asked;

    if (state->bell == NULL) {
        return;
    }
    bell = telpher_rma_gpu_load64(&state->bell->rung);
    asked = telpher_rma_gpu_load(&state->bell->asked);
    if (bell != state->mailed) {
        telpher_rma_gpu_answer(rma, bell);
    }
    if (asked != state->answered) {
        state->answered = asked;
        telpher_rma_gpu_tell_all(rma);
    }
}

/* ---- the sender ---- */

/* Waits until a target has taken all but @p but of what this rank sent it. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_settle(const telpher_rma *rma, telpher_rma_gpu_outbox *out,
                       uint32_t but, const char *call, const char *where)
{
    telpher_rma_gpu_waiting wait = {where,       call, telpher_rma_gpu_clock(), 5,
                                    out->target, 0,    TELPHER_RMA_NO_RANK,     0};
    telpher_status status = TELPHER_OK;
    uint32_t polls = 0;

    while (status == TELPHER_OK) {
        out->acked = telpher_rma_gpu_load(out->credit);
        if (out->sent - out->acked <= but) {
            telpher_rma_gpu_waited(rma, out->credit, polls);
            return TELPHER_OK;
        }
        if (polls % 16 == 0) { /* it may answer before it has taken all */
            telpher_rma_gpu_add_one(&out->bell->asked,
                                    telpher_rma_gpu_state_of(rma)->domains);
        }
        telpher_rma_gpu_look_for_mail(rma);
        status = telpher_rma_gpu_look(rma, &wait, 0, polls++);
    }
    return status;
}

/* The same for all targets. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_settle_all(const telpher_rma *rma, const char *call, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_status status = TELPHER_OK;

    if (!state->under_way) {
        return TELPHER_OK;
    }
    for (int i = 0; i < TELPHER_RMA_GPU_BOXES && status == TELPHER_OK; i++) {
        telpher_rma_gpu_outbox *out = &state->out[i];

        if (out->sent != out->acked) {
            status = telpher_rma_gpu_settle(rma, out, 0, call, where);
        }
    }
    state->under_way = status != TELPHER_OK;
    return status;
}

/* Whether a target may have something of this rank's that it has not taken. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_unsettled(const telpher_rma *rma, uint32_t target)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const telpher_rma_gpu_outbox *out = &state->out[target % TELPHER_RMA_GPU_BOXES];

    return state->under_way && out->target == target && out->sent != out->acked;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_settle_one(const telpher_rma *rma, uint32_t target, const char *call,
                           const char *where)
{
    return telpher_rma_gpu_unsettled(rma, target)
               ? telpher_rma_gpu_settle(rma,
                                        &telpher_rma_gpu_state_of(rma)
                                             ->out[target % TELPHER_RMA_GPU_BOXES],
                                        0, call, where)
               : TELPHER_OK;
}

/* The box for a target; NULL when it is another's that has not taken everything. */
TELPHER_RMA_GPU_FN_ telpher_rma_gpu_outbox *
telpher_rma_gpu_outbox_of(const telpher_rma *rma, const telpher_rma_gpu_place *place)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_outbox *out = &state->out[place->target % TELPHER_RMA_GPU_BOXES];
    uint64_t pair = (uint64_t)rma->world_rank * g->ranks + place->target;
    const telpher_rma_gpu_part *part;

    if (out->target == place->target) {
        return out;
    }
    if (out->sent != out->acked) {
        out->acked = telpher_rma_gpu_load(out->credit);
        if (out->sent != out->acked) {
            return NULL;
        }
    }
    part = &g->parts[telpher_rma_gpu_domain(g, place->target)];
    out->target = place->target;
    out->credit = &g->parts[state->domain].credits[pair];
    out->sent = out->acked = telpher_rma_gpu_load(out->credit); /* all was taken */
    out->bell = &part->bells[place->target];
    out->slots = part->mail + ((uint64_t)place->target * g->ranks + rma->world_rank) *
                                  TELPHER_RMA_GPU_DEPTH * 2;
    return out;
}

/* Sends @p len bytes, 0 to 8, to @p at of the target's and notifies. @return 0 if that is
 * not possible, and nothing was done; else *ret_status says how it went. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_mail(const telpher_rma *rma, const telpher_rma_gpu_place *place,
                     uint32_t tag, const uint8_t *at, uint64_t value, uint32_t len,
                     const char *call, const char *where, telpher_status *ret_status)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_outbox *out;

    if (state->bell == NULL || !place->far || state->dirty ||
        tag >= TELPHER_RMA_GPU_TAGS || (uint64_t)at >> TELPHER_RMA_GPU_MAIL_TAG != 0) {
        return 0;
    }
    out = telpher_rma_gpu_outbox_of(rma, place);
    if (out == NULL) {
        return 0;
    }
    *ret_status = TELPHER_OK;
    if (out->sent - out->acked >= TELPHER_RMA_GPU_DEPTH) {
        *ret_status =
            telpher_rma_gpu_settle(rma, out, TELPHER_RMA_GPU_DEPTH - 1, call, where);
        if (*ret_status != TELPHER_OK) {
            return 1;
        }
    }
    telpher_rma_gpu_fence_near(); /* what lanes wrote before, as in telpher_rma_gpu_count() */
    telpher_rma_gpu_slot_write(
        out->slots + out->sent % TELPHER_RMA_GPU_DEPTH * 2, value,
        (uint64_t)at | (uint64_t)tag << TELPHER_RMA_GPU_MAIL_TAG |
            (uint64_t)len << TELPHER_RMA_GPU_MAIL_LEN |
            telpher_rma_gpu_mail_number(out->sent));
    telpher_rma_gpu_add64(&out->bell->rung, telpher_rma_gpu_ring_of(rma->world_rank));
    out->sent++;
    state->under_way = 1;
    telpher_rma_gpu_tell_owed(rma);
    return 1;
}

#endif
