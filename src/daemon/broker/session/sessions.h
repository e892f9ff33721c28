/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: from the preface to the end of the executor. */
#ifndef TELPHER_DAEMON_BROKER_SESSION_SESSIONS_H
#define TELPHER_DAEMON_BROKER_SESSION_SESSIONS_H

#include "daemon/broker/broker.h"

struct tp_broker_conn;

/** A stream from another server that an executor expects, or that this server passes on. */
struct tp_broker_pair {
    struct tp_list link; /**< session->pairs */
    uint8_t id[TP_WIRE_SESSION_BYTES]; /**< name of the pair, from its preface */
    uint8_t key[TP_WIRE_PEER_KEY_BYTES]; /**< of TLS */
    bool resumes; /**< it has one stream, which may be resumed */
    bool connected; /**< that has arrived */
    char route[TP_WIRE_ROUTE_MAX + 1]; /**< the server that follows; "" = this one */
};

/** A session, from its preface until its connection or executor ends. */
struct tp_broker_session {
    struct tp_list link; /**< broker->sessions */
    uint8_t id[TP_WIRE_SESSION_BYTES];
    struct tp_broker_watch control; /**< our end of the pair; -1 without executor */
    struct tp_broker_watch client; /**< command stream, copied: sees the client go */
    tp_ns opened;
    tp_ns gone_since; /**< the client has closed it; 0 = no */
    uint32_t share_slot, share_user; /**< in the page; slot UINT32_MAX = none */
    bool stopped; /**< a signal has stopped the executor, which then sees nothing */
    pid_t pid; /**< of the executor; 0 = none */
    struct tp_broker_peer peer; /**< the session counts against its quota */
    unsigned bulk_mask; /**< numbers of bulk streams seen */
    bool over; /**< the client has disconnected; the executor may be killed */
    bool dismissed; /**< the executor has been killed for that reason */
    bool away; /**< the connection of its client is lost; see TP_CONTROL_AWAY */
    bool resumes; /**< its streams outlive their connections */
    bool drains; /**< its client knows DRAIN */
    bool secured; /**< its command stream uses TLS */
    char who[TP_TLS_WHO_BYTES]; /**< with TLS: the key or certificate of the client */
    uint8_t key[TP_CONN_KEY_BYTES]; /**< with TLS: authenticates bulk streams */
    char text[TP_CONTROL_TEXT_BYTES]; /**< end text that the executor sent */
    struct tp_list pairs;
    size_t pair_count;
    /** Of the Unix socket's client; "" = unknown. */
    char program[TP_BROKER_PROGRAM_BYTES];
};

/**
 * Checks the session quotas for @p peer. Kills executors that only clean up if that makes
 * the session possible. @return NULL: allowed; else the reason as text
 */
const char *tp_broker_session_refusal(struct tp_broker *b,
                                      const struct tp_broker_peer *peer);
/** Creates a session with a random id. @return OK, NO_MEMORY, IO */
telpher_status tp_broker_session_open(struct tp_broker *b,
                                      const struct tp_broker_peer *peer,
                                      struct tp_broker_session **ret_session);
/** Watches the descriptors of a session that was passed on. @return OK, LIMIT */
telpher_status tp_broker_session_watch(struct tp_broker *b,
                                       struct tp_broker_session *s);
/** Frees a session that has no executor. */
void tp_broker_session_close(struct tp_broker *b, struct tp_broker_session *s);
struct tp_broker_session *tp_broker_session_find(struct tp_broker *b,
                                                 const uint8_t *id);
/**
 * Starts the executor and passes it the connection of a command stream.
 * @return OK: the caller closes its copy; else the reason in @p err
 */
telpher_status tp_broker_session_start(struct tp_broker *b, struct tp_broker_conn *c,
                                       struct tp_error *err);
/** Passes a bulk stream, or one of another server, to a running executor. */
telpher_status tp_broker_session_bulk(struct tp_broker_session *s,
                                      struct tp_broker_conn *c);
/**
 * Passes the connection of a stream that is resumed to its executor, which sends
 * @p reply. @return OK: the caller closes its copy; AGAIN, PEER_LOST
 */
telpher_status tp_broker_session_resume(struct tp_broker *b,
                                        struct tp_broker_session *s,
                                        struct tp_broker_conn *c,
                                        const struct tp_wire_preface_reply *reply);
/** Notes that a stream of another server may come. The oldest one makes room.
 *  @param pair copied; without a link */
telpher_status tp_broker_pair_expect(struct tp_broker_session *s,
                                     const struct tp_broker_pair *pair);
/** Finds the session that expects a stream of this pair. @return NULL: none does */
struct tp_broker_session *tp_broker_pair_find(struct tp_broker *b, const uint8_t *id,
                                              struct tp_broker_pair **ret_pair);
/** Finds the end text of an ended session. @return NULL: not kept */
const struct tp_broker_ending *tp_broker_ending_find(struct tp_broker *b,
                                                     const uint8_t *id);
/** Ends executors that are stopped and whose client has gone. @return the next deadline */
tp_ns tp_broker_sessions_tick(struct tp_broker *b, tp_ns now);
/** Reaps children that have ended. */
void tp_broker_reap(struct tp_broker *b);
/** Ends all executors: closes their control sockets, then sends SIGKILL. */
void tp_broker_sessions_end(struct tp_broker *b);

#endif
