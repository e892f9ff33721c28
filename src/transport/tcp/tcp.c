/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport tcp for streams: the connection. Descriptors are non-blocking and
 * close-on-exec. Of a connection that is not watched (silence.c), a peer that vanishes is
 * detected after DEAD_AFTER_S.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "transport/tcp/tcp_int.h"

enum {
    IDLE_S = 10, /* idle time before keepalive probes */
    PROBE_S = 5, /* between probes */
    PROBES = 3, /* unanswered ones until the peer is declared dead */
    DEAD_AFTER_S = 25, /* the same limit for unacknowledged data */
};

struct sock {
    struct tp_conn base;
    int fd; /* -1 once closed */
    _Atomic bool far; /* the peer is on another machine */
    _Atomic bool down; /* shut down by this side */
    bool accepts_fds; /* used by the receiving thread, like the next */
    int taken; /* descriptor that was received and not taken yet, or -1 */
};

/* Room for the one descriptor that may come with a message. */
union fd_message {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
};

static struct sock *
sock_of(struct tp_conn *c)
{
    return tp_container_of(c, struct sock, base);
}

void
tp_tcp_close(int fd)
{
    int saved_errno = errno;

    tp_descriptor_close(fd);
    errno = saved_errno;
}

static telpher_status
status_of_errno(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK ? TELPHER_ERR_AGAIN
                                                   : TELPHER_ERR_PEER_LOST;
}

static telpher_status
status_of_sent(ssize_t n, size_t *ret_sent)
{
    if (n < 0) {
        return status_of_errno();
    }
    *ret_sent = (size_t)n;
    return n > 0 ? TELPHER_OK : TELPHER_ERR_AGAIN;
}

static telpher_status
send_message(struct tp_conn *c, const struct msghdr *msg, size_t *ret_sent)
{
    ssize_t n;

    do {
        n = sendmsg(sock_of(c)->fd, msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return status_of_sent(n, ret_sent);
}

static telpher_status
sock_send(struct tp_conn *c, const struct iovec *iov, int count, size_t *ret_sent)
{
    const struct msghdr msg = {.msg_iov = (struct iovec *)iov,
                               .msg_iovlen = (size_t)count};
    ssize_t n;

    if (count != 1) {
        return send_message(c, &msg, ret_sent);
    }
    do {
        n = send(sock_of(c)->fd, iov->iov_base, iov->iov_len,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return status_of_sent(n, ret_sent);
}

static telpher_status
sock_send_fd(struct tp_conn *c, const struct iovec *iov, int count, int fd,
             size_t *ret_sent)
{
    union fd_message control = {.head = {.cmsg_level = SOL_SOCKET,
                                         .cmsg_type = SCM_RIGHTS,
                                         .cmsg_len = CMSG_LEN(sizeof(int))}};
    const struct msghdr msg = {.msg_iov = (struct iovec *)iov,
                               .msg_iovlen = (size_t)count,
                               .msg_control = &control,
                               .msg_controllen = sizeof(control)};

    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    return send_message(c, &msg, ret_sent);
}

static void
keep_fd(struct sock *s, struct msghdr *msg)
{
    struct cmsghdr *head = CMSG_FIRSTHDR(msg);

    if (head == NULL || head->cmsg_level != SOL_SOCKET ||
        head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int))) {
        return;
    }
    tp_tcp_close(s->taken);
    memcpy(&s->taken, CMSG_DATA(head), sizeof(s->taken));
}

/* The kernel closes descriptors beyond the one there is room for. */
static ssize_t
recv_with_fd(struct sock *s, void *buf, size_t cap)
{
    union fd_message control;
    struct iovec iov = {buf, cap};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(s->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n >= 0 && msg.msg_controllen != 0) {
        keep_fd(s, &msg);
    }
    return n;
}

static telpher_status
sock_recv(struct tp_conn *c, void *buf, size_t cap, size_t *ret_got)
{
    struct sock *s = sock_of(c);
    ssize_t n;

    do {
        n = s->accepts_fds ? recv_with_fd(s, buf, cap)
                           : recv(s->fd, buf, cap, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return status_of_errno();
    }
    if (n == 0 || atomic_load_explicit(&s->down, memory_order_relaxed)) {
        return TELPHER_ERR_PEER_LOST;
    }
    *ret_got = (size_t)n;
    return TELPHER_OK;
}

static telpher_status
sock_wait(struct tp_conn *c, unsigned events, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = sock_of(c)->fd};

    p.events = (short)(((events & TP_WAIT_READ) != 0 ? POLLIN : 0) |
                       ((events & TP_WAIT_WRITE) != 0 ? POLLOUT : 0));
    for (;;) {
        tp_ns left = tp_clock_remaining(deadline_ns);
        struct timespec ts = tp_clock_timespec(left);
        int n = ppoll(&p, 1, left == TP_CLOCK_FOREVER ? NULL : &ts, NULL);

        if (n > 0) {
            return TELPHER_OK;
        }
        if (n < 0 && errno != EINTR) {
            return TELPHER_OK; /* the next send or receive reports the error */
        }
        if (n == 0 && tp_clock_passed(deadline_ns)) {
            return TELPHER_ERR_TIMEOUT;
        }
    }
}

static int
sock_fd(struct tp_conn *c)
{
    return sock_of(c)->fd;
}

static void
sock_shutdown(struct tp_conn *c)
{
    struct sock *s = sock_of(c);

    atomic_store_explicit(&s->down, true, memory_order_relaxed);
    (void)shutdown(s->fd, SHUT_RDWR); /* may fail if the peer was first */
}

/* Only closes: another process may have a copy of the descriptor. */
static void
sock_close(struct tp_conn *c)
{
    struct sock *s = sock_of(c);

    tp_tcp_close(s->taken);
    tp_tcp_close(s->fd);
    s->taken = s->fd = -1;
}

static void
sock_destroy(struct tp_conn *c)
{
    sock_close(c);
    tp_free(sock_of(c));
}

static void
sock_accept_fds(struct tp_conn *c)
{
    sock_of(c)->accepts_fds = true;
}

static int
sock_take_fd(struct tp_conn *c)
{
    struct sock *s = sock_of(c);
    int fd = s->taken;

    s->taken = -1;
    return fd;
}

static const struct tp_conn_ops unix_ops = {
    .send = sock_send,
    .recv = sock_recv,
    .wait = sock_wait,
    .fd = sock_fd,
    .send_fd = sock_send_fd,
    .accept_fds = sock_accept_fds,
    .take_fd = sock_take_fd,
    .shutdown = sock_shutdown,
    .close = sock_close,
    .destroy = sock_destroy,
};

/* The number of the descriptor stays: other threads may be about to poll it. */
static void
sock_replace(struct tp_conn *c, struct tp_conn *other)
{
    struct sock *s = sock_of(c);

    (void)dup3(sock_of(other)->fd, s->fd, O_CLOEXEC);
    s->far = sock_of(other)->far;
    atomic_store_explicit(&s->down, false, memory_order_relaxed);
    sock_destroy(other);
}

static bool
sock_watch(struct tp_conn *c, uint64_t lost_after_ns)
{
    struct sock *s = sock_of(c);

    if (s->far) {
        tp_tcp_watch(s->fd, lost_after_ns);
    }
    return s->far;
}

static bool
sock_is_silent(struct tp_conn *c, uint64_t lost_after_ns)
{
    return sock_of(c)->far && tp_tcp_is_silent(sock_of(c)->fd, lost_after_ns);
}

static bool
sock_is_doubtful(struct tp_conn *c)
{
    return sock_of(c)->far && tp_tcp_is_doubtful(sock_of(c)->fd);
}

static const struct tp_conn_ops sock_ops = {
    .send = sock_send,
    .recv = sock_recv,
    .wait = sock_wait,
    .fd = sock_fd,
    .shutdown = sock_shutdown,
    .close = sock_close,
    .destroy = sock_destroy,
    .replace = sock_replace,
    .watch = sock_watch,
    .is_silent = sock_is_silent,
    .is_doubtful = sock_is_doubtful,
};

static void
set_option(int fd, int level, int name, int value)
{
    /* Each option is optional; on a Unix socket most do not exist. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void
tp_tcp_set_options(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, DEAD_AFTER_S * 1000);
}

void
tp_tcp_unpace(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0); /* nothing is lost there */
}

/* True if the peer has this machine's own address. */
static bool
is_within_machine(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } ours = {0}, theirs = {0};
    socklen_t ours_len = sizeof(ours), theirs_len = sizeof(theirs);

    if (getsockname(fd, &ours.any, &ours_len) != 0 ||
        getpeername(fd, &theirs.any, &theirs_len) != 0 ||
        ours.any.sa_family != theirs.any.sa_family) {
        return false;
    }
    return ours.any.sa_family == AF_INET
               ? ours.in.sin_addr.s_addr == theirs.in.sin_addr.s_addr
               : IN6_ARE_ADDR_EQUAL(&ours.in6.sin6_addr, &theirs.in6.sin6_addr);
}

static bool
set_descriptor_flags(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

telpher_status
tp_tcp_adopt(int fd, struct tp_conn **ret_conn)
{
    struct sockaddr_storage name = {0};
    socklen_t name_len = sizeof(name);
    struct sock *s;

    if (getsockname(fd, (struct sockaddr *)&name, &name_len) != 0 ||
        !set_descriptor_flags(fd)) {
        return tp_error_from_errno(errno);
    }
    s = tp_zalloc(sizeof(*s), "connection");
    if (s == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (name.ss_family != AF_UNIX) {
        s->far = !is_within_machine(fd);
        tp_tcp_set_options(fd);
        if (!s->far) {
            tp_tcp_unpace(fd);
        }
    }
    s->base.ops = name.ss_family == AF_UNIX ? &unix_ops : &sock_ops;
    s->fd = fd;
    s->taken = -1;
    *ret_conn = &s->base;
    return TELPHER_OK;
}

const struct tp_transport tp_tcp_transport = {
    .name = "tcp",
    .caps = TP_TRANSPORT_STREAM,
    .connect = tp_tcp_connect,
    .listen = tp_tcp_listen,
    .adopt = tp_tcp_adopt,
};
