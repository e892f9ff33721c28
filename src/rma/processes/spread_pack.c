/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the data of a group's members for other processes. */
#include <string.h>

#include "base/alloc.h"
#include "rma/processes/spread.h"

/* [bytes] of one member in a call. In a broadcast only the root has data. */
static size_t
brings(const struct tp_rma_group *group, uint32_t op, const uint64_t *args,
       uint32_t member)
{
    uint64_t size;

    switch (op) {
    case TP_RMA_OP_WIN_CREATE:
        return 2 * sizeof(uint64_t);
    case TP_RMA_OP_SPLIT:
        return 2 * sizeof(int32_t);
    case TP_RMA_OP_REDUCE:
        size = args[1] <= TP_RMA_FOLD_SMALL
                   ? args[1] * tp_rma_fold_size((int)(args[2] >> 16))
                   : SIZE_MAX;
        return size <= TP_RMA_FOLD_SMALL ? (size_t)size : 0;
    case TP_RMA_OP_BROADCAST:
        return args[0] == member && args[1] <= TP_RMA_FOLD_SMALL ? (size_t)args[1] : 0;
    default:
        break;
    }
    return 0;
}

static void
pack_member(const struct tp_rma_slot *slot, uint8_t *to, size_t len)
{
    if (slot->op == TP_RMA_OP_WIN_CREATE) {
        const uint64_t part[2] = {(uintptr_t)slot->base, slot->len};

        memcpy(to, part, sizeof(part));
    } else if (slot->op == TP_RMA_OP_SPLIT) {
        memcpy(to, &slot->color, sizeof(slot->color));
        memcpy(to + sizeof(slot->color), &slot->key, sizeof(slot->key));
    } else if (len != 0) {
        memcpy(to, slot->fold.src, len);
    }
}

/* Decodes a member of another process. Large data is read later from its memory. */
static void
unpack_member(struct tp_rma_slot *slot, const uint8_t *from, size_t len)
{
    uint64_t part[2];

    if (slot->op == TP_RMA_OP_WIN_CREATE) {
        memcpy(part, from, sizeof(part));
        slot->base = (char *)(uintptr_t)part[0];
        slot->len = part[1];
    } else if (slot->op == TP_RMA_OP_SPLIT) {
        memcpy(&slot->color, from, sizeof(slot->color));
        memcpy(&slot->key, from + sizeof(slot->color), sizeof(slot->key));
    } else {
        slot->fold = (telpher_rma_fold){.src = len != 0 ? from : NULL,
                                        .count = slot->args[1],
                                        .root = (uint32_t)slot->args[0],
                                        .type = (uint16_t)(slot->args[2] >> 16),
                                        .op = (uint16_t)slot->args[2]};
    }
}

uint8_t *
tp_rma_spread_pack(const struct tp_rma_run *run, struct tp_rma_group *group,
                   const struct tp_rma_slot *one, size_t *ret_len)
{
    uint32_t me = tp_rma_own_process(run);
    size_t len = sizeof(struct arrival_body), at = len;
    struct arrival_body body = {.op = one->op, .number = -1};
    uint8_t *whole;

    for (uint32_t i = 0; i < group->size; i++) {
        len += tp_rma_spread_is_of(run, group, i, me)
                   ? brings(group, one->op, one->args, i)
                   : 0;
    }
    whole = tp_malloc(len, "arrival");
    if (whole == NULL) {
        return NULL;
    }
    memcpy(body.args, one->args, sizeof(body.args));
    snprintf(body.where, sizeof(body.where), "%s", one->where);
    if (one->op == TP_RMA_OP_WIN_CREATE &&
        tp_rma_spread_leader(run, group) == me) { /* other processes use its number */
        body.number = tp_rma_window_number(group->spread->run, group);
        group->result = body.number;
    }
    memcpy(whole, &body, sizeof(body));
    for (uint32_t i = 0; i < group->size; i++) {
        if (tp_rma_spread_is_of(run, group, i, me)) {
            size_t size = brings(group, one->op, one->args, i);

            pack_member(&group->slots[i], whole + at, size);
            at += size;
        }
    }
    *ret_len = len;
    return whole;
}

static bool
read_arrival(const struct tp_rma_run *run, struct tp_rma_group *group,
             struct tp_rma_arrival *a)
{
    struct arrival_body *body = (struct arrival_body *)(void *)a->body;
    size_t at = sizeof(*body);

    if (a->len < sizeof(*body) || body->op > TP_RMA_OP_TIMER) {
        return false;
    }
    body->where[TP_RMA_WHERE - 1] = '\0';
    if (a->process == tp_rma_spread_leader(run, group) &&
        body->op == TP_RMA_OP_WIN_CREATE) {
        if (!tp_rma_window_can_be(run, group, body->number)) {
            return false;
        }
        group->result = body->number;
    }
    for (uint32_t i = 0; i < group->size; i++) {
        struct tp_rma_slot *slot = &group->slots[i];
        size_t size = tp_rma_spread_is_of(run, group, i, a->process)
                          ? brings(group, body->op, body->args, i)
                          : 0;

        if (!tp_rma_spread_is_of(run, group, i, a->process)) {
            continue;
        }
        if (size > a->len - at) {
            return false;
        }
        slot->op = (enum tp_rma_op)body->op;
        slot->where = body->where;
        memcpy(slot->args, body->args, sizeof(slot->args));
        unpack_member(slot, a->body + at, size);
        at += size;
    }
    return at == a->len;
}

bool
tp_rma_spread_read(struct tp_rma_run *run, struct tp_rma_group *group)
{
    const struct tp_rma_spread *s = group->spread;

    for (uint32_t i = 0; i < tp_rma_spread_processes(run); i++) {
        if (s->came[i] != NULL && !read_arrival(run, group, s->came[i])) {
            tp_rma_run_fail(
                run, TELPHER_ERR_PROTO,
                "process %u sent a malformed part of a collective call of %s", i,
                group->name);
            return false;
        }
    }
    return true;
}
