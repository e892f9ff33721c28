/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame numbers and acknowledgements of one stream: docs/protocol.md section 4.
 * No I/O. Client and server share this code to accept or reject a frame.
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

/** Result of tp_session_accept. */
enum tp_session_verdict {
    TP_SESSION_ACCEPT, /**< next in line: process it */
    TP_SESSION_DUPLICATE, /**< seen before: drop it */
    TP_SESSION_GAP, /**< a frame is missing: the stream is broken */
    TP_SESSION_BAD_ACK, /**< acknowledges a frame never sent: the stream is broken */
};

/** @return the number of the next frame; *ret_ack gives the acknowledgement to send in it. */
uint64_t tp_session_next(struct tp_session_numbers *n, uint64_t *ret_ack);
/**
 * Checks the numbers of a received frame and, unless the stream is broken, records its
 * acknowledgement. A stale acknowledgement (lower than one seen) changes nothing.
 */
enum tp_session_verdict tp_session_accept(struct tp_session_numbers *n, uint64_t seq,
                                          uint64_t ack);
/** @return number of received frames that have not been acknowledged yet. */
uint64_t tp_session_unacked(const struct tp_session_numbers *n);

#endif
