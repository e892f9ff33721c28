/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's heap: all of its state lies in the range that it manages, so a copy of the range's
 * bytes at the same address in another process is the same heap.
 */
#ifndef TELPHER_AMPI_MOVE_HEAP_H
#define TELPHER_AMPI_MOVE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tp_ampi_heap;

/** Addresses [at, at + len). */
struct tp_ampi_range {
    uintptr_t at;
    uint64_t len;
};

/** Makes a heap of @p bytes at @p base, which are 0, readable and writable. */
struct tp_ampi_heap *tp_ampi_heap_create(void *base, size_t bytes);
/** @param align  a power of two @return NULL: the range is full */
void *tp_ampi_heap_alloc(struct tp_ampi_heap *heap, size_t size, size_t align);
void tp_ampi_heap_free(struct tp_ampi_heap *heap, void *ptr);
/** [bytes] that the block may hold. */
size_t tp_ampi_heap_usable(const void *ptr);
/** The bytes in use, without large free blocks. @return how many ranges, at most @p max */
size_t tp_ampi_heap_ranges(const struct tp_ampi_heap *heap, struct tp_ampi_range *ret,
                           size_t max);

/**
 * Shared by libtelpher-ampi.so and libtelpher-ampi-heap.so, which has the program's malloc()
 * and free(). malloc() takes from *current, a variable of the thread, and from the C library
 * if that is NULL or if the caller lies in a range of `others`.
 */
struct tp_ampi_heaps {
    uintptr_t base; /**< of rank 0's range; 0: no rank has one */
    uint64_t each; /**< [bytes] from one rank's heap to the next */
    uint32_t count;
    uint32_t other_count;
    struct tp_ampi_range others[8]; /**< code whose memory belongs to the process */
    struct tp_ampi_heap **(*current)(void);
};

#endif
