/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions and broadcasts over several processes. Small data is in the arrivals. Of
 * large data each member reduces a part, and gets the elements of others.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "rma/processes/remote.h"

/* Elements of one member and of others, fetched from their memory. */
struct folding {
    struct tp_rma_lane *lane;
    struct tp_rma_group *group;
    const telpher_rma_fold *f;
    struct tp_rma_call call;
    char *scratch; /* a chunk for the sum, and one for each member in another process */
    size_t chunk; /* [bytes] */
};

static telpher_rma_command
brought(const struct folding *fold, uint32_t member, uint16_t op, uint16_t flags,
        uint64_t off, size_t len, const void *local)
{
    return (telpher_rma_command){.op = op,
                                 .flags = flags,
                                 .from = fold->lane->rank->index,
                                 .to = fold->group->members[member],
                                 .where = fold->group->number,
                                 .off = off,
                                 .len = len,
                                 .local = (uintptr_t)local};
}

static bool
is_remote(const struct folding *fold, uint32_t member)
{
    return fold->lane->rank->run->ranks[fold->group->members[member]].remote;
}

static telpher_status
ask_for_all(const struct folding *fold, uint64_t off, size_t len)
{
    char *to = fold->scratch + fold->chunk;
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0; i < fold->group->size && status == TELPHER_OK; i++) {
        if (is_remote(fold, i)) {
            const telpher_rma_command c =
                brought(fold, i, TELPHER_RMA_COMMAND_GET, TELPHER_RMA_COMMAND_SOURCE,
                        off, len, to);

            status = tp_rma_remote_ask(fold->lane, &fold->call, &c);
            to += fold->chunk;
        }
    }
    return status == TELPHER_OK ? tp_rma_remote_wait(fold->lane, &fold->call) : status;
}

/* From the first member to the last. */
static void
add_up(const struct folding *fold, uint64_t off, size_t len)
{
    const telpher_rma_fold *f = fold->f;
    const char *from = fold->scratch + fold->chunk;

    for (uint32_t i = 0; i < fold->group->size; i++) {
        const char *src = from;

        if (is_remote(fold, i)) {
            from += fold->chunk;
        } else {
            src = (const char *)fold->group->slots[i].fold.src + off;
        }
        if (i == 0) {
            memcpy(fold->scratch, src, len);
        } else {
            tp_rma_fold(f->type, f->op, fold->scratch, src,
                        len / tp_rma_fold_size(f->type));
        }
    }
}

static telpher_status
hand_out(const struct folding *fold, uint64_t off, size_t len)
{
    telpher_status status = TELPHER_OK;
    struct tp_rma_rank *rank = fold->lane->rank;

    for (uint32_t i = 0; i < fold->group->size && status == TELPHER_OK; i++) {
        if (fold->f->root != TELPHER_RMA_NO_RANK && fold->f->root != i) {
            continue;
        }
        if (!is_remote(fold, i)) {
            memcpy((char *)fold->group->slots[i].fold.dst + off, fold->scratch, len);
        } else {
            const telpher_rma_command c =
                brought(fold, i, TELPHER_RMA_COMMAND_PUT, TELPHER_RMA_COMMAND_RESULT,
                        off, len, fold->scratch);

            rank->unflushed[tp_rma_process_of(rank->run, c.to)] = TP_RMA_UNFLUSHED;
            status = tp_rma_remote_post(fold->lane, &fold->call, &c);
        }
    }
    return status;
}

static telpher_status
fold_chunks(const struct folding *fold, uint64_t off, uint64_t end)
{
    telpher_status status = TELPHER_OK;

    while (off < end && status == TELPHER_OK) {
        size_t len = (size_t)TP_MIN(end - off, (uint64_t)fold->chunk);

        status = ask_for_all(fold, off, len);
        if (status == TELPHER_OK) {
            add_up(fold, off, len);
            status = hand_out(fold, off, len);
        }
        if (status == TELPHER_OK) { /* the buffer of the sum is reused */
            status = tp_rma_remote_flush(fold->lane, &fold->call);
        }
        off += len;
    }
    return status;
}

/* Scratch memory, kept until the launch ends, because fetched data may arrive late. */
static char *
take_scratch(struct tp_rma_rank *rank, size_t len)
{
    if (rank->scratch_len < len) {
        struct tp_rma_shared *s = tp_alloc_aligned(64, sizeof(*s) + len, "reduction");

        if (s == NULL) {
            return NULL;
        }
        *s = (struct tp_rma_shared){rank->shared, s, len};
        rank->shared = s;
        rank->scratch = s->data;
        rank->scratch_len = len;
    }
    return rank->scratch;
}

/* Each member reduces a part of the elements, between two barriers. */
telpher_status
tp_rma_spread_fold(struct tp_rma_lane *lane, struct tp_rma_group *group,
                   const telpher_rma_fold *f)
{
    enum { ALL = 1 << 20 }; /* [bytes] of scratch, about */
    uint64_t me = group->positions[lane->rank->index];
    uint64_t each = f->count / group->size, rest = f->count % group->size;
    uint64_t first = me * each + TP_MIN(me, rest), last = first + each + (me < rest);
    size_t size = tp_rma_fold_size(f->type), places = group->size - group->local + 1;
    const struct tp_rma_slot *slot = tp_rma_group_slot(lane->rank, group);
    struct folding fold = {.lane = lane,
                           .group = group,
                           .f = f,
                           .call = {TP_RMA_OP_REDUCE, slot->where, {0}, NULL}};
    telpher_status status = tp_rma_group_meet(lane, group, NULL);

    if (status != TELPHER_OK) {
        return status;
    }
    fold.chunk = TP_MAX((size_t)ALL / places / 64 * 64, (size_t)TP_RMA_FOLD_SMALL);
    fold.chunk = TP_MIN(fold.chunk, (size_t)(last - first) * size / 64 * 64 + 64);
    fold.scratch = take_scratch(lane->rank, fold.chunk * places);
    if (fold.scratch == NULL) {
        tp_rma_run_fail(lane->rank->run, TELPHER_ERR_NO_MEMORY,
                        "out of memory for %zu bytes of scratch of the reduction at %s",
                        fold.chunk * places, slot->where);
        return TELPHER_ERR_NO_MEMORY;
    }
    status = fold_chunks(&fold, first * size, last * size);
    return status == TELPHER_OK ? tp_rma_group_meet(lane, group, NULL) : status;
}

static void
copy_to_all(struct tp_rma_run *run, struct tp_rma_group *group)
{
    const telpher_rma_fold *root = &group->slots[group->slots[0].fold.root].fold;

    for (uint32_t i = 0; i < group->size; i++) {
        void *dst = group->slots[i].fold.dst;

        if (dst != NULL && dst != root->src && root->count != 0) {
            memmove(dst, root->src, root->count);
        }
    }
}

/* The first member of this process in the group. */
static uint32_t
first_here(const struct tp_rma_run *run, const struct tp_rma_group *group)
{
    uint32_t i = 0;

    while (run->ranks[group->members[i]].remote) {
        i++;
    }
    return i;
}

/* One member of each other process fetches the data; the others there copy it from
 * that one. */
static telpher_status
broadcast_large(struct tp_rma_lane *lane, struct tp_rma_group *group,
                const telpher_rma_fold *f)
{
    struct tp_rma_run *run = lane->rank->run;
    struct folding fold = {.lane = lane, .group = group, .f = f};
    uint32_t me = group->positions[lane->rank->index], from = f->root;
    telpher_status status = tp_rma_group_meet(lane, group, NULL);

    fold.call = (struct tp_rma_call){
        TP_RMA_OP_BROADCAST, tp_rma_group_slot(lane->rank, group)->where, {0}, NULL};
    if (status == TELPHER_OK && is_remote(&fold, f->root)) {
        from = first_here(run, group);
        if (from == me) {
            const telpher_rma_command c =
                brought(&fold, f->root, TELPHER_RMA_COMMAND_GET,
                        TELPHER_RMA_COMMAND_SOURCE, 0, (size_t)f->count, f->dst);

            status = tp_rma_remote_ask(lane, &fold.call, &c);
            status =
                status == TELPHER_OK ? tp_rma_remote_wait(lane, &fold.call) : status;
        }
    }
    if (status == TELPHER_OK) {
        status = tp_rma_group_meet(lane, group, NULL);
    }
    if (status == TELPHER_OK && from != me && group->slots[from].fold.dst != f->dst) {
        memmove(f->dst, group->slots[from].fold.dst, f->count);
    }
    return status == TELPHER_OK ? tp_rma_group_meet(lane, group, NULL) : status;
}

telpher_status
tp_rma_spread_broadcast(struct tp_rma_lane *lane, struct tp_rma_group *group,
                        const telpher_rma_fold *f)
{
    return f->count <= TP_RMA_FOLD_SMALL ? tp_rma_group_meet(lane, group, copy_to_all)
                                         : broadcast_large(lane, group, f);
}
