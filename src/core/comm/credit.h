/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credits bound what a receiver must keep: a sender has at most `max` messages of one
 * flow in flight, and the receiver returns credits in batches. Channels and ordered
 * messages use them. Each side checks that the other keeps to its credits.
 */
#ifndef TELPHER_CORE_COMM_CREDIT_H
#define TELPHER_CORE_COMM_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

/** Both directions of a flow between this rank and another. */
struct tp_credits {
    uint32_t in_flight; /**< sent by this rank; the peer has not returned the credit */
    uint32_t queued; /**< received here and not consumed */
    uint32_t to_return; /**< consumed by this rank; the credit was not returned yet */
};

/** Counts an arrived message. @return false: the peer sent it without a credit */
static inline bool
tp_credits_receive(struct tp_credits *c, uint32_t max)
{
    if (c->queued + c->to_return >= max) {
        return false;
    }
    c->queued++;
    return true;
}

/** Counts a consumed message. @return number of credits to return to the peer now, or
 *  0 */
static inline uint32_t
tp_credits_consume(struct tp_credits *c, uint32_t batch)
{
    uint32_t count = ++c->to_return;

    c->queued--;
    if (count < batch) {
        return 0;
    }
    c->to_return = 0;
    return count;
}

/** The peer returned @p count credits. @return false: more than it holds */
static inline bool
tp_credits_returned(struct tp_credits *c, uint64_t count)
{
    if (count > c->in_flight) {
        return false;
    }
    c->in_flight -= (uint32_t)count;
    return true;
}

#endif
