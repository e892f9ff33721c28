/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's heap: classes of small blocks with a list of free ones each, and spans of pages for
 * large ones. Threads of a rank may share it.
 */
#include "ampi/move/heap.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/compiler.h"

enum {
    PAGE = 4096,
    HEADER = 16,
    CHUNK = 64 << 10, /* [bytes] that small blocks are cut from */
    SMALL_MAX = 16 << 10, /* [bytes] with the header */
    CLASSES = 40,
};

enum kind { SMALL = 1, LARGE, ALIGNED };

/* In front of every block. */
struct header {
    uint32_t kind;
    uint32_t number; /* SMALL: class */
    uint64_t bytes; /* with the header; ALIGNED: from the block that it lies in */
};
_Static_assert(sizeof(struct header) == HEADER, "blocks are aligned to 16");

struct free_block {
    struct free_block *next;
};

/* Free pages, in order of addresses. */
struct span {
    struct span *next;
    size_t bytes;
};

struct tp_ampi_heap {
    atomic_flag lock;
    char *top, *end; /* pages below top have been used */
    char *chunk, *chunk_end; /* what is left to cut */
    struct span *spans;
    struct free_block *free[CLASSES];
};

struct tp_ampi_heap *
tp_ampi_heap_create(void *base, size_t bytes)
{
    struct tp_ampi_heap *heap = base;

    _Static_assert(sizeof(*heap) <= PAGE, "the first page describes the heap");
    heap->top = (char *)base + PAGE;
    heap->end = (char *)base + bytes / PAGE * PAGE;
    return heap;
}

static void
lock(struct tp_ampi_heap *heap)
{
    while (atomic_flag_test_and_set_explicit(&heap->lock, memory_order_acquire)) {
        sched_yield();
    }
}

static void
unlock(struct tp_ampi_heap *heap)
{
    atomic_flag_clear_explicit(&heap->lock, memory_order_release);
}

/* ---- pages ---- */

static char *
take_pages(struct tp_ampi_heap *heap, size_t bytes)
{
    char *at = heap->top;

    for (struct span **link = &heap->spans; *link != NULL; link = &(*link)->next) {
        struct span *span = *link;

        if (span->bytes < bytes) {
            continue;
        }
        span->bytes -= bytes; /* its end, so that it stays in the list */
        if (span->bytes == 0) {
            *link = span->next;
        }
        return (char *)span + span->bytes;
    }
    if (bytes > (size_t)(heap->end - heap->top)) {
        return NULL;
    }
    heap->top += bytes;
    return at;
}

static void
give_pages(struct tp_ampi_heap *heap, char *at, size_t bytes)
{
    struct span *span = (struct span *)(void *)at, *before = NULL;
    struct span **link = &heap->spans;

    (void)madvise(at, bytes, MADV_DONTNEED); /* the kernel frees them; reads find 0 */
    while (*link != NULL && (char *)*link < at) {
        before = *link;
        link = &before->next;
    }
    *span = (struct span){.next = *link, .bytes = bytes};
    if (before != NULL && (char *)before + before->bytes == at) {
        before->bytes += bytes;
        span = before;
    } else {
        *link = span;
    }
    if (span->next != NULL && (char *)span + span->bytes == (char *)span->next) {
        span->bytes += span->next->bytes;
        span->next = span->next->next;
    }
}

/* ---- small blocks ---- */

/* Steps of 16 bytes up to 128, then four steps for each power of two. */
static unsigned
class_of(size_t bytes, size_t *ret_bytes)
{
    unsigned shift;
    size_t quarter;

    if (bytes <= 128) {
        *ret_bytes = (bytes + 15) / 16 * 16;
        return (unsigned)(*ret_bytes / 16) - 1;
    }
    shift = 61 - (unsigned)__builtin_clzl(bytes - 1);
    quarter = (bytes - 1) >> shift;
    *ret_bytes = (quarter + 1) << shift;
    return 8 + (shift - 5) * 4 + (unsigned)(quarter - 4);
}

static struct header *
take_small(struct tp_ampi_heap *heap, size_t need)
{
    size_t bytes;
    unsigned number = class_of(need, &bytes);
    struct free_block *block = heap->free[number];
    struct header *header;

    if (tp_likely(block != NULL)) {
        heap->free[number] = block->next;
        return (struct header *)(void *)block - 1;
    }
    if ((size_t)(heap->chunk_end - heap->chunk) < bytes) {
        heap->chunk = take_pages(heap, CHUNK);
        heap->chunk_end = heap->chunk;
        if (heap->chunk == NULL) {
            return NULL;
        }
        heap->chunk_end += CHUNK;
    }
    header = (struct header *)(void *)heap->chunk;
    heap->chunk += bytes;
    *header = (struct header){.kind = SMALL, .number = number, .bytes = bytes};
    return header;
}

static struct header *
take_large(struct tp_ampi_heap *heap, size_t need)
{
    size_t bytes = (need + PAGE - 1) / PAGE * PAGE;
    struct header *header = (struct header *)(void *)take_pages(heap, bytes);

    if (header != NULL) {
        *header = (struct header){.kind = LARGE, .bytes = bytes};
    }
    return header;
}

/* ---- calls ---- */

void *
tp_ampi_heap_alloc(struct tp_ampi_heap *heap, size_t size, size_t align)
{
    size_t more = align > HEADER ? align : 0;
    struct header *header, *inner;
    char *block;

    if (size > (size_t)(heap->end - (char *)heap) || more > SIZE_MAX / 4) {
        return NULL;
    }
    size = HEADER + TP_MAX(size, (size_t)HEADER) + more;
    lock(heap);
    header = size <= SMALL_MAX ? take_small(heap, size) : take_large(heap, size);
    unlock(heap);
    if (header == NULL || more == 0 || (uintptr_t)(header + 1) % align == 0) {
        return header != NULL ? header + 1 : NULL;
    }
    block = (char *)(((uintptr_t)(header + 1) + align - 1) & ~(uintptr_t)(align - 1));
    inner = (struct header *)(void *)block - 1;
    *inner = (struct header){.kind = ALIGNED,
                             .bytes = (uint64_t)(block - (char *)(header + 1))};
    return block;
}

static struct header *
header_of(const void *ptr)
{
    struct header *header = (struct header *)(uintptr_t)ptr - 1;

    return header->kind == ALIGNED
               ? (struct header *)(void *)((char *)header - header->bytes)
               : header;
}

void
tp_ampi_heap_free(struct tp_ampi_heap *heap, void *ptr)
{
    struct header *header = header_of(ptr);
    struct free_block *block = (struct free_block *)(void *)(header + 1);

    tp_assert(header->kind == SMALL || header->kind == LARGE);
    lock(heap);
    if (header->kind == SMALL) {
        block->next = heap->free[header->number];
        heap->free[header->number] = block;
    } else {
        give_pages(heap, (char *)header, header->bytes);
    }
    unlock(heap);
}

size_t
tp_ampi_heap_usable(const void *ptr)
{
    const struct header *header = header_of(ptr);

    return (size_t)((const char *)header + header->bytes - (const char *)ptr);
}

size_t
tp_ampi_heap_ranges(const struct tp_ampi_heap *heap, struct tp_ampi_range *ret,
                    size_t max)
{
    const char *at = (const char *)heap;
    size_t count = 0;

    for (const struct span *span = heap->spans; span != NULL && count + 1 < max;
         span = span->next) {
        const char *hole = (const char *)(span + 1);

        ret[count++] = (struct tp_ampi_range){(uintptr_t)at, (uint64_t)(hole - at)};
        at = (const char *)span + span->bytes;
    }
    if (heap->top > at) {
        ret[count++] =
            (struct tp_ampi_range){(uintptr_t)at, (uint64_t)(heap->top - at)};
    }
    return count;
}
