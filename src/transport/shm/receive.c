/* SPDX-License-Identifier: Apache-2.0 */
/* Reads cells from peers' rings. */
#include "base/trace/log.h"
#include "transport/shm/net_int.h"

enum {
    BATCH = 32, /* cells of one peer before others have their turn */
    PUBLISH_MAX =
        TP_SHM_CELLS / 4, /* consumed cells that need not be reported at once */
};

/* Copies rendezvous data to its destination, if the engine gives one. */
static void
take_part(struct shm_link *link, const struct tp_shm_message *m)
{
    const struct tp_net_params *params = &link->net->params;
    uint8_t *dst = NULL;
    size_t room = 0;

    if (params->events->data_at(params->user, link->rank, m->id, m->len, &dst, &room)) {
        if (room != 0) {
            memcpy(dst, m->data, room);
        }
        params->events->data_received(params->user, link->rank, m->id, m->len);
    }
}

static void
take_cell(struct shm_link *link)
{
    const struct tp_net_params *params = &link->net->params;
    struct tp_shm_cell copy;
    struct tp_shm_message m;

    if (!tp_shm_cell_read(link->in, &link->in->cells[link->in_next % TP_SHM_CELLS],
                          &copy, &m)) {
        tp_warn(SHM_TOPIC,
                "connection to rank %u closed: it wrote an invalid cell %u into shared "
                "memory",
                link->rank, (unsigned)(link->in_next % TP_SHM_CELLS));
        tp_shm_cut(link, TELPHER_ERR_PROTO);
        return;
    }
    link->data_taken |= m.kind == TP_SHM_BESIDE || m.kind == TP_SHM_PART;
    if (m.kind == TP_SHM_PART) {
        take_part(link, &m);
    } else if (m.kind == TP_SHM_CONTROL) {
        params->events->on_control(params->user, link->rank, m.header, m.header_len, 0);
    } else {
        params->events->on_message(params->user, link->rank, m.header, m.header_len,
                                   m.data, m.len);
    }
}

void
tp_shm_publish_tail(struct shm_link *link)
{
    if (link->in_published == link->in_next) {
        return;
    }
    link->in_published = link->in_next;
    link->data_taken = false;
    atomic_store_explicit(&link->in->tail, link->in_next, memory_order_release);
    tp_shm_fence(link);
    if (tp_unlikely(atomic_load_explicit(&link->in->starved, memory_order_relaxed) !=
                    0)) {
        tp_shm_wake(link);
    }
}

static unsigned
read_cells(struct shm_link *link, unsigned most)
{
    unsigned count = 0;

    while (count < most && !link->deaf && tp_shm_has_cell(link)) {
        take_cell(link);
        link->in_next++;
        count++;
    }
    if (link->data_taken || link->in_next - link->in_published >= PUBLISH_MAX) {
        tp_shm_publish_tail(link);
    }
    return count;
}

/* The caller may wait for the first message after a pause. Then it returns alone: to look at
 * the next cell, which the peer may be writing, takes as long as a message. */
unsigned
tp_shm_receive(struct shm_link *link)
{
    if (tp_shm_has_cell(link)) {
        unsigned most = link->paused ? 1 : BATCH;

        link->paused = false;
        return read_cells(link, most);
    }
    link->paused = true;
    tp_shm_publish_tail(link); /* only after the cells were processed */
    return 0;
}
