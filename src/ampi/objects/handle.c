/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: one table for each kind of object. */
#include "ampi/ampi_int.h"

#include "base/alloc.h"

/* A free slot has the next free one's number, shifted, with bit 0 set: objects are aligned. */
struct table {
    uintptr_t *slots;
    uint32_t count, free; /* free: number + 1, 0 = none */
};

static struct table tables[TP_AMPI_KINDS];

static bool
grow(struct table *t)
{
    uint32_t count = t->count == 0 ? 64 : 2 * t->count;
    uintptr_t *slots;

    if (count > 0xffffff - TP_AMPI_FIRST_MADE) {
        return false;
    }
    slots = tp_realloc_array(t->slots, count, sizeof(*slots), "MPI handles");
    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = count; i-- > t->count;) {
        slots[i] = (uintptr_t)t->free << 1 | 1;
        t->free = i + 1;
    }
    t->slots = slots;
    t->count = count;
    return true;
}

int
tp_ampi_handle_create(enum tp_ampi_kind kind, void *object)
{
    struct table *t = &tables[kind];
    uint32_t at;

    if (t->free == 0 && !grow(t)) {
        return 0;
    }
    at = t->free - 1;
    t->free = (uint32_t)(t->slots[at] >> 1);
    t->slots[at] = (uintptr_t)object;
    return (int)((unsigned)kind << 24 | (at + TP_AMPI_FIRST_MADE));
}

static uintptr_t *
find_slot(int handle, enum tp_ampi_kind kind)
{
    uint32_t at = ((uint32_t)handle & 0xffffff) - TP_AMPI_FIRST_MADE;
    struct table *t = &tables[kind];

    return (uint32_t)handle >> 24 == (uint32_t)kind && at < t->count &&
                   (t->slots[at] & 1) == 0
               ? &t->slots[at]
               : NULL;
}

void *
tp_ampi_handle_get(int handle, enum tp_ampi_kind kind)
{
    uintptr_t *slot = find_slot(handle, kind);

    return slot != NULL ? (void *)*slot : NULL;
}

void
tp_ampi_handle_destroy(int handle)
{
    enum tp_ampi_kind kind = (enum tp_ampi_kind)((uint32_t)handle >> 24);
    uintptr_t *slot = kind < TP_AMPI_KINDS ? find_slot(handle, kind) : NULL;

    tp_assert(slot != NULL);
    *slot = (uintptr_t)tables[kind].free << 1 | 1;
    tables[kind].free = (uint32_t)(slot - tables[kind].slots) + 1;
}
