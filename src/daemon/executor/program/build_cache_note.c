/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps builds until the session ends and writes them. Their programs stay alive until
 * then. Programs that the client has released are held up to a bound, newest first, and are
 * all freed when the client reaches a limit.
 */
#include <string.h>

#include "base/alloc.h"
#include "daemon/cache/entry.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build_cache_int.h"
#include "daemon/executor/program/program.h"

enum {
    NOTES_MAX = 256,
    CONTEXTS_MAX = 4, /* released contexts: with GPUs each holds some device memory */
};

void
tp_exec_note_free(struct tp_exec_note *n)
{
    tp_exec_unref(&n->program->obj);
    tp_buf_fini(&n->facts);
    tp_free(n->devices);
    tp_free(n);
}

static void
free_all(struct tp_list *dead)
{
    struct tp_list *first;

    while ((first = tp_list_pop_front(dead)) != NULL) {
        tp_exec_note_free(tp_list_entry(first, struct tp_exec_note, link));
    }
}

/* Moves a note to the list of those to free. Under the lock. */
static void
drop_note(struct tp_exec_cache *cache, struct tp_exec_note *n, struct tp_list *dead)
{
    tp_list_remove(&n->link);
    cache->note_count--;
    tp_list_push_back(dead, &n->link);
}

/* Released contexts that are seen in a walk over the notes. */
struct contexts {
    const struct tp_exec_context *items[CONTEXTS_MAX];
    size_t count;
};

/* @return false: the context of this note is released, and one too many */
static bool
has_room(struct contexts *seen, const struct tp_exec_note *n)
{
    const struct tp_exec_context *c = n->program->context;

    if (!c->obj.released) {
        return true;
    }
    for (size_t i = 0; i < seen->count; i++) {
        if (seen->items[i] == c) {
            return true;
        }
    }
    if (seen->count == CONTEXTS_MAX) {
        return false;
    }
    seen->items[seen->count++] = c;
    return true;
}

/* Drops the notes beyond the bounds. Under the lock. */
static void
keep_bounds(struct tp_exec_cache *cache, struct tp_list *dead)
{
    struct contexts seen = {.count = 0};
    uint64_t bytes = 0;
    size_t count = 0;

    tp_list_for_each_safe(pos, &cache->notes) {
        struct tp_exec_note *n = tp_list_entry(pos, struct tp_exec_note, link);
        uint64_t more = n->program->obj.released ? n->bytes : 0;

        if (count == NOTES_MAX || more > cache->bytes_max - bytes ||
            !has_room(&seen, n)) {
            drop_note(cache, n, dead);
        } else {
            bytes += more;
            count++;
        }
    }
}

/* Drops an older note of the same key. */
static void
drop_same(struct tp_exec_cache *cache, const uint8_t *key, struct tp_list *dead)
{
    tp_list_for_each_safe(pos, &cache->notes) {
        struct tp_exec_note *n = tp_list_entry(pos, struct tp_exec_note, link);

        if (memcmp(n->key, key, sizeof(n->key)) == 0) {
            drop_note(cache, n, dead);
        }
    }
}

/* @return a note of a build; NULL: no memory */
static struct tp_exec_note *
new_note(const struct tp_exec_build *build, const struct tp_buf *facts)
{
    struct tp_exec_program *p = build->program;
    struct tp_exec_note *n = tp_zalloc(sizeof(*n), "cache");

    if (n == NULL) {
        return NULL;
    }
    tp_list_init(&n->link);
    n->program = p;
    tp_exec_ref(&p->obj);
    n->generation = build->generation;
    n->count = build->device_count;
    n->bytes = p->text_len + build->files_len + tp_buf_len(facts);
    memcpy(n->key, build->key, sizeof(n->key));
    tp_buf_init(&n->facts, 0);
    n->devices = tp_memdup(build->devices, n->count * sizeof(n->devices[0]), "cache");
    if (n->devices == NULL ||
        tp_buf_append(&n->facts, tp_buf_data(facts), tp_buf_len(facts)) != TELPHER_OK) {
        tp_exec_note_free(n);
        return NULL;
    }
    return n;
}

void
tp_exec_cache_note(struct tp_exec_build *build, const struct tp_buf *facts)
{
    struct tp_exec_cache *cache = build->program->obj.x->cache;
    struct tp_exec_note *n;
    struct tp_list dead;

    if (cache == NULL || !build->has_key || build->cached ||
        build->device_count > TP_CACHE_ENTRY_DEVICES_MAX) {
        return;
    }
    n = new_note(build, facts);
    if (n == NULL) {
        return;
    }
    tp_list_init(&dead);
    tp_mutex_lock(&cache->lock);
    drop_same(cache, n->key, &dead);
    tp_list_push_front(&cache->notes, &n->link);
    cache->note_count++;
    keep_bounds(cache, &dead);
    tp_mutex_unlock(&cache->lock);
    free_all(&dead);
}

void
tp_exec_cache_on_release(struct tp_exec_object *o)
{
    struct tp_exec_cache *cache = o->x->cache;
    struct tp_list dead;

    if (cache == NULL || o->x->ending) {
        return; /* in the end everything is released at once */
    }
    tp_list_init(&dead);
    tp_mutex_lock(&cache->lock);
    keep_bounds(cache, &dead);
    tp_mutex_unlock(&cache->lock);
    free_all(&dead);
}

bool
tp_exec_cache_give_way(struct tp_exec *x)
{
    struct tp_exec_cache *cache = x->cache;
    struct tp_list dead;
    bool any;

    if (cache == NULL) {
        return false;
    }
    tp_list_init(&dead);
    tp_mutex_lock(&cache->lock);
    tp_list_for_each_safe(pos, &cache->notes) {
        struct tp_exec_note *n = tp_list_entry(pos, struct tp_exec_note, link);

        if (n->program->obj.released) {
            drop_note(cache, n, &dead);
        }
    }
    tp_mutex_unlock(&cache->lock);
    any = !tp_list_is_empty(&dead);
    free_all(&dead);
    return any;
}

bool
tp_exec_cache_has_notes(struct tp_exec *x)
{
    struct tp_exec_cache *cache = x->cache;
    bool any;

    if (cache == NULL) {
        return false;
    }
    tp_mutex_lock(&cache->lock);
    any = cache->note_count > 0;
    tp_mutex_unlock(&cache->lock);
    return any;
}

struct tp_exec_note *
tp_exec_note_take(struct tp_exec_cache *cache)
{
    struct tp_list *oldest;

    tp_mutex_lock(&cache->lock);
    oldest = tp_list_last(&cache->notes);
    if (oldest != NULL) {
        tp_list_remove(oldest);
        cache->note_count--;
    }
    tp_mutex_unlock(&cache->lock);
    return oldest != NULL ? tp_list_entry(oldest, struct tp_exec_note, link) : NULL;
}
