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
    struct tp_list helpers; /**< handshake processes and relays */
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

/** Accepts connections of a listening descriptor that is ready. */
void tp_broker_accept(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events);
/** Opens all listeners that the options name. @return OK; else the reason in @p err */
telpher_status tp_broker_listen_all(struct tp_broker *b, struct tp_error *err);

#endif
