/* SPDX-License-Identifier: Apache-2.0 */
/* A quantity of which no more than so much may be in use. Any thread, no lock. */
#ifndef TELPHER_BASE_CONTAINER_BUDGET_H
#define TELPHER_BASE_CONTAINER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tp_budget {
    uint64_t max; /**< never changes; 0 = no limit */
    _Atomic uint64_t used;
};

/** Takes @p amount. @return false, and nothing is taken, if that is too much */
static inline bool
tp_budget_take(struct tp_budget *b, uint64_t amount)
{
    uint64_t used = atomic_load_explicit(&b->used, memory_order_relaxed);

    do {
        if (b->max != 0 && (used > b->max || amount > b->max - used)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &b->used, &used, used + amount, memory_order_relaxed, memory_order_relaxed));
    return true;
}

/** Gives back what was taken. */
static inline void
tp_budget_give(struct tp_budget *b, uint64_t amount)
{
    atomic_fetch_sub_explicit(&b->used, amount, memory_order_relaxed);
}

#endif
