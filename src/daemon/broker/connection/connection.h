/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that the broker still owns. */
#ifndef TELPHER_DAEMON_BROKER_CONNECTION_CONNECTION_H
#define TELPHER_DAEMON_BROKER_CONNECTION_CONNECTION_H

#include "core/session/proof.h"
#include "daemon/broker/broker.h"

struct tp_broker_helper;
struct tp_broker_session;

enum tp_broker_conn_state {
    TP_BROKER_PREFACE, /**< waits for the preface */
    TP_BROKER_NONCE, /**< loopback TCP: waits for the client's random number */
    TP_BROKER_PROOF, /**< loopback TCP: waits for the client's proof */
    TP_BROKER_AWAIT_HELLO, /**< waits for the first byte of a TLS handshake */
    TP_BROKER_SHAKING, /**< a handshake process does the TLS handshake */
    TP_BROKER_HEADER, /**< command stream: waits for a frame header */
    TP_BROKER_BODY, /**< command stream: waits for a frame body */
    TP_BROKER_HELD, /**< bulk stream: waits for the START of its session */
    TP_BROKER_CLOSING, /**< sends the rest of `out`, then closes */
};

/** A connection that the broker still owns. */
struct tp_broker_conn {
    struct tp_broker_watch watch;
    struct tp_list link; /**< broker->conns */
    enum tp_broker_conn_state state;
    bool wants_cookie, wants_tls;
    struct tp_broker_helper *handshake; /**< SHAKING: the handshake process */
    struct tp_conn *tls; /**< the connection with TLS or checksums; NULL = plain */
    char who[TP_TLS_WHO_BYTES]; /**< with TLS: the key or certificate of the client */
    uint8_t clear[TP_WIRE_PREFACE_BYTES]; /**< with TLS: preface received in clear */
    bool resumes; /**< of another server: its stream outlives the connection */
    bool start_pending; /**< START was received; it is executed once `out` is sent */
    uint32_t platform; /**< of that START */
    tp_ns deadline; /**< TP_CLOCK_FOREVER = none */
    tp_ns stalled; /**< deadline of the frame or the answer under way */
    struct tp_broker_peer peer;
    struct tp_wire_preface preface;
    char *route; /**< address to pass the connection on to; NULL = this server */
    struct tp_proof_input proof_input; /**< NONCE, PROOF: what proofs cover */
    struct tp_wire_header header;
    struct tp_session_numbers numbers;
    struct tp_broker_session *session; /**< command: owned; bulk: waits for it */
    struct tp_broker_session *asks_end_of; /**< for END_REASON */
    uint64_t end_request;
    uint8_t *in; /**< buffer of in_need bytes */
    size_t in_have, in_need;
    struct tp_buf out;
};

/** Takes ownership of an accepted descriptor. */
void tp_broker_conn_open(struct tp_broker *b, int fd,
                         const struct tp_broker_listener *l);
/** Continues @p c with the result of its handshake. May free @p c. */
void tp_broker_conn_shaken(struct tp_broker *b, struct tp_broker_conn *c,
                           telpher_status status, const struct tp_tls_state *state);
/** Closes and frees @p c. A session without executor ends with its command stream. */
void tp_broker_conn_close(struct tp_broker *b, struct tp_broker_conn *c);
/** Handles deadlines of connections that have passed. @return the next deadline */
tp_ns tp_broker_conns_tick(struct tp_broker *b, tp_ns now);
/** Answers the END_REASON requests for @p s with @p text. */
void tp_broker_conns_report_end(struct tp_broker *b, struct tp_broker_session *s,
                                const char *text);
/** Passes the bulk streams that wait for the START of @p s to its executor. */
void tp_broker_conns_started(struct tp_broker *b, struct tp_broker_session *s);
/** Closes the bulk streams that wait for @p s, which will not start. */
void tp_broker_conns_forget(struct tp_broker *b, struct tp_broker_session *s);
/** Sends CLOSE to sessions that have no executor. */
void tp_broker_conns_dismiss(struct tp_broker *b, const char *text);
/** Sends a message with a connection and its state. Statuses as tp_control_send(). */
telpher_status tp_broker_conn_send(int fd, struct tp_control *msg,
                                   struct tp_broker_conn *c);

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
/** Sends CLOSE with the reason and enters CLOSING. @return false: close at once */
bool tp_broker_conn_send_close(struct tp_broker *b, struct tp_broker_conn *c,
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
/** Answers END_REASON. @return false: no memory */
bool tp_broker_conn_put_end_reason(struct tp_broker_conn *c, uint64_t request,
                                   telpher_status status, const char *text);

/** Sends what is queued; what follows has checksums. @return false: close it */
bool tp_broker_conn_add_checksums(struct tp_broker_conn *c);

#endif
