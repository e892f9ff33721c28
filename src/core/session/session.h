/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame numbers and acknowledgements of one stream: docs/protocol.md section 4.
 * Pure bookkeeping, no I/O: what to do with a frame is decided here, once, for both ends.
 */
#ifndef TELPHER_CORE_SESSION_SESSION_H
#define TELPHER_CORE_SESSION_SESSION_H

#include <stdint.h>

#include <telpher/status.h>

/** Numbers of one stream. Zero-initialised for a new one. */
struct tp_session_numbers {
    uint64_t sent; /**< last number given to a frame we sent */
    uint64_t received; /**< last number accepted from the peer */
    uint64_t acked; /**< highest of our numbers that the peer has acknowledged */
    uint64_t ack_sent; /**< highest of the peer's numbers that we have acknowledged */
};

/** What tp_session_accept decided. */
enum tp_session_verdict {
    TP_SESSION_ACCEPT, /**< next in line: process it */
    TP_SESSION_DUPLICATE, /**< seen before: drop it */
    TP_SESSION_GAP, /**< a frame is missing: the stream is broken */
    TP_SESSION_BAD_ACK, /**< acknowledges what was never sent: the stream is broken */
};

/** Gives the next frame its number; *ret_ack gives the acknowledgement to put in it. */
uint64_t tp_session_next(struct tp_session_numbers *n, uint64_t *ret_ack);
/**
 * Judges a received frame and, unless the stream is broken, takes over its
 * acknowledgement. A stale acknowledgement (lower than one seen) changes nothing.
 */
enum tp_session_verdict tp_session_accept(struct tp_session_numbers *n, uint64_t seq,
                                          uint64_t ack);
/** @return how many received frames have not been acknowledged yet. */
uint64_t tp_session_unacked(const struct tp_session_numbers *n);

#endif
