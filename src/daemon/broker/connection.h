/* SPDX-License-Identifier: Apache-2.0 */
/* What connection.c, connection_preface.c and connection_frames.c share. The broker's one thread calls it. */
#ifndef TELPHER_DAEMON_BROKER_CONNECTION_H
#define TELPHER_DAEMON_BROKER_CONNECTION_H

#include "daemon/broker/broker.h"

/* ---- connection.c ---- */

/** True while it counts among those that have shown nothing yet. */
bool tp_broker_conn_is_stranger(const struct tp_broker_conn *c);
/** Asks for the next @p need bytes, in state @p state. @return false: no memory */
bool tp_broker_conn_expect(struct tp_broker_conn *c, enum tp_broker_conn_state state,
                           size_t need);
/** Appends a message, a struct of the wire, to what goes out. @return false: no memory */
bool tp_broker_conn_put_frame(struct tp_broker_conn *c, uint16_t type, const void *msg);
/** From now on only what waits still goes out. */
void tp_broker_conn_begin_close(struct tp_broker *b, struct tp_broker_conn *c);
/** Says why, and begins to close. @return false: no memory, close at once */
bool tp_broker_conn_goodbye(struct tp_broker *b, struct tp_broker_conn *c,
                            telpher_status status, const char *text);

/* ---- what came: c->in holds the bytes asked for; false = close the connection ---- */

/** connection_preface.c */
bool tp_broker_conn_take_preface(struct tp_broker *b, struct tp_broker_conn *c);
bool tp_broker_conn_take_auth(struct tp_broker *b, struct tp_broker_conn *c);
/** A handshake has begun to arrive: starts the process for it. */
bool tp_broker_conn_open_door(struct tp_broker *b, struct tp_broker_conn *c);

/** connection_frames.c */
bool tp_broker_conn_take_header(struct tp_broker *b, struct tp_broker_conn *c);
bool tp_broker_conn_take_body(struct tp_broker *b, struct tp_broker_conn *c);
/** A frame has been dealt with: on to the next. */
bool tp_broker_conn_next_frame(struct tp_broker_conn *c);
/** START, once all answers before it have gone. */
bool tp_broker_conn_hand_over(struct tp_broker *b, struct tp_broker_conn *c);
/** Answers LAST_WORDS. @return false: no memory */
bool tp_broker_conn_put_words(struct tp_broker_conn *c, uint64_t request,
                              telpher_status status, const char *text);

#endif
