/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value for every byte of [0, size): runs of equal values in a sorted array. Neighbours with
 * one value are one run.
 *
 * Cost with n runs: tp_ranges_at() is a binary search, O(log n). tp_ranges_change() searches
 * and moves the runs above, O(n) of 16 bytes each: some microseconds for 10,000 runs.
 *
 * Threads: the caller's lock.
 */
#ifndef TELPHER_BASE_CONTAINER_RANGES_H
#define TELPHER_BASE_CONTAINER_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

/** A run: from `start` to the start of the next one. */
struct tp_range {
    uint64_t start, value;
};

/** Private members; {0} can be passed to tp_ranges_fini(). */
struct tp_ranges {
    struct tp_range *runs;
    size_t count, room;
    uint64_t size;
};

/** @param size > 0. @return OK, NO_MEMORY */
telpher_status tp_ranges_init(struct tp_ranges *r, uint64_t size, uint64_t value);
void tp_ranges_fini(struct tp_ranges *r);
/** Makes room: the next @p changes calls of tp_ranges_change() cannot fail. */
telpher_status tp_ranges_reserve(struct tp_ranges *r, size_t changes);
/** @return the value at @p at < size; *ret_end gives where its run ends. */
uint64_t tp_ranges_at(const struct tp_ranges *r, uint64_t at, uint64_t *ret_end);
/** Makes each value v of [from, to), not empty, (v & keep) | add. There must be room. */
void tp_ranges_change(struct tp_ranges *r, uint64_t from, uint64_t to, uint64_t keep,
                      uint64_t add);
/** True if some byte's value has one of these bits: O(n). */
bool tp_ranges_have(const struct tp_ranges *r, uint64_t bits);

#endif
