/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reused chunks on a stack: the chunk used last is the one most likely in a cache. Free
 * chunks hold the link to the next one in their first bytes.
 */
#include "device/host/staging.h"

#include "base/alloc.h"
#include "base/os/thread.h"

enum { PAGE = 4096 };

struct free_chunk {
    struct free_chunk *next;
};

struct tp_host_staging {
    struct tp_mutex lock; /* protects these three */
    struct free_chunk *free; /* of the slab */
    size_t fresh; /* chunks of the slab that were never given */
    size_t used;
    uint8_t *slab; /* these never change */
    size_t keep;
    size_t chunk_bytes;
    struct tp_budget *budget; /* NULL: none */
};

telpher_status
tp_host_staging_create(size_t chunk_bytes, size_t keep,
                       struct tp_host_staging **ret_staging)
{
    struct tp_host_staging *s = tp_zalloc(sizeof(*s), "staging");

    if (s == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    s->slab = tp_alloc_aligned(PAGE, keep * chunk_bytes, "staging");
    if (s->slab == NULL) {
        tp_free(s);
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_mutex_init(&s->lock);
    s->chunk_bytes = chunk_bytes;
    s->keep = s->fresh = keep;
    *ret_staging = s;
    return TELPHER_OK;
}

void
tp_host_staging_destroy(struct tp_host_staging *s)
{
    if (s == NULL) {
        return;
    }
    tp_free(s->slab);
    tp_mutex_fini(&s->lock);
    tp_free(s);
}

/* A chunk of the slab, or NULL if all are in use. Under lock. */
static void *
take_from_slab(struct tp_host_staging *s)
{
    struct free_chunk *chunk = s->free;

    if (chunk != NULL) {
        s->free = chunk->next;
        return chunk;
    }
    return s->fresh > 0 ? s->slab + --s->fresh * s->chunk_bytes : NULL;
}

static bool
is_in_slab(const struct tp_host_staging *s, const void *chunk)
{
    return (uintptr_t)chunk - (uintptr_t)s->slab < s->keep * s->chunk_bytes;
}

static void
give_back(struct tp_host_staging *s)
{
    if (s->budget != NULL) {
        tp_budget_give(s->budget, s->chunk_bytes);
    }
}

void
tp_host_staging_set_budget(struct tp_host_staging *s, struct tp_budget *budget)
{
    s->budget = budget;
}

void *
tp_host_staging_get(struct tp_host_staging *s)
{
    void *chunk;

    if (s->budget != NULL && !tp_budget_take(s->budget, s->chunk_bytes)) {
        return NULL;
    }
    tp_mutex_lock(&s->lock);
    chunk = take_from_slab(s);
    s->used++;
    tp_mutex_unlock(&s->lock);
    if (chunk != NULL) {
        return chunk;
    }
    chunk = tp_alloc_aligned(PAGE, s->chunk_bytes, "staging chunk");
    if (chunk == NULL) {
        tp_mutex_lock(&s->lock);
        s->used--;
        tp_mutex_unlock(&s->lock);
        give_back(s);
    }
    return chunk;
}

void
tp_host_staging_put(struct tp_host_staging *s, void *chunk)
{
    struct free_chunk *back = chunk;

    if (back == NULL) {
        return;
    }
    tp_mutex_lock(&s->lock);
    s->used--;
    if (is_in_slab(s, back)) {
        back->next = s->free;
        s->free = back;
        back = NULL;
    }
    tp_mutex_unlock(&s->lock);
    tp_free(back);
    give_back(s);
}

void *
tp_host_staging_slab(const struct tp_host_staging *s, size_t *ret_bytes)
{
    *ret_bytes = s->keep * s->chunk_bytes;
    return s->slab;
}

size_t
tp_host_staging_used(struct tp_host_staging *s)
{
    size_t used;

    tp_mutex_lock(&s->lock);
    used = s->used;
    tp_mutex_unlock(&s->lock);
    return used;
}
