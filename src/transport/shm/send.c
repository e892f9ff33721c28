/* SPDX-License-Identifier: Apache-2.0 */
/* Writes cells to peers' rings. The only index that a peer writes, the tail, is
 * accepted if it lies between its previous value and the head. */
#include "transport/shm/net_int.h"

/** Position of the next message. */
struct place {
    struct tp_shm_cell *cell;
    uint32_t at; /* offset in the data area */
};

/* Reads the peer's tail, which takes as long as a message, each time this much more of the data
 * area is in use. */
enum { DATA_STEP = TP_SHM_DATA / 8 };

/* A line that the reader has read comes back to the writer as slowly as a message. So a writer
 * that sends one message after the other requests, with each, the lines of a later one: those of
 * the cell so many ahead, where the reader does not look yet, and of the data after the next. */
enum {
    AHEAD = 8,
    AHEAD_MAX = 2 << 10, /* [bytes] of data; processors prefetch longer data */
};

/* [bytes] of rendezvous data per cell: the reader copies one while the writer copies
 * the next. */
enum { PART = 16 << 10 };

/* No data is in use: the next is written to memory that is in the cache already. Cells that
 * have not been consumed have none. */
static void
start_over(struct shm_way_out *out)
{
    for (uint32_t i = out->tail; i != out->head; i++) {
        out->data_end[i % TP_SHM_CELLS] = 0;
    }
    out->data_head = out->data_tail = 0;
}

/* Reads the tail. @return false if it has not changed */
static bool
see_tail(struct shm_link *link)
{
    struct shm_way_out *out = &link->out;
    uint32_t tail = atomic_load_explicit(&out->ring->tail, memory_order_acquire);

    if (tail == out->tail) {
        return false;
    }
    if (tail - out->tail > out->head - out->tail) {
        tp_shm_cut(link, TELPHER_ERR_PROTO);
        return false;
    }
    out->tail = tail;
    out->data_tail = out->data_end[(tail - 1) % TP_SHM_CELLS];
    if (out->data_tail == out->data_head) {
        start_over(out);
    }
    return true;
}

/* Finds contiguous room for data. The head never catches up with the tail. */
static bool
find_data(struct shm_way_out *out, uint32_t bytes, uint32_t *ret_at)
{
    if (out->data_head < out->data_tail) {
        *ret_at = out->data_head;
        return bytes < out->data_tail - out->data_head;
    }
    if (bytes <= TP_SHM_DATA - out->data_head) {
        *ret_at = out->data_head;
        return true;
    }
    *ret_at = 0;
    return bytes < out->data_tail;
}

static bool
find_place(struct shm_link *link, uint32_t bytes, struct place *ret_place)
{
    struct shm_way_out *out = &link->out;

    if (out->head - out->tail == TP_SHM_CELLS && !see_tail(link)) {
        return false;
    }
    if (bytes != 0) {
        if (out->data_head / DATA_STEP != (out->data_head + bytes) / DATA_STEP) {
            (void)see_tail(link);
        }
        while (!find_data(out, bytes, &ret_place->at)) {
            if (!see_tail(link)) {
                return false;
            }
        }
        out->data_head = ret_place->at + bytes;
    }
    out->data_end[out->head % TP_SHM_CELLS] = out->data_head;
    ret_place->cell = &out->ring->cells[out->head % TP_SHM_CELLS];
    return true;
}

/* @param len  [bytes] of data in the data area. @return false: no room */
static bool
claim(struct shm_link *link, size_t len, struct place *ret_place)
{
    struct shm_way_out *out = &link->out;
    uint32_t bytes = ((uint32_t)len + TP_SHM_LINE - 1) & ~(uint32_t)(TP_SHM_LINE - 1);

    if (tp_unlikely(!find_place(link, bytes, ret_place))) {
        out->starved = true;
        return false;
    }
    if (tp_unlikely(out->starved)) {
        out->starved = false;
        atomic_store_explicit(&out->ring->starved, 0, memory_order_relaxed);
    }
    return true;
}

static inline void
request_lines(const void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += TP_SHM_LINE) {
        tp_prefetch_write((const uint8_t *)at + i);
    }
}

/* @param bytes, data  [bytes] of the cell, and in the data area, which the next messages will
 *                     have as well */
static inline void
publish(struct shm_link *link, struct tp_shm_cell *cell, size_t bytes, size_t data)
{
    struct shm_way_out *out = &link->out;

    atomic_store_explicit(&cell->seq, ++out->head, memory_order_release);
    tp_shm_wake(link);
    if (out->answered != link->in_next) {
        out->answered = link->in_next; /* the ranks may take turns: do not disturb */
        return;
    }
    request_lines(&out->ring->cells[(out->head - 1 + AHEAD) % TP_SHM_CELLS], bytes);
    if (data <= AHEAD_MAX && out->data_head + 2 * data <= TP_SHM_DATA) {
        request_lines(out->ring->data + out->data_head + data, data);
    }
}

/* Writes the cell's fields and the header. */
static void
fill(struct tp_shm_cell *cell, enum tp_shm_kind kind, const void *words, size_t bytes,
     const void *header, size_t header_len)
{
    cell->kind = (uint8_t)kind;
    cell->header_len = (uint8_t)header_len;
    cell->len = 0;
    memcpy(cell->body, words, bytes);
    if (header_len != 0) {
        memcpy(cell->body + bytes, header, header_len);
    }
}

static void
write_beside(struct shm_link *link, const struct place *place, enum tp_shm_kind kind,
             const void *header, size_t header_len, const void *data, size_t len)
{
    const uint32_t words[] = {place->at, (uint32_t)len};

    memcpy(link->out.ring->data + place->at, data, len);
    fill(place->cell, kind, words, sizeof(words), header, header_len);
    publish(link, place->cell, 1, len);
}

/** The link to send on, or NULL: it is lost. */
static inline struct shm_link *
find_link(struct tp_net *net, uint32_t peer)
{
    struct shm_link *link = shm_net(net)->links[peer];

    return link == NULL || link->ending || link->out.ring == NULL ? NULL : link;
}

/* Copies the usual lengths inline, without a call of memcpy. */
static inline void
copy_short(uint8_t *dst, const void *src, size_t len)
{
    if (len == 32) { /* length of the engine's message header */
        memcpy(dst, src, 32);
    } else if (len == 8) {
        memcpy(dst, src, 8);
    } else if (len == 24) { /* short header of an object's message, and 8 bytes */
        memcpy(dst, src, 8);
        memcpy(dst + 8, (const uint8_t *)src + 8, 8);
        memcpy(dst + 16, (const uint8_t *)src + 16, 8);
    } else if (len != 0) {
        memcpy(dst, src, len);
    }
}

telpher_status
tp_shm_send(struct tp_net *net, uint32_t peer, const void *header, size_t header_len,
            const void *data, size_t len)
{
    struct shm_link *link = find_link(net, peer);
    bool inside = header_len + len <= TP_SHM_BODY;
    struct place place;

    if (tp_unlikely(link == NULL)) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (tp_unlikely(!claim(link, inside ? 0 : len, &place))) {
        return link->ending ? TELPHER_ERR_PEER_LOST : TELPHER_ERR_AGAIN;
    }
    if (!inside) {
        write_beside(link, &place, TP_SHM_BESIDE, header, header_len, data, len);
        return TELPHER_OK;
    }
    place.cell->kind = TP_SHM_INLINE;
    place.cell->header_len = (uint8_t)header_len;
    place.cell->len = (uint16_t)len;
    copy_short(place.cell->body, header, header_len);
    copy_short(place.cell->body + header_len, data, len);
    publish(link, place.cell, offsetof(struct tp_shm_cell, body) + header_len + len, 0);
    return TELPHER_OK;
}

telpher_status
tp_shm_control(struct tp_net *net, uint32_t peer, const void *frame, size_t len,
               const void *data, size_t data_len)
{
    struct shm_link *link = find_link(net, peer);
    struct place place;

    (void)data_len; /* is 0, because first_max is */
    if (link == NULL) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (!claim(link, 0, &place)) {
        return link->ending ? TELPHER_ERR_PEER_LOST : TELPHER_ERR_AGAIN;
    }
    fill(place.cell, TP_SHM_CONTROL, "", 0, frame, len);
    publish(link, place.cell, 1, 0);
    return TELPHER_OK;
}

size_t
tp_shm_write_data(struct tp_net *net, uint32_t peer, uint32_t id, const void *src,
                  size_t len, void *arg)
{
    struct shm_link *link = find_link(net, peer);
    const struct tp_net_params *params = &shm_net(net)->params;
    size_t part = TP_MIN(len, (size_t)PART);
    struct place place;

    if (link == NULL || !claim(link, part, &place)) {
        return 0;
    }
    write_beside(link, &place, TP_SHM_PART, &id, sizeof(id), src, part);
    params->events->data_sent(params->user, arg, part);
    return part;
}

bool
tp_shm_has_room(struct shm_link *link)
{
    return link->out.starved && see_tail(link);
}
