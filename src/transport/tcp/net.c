/* SPDX-License-Identifier: Apache-2.0 */
/* Transport tcp for messages: the table of operations, progress, the loss of peers,
 * and destroy. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/trace/log.h"
#include "transport/tcp/net_int.h"

enum {
    FEW = 4, /* connections that are polled without asking epoll first */
    LATELY = 64, /* empty polls after which a connection is polled only in its turn */
    LOOK_EVERY = 64, /* rounds between checks for new connections */
    EVENTS = 64,
    REST_READS = 1024, /* more than a socket buffers, at some 100 KiB each */
};
/** Time to send what a socket had no room for until the end. */
#define LINGER_TIME TP_CLOCK_S
#define LINGER_NAP 1 /* [ms] */
/** [bytes] that an empty socket buffer takes with any settings, so that no rank has
 *  to wait for the lower rank's choice before it leaves. */
#define LEAVE_BYTES 4096

/* ---- create ---- */

static void
net_free(struct tcp_net *n)
{
    for (int *fd = (int[]){n->listen_fd, n->epoll_fd, n->spare_fd, -2}; *fd != -2;
         fd++) {
        tp_descriptor_close(*fd);
    }
    tp_free(n->peers);
    tp_free(n);
}

static telpher_status
net_create(const struct tp_net_params *params, struct tp_net **ret_net,
           struct tp_error *err)
{
    struct tcp_net *n = tp_zalloc(sizeof(*n), "tcp net");
    struct epoll_event e = {.events = EPOLLIN};
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (n == NULL) {
        return status;
    }
    n->base = (struct tp_net){.ops = &tp_tcp_net,
                              .eager_max = TP_TCP_EAGER,
                              .rndv_min = TP_TCP_EAGER,
                              .first_max = TP_TCP_FIRST};
    n->params = *params;
    n->params.lost_after = params->lost_after != 0 ? params->lost_after : TP_CLOCK_S;
    n->listen_fd = n->spare_fd = -1;
    tp_list_init(&n->conns);
    tp_list_init(&n->losing);
    n->peers = tp_alloc_array(params->size, sizeof(struct tcp_peer *), "tcp peers");
    n->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (n->epoll_fd < 0) {
        status = tp_error_set_errno(
            err, errno, "cannot create an epoll descriptor for transport tcp");
    } else if (n->peers != NULL) {
        status = tp_tcp_net_listen(n, err);
    }
    if (status == TELPHER_OK &&
        (!tp_tcp_net_spare(n) ||
         epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, n->listen_fd, &e) != 0)) {
        status = tp_error_set_errno(
            err, errno, "cannot wait for connections of other ranks (epoll_ctl)");
    }
    if (status != TELPHER_OK) {
        net_free(n);
        return status;
    }
    *ret_net = &n->base;
    return TELPHER_OK;
}

static size_t
net_address(struct tp_net *net, uint8_t *dst)
{
    return tp_tcp_net_address(tcp_net(net), dst);
}

static bool
net_reaches(struct tp_net *net, const uint8_t *address, size_t len)
{
    union tp_tcp_sockaddr addresses[TP_TCP_ADDRESSES];

    return tp_tcp_net_addresses(tcp_net(net), address, len, addresses) != 0;
}

struct tcp_peer *
tp_tcp_net_peer(struct tcp_net *n, uint32_t rank)
{
    struct tcp_peer *peer = n->peers[rank];

    if (peer != NULL) {
        return peer;
    }
    peer = tp_zalloc(sizeof(*peer), "tcp peer");
    if (peer != NULL) {
        peer->rank = rank;
        peer->net = n;
        tp_list_init(&peer->losing);
        n->peers[rank] = peer;
    }
    return peer;
}

static telpher_status
net_connect(struct tp_net *net, uint32_t rank, const uint8_t *address, size_t len)
{
    struct tcp_net *n = tcp_net(net);
    struct tcp_peer *peer = tp_tcp_net_peer(n, rank);
    telpher_status status;

    if (peer == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (peer->gone) {
        return TELPHER_ERR_UNREACHABLE;
    }
    if (peer->conn != NULL || peer->lost) {
        return TELPHER_OK; /* the peer connected to us */
    }
    peer->address_count = tp_tcp_net_addresses(n, address, len, peer->addresses);
    if (peer->address_count == 0) {
        return TELPHER_ERR_INVALID;
    }
    status = tp_tcp_net_try(peer);
    if (status == TELPHER_ERR_UNREACHABLE) {
        /* reported when the data it left here was read */
        tp_tcp_net_lose(peer, TELPHER_ERR_UNREACHABLE);
        status = TELPHER_OK;
    }
    return status;
}

/* ---- send ---- */

static telpher_status
net_send(struct tp_net *net, uint32_t rank, const void *header, size_t header_len,
         const void *data, size_t len)
{
    struct tcp_peer *peer = tcp_net(net)->peers[rank];
    const struct tp_tcp_frame f = {
        .type = TP_TCP_EAGER_FRAME, .header_len = (uint8_t)header_len, .len = len};

    return peer->lost ? TELPHER_ERR_PEER_LOST
                      : tp_tcp_net_frame(peer->conn, &f, header, data, true);
}

static telpher_status
net_control(struct tp_net *net, uint32_t rank, const void *frame, size_t len,
            const void *data, size_t data_len)
{
    struct tcp_peer *peer = tcp_net(net)->peers[rank];
    const struct tp_tcp_frame f = {
        .type = TP_TCP_CONTROL_FRAME, .header_len = (uint8_t)len, .len = data_len};

    return peer->lost || peer->conn == NULL
               ? TELPHER_ERR_PEER_LOST
               : tp_tcp_net_frame(peer->conn, &f, frame, data, true);
}

static bool
net_is_idle(struct tp_net *net, uint32_t rank)
{
    const struct tcp_conn *c = tcp_net(net)->peers[rank]->conn;

    return c != NULL && !c->connecting && !c->held && !tp_tcp_net_has_out(c);
}

/* ---- loss ---- */

void
tp_tcp_net_lose(struct tcp_peer *peer, telpher_status why)
{
    if (!peer->lost) {
        peer->lost = true;
        peer->why = why;
        tp_list_push_back(&peer->net->losing, &peer->losing);
    }
}

static void
net_close_peer(struct tp_net *net, uint32_t rank)
{
    struct tcp_peer *peer = tcp_net(net)->peers[rank];

    if (peer != NULL) {
        tp_tcp_net_lose(peer, TELPHER_ERR_PROTO);
    }
}

/* Reads what a peer sent before it ended. It may be on a connection that was not
 * accepted yet, or on the other of two. */
static void
read_rest(struct tcp_peer *peer)
{
    struct tcp_net *n = peer->net;

    tp_tcp_net_accept(n);
    tp_list_for_each_entry_safe(struct tcp_conn, c, &n->conns, link) {
        for (unsigned i = 0; i < REST_READS && !c->dead && !c->connecting &&
                             (c->peer == NULL || c->peer == peer);
             i++) {
            if (tp_tcp_net_read(c) == 0) {
                break;
            }
        }
    }
}

/* Ends all operations with a peer, then reports it lost. */
static void
finish_losing(struct tcp_peer *peer)
{
    struct tcp_net *n = peer->net;

    if (peer->why == TELPHER_ERR_PEER_LOST || peer->why == TELPHER_ERR_UNREACHABLE) {
        read_rest(peer);
    }
    peer->gone = true;
    tp_list_for_each_entry(struct tcp_conn, c, &n->conns, link) {
        if (c->peer == peer) {
            c->dead = true;
        }
    }
    n->params.events->on_lost(n->params.user, peer->rank, peer->why);
}

/* ---- progress ---- */

static unsigned
run_conn(struct tcp_conn *c)
{
    unsigned count = 0;

    if (c->dead) {
        return 0;
    }
    if (c->connecting) {
        struct pollfd p = {.fd = c->fd, .events = POLLOUT};

        if (poll(&p, 1, 0) <= 0) {
            return 0;
        }
        tp_tcp_net_connected(c);
        return 1;
    }
    if (tp_tcp_net_has_out(c)) {
        count += tp_tcp_net_flush(c);
    }
    return count + tp_tcp_net_read(c);
}

static bool
is_lively(const struct tcp_conn *c)
{
    return c->quiet < LATELY || c->into_left != 0 || tp_tcp_net_has_out(c);
}

/* Polling a connection is a system call. Those with recent input are polled each
 * round, one of the others in turn. */
static unsigned
run_few(struct tcp_net *n)
{
    size_t turn = n->conn_count != 0 ? n->rounds % n->conn_count : 0;
    unsigned count = 0;

    tp_list_for_each_entry_safe(struct tcp_conn, c, &n->conns, link) {
        unsigned came;

        if (turn-- == 0 || is_lively(c)) {
            came = run_conn(c);
            c->quiet = came != 0 ? 0 : TP_MIN(c->quiet + 1, LATELY);
            count += came;
        }
    }
    return count;
}

static unsigned
run_epoll(struct tcp_net *n)
{
    struct epoll_event events[EVENTS];
    int got = epoll_wait(n->epoll_fd, events, EVENTS, 0);
    unsigned count = 0;

    for (int i = 0; i < got; i++) {
        if (events[i].data.ptr == NULL) {
            tp_tcp_net_accept(n);
        } else {
            count += run_conn(events[i].data.ptr);
        }
    }
    tp_tcp_net_read_unauthenticated(n);
    tp_tcp_net_look(n);
    return count;
}

static unsigned
bury(struct tcp_net *n)
{
    unsigned count = 0;
    struct tp_list *link;

    while ((link = tp_list_pop_front(&n->losing)) != NULL) {
        finish_losing(tp_list_entry(link, struct tcp_peer, losing));
        count++;
    }
    tp_list_for_each_entry_safe(struct tcp_conn, c, &n->conns, link) {
        if (c->dead) {
            if (c->peer != NULL && c->peer->conn == c) {
                c->peer->conn = NULL;
            }
            tp_tcp_net_free(c);
        }
    }
    return count;
}

static unsigned
net_progress(struct tp_net *net)
{
    struct tcp_net *n = tcp_net(net);
    unsigned count = 0;

    if (n->conn_count > FEW || n->rounds++ % LOOK_EVERY == 0) {
        count += run_epoll(n);
    } else {
        count += run_few(n);
    }
    return count + bury(n);
}

static telpher_status
net_arm(struct tp_net *net)
{
    struct tcp_net *n = tcp_net(net);

    n->rounds = 0; /* the next progress polls all of them */
    return tp_list_is_empty(&n->losing) ? TELPHER_OK : TELPHER_ERR_AGAIN;
}

static int
net_fd(struct tp_net *net)
{
    return tcp_net(net)->epoll_fd;
}

/* ---- leave ---- */

/* True if the peer's kernel has all that was sent, or never will. */
static bool
has_arrived(const struct tcp_conn *c)
{
    int left = 0;

    return c->dead || c->mute || c->connecting || ioctl(c->fd, SIOCOUTQ, &left) != 0 ||
           left == 0;
}

/* True if this rank may leave without sending more on the socket. */
static bool
has_left(const struct tcp_conn *c)
{
    return c->dead || !tp_tcp_net_has_out(c) ||
           (c->held && !c->connecting && tp_buf_len(&c->out) <= LEAVE_BYTES);
}

static bool
net_busy(struct tp_net *net, uint32_t *ret_peer)
{
    struct tcp_net *n = tcp_net(net);

    tp_list_for_each_entry(struct tcp_conn, c, &n->conns, link) {
        if (!has_left(c) || !has_arrived(c)) {
            *ret_peer = c->peer != NULL ? c->peer->rank : UINT32_MAX;
            return true;
        }
    }
    return false;
}

/* Sent data must arrive. Closing a socket with unread input resets the connection,
 * and drops what the peer has not read. */
static void
linger(struct tcp_conn *c, tp_ns deadline)
{
    ssize_t got = 1;

    while (!has_arrived(c) && got != 0 && !tp_clock_passed(deadline)) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};

        (void)poll(&p, 1, LINGER_NAP);
        got = recv(c->fd, NULL, INT_MAX, MSG_DONTWAIT | MSG_TRUNC); /* discarded */
    }
}

static void
net_destroy(struct tp_net *net)
{
    struct tcp_net *n = tcp_net(net);
    tp_ns deadline = tp_clock_deadline(LINGER_TIME);

    tp_list_for_each_entry(struct tcp_conn, c, &n->conns, link) {
        if (c->held) { /* the lower rank reads it, whichever connection it chooses */
            c->held = false;
            (void)tp_tcp_net_flush(c);
        }
        (void)shutdown(c->fd, SHUT_WR);
    }
    tp_list_for_each_entry_safe(struct tcp_conn, c, &n->conns, link) {
        linger(c, deadline);
        tp_tcp_net_free(c);
    }
    for (uint32_t r = 0; r < n->params.size; r++) {
        tp_free(n->peers[r]);
    }
    net_free(n);
}

const struct tp_net_ops tp_tcp_net = {
    .name = "tcp",
    .create = net_create,
    .address = net_address,
    .reaches = net_reaches,
    .connect = net_connect,
    .send = net_send,
    .control = net_control,
    .write_data = tp_tcp_net_write_data,
    .is_idle = net_is_idle,
    .close_peer = net_close_peer,
    .progress = net_progress,
    .arm = net_arm,
    .fd = net_fd,
    .busy = net_busy,
    .destroy = net_destroy,
};
