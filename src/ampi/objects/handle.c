/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: one table for each kind of object. Ranks that may move have parts of the tables of
 * their own, so that no two ranks of the world use the same handle.
 */
#include <string.h>
#include <sys/mman.h>

#include "ampi/process.h"
#include "base/alloc.h"

enum {
    CHUNK = 512, /* slots of a part: a page */
    SLOTS_MAX = 0x1000000 - TP_AMPI_FIRST_MADE,
};

/* A free slot has the next free one's number, shifted, with bit 0 set. */
struct tp_ampi_table tp_ampi_tables[TP_AMPI_KINDS];
static struct tp_ampi_handles shared; /* of ranks that do not move */

static void
link_slots(struct tp_ampi_handles *own, enum tp_ampi_kind kind, uint32_t from,
           uint32_t to)
{
    for (uint32_t i = to; i-- > from;) {
        tp_ampi_tables[kind].slots[i] = (uintptr_t)own->free[kind] << 1 | 1;
        own->free[kind] = i + 1;
    }
}

static bool
grow(enum tp_ampi_kind kind)
{
    struct tp_ampi_table *t = &tp_ampi_tables[kind];
    uint32_t from = t->count, count = from == 0 ? 64 : 2 * from;
    uintptr_t *slots;

    if (count > SLOTS_MAX) {
        return false;
    }
    slots = tp_realloc_array(t->slots, count, sizeof(*slots), "MPI handles");
    if (slots == NULL) {
        return false;
    }
    t->slots = slots;
    t->count = count;
    link_slots(&shared, kind, from, count);
    return true;
}

/* The first slot of a part of a rank. */
static uint32_t
chunk_at(uint32_t rank, uint32_t number)
{
    return (rank + number * tp_ampi.world_size) * CHUNK;
}

static bool
grow_own(struct tp_ampi_rank *rank, enum tp_ampi_kind kind)
{
    uint32_t number = rank->handles.chunks[kind];
    uint32_t at = chunk_at(rank->world, number);

    if (number > SLOTS_MAX / CHUNK / tp_ampi.world_size || at + CHUNK > SLOTS_MAX) {
        return false;
    }
    rank->handles.chunks[kind]++;
    link_slots(&rank->handles, kind, at, at + CHUNK);
    return true;
}

int
tp_ampi_handle_create(enum tp_ampi_kind kind, void *object)
{
    struct tp_ampi_handles *own =
        tp_ampi.movable ? &tp_ampi_current()->handles : &shared;
    struct tp_ampi_table *t = &tp_ampi_tables[kind];
    uint32_t at;

    if (own->free[kind] == 0 &&
        !(own == &shared ? grow(kind) : grow_own(tp_ampi_current(), kind))) {
        return 0;
    }
    at = own->free[kind] - 1;
    own->free[kind] = (uint32_t)(t->slots[at] >> 1);
    t->slots[at] = (uintptr_t)object;
    return (int)((unsigned)kind << 24 | (at + TP_AMPI_FIRST_MADE));
}

void
tp_ampi_handle_destroy(int handle)
{
    enum tp_ampi_kind kind = (enum tp_ampi_kind)((uint32_t)handle >> 24);
    uint32_t at = ((uint32_t)handle & 0xffffff) - TP_AMPI_FIRST_MADE;
    struct tp_ampi_handles *own = &shared;

    tp_assert(kind < TP_AMPI_KINDS && tp_ampi_handle_get(handle, kind) != NULL);
    if (tp_ampi.movable) {
        uint32_t rank = at / CHUNK % tp_ampi.world_size;

        own = &tp_ampi.ranks[tp_ampi.places[rank].local]->handles;
    }
    tp_ampi_tables[kind].slots[at] = (uintptr_t)own->free[kind] << 1 | 1;
    own->free[kind] = at + 1;
}

/* ---- ranks that may move ---- */

bool
tp_ampi_handles_reserve(void)
{
    for (int kind = 0; kind < TP_AMPI_KINDS; kind++) {
        void *at = mmap(NULL, SLOTS_MAX * sizeof(uintptr_t), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (at == MAP_FAILED) {
            return false;
        }
        tp_ampi_tables[kind] = (struct tp_ampi_table){.slots = at, .count = SLOTS_MAX};
    }
    return true;
}

/* Copies the parts of a rank's tables to or from its memory. */
static size_t
copy_chunks(const struct tp_ampi_rank *rank, uintptr_t *packed, bool out)
{
    size_t count = 0;

    for (int kind = 0; kind < TP_AMPI_KINDS; kind++) {
        for (uint32_t i = 0; i < rank->handles.chunks[kind]; i++, count++) {
            uintptr_t *slots = &tp_ampi_tables[kind].slots[chunk_at(rank->world, i)];

            if (packed != NULL) {
                memcpy(out ? packed + count * CHUNK : slots,
                       out ? slots : packed + count * CHUNK, CHUNK * sizeof(*slots));
            }
        }
    }
    return count;
}

void
tp_ampi_handles_pack(struct tp_ampi_rank *rank)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(rank->heap);

    rank->handles.packed = tp_alloc_array(copy_chunks(rank, NULL, true) * CHUNK,
                                          sizeof(uintptr_t), "handles");
    (void)tp_ampi_heap_use(heap);
    if (rank->handles.packed == NULL) {
        tp_ampi_abort(MPI_ERR_NO_MEM);
    }
    (void)copy_chunks(rank, rank->handles.packed, true);
}

void
tp_ampi_handles_unpack(struct tp_ampi_rank *rank)
{
    (void)copy_chunks(rank, rank->handles.packed, false);
    tp_free(rank->handles.packed);
    rank->handles.packed = NULL;
}

bool
tp_ampi_handles_any(const struct tp_ampi_rank *rank, enum tp_ampi_kind kind)
{
    for (uint32_t i = 0; i < rank->handles.chunks[kind]; i++) {
        const uintptr_t *slots = &tp_ampi_tables[kind].slots[chunk_at(rank->world, i)];

        for (uint32_t k = 0; k < CHUNK; k++) {
            if ((slots[k] & 1) == 0) {
                return true;
            }
        }
    }
    return false;
}
