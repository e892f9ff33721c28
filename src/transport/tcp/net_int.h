/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks over TCP: docs/comm.md section 4.
 *
 *   net.c        the table; peers
 *   net_card.c   where a rank listens, and which of its addresses to try
 *   net_conn.c   connections: made, accepted, greeted, lost
 *   net_frames.c frames out
 *   net_receive.c frames in
 *   net_watch.c  machines that vanish without a word
 *
 * Two ranks share a connection. If both made one at the same moment the lower rank's stays: the
 * higher one sends nothing but its hello before the lower one has said which it is.
 */
#ifndef TELPHER_TRANSPORT_TCP_NET_INT_H
#define TELPHER_TRANSPORT_TCP_NET_INT_H

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/container/buf.h"
#include "base/container/list.h"
#include "transport/tcp/net.h"

enum {
    TP_TCP_EAGER = 64 << 10, /* [bytes] of an eager message */
    TP_TCP_OUT_MAX = 1 << 20, /* [bytes] that wait for the socket before AGAIN */
    TP_TCP_ADDRESSES = 8, /* of one card */
    TP_TCP_FIRST = 64 << 10, /* [bytes] of rendezvous data that go with an RTS */
};

/** To make a connection, at least: the kernel asks again after 1 s. */
#define TP_TCP_ASK_TIME (3 * TP_CLOCK_S)

/** What a frame begins with. */
struct tp_tcp_frame {
    uint8_t type; /**< enum tp_tcp_frame_type */
    uint8_t header_len; /**< [bytes]; EAGER and CONTROL */
    uint16_t unused;
    uint32_t id; /**< DATA */
    uint64_t len; /**< [bytes] of data after the header */
};
_Static_assert(sizeof(struct tp_tcp_frame) == 16, "frozen wire layout");

enum tp_tcp_frame_type {
    TP_TCP_EAGER_FRAME = 1,
    TP_TCP_CONTROL_FRAME, /* the engine's frame as a header; data of id 0 */
    TP_TCP_DATA_FRAME, /* of rendezvous */
    TP_TCP_YOURS_FRAME, /* to the higher rank: use the connection that you made */
    TP_TCP_MINE_FRAME, /* to the higher rank: one that I make will come instead */
};

/** The first bytes of who connects. */
struct tp_tcp_hello {
    uint8_t magic[8];
    uint64_t job;
    uint32_t from, to;
};
#define TP_TCP_HELLO_MAGIC "TELPNET1"

union tp_tcp_sockaddr {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

struct tcp_conn;

struct tcp_peer {
    uint32_t rank;
    struct tcp_net *net;
    struct tcp_conn *conn; /* for sending; NULL before the first */
    bool accepted; /* its connection; another is a stranger's */
    bool lost; /* nothing more goes; what came before is read when that is told */
    bool gone; /* told */
    telpher_status why;
    struct tp_list losing; /* of net->losing */
    union tp_tcp_sockaddr addresses[TP_TCP_ADDRESSES]; /* to try */
    unsigned address_count, tried;
};

/** A data frame that is on its way out; the engine's memory. */
struct tcp_part {
    struct tp_tcp_frame frame;
    size_t head_left; /* [bytes] of the frame */
    const uint8_t *src;
    size_t left; /* [bytes] of data; with head_left: 0 = none is under way */
    void *arg; /* of write_data() */
};

struct tcp_conn {
    struct tp_list link; /* of net->conns */
    struct tcp_net *net;
    struct tcp_peer *peer; /* NULL: accepted, and has not said who it is */
    int fd;
    bool connecting, watches_out, dead;
    bool mute; /* nothing goes out any more; what came is read, to the end */
    bool held; /* we made it, and wait for the lower rank's YOURS before we send */
    tp_ns deadline; /* to be made, then for the hello */
    union tp_tcp_sockaddr address; /* of the peer */
    bool remote; /* on another machine, or in another network name space */
    unsigned quiet; /* looks since something came, up to those that count */
    unsigned stuck; /* looks for which the peer has had no room for more */
    int probe_fd; /* a second way to a machine that is stuck; -1: none */
    tp_ns probe_since;
    struct tp_buf out; /* frames that wait for the socket */
    struct tcp_part part;
    bool flushing;
    uint8_t *in; /* TP_TCP_IN bytes */
    size_t in_start, in_end;
    uint32_t into_id; /* of the rendezvous data that comes */
    size_t into_left; /* 0: none does */
    bool bulky; /* rendezvous data comes rather than large eager messages */
};

struct tcp_net {
    struct tp_net base;
    struct tp_net_params params;
    int listen_fd, epoll_fd;
    int spare_fd; /* to put out who cannot be let in */
    bool starved; /* that happened */
    uint16_t port;
    uint64_t place; /* machine and network namespace: where loopback is the same */
    struct tcp_peer **peers; /* by rank */
    struct tp_list conns, losing;
    size_t conn_count, strangers;
    size_t remotes; /* connections to other machines */
    tp_ns look_at;
    unsigned rounds; /* of progress */
};

static inline struct tcp_net *
tcp_net(struct tp_net *net)
{
    return tp_container_of(net, struct tcp_net, base);
}

/* ---- net.c ---- */
struct tcp_peer *tp_tcp_net_peer(struct tcp_net *n, uint32_t rank);
/** Gives a peer up; told in progress. */
void tp_tcp_net_lose(struct tcp_peer *peer, telpher_status why);

/* ---- net_card.c ---- */
telpher_status tp_tcp_net_listen(struct tcp_net *n, struct tp_error *err);
size_t tp_tcp_net_card(struct tcp_net *n, uint8_t *dst);
/** Reads the addresses to try from a card. @return how many, 0 if there is none to use */
unsigned tp_tcp_net_addresses(const struct tcp_net *n, const uint8_t *card, size_t len,
                              union tp_tcp_sockaddr ret[TP_TCP_ADDRESSES]);

/* ---- net_conn.c ---- */
/** Begins to connect to the peer's next address. */
telpher_status tp_tcp_net_try(struct tcp_peer *peer);
/** Takes a descriptor in reserve. @return false if there is none */
bool tp_tcp_net_spare(struct tcp_net *n);
void tp_tcp_net_accept(struct tcp_net *n);
/** The connection is not used any more; freed later in progress. */
void tp_tcp_net_kill(struct tcp_conn *c, telpher_status why);
void tp_tcp_net_free(struct tcp_conn *c);
/** Asks epoll for room, or not any more. */
void tp_tcp_net_watch(struct tcp_conn *c, bool out);
/** A connection could not be made. */
void tp_tcp_net_try_another(struct tcp_conn *c);
/** A connection that was being made is there, or is not. */
void tp_tcp_net_connected(struct tcp_conn *c);
/** Puts out who never says hello. */
void tp_tcp_net_strangers(struct tcp_net *n);
/** Checks a hello. @return false: it is a stranger's */
bool tp_tcp_net_greet(struct tcp_conn *c, const struct tp_tcp_hello *hello);

/* ---- net_watch.c ---- */
/** Sets up a new connection to be watched. */
void tp_tcp_net_watch_begin(struct tcp_conn *c);
void tp_tcp_net_watch_end(struct tcp_conn *c);
/** Looks, if it is time to, whether other machines are still there. */
void tp_tcp_net_look(struct tcp_net *n);

/** Not now, rather than never. */
static inline bool
tp_tcp_is_soft(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* ---- net_frames.c ---- */
/** Sends a frame, header and data, or keeps them. @return OK, AGAIN */
telpher_status tp_tcp_net_frame(struct tcp_conn *c, const struct tp_tcp_frame *frame,
                                const void *header, const void *data, bool may_wait);
/** Of the table: src/core/net.h. */
size_t tp_tcp_net_write_data(struct tp_net *net, uint32_t rank, uint32_t id,
                             const void *src, size_t len, void *arg);
/** Sends what waits. @return how many steps that took */
unsigned tp_tcp_net_flush(struct tcp_conn *c);
/** Says to the higher rank which connection is used. */
void tp_tcp_net_say(struct tcp_conn *c, enum tp_tcp_frame_type type);
bool tp_tcp_net_has_out(const struct tcp_conn *c);

/* ---- net_receive.c ---- */
/** Receives what is there. @return how many steps that took */
unsigned tp_tcp_net_read(struct tcp_conn *c);

#endif
