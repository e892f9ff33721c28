/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between ranks: connect, accept, hello, close. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/os/random.h"
#include "base/trace/log.h"
#include "transport/tcp/net_int.h"

/* in addition to all ranks, which may connect at the same moment */
enum { UNAUTHENTICATED_MAX = 64 };
/** A rank that connects and then computes, or is not scheduled, sends its hello late. */
#define HELLO_TIME (60 * TP_CLOCK_S)

static struct tcp_conn *
conn_create(struct tcp_net *n, int fd, const union tp_tcp_sockaddr *address,
            uint32_t events)
{
    struct tcp_conn *c = tp_zalloc(sizeof(*c), "tcp connection");
    struct epoll_event e = {.events = events, .data.ptr = c};
    int on = 1;

    if (c == NULL || epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
        tp_free(c);
        close(fd);
        return NULL;
    }
    tp_descriptor_own(fd);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->net = n;
    c->fd = fd;
    c->address = *address;
    c->deadline = tp_clock_deadline(HELLO_TIME);
    tp_tcp_net_watch_begin(c);
    tp_buf_init(&c->out, 0);
    tp_list_push_back(&n->conns, &c->link);
    n->conn_count++;
    return c;
}

void
tp_tcp_net_watch(struct tcp_conn *c, bool out)
{
    struct epoll_event e = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};

    out = out && !c->held;
    if (c->watches_out != out && !c->connecting) {
        c->watches_out = out;
        (void)epoll_ctl(c->net->epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
    }
}

/* Sends into an empty socket buffer, where it fits. */
static bool
say_hello(struct tcp_conn *c)
{
    struct tp_tcp_hello hello = {
        .job = c->net->params.job, .from = c->net->params.rank, .to = c->peer->rank};

    memcpy(hello.magic, TP_TCP_HELLO_MAGIC, sizeof(hello.magic));
    return send(c->fd, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           sizeof(hello);
}

/* Sets the connection to send on. Frames queued on one that was not accepted are
 * moved to it. */
static void
use(struct tcp_peer *peer, struct tcp_conn *c)
{
    struct tcp_conn *before = peer->conn;

    peer->conn = c;
    if (before != NULL) {
        struct tp_buf out = c->out;

        c->out = before->out;
        before->out = out;
        before->dead = true;
    }
}

telpher_status
tp_tcp_net_try(struct tcp_peer *peer)
{
    while (peer->tried < peer->address_count) {
        union tp_tcp_sockaddr *a = &peer->addresses[peer->tried++];
        int fd =
            socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        struct tcp_conn *c;

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
            peer->tried--; /* the address may still work */
            return TELPHER_ERR_NO_MEMORY;
        }
        if (fd < 0) {
            continue;
        }
        if (connect(fd, &a->any,
                    a->any.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6)) !=
                0 &&
            errno != EINPROGRESS) {
            close(fd);
            continue;
        }
        c = conn_create(peer->net, fd, a, EPOLLIN | EPOLLOUT);
        if (c == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        c->peer = peer;
        c->connecting = true;
        c->deadline =
            tp_clock_deadline(TP_MAX(peer->net->params.lost_after, TP_TCP_ASK_TIME));
        c->watches_out = true;
        use(peer, c);
        return TELPHER_OK;
    }
    return TELPHER_ERR_UNREACHABLE;
}

/* All our attempts failed: uses the connection that the peer made, if there is one. */
static bool
use_theirs(struct tcp_peer *peer)
{
    tp_list_for_each_entry(struct tcp_conn, c, &peer->net->conns, link) {
        if (c->peer == peer && !c->dead && c != peer->conn) {
            use(peer, c);
            tp_tcp_net_say(c, TP_TCP_YOURS_FRAME);
            tp_tcp_net_flush(c);
            return true;
        }
    }
    return false;
}

void
tp_tcp_net_try_another(struct tcp_conn *c)
{
    c->dead = true; /* not the end of the peer: it may have another address */
    if (tp_tcp_net_try(c->peer) != TELPHER_OK && !use_theirs(c->peer)) {
        tp_tcp_net_lose(c->peer, TELPHER_ERR_UNREACHABLE);
    }
}

void
tp_tcp_net_connected(struct tcp_conn *c)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
        tp_tcp_net_try_another(c);
        return;
    }
    c->connecting = false;
    c->held = c->net->params.rank > c->peer->rank;
    if (!say_hello(c)) {
        tp_tcp_net_kill(c, TELPHER_ERR_PEER_LOST);
        return;
    }
    tp_tcp_net_flush(c);
}

/* The oldest connection without a hello. Ranks send theirs at once. */
static struct tcp_conn *
oldest_unauthenticated(struct tcp_net *n)
{
    tp_list_for_each_entry(struct tcp_conn, c, &n->conns, link) {
        if (c->peer == NULL && !c->dead) {
            return c; /* the list is in order of arrival */
        }
    }
    return NULL;
}

bool
tp_tcp_net_spare(struct tcp_net *n)
{
    n->spare_fd = fcntl(n->listen_fd, F_DUPFD_CLOEXEC, 0);
    if (n->spare_fd >= 0) {
        tp_descriptor_own(n->spare_fd);
    }
    return n->spare_fd >= 0;
}

/* Closes a connect request that cannot be accepted for lack of a descriptor, so that
 * the client sees an error instead of waiting. It closes the spare descriptor for
 * that. */
static bool
refuse(struct tcp_net *n)
{
    int fd = -1;

    if (n->spare_fd >= 0) {
        tp_descriptor_close(n->spare_fd);
        fd = accept4(n->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    }
    tp_descriptor_close(fd);
    (void)tp_tcp_net_spare(n);
    return fd >= 0;
}

static bool
is_out_of_descriptors(struct tcp_net *n)
{
    if (errno != EMFILE && errno != ENFILE) {
        return false;
    }
    if (!n->starved) {
        n->starved = true;
        tp_warn("tcp",
                "rank %u cannot accept a connection; its peer will report a loss: %m",
                n->params.rank);
    }
    return true;
}

void
tp_tcp_net_accept(struct tcp_net *n)
{
    union tp_tcp_sockaddr a;
    struct tcp_conn *oldest;
    socklen_t len = sizeof(a);
    int fd;

    do {
        while ((fd = accept4(n->listen_fd, &a.any, &len,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
            if (n->unauthenticated >= UNAUTHENTICATED_MAX + (size_t)n->params.size &&
                (oldest = oldest_unauthenticated(n)) != NULL) {
                tp_tcp_net_kill(oldest, TELPHER_ERR_LIMIT);
            }
            n->unauthenticated += conn_create(n, fd, &a, EPOLLIN) != NULL;
            len = sizeof(a);
        }
    } while (is_out_of_descriptors(n) && refuse(n));
}

void
tp_tcp_net_read_unauthenticated(struct tcp_net *n)
{
    if (n->unauthenticated == 0) {
        return;
    }
    tp_list_for_each_entry(struct tcp_conn, c, &n->conns, link) {
        if (c->peer == NULL && !c->dead && tp_clock_passed(c->deadline)) {
            tp_tcp_net_kill(c, TELPHER_ERR_TIMEOUT);
        }
    }
}

static const char *
print_address(const union tp_tcp_sockaddr *a, char ret_text[INET6_ADDRSTRLEN])
{
    const void *ip = a->any.sa_family == AF_INET6 ? (const void *)&a->in6.sin6_addr
                                                  : (const void *)&a->in.sin_addr;

    return inet_ntop(a->any.sa_family, ip, ret_text, INET6_ADDRSTRLEN) != NULL
               ? ret_text
               : "an unknown address";
}

bool
tp_tcp_net_greet(struct tcp_conn *c, const struct tp_tcp_hello *hello)
{
    struct tcp_net *n = c->net;
    bool higher = hello->from > n->params.rank; /* it waits for our choice */
    struct tcp_peer *peer;

    if (memcmp(hello->magic, TP_TCP_HELLO_MAGIC, sizeof(hello->magic)) != 0 ||
        !tp_random_equal(&hello->job, &n->params.job, sizeof(hello->job)) ||
        hello->to != n->params.rank || hello->from >= n->params.size) {
        char from[INET6_ADDRSTRLEN];

        tp_warn("tcp",
                "rank %u refused a connection of %s whose greeting names another job "
                "or rank",
                n->params.rank, print_address(&c->address, from));
        return false;
    }
    peer = tp_tcp_net_peer(n, hello->from);
    if (peer == NULL || peer->accepted || peer->gone ||
        (!peer->lost && !higher && peer->conn != NULL && !peer->conn->connecting &&
         !peer->conn->held)) {
        return false;
    }
    peer->accepted = true;
    c->peer = peer;
    n->unauthenticated--;
    if (peer->lost) { /* the peer has ended; this is what it sent before */
        return true;
    }
    if (higher && peer->conn != NULL) {
        tp_tcp_net_say(c, TP_TCP_MINE_FRAME);
        return true;
    }
    use(peer, c);
    if (higher) {
        tp_tcp_net_say(c, TP_TCP_YOURS_FRAME);
    }
    tp_tcp_net_flush(c);
    return true;
}

void
tp_tcp_net_kill(struct tcp_conn *c, telpher_status why)
{
    if (c->dead) {
        return;
    }
    c->dead = true;
    if (c->peer != NULL && (c->peer->conn == c || why == TELPHER_ERR_PROTO)) {
        tp_tcp_net_lose(c->peer, why); /* otherwise a superfluous connection */
    }
}

void
tp_tcp_net_free(struct tcp_conn *c)
{
    tp_list_remove(&c->link);
    c->net->conn_count--;
    c->net->unauthenticated -= c->peer == NULL;
    tp_tcp_net_watch_end(c);
    /* a child of vfork() may hold it too, so that close does not remove it from
     * epoll */
    (void)epoll_ctl(c->net->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    tp_descriptor_close(c->fd);
    tp_buf_fini(&c->out);
    tp_free(c->in);
    tp_free(c);
}
