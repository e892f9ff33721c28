/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers of groups of ranks on a GPU; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_MEET_H
#define TELPHER_RMA_DETAIL_GPU_MEET_H

#include <cuda_runtime.h>

/* ---- barriers ---- */

/* The first call of a group that this rank makes. */
TELPHER_RMA_GPU_SLOW_FN_ int
telpher_rma_gpu_join_new(const telpher_rma *rma, telpher_rma_comm comm)
{
    int index = telpher_rma_gpu_group_index(rma, comm);
    uint32_t me =
        index < 0 ? TELPHER_RMA_NO_RANK : telpher_rma_gpu_position(rma, index);
    telpher_rma_gpu_own *own;

    if (me == TELPHER_RMA_NO_RANK) {
        return -1;
    }
    if (telpher_rma_gpu_is_spread(rma, index)) {
        return TELPHER_RMA_GPU_GROUPS;
    }
    own = &telpher_rma_gpu_state_of(rma)->own[index];
    own->me = (uint16_t)me;
    own->size =
        (uint16_t)telpher_rma_gpu_load(&telpher_rma_gpu_of(rma)->groups[index].size);
    return index;
}

/* The index of a group that this rank has called before, or -1. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_joined(const telpher_rma *rma, telpher_rma_comm comm)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    int index = comm == TELPHER_RMA_WORLD    ? 0
                : comm == TELPHER_RMA_DEVICE ? 1 + (int)state->device
                                             : comm - 1;
    int named =
        comm == TELPHER_RMA_WORLD || comm == TELPHER_RMA_DEVICE ||
        (comm > 0 && index > (int)state->devices && index < TELPHER_RMA_GPU_GROUPS);

    return named && state->own[index].size != 0 ? index : -1;
}

/* The index of a group with this rank, or -1; caches its data. For groups over
 * several processes TELPHER_RMA_GPU_GROUPS: the progress thread meets the others. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_join(const telpher_rma *rma, telpher_rma_comm comm)
{
    int index = telpher_rma_gpu_joined(rma, comm);

    return index >= 0 ? index : telpher_rma_gpu_join_new(rma, comm);
}

/* The same for all lanes, at the start of a call. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_join_all(telpher_rma *rma, telpher_rma_comm comm)
{
    int index = telpher_rma_gpu_joined(rma, comm);

    if (index >= 0) {
        return index; /* for all lanes: it changes only after the barrier below */
    }
    TELPHER_RMA_GPU_ONCE_(rma, (telpher_status)telpher_rma_gpu_join(rma, comm));
    return (int)status;
}

/* Whether a group may have ranks of several domains. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_apart(const telpher_rma *rma, int index)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    return state->parts > 1 && index != 1 + (int)state->device;
}

/* The word that a rank adds to a barrier: a hash of the call, so that different
 * calls are detected. */
TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_word(uint64_t op, uint64_t a, uint64_t b, uint64_t c)
{
    uint32_t h = (uint32_t)op * 0x9e3779b1u + (uint32_t)(a ^ a >> 32) * 0x85ebca77u +
                 (uint32_t)(b ^ b >> 32) * 0xc2b2ae3du + (uint32_t)c * 0x27d4eb2fu;

    return (uint64_t)h << 32 | 1;
}

/* Makes this rank's stores visible to ranks that see its arrival; for a group in
 * several domains also its stores to its own memory. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_release_to(const telpher_rma *rma, int index)
{
    if (telpher_rma_gpu_apart(rma, index)) {
        telpher_rma_gpu_release_far();
        telpher_rma_gpu_state_of(rma)->dirty = 0;
    } else {
        telpher_rma_gpu_release_all(rma);
    }
}

/* Writes this rank's arrival to each domain. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_come(const telpher_rma *rma, int index, uint32_t turn, uint64_t word)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (!telpher_rma_gpu_apart(rma, index)) {
        telpher_rma_gpu_add(&g->parts[state->domain].meets[index].came[turn], word);
        return;
    }
    for (uint32_t i = 0; i < state->parts; i++) {
        telpher_rma_gpu_add(&g->parts[i].meets[index].came[turn], word);
    }
}

/* Starts the next barrier, which is over when the words of its turn reach the sum
 * returned. */
TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_next_meeting(const telpher_rma *rma, int index, uint64_t word)
{
    telpher_rma_gpu_own *own = &telpher_rma_gpu_state_of(rma)->own[index];

    return own->came[own->met++ % 2] += word * own->size;
}

/* The slow path of a barrier that does not complete soon. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_meet_long(const telpher_rma *rma, int index, const uint64_t *at,
                          uint64_t all, const char *call, const char *where)
{
    telpher_rma_gpu_waiting wait = {
        where,           call, telpher_rma_gpu_clock(), TELPHER_RMA_GPU_IN_GROUP,
        (uint32_t)index, 0,    TELPHER_RMA_NO_RANK,     0};
    telpher_status status =
        telpher_rma_gpu_failed(rma) ? TELPHER_ERR_CANCELED : TELPHER_OK;

    for (uint32_t polls = TELPHER_RMA_GPU_EAGER - 1; status == TELPHER_OK; polls++) {
        uint64_t seen = telpher_rma_gpu_load64(at);

        if ((uint32_t)seen == (uint32_t)all) {
            telpher_rma_gpu_seen(telpher_rma_gpu_state_of(rma)->domains);
            telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind,
                                  TELPHER_RMA_GPU_RUNS);
            return seen == all /* otherwise all arrived, but at different calls */
                       ? TELPHER_OK
                       : telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, call, where);
        }
        telpher_rma_gpu_look_for_mail(rma);
        status = telpher_rma_gpu_look(rma, &wait, 0, polls);
    }
    return status;
}

/* A barrier of all ranks of a group, each with the word of its call. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_meet_one(const telpher_rma *rma, int index, uint64_t word,
                         const char *call, const char *where)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint32_t turn = state->own[index].met % 2;
    const uint64_t *at =
        &telpher_rma_gpu_of(rma)->parts[state->domain].meets[index].came[turn];
    int failed = telpher_rma_gpu_failed(rma); /* known when the others have arrived */
    uint64_t all = telpher_rma_gpu_next_meeting(rma, index, word);
    telpher_status status = telpher_rma_gpu_settle_all(rma, call, where);

    if (status != TELPHER_OK) {
        return status;
    }
    telpher_rma_gpu_release_to(rma, index);
    telpher_rma_gpu_come(rma, index, turn, word);
#pragma unroll 1
    for (uint32_t polls = 0; polls < TELPHER_RMA_GPU_EAGER; polls++) {
        if (telpher_rma_gpu_load64(at) == all) {
            telpher_rma_gpu_seen(state->domains);
            return failed ? TELPHER_ERR_CANCELED : TELPHER_OK;
        }
        if (state->looks) {
            telpher_rma_gpu_look_for_some(rma);
        }
    }
    return telpher_rma_gpu_meet_long(rma, index, at, all, call, where);
}

/* A barrier of all ranks of a group; *ret_slots are valid until the next call but
 * one. Lane 0. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_meet_with(const telpher_rma *rma, telpher_rma_comm comm,
                          const telpher_rma_gpu_slot *mine,
                          telpher_rma_gpu_slot **ret_slots, const char *call,
                          const char *where)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int index = telpher_rma_gpu_join(rma, comm);
    const telpher_rma_gpu_own *own;

    if (telpher_rma_gpu_failed(rma)) {
        return TELPHER_ERR_CANCELED;
    }
    if (index < 0) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, call, where);
    }
    own = &telpher_rma_gpu_state_of(rma)->own[index];
    *ret_slots = g->groups[index].slots +
                 (uint64_t)(own->met % TELPHER_RMA_GPU_TURNS) * g->ranks;
    (*ret_slots)[own->me] = *mine;
    if (telpher_rma_gpu_state_of(rma)->domain != 0) {
        telpher_rma_gpu_state_of(rma)->dirty = 1; /* slots are in the home domain */
    }
    return telpher_rma_gpu_meet_one(
        rma, index, telpher_rma_gpu_word(mine->op, mine->a, mine->b, mine->c), call,
        where);
}

/* Again, so that the result written by one rank is visible. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_part_one(const telpher_rma *rma, telpher_rma_comm comm,
                         const char *call, const char *where)
{
    if (telpher_rma_gpu_state_of(rma)->domain != 0) {
        telpher_rma_gpu_state_of(rma)->dirty = 1;
    }
    return telpher_rma_gpu_meet_one(
        rma, telpher_rma_gpu_join(rma, comm),
        telpher_rma_gpu_word(TELPHER_RMA_GPU_MEET_AGAIN, 0, 0, 0), call, where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_barrier_one(const telpher_rma *rma, telpher_rma_comm comm,
                            const char *where)
{
    int index = telpher_rma_gpu_join(rma, comm);

    if (index == TELPHER_RMA_GPU_GROUPS) {
        return telpher_rma_gpu_ask_group(rma, TELPHER_RMA_LINK_BARRIER, comm, "barrier",
                                         where);
    }
    return index < 0
               ? telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "barrier", where)
               : telpher_rma_gpu_meet_one(
                     rma, index, telpher_rma_gpu_word(TELPHER_RMA_GPU_BARRIER, 0, 0, 0),
                     "barrier", where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_barrier(telpher_rma *rma, telpher_rma_comm comm, const char *where)
{
    telpher_rma_gpu_have_read();
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_barrier_one(rma, comm, where));
    return status;
}

#endif
