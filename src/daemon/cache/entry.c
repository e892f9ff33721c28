/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads entries of the build cache, with every length checked: see entry.h. */
#include "daemon/cache/entry.h"

#include <string.h>

enum { HEADER_BYTES = 16, SIZE_BYTES = 8 };

/* Takes @p size bytes from the front of *at. @return NULL: there are fewer */
static const uint8_t *
take(const uint8_t **at, size_t *left, uint64_t size)
{
    const uint8_t *taken = *at;

    if (size > *left) {
        return NULL;
    }
    *at += size;
    *left -= (size_t)size;
    return taken;
}

/* Takes the binaries whose sizes stand at @p sizes. */
static bool
take_binaries(struct tp_cache_entry *entry, const uint8_t *sizes, const uint8_t **at,
              size_t *left)
{
    for (uint32_t i = 0; i < entry->count; i++) {
        uint64_t size;

        memcpy(&size, sizes + i * SIZE_BYTES, SIZE_BYTES);
        entry->binaries[i] = size > 0 ? take(at, left, size) : NULL;
        entry->sizes[i] = (size_t)size;
        if (entry->binaries[i] == NULL) {
            return false;
        }
    }
    return true;
}

bool
tp_cache_entry_read(const uint8_t *data, size_t len, uint32_t count,
                    struct tp_cache_entry *ret_entry)
{
    struct tp_cache_entry entry = {.count = 0};
    const uint8_t *header = take(&data, &len, HEADER_BYTES), *sizes;

    if (header == NULL || count == 0 || count > TP_CACHE_ENTRY_DEVICES_MAX) {
        return false;
    }
    memcpy(&entry.count, header, 4);
    memcpy(&entry.type, header + 4, 4);
    memcpy(&entry.facts_len, header + 8, 8);
    if (entry.count != count) {
        return false;
    }
    sizes = take(&data, &len, (uint64_t)count * SIZE_BYTES);
    entry.facts = sizes != NULL ? take(&data, &len, entry.facts_len) : NULL;
    if (entry.facts == NULL || !take_binaries(&entry, sizes, &data, &len) || len != 0) {
        return false;
    }
    *ret_entry = entry;
    return true;
}

size_t
tp_cache_entry_size(const struct tp_cache_entry *entry)
{
    size_t size =
        HEADER_BYTES + (size_t)entry->count * SIZE_BYTES + (size_t)entry->facts_len;

    for (uint32_t i = 0; i < entry->count; i++) {
        size += entry->sizes[i];
    }
    return size;
}

void
tp_cache_entry_write(const struct tp_cache_entry *entry, uint8_t *dst,
                     uint8_t **ret_places)
{
    memcpy(dst, &entry->count, 4);
    memcpy(dst + 4, &entry->type, 4);
    memcpy(dst + 8, &entry->facts_len, 8);
    dst += HEADER_BYTES;
    for (uint32_t i = 0; i < entry->count; i++) {
        const uint64_t size = entry->sizes[i];

        memcpy(dst, &size, SIZE_BYTES);
        dst += SIZE_BYTES;
    }
    if (entry->facts_len > 0) {
        memcpy(dst, entry->facts, entry->facts_len);
    }
    dst += entry->facts_len;
    for (uint32_t i = 0; i < entry->count; i++) {
        ret_places[i] = dst;
        dst += entry->sizes[i];
    }
}
