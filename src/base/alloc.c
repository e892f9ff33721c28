/* SPDX-License-Identifier: Apache-2.0 */
/* The heap allocator: counts blocks, and fails on demand of a test. */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/effort.h"
#include "base/trace/log.h"

#if TP_EFFORT_COUNTED
_Thread_local struct tp_effort tp_effort;
#endif

enum { CLEARED_BY_HAND = 1024 }; /* [bytes] */

static _Atomic uint64_t live_blocks;
static _Atomic uint64_t fail_countdown; /* 0 = off */
static _Atomic bool fail_happened;

/* Counts the call. True if this is the allocation that a test wants to fail. */
static bool
must_fail(void)
{
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);

    tp_effort_count(allocations);
    while (tp_unlikely(left != 0)) {
        if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) {
            if (left == 1) {
                atomic_store(&fail_happened, true);
            }
            return left == 1;
        }
    }
    return false;
}

static void *
out_of_memory(size_t size, const char *what)
{
    tp_error("base", "out of memory: %zu bytes for %s", size, what);
    return NULL;
}

/* Counts a new block, or logs that there is no memory. */
static void *
given(void *ptr, size_t size, const char *what)
{
    if (tp_unlikely(ptr == NULL)) {
        return out_of_memory(size, what);
    }
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return ptr;
}

void *
tp_malloc(size_t size, const char *what)
{
    return given(must_fail() ? NULL : malloc(size != 0 ? size : 1), size, what);
}

void *
tp_zalloc(size_t size, const char *what)
{
    /* malloc() takes from the thread's cache, and glibc's calloc() does not, which is slower */
    if (size - 1 < CLEARED_BY_HAND) {
        void *block = tp_malloc(size, what);

        return block != NULL ? memset(block, 0, size) : NULL;
    }
    return given(must_fail() ? NULL : calloc(1, size != 0 ? size : 1), size, what);
}

void *
tp_alloc_array(size_t count, size_t size, const char *what)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total)) {
        return out_of_memory(SIZE_MAX, what);
    }
    return tp_zalloc(total, what);
}

void *
tp_realloc(void *ptr, size_t size, const char *what)
{
    void *moved;

    if (ptr == NULL) {
        return tp_malloc(size, what);
    }
    moved = must_fail() ? NULL : realloc(ptr, size != 0 ? size : 1);
    return moved != NULL ? moved : out_of_memory(size, what);
}

void *
tp_realloc_array(void *ptr, size_t count, size_t size, const char *what)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total)) {
        return out_of_memory(SIZE_MAX, what);
    }
    return tp_realloc(ptr, total, what);
}

void *
tp_alloc_aligned(size_t align, size_t size, const char *what)
{
    void *ptr = NULL;

    tp_assert(align != 0 && (align & (align - 1)) == 0);
    align = TP_MAX(align, sizeof(void *));
    if (must_fail() || posix_memalign(&ptr, align, size != 0 ? size : 1) != 0) {
        ptr = NULL;
    }
    return given(ptr, size, what);
}

char *
tp_strdup(const char *text, const char *what)
{
    return tp_strndup(text, strlen(text), what);
}

char *
tp_strndup(const char *src, size_t len, const char *what)
{
    char *copy = len < SIZE_MAX ? tp_malloc(len + 1, what) : NULL;

    if (copy != NULL) {
        memcpy(copy, src, len);
        copy[len] = '\0';
    }
    return copy;
}

void *
tp_memdup(const void *src, size_t len, const char *what)
{
    void *copy = tp_malloc(len, what);

    if (copy != NULL && len != 0) {
        memcpy(copy, src, len);
    }
    return copy;
}

char *
tp_asprintf(const char *what, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len >= 0) {
        text = tp_malloc((size_t)len + 1, what);
    }
    if (text != NULL) {
        va_start(args, fmt);
        vsnprintf(text, (size_t)len + 1, fmt, args);
        va_end(args);
    }
    return text;
}

void
tp_free(void *ptr)
{
    if (ptr != NULL) {
        atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
        free(ptr);
    }
}

void
tp_alloc_fail_nth(uint64_t nth)
{
    atomic_store(&fail_happened, false);
    atomic_store(&fail_countdown, nth);
}

bool
tp_alloc_failed(void)
{
    return atomic_load(&fail_happened);
}

uint64_t
tp_alloc_live(void)
{
    return atomic_load_explicit(&live_blocks, memory_order_relaxed);
}
