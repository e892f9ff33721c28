/* SPDX-License-Identifier: Apache-2.0 */
/* Hash map: linear probing; a removed key leaves a grave unless its run ends there. */
#include "base/container/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"

#define MIN_CAPACITY 16

void
tp_map_init(struct tp_map *map)
{
    memset(map, 0, sizeof(*map));
}

void
tp_map_fini(struct tp_map *map)
{
    tp_free(map->slots);
    tp_map_init(map);
}

/* Puts a key that is not there into the first free slot; the table has room. */
static void
place(struct tp_map *map, uint64_t key, void *value)
{
    size_t i = tp_map_slot_of(map, key);

    while (map->slots[i].value != NULL && map->slots[i].value != TP_MAP_GRAVE) {
        i = (i + 1) & (map->capacity - 1);
    }
    map->used += map->slots[i].value == NULL;
    map->count++;
    map->slots[i].key = key;
    map->slots[i].value = value;
}

/* Moves everything into a table for @p wanted keys at half load; graves vanish. */
static telpher_status
rehash(struct tp_map *map, size_t wanted)
{
    struct tp_map bigger = {.capacity = MIN_CAPACITY};
    size_t cursor = 0;
    uint64_t key;
    void *value;

    while (bigger.capacity / 2 < wanted) {
        if (bigger.capacity > SIZE_MAX / 2) {
            return TELPHER_ERR_NO_MEMORY;
        }
        bigger.capacity *= 2;
    }
    bigger.slots = tp_alloc_array(bigger.capacity, sizeof(*bigger.slots), "map");
    if (bigger.slots == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    while (tp_map_next(map, &cursor, &key, &value)) {
        place(&bigger, key, value);
    }
    tp_free(map->slots);
    *map = bigger;
    return TELPHER_OK;
}

telpher_status
tp_map_reserve(struct tp_map *map, size_t extra)
{
    size_t room = map->capacity / 4 * 3; /* load of three quarters at most */

    if (extra <= room && map->used <= room - extra) {
        return TELPHER_OK;
    }
    if (extra > SIZE_MAX - map->count) {
        return TELPHER_ERR_NO_MEMORY;
    }
    return rehash(map, map->count + extra);
}

telpher_status
tp_map_put(struct tp_map *map, uint64_t key, void *value)
{
    telpher_status status;

    tp_assert(value != NULL);
    if (tp_map_find(map, key) != NULL) {
        return TELPHER_ERR_EXISTS;
    }
    status = tp_map_reserve(map, 1);
    if (status == TELPHER_OK) {
        place(map, key, value);
    }
    return status;
}

void *
tp_map_remove(struct tp_map *map, uint64_t key)
{
    struct tp_map_slot *slot = tp_map_find(map, key);
    size_t mask = map->capacity - 1;
    size_t i;
    void *value;

    if (slot == NULL) {
        return NULL;
    }
    value = slot->value;
    slot->value = TP_MAP_GRAVE;
    map->count--;
    /* A tombstone before an empty slot has no use; nor do tombstones just before it. */
    i = (size_t)(slot - map->slots);
    if (map->slots[(i + 1) & mask].value == NULL) {
        for (; map->slots[i].value == TP_MAP_GRAVE; i = (i - 1) & mask) {
            map->slots[i].value = NULL;
            map->used--;
        }
    }
    return value;
}

size_t
tp_map_count(const struct tp_map *map)
{
    return map->count;
}

bool
tp_map_next(const struct tp_map *map, size_t *cursor, uint64_t *ret_key,
            void **ret_value)
{
    for (; *cursor < map->capacity; (*cursor)++) {
        const struct tp_map_slot *slot = &map->slots[*cursor];

        if (slot->value == NULL || slot->value == TP_MAP_GRAVE) {
            continue;
        }
        if (ret_key != NULL) {
            *ret_key = slot->key;
        }
        if (ret_value != NULL) {
            *ret_value = slot->value;
        }
        (*cursor)++;
        return true;
    }
    return false;
}
