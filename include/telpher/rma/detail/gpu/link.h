/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication with ranks of other processes on a GPU; part of rma/device_cuda.h.
 * Ranks whose memory this GPU can access are treated like ranks of another GPU. For all
 * others, and for groups over several processes, the GPU writes commands to a ring that
 * the process's progress thread reads (rma/link.h). A notification after such a put
 * takes the same way, until a flush.
 *
 * A full ring is waited for like any other event: with the deadline, and visible in the
 * wait table.
 */
#ifndef TELPHER_RMA_DETAIL_GPU_LINK_H
#define TELPHER_RMA_DETAIL_GPU_LINK_H

#include <cuda_runtime.h>

/* Whether the progress thread executes a group's calls. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_is_spread(const telpher_rma *rma, int index)
{
    return telpher_rma_gpu_of(rma)->shared != NULL &&
           (index == 0 || index >= TELPHER_RMA_GPU_GROUPS);
}

TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_aim_elsewhere(const telpher_rma_gpu *g, uint32_t target,
                              telpher_rma_gpu_place *place)
{
    place->counts =
        g->boxes != NULL ? (uint64_t *)g->boxes[2 * (uint64_t)target] : NULL;
    place->senders =
        g->boxes != NULL ? (uint32_t *)g->boxes[2 * (uint64_t)target + 1] : NULL;
    place->far = TELPHER_RMA_GPU_FAR | TELPHER_RMA_GPU_ELSEWHERE;
    if (place->counts == NULL) {
        place->far |= TELPHER_RMA_GPU_BY_PROXY;
    }
}

/* Whether an access to a target so @p far goes through the progress thread: nothing
 * may overtake earlier accesses that did. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_by_proxy(const telpher_rma *rma, uint32_t far)
{
    return far > TELPHER_RMA_GPU_FAR && ((far & TELPHER_RMA_GPU_BY_PROXY) != 0 ||
                                         telpher_rma_gpu_state_of(rma)->by_proxy);
}

/* ---- one lane ---- */

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_waiting
telpher_rma_gpu_wait_of(uint32_t kind, uint32_t tag, const char *call,
                        const char *where)
{
    telpher_rma_gpu_waiting wait = {where, call, telpher_rma_gpu_clock(), kind,
                                    tag,   0,    TELPHER_RMA_NO_RANK,     0};

    return wait;
}

/* Waits until the ring has a free slot; *ret_place is its index. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_room(const telpher_rma *rma, uint32_t *ret_place, const char *call,
                     const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_waiting wait =
        telpher_rma_gpu_wait_of(TELPHER_RMA_GPU_IN_ROOM, 0, call, where);
    telpher_status status =
        telpher_rma_gpu_failed(rma) ? TELPHER_ERR_CANCELED : TELPHER_OK;
    uint32_t polls = 0;

    while (status == TELPHER_OK && state->posted - state->room >= TELPHER_RMA_LINES) {
        state->room = telpher_rma_gpu_load(&state->box->taken);
        if (state->posted - state->room >= TELPHER_RMA_LINES) {
            status = telpher_rma_gpu_look(rma, &wait, 0, polls++);
        }
    }
    if (status == TELPHER_OK && polls != 0) {
        telpher_rma_gpu_waited(rma, polls);
    }
    *ret_place = state->posted % TELPHER_RMA_LINES;
    return status;
}

/* Writes a line; there is a free slot. Earlier puts to other GPUs are visible before
 * the line; with @p own, so are the rank's own stores, outside the line or in memory
 * that the host reads. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_write_words(const telpher_rma *rma, int own, uint32_t first,
                            uint32_t second, uint64_t off, uint64_t local, uint64_t len)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint32_t posted = state->posted;
    const uint64_t round = (uint64_t)telpher_rma_link_round(posted, TELPHER_RMA_LINES)
                           << 32;
    uint64_t *at = state->box->lines[posted % TELPHER_RMA_LINES].words;

    state->posted = posted + 1;
    if (own || (state->dirty & TELPHER_RMA_GPU_PUT_FAR) != 0) {
        telpher_rma_gpu_release_far();
        state->dirty = 0;
    }
    telpher_rma_gpu_store_both(at, round | first, round | second);
    telpher_rma_gpu_store_both(at + 2, round | (uint32_t)off, round | off >> 32);
    telpher_rma_gpu_store_both(at + 4, round | (uint32_t)local, round | local >> 32);
    telpher_rma_gpu_store_both(at + 6, round | (uint32_t)len, round | len >> 32);
}

TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_write_line(const telpher_rma *rma, const telpher_rma_command *c)
{
    telpher_rma_gpu_write_words(rma, 1, telpher_rma_link_first(c->op, c->flags, c->tag),
                                telpher_rma_link_second(c->to, (uint32_t)c->where),
                                c->off, c->local, c->len);
}

/* A line that contains the whole command, ordered after this rank's puts. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_post_words(const telpher_rma *rma, uint32_t first, uint32_t second,
                           uint64_t off, uint64_t local, uint64_t len, const char *call,
                           const char *where)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->posted - state->room >= TELPHER_RMA_LINES) {
        uint32_t place;
        telpher_status status = telpher_rma_gpu_room(rma, &place, call, where);

        if (status != TELPHER_OK) {
            return status;
        }
    }
    telpher_rma_gpu_write_words(rma, 0, first, second, off, local, len);
    return TELPHER_OK;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_post(const telpher_rma *rma, const telpher_rma_command *c,
                     const char *call, const char *where)
{
    uint32_t place;
    telpher_status status = telpher_rma_gpu_room(rma, &place, call, where);

    if (status == TELPHER_OK) {
        telpher_rma_gpu_write_line(rma, c);
    }
    return status;
}

/* Writes a command for which there is a free slot, and waits for its answer. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_ask(const telpher_rma *rma, const telpher_rma_command *c,
                    const telpher_rma_gpu_waiting *wait, uint64_t *ret_value)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint32_t *at = &state->answer->done;
    telpher_status status = TELPHER_OK;
    uint32_t polls = 0;

    state->asked++;
    telpher_rma_gpu_write_line(rma, c);
    while (status == TELPHER_OK &&
           telpher_rma_gpu_poll(rma, at, polls) != state->asked) {
        status = telpher_rma_gpu_look(rma, wait, 0, polls++);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    telpher_rma_gpu_waited(rma, polls);
    *ret_value = telpher_rma_gpu_load64(&state->answer->value);
    status =
        (telpher_status)telpher_rma_gpu_load((const uint32_t *)&state->answer->status);
    return status < 0 ? status : TELPHER_OK;
}

/* A call of a group, with its source location. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_ask_all(const telpher_rma *rma, const telpher_rma_command *c,
                        const char *call, const char *where, uint64_t *ret_value)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint32_t group =
        c->op == TELPHER_RMA_LINK_WIN_FREE
            ? telpher_rma_gpu_of(rma)->windows[TELPHER_RMA_GPU_WINDOWS + c->where].group
        : c->where <= 1 ? 0
                        : (uint32_t)c->where - 1;
    const telpher_rma_gpu_waiting wait =
        telpher_rma_gpu_wait_of(TELPHER_RMA_GPU_IN_GROUP, group, call, where);
    uint32_t place;
    telpher_status status = telpher_rma_gpu_room(rma, &place, call, where);

    if (status != TELPHER_OK) {
        return status;
    }
    for (uint32_t i = 0; i < TELPHER_RMA_LINK_WHERE; i++) {
        state->box->beside[place][i] = (uint8_t)where[i];
        if (where[i] == '\0') {
            break;
        }
    }
    return telpher_rma_gpu_ask(rma, c, &wait, ret_value);
}

TELPHER_RMA_GPU_FN_ telpher_rma_command
telpher_rma_gpu_command(uint32_t op, int32_t where)
{
    telpher_rma_command c = {(uint16_t)op, 0, 0, 0, 0, where, 0, 0, 0, 0, 0, 0};

    return c;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_ask_group(const telpher_rma *rma, uint32_t op, telpher_rma_comm comm,
                          const char *call, const char *where)
{
    const telpher_rma_command c = telpher_rma_gpu_command(op, comm);
    uint64_t value;

    return telpher_rma_gpu_ask_all(rma, &c, call, where, &value);
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_ask_window(const telpher_rma *rma, telpher_rma_comm comm, void *base,
                           uint64_t len, telpher_rma_win *ret_win, const char *where)
{
    telpher_rma_command c = telpher_rma_gpu_command(TELPHER_RMA_LINK_WIN_CREATE, comm);
    telpher_status status;
    uint64_t number;

    c.off = (uint64_t)base;
    c.len = len;
    status = telpher_rma_gpu_ask_all(rma, &c, "win_create", where, &number);
    *ret_win = status == TELPHER_OK ? TELPHER_RMA_GPU_WINDOWS + (telpher_rma_win)number
                                    : TELPHER_RMA_WIN_NONE;
    return status;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_ask_free(const telpher_rma *rma, telpher_rma_win win, const char *where)
{
    return telpher_rma_gpu_ask_group(rma, TELPHER_RMA_LINK_WIN_FREE,
                                     win - TELPHER_RMA_GPU_WINDOWS, "win_free", where);
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_ask_split(const telpher_rma *rma, telpher_rma_comm comm, int32_t color,
                          int32_t key, telpher_rma_comm *ret_comm, const char *where)
{
    telpher_rma_command c = telpher_rma_gpu_command(TELPHER_RMA_LINK_SPLIT, comm);
    telpher_status status;
    uint64_t made;

    c.off = (uint64_t)(int64_t)color;
    c.local = (uint64_t)(int64_t)key;
    status = telpher_rma_gpu_ask_all(rma, &c, "split", where, &made);
    *ret_comm = status == TELPHER_OK ? (telpher_rma_comm)made : TELPHER_RMA_COMM_NONE;
    return status;
}

/* All accesses through the progress thread have arrived. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_ask_flush(const telpher_rma *rma, telpher_rma_win win,
                          const char *where)
{
    telpher_rma_command c = telpher_rma_gpu_command(TELPHER_RMA_COMMAND_FLUSH,
                                                    win - TELPHER_RMA_GPU_WINDOWS);
    const telpher_rma_gpu_waiting wait =
        telpher_rma_gpu_wait_of(TELPHER_RMA_GPU_IN_ASK, 0, "flush", where);
    telpher_status status = TELPHER_OK;
    uint32_t place;
    uint64_t value;

    telpher_rma_gpu_fence(rma);
    if (win < TELPHER_RMA_GPU_WINDOWS) {
        return TELPHER_OK; /* within this process */
    }
    status = telpher_rma_gpu_room(rma, &place, "flush", where);
    if (status == TELPHER_OK) {
        status = telpher_rma_gpu_ask(rma, &c, &wait, &value);
    }
    telpher_rma_gpu_state_of(rma)->by_proxy = status != TELPHER_OK;
    return status;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_post_notify(const telpher_rma *rma, uint32_t target, uint32_t tag,
                            const char *where)
{
    return telpher_rma_gpu_post_words(
        rma, telpher_rma_link_first(TELPHER_RMA_COMMAND_NOTIFY, 0, tag),
        telpher_rma_link_second(target, 0), 0, 0, 0, "notify", where);
}

#endif
