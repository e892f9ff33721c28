/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport tcp: messages between ranks, docs/comm.md section 4.
 *
 *   net.c        the table; peers
 *   net_address.c   the address: where a rank listens, and which of its IP addresses to
 *                try
 *   net_conn.c   connections: connect, accept, hello, close
 *   net_frames.c sends frames
 *   net_receive.c receives frames
 *   net_watch.c  detects machines that vanish
 *
 * Two ranks share one connection. If both connect at the same moment, the lower rank's
 * connection stays: the higher rank sends only its hello before the lower one has said
 * which is used.
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
    TP_TCP_OUT_MAX = 1 << 20, /* [bytes] queued for the socket before AGAIN */
    TP_TCP_ADDRESSES = 8, /* IP addresses of one rank */
    TP_TCP_FIRST = 64 << 10, /* [bytes] of rendezvous data that are sent with an RTS */
};

/** Shortest time to connect: the kernel retransmits SYN after 1 s. */
#define TP_TCP_ASK_TIME (3 * TP_CLOCK_S)

/** Head of a frame. */
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
    TP_TCP_YOURS_FRAME, /* to the higher rank: we both use your connection */
    TP_TCP_MINE_FRAME, /* to the higher rank: I connect; we both use mine */
};

/** First bytes on a connection. */
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
    struct tcp_conn *conn; /* to send on; NULL before the first */
    bool accepted; /* its connection is known; any other claim is unauthenticated */
    bool lost; /* nothing more is sent; input is read until on_lost() */
    bool gone; /* on_lost() was called */
    telpher_status why;
    struct tp_list losing; /* of net->losing */
    union tp_tcp_sockaddr addresses[TP_TCP_ADDRESSES]; /* IP addresses to try */
    unsigned address_count, tried;
};

/** A data frame being sent; memory of the engine. */
struct tcp_part {
    struct tp_tcp_frame frame;
    size_t head_left; /* [bytes] of the frame */
    const uint8_t *src;
    size_t left; /* [bytes] of data; with head_left: 0 = no frame is being sent */
    void *arg; /* of write_data() */
};

struct tcp_conn {
    struct tp_list link; /* of net->conns */
    struct tcp_net *net;
    struct tcp_peer *peer; /* NULL: accepted, without a hello yet */
    int fd;
    bool connecting, watches_out, dead;
    bool mute; /* nothing more is sent; input is read to its end */
    bool held; /* made by us; waits for the lower rank's YOURS before it sends */
    tp_ns deadline; /* to connect, then for the hello */
    union tp_tcp_sockaddr address; /* of the peer */
    bool remote; /* on another machine, or in another network namespace */
    unsigned quiet; /* empty polls since the last input, capped at LATELY */
    unsigned stuck; /* checks in a row that found no room at the peer */
    int probe_fd; /* second connection to a machine that is stuck; -1: none */
    tp_ns probe_since;
    struct tp_buf out; /* frames queued for the socket */
    struct tcp_part part;
    bool flushing;
    uint8_t *in; /* TP_TCP_IN bytes */
    size_t in_start, in_end;
    uint32_t into_id; /* of the rendezvous data being received */
    size_t into_left; /* 0: none is being received */
    bool is_rndv; /* rendezvous data arrives, rather than large eager messages */
};

struct tcp_net {
    struct tp_net base;
    struct tp_net_params params;
    int listen_fd, epoll_fd;
    int spare_fd; /* reserve, to accept and close when descriptors run out */
    bool starved; /* the reserve was used */
    uint16_t port;
    /* id of machine and network namespace: ranks with the same id share loopback */
    uint64_t place;
    struct tcp_peer **peers; /* by rank */
    struct tp_list conns, losing;
    size_t conn_count, unauthenticated;
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
/** Declares a peer lost; progress calls on_lost(). */
void tp_tcp_net_lose(struct tcp_peer *peer, telpher_status why);

/* ---- net_address.c ---- */
telpher_status tp_tcp_net_listen(struct tcp_net *n, struct tp_error *err);
size_t tp_tcp_net_address(struct tcp_net *n, uint8_t *dst);
/** Reads the IP addresses to try from an address. @return how many, 0 if none is
 *  usable */
unsigned tp_tcp_net_addresses(const struct tcp_net *n, const uint8_t *address,
                              size_t len, union tp_tcp_sockaddr ret[TP_TCP_ADDRESSES]);

/* ---- net_conn.c ---- */
/** Begins to connect to the peer's next address. */
telpher_status tp_tcp_net_try(struct tcp_peer *peer);
/** Opens the reserve descriptor. @return false if there is none */
bool tp_tcp_net_spare(struct tcp_net *n);
void tp_tcp_net_accept(struct tcp_net *n);
/** Closes a connection; progress frees it later. */
void tp_tcp_net_kill(struct tcp_conn *c, telpher_status why);
void tp_tcp_net_free(struct tcp_conn *c);
/** Sets whether epoll reports room. */
void tp_tcp_net_watch(struct tcp_conn *c, bool out);
/** Connecting failed: tries the next address. */
void tp_tcp_net_try_another(struct tcp_conn *c);
/** Handles the end of a connect. */
void tp_tcp_net_connected(struct tcp_conn *c);
/** Closes connections that sent no hello in time. */
void tp_tcp_net_read_unauthenticated(struct tcp_net *n);
/** Checks a hello. @return false: it is not from a rank of this job */
bool tp_tcp_net_greet(struct tcp_conn *c, const struct tp_tcp_hello *hello);

/* ---- net_watch.c ---- */
/** Begins to watch a new connection. */
void tp_tcp_net_watch_begin(struct tcp_conn *c);
void tp_tcp_net_watch_end(struct tcp_conn *c);
/** Checks, if it is time, whether the machines of peers are still there. */
void tp_tcp_net_look(struct tcp_net *n);

/** True for an errno that means "not now". */
static inline bool
tp_tcp_is_soft(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* ---- net_frames.c ---- */
/** Sends or queues a frame of header and data. @return OK, AGAIN */
telpher_status tp_tcp_net_frame(struct tcp_conn *c, const struct tp_tcp_frame *frame,
                                const void *header, const void *data, bool may_wait);
/** See src/waist/net.h. */
size_t tp_tcp_net_write_data(struct tp_net *net, uint32_t rank, uint32_t id,
                             const void *src, size_t len, void *arg);
/** Sends queued frames. @return number of steps */
unsigned tp_tcp_net_flush(struct tcp_conn *c);
/** Sends the higher rank which connection is used. */
void tp_tcp_net_say(struct tcp_conn *c, enum tp_tcp_frame_type type);
bool tp_tcp_net_has_out(const struct tcp_conn *c);

/* ---- net_receive.c ---- */
/** Receives what is there. @return number of steps */
unsigned tp_tcp_net_read(struct tcp_conn *c);

#endif
