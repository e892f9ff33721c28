/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a LAUNCH_AGAIN of a launch that is like the last one of its queue, and back. */
#include "wire/launch.h"

#include "wire/bytes.h"

enum { LEN_BITS = 5 }; /* of an argument's second byte; its kind is above */

_Static_assert(TP_WIRE_AGAIN_VALUE_MAX == (1 << LEN_BITS) - 1, "length of a value");

static bool
is_short(enum tp_wire_kind kind, uint64_t id)
{
    return id == tp_wire_id(kind, (uint32_t)id);
}

static bool
is_like(const struct tp_wire_last_launch *last, const struct tp_wire_launch *m)
{
    return last->dims == m->dims && last->kernel == m->kernel &&
           last->size_count == m->sizes.count &&
           memcmp(last->sizes, m->sizes.data, m->sizes.count * sizeof(uint64_t)) == 0;
}

void
tp_wire_launch_remember(struct tp_wire_last_launch *last,
                        const struct tp_wire_launch *m)
{
    last->kernel = m->kernel;
    last->event = m->event;
    last->dims = m->dims;
    last->size_count = m->sizes.count;
    (void)put_raw((uint8_t *)last->sizes, m->sizes.data,
                  m->sizes.count * sizeof(uint64_t));
}

bool
tp_wire_launch_shrink(struct tp_wire_last_launch *last, const struct tp_wire_launch *m,
                      struct tp_wire_launch_again *ret_again)
{
    bool after = m->wait.count == 1 && last->event != 0 &&
                 tp_wire_u64_at(&m->wait, 0) == last->event;

    if (!is_like(last, m) || (m->wait.count != 0 && !after) ||
        !is_short(TP_WIRE_KIND_QUEUE, m->queue) ||
        (m->event != 0 && !is_short(TP_WIRE_KIND_EVENT, m->event))) {
        tp_wire_launch_remember(last, m);
        return false;
    }
    last->event = m->event;
    *ret_again = (struct tp_wire_launch_again){
        .queue = (uint32_t)m->queue,
        .event = (uint32_t)m->event,
        .flags = (uint8_t)(m->flags | (after ? TP_WIRE_AFTER_LAST : 0)),
    };
    return true;
}

bool
tp_wire_launch_expand(struct tp_wire_last_launch *last,
                      const struct tp_wire_launch_again *again, uint64_t *event_room,
                      struct tp_wire_launch *ret_m)
{
    bool after = (again->flags & TP_WIRE_AFTER_LAST) != 0;

    if (last->dims == 0 || (after && last->event == 0)) {
        return false;
    }
    *event_room = last->event;
    last->event = again->event != 0 ? tp_wire_id(TP_WIRE_KIND_EVENT, again->event) : 0;
    *ret_m = (struct tp_wire_launch){
        .event = last->event,
        .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, again->queue),
        .kernel = last->kernel,
        .flags = (uint8_t)(again->flags & ~TP_WIRE_AFTER_LAST),
        .dims = last->dims,
        .sizes = {last->size_count, last->sizes},
        .wait = {after ? 1 : 0, event_room},
    };
    return true;
}

uint8_t *
tp_wire_put_again_arg(uint8_t *dst, const uint8_t *end,
                      const struct tp_wire_kernel_arg *m)
{
    uint32_t len = m->value.len;

    /* the size of a local argument is not its length */
    if (m->kind == TP_WIRE_ARG_LOCAL || m->index > UINT8_MAX ||
        len > TP_WIRE_AGAIN_VALUE_MAX || (size_t)(end - dst) < 2 + (size_t)len) {
        return NULL;
    }
    dst = put_u8(dst, (uint8_t)m->index);
    dst = put_u8(dst, (uint8_t)((uint32_t)m->kind << LEN_BITS | len));
    return put_raw(dst, m->value.data, len);
}

bool
tp_wire_take_again_arg(struct tp_wire_bytes *args, struct tp_wire_kernel_arg *ret_m)
{
    const uint8_t *src = args->data, *end = src + args->len;
    struct tp_wire_kernel_arg m = {0};
    uint8_t index, shape;

    if (!take_u8(&src, end, &index) || !take_u8(&src, end, &shape)) {
        return false;
    }
    m.index = index;
    m.kind = (uint8_t)(shape >> LEN_BITS);
    m.value.len = shape & TP_WIRE_AGAIN_VALUE_MAX;
    m.size = m.kind == TP_WIRE_ARG_VALUE ? m.value.len : sizeof(uint64_t);
    if (m.kind == TP_WIRE_ARG_LOCAL ||
        !take_raw(&src, end, m.value.len, &m.value.data)) {
        return false;
    }
    *args = (struct tp_wire_bytes){(uint32_t)(end - src), src};
    *ret_m = m;
    return true;
}
