/* SPDX-License-Identifier: Apache-2.0 */
/* Futures: values that arrive later, for light threads that wait. */
#include "mdr/object_int.h"

#include <string.h>

#include "base/alloc.h"

/* The slot of a future of this process, or NULL. */
static struct tp_mdr_slot *
slot_of(telpher_mdr *mdr, uint32_t slot, uint64_t generation)
{
    return slot < mdr->slot_count && mdr->slots[slot].generation == generation &&
                   generation % 2 == 1
               ? &mdr->slots[slot]
               : NULL;
}

static bool
grow_slots(telpher_mdr *mdr)
{
    uint32_t count = mdr->slot_count != 0 ? 2 * mdr->slot_count : 16;
    struct tp_mdr_slot *slots =
        tp_realloc_array(mdr->slots, count, sizeof(*slots), "mdr futures");

    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = mdr->slot_count; i < count; i++) {
        slots[i] = (struct tp_mdr_slot){.next_free = mdr->free_slot};
        mdr->free_slot = i;
    }
    mdr->slots = slots;
    mdr->slot_count = count;
    return true;
}

telpher_status
telpher_mdr_future_create(telpher_mdr *mdr, telpher_mdr_future *ret_future)
{
    struct tp_mdr_slot *s;
    uint32_t slot;

    if (mdr->free_slot == UINT32_MAX && !grow_slots(mdr)) {
        return tp_mdr_error(mdr, TELPHER_ERR_NO_MEMORY,
                            "out of memory for another future");
    }
    slot = mdr->free_slot;
    s = &mdr->slots[slot];
    mdr->free_slot = s->next_free;
    s->generation++;
    *ret_future = (telpher_mdr_future){
        .rank = mdr->rank, .slot = slot, .generation = s->generation};
    return TELPHER_OK;
}

static void
free_slot(telpher_mdr *mdr, uint32_t slot)
{
    struct tp_mdr_slot *s = &mdr->slots[slot];

    tp_free(s->data);
    *s = (struct tp_mdr_slot){.generation = s->generation + 1,
                              .next_free = mdr->free_slot};
    mdr->free_slot = slot;
}

telpher_status
telpher_mdr_future_set(telpher_mdr *mdr, telpher_mdr_future future, const void *data,
                       size_t len)
{
    const struct tp_mdr_header h = {
        .kind = TP_MDR_FUTURE, .id = future.generation, .at = {(int32_t)future.slot}};

    if (future.rank >= mdr->size) {
        return tp_mdr_error(mdr, TELPHER_ERR_RANGE,
                            "the future names process %u; the job has %u: was it "
                            "changed, or never created?",
                            future.rank, mdr->size);
    }
    return tp_mdr_send(mdr, future.rank, &h, NULL, 0, data, len);
}

void
tp_mdr_future_receive(telpher_mdr *mdr, const struct tp_mdr_header *h, const void *data,
                      size_t len)
{
    struct tp_mdr_slot *s = slot_of(mdr, (uint32_t)h->at[0], h->id);

    if (s == NULL || s->set) {
        tp_mdr_fail(mdr, TELPHER_ERR_INVALID,
                    "future %d of this process was set %s; each future takes one value",
                    h->at[0], s == NULL ? "again after it was awaited" : "twice");
        return;
    }
    s->data = len != 0 ? tp_memdup(data, len, "mdr future") : NULL;
    if (len != 0 && s->data == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                    "out of memory for the %zu bytes of future %d", len, h->at[0]);
        return;
    }
    s->len = len;
    s->set = true;
    if (s->waiter != NULL) {
        tp_lights_wake(&mdr->lights, s->waiter);
        s->waiter = NULL;
    }
}

static telpher_status
take_value(telpher_mdr *mdr, uint32_t slot, void *dst, size_t cap, size_t *ret_len)
{
    const struct tp_mdr_slot *s = &mdr->slots[slot];
    size_t len = s->len < cap ? s->len : cap;
    telpher_status status = s->len <= cap ? TELPHER_OK : TELPHER_ERR_TRUNCATED;

    if (len != 0) {
        memcpy(dst, s->data, len);
    }
    if (ret_len != NULL) {
        *ret_len = s->len;
    }
    free_slot(mdr, slot);
    return status;
}

telpher_status
telpher_mdr_await(telpher_mdr *mdr, telpher_mdr_future future, void *dst, size_t cap,
                  size_t *ret_len)
{
    struct tp_mdr_slot *s = slot_of(mdr, future.slot, future.generation);

    if (s == NULL || future.rank != mdr->rank) {
        return tp_mdr_error(mdr, TELPHER_ERR_NOT_FOUND,
                            "no such future: of another process, or used up");
    }
    if (mdr->lights.current == NULL || s->waiter != NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            mdr->lights.current == NULL
                                ? "this entry may not wait: give it TELPHER_MDR_WAITS"
                                : "another entry waits for this future");
    }
    while (!s->set) {
        s->waiter = mdr->lights.current;
        if (tp_mdr_light_suspend(mdr) != TELPHER_OK) {
            return tp_mdr_error(mdr, TELPHER_ERR_CANCELED,
                                "the run is ending, because a process called "
                                "telpher_mdr_exit() or failed");
        }
        s = &mdr->slots[future.slot]; /* the table may have moved */
    }
    return take_value(mdr, future.slot, dst, cap, ret_len);
}

void
tp_mdr_futures_fini(telpher_mdr *mdr)
{
    for (uint32_t i = 0; i < mdr->slot_count; i++) {
        tp_free(mdr->slots[i].data);
    }
    tp_free(mdr->slots);
}
