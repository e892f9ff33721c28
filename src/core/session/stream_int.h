/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of a stream, for stream.c, stream_send.c, stream_receive.c and stream_trace.c.
 *
 * The senders and the receiver have separate copies of the numbers; each changes only its
 * own half. They exchange values through atomic members. So receiving a frame takes no
 * lock.
 */
#ifndef TELPHER_CORE_SESSION_STREAM_INT_H
#define TELPHER_CORE_SESSION_STREAM_INT_H

#include <stdatomic.h>

#include "base/container/buf.h"
#include "base/os/thread.h"
#include "core/session/stream.h"

enum {
    TP_STREAM_RX_BYTES = 64 << 10, /**< receive buffer; grows for larger frames */
    TP_STREAM_TX_KEEP = 256 << 10, /**< send memory kept while the queue is empty */
    TP_STREAM_ACK_EVERY = 256, /**< frames received before a frame is due */
    TP_STREAM_DATA_BYTES = 8 + 8 + 4, /**< body of DATA before its content */
};

/** Receiving thread only. */
struct tp_stream_rx {
    uint8_t *buf;
    size_t cap, start, end;
    struct tp_session_numbers numbers; /* received, acked */
    /* A DATA frame whose content is arriving. It counts as received when it is complete. */
    bool in_content;
    struct tp_session_numbers content_numbers;
    uint8_t *dest; /* next byte goes here; NULL = discard */
    bool begun; /* data_end must be called */
    uint64_t transfer, offset;
    uint32_t len, left;
    bool takes_short; /* headers; immutable */
    bool
        bulk; /* the last frame was DATA: read headers only, content directly to dest */
};

struct tp_stream {
    struct tp_conn *conn; /* immutable, as the next two */
    unsigned id; /* for logs and traces */
    size_t tx_limit;
    _Atomic telpher_status broken; /* first reason; then it never changes */
    _Atomic telpher_status unsent; /* why sending ended, if it did */
    _Atomic bool down; /* we shut the connection down */

    /* Values exchanged between senders and receiver. */
    _Atomic uint64_t sent, ack_sent, received;

    /* Order of taking: flush_lock, tx_lock. */
    struct tp_mutex tx_lock;
    struct tp_buf tx; /* tx_lock: frames in order, sent after out */
    struct tp_session_numbers tx_numbers; /* tx_lock: sent, ack_sent */
    bool sends_short; /* tx_lock: headers of frames put */
    struct tp_mutex flush_lock; /* held by the sending thread */
    struct tp_buf out; /* flush_lock: being sent */
    _Atomic size_t pending; /* [bytes] in tx and out */
    _Atomic bool kicked; /* a thread could not get flush_lock and did not wait */

    struct tp_stream_rx rx;
};

/** Records why the stream is broken, once; the connection stays up for a GOODBYE. */
telpher_status tp_stream_fail(struct tp_stream *s, telpher_status status);

/** Writes the trace record of a frame; @p body has its first 8 bytes or all of it. */
void tp_stream_trace(const struct tp_stream *s, bool sent,
                     const struct tp_wire_header *header, const uint8_t *body,
                     size_t body_len);

#endif
