/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker accepts connections, reads prefaces, answers requests that need no driver,
 * and passes sockets to executors. It has one thread, never blocks, and loads no driver.
 * README.md lists the files.
 */
#ifndef TELPHER_DAEMON_BROKER_BROKER_H
#define TELPHER_DAEMON_BROKER_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/container/buf.h"
#include "base/container/list.h"
#include "base/os/clock.h"
#include "core/session/proof.h"
#include "daemon/broker/options.h"
#include "daemon/control.h"
#include "daemon/share.h"
#include "wire/messages.h"

enum {
    TP_BROKER_LISTENERS_MAX = 32,
    TP_BROKER_MESSAGES_MAX = 16, /**< messages of one executor in a row, for fairness */
    TP_BROKER_ENDINGS_MAX = 64, /**< ended sessions whose end text is kept */
    TP_BROKER_PROGRAM_BYTES = 32, /**< of a program's name */
    TP_BROKER_PAIRS_MAX = 512, /**< pairs with servers, and exports, of a session */
};

struct tp_broker;

/** A descriptor in the event loop. */
struct tp_broker_watch {
    int fd; /**< -1 = not in the loop */
    void (*ready)(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events);
};

/** Identity of a client: a user of the Unix socket, or an address. */
struct tp_broker_peer {
    uint32_t kind; /**< AF_UNIX, AF_INET, AF_INET6; 0 = unknown */
    uint8_t name[12]; /**< user id, v4 address, or network of a v6 address */
};

struct tp_broker_listener {
    struct tp_broker_watch watch;
    bool wants_cookie, wants_tls;
    char path[108]; /**< of a Unix socket, to be unlinked; "" = TCP */
    char address[300]; /**< as the settings name it */
};

struct tp_broker_conn;

/** A process for one connection: does its TLS handshake, or relays it. */
struct tp_broker_handshake {
    struct tp_list link; /**< broker->handshakes, until the process has ended */
    struct tp_broker_watch control; /**< our end of the pair; -1 for a relay */
    pid_t pid;
    bool relays;
    struct tp_broker_conn *conn; /**< NULL: closed, has its result, or is relayed */
};

/** End text of an ended session. */
struct tp_broker_ending {
    uint8_t session[TP_WIRE_SESSION_BYTES];
    char text[TP_CONTROL_TEXT_BYTES]; /**< "" = an orderly end */
};

/** A run of the executor with --probe, which queries the drivers. */
struct tp_broker_probe {
    struct tp_broker_watch out; /**< its standard output */
    struct tp_buf facts; /**< received so far */
    pid_t pid; /**< 0 = none runs */
    tp_ns deadline;
    bool killed;
};

struct tp_broker {
    const struct tp_daemon_options *options;
    char executor[1024]; /**< path of the program */
    char handshaker[1024]; /**< path of the handshake program */
    char self[1024]; /**< path of this program */
    char relay[1024]; /**< path of the relay program */
    char default_key[1024]; /**< shared keys, if no option names any; "" = none */
    struct tp_secure_files files; /**< for TLS */
    bool files_checked;
    uint8_t cookie[TP_WIRE_COOKIE_BYTES];
    int cookie_fd; /**< locks its file; 0 = none */
    int epoll_fd;
    struct tp_broker_watch signals;
    struct tp_broker_listener listeners[TP_BROKER_LISTENERS_MAX];
    size_t listener_count;
    struct tp_broker_listener inherited[TP_BROKER_LISTENERS_MAX];
    size_t inherited_count; /**< listeners of the program before; fd -1 = taken */
    struct tp_list requests; /**< connections of control socket and metrics */
    struct tp_broker_totals *totals; /**< of users, for the metrics; NULL: none yet */
    struct tp_list conns;
    size_t unauthenticated_count; /**< unauthenticated connections */
    struct tp_list handshakes; /**< handshake processes and relays */
    size_t relay_count; /**< of them, relays */
    size_t shaking_count; /**< connections whose handshake is under way */
    struct tp_list sessions;
    size_t session_count;
    struct tp_broker_ending endings[TP_BROKER_ENDINGS_MAX]; /**< a ring */
    size_t ending_count; /**< entries ever written */
    struct tp_broker_probe probe;
    struct tp_share share; /**< page of device time; slots NULL: there is none */
    int share_fd; /**< 0 = none */
    struct tp_buf facts;
    uint32_t platform_count, device_count;
    tp_ns
        drain_until; /**< sessions may end by themselves until then; 0 = not draining */
    pid_t reload_pid; /**< checks whether the next program can take over; 0 = none */
    tp_ns reload_until; /**< it takes over then at the latest; 0 = no */
    bool stopping;
};

/** A stream from another server that an executor expects. */
struct tp_broker_pair {
    struct tp_list link; /**< session->pairs */
    uint8_t id[TP_WIRE_SESSION_BYTES]; /**< name of the pair, from its preface */
    uint8_t key[TP_WIRE_PEER_KEY_BYTES]; /**< of TLS */
    bool resumes; /**< it has one stream, which may be resumed */
    bool connected; /**< that has arrived */
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
    struct tp_broker_handshake *handshake; /**< SHAKING: the handshake process */
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
    struct tp_broker_session *asks_end_of; /**< for LAST_WORDS */
    uint64_t end_request;
    uint8_t *in; /**< buffer of in_need bytes */
    size_t in_have, in_need;
    struct tp_buf out;
};

/** Runs the daemon until a signal ends it. @return exit status for main */
int tp_broker_run(const struct tp_daemon_options *options);

/** Gets the identity of the peer from the kernel. */
void tp_broker_peer_of(int fd, struct tp_broker_peer *ret_peer);
bool tp_broker_peer_equal(const struct tp_broker_peer *a,
                          const struct tp_broker_peer *b);

telpher_status tp_broker_watch_add(struct tp_broker *b, struct tp_broker_watch *w,
                                   uint32_t events);
void tp_broker_watch_change(struct tp_broker *b, struct tp_broker_watch *w,
                            uint32_t events);
/** Removes @p w from the loop and closes the descriptor; does nothing if fd is -1. */
void tp_broker_watch_close(struct tp_broker *b, struct tp_broker_watch *w);

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
/** Answers the LAST_WORDS requests for @p s with @p text. */
void tp_broker_conns_report_end(struct tp_broker *b, struct tp_broker_session *s,
                                const char *text);
/** Passes the bulk streams that wait for the START of @p s to its executor. */
void tp_broker_conns_started(struct tp_broker *b, struct tp_broker_session *s);
/** Closes the bulk streams that wait for @p s, which will not start. */
void tp_broker_conns_forget(struct tp_broker *b, struct tp_broker_session *s);

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
/** Sends a message with a connection and its state. Statuses as tp_control_send(). */
telpher_status tp_broker_conn_send(int fd, struct tp_control *msg,
                                   struct tp_broker_conn *c);
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

#define TP_BROKER_DRAIN_TEXT "the server is shutting down and takes no new sessions"

/**
 * Ends the daemon once all sessions have ended, or --drain-timeout has passed. Sends DRAIN to
 * clients. A second call ends it at once.
 */
void tp_broker_drain(struct tp_broker *b);
/** Ends a daemon that drains, if that is done. @return the time of the next check */
tp_ns tp_broker_drain_tick(struct tp_broker *b, tp_ns now);
/** Sends GOODBYE to sessions that have no executor. */
void tp_broker_conns_dismiss(struct tp_broker *b, const char *text);

/** Starts telpher-relay, which takes over @p c. @return OK: the caller closes its copy */
telpher_status tp_broker_relay_start(struct tp_broker *b, struct tp_broker_conn *c);

/** Adds a relay process that was passed on. @return OK, NO_MEMORY */
telpher_status tp_broker_relay_restore(struct tp_broker *b, pid_t pid);

/** Accepts connections of a listening descriptor that is ready. */
void tp_broker_accept(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events);
/** Opens all listeners that the options name. @return OK; else the reason in @p err */
telpher_status tp_broker_listen_all(struct tp_broker *b, struct tp_error *err);

/**
 * Starts a process for the handshake of @p c, whose preface has been received.
 * @param session_key key of the session that a bulk stream joins, else NULL
 */
telpher_status tp_broker_handshake_start(struct tp_broker *b, struct tp_broker_conn *c,
                                         const uint8_t *session_key);
/** Detaches a connection that closes from its handshake process. */
void tp_broker_handshake_cancel(struct tp_broker *b, struct tp_broker_conn *c);
/** Reaps handshake processes that have ended. */
void tp_broker_handshakes_reap(struct tp_broker *b);
/** Kills all handshake processes, and relays if @p relays. */
void tp_broker_handshakes_end(struct tp_broker *b, bool relays);
/** Starts the handshake program; @p fd becomes TP_CONTROL_FD. */
telpher_status tp_broker_spawn_handshake(struct tp_broker *b, int fd, pid_t *ret_pid,
                                         struct tp_error *err);
/** Starts the relay program; @p fd becomes TP_CONTROL_FD. */
telpher_status tp_broker_spawn_relay(struct tp_broker *b, int fd, pid_t *ret_pid,
                                     struct tp_error *err);

/**
 * Starts the executor program.
 * @param s  NULL: with --probe, and @p fd becomes its standard output; else @p fd becomes
 *           TP_CONTROL_FD
 * @return OK; IO, with the reason in @p err
 */
telpher_status tp_broker_spawn(struct tp_broker *b, const struct tp_broker_session *s,
                               int fd, pid_t *ret_pid, struct tp_error *err);
/** Starts this program, with @p argv, which it frees; @p fd becomes TP_CONTROL_FD. */
telpher_status tp_broker_spawn_self(struct tp_broker *b, const char **argv, int fd,
                                    pid_t *ret_pid, struct tp_error *err);
/** Finds the paths of this program, the executor and the handshake program. */
void tp_broker_find_programs(struct tp_broker *b);
/** "killed by signal 11 (Segmentation fault)" or "ended with status 1"; "" for 0. */
void tp_broker_describe_end(int wait_status, char *dst, size_t size);

/** Starts a probe; replaces the facts once its output is complete. */
void tp_broker_probe_start(struct tp_broker *b);
/** Handles the end of the probe process; @p wait_status as of waitpid. */
void tp_broker_probe_ended(struct tp_broker *b, int wait_status);
/** Kills a probe that exceeds its time limit. @return the time of the next check */
tp_ns tp_broker_probe_tick(struct tp_broker *b, tp_ns now);
void tp_broker_probe_stop(struct tp_broker *b);

#endif
