/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's folder: entries, damage, room, and folders that are not to be trusted. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/entry.h"

static char top[64];

static int
make_top(void **state)
{
    (void)state;
    strcpy(top, "/tmp/telpher-cache-XXXXXX");
    return mkdtemp(top) == NULL ? -1 : 0;
}

static int
remove_top(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", top);
    return system(command);
}

static struct tp_cache *
open_cache(const char *name, uint64_t size)
{
    struct tp_error err = {0};
    struct tp_cache *cache;
    char folder[128];

    snprintf(folder, sizeof(folder), "%s/%s", top, name);
    assert_int_equal(tp_cache_open(folder, size, &cache, &err), TELPHER_OK);
    return cache;
}

static void
key_of(unsigned n, uint8_t *key)
{
    memset(key, 0, TP_SHA256_BYTES);
    memcpy(key, &n, sizeof(n));
}

static void
put(struct tp_cache *cache, unsigned n, const void *data, size_t len)
{
    uint8_t key[TP_SHA256_BYTES];

    key_of(n, key);
    assert_int_equal(tp_cache_put(cache, key, data, len), TELPHER_OK);
}

/* True if the entry is there; its content must be the data then. */
static bool
has(struct tp_cache *cache, unsigned n, const void *data, size_t len)
{
    uint8_t key[TP_SHA256_BYTES], *got;
    size_t got_len;

    key_of(n, key);
    if (tp_cache_get(cache, key, &got, &got_len) != TELPHER_OK) {
        return false;
    }
    assert_int_equal(got_len, len);
    assert_memory_equal(got, data, len);
    tp_free(got);
    return true;
}

static void
entries_are_kept(void **state)
{
    struct tp_cache *a = open_cache("deep/er", 1 << 20), *b;

    (void)state;
    assert_false(has(a, 1, "one", 3));
    put(a, 1, "one", 3);
    put(a, 2, "", 0);
    assert_true(has(a, 1, "one", 3));
    put(a, 1, "other", 5);
    b = open_cache("deep/er", 1 << 20);
    assert_true(has(b, 1, "other", 5));
    assert_true(has(b, 2, "", 0));
    tp_cache_close(a);
    tp_cache_close(b);
}

/* Changes one byte of the only entry's file, or cuts it. */
static void
damage(const char *name, long at)
{
    char folder[128], path[512] = "";
    struct dirent *e;
    DIR *dir;
    FILE *file;

    snprintf(folder, sizeof(folder), "%s/%s", top, name);
    dir = opendir(folder);
    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL) {
        if (strlen(e->d_name) == (size_t)2 * TP_SHA256_BYTES) {
            snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        }
    }
    closedir(dir);
    file = fopen(path, "r+");
    assert_non_null(file);
    if (at < 0) {
        assert_int_equal(ftruncate(fileno(file), -at), 0);
    } else {
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fputc('~', file), '~');
    }
    fclose(file);
}

static void
damaged_entries_are_none(void **state)
{
    static const long places[] = {0, 8, 39, 40, 42, -41, -39, -1};
    struct tp_cache *cache = open_cache("bad", 1 << 20);

    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        put(cache, 1, "abcdef", 6);
        damage("bad", places[i]);
        assert_false(has(cache, 1, "abcdef", 6));
    }
    /* an entry under another one's name */
    put(cache, 1, "abcdef", 6);
    put(cache, 1, "abcdef", 6);
    assert_true(has(cache, 1, "abcdef", 6));
    tp_cache_close(cache);
}

static void
the_oldest_make_room(void **state)
{
    struct tp_cache *cache = open_cache("full", 10000);
    static char data[1000];
    uint8_t key[TP_SHA256_BYTES];

    (void)state;
    for (unsigned n = 0; n < 8; n++) {
        put(cache, n, data, sizeof(data));
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    assert_true(has(cache, 0, data, sizeof(data))); /* used: no longer the oldest */
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    put(cache, 8, data, sizeof(data));
    put(cache, 9, data, sizeof(data));
    assert_true(has(cache, 0, data, sizeof(data)));
    assert_false(has(cache, 1, data, sizeof(data)));
    assert_true(has(cache, 9, data, sizeof(data)));
    key_of(10, key);
    assert_int_equal(tp_cache_put(cache, key, data, 2501), TELPHER_ERR_LIMIT);
    tp_cache_close(cache);
}

static void
folders_of_others_are_refused(void **state)
{
    struct tp_error err = {0};
    struct tp_cache *cache;
    char folder[128];

    (void)state;
    snprintf(folder, sizeof(folder), "%s/open", top);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0770), 0);
    assert_int_equal(tp_cache_open(folder, 1000, &cache, &err), TELPHER_ERR_PERMISSION);
    snprintf(folder, sizeof(folder), "/proc/none/cache");
    assert_int_not_equal(tp_cache_open(folder, 1000, &cache, &err), TELPHER_OK);
}

/* ---- contents ---- */

/* An entry for two devices; gives its length. */
static size_t
write_two(uint8_t dst[128])
{
    struct tp_cache_entry entry = {.count = 2,
                                   .type = 4,
                                   .facts_len = 3,
                                   .facts = (const uint8_t *)"log",
                                   .sizes = {5, 1}};
    uint8_t *places[TP_CACHE_ENTRY_DEVICES_MAX];

    tp_cache_entry_write(&entry, dst, places);
    memcpy(places[0], "first", 5);
    memcpy(places[1], "2", 1);
    return tp_cache_entry_size(&entry);
}

static void
contents_are_read_as_written(void **state)
{
    struct tp_cache_entry entry;
    uint8_t raw[128];
    size_t len = write_two(raw);

    (void)state;
    assert_int_equal(len, 16 + 16 + 3 + 5 + 1);
    assert_true(tp_cache_entry_read(raw, len, 2, &entry));
    assert_int_equal(entry.type, 4);
    assert_int_equal(entry.facts_len, 3);
    assert_memory_equal(entry.facts, "log", 3);
    assert_int_equal(entry.sizes[0], 5);
    assert_memory_equal(entry.binaries[0], "first", 5);
    assert_int_equal(entry.sizes[1], 1);
    assert_memory_equal(entry.binaries[1], "2", 1);
}

static void
contents_that_are_none(void **state)
{
    const size_t sizes_at[] = {8, 16, 24}; /* facts, first binary, second */
    struct tp_cache_entry entry;
    uint8_t raw[129];
    size_t len = write_two(raw);

    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        assert_false(tp_cache_entry_read(raw, cut, 2, &entry));
    }
    assert_false(tp_cache_entry_read(raw, len + 1, 2, &entry));
    assert_false(tp_cache_entry_read(raw, len, 1, &entry));
    assert_false(tp_cache_entry_read(raw, len, 0, &entry));
    assert_false(tp_cache_entry_read(raw, len, TP_CACHE_ENTRY_DEVICES_MAX + 1, &entry));
    for (size_t i = 0; i < 3; i++) {
        (void)write_two(raw);
        memset(raw + sizes_at[i], 0xff, 8);
        assert_false(tp_cache_entry_read(raw, len, 2, &entry));
    }
    (void)write_two(raw);
    raw[24] = 0; /* the second driver had no binary */
    assert_false(tp_cache_entry_read(raw, len - 1, 2, &entry));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_kept),
        cmocka_unit_test(damaged_entries_are_none),
        cmocka_unit_test(the_oldest_make_room),
        cmocka_unit_test(folders_of_others_are_refused),
        cmocka_unit_test(contents_are_read_as_written),
        cmocka_unit_test(contents_that_are_none),
    };

    return cmocka_run_group_tests(tests, make_top, remove_top);
}
