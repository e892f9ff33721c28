/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the memory kind and device of an address. The order is: the entry that was hit
 * last, the rest of a small cache, the list of known memory, the domains that can tell
 * by themselves (CUDA). An address that none of them knows is plain host memory. That
 * result is never cached: the address may belong to a device after the next allocation,
 * and a CPU access would then crash. Device results may be cached, because a driver
 * keeps the address range of its memory for as long as it lives.
 */
#include <string.h>

#include "base/alloc.h"
#include "core/comm/mem/mem_int.h"

static void
tell(const struct tp_device_memory *memory, uint64_t offset, struct tp_mem_place *ret)
{
    *ret = (struct tp_mem_place){
        .device = memory->device,
        .mem = memory->mem,
        .offset = offset,
        .host = memory->host != NULL ? (char *)memory->host + offset : NULL,
        .by_net = memory->by_net != NULL ? (char *)memory->by_net + offset : NULL,
        .kind = memory->kind,
    };
}

static void
tell_plain(const void *ptr, struct tp_mem_place *ret)
{
    *ret = (struct tp_mem_place){
        .host = (void *)(uintptr_t)ptr,
        .kind = TELPHER_MEM_HOST,
    };
}

static uint64_t
offset_in(const struct tp_device_memory *memory, const void *ptr)
{
    return (uintptr_t)ptr - (uintptr_t)memory->base;
}

/* ---- known memory -------------------------------------------------------------------- */

/* Index of the first known memory that begins above @p ptr. */
static size_t
first_above(const struct tp_mems *mems, const void *ptr)
{
    size_t low = 0, high = mems->known_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if ((uintptr_t)mems->known[mid].memory.base <= (uintptr_t)ptr) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

struct tp_mems_known *
tp_mems_known_at(const struct tp_mems *mems, const void *ptr)
{
    size_t above = first_above(mems, ptr);
    struct tp_mems_known *known = above > 0 ? &mems->known[above - 1] : NULL;

    return known != NULL && offset_in(&known->memory, ptr) < known->memory.size ? known
                                                                                : NULL;
}

static void
forget_all(struct tp_mems *mems)
{
    for (unsigned i = 0; i < TP_MEMS_CACHE; i++) {
        mems->cache.entries[i].size = 0;
    }
}

telpher_status
tp_mems_known_add(struct tp_mems *mems, const struct tp_device_memory *memory,
                  bool allocated)
{
    size_t at = first_above(mems, memory->base);

    if (tp_mems_known_at(mems, memory->base) != NULL ||
        (at < mems->known_count &&
         offset_in(memory, mems->known[at].memory.base) < memory->size)) {
        return TELPHER_ERR_EXISTS;
    }
    if (mems->known_count == mems->known_room) {
        size_t room = mems->known_room * 2 + 8;
        struct tp_mems_known *more =
            tp_realloc_array(mems->known, room, sizeof(*more), "known memory");

        if (more == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        mems->known = more;
        mems->known_room = room;
    }
    memmove(&mems->known[at + 1], &mems->known[at],
            (mems->known_count - at) * sizeof(*mems->known));
    mems->known[at] = (struct tp_mems_known){.memory = *memory, .allocated = allocated};
    mems->known_count++;
    forget_all(mems); /* the cache may hold an older answer for these addresses */
    return TELPHER_OK;
}

void
tp_mems_known_remove(struct tp_mems *mems, struct tp_mems_known *known)
{
    struct tp_device_memory memory = known->memory;
    bool allocated = known->allocated;
    size_t at = (size_t)(known - mems->known);
    struct tp_device *device =
        memory.device != NULL ? memory.device : mems->domains[TELPHER_MEM_HOST];

    memmove(known, known + 1, (mems->known_count - at - 1) * sizeof(*known));
    mems->known_count--;
    forget_all(mems);
    if (allocated) {
        device->ops->free(device, memory.mem);
    } else if (memory.device != NULL && device->ops->release != NULL) {
        device->ops->release(device, memory.mem);
    }
}

/* ---- lookup -------------------------------------------------------------------------- */

static void
remember(struct tp_mems_cache *cache, const struct tp_device_memory *memory, bool asked)
{
    unsigned at = cache->next;

    for (unsigned i = 0; i < TP_MEMS_CACHE; i++) {
        /* replaces an entry of the same memory with another size */
        if (cache->entries[i].size != 0 && cache->entries[i].base == memory->base) {
            at = i;
        }
    }
    cache->entries[at] = *memory;
    cache->asked[at] = asked;
    cache->last = at;
    cache->next = at == cache->next ? (at + 1) % TP_MEMS_CACHE : cache->next;
}

/* Looks in the list and asks the domains. @return false: unknown address */
static bool
ask(struct tp_mems *mems, const void *ptr, struct tp_device_memory *ret)
{
    const struct tp_mems_known *known = tp_mems_known_at(mems, ptr);

    if (known != NULL) {
        *ret = known->memory;
        remember(&mems->cache, ret, false);
        return true;
    }
    for (unsigned i = 0; i < mems->finder_count; i++) {
        struct tp_device *finder = mems->finders[i];

        if (finder->ops->find(finder, ptr, ret)) {
            remember(&mems->cache, ret, true);
            return true;
        }
    }
    return false;
}

static telpher_status
find_slowly(struct tp_mems *mems, const void *ptr, size_t len, struct tp_mem_place *ret)
{
    struct tp_device_memory memory;
    uint64_t offset;

    mems->stats.misses++;
    if (!ask(mems, ptr, &memory)) {
        tell_plain(ptr, ret);
        return TELPHER_OK;
    }
    if (memory.device != NULL && memory.device->ring == NULL) {
        tp_mems_meet(mems, memory.device);
    }
    offset = offset_in(&memory, ptr);
    if (len > memory.size - offset) {
        return TELPHER_ERR_RANGE;
    }
    tell(&memory, offset, ret);
    return TELPHER_OK;
}

/* The entry that holds @p ptr, or NULL. */
static struct tp_device_memory *
find_cached(struct tp_mems_cache *cache, const void *ptr)
{
    for (unsigned i = 0; i < TP_MEMS_CACHE; i++) {
        if (offset_in(&cache->entries[i], ptr) < cache->entries[i].size) {
            cache->last = i;
            return &cache->entries[i];
        }
    }
    return NULL;
}

telpher_status
tp_mems_find(struct tp_mems *mems, const void *ptr, size_t len,
             struct tp_mem_place *ret)
{
    struct tp_mems_cache *cache = &mems->cache;
    struct tp_device_memory *memory;
    uint64_t offset;

    tp_mems_allocated_check(mems);
    memory = &cache->entries[cache->last];
    offset = offset_in(memory, ptr);
    mems->stats.lookups++;
    if (tp_unlikely(offset >= memory->size)) {
        if (tp_mems_is_plain(mems)) {
            mems->stats.hits++;
            tell_plain(ptr, ret);
            return TELPHER_OK;
        }
        memory = find_cached(cache, ptr);
        if (memory == NULL) {
            return find_slowly(mems, ptr, len, ret);
        }
        offset = offset_in(memory, ptr);
    }
    if (len > memory->size - offset) {
        /* the memory may have been freed and allocated again, larger */
        return cache->asked[cache->last] ? find_slowly(mems, ptr, len, ret)
                                         : TELPHER_ERR_RANGE;
    }
    mems->stats.hits++;
    tell(memory, offset, ret);
    return TELPHER_OK;
}
