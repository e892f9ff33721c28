/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reused chunks on a stack: the chunk used last is the one most likely in a cache. Free
 * chunks hold the link to the next one in their first bytes.
 */
#include "device/host/staging.h"

#include "base/alloc.h"
#include "base/thread.h"

enum { PAGE = 4096 };

struct free_chunk {
    struct free_chunk *next;
};

struct tp_host_staging {
    struct tp_mutex lock; /* protects all that follows */
    struct free_chunk *free;
    size_t free_count;
    size_t used;
    size_t keep; /* these three never change */
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
    tp_mutex_init(&s->lock);
    s->chunk_bytes = TP_MAX(chunk_bytes, sizeof(struct free_chunk));
    s->keep = keep;
    *ret_staging = s;
    return TELPHER_OK;
}

void
tp_host_staging_destroy(struct tp_host_staging *s)
{
    if (s == NULL) {
        return;
    }
    while (s->free != NULL) {
        struct free_chunk *chunk = s->free;

        s->free = chunk->next;
        tp_free(chunk);
    }
    tp_mutex_fini(&s->lock);
    tp_free(s);
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
    struct free_chunk *chunk;

    if (s->budget != NULL && !tp_budget_take(s->budget, s->chunk_bytes)) {
        return NULL;
    }
    tp_mutex_lock(&s->lock);
    chunk = s->free;
    if (chunk != NULL) {
        s->free = chunk->next;
        s->free_count--;
    }
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
    if (s->free_count < s->keep) {
        back->next = s->free;
        s->free = back;
        s->free_count++;
        back = NULL;
    }
    tp_mutex_unlock(&s->lock);
    tp_free(back);
    give_back(s);
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
