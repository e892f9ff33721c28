/* SPDX-License-Identifier: Apache-2.0 */
/* Internal interface of connection.c, connection_preface.c and connection_frames.c. */
#ifndef TELPHER_DAEMON_BROKER_CONNECTION_H
#define TELPHER_DAEMON_BROKER_CONNECTION_H

#include "daemon/broker/broker.h"

/* ---- connection.c ---- */

/** True while the connection counts as unauthenticated. */
bool tp_broker_conn_is_unauthenticated(const struct tp_broker_conn *c);
/** Enters @p state, which waits for @p need bytes. @return false: no memory */
bool tp_broker_conn_expect(struct tp_broker_conn *c, enum tp_broker_conn_state state,
                           size_t need);
/**
 * Adds a connection that was passed on, which takes the descriptor of @p saved.
 * @param s     its session; a bulk stream waits for it.
 * @param tls   state of its records, after @p rest; suite 0: it has none.
 * @return OK; NO_MEMORY, LIMIT, UNSUPPORTED: the caller closes the descriptor
 */
telpher_status tp_broker_conn_restore(struct tp_broker *b,
                                      const struct tp_broker_conn *saved,
                                      struct tp_broker_session *s,
                                      const struct tp_tls_state *tls, const void *rest,
                                      size_t rest_len);
/** Appends a frame with @p msg, a wire struct, to c->out. @return false: no memory */
bool tp_broker_conn_put_frame(struct tp_broker_conn *c, uint16_t type, const void *msg);
/** Enters CLOSING: sends the rest of c->out, then closes. */
void tp_broker_conn_begin_close(struct tp_broker *b, struct tp_broker_conn *c);
/** Sends GOODBYE with the reason and enters CLOSING. @return false: close at once */
bool tp_broker_conn_goodbye(struct tp_broker *b, struct tp_broker_conn *c,
                            telpher_status status, const char *text);

/* ---- input handlers: c->in holds the expected bytes; false = close the connection ---- */

/** connection_preface.c */
bool tp_broker_conn_take_preface(struct tp_broker *b, struct tp_broker_conn *c);
bool tp_broker_conn_take_nonce(struct tp_broker *b, struct tp_broker_conn *c);
bool tp_broker_conn_take_proof(struct tp_broker *b, struct tp_broker_conn *c);
/** Starts a handshake process once the first byte of a handshake is received. */
bool tp_broker_conn_start_handshake(struct tp_broker *b, struct tp_broker_conn *c);

/** connection_frames.c */
bool tp_broker_conn_take_header(struct tp_broker *b, struct tp_broker_conn *c);
bool tp_broker_conn_take_body(struct tp_broker *b, struct tp_broker_conn *c);
/** Waits for the next frame. */
bool tp_broker_conn_next_frame(struct tp_broker_conn *c);
/** Executes START, once all answers before it have been sent. */
bool tp_broker_conn_hand_over(struct tp_broker *b, struct tp_broker_conn *c);
/** Answers LAST_WORDS. @return false: no memory */
bool tp_broker_conn_put_last_words(struct tp_broker_conn *c, uint64_t request,
                                   telpher_status status, const char *text);

/** Sends what is queued; what follows has checksums. @return false: close it */
bool tp_broker_conn_add_checksums(struct tp_broker_conn *c);

#endif
