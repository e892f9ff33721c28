/* SPDX-License-Identifier: Apache-2.0 */
/* Validates what peers wrote in shared memory: copies it once, then checks the copy. */
#include "transport/shm/layout.h"

/* The data in the ring's data area that the body's first 8 bytes name. */
static bool
find_data(const struct tp_shm_ring *ring, const struct tp_shm_cell *copy,
          struct tp_shm_message *m)
{
    uint32_t place[2];

    memcpy(place, copy->body, sizeof(place));
    if (place[1] > TP_SHM_EAGER || place[0] > TP_SHM_DATA - place[1]) {
        return false;
    }
    m->data = ring->data + place[0];
    m->len = place[1];
    return true;
}

enum {
    /* [bytes] of the body that fit into the first line */
    FIRST = TP_SHM_LINE - offsetof(struct tp_shm_cell, body),
    PREFETCH_MAX = 2048, /* [bytes] of data; processors prefetch the rest */
};

/* [bytes] of the body that are used; more than the body has if the cell is invalid. */
static size_t
body_bytes(const struct tp_shm_cell *copy)
{
    size_t header_max =
        copy->kind == TP_SHM_CONTROL ? TP_NET_CONTROL_MAX : TP_NET_HEADER_MAX;

    if (copy->header_len > header_max) {
        return SIZE_MAX;
    }
    switch (copy->kind) {
    case TP_SHM_INLINE:
        return (size_t)copy->header_len + copy->len;
    case TP_SHM_BESIDE:
        return 8 + (size_t)copy->header_len;
    case TP_SHM_CONTROL:
        return copy->header_len;
    case TP_SHM_PART:
        return 12;
    default:
        return SIZE_MAX;
    }
}

/* The handler reads the data later; it arrives while the message is matched. */
static inline void
prefetch(const uint8_t *data, size_t len)
{
    for (size_t at = 0; at < len; at += TP_SHM_LINE) {
        __builtin_prefetch(data + at);
    }
}

bool
tp_shm_cell_read(const struct tp_shm_ring *ring, const struct tp_shm_cell *cell,
                 struct tp_shm_cell *copy, struct tp_shm_message *ret_message)
{
    struct tp_shm_message *m = ret_message;
    size_t bytes, checked;

    memcpy(copy, cell, TP_SHM_LINE);
    tp_shm_copied();
    bytes = body_bytes(copy);
    if (bytes > TP_SHM_BODY) {
        return false;
    }
    prefetch(cell->body + FIRST, bytes > FIRST ? bytes - FIRST : 0);
    checked = copy->kind == TP_SHM_INLINE ? copy->header_len : bytes;
    if (checked > FIRST) {
        memcpy(copy->body + FIRST, cell->body + FIRST, checked - FIRST);
        tp_shm_copied();
    }
    m->kind = copy->kind;
    m->header_len = copy->header_len;
    switch (copy->kind) {
    case TP_SHM_INLINE:
        m->header = copy->body;
        m->data = (bytes <= FIRST ? copy : cell)->body + m->header_len;
        m->len = copy->len;
        return true;
    case TP_SHM_CONTROL:
        m->header = copy->body;
        m->data = NULL;
        m->len = 0;
        return true;
    case TP_SHM_PART:
        m->header = copy->body + 8;
        memcpy(&m->id, m->header, sizeof(m->id));
        return find_data(ring, copy, m) && m->len != 0;
    default:
        m->header = copy->body + 8;
        if (!find_data(ring, copy, m)) {
            return false;
        }
        prefetch(m->data, TP_MIN(m->len, (size_t)PREFETCH_MAX));
        return true;
    }
}

bool
tp_shm_address_check(const uint8_t *src, size_t len, uint64_t job, uint32_t size,
                     struct tp_shm_address *ret_address)
{
    struct tp_shm_address address;

    if (len != sizeof(address)) {
        return false;
    }
    memcpy(&address, src, sizeof(address));
    tp_shm_copied(); /* the address may be in a connection request slot */
    if (address.magic != TP_SHM_MAGIC || address.job != job || address.size != size ||
        address.rank >= size || address.process.pid <= 0 || address.wakeup < 0 ||
        address.fences > 1 || address.listener.pid != address.process.pid ||
        address.listener.size != tp_shm_listener_bytes(size)) {
        return false;
    }
    *ret_address = address;
    return true;
}
