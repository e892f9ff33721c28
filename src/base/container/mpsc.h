/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive lock-free queue: many threads push, one thread at a time pops; first in,
 * first out per producer. Producers push on a stack; the consumer takes it whole and
 * turns it round, so there is no half-done state for which the consumer would have to spin.
 */
#ifndef TELPHER_BASE_CONTAINER_MPSC_H
#define TELPHER_BASE_CONTAINER_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/** Embed one in each object queued; get the object with tp_container_of(). */
struct tp_mpsc_node {
    struct tp_mpsc_node *next;
};

struct tp_mpsc {
    _Atomic(struct tp_mpsc_node *) pushed; /* newest first */
    struct tp_mpsc_node *ready; /* oldest first; the consumer's own */
};

static inline void
tp_mpsc_init(struct tp_mpsc *queue)
{
    atomic_init(&queue->pushed, NULL);
    queue->ready = NULL;
}

/**
 * Queues @p node, keeping it until it is popped. Any thread.
 *
 * @return true if nothing was waiting to be collected: the consumer may be asleep, so
 *         wake it. False: whoever got true has woken it or is about to.
 */
static inline bool
tp_mpsc_push(struct tp_mpsc *queue, struct tp_mpsc_node *node)
{
    struct tp_mpsc_node *head =
        atomic_load_explicit(&queue->pushed, memory_order_relaxed);

    do {
        node->next = head;
    } while (!atomic_compare_exchange_weak_explicit(
        &queue->pushed, &head, node, memory_order_release, memory_order_relaxed));
    return head == NULL;
}

/**
 * Takes the oldest node, NULL when there is none. Consumer only. The consumer may sleep
 * once this has returned NULL.
 */
static inline struct tp_mpsc_node *
tp_mpsc_pop(struct tp_mpsc *queue)
{
    struct tp_mpsc_node *node = queue->ready;

    if (node == NULL) {
        struct tp_mpsc_node *stack =
            atomic_exchange_explicit(&queue->pushed, NULL, memory_order_acquire);

        while (stack != NULL) {
            struct tp_mpsc_node *older = stack->next;

            stack->next = node;
            node = stack;
            stack = older;
        }
    }
    if (node != NULL) {
        queue->ready = node->next;
        node->next = NULL;
    }
    return node;
}

/** True when a pop would give NULL. Consumer only. */
static inline bool
tp_mpsc_is_empty(struct tp_mpsc *queue)
{
    return queue->ready == NULL &&
           atomic_load_explicit(&queue->pushed, memory_order_acquire) == NULL;
}

#endif
