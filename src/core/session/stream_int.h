/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of a stream, shared by stream.c, stream_send.c, stream_receive.c, stream_trace.c.
 *
 * Numbers are kept in two copies, the senders' and the receiver's, each with the halves
 * that it changes; what one needs of the other goes through the atomic members. So a
 * received frame takes no lock.
 */
#ifndef TELPHER_CORE_SESSION_STREAM_INT_H
#define TELPHER_CORE_SESSION_STREAM_INT_H

#include <stdatomic.h>

#include "base/container/buf.h"
#include "base/os/thread.h"
#include "core/session/stream.h"

enum {
    TP_STREAM_RX_BYTES = 64 << 10, /**< receive buffer; grows for larger frames */
    TP_STREAM_TX_KEEP =
        256 << 10, /**< send memory kept when there is nothing to send */
    TP_STREAM_ACK_EVERY = 256, /**< frames received before a frame is due */
    TP_STREAM_DATA_BYTES = 8 + 8 + 4, /**< body of DATA in front of its content */
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
    bool announced; /* data_end is owed */
    uint64_t transfer, offset;
    uint32_t len, left;
    bool bulk; /* the last frame was DATA: read headers alone, content in place */
};

struct tp_stream {
    struct tp_conn *conn; /* never changes, nor do the next two */
    unsigned id; /* for logs and traces */
    size_t tx_limit;
    _Atomic telpher_status broken; /* first reason; then it never changes */
    _Atomic telpher_status unsent; /* why sending ended, if it did */
    _Atomic bool down; /* we shut the connection down */

    /* What one side publishes for the other. */
    _Atomic uint64_t sent, ack_sent, received;

    /* Order of taking: flush_lock, tx_lock. */
    struct tp_mutex tx_lock;
    struct tp_buf tx; /* tx_lock: frames in order, behind out */
    struct tp_session_numbers tx_numbers; /* tx_lock: sent, ack_sent */
    struct tp_mutex flush_lock; /* held by who sends */
    struct tp_buf out; /* flush_lock: being sent */
    _Atomic size_t pending; /* [bytes] in tx and out */
    _Atomic bool kicked; /* somebody could not get flush_lock and did not wait */

    struct tp_stream_rx rx;
};

/** Sends what has gathered unless another thread is sending, which then does it. */
void tp_stream_kick(struct tp_stream *s);
/** Records why the stream is broken, once; the connection stays up for a GOODBYE. */
telpher_status tp_stream_fail(struct tp_stream *s, telpher_status status);

/** Trace record of a frame; @p body has at least 8 bytes of it, or all. */
void tp_stream_trace(const struct tp_stream *s, bool sent,
                     const struct tp_wire_header *header, const uint8_t *body,
                     size_t body_len);

#endif
