/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of frames over one connection: numbers, batching, parsing. Client and server use
 * it.
 *
 * Sending: any thread; frames are queued in a buffer until a thread flushes. Receiving: one
 * thread at a time, which the caller must ensure; the handler gets frames in order, checked
 * by core/session/session.h. Every frame writes a trace record when TELPHER_TRACE is set.
 */
#ifndef TELPHER_CORE_SESSION_STREAM_H
#define TELPHER_CORE_SESSION_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/session/session.h"
#include "waist/transport.h"
#include "wire/messages.h"

struct tp_stream;

/** Callbacks for received frames. The receiving thread calls them, without locks. */
struct tp_stream_handler {
    /**
     * Handles a frame. @p body is borrowed until return.
     * @return OK; anything else breaks the stream with that status.
     */
    telpher_status (*frame)(void *arg, uint16_t type, const uint8_t *body,
                            const uint8_t *end);
    /**
     * Provides memory for bulk content [offset, offset + len) of a transfer.
     * @return room for @p len bytes, valid until data_end; NULL discards the content.
     *         The callback may be NULL on command streams: DATA then breaks the stream.
     */
    void *(*data_begin)(void *arg, uint64_t transfer, uint64_t offset, uint32_t len);
    /** Completes the content of the last data_begin (not called if discarded). */
    void (*data_end)(void *arg, uint64_t transfer, uint64_t offset, uint32_t len);
    /** The connection was lost between data_begin and data_end; the same content comes
     *  again, after another data_begin. May be NULL if the stream keeps no frames. */
    void (*data_cut)(void *arg, uint64_t transfer, uint64_t offset, uint32_t len);
};

/**
 * Creates a stream on a connection after the preface.
 * @param conn     taken over on success.
 * @param numbers  current numbers, for a socket handed over; NULL = new. Copied.
 * @param tx_limit [bytes] that may be queued unsent; 0 = no limit. Above it
 *                 tp_stream_put fails with TELPHER_ERR_LIMIT and breaks the stream.
 */
telpher_status tp_stream_create(struct tp_conn *conn,
                                const struct tp_session_numbers *numbers,
                                size_t tx_limit, struct tp_stream **ret_stream);
/** Destroys the stream but for its connection. @return that; the caller destroys it */
struct tp_conn *tp_stream_release(struct tp_stream *s);
/** NULL is fine. No other thread may be inside a call. */
void tp_stream_destroy(struct tp_stream *s);

/** From now on frames get short headers where they can: the peer accepts them. */
void tp_stream_send_short(struct tp_stream *s);
/** Accepts short headers. Must be called before the first receive. */
void tp_stream_accept_short(struct tp_stream *s);

/**
 * Appends one frame to the send buffer; does no I/O.
 * @param type a message type; @p msg points to its struct (wire/messages.h), borrowed.
 * @return OK; LIMIT (see create; or frame larger than TP_WIRE_FRAME_MAX: nothing
 *         appended, stream intact); NO_MEMORY; or the status that broke the stream.
 */
telpher_status tp_stream_put(struct tp_stream *s, uint16_t type, const void *msg);
/** Holds the send lock over several puts, so that their frames stay adjacent. The holder
 *  may call nothing but put_locked on the stream. */
void tp_stream_lock(struct tp_stream *s);
telpher_status tp_stream_put_locked(struct tp_stream *s, uint16_t type,
                                    const void *msg);
void tp_stream_unlock(struct tp_stream *s);

/**
 * Sends queued frames as far as the connection accepts them; never blocks. The next flush
 * sends the rest. @return OK (all sent), AGAIN (some left), or broken status.
 */
telpher_status tp_stream_flush(struct tp_stream *s);
/** As tp_stream_flush, but waits for the connection until all is sent. OK, TIMEOUT or
 *  broken status. The peer's progress must not depend on the calling thread; in particular,
 *  the receiving thread must not call this. */
telpher_status tp_stream_flush_wait(struct tp_stream *s, uint64_t deadline_ns);
/** Sends queued frames, or leaves that to the thread that is sending. Never waits: if
 *  tp_stream_pending() is not 0 afterwards, the caller must see to a flush. */
void tp_stream_kick(struct tp_stream *s);
/** [bytes] queued and unsent. */
size_t tp_stream_pending(struct tp_stream *s);
/** [bytes] received after the frame that a handler has; for that handler only. */
size_t tp_stream_unread(const struct tp_stream *s);

enum { TP_STREAM_SEND_MAX = 4 * TP_WIRE_CHUNK_MAX }; /**< [bytes] of one send_data */
/**
 * Sends content in DATA frames without copying @p data (borrowed until return); waits for the
 * connection. Frames of tp_stream_put go between two calls.
 * @param len [bytes] 1 .. TP_STREAM_SEND_MAX
 */
telpher_status tp_stream_send_data(struct tp_stream *s, uint64_t transfer,
                                   uint64_t offset, const void *data, uint32_t len);
/**
 * As tp_stream_send_data of one frame, but never waits for the network. If the connection
 * accepts only part of the frame, the stream copies the rest, so @p data may be reused.
 * tp_stream_pending() is then not 0, and the caller must see to a flush.
 *
 * @return AGAIN: nothing was sent, because another thread sends or other frames come first
 */
telpher_status tp_stream_offer_data(struct tp_stream *s, uint64_t transfer,
                                    uint64_t offset, const void *data, uint32_t len);

/* ---- streams that outlive their connection: docs/protocol.md 4.1 ---- */

/** Keeps frames from now on until the peer has acknowledged them, if the connection can be
 *  replaced. The peer has received all frames sent before. */
void tp_stream_keep(struct tp_stream *s);
/** Watches the peer's machine: tp_stream_look(). @return false: it cannot vanish silently */
bool tp_stream_watch(struct tp_stream *s, uint64_t lost_after_ns);
/** Ends the connection of a watched stream whose peer's machine is silent; with
 *  @p network_changed also one that is doubtful. Any thread. @return true if it did */
bool tp_stream_look(struct tp_stream *s, bool network_changed);
/** Ends the connection, if the stream can go on with another one. @return that. Any thread */
bool tp_stream_leave(struct tp_stream *s);
/**
 * Gives the peer a sign of life on a connection that the receiving thread has not taken into use
 * yet: an ACK with the number of a frame that the peer has received. Any thread.
 */
void tp_stream_sign(struct tp_stream *s);
/** True while the stream has no connection: receive returns AGAIN, frames are kept. */
bool tp_stream_is_away(const struct tp_stream *s);
/** True until the connection of tp_stream_replace() is in use; it may be lost soon after. */
bool tp_stream_has_next(const struct tp_stream *s);
/** [bytes] of frames and content sent and not acknowledged. */
size_t tp_stream_kept(const struct tp_stream *s);
/** Number of the last frame that was sent. */
uint64_t tp_stream_sent(const struct tp_stream *s);
/** Number of the last frame that was received. */
uint64_t tp_stream_received(const struct tp_stream *s);
/** True if the peer has acknowledged frame @p seq, or nothing is kept. Receiving thread. */
bool tp_stream_is_acked(const struct tp_stream *s, uint64_t seq);
/** Acknowledges what has been received. Receiving thread. */
void tp_stream_acknowledge(struct tp_stream *s);
/** Copies the content of a transfer that is not acknowledged; its memory may be reused. */
void tp_stream_own(struct tp_stream *s, uint64_t transfer);
/** True if all frames after number @p received are kept. */
bool tp_stream_can_replace(struct tp_stream *s, uint64_t received);
/**
 * Gives the stream another connection, which the next tp_stream_receive() takes into use.
 * Any thread. The caller wakes the receiving thread if that does not wait in
 * tp_stream_wait().
 * @param conn     taken, if it succeeds
 * @param received last frame number that the peer has received
 * @return OK, PROTO (frames that the peer lacks are not kept)
 */
telpher_status tp_stream_replace(struct tp_stream *s, struct tp_conn *conn,
                                 uint64_t received);

/**
 * Sends one frame with a descriptor (borrowed until return); waits for the connection.
 * @return OK, UNSUPPORTED (this connection passes no descriptors), or broken status
 */
telpher_status tp_stream_send_fd(struct tp_stream *s, uint16_t type, const void *msg,
                                 int fd);
/** True if descriptors can be sent and received. */
bool tp_stream_passes_fds(const struct tp_stream *s);
/** Accepts descriptors; without this call, received ones are closed. Must be called before
 *  the first receive. */
void tp_stream_accept_fds(struct tp_stream *s);
/** @return the descriptor that arrived with the frame being handled, or -1. */
int tp_stream_take_fd(struct tp_stream *s);

/**
 * Receives available bytes and passes complete frames to the handler; the stream itself
 * handles ACK frames. Does not wait: returns AGAIN when nothing was available. At return
 * the handler has got every complete frame, so poll(2) on the descriptor reports the rest.
 *
 * The stream may break between data_begin and data_end. Then data_end is never called, and
 * the content is unspecified.
 *
 * @return OK (at least one byte was received), AGAIN, PEER_LOST, PROTO, NO_MEMORY, or a
 *         handler's status. All but the first two break the stream: every later call
 *         returns the same. One CLOSE may still be put and flushed, to give the peer the
 *         reason. tp_stream_break prevents that and wakes waiting senders.
 */
telpher_status tp_stream_receive(struct tp_stream *s,
                                 const struct tp_stream_handler *handler, void *arg);
/** Sleeps until the connection is readable. OK, TIMEOUT. */
telpher_status tp_stream_wait(struct tp_stream *s, uint64_t deadline_ns);

/** Breaks the stream from any thread: wakes the receiver, fails senders with @p status. */
void tp_stream_break(struct tp_stream *s, telpher_status status);
/** Breaks the stream and closes its descriptor; no other thread may use the stream. After
 *  that, frames may be put, which are discarded, and it may be broken and destroyed. */
void tp_stream_close(struct tp_stream *s);
/** @return OK, or the status that broke the stream. */
telpher_status tp_stream_status(struct tp_stream *s);
/** Notes in the trace that @p s is the command stream of @p session. */
void tp_stream_trace_session(const struct tp_stream *s,
                             const uint8_t session[TP_WIRE_SESSION_BYTES]);

/** Writes the key of a secured session, for its further connections. @return false: the
 *  session is not secured */
bool tp_stream_session_key(struct tp_stream *s, uint8_t ret_key[TP_CONN_KEY_BYTES]);
/** @return descriptor for poll(2), borrowed; -1 if there is none. */
int tp_stream_fd(struct tp_stream *s);
/** Copies the numbers, for a hand-over. No thread may send or receive meanwhile. */
struct tp_session_numbers tp_stream_numbers(struct tp_stream *s);

#endif
