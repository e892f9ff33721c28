/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects machines that vanish: docs/decisions/0015. The end of a process closes its
 * sockets. A rank that computes and does not read is alive, and its kernel answers; so
 * the kernel's answers are checked:
 *
 *   no data in flight      keepalive, by the kernel
 *   data not acknowledged  a living kernel acknowledges data, read or not
 *   zero window            the kernel probes ever less; a second connection probes
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "base/os/descriptor.h"
#include "base/trace/log.h"
#include "transport/tcp/net_int.h"
#include "transport/tcp/tcp_int.h"

enum {
    LOOKS = 4, /* checks within the time after which a rank is lost */
    SPARE = 2, /* keepalive probes that may get lost */
    TCP_IS_UP = 1, /* the kernel's states in tcpi_state */
    TCP_IS_ASKING = 2,
};

static bool
is_loopback(const union tp_tcp_sockaddr *a)
{
    static const uint8_t mapped[13] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127};

    if (a->any.sa_family == AF_INET) {
        return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr) ||
           memcmp(&a->in6.sin6_addr, mapped, sizeof(mapped)) == 0;
}

/* The kernel probes an idle peer every second. Probes and answers may get lost. */
static void
keep_alive(int fd, tp_ns lost_after)
{
    int on = 1,
        count = SPARE + (int)TP_MIN((lost_after + TP_CLOCK_S - 1) / TP_CLOCK_S, 100u);

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &on, sizeof(on)); /* [s] */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

void
tp_tcp_net_watch_begin(struct tcp_conn *c)
{
    c->probe_fd = -1;
    c->remote = !is_loopback(&c->address);
    c->net->remotes += c->remote;
    if (c->remote) {
        /* within a machine the kernel reports the end, and may be late to answer */
        keep_alive(c->fd, c->net->params.lost_after);
    } else {
        tp_tcp_unpace(c->fd);
    }
}

static void
end_probe(struct tcp_conn *c)
{
    if (c->probe_fd >= 0) {
        tp_descriptor_close(c->probe_fd);
        c->probe_fd = -1;
    }
}

void
tp_tcp_net_watch_end(struct tcp_conn *c)
{
    end_probe(c);
    c->net->remotes -= c->remote;
}

/* ---- the second connection ---- */

/* Connects to the peer's port: accepted or refused, the answer is a sign of life. */
static void
begin_probe(struct tcp_conn *c, tp_ns now)
{
    const union tp_tcp_sockaddr *a = &c->address;
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return; /* retried later */
    }
    tp_descriptor_own(fd);
    keep_alive(fd, c->net->params.lost_after);
    c->probe_fd = fd;
    c->probe_since = now;
    if (connect(fd, &a->any,
                a->any.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6)) != 0 &&
        errno != EINPROGRESS) {
        end_probe(c);
    }
}

/* @return false: the machine does not answer */
static bool
look_at_probe(struct tcp_conn *c, tp_ns now)
{
    tp_ns time = TP_MAX(c->net->params.lost_after, TP_TCP_ASK_TIME);
    struct tcp_info info;
    int error = 0;
    socklen_t len = sizeof(error);

    if (!tp_tcp_get_info(c->probe_fd, &info) || info.tcpi_state == TCP_IS_UP) {
        return true;
    }
    if (info.tcpi_state == TCP_IS_ASKING) {
        return tp_clock_between(c->probe_since, now) < time;
    }
    (void)getsockopt(c->probe_fd, SOL_SOCKET, SO_ERROR, &error, &len);
    end_probe(c); /* the next check connects again */
    return error != ETIMEDOUT && error != EHOSTUNREACH && error != ENETUNREACH;
}

/* ---- checks ---- */

/* @return false if the peer's machine is gone */
static bool
look_at(struct tcp_conn *c, tp_ns now)
{
    struct tcp_info info;

    if (!tp_tcp_get_info(c->fd, &info)) {
        return true;
    }
    if (tp_tcp_info_is_silent(&info, c->net->params.lost_after)) {
        return false;
    }
    if (info.tcpi_notsent_bytes == 0 || info.tcpi_unacked != 0) {
        c->stuck = 0;
        end_probe(c);
        return true;
    }
    if (++c->stuck < LOOKS) {
        return true;
    }
    if (c->probe_fd < 0) {
        begin_probe(c, now);
        return true;
    }
    return look_at_probe(c, now);
}

void
tp_tcp_net_look(struct tcp_net *n)
{
    tp_ns now;

    if (n->remotes == 0 || (now = tp_clock_ns()) < n->look_at) {
        return;
    }
    n->look_at = now + n->params.lost_after / LOOKS;
    tp_list_for_each_entry_safe(struct tcp_conn, c, &n->conns, link) {
        if (c->dead || !c->remote) {
            continue;
        }
        if (c->connecting) {
            if (tp_clock_passed(c->deadline)) {
                tp_tcp_net_try_another(c);
            }
        } else if (!look_at(c, now)) {
            tp_info("tcp", "rank %u does not answer: its machine is gone",
                    c->peer != NULL ? c->peer->rank : UINT32_MAX);
            tp_tcp_net_kill(c, TELPHER_ERR_PEER_LOST);
        }
    }
}
