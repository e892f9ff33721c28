/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends frames. Small ones are written to the socket at once, or queued if it is full.
 * Rendezvous data is sent in parts, so that small frames pass between them.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "transport/tcp/net_int.h"

enum {
    /* [bytes] of a frame up to which it is copied together instead of gathered */
    SMALL = 512,
    PART = 256 << 10, /* [bytes] of one data frame, between machines */
    /* within a machine, where a system call costs more than the delay */
    LOCAL_PART = 2 << 20,
};

static bool
has_part(const struct tcp_conn *c)
{
    return c->part.head_left != 0 || c->part.left != 0;
}

bool
tp_tcp_net_has_out(const struct tcp_conn *c)
{
    return !c->mute && (tp_buf_len(&c->out) != 0 || has_part(c));
}

/* Stops sending; input from before the peer's end is still read, then the connection
 * ends. @return [bytes], or -1: not now, or never */
static ssize_t
sent_or_mute(struct tcp_conn *c, ssize_t sent)
{
    if (sent < 0 && !tp_tcp_is_soft(errno)) {
        c->mute = true;
        (void)shutdown(c->fd, SHUT_RD);
    }
    return sent;
}

/* Writes what the socket accepts. */
static ssize_t
push(struct tcp_conn *c, struct iovec *iov, int count)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};

    return sent_or_mute(c, sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* The same for a small frame, copied together: gathering costs more than copying. */
static ssize_t
push_small(struct tcp_conn *c, const struct iovec *iov, int count)
{
    uint8_t whole[SMALL];
    size_t len = 0;

    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len != 0) {
            memcpy(whole + len, iov[i].iov_base, iov[i].iov_len);
            len += iov[i].iov_len;
        }
    }
    return sent_or_mute(c, send(c->fd, whole, len, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* Queues what is left of the pieces after the first @p sent bytes. */
static telpher_status
keep(struct tcp_conn *c, const struct iovec *iov, int count, size_t sent)
{
    telpher_status status = TELPHER_OK;

    for (int i = 0; i < count && status == TELPHER_OK; i++) {
        size_t skip = TP_MIN(sent, iov[i].iov_len);

        sent -= skip;
        status = tp_buf_append(&c->out, (const uint8_t *)iov[i].iov_base + skip,
                               iov[i].iov_len - skip);
    }
    if (status != TELPHER_OK) { /* half a frame was sent: no other can follow */
        tp_tcp_net_kill(c, TELPHER_ERR_NO_MEMORY);
    }
    return status;
}

telpher_status
tp_tcp_net_frame(struct tcp_conn *c, const struct tp_tcp_frame *frame,
                 const void *header, const void *data, bool may_wait)
{
    size_t data_len = (size_t)frame->len;
    struct iovec iov[3] = {{(void *)(uintptr_t)frame, sizeof(*frame)},
                           {(void *)(uintptr_t)header, frame->header_len},
                           {(void *)(uintptr_t)data, data_len}};
    size_t whole = sizeof(*frame) + frame->header_len + data_len;
    ssize_t sent = 0;

    if (c->dead || c->mute) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (may_wait && tp_buf_len(&c->out) > TP_TCP_OUT_MAX) {
        return TELPHER_ERR_AGAIN;
    }
    if (!c->connecting && !c->held && tp_buf_len(&c->out) == 0 && !has_part(c)) {
        sent = whole <= SMALL ? push_small(c, iov, 3) : push(c, iov, 3);
        if (c->mute) {
            return TELPHER_ERR_PEER_LOST;
        }
    }
    if (sent == (ssize_t)whole) {
        return TELPHER_OK;
    }
    if (keep(c, iov, 3, sent > 0 ? (size_t)sent : 0) != TELPHER_OK) {
        return TELPHER_ERR_PEER_LOST;
    }
    tp_tcp_net_watch(c, true);
    return TELPHER_OK;
}

void
tp_tcp_net_say(struct tcp_conn *c, enum tp_tcp_frame_type type)
{
    const struct tp_tcp_frame f = {.type = (uint8_t)type};

    (void)tp_tcp_net_frame(c, &f, NULL, NULL, false); /* a loss is reported */
}

static bool
flush_part(struct tcp_conn *c)
{
    const struct tp_net_params *params = &c->net->params;
    struct tcp_part *part = &c->part;
    uint8_t *head = (uint8_t *)(&part->frame + 1) - part->head_left;
    struct iovec iov[2] = {{head, part->head_left},
                           {(void *)(uintptr_t)part->src, part->left}};
    ssize_t sent = push(c, iov, 2);
    size_t of_head, of_data;

    if (sent <= 0) {
        return false;
    }
    of_head = TP_MIN((size_t)sent, part->head_left);
    of_data = (size_t)sent - of_head;
    part->head_left -= of_head;
    part->src += of_data;
    part->left -= of_data;
    if (part->left == 0 && part->head_left == 0) { /* the engine may start another */
        params->events->data_sent(params->user, part->arg, (size_t)part->frame.len);
    }
    return true;
}

static bool
flush_buffer(struct tcp_conn *c)
{
    struct iovec iov = {tp_buf_data(&c->out), tp_buf_len(&c->out)};
    ssize_t sent = push(c, &iov, 1);

    if (sent <= 0) {
        return false;
    }
    tp_buf_consume(&c->out, (size_t)sent);
    return true;
}

unsigned
tp_tcp_net_flush(struct tcp_conn *c)
{
    unsigned count = 0;
    bool going = true;

    c->flushing = true;
    while (going && !c->dead && !c->connecting && !c->held && tp_tcp_net_has_out(c)) {
        going = has_part(c) ? flush_part(c) : flush_buffer(c);
        count += going;
    }
    c->flushing = false;
    if (!c->dead && !c->connecting) {
        tp_tcp_net_watch(c, tp_tcp_net_has_out(c));
    }
    return count;
}

/* Starts a part only if no other frame is partly sent. */
size_t
tp_tcp_net_write_data(struct tp_net *net, uint32_t rank, uint32_t id, const void *src,
                      size_t len, void *arg)
{
    struct tcp_peer *peer = tcp_net(net)->peers[rank];
    struct tcp_conn *c = peer->conn;
    size_t part;

    if (peer->lost || c == NULL || c->dead || c->mute || c->connecting || c->held ||
        tp_tcp_net_has_out(c)) {
        return 0;
    }
    part = TP_MIN(len, (size_t)(c->remote ? PART : LOCAL_PART));
    c->part =
        (struct tcp_part){.frame = {.type = TP_TCP_DATA_FRAME, .id = id, .len = part},
                          .head_left = sizeof(c->part.frame),
                          .src = src,
                          .left = part,
                          .arg = arg};
    if (!c->flushing) {
        tp_tcp_net_flush(c);
    }
    return part;
}
