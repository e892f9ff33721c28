/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that a process of the same machine may write: a cell of a ring if the first byte is
 * even, else an address. Headers taken from a cell must lie in the copy, data there, in the
 * cell, or in the ring's data area.
 */
#include "support/fuzz.h"

#include "transport/shm/layout.h"

static struct tp_shm_ring ring;

static bool
lies_in(const struct tp_shm_message *m, const void *memory, size_t size)
{
    const uint8_t *from = memory;

    return m->data >= from && m->data + m->len <= from + size;
}

static void
read_cell(const uint8_t *data, size_t len)
{
    struct tp_shm_cell *cell = &ring.cells[0];
    struct tp_shm_cell copy;
    struct tp_shm_message m = {0};
    const uint8_t *from = (const uint8_t *)&copy, *to = from + sizeof(copy);

    memset(cell, 0, sizeof(*cell));
    memcpy(cell, data, len < sizeof(*cell) ? len : sizeof(*cell));
    if (!tp_shm_cell_read(&ring, cell, &copy, &m)) {
        return;
    }
    require(m.header_len <=
            (m.kind == TP_SHM_CONTROL ? TP_NET_CONTROL_MAX : TP_NET_HEADER_MAX));
    require(m.header >= from && m.header + m.header_len <= to);
    if (m.kind == TP_SHM_CONTROL) {
        require(m.len == 0);
        return;
    }
    require(m.len <= TP_SHM_EAGER);
    require(m.kind == TP_SHM_INLINE
                ? lies_in(&m, &copy, sizeof(copy)) || lies_in(&m, cell, sizeof(*cell))
                : lies_in(&m, ring.data, sizeof(ring.data)));
}

static void
read_address(const uint8_t *data, size_t len)
{
    uint8_t *exact = exact_copy(data, len);
    struct tp_shm_address address;

    if (tp_shm_address_check(exact, len, 1, 4, &address)) {
        require(address.rank < 4 && address.process.pid > 0);
        require(address.listener.size == tp_shm_listener_bytes(4));
    }
    free(exact);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        read_cell(data + 1, len - 1);
    } else {
        read_address(data + 1, len - 1);
    }
    return 0;
}
