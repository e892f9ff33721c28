/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtelpher-ampi-heap: malloc() and the like, from the heap of the rank that runs. Programs whose
 * ranks may move have it preloaded, so the functions replace those of the C library everywhere.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/move/heap.h"
#include "base/compiler.h"

/* The C library's own, under the names that it keeps for this. */
extern void *__libc_malloc(size_t size);
extern void __libc_free(void *ptr);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

static _Thread_local struct tp_ampi_heap *now
    __attribute__((tls_model("initial-exec")));

static struct tp_ampi_heap **
current(void)
{
    return &now;
}

extern struct tp_ampi_heaps telpher_ampi_heaps;
__attribute__((visibility("default"))) struct tp_ampi_heaps telpher_ampi_heaps = {
    .current = current};

/* The heap that a call takes from. NULL: the C library's */
static inline struct tp_ampi_heap *
heap_for(const void *caller)
{
    if (tp_likely(now == NULL)) {
        return NULL;
    }
    for (uint32_t i = 0; i < telpher_ampi_heaps.other_count; i++) {
        const struct tp_ampi_range *other = &telpher_ampi_heaps.others[i];

        if ((uintptr_t)caller - other->at < other->len) {
            return NULL;
        }
    }
    return now;
}

/* The heap that a block lies in. NULL: the C library's */
static inline struct tp_ampi_heap *
heap_of(const void *ptr)
{
    const struct tp_ampi_heaps *all = &telpher_ampi_heaps;
    uint64_t offset = (uintptr_t)ptr - all->base;

    return offset < all->count * all->each && all->base != 0
               ? (struct tp_ampi_heap *)(all->base + offset / all->each * all->each)
               : NULL;
}

static void *
take(struct tp_ampi_heap *heap, size_t size, size_t align)
{
    void *ptr = tp_ampi_heap_alloc(heap, size, align);

    if (ptr == NULL) {
        errno = ENOMEM;
    }
    return ptr;
}

#define CALLER __builtin_return_address(0)

static void *
rank_malloc(size_t size)
{
    struct tp_ampi_heap *heap = heap_for(CALLER);

    return heap != NULL ? take(heap, size, 1) : __libc_malloc(size);
}

static void
rank_free(void *ptr)
{
    struct tp_ampi_heap *heap = heap_of(ptr);

    if (heap != NULL) {
        tp_ampi_heap_free(heap, ptr);
    } else {
        __libc_free(ptr);
    }
}

static void *
rank_calloc(size_t count, size_t size)
{
    struct tp_ampi_heap *heap = heap_for(CALLER);
    size_t bytes;
    void *ptr;

    if (heap == NULL) {
        return __libc_calloc(count, size);
    }
    ptr = __builtin_mul_overflow(count, size, &bytes) ? NULL : take(heap, bytes, 1);
    if (ptr != NULL) {
        memset(ptr, 0, bytes);
    } else {
        errno = ENOMEM;
    }
    return ptr;
}

/* A block of a rank stays in its heap, also when another one resizes it. */
static void *
resize(struct tp_ampi_heap *from, struct tp_ampi_heap *heap, void *ptr, size_t size)
{
    size_t usable = from != NULL ? tp_ampi_heap_usable(ptr) : 0;
    void *more;

    if (from == NULL) {
        return ptr == NULL && heap != NULL ? take(heap, size, 1)
                                           : __libc_realloc(ptr, size);
    }
    if (size <= usable && size >= usable / 2) {
        return ptr;
    }
    more = take(from, size, 1);
    if (more != NULL) {
        memcpy(more, ptr, TP_MIN(size, usable));
        tp_ampi_heap_free(from, ptr);
    }
    return more;
}

static void *
rank_realloc(void *ptr, size_t size)
{
    if (size == 0 && ptr != NULL) {
        rank_free(ptr);
        return NULL;
    }
    return resize(heap_of(ptr), heap_for(CALLER), ptr, size);
}

static void *
rank_reallocarray(void *ptr, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return resize(heap_of(ptr), heap_for(CALLER), ptr, bytes);
}

static void *
take_aligned(const void *caller, size_t align, size_t size)
{
    struct tp_ampi_heap *heap = heap_for(caller);

    return heap != NULL ? take(heap, size, align) : __libc_memalign(align, size);
}

static void *
rank_memalign(size_t align, size_t size)
{
    return take_aligned(CALLER, align, size);
}

static void *
rank_aligned_alloc(size_t align, size_t size)
{
    return take_aligned(CALLER, align, size);
}

static void *
rank_valloc(size_t size)
{
    return take_aligned(CALLER, 4096, size);
}

static int
rank_posix_memalign(void **ret, size_t align, size_t size)
{
    int before = errno;
    void *ptr;

    if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0) {
        return EINVAL;
    }
    ptr = take_aligned(CALLER, align, size);
    errno = before;
    if (ptr != NULL) {
        *ret = ptr;
    }
    return ptr != NULL ? 0 : ENOMEM;
}

static size_t
rank_malloc_usable_size(void *ptr)
{
    static size_t (*libc_usable)(void *ptr);

    if (heap_of(ptr) != NULL) {
        return tp_ampi_heap_usable(ptr);
    }
    if (libc_usable == NULL) {
        *(void **)&libc_usable = dlsym(RTLD_NEXT, "malloc_usable_size");
    }
    return libc_usable(ptr);
}

/* The names by which the program and its libraries call them. */
#define REPLACE(name)                                                                  \
    extern __typeof__(rank_##name) name                                                \
        __attribute__((visibility("default"), alias("rank_" #name)))

REPLACE(malloc);
REPLACE(free);
REPLACE(calloc);
REPLACE(realloc);
REPLACE(reallocarray);
REPLACE(memalign);
REPLACE(aligned_alloc);
REPLACE(valloc);
REPLACE(posix_memalign);
REPLACE(malloc_usable_size);
