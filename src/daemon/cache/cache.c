/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores cache entries as files named by their keys: "TPCACHE1", the SHA-256 of key and
 * content, content. A writer creates a temporary file and renames it. The modification time
 * of a file is the time of its last use.
 */
#include "daemon/cache/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/text/hex.h"

enum {
    HEADER_BYTES = 8 + TP_SHA256_BYTES,
    NAME_BYTES = 2 * TP_SHA256_BYTES + 1,
    STALE_S = 3600, /* an unfinished file that old has no writer any more */
};

static const char magic[8] = {'T', 'P', 'C', 'A', 'C', 'H', 'E', '1'};
#define UNFINISHED "new-"
#define LOCK "lock"

struct tp_cache {
    int dir_fd;
    uint64_t size_max;
    _Atomic unsigned next; /* number of an unfinished file */
};

/* ---- the folder ---- */

void
tp_cache_make_folders(const char *folder)
{
    char path[1024];
    size_t len = strlen(folder);

    if (len >= sizeof(path)) {
        return;
    }
    memcpy(path, folder, len + 1);
    for (size_t i = 1; i < len; i++) {
        if (path[i] == '/') {
            path[i] = '\0';
            (void)mkdir(path, 0700);
            path[i] = '/';
        }
    }
    (void)mkdir(path, 0700);
}

telpher_status
tp_cache_open(const char *folder, uint64_t size_max, struct tp_cache **ret_cache,
              struct tp_error *err)
{
    struct tp_cache *cache;
    struct stat st;
    int fd;

    tp_cache_make_folders(folder);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return tp_error_set_errno(err, errno, "cannot open the cache %s", folder);
    }
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        (void)close(fd);
        return tp_error_set(err, TELPHER_ERR_PERMISSION,
                            "the cache %s is not used: others may write there", folder);
    }
    cache = tp_zalloc(sizeof(*cache), "cache");
    if (cache == NULL) {
        (void)close(fd);
        return TELPHER_ERR_NO_MEMORY;
    }
    cache->dir_fd = fd;
    cache->size_max = size_max;
    *ret_cache = cache;
    return TELPHER_OK;
}

void
tp_cache_close(struct tp_cache *cache)
{
    if (cache != NULL) {
        (void)close(cache->dir_fd);
        tp_free(cache);
    }
}

static void
sum_up(const uint8_t *key, const void *data, size_t len, uint8_t *ret_sum)
{
    struct tp_sha256 sum;

    tp_sha256_begin(&sum);
    tp_sha256_add(&sum, key, TP_SHA256_BYTES);
    tp_sha256_add(&sum, data, len);
    tp_sha256_end(&sum, ret_sum);
}

/* ---- reading ---- */

/* @return the whole file, or NULL */
static uint8_t *
read_whole(int fd, size_t len)
{
    uint8_t *data = tp_malloc(len, "cache entry");
    size_t got = 0;

    while (data != NULL && got < len) {
        ssize_t n = read(fd, data + got, len - got);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            tp_free(data);
            return NULL;
        }
        got += (size_t)n;
    }
    return data;
}

bool
tp_cache_unwrap(const uint8_t key[TP_SHA256_BYTES], const uint8_t *file, size_t len,
                const uint8_t **ret_content, size_t *ret_len)
{
    uint8_t sum[TP_SHA256_BYTES];

    if (len < HEADER_BYTES || memcmp(file, magic, sizeof(magic)) != 0) {
        return false;
    }
    sum_up(key, file + HEADER_BYTES, len - HEADER_BYTES, sum);
    *ret_content = file + HEADER_BYTES;
    *ret_len = len - HEADER_BYTES;
    return memcmp(file + sizeof(magic), sum, sizeof(sum)) == 0;
}

bool
tp_cache_has(struct tp_cache *cache, const uint8_t key[TP_SHA256_BYTES])
{
    char name[NAME_BYTES];
    struct stat st;

    tp_hex_encode(name, key, TP_SHA256_BYTES);
    return fstatat(cache->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode);
}

telpher_status
tp_cache_get(struct tp_cache *cache, const uint8_t key[TP_SHA256_BYTES],
             uint8_t **ret_data, size_t *ret_len)
{
    char name[NAME_BYTES];
    const uint8_t *content;
    uint8_t *file = NULL;
    struct stat st;
    size_t len = 0;
    int fd;

    tp_hex_encode(name, key, TP_SHA256_BYTES);
    fd = openat(cache->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return TELPHER_ERR_NOT_FOUND;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= HEADER_BYTES &&
        (uint64_t)st.st_size <= cache->size_max + HEADER_BYTES) {
        len = (size_t)st.st_size;
        file = read_whole(fd, len);
    }
    if (file != NULL && tp_cache_unwrap(key, file, len, &content, ret_len)) {
        (void)futimens(fd, NULL);
        (void)close(fd);
        memmove(file, content, *ret_len);
        *ret_data = file;
        return TELPHER_OK;
    }
    (void)close(fd);
    (void)unlinkat(cache->dir_fd, name, 0);
    tp_free(file);
    return TELPHER_ERR_NOT_FOUND;
}

/* ---- making room ---- */

struct entry {
    char name[NAME_BYTES];
    uint64_t size;
    struct timespec used;
};

struct entries {
    struct entry *items;
    size_t count, room;
    uint64_t total;
};

static void
add_entry(struct entries *all, const char *name, const struct stat *st)
{
    if (all->count == all->room) {
        size_t room = all->room * 2 + 64;
        struct entry *more =
            tp_realloc_array(all->items, room, sizeof(*more), "cache entries");

        if (more == NULL) {
            return;
        }
        all->items = more;
        all->room = room;
    }
    (void)snprintf(all->items[all->count].name, NAME_BYTES, "%s", name);
    all->items[all->count].size = (uint64_t)st->st_size;
    all->items[all->count].used = st->st_mtim;
    all->count++;
    all->total += (uint64_t)st->st_size;
}

/* Lists the entries; removes old unfinished files. */
static void
list_entries(struct tp_cache *cache, DIR *dir, struct entries *all)
{
    time_t now = time(NULL);
    struct dirent *e;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while ((e = readdir(dir)) != NULL) {
        struct stat st;

        if (fstatat(cache->dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode)) {
            continue;
        }
        if (strncmp(e->d_name, UNFINISHED, strlen(UNFINISHED)) == 0) {
            if (st.st_mtime + STALE_S < now) {
                (void)unlinkat(cache->dir_fd, e->d_name, 0);
            }
        } else if (strlen(e->d_name) == NAME_BYTES - 1) {
            add_entry(all, e->d_name, &st);
        }
    }
}

static int
older_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->used.tv_sec != y->used.tv_sec) {
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    }
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* Removes the least recently used entries until the size is nine tenths of the limit. */
static void
remove_oldest(struct tp_cache *cache, struct entries *all)
{
    if (all->total <= cache->size_max) {
        return;
    }
    qsort(all->items, all->count, sizeof(all->items[0]), older_first);
    for (size_t i = 0; i < all->count && all->total > cache->size_max / 10 * 9; i++) {
        if (unlinkat(cache->dir_fd, all->items[i].name, 0) == 0) {
            all->total -= all->items[i].size;
        }
    }
}

/* Evicts entries. One process at a time does; others skip it. */
static void
make_room(struct tp_cache *cache)
{
    int lock = openat(cache->dir_fd, LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct entries all = {0};

    if (lock >= 0 && dir != NULL && flock(lock, LOCK_EX | LOCK_NB) == 0) {
        list_entries(cache, dir, &all);
        remove_oldest(cache, &all);
        tp_free(all.items);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    tp_descriptor_close(lock);
}

/* ---- writing ---- */

static bool
write_whole(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;

    while (len > 0) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return true;
}

telpher_status
tp_cache_put(struct tp_cache *cache, const uint8_t key[TP_SHA256_BYTES],
             const void *data, size_t len)
{
    char name[NAME_BYTES], unfinished[64];
    uint8_t header[HEADER_BYTES];
    bool done;
    int fd;

    if (len > cache->size_max / 4) {
        return TELPHER_ERR_LIMIT;
    }
    memcpy(header, magic, sizeof(magic));
    sum_up(key, data, len, header + sizeof(magic));
    tp_hex_encode(name, key, TP_SHA256_BYTES);
    (void)snprintf(unfinished, sizeof(unfinished), UNFINISHED "%ld-%u", (long)getpid(),
                   atomic_fetch_add(&cache->next, 1));
    fd = openat(cache->dir_fd, unfinished,
                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return TELPHER_ERR_IO;
    }
    done = write_whole(fd, header, sizeof(header)) && write_whole(fd, data, len);
    done = close(fd) == 0 && done;
    if (!done || renameat(cache->dir_fd, unfinished, cache->dir_fd, name) != 0) {
        (void)unlinkat(cache->dir_fd, unfinished, 0);
        return TELPHER_ERR_IO;
    }
    make_room(cache);
    return TELPHER_OK;
}
