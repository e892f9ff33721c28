/* SPDX-License-Identifier: Apache-2.0 */
/* Cells and answers in. */
#include "base/trace/log.h"
#include "transport/shm/net_int.h"

enum {
    BATCH = 32, /* cells of one peer before it is another's turn */
    TELL_MAX =
        TP_SHM_CELLS / 4, /* cells consumed that the peer need not know at once */
};

/* ---- cells ---- */

static void
break_off(struct shm_link *link, const char *what)
{
    tp_warn(SHM_TOPIC, "rank %u wrote nonsense: %s", link->rank, what);
    tp_shm_cut(link, TELPHER_ERR_PROTO);
}

/* @return false if it is to be read again later */
static bool
take_cell(struct shm_link *link)
{
    struct shm_net *n = link->net;
    const struct tp_net_events *events = n->params.events;
    struct tp_shm_cell copy;
    struct tp_shm_message m;
    struct tp_net_bulk *bulk;

    if (!tp_shm_cell_read(link->in, &link->in->cells[link->in_next % TP_SHM_CELLS],
                          &copy, &m)) {
        break_off(link, "a cell");
        return true;
    }
    link->data_taken |= m.kind == TP_SHM_BESIDE || m.kind == TP_SHM_PART;
    if (m.kind == TP_SHM_BULK) {
        bulk = tp_shm_announce(link, &m);
        if (bulk == NULL) {
            return false;
        }
        events->on_bulk(n->params.user, link->rank, m.header, m.header_len, m.len,
                        bulk);
    } else if (m.kind == TP_SHM_PART) {
        if (!tp_shm_take_part(link, m.data, (size_t)m.len)) {
            break_off(link, "data that nobody asked for");
        }
    } else {
        events->on_message(n->params.user, link->rank, m.header, m.header_len, m.data,
                           (size_t)m.len);
    }
    return true;
}

void
tp_shm_tell_tail(struct shm_link *link)
{
    if (link->in_told == link->in_next) {
        return;
    }
    link->in_told = link->in_next;
    link->data_taken = false;
    atomic_store_explicit(&link->in->tail, link->in_next, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (tp_unlikely(atomic_load_explicit(&link->in->starved, memory_order_relaxed) !=
                    0)) {
        tp_shm_wake(link);
    }
}

static unsigned
read_cells(struct shm_link *link)
{
    unsigned count = 0;

    while (count < BATCH && !link->deaf && tp_shm_has_cell(link) && take_cell(link)) {
        link->in_next++;
        count++;
    }
    if (link->data_taken || link->in_next - link->in_told >= TELL_MAX) {
        tp_shm_tell_tail(link);
    }
    return count;
}

/* ---- answers ---- */

static void
begin_push(struct shm_link *link, struct shm_out *o, uint64_t len)
{
    struct shm_way_out *out = &link->out;
    uint32_t i = (uint32_t)(o - link->net->outs);

    o->len = (size_t)len;
    o->sent = 0;
    o->pushed = true;
    o->next = SHM_NONE;
    if (out->push_first == SHM_NONE) {
        out->push_first = i;
    } else {
        link->net->outs[out->push_last].next = i;
    }
    out->push_last = i;
    link->net->pushing++;
}

static void
take_answer(struct shm_link *link, uint32_t code, uint64_t id, uint64_t len)
{
    struct shm_out *o = tp_shm_find_out(link, id);
    struct tp_net_op *op;

    if (o == NULL || o->pushed || code < TP_SHM_DONE || code > TP_SHM_PULL ||
        (code == TP_SHM_PULL && (len == 0 || len > o->len))) {
        break_off(link, "an answer");
        return;
    }
    if (code == TP_SHM_PULL) {
        begin_push(link, o, len);
        return;
    }
    op = tp_shm_take_out(o);
    op->done(op, code == TP_SHM_DONE      ? TELPHER_OK
                 : code == TP_SHM_DROPPED ? TELPHER_ERR_CANCELED
                                          : TELPHER_ERR_IO);
}

static unsigned
read_answers(struct shm_link *link)
{
    struct shm_way_out *out = &link->out;
    unsigned count = 0;

    while (!link->deaf && tp_shm_has_answer(link)) {
        const struct tp_shm_answer *a =
            &out->ring->answers[out->answers % TP_SHM_ANSWERS];
        uint32_t code = a->code;
        uint64_t id = a->id, len = a->len;

        tp_shm_copied();
        out->answers++;
        count++;
        take_answer(link, code, id, len);
    }
    if (count != 0) {
        atomic_store_explicit(&out->ring->answers_tail, out->answers,
                              memory_order_release);
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&out->ring->answers_starved, memory_order_relaxed) !=
            0) {
            tp_shm_wake(link);
        }
    }
    return count;
}

unsigned
tp_shm_receive(struct shm_link *link)
{
    unsigned count = 0;

    if (tp_shm_has_cell(link)) {
        count = read_cells(link);
    } else { /* not before what was read has been dealt with: that is waited for */
        tp_shm_tell_tail(link);
    }
    return tp_shm_has_answer(link) ? count + read_answers(link) : count;
}
