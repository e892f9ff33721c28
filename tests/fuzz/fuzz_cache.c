/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the build cache as they come from the disk: the file with its checksum, and
 * the content, whose first byte stands for the number of devices. What is read and written
 * again is the same.
 */
#include "support/fuzz.h"

#include "daemon/cache/cache.h"
#include "daemon/cache/entry.h"

static void
check_content(const uint8_t *data, size_t len, uint32_t count)
{
    struct tp_cache_entry entry;
    uint8_t *places[TP_CACHE_ENTRY_DEVICES_MAX], *again;

    if (!tp_cache_entry_read(data, len, count, &entry)) {
        return;
    }
    require(entry.count == count && count <= TP_CACHE_ENTRY_DEVICES_MAX);
    require(tp_cache_entry_size(&entry) == len);
    again = malloc(len);
    require(again != NULL);
    tp_cache_entry_write(&entry, again, places);
    for (uint32_t i = 0; i < count; i++) {
        require(entry.sizes[i] > 0);
        memcpy(places[i], entry.binaries[i], entry.sizes[i]);
    }
    require(memcmp(again, data, len) == 0);
    free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint8_t key[TP_SHA256_BYTES];
    const uint8_t *content;
    size_t content_len;
    uint8_t *file;

    if (len == 0) {
        return 0;
    }
    file = exact_copy(data, len);
    if (tp_cache_unwrap(key, file, len, &content, &content_len)) {
        touch(content, content_len);
        check_content(content, content_len, 1);
    }
    check_content(file + 1, len - 1, file[0]);
    free(file);
    return 0;
}
