/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory blocks for short-lived objects: an unexpected message, a put queued after
 * another. Freed blocks of one size are kept for reuse, so that small messages need no
 * heap.
 */
#include "base/alloc.h"
#include "core/comm/comm_int.h"

enum { KEPT = 1024 /* [bytes] of a block that is kept for reuse */ };

struct block {
    struct tp_list link; /* of ctx->blocks while in use, else of ctx->spare */
    bool kept;
    _Alignas(16) uint8_t bytes[];
};

void *
tp_comm_block_take(telpher_context *ctx, size_t bytes, const char *what)
{
    bool kept = bytes <= KEPT;
    struct tp_list *link = kept ? tp_list_pop_front(&ctx->spare) : NULL;
    struct block *b = link != NULL
                          ? tp_list_entry(link, struct block, link)
                          : tp_malloc(sizeof(*b) + TP_MAX(bytes, (size_t)KEPT), what);

    if (b == NULL) {
        return NULL;
    }
    b->kept = kept;
    tp_list_push_back(&ctx->blocks, &b->link);
    return b->bytes;
}

void
tp_comm_block_give(telpher_context *ctx, void *bytes)
{
    struct block *b;

    if (bytes == NULL) {
        return;
    }
    b = (struct block *)(void *)((uint8_t *)bytes - offsetof(struct block, bytes));
    tp_list_remove(&b->link);
    if (b->kept) {
        /* the most recently used block is still in the cache */
        tp_list_push_front(&ctx->spare, &b->link);
    } else {
        tp_free(b);
    }
}

void
tp_comm_block_fini(telpher_context *ctx)
{
    struct tp_list *link;

    tp_list_splice_back(&ctx->blocks, &ctx->spare);
    while ((link = tp_list_pop_front(&ctx->blocks)) != NULL) {
        tp_free(tp_list_entry(link, struct block, link));
    }
}
