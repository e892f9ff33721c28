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
    TP_STREAM_ACK_EVERY = 1024, /**< frames received before a frame is due */
    TP_STREAM_DATA_BYTES = 8 + 8 + 4, /**< body of DATA before its content */
    TP_STREAM_ACK_BYTES =
        1 << 20, /**< received before a frame is due, if they are kept */
    TP_STREAM_KEEP_SPARE = 64, /**< blocks for copies of content, kept for reuse */
    TP_STREAM_KEEP_CONTENT_MAX =
        64 << 20, /**< [bytes] of content sent and not acknowledged */
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
    uint64_t discarded; /* number of a received frame that is sent again, and dropped */
    uint64_t trimmed; /* acknowledgement up to which kept frames were dropped */
    size_t unacked_bytes; /* of frames received since the last acknowledgement */
    bool
        bulk; /* the last frame was DATA: read headers only, content directly to dest */
};

/** Frames sent and not acknowledged: stream_keep.c. Under tx_lock. */
struct tp_stream_keep {
    _Atomic bool on; /* set once */
    _Atomic bool away; /* without a connection */
    _Atomic bool has_next; /* next is not NULL */
    _Atomic bool replaying; /* kept frames come before those of tx */
    bool unsent; /* the receiving thread sends what is left of them */
    _Atomic size_t bytes; /* of kept frames and their content */
    struct tp_buf records;
    uint64_t trimmed; /* last number that is not kept any more */
    struct tp_conn *next; /* the connection that replaces the lost one */
    uint64_t next_received; /* last number that the peer has received, says it */
    uint64_t replay_next, replay_end;
    void *spare[TP_STREAM_KEEP_SPARE]; /* blocks of TP_WIRE_CHUNK_MAX, for copies */
    unsigned spare_count;
    struct tp_cond moved; /* a change of any of these */
};

struct tp_stream {
    struct tp_conn *conn; /* immutable, as the next two */
    unsigned id; /* for logs and traces */
    size_t tx_limit;
    _Atomic telpher_status broken; /* first reason; then it never changes */
    _Atomic telpher_status unsent; /* why sending ended, if it did */
    _Atomic bool down; /* we shut the connection down */
    uint64_t lost_after_ns; /* the peer is watched; 0 = not. Set once */

    /* Values exchanged between senders and receiver. */
    _Atomic uint64_t sent, ack_sent, received;

    /* Order of taking: flush_lock, tx_lock. */
    struct tp_mutex tx_lock; /* frames that are put: tx, tx_numbers, sends_short */
    struct tp_buf tx; /* tx_lock: frames in order, sent after out */
    struct tp_session_numbers tx_numbers; /* tx_lock: sent, ack_sent */
    bool sends_short; /* tx_lock: headers of frames put */
    struct tp_mutex flush_lock; /* out; held by the thread that sends */
    struct tp_buf out; /* flush_lock: being sent */
    _Atomic size_t pending; /* [bytes] in tx and out */
    _Atomic bool kicked; /* a thread could not get flush_lock and did not wait */

    struct tp_stream_rx rx;
    struct tp_stream_keep keep;
};

/** Records why the stream is broken, once; the connection stays up for a CLOSE. */
telpher_status tp_stream_fail(struct tp_stream *s, telpher_status status);

/* ---- stream_keep.c ---- */

/** Keeps a numbered frame, if the stream keeps frames: its body, and a reference to
 *  @p content after it (may be NULL). Under tx_lock. */
telpher_status tp_stream_keep_frame(struct tp_stream *s, const struct tp_wire_header *h,
                                    const void *body, size_t body_len,
                                    const struct tp_wire_data *content);
/** Drops kept frames that the peer has acknowledged. Receiving thread. */
void tp_stream_keep_trim(struct tp_stream *s);
void tp_stream_keep_fini(struct tp_stream *s);
/** Switches to the next connection. Receiving thread. @return false: there is none */
bool tp_stream_resume(struct tp_stream *s, const struct tp_stream_handler *handler,
                      void *arg);
/** Copies kept frames that must be sent again to `out`. Under flush_lock and tx_lock. */
telpher_status tp_stream_replay(struct tp_stream *s);
/** Waits while the stream is away; if not @p until_sent, only for the next connection. */
telpher_status tp_stream_wait_back(struct tp_stream *s, bool until_sent,
                                   uint64_t deadline_ns);
/** True if content of @p len bytes may be sent: the amount not acknowledged is bounded. */
bool tp_stream_keep_has_room(const struct tp_stream *s, size_t len);
void tp_stream_keep_wait_room(struct tp_stream *s, size_t len);

/** Writes the trace record of a frame; @p body has its first 8 bytes or all of it. */
void tp_stream_trace(const struct tp_stream *s, bool sent,
                     const struct tp_wire_header *header, const uint8_t *body,
                     size_t body_len);

#endif
