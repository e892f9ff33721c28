/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash map from a 64-bit key to a pointer that is not NULL. Open addressing; only
 * tp_map_put() and tp_map_reserve() allocate. The map borrows what the pointers point to.
 *
 * Threads: the caller's lock.
 */
#ifndef TELPHER_BASE_CONTAINER_MAP_H
#define TELPHER_BASE_CONTAINER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

/** Private. */
struct tp_map_slot {
    uint64_t key;
    void *value; /* NULL: empty; TP_MAP_GRAVE: removed */
};
#define TP_MAP_GRAVE ((void *)UINTPTR_MAX)

/** Private members; {0} is an empty map. */
struct tp_map {
    struct tp_map_slot *slots;
    size_t capacity; /* 0 or a power of two */
    size_t used; /* slots not empty, graves of removed keys included */
    size_t count;
};

void tp_map_init(struct tp_map *map);

/** Frees the table, not what the pointers point to. */
void tp_map_fini(struct tp_map *map);

/**
 * @return TELPHER_OK
 *         TELPHER_ERR_EXISTS     @p key is there already; nothing changed
 *         TELPHER_ERR_NO_MEMORY  nothing changed; never after a sufficient reserve
 */
telpher_status tp_map_put(struct tp_map *map, uint64_t key, void *value);

/** Private. Mixes every bit of the key into the low ones, since ids differ in few bits. */
static inline size_t
tp_map_slot_of(const struct tp_map *map, uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15u;
    key ^= key >> 29;
    key *= 0xbf58476d1ce4e5b9u;
    key ^= key >> 32;
    return (size_t)key & (map->capacity - 1);
}

/** Private. The slot that holds @p key, or NULL. */
static inline struct tp_map_slot *
tp_map_find(const struct tp_map *map, uint64_t key)
{
    if (map->capacity == 0) {
        return NULL;
    }
    for (size_t i = tp_map_slot_of(map, key);; i = (i + 1) & (map->capacity - 1)) {
        struct tp_map_slot *slot = &map->slots[i];

        if (slot->value == NULL) {
            return NULL;
        }
        if (slot->key == key && slot->value != TP_MAP_GRAVE) {
            return slot;
        }
    }
}

/** The pointer under @p key, or NULL. Inline: messages are dispatched by it. */
static inline void *
tp_map_get(const struct tp_map *map, uint64_t key)
{
    struct tp_map_slot *slot = tp_map_find(map, key);

    return slot != NULL ? slot->value : NULL;
}

/** Takes @p key out and returns its pointer; NULL if it was not there. */
void *tp_map_remove(struct tp_map *map, uint64_t key);

size_t tp_map_count(const struct tp_map *map);

/** Makes room: the next @p extra puts cannot fail for want of memory. */
telpher_status tp_map_reserve(struct tp_map *map, size_t extra);

/**
 * Walks the map in no order: start with *cursor = 0, until false. Keys may be removed
 * while walking; none may be put. @p ret_key and @p ret_value may be NULL.
 */
bool tp_map_next(const struct tp_map *map, size_t *cursor, uint64_t *ret_key,
                 void **ret_value);

#endif
