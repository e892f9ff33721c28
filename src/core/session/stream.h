/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of frames over one connection: numbers, batching, parsing. Both ends use it.
 *
 * Sending: any thread; frames gather in a buffer until someone flushes. Receiving: one
 * thread at a time (the caller sees to it); frames are handed over in order, checked by
 * core/session.h. Every frame leaves a trace record when TELPHER_TRACE is set.
 */
#ifndef TELPHER_CORE_SESSION_STREAM_H
#define TELPHER_CORE_SESSION_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/session/session.h"
#include "core/transport.h"
#include "wire/messages.h"

struct tp_stream;

/** Calls for what arrives. All are called by the receiving thread, without locks. */
struct tp_stream_handler {
    /**
     * A frame. @p body is borrowed until return.
     * @return OK; anything else breaks the stream with that status.
     */
    telpher_status (*frame)(void *arg, uint16_t type, const uint8_t *body,
                            const uint8_t *end);
    /**
     * Bulk content [offset, offset + len) of a transfer is about to arrive.
     * @return where to put it, room for @p len bytes, until data_end; NULL discards it.
     *         May be NULL on command streams: a DATA frame then breaks the stream.
     */
    void *(*data_begin)(void *arg, uint64_t transfer, uint64_t offset, uint32_t len);
    /** The content announced by data_begin has arrived (not called if discarded). */
    void (*data_end)(void *arg, uint64_t transfer, uint64_t offset, uint32_t len);
};

/**
 * Makes a stream on a connection whose preface is done.
 * @param conn     takes it, if it succeeds.
 * @param numbers  where numbering stands (a socket handed over); NULL = new. Copied.
 * @param tx_limit [bytes] that may wait unsent; 0 = no limit. Above it
 *                 tp_stream_put fails with TELPHER_ERR_LIMIT and breaks the stream.
 */
telpher_status tp_stream_create(struct tp_conn *conn,
                                const struct tp_session_numbers *numbers,
                                size_t tx_limit, struct tp_stream **ret_stream);
/** NULL is fine. No other thread may be inside a call. */
void tp_stream_destroy(struct tp_stream *s);

/**
 * Appends one frame to the send buffer; does no I/O.
 * @param type a message type; @p msg points to its struct (wire/messages.h), borrowed.
 * @return OK; LIMIT (see create; or frame larger than TP_WIRE_FRAME_MAX: nothing
 *         appended, stream intact); NO_MEMORY; or the status that broke the stream.
 */
telpher_status tp_stream_put(struct tp_stream *s, uint16_t type, const void *msg);
/** Holds the send lock over several puts, so that nothing gets between them. No other
 *  call on the stream than put_locked may be made while it is held. */
void tp_stream_lock(struct tp_stream *s);
telpher_status tp_stream_put_locked(struct tp_stream *s, uint16_t type,
                                    const void *msg);
void tp_stream_unlock(struct tp_stream *s);

/**
 * Sends what has gathered, as far as the connection takes it; never blocks. What is left
 * goes with the next flush. @return OK (all sent), AGAIN (some left), or broken status.
 */
telpher_status tp_stream_flush(struct tp_stream *s);
/** As tp_stream_flush, but waits for the connection until all is sent. OK, TIMEOUT or
 *  broken status. Must not be called by a thread that the peer's sending depends on: the
 *  one that receives, above all. */
telpher_status tp_stream_flush_wait(struct tp_stream *s, uint64_t deadline_ns);
/** [bytes] gathered and unsent. */
size_t tp_stream_pending(struct tp_stream *s);

enum { TP_STREAM_SEND_MAX = 4 * TP_WIRE_CHUNK_MAX }; /**< [bytes] of one send_data */
/**
 * Sends content in DATA frames without copying @p data (borrowed until return); waits for the
 * connection. Bulk streams only; not mixed with tp_stream_put from other threads.
 * @param len [bytes] 1 .. TP_STREAM_SEND_MAX
 */
telpher_status tp_stream_send_data(struct tp_stream *s, uint64_t transfer,
                                   uint64_t offset, const void *data, uint32_t len);
/**
 * As tp_stream_send_data of one frame, but never waits for the network. What the connection did not take at
 * once of a frame that was begun is kept, and @p data is free again: tp_stream_pending() is not
 * 0 then, and somebody has to flush.
 *
 * @return AGAIN: nothing of it goes, another thread or other frames are in front of it
 */
telpher_status tp_stream_offer_data(struct tp_stream *s, uint64_t transfer,
                                    uint64_t offset, const void *data, uint32_t len);

/**
 * Sends one frame and a descriptor that arrives with it (borrowed until return); waits for
 * the connection. @return OK, UNSUPPORTED (this connection passes none), or broken status
 */
telpher_status tp_stream_send_fd(struct tp_stream *s, uint16_t type, const void *msg,
                                 int fd);
/** True if descriptors can be sent and received. */
bool tp_stream_passes_fds(const struct tp_stream *s);
/** Keeps descriptors that come from now on; without this they are closed. Before the
 *  first receive. */
void tp_stream_accept_fds(struct tp_stream *s);
/** Gives the descriptor that came with the frame being handled, or -1. */
int tp_stream_take_fd(struct tp_stream *s);

/**
 * Takes what the connection has and hands complete frames over; ACK frames are for the
 * stream itself. Does not wait: returns AGAIN when there was nothing. What came in whole
 * has been handed over at return, so poll(2) on the descriptor tells of all the rest.
 *
 * After a frame of DATA was announced by data_begin the stream may break: data_end is
 * then never called, and the content is unspecified.
 *
 * @return OK (at least one byte came), AGAIN, PEER_LOST, PROTO, NO_MEMORY, or a handler's
 *         status; all but the first two break the stream: they come again from every
 *         later call. Then one GOODBYE may still be put and flushed, so that the peer
 *         learns why; tp_stream_break ends that and wakes senders who wait.
 */
telpher_status tp_stream_receive(struct tp_stream *s,
                                 const struct tp_stream_handler *handler, void *arg);
/** Sleeps until there is something to receive. OK, TIMEOUT. */
telpher_status tp_stream_wait(struct tp_stream *s, uint64_t deadline_ns);

/** Breaks the stream from any thread: wakes the receiver, fails senders with @p status. */
void tp_stream_break(struct tp_stream *s, telpher_status status);
/** Breaks it and gives back its descriptor, while no other thread uses the stream. From
 *  then on frames may be put, which go nowhere, and it may be broken and destroyed. */
void tp_stream_close(struct tp_stream *s);
/** @return OK, or what broke the stream. */
telpher_status tp_stream_status(struct tp_stream *s);
/** Writes the key of a secured session, for its further connections. @return false: it is
 *  not secured, and has none */
bool tp_stream_session_key(struct tp_stream *s, uint8_t ret_key[TP_CONN_KEY_BYTES]);
/** @return descriptor for poll(2), borrowed; -1 if there is none. */
int tp_stream_fd(struct tp_stream *s);
/** Copy of the numbers, for a hand-over. Only while nothing is in flight inside. */
struct tp_session_numbers tp_stream_numbers(struct tp_stream *s);

#endif
