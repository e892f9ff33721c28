/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the contents of included files by their digest, so that the client sends each one
 * once in a session. Unused contents go when there are too many, the oldest first.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/container/list.h"
#include "base/container/map.h"
#include "base/os/thread.h"
#include "daemon/executor/program/files_int.h"

#define KEEP_BYTES ((uint64_t)64 << 20) /* of contents that no build uses */

struct tp_exec_content {
    struct tp_list link;
    uint64_t key; /* in the map */
    unsigned uses;
    size_t len; /* [bytes] */
    uint8_t digest[TP_SHA256_BYTES];
    uint8_t data[];
};

struct tp_exec_store {
    struct tp_mutex lock; /* map, list, bytes, and uses of all contents */
    struct tp_budget *budget; /* set once */
    struct tp_map map; /* by the first bytes of the digest */
    struct tp_list list; /* the oldest first */
    uint64_t bytes;
};

struct tp_exec_store *
tp_exec_store_create(struct tp_budget *budget)
{
    struct tp_exec_store *s = tp_zalloc(sizeof(*s), "included files");

    if (s != NULL) {
        s->budget = budget;
        tp_mutex_init(&s->lock);
        tp_map_init(&s->map);
        tp_list_init(&s->list);
    }
    return s;
}

static void
forget(struct tp_exec_store *s, struct tp_exec_content *c)
{
    (void)tp_map_remove(&s->map, c->key);
    tp_list_remove(&c->link);
    s->bytes -= c->len;
    tp_budget_give(s->budget, c->len);
    tp_free(c);
}

/* The map holds one content for each key. Two digests with equal first bytes do not occur
 * unless a client searches for them: then the second is not kept. */
static struct tp_exec_content *
find(const struct tp_exec_store *s, const uint8_t *digest)
{
    struct tp_exec_content *c;
    uint64_t key;

    memcpy(&key, digest, sizeof(key));
    c = tp_map_get(&s->map, key);
    return c != NULL && memcmp(c->digest, digest, sizeof(c->digest)) == 0 ? c : NULL;
}

static void
make_room(struct tp_exec_store *s)
{
    tp_list_for_each_safe(pos, &s->list) {
        struct tp_exec_content *c = tp_list_entry(pos, struct tp_exec_content, link);

        if (s->bytes <= KEEP_BYTES) {
            break;
        }
        if (c->uses == 0) {
            forget(s, c);
        }
    }
}

/* Under the lock. @return NULL: no memory */
static struct tp_exec_content *
add(struct tp_exec_store *s, const uint8_t *digest, const void *data, size_t len)
{
    struct tp_exec_content *c = NULL;

    if (tp_budget_take(s->budget, len)) {
        c = tp_malloc(sizeof(*c) + len, "included file");
        if (c == NULL) {
            tp_budget_give(s->budget, len);
        }
    }
    if (c == NULL) {
        return NULL;
    }
    *c = (struct tp_exec_content){.len = len};
    memcpy(&c->key, digest, sizeof(c->key));
    memcpy(c->digest, digest, sizeof(c->digest));
    memcpy(c->data, data, len);
    if (tp_map_get(&s->map, c->key) != NULL ||
        tp_map_put(&s->map, c->key, c) != TELPHER_OK) {
        tp_budget_give(s->budget, len);
        tp_free(c);
        return NULL;
    }
    tp_list_push_back(&s->list, &c->link);
    s->bytes += len;
    return c;
}

struct tp_exec_content *
tp_exec_content_add(struct tp_exec_store *s, const void *data, size_t len)
{
    uint8_t digest[TP_SHA256_BYTES];
    struct tp_exec_content *c;

    tp_sha256_of(data, len, digest);
    tp_mutex_lock(&s->lock);
    c = find(s, digest);
    if (c == NULL) {
        c = add(s, digest, data, len);
    }
    if (c != NULL) {
        c->uses++;
        make_room(s);
    }
    tp_mutex_unlock(&s->lock);
    return c;
}

struct tp_exec_content *
tp_exec_content_get(struct tp_exec_store *s, const uint8_t *digest)
{
    struct tp_exec_content *c;

    tp_mutex_lock(&s->lock);
    c = find(s, digest);
    if (c != NULL) {
        c->uses++;
    }
    tp_mutex_unlock(&s->lock);
    return c;
}

void
tp_exec_content_put(struct tp_exec_store *s, struct tp_exec_content *c)
{
    if (c == NULL) {
        return;
    }
    tp_mutex_lock(&s->lock);
    c->uses--;
    make_room(s);
    tp_mutex_unlock(&s->lock);
}

const uint8_t *
tp_exec_content_digest(const struct tp_exec_content *c)
{
    return c->digest;
}

const void *
tp_exec_content_data(const struct tp_exec_content *c, size_t *ret_len)
{
    *ret_len = c->len;
    return c->data;
}
