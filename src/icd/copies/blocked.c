/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the commands that cannot begin before the program does something. */
#include "icd/copies/copies_int.h"
#include "icd/copies/frames.h"
#include "icd/icd.h"

/** True if a command waits for the program, or for one that does. */
static bool
waits_for_blocked(const struct tp_icd_copies *c, const struct tp_wire_u64s *wait)
{
    for (size_t i = 0; i < wait->count; i++) {
        uint64_t id = tp_wire_u64_at(wait, i);
        const struct tp_copies_entry *other = tp_map_get(&c->commands, id);

        if (tp_map_get(&c->unset, id) != NULL ||
            (other != NULL && !other->done && other->blocked)) {
            return true;
        }
    }
    return false;
}

/** True if a WRITE has no content yet, and gets none before the commit. */
static bool
has_no_content(const struct tp_icd_copies *c, const struct tp_copies_entry *e)
{
    const struct _cl_event *ev = tp_map_get(&c->session->events, e->event);
    const struct tp_icd_source *source =
        ev == NULL || ev->parts == 0
            ? NULL
            : tp_map_get(&c->session->bulk.sources, ev->transfer);

    return source != NULL && source->held;
}

/** By the rules of OpenCL: in order, by wait lists, by barriers. */
static bool
is_blocked(const struct tp_icd_copies *c, const struct tp_copies_entry *e)
{
    struct tp_copies_queue *q = tp_map_get(&c->queues, e->queue);
    const struct tp_wire_u64s *wait;
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];
    bool is_barrier = e->type == TP_WIRE_BARRIER, blocked;

    tp_copies_decode(e, msg);
    wait = tp_copies_member(msg, tp_copies_find_command(e->type)->wait_at);
    blocked = waits_for_blocked(c, wait) || has_no_content(c, e);
    if (q != NULL) {
        blocked = blocked || q->all_blocked || (q->in_order && q->any_blocked) ||
                  ((is_barrier || e->type == TP_WIRE_MARKER) && wait->count == 0 &&
                   q->any_blocked);
        q->any_blocked = q->any_blocked || blocked;
        q->all_blocked = q->all_blocked || (is_barrier && blocked);
    }
    return blocked;
}

unsigned
tp_copies_find_blocked(struct tp_icd_copies *c)
{
    struct tp_copies_queue *q;
    size_t cursor = 0;
    unsigned running = 0;
    uint64_t id;

    while (tp_map_next(&c->queues, &cursor, &id, (void **)&q)) {
        q->any_blocked = q->all_blocked = false;
    }
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        if (e->event != 0 && e->sent && !e->done) {
            e->blocked = is_blocked(c, e);
            running += !e->blocked;
        }
    }
    return running;
}
