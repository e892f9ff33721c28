/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker: accepts, reads prefaces, answers what needs no driver, and hands sockets to
 * executors. One thread, nothing blocks, no driver is ever loaded here.
 *
 *   broker.c   the loop, signals, listeners        connection.c     one connection
 *   sessions.c sessions, their ends, last words    spawn.c    starting executors
 *   probe.c    asking an executor for the facts   client_user.c     who connected
 *   listen.c   addresses, and who is let in there handshakes.c     processes that do handshakes
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
#include "daemon/broker/options.h"
#include "daemon/control.h"
#include "wire/messages.h"

enum {
    TP_BROKER_LISTENERS_MAX = 32,
    TP_BROKER_MESSAGES_MAX = 16, /**< of an executor in a row: others wait, too */
    TP_BROKER_WORDS_MAX = 64, /**< ended sessions whose last words are kept */
};

struct tp_broker;

/** A descriptor in the loop. */
struct tp_broker_watch {
    int fd; /**< -1 = not in the loop */
    void (*ready)(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events);
};

/** Who connected: a user of the Unix socket, or an address. */
struct tp_broker_peer {
    uint32_t kind; /**< AF_UNIX, AF_INET, AF_INET6; 0 = unknown */
    uint8_t name[12]; /**< user id, v4 address, or network of a v6 address */
};

struct tp_broker_listener {
    struct tp_broker_watch watch;
    bool wants_cookie;
    bool wants_tls;
    char path[108]; /**< of a Unix socket, to be removed; "" = TCP */
};

struct tp_broker_conn;

/** A process that does the TLS handshake of one connection. */
struct tp_broker_door {
    struct tp_list link; /**< broker->doors, until the process has ended */
    struct tp_broker_watch control; /**< our end of the pair */
    pid_t pid;
    struct tp_broker_conn *conn; /**< NULL: it is gone, or has its answer */
};

/** How an ended session ended. */
struct tp_broker_words {
    uint8_t session[TP_WIRE_SESSION_BYTES];
    char text[TP_CONTROL_TEXT_BYTES]; /**< "" = as it should */
};

/** A run of the executor that asks the drivers. */
struct tp_broker_probe {
    struct tp_broker_watch out; /**< its standard output */
    struct tp_buf facts; /**< what came so far */
    pid_t pid; /**< 0 = none runs */
    tp_ns deadline;
    bool killed;
};

struct tp_broker {
    const struct tp_daemon_options *options;
    char executor[1024]; /**< path of the program */
    char handshaker[1024]; /**< likewise */
    char default_key[1024]; /**< shared keys, if none were named; "" = none */
    struct tp_secure_files files; /**< for TLS */
    bool files_checked;
    uint8_t cookie[TP_WIRE_COOKIE_BYTES];
    int epoll_fd;
    struct tp_broker_watch signals;
    struct tp_broker_listener listeners[TP_BROKER_LISTENERS_MAX];
    size_t listener_count;
    struct tp_list conns;
    size_t stranger_count;
    struct tp_list doors;
    size_t shaking_count; /**< connections whose handshake is under way */
    struct tp_list sessions;
    size_t session_count;
    struct tp_broker_words words[TP_BROKER_WORDS_MAX]; /**< a ring */
    size_t words_count; /**< ever noted */
    struct tp_broker_probe probe;
    struct tp_buf facts;
    uint32_t platform_count, device_count;
    bool stopping;
};

/** A session: from its preface until its connection or its executor has ended. */
struct tp_broker_session {
    struct tp_list link; /**< broker->sessions */
    uint8_t id[TP_WIRE_SESSION_BYTES];
    struct tp_broker_watch control; /**< our end of the pair; -1 without executor */
    pid_t pid; /**< of the executor; 0 = none */
    struct tp_broker_peer peer; /**< whose quota it counts for */
    unsigned bulk_mask; /**< numbers of bulk streams seen */
    bool over; /**< the client has gone, and the executor may be ended at any time */
    bool dismissed; /**< which has been done */
    bool secured; /**< its command stream goes through TLS */
    char who[TP_TLS_WHO_BYTES]; /**< then: the key or certificate that let it in */
    uint8_t key[TP_CONN_KEY_BYTES]; /**< then: what its bulk streams must know */
    char text[TP_CONTROL_TEXT_BYTES]; /**< last words that the executor sent */
};

enum tp_broker_conn_state {
    TP_BROKER_PREFACE, /**< its preface is awaited */
    TP_BROKER_AUTH, /**< its credentials are awaited */
    TP_BROKER_KNOCK, /**< the first byte of a TLS handshake is awaited */
    TP_BROKER_SHAKING, /**< the handshake is under way, in a process of its own */
    TP_BROKER_HEADER, /**< command stream: a frame header is awaited */
    TP_BROKER_BODY, /**< command stream: a frame body is awaited */
    TP_BROKER_HELD, /**< bulk stream that waits for its session's START */
    TP_BROKER_CLOSING, /**< only what is in `out` still goes */
};

/** A connection that is still the broker's. */
struct tp_broker_conn {
    struct tp_broker_watch watch;
    struct tp_list link; /**< broker->conns */
    enum tp_broker_conn_state state;
    bool wants_cookie, wants_tls;
    struct tp_broker_door *door; /**< SHAKING: who does it */
    struct tp_conn *tls; /**< the secured connection; NULL = plain */
    char who[TP_TLS_WHO_BYTES]; /**< with TLS: the key or certificate of the client */
    uint8_t
        clear[TP_WIRE_PREFACE_BYTES]; /**< with TLS: the preface that was in clear */
    bool start_pending; /**< START came; it is done when `out` has gone */
    uint32_t platform; /**< of that START */
    tp_ns deadline; /**< TP_CLOCK_FOREVER = none */
    tp_ns stalled; /**< the same for the frame or the answer under way */
    struct tp_broker_peer peer;
    struct tp_wire_preface preface;
    struct tp_wire_header header;
    struct tp_session_numbers numbers;
    struct tp_broker_session *session; /**< command: owned; bulk: that it waits for */
    struct tp_broker_session *words_of; /**< whose end a LAST_WORDS waits for */
    uint64_t words_request;
    uint8_t *in; /**< of capacity in_need */
    size_t in_have, in_need;
    struct tp_buf out;
};

/** Runs the daemon until a signal ends it. @return exit status for main */
int tp_broker_run(const struct tp_daemon_options *options);

/** Asks the system who is at the other end. */
void tp_broker_peer_of(int fd, struct tp_broker_peer *ret_peer);
bool tp_broker_peer_equal(const struct tp_broker_peer *a,
                          const struct tp_broker_peer *b);

telpher_status tp_broker_watch_add(struct tp_broker *b, struct tp_broker_watch *w,
                                   uint32_t events);
void tp_broker_watch_change(struct tp_broker *b, struct tp_broker_watch *w,
                            uint32_t events);
/** Takes it out of the loop and closes the descriptor; fine if it is in none. */
void tp_broker_watch_close(struct tp_broker *b, struct tp_broker_watch *w);

/** Takes over an accepted descriptor. */
void tp_broker_conn_open(struct tp_broker *b, int fd,
                         const struct tp_broker_listener *l);
/** The handshake is over: @p status and @p state are its outcome. May free @p c. */
void tp_broker_conn_shaken(struct tp_broker *b, struct tp_broker_conn *c,
                           telpher_status status, const struct tp_tls_state *state);
/** Closes and frees; a session without executor ends with its command stream. */
void tp_broker_conn_close(struct tp_broker *b, struct tp_broker_conn *c);
/** What has to be done because of the time; @return the next point that matters. */
tp_ns tp_broker_conns_tick(struct tp_broker *b, tp_ns now);
/** Answers those who asked how @p s ended. */
void tp_broker_conns_words(struct tp_broker *b, struct tp_broker_session *s,
                           const char *text);
/** Hands over the bulk streams that waited for the START of @p s. */
void tp_broker_conns_started(struct tp_broker *b, struct tp_broker_session *s);
/** Closes the bulk streams that wait for @p s, which will not start. */
void tp_broker_conns_forget(struct tp_broker *b, struct tp_broker_session *s);

/**
 * Why @p peer may have no further session, in words; NULL: it may. Executors that only
 * tidy up behind their clients give way.
 */
const char *tp_broker_session_refusal(struct tp_broker *b,
                                      const struct tp_broker_peer *peer);
/** Makes a session with a random id. @return OK, NO_MEMORY, IO */
telpher_status tp_broker_session_open(struct tp_broker *b,
                                      const struct tp_broker_peer *peer,
                                      struct tp_broker_session **ret_session);
/** Frees a session that has no executor. */
void tp_broker_session_close(struct tp_broker *b, struct tp_broker_session *s);
struct tp_broker_session *tp_broker_session_find(struct tp_broker *b,
                                                 const uint8_t *id);
/**
 * Starts the executor and gives it the connection of a command stream.
 * @return OK: the caller closes its copy; else why not, in words in @p err
 */
telpher_status tp_broker_session_start(struct tp_broker *b, struct tp_broker_conn *c,
                                       struct tp_error *err);
/** Gives a running executor a bulk stream. */
telpher_status tp_broker_session_bulk(struct tp_broker_session *s,
                                      struct tp_broker_conn *c);
/** Last words of an ended session, or NULL. */
const struct tp_broker_words *tp_broker_words_find(struct tp_broker *b,
                                                   const uint8_t *id);
/** Collects children that have ended. */
void tp_broker_reap(struct tp_broker *b);
/** Ends all executors: first by closing their control sockets, then by SIGKILL. */
void tp_broker_sessions_end(struct tp_broker *b);

/** A listening descriptor is ready: accepts. */
void tp_broker_accept(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events);
/** Opens all listeners that the options name. @return OK; else why not, in @p err */
telpher_status tp_broker_listen_all(struct tp_broker *b, struct tp_error *err);

/**
 * Starts a process for the handshake of @p c, whose preface has come.
 * @param session_key of the session that a bulk stream joins, else NULL
 */
telpher_status tp_broker_door_open(struct tp_broker *b, struct tp_broker_conn *c,
                                   const uint8_t *session_key);
/** Ends the handshake of a connection that goes away. */
void tp_broker_door_leave(struct tp_broker *b, struct tp_broker_conn *c);
/** Collects processes of handshakes that have ended. */
void tp_broker_doors_reap(struct tp_broker *b);
/** Ends them all. */
void tp_broker_doors_end(struct tp_broker *b);
/** Starts the handshake program; @p fd becomes TP_CONTROL_FD. */
telpher_status tp_broker_spawn_door(struct tp_broker *b, int fd, pid_t *ret_pid,
                                    struct tp_error *err);

/**
 * Starts the executor program.
 * @param probe true: with --probe, and @p fd becomes its standard output; else @p fd
 *              becomes TP_CONTROL_FD
 * @return OK; IO and why in @p err
 */
telpher_status tp_broker_spawn(struct tp_broker *b, bool probe, int fd, pid_t *ret_pid,
                               struct tp_error *err);
/** Finds the executor and the handshake program. */
void tp_broker_find_programs(struct tp_broker *b);
/** "killed by signal 11 (Segmentation fault)" or "ended with status 1"; "" for 0. */
void tp_broker_describe_end(int wait_status, char *dst, size_t size);

/** Starts asking; the facts are replaced when the answer is complete. */
void tp_broker_probe_start(struct tp_broker *b);
/** The probing process has ended; @p wait_status as of waitpid. */
void tp_broker_probe_ended(struct tp_broker *b, int wait_status);
/** Ends a probe that takes too long. @return when to look again */
tp_ns tp_broker_probe_tick(struct tp_broker *b, tp_ns now);
void tp_broker_probe_stop(struct tp_broker *b);

#endif
