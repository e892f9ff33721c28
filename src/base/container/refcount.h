/* SPDX-License-Identifier: Apache-2.0 */
/* Reference count on C11 atomics. Misuse (from 0, overflow) aborts: it is our bug. */
#ifndef TELPHER_BASE_CONTAINER_REFCOUNT_H
#define TELPHER_BASE_CONTAINER_REFCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct tp_refcount {
    _Atomic uint32_t count;
};

/** Starts with one reference: the creator's. */
static inline void
tp_refcount_init(struct tp_refcount *ref)
{
    atomic_init(&ref->count, 1);
}

/** Adds a reference; the caller has one already. */
static inline void
tp_refcount_get(struct tp_refcount *ref)
{
    uint32_t old = atomic_fetch_add_explicit(&ref->count, 1, memory_order_relaxed);

    tp_assert(old != 0 && old < INT32_MAX);
}

/** Drops a reference; true means that it was the last and the caller must destroy. */
static inline bool
tp_refcount_put(struct tp_refcount *ref)
{
    uint32_t old = atomic_fetch_sub_explicit(&ref->count, 1, memory_order_acq_rel);

    tp_assert(old != 0);
    return old == 1;
}

#endif
