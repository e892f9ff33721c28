/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small puts between GPUs, but with TELPHER_RMA_SLOTS=0; part of rma/device_cuda.h. Up to 8 bytes and their notification go in one store of 16 bytes to a
 * slot of the target's, which writes the bytes where they belong when it looks. So no fence
 * for the system stands between the two.
 *
 * Each pair of ranks has a ring of slots; the target says now and then how many it has
 * taken, and when it is asked. Nobody looks who was not asked to, by a first small put that
 * went otherwise; so programs without any pay nothing. Who looks does so while it waits: at
 * the sender that sent the tag last, and at all that rang when its bell has rung more often
 * than it took.
 *
 * Nothing passes a slot by: while some of a rank's may not be taken, what it puts otherwise
 * is behind a fence for the system, and its notification goes in a slot of no bytes. Where
 * there is none left the count says so; who sees it in there takes all mail before it goes
 * on. Only an access to bytes that a slot writes waits until that was taken, as do a flush, a
 * barrier and the kernel's end; ranks look until all have come to theirs.
 *
 * Everything here is done by one lane.
 */
#ifndef TELPHER_RMA_DETAIL_DEVICE_CUDA_MAIL_H
#define TELPHER_RMA_DETAIL_DEVICE_CUDA_MAIL_H

#include <cuda_runtime.h>

/* A slot's second half: where the bytes go, the tag, how many, and the message's round. */
enum {
    TELPHER_RMA_GPU_MAIL_TAG = 48,
    TELPHER_RMA_GPU_MAIL_LEN = 56,
    TELPHER_RMA_GPU_MAIL_ROUND = 60,
    TELPHER_RMA_GPU_MAIL_RING = 40 /* in a bell: messages above, sums of ranks below */
};
#define TELPHER_RMA_GPU_BEHIND ((uint64_t)1 << 32) /* in a count */

/* 4 bits of which time round the slots message @p number goes: never 0, and another than that of
 * the slot's message before, also where numbers wrap. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_mail_round(uint32_t number)
{
    return 8 | (number / TELPHER_RMA_GPU_DEPTH & 7);
}

TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_mail_is(uint64_t meta, uint32_t number)
{
    return (uint32_t)(meta >> TELPHER_RMA_GPU_MAIL_ROUND) ==
           telpher_rma_gpu_mail_round(number);
}

/* What a message adds to its target's bell: one, and who. So when one message is there that
 * was not taken, the difference says whose it is. */
TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_ring_of(uint32_t source)
{
    return ((uint64_t)1 << TELPHER_RMA_GPU_MAIL_RING) + source + 1;
}

/* ---- the target ---- */

/* Says how many of a source's were taken, behind what was written of them, wherever that lies: a
 * sender that knows it may tell ranks of any GPU. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_tell(telpher_rma_gpu_inbox *in)
{
    telpher_rma_gpu_release_far();
    telpher_rma_gpu_store(in->credit, in->taken + 1);
    in->told = in->taken;
}

/* A sender that has sent half of its slots is told before it runs out of them. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_tell_soon(telpher_rma_gpu_inbox *in)
{
    if (in->taken - in->told >= TELPHER_RMA_GPU_DEPTH / 2) {
        telpher_rma_gpu_tell(in);
    }
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
    if (in->source != TELPHER_RMA_NO_RANK) {
        *in->taken_at = in->taken;
    }
    in->source = source;
    in->slots = mine->mail + pair * TELPHER_RMA_GPU_DEPTH * 2;
    in->taken_at = &mine->mail_taken[pair];
    in->taken = in->told = *in->taken_at;
    in->next = in->slots + in->taken % TELPHER_RMA_GPU_DEPTH * 2;
    in->credit = &other->credits[(uint64_t)source * g->ranks + rma->world_rank];
}

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_inbox *
telpher_rma_gpu_inbox_of(const telpher_rma *rma, uint32_t source)
{
    telpher_rma_gpu_inbox *in =
        &telpher_rma_gpu_state_of(rma)->in[source % TELPHER_RMA_GPU_BOXES];

    if (in->source != source) {
        telpher_rma_gpu_change_inbox(rma, in, source);
    }
    return in;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_mail_tag(uint64_t meta)
{
    return (uint32_t)(meta >> TELPHER_RMA_GPU_MAIL_TAG) & 255;
}

/* Writes the bytes of a message that was read from its slot. What was put before it can be read
 * behind the next telpher_rma_gpu_seen(), which every wait ends with. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_mail_write(uint64_t value, uint64_t meta)
{
    telpher_rma_gpu_write_few(
        (uint8_t *)(meta & (((uint64_t)1 << TELPHER_RMA_GPU_MAIL_TAG) - 1)), value,
        (uint32_t)(meta >> TELPHER_RMA_GPU_MAIL_LEN) & 15);
}

/* Takes the message. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_unpack(const telpher_rma *rma, telpher_rma_gpu_inbox *in,
                       uint64_t value, uint64_t meta)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint32_t tag = telpher_rma_gpu_mail_tag(meta);

    telpher_rma_gpu_mail_write(value, meta);
    state->taken[tag]--; /* one more is there than the counter says */
    in->taken++;
    in->next = in->slots + in->taken % TELPHER_RMA_GPU_DEPTH * 2;
    state->mailed += telpher_rma_gpu_ring_of(in->source);
    state->guess[tag] = (uint16_t)(in->source + 1);
    state->senders[tag] = in->source + 1;
    telpher_rma_gpu_tell_soon(in);
}

/* Takes all that came from a source. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_take_mail(const telpher_rma *rma, uint32_t source)
{
    telpher_rma_gpu_inbox *in = telpher_rma_gpu_inbox_of(rma, source);
    uint64_t value, meta;

    for (;;) {
        telpher_rma_gpu_load_both(in->next, &value, &meta);
        if (!telpher_rma_gpu_mail_is(meta, in->taken)) {
            return;
        }
        telpher_rma_gpu_unpack(rma, in, value, meta);
    }
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
    enum { N = 4, LAST = 3, SHIFT = TELPHER_RMA_GPU_MAIL_ROUND - 32 };
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    /* the words of a slot's that have the round */
    const uint32_t *mail =
        (const uint32_t *)(g->parts[telpher_rma_gpu_state_of(rma)->domain].mail +
                           (uint64_t)rma->world_rank * g->ranks *
                               TELPHER_RMA_GPU_DEPTH * 2) +
        LAST;

    for (uint32_t first = 0; first < g->ranks; first += N) {
        uint32_t taken[N], words[N];

#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            uint32_t source = first + i < g->ranks ? first + i : first;

            taken[i] = telpher_rma_gpu_taken_of(rma, source);
            words[i] = telpher_rma_gpu_load(mail + (source * TELPHER_RMA_GPU_DEPTH +
                                                    taken[i] % TELPHER_RMA_GPU_DEPTH) *
                                                       4);
        }
        for (uint32_t i = 0; i < N && first + i < g->ranks; i++) {
            if (words[i] >> SHIFT == telpher_rma_gpu_mail_round(taken[i])) {
                telpher_rma_gpu_take_mail(rma, first + i);
            }
        }
    }
}

/* Whether a bell says that more is there than was taken. When some were taken before they rang,
 * it may be less. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_rings(uint64_t bell, uint64_t mailed)
{
    return (int64_t)(bell - mailed) >> TELPHER_RMA_GPU_MAIL_RING > 0;
}

/* Takes what the bell says is there, @p bell as it was. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_answer(const telpher_rma *rma, uint64_t bell)
{
    uint64_t more = bell - telpher_rma_gpu_state_of(rma)->mailed;

    if (more >> TELPHER_RMA_GPU_MAIL_RING == 1) {
        uint32_t source =
            (uint32_t)(more & (((uint64_t)1 << TELPHER_RMA_GPU_MAIL_RING) - 1)) - 1;

        if (source < rma->world_size) {
            telpher_rma_gpu_take_mail(rma, source);
            return;
        }
    }
    telpher_rma_gpu_take_all_mail(rma);
}

/* From now on this rank looks, and says so to all that may send. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_begin_to_look(const telpher_rma *rma)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    state->looks = 1;
    for (uint32_t source = 0; source < g->ranks; source++) {
        const uint32_t domain = telpher_rma_gpu_domain(g, source);

        if (domain != state->domain) {
            telpher_rma_gpu_store(
                &g->parts[domain]
                     .credits[(uint64_t)source * g->ranks + rma->world_rank],
                1);
        }
    }
}

/* Looks whether there is any, and whether somebody asks. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_look_for_some(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint64_t bell, asked;

    telpher_rma_gpu_load_both(&state->bell->rung, &bell, &asked);
    if (telpher_rma_gpu_rings(bell, state->mailed)) {
        telpher_rma_gpu_seen(state->domains);
        telpher_rma_gpu_answer(rma, bell);
    }
    if ((uint32_t)asked != state->answered) {
        state->answered = (uint32_t)asked;
        if (state->looks) {
            telpher_rma_gpu_tell_all(rma);
        } else {
            telpher_rma_gpu_begin_to_look(rma);
        }
    }
}

/* For all loops that wait, and calls that may: who does not look yet looks now and then
 * whether somebody asks. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_look_for_mail(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->bell != NULL && (state->looks || ++state->waits % 16 == 0)) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

/* For waits, which often find at once what they wait for and need not look then: who asks is
 * heard all the same. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_look_seldom(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->bell != NULL && ++state->waits % (state->looks ? 256 : 16) == 0) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

/* ---- the sender ---- */

/* Waits until a target has taken all that this rank sent it. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_settle(const telpher_rma *rma, telpher_rma_gpu_outbox *out,
                       const char *call, const char *where)
{
    telpher_rma_gpu_waiting wait = {
        where,       call, telpher_rma_gpu_clock(), TELPHER_RMA_GPU_IN_SETTLE,
        out->target, 0,    TELPHER_RMA_NO_RANK,     0};
    telpher_status status = TELPHER_OK;
    uint32_t polls = 0;

    while (status == TELPHER_OK) {
        out->acked = telpher_rma_gpu_load(out->credit) - 1;
        if (out->sent == out->acked) {
            telpher_rma_gpu_waited(rma, polls);
            return TELPHER_OK;
        }
        if (polls % 16 == 0) { /* it may answer before it has taken all */
            atomicAdd_system(&out->bell->asked, 1);
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
            status = telpher_rma_gpu_settle(rma, out, call, where);
        }
    }
    state->under_way = status != TELPHER_OK;
    telpher_rma_gpu_seen(
        state->domains); /* what targets wrote is not what was read before */
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

/* The same for messages that may write some of the @p len bytes at @p at, which then can be
 * read. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_settle_bytes(const telpher_rma *rma, uint32_t target, uint64_t at,
                             uint64_t len, const char *call, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_outbox *out = &state->out[target % TELPHER_RMA_GPU_BOXES];
    telpher_status status = TELPHER_OK;

    if (telpher_rma_gpu_unsettled(rma, target)) {
        out->acked = telpher_rma_gpu_load(out->credit) - 1;
        if (out->sent != out->acked && at + len > out->low && at < out->high) {
            status = telpher_rma_gpu_settle(rma, out, call, where);
        }
    }
    telpher_rma_gpu_seen(state->domains);
    return status;
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_next_mail(telpher_rma_gpu_outbox *out)
{
    out->next = out->slots + out->sent % TELPHER_RMA_GPU_DEPTH * 2;
    out->round = (uint64_t)telpher_rma_gpu_mail_round(out->sent)
                 << TELPHER_RMA_GPU_MAIL_ROUND;
}

/* Makes the box a target's, if it may be, and looks how much was taken.
 * @return 1 if there is a slot for one more */
TELPHER_RMA_GPU_SLOW_FN_ int
telpher_rma_gpu_change_outbox(const telpher_rma *rma, telpher_rma_gpu_outbox *out,
                              uint32_t target)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_part *part = &g->parts[telpher_rma_gpu_domain(g, target)];
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint64_t pair = (uint64_t)rma->world_rank * g->ranks + target;
    uint32_t *credit, told;

    if (out->sent != out->acked) {
        out->acked = telpher_rma_gpu_load(out->credit) - 1;
    }
    if (out->target == target) {
        return out->sent - out->acked < TELPHER_RMA_GPU_DEPTH;
    }
    if (out->sent != out->acked) {
        return 0;
    }
    credit = &g->parts[state->domain].credits[pair];
    told = telpher_rma_gpu_load(credit);
    if (told == 0) { /* it does not look yet */
        if (state->asks++ % TELPHER_RMA_GPU_DEPTH == 0) {
            atomicAdd_system(&part->bells[target].asked, 1);
        }
        return 0;
    }
    out->target = target;
    out->credit = credit;
    out->sent = out->acked = told - 1; /* all was taken */
    out->bell = &part->bells[target];
    out->slots = part->mail + ((uint64_t)target * g->ranks + rma->world_rank) *
                                  TELPHER_RMA_GPU_DEPTH * 2;
    telpher_rma_gpu_next_mail(out);
    return 1;
}

/* What is left to do behind a message that was sent. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_mail_sent(telpher_rma_gpu_state *state, telpher_rma_gpu_outbox *out,
                          uint64_t at, uint32_t len)
{
    uint64_t low = out->low, high = out->high;

    if (out->sent == out->acked) {
        low = UINT64_MAX;
        high = 0;
    }
    if (len != 0) {
        low = at < low ? at : low;
        high = at + len > high ? at + len : high;
    }
    out->low = low;
    out->high = high;
    out->sent++;
    telpher_rma_gpu_next_mail(out);
    state->under_way = 1;
}

/* Where the next message to a far target goes, if nothing stands in the way. */
typedef struct telpher_rma_gpu_mailing {
    uint64_t *slot, *rung, round;
    int good;
} telpher_rma_gpu_mailing;

/* All that is to be known is read before any is looked at. */
TELPHER_RMA_GPU_FN_ telpher_rma_gpu_mailing
telpher_rma_gpu_may_mail(const telpher_rma *rma, uint32_t target, uint32_t tag,
                         uint64_t at)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const telpher_rma_gpu_outbox *out = &state->out[target % TELPHER_RMA_GPU_BOXES];
    const uint64_t bell = (uint64_t)state->bell;
    const uint32_t dirty = state->dirty & TELPHER_RMA_GPU_PUT_FAR, known = out->target,
                   room = out->sent - out->acked;

    return telpher_rma_gpu_mailing{out->next, (uint64_t *)out->bell, out->round,
                                   (bell != 0) & (dirty == 0) & (known == target) &
                                       (room < TELPHER_RMA_GPU_DEPTH) &
                                       (tag < TELPHER_RMA_GPU_TAGS) &
                                       (at >> TELPHER_RMA_GPU_MAIL_TAG == 0)};
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_mail_to(const telpher_rma *rma, const telpher_rma_gpu_mailing *mailing,
                        uint32_t target, uint32_t tag, uint64_t at, uint64_t value,
                        uint32_t len)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    telpher_rma_gpu_all_have_read();
    telpher_rma_gpu_store_both(mailing->slot, value,
                               at | (uint64_t)tag << TELPHER_RMA_GPU_MAIL_TAG |
                                   (uint64_t)len << TELPHER_RMA_GPU_MAIL_LEN |
                                   mailing->round);
    telpher_rma_gpu_add(mailing->rung, telpher_rma_gpu_ring_of(rma->world_rank));
    telpher_rma_gpu_mail_sent(state, &state->out[target % TELPHER_RMA_GPU_BOXES], at,
                              len);
}

/* Sends @p len bytes, 0 to 8, to @p at of a far target's and notifies. @return 0 if that is
 * not possible, and nothing was done */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_mail(const telpher_rma *rma, uint32_t target, uint32_t tag, uint64_t at,
                     uint64_t value, uint32_t len)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_mailing mailing;

    if (state->bell == NULL || (state->dirty & TELPHER_RMA_GPU_PUT_FAR) != 0 ||
        !telpher_rma_gpu_change_outbox(rma, &state->out[target % TELPHER_RMA_GPU_BOXES],
                                       target)) {
        return 0;
    }
    mailing = telpher_rma_gpu_may_mail(rma, target, tag, at);
    if (mailing.good) {
        telpher_rma_gpu_mail_to(rma, &mailing, target, tag, at, value, len);
    }
    return mailing.good;
}

#endif
