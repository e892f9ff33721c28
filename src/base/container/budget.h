/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds how much of a quantity is in use, such as memory. Any thread, no lock. */
#ifndef TELPHER_BASE_CONTAINER_BUDGET_H
#define TELPHER_BASE_CONTAINER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** An amount that several budgets share. */
struct tp_budget_outer {
    uint64_t max; /**< 0 = no limit */
    _Atomic uint64_t *all; /**< in use by all budgets */
    _Atomic uint64_t *own; /**< of that by this budget */
};

struct tp_budget {
    uint64_t max; /**< never changes; 0 = no limit */
    _Atomic uint64_t used;
    const struct tp_budget_outer *outer; /**< NULL: none */
};

static inline bool
tp_budget_add(_Atomic uint64_t *total, uint64_t max, uint64_t amount)
{
    uint64_t used = atomic_load_explicit(total, memory_order_relaxed);

    do {
        if (max != 0 && (used > max || amount > max - used)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        total, &used, used + amount, memory_order_relaxed, memory_order_relaxed));
    return true;
}

/** Takes @p amount of an outer budget. @return false, and nothing is taken: too much */
static inline bool
tp_budget_outer_take(const struct tp_budget_outer *o, uint64_t amount)
{
    if (!tp_budget_add(o->all, o->max, amount)) {
        return false;
    }
    atomic_fetch_add_explicit(o->own, amount, memory_order_relaxed);
    return true;
}

static inline void
tp_budget_outer_give(const struct tp_budget_outer *o, uint64_t amount)
{
    atomic_fetch_sub_explicit(o->own, amount, memory_order_relaxed);
    atomic_fetch_sub_explicit(o->all, amount, memory_order_relaxed);
}

/** Takes @p amount. @return false, and nothing is taken, if that is too much */
static inline bool
tp_budget_take(struct tp_budget *b, uint64_t amount)
{
    if (!tp_budget_add(&b->used, b->max, amount)) {
        return false;
    }
    if (b->outer != NULL && !tp_budget_outer_take(b->outer, amount)) {
        atomic_fetch_sub_explicit(&b->used, amount, memory_order_relaxed);
        return false;
    }
    return true;
}

/** Gives back what was taken. */
static inline void
tp_budget_give(struct tp_budget *b, uint64_t amount)
{
    atomic_fetch_sub_explicit(&b->used, amount, memory_order_relaxed);
    if (b->outer != NULL) {
        tp_budget_outer_give(b->outer, amount);
    }
}

#endif
