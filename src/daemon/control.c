/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives control messages with descriptors (SCM_RIGHTS). */
#include "daemon/control.h"
#include "base/os/descriptor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union fd_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static telpher_status
status_of(int saved_errno)
{
    return saved_errno == EAGAIN || saved_errno == EWOULDBLOCK ? TELPHER_ERR_AGAIN
                                                               : TELPHER_ERR_PEER_LOST;
}

telpher_status
tp_control_send_pieces(int fd, const struct iovec *iov, size_t count, int fd_sent)
{
    union fd_room room;
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
    ssize_t sent;

    memset(&room, 0, sizeof(room));
    if (fd_sent >= 0) {
        struct cmsghdr *c;

        m.msg_control = room.bytes;
        m.msg_controllen = sizeof(room.bytes);
        c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd_sent, sizeof(int));
    }
    do {
        sent = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? status_of(errno) : TELPHER_OK;
}

telpher_status
tp_control_send_rest(int fd, const struct tp_control *msg, const void *rest,
                     int fd_sent)
{
    const struct iovec iov[2] = {{(void *)(uintptr_t)msg, sizeof(*msg)},
                                 {(void *)(uintptr_t)rest, msg->rest_len}};

    return tp_control_send_pieces(fd, iov, 2, fd_sent);
}

telpher_status
tp_control_send(int fd, const struct tp_control *msg, int fd_sent)
{
    const struct iovec iov = {(void *)(uintptr_t)msg, sizeof(*msg)};

    return tp_control_send_pieces(fd, &iov, 1, fd_sent);
}

/*
 * Takes the first descriptor out of a received message and closes any others. The padding
 * of the control buffer leaves room for more, and an executor runs untrusted drivers.
 * @return -1 if there is none
 */
static int
received_fd(struct msghdr *m)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    size_t len = 0;
    int fds[sizeof(union fd_room) / sizeof(int)];

    if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
        c->cmsg_len < CMSG_LEN(sizeof(int))) {
        return -1;
    }
    len = c->cmsg_len - CMSG_LEN(0);
    memcpy(fds, CMSG_DATA(c), len);
    for (size_t i = 1; i < len / sizeof(int); i++) {
        (void)close(fds[i]);
    }
    return fds[0];
}

telpher_status
tp_control_receive_pieces(int fd, const struct iovec *iov, size_t count,
                          size_t *ret_len, int *ret_fd)
{
    union fd_room room;
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                       .msg_iovlen = count,
                       .msg_control = room.bytes,
                       .msg_controllen = sizeof(room.bytes)};
    ssize_t got;
    int came;

    do {
        got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return status_of(errno);
    }
    came = received_fd(&m);
    if (got == 0 || (m.msg_flags & MSG_TRUNC) != 0) {
        tp_descriptor_close(came);
        return TELPHER_ERR_PEER_LOST;
    }
    *ret_len = (size_t)got;
    *ret_fd = came;
    return TELPHER_OK;
}

telpher_status
tp_control_receive_rest(int fd, struct tp_control *ret_msg,
                        uint8_t ret_rest[TP_TLS_PLAIN_MAX], int *ret_fd)
{
    struct tp_control msg;
    const struct iovec iov[2] = {{&msg, sizeof(msg)}, {ret_rest, TP_TLS_PLAIN_MAX}};
    size_t len;
    int came;
    telpher_status status = tp_control_receive_pieces(fd, iov, 2, &len, &came);

    if (status != TELPHER_OK) {
        return status;
    }
    if (len < sizeof(msg) || len - sizeof(msg) != msg.rest_len) {
        tp_descriptor_close(came);
        return TELPHER_ERR_PEER_LOST;
    }
    msg.text[sizeof(msg.text) - 1] = '\0';
    *ret_msg = msg;
    *ret_fd = came;
    return TELPHER_OK;
}

telpher_status
tp_control_receive(int fd, struct tp_control *ret_msg, int *ret_fd)
{
    uint8_t rest[TP_TLS_PLAIN_MAX];

    return tp_control_receive_rest(fd, ret_msg, rest, ret_fd);
}
