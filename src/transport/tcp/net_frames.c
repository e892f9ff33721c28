/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames out. Small ones go straight to the socket, and wait in a buffer when it is full. Data
 * of bulks goes in parts, so that small frames pass between them.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "transport/tcp/net_int.h"

enum {
    SMALL = 512, /* [bytes] of a frame that are put together rather than gathered */
    PART = 256 << 10, /* [bytes] of one data frame, between machines */
    LOCAL_PART = 2 << 20, /* within one, where a call costs more than waiting */
    TURN = 1 << 20, /* [bytes] of one bulk before others have their turn */
};

bool
tp_tcp_net_has_out(const struct tcp_conn *c)
{
    return !c->mute && (tp_buf_len(&c->out) != 0 || c->part != NULL ||
                        !tp_list_is_empty(&c->sending));
}

/* What the peer had sent before it went is still read: then the connection ends.
 * @return [bytes], or -1: not now, or never */
static ssize_t
sent_or_mute(struct tcp_conn *c, ssize_t sent)
{
    if (sent < 0 && !tp_tcp_is_soft(errno)) {
        c->mute = true;
        (void)shutdown(c->fd, SHUT_RD);
    }
    return sent;
}

/* Sends what the socket takes. */
static ssize_t
push(struct tcp_conn *c, struct iovec *iov, int count)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};

    return sent_or_mute(c, sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* The same for a small frame, in one piece: gathering costs more than copying. */
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

/* Keeps what is left of the pieces behind the first @p sent bytes. */
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
    if (status != TELPHER_OK) { /* half a frame is out: nothing can follow it */
        tp_tcp_net_kill(c, TELPHER_ERR_NO_MEMORY);
    }
    return status;
}

telpher_status
tp_tcp_net_frame(struct tcp_conn *c, const struct tp_tcp_frame *frame,
                 const void *header, const void *data, bool may_wait)
{
    size_t data_len = tp_tcp_inside(frame);
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
    if (!c->connecting && !c->held && tp_buf_len(&c->out) == 0 && c->part == NULL) {
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

    (void)tp_tcp_net_frame(c, &f, NULL, NULL, false); /* a loss is told */
}

/* Begins a data frame of what the peer asked for longest ago. */
static void
begin_part(struct tcp_conn *c)
{
    struct tcp_out *out =
        tp_list_entry(tp_list_pop_front(&c->sending), struct tcp_out, link);

    c->part = out;
    c->part_left =
        TP_MIN(out->len - out->sent, (size_t)(c->remote ? PART : LOCAL_PART));
    out->turn += c->part_left;
    c->part_head_left = sizeof(c->part_frame);
    c->part_frame = (struct tp_tcp_frame){
        .type = TP_TCP_DATA_FRAME, .id = out->id, .len = c->part_left};
}

static void
end_part(struct tcp_conn *c)
{
    struct tcp_out *out = c->part;

    c->part = NULL;
    if (out->sent == out->len) {
        tp_tcp_net_end(out, TELPHER_OK);
    } else if (out->turn >= TURN) {
        out->turn = 0;
        tp_list_push_back(&c->sending, &out->link); /* in turn with others */
    } else {
        tp_list_push_front(&c->sending, &out->link); /* devices take whole pieces on */
    }
}

static bool
flush_part(struct tcp_conn *c)
{
    struct tcp_out *out = c->part;
    uint8_t *head = (uint8_t *)(&c->part_frame + 1) - c->part_head_left;
    struct iovec iov[2] = {{head, c->part_head_left},
                           {(void *)(uintptr_t)(out->src + out->sent), c->part_left}};
    ssize_t sent = push(c, iov, 2);
    size_t of_head;

    if (sent <= 0) {
        return false;
    }
    of_head = TP_MIN((size_t)sent, c->part_head_left);
    c->part_head_left -= of_head;
    out->sent += (size_t)sent - of_head;
    c->part_left -= (size_t)sent - of_head;
    if (c->part_left == 0 && c->part_head_left == 0) {
        end_part(c);
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

    while (going && !c->dead && !c->connecting && !c->held && tp_tcp_net_has_out(c)) {
        if (c->part != NULL) {
            going = flush_part(c);
        } else if (tp_buf_len(&c->out) != 0) {
            going = flush_buffer(c);
        } else {
            begin_part(c);
        }
        count += going;
    }
    if (!c->dead && !c->connecting) {
        tp_tcp_net_watch(c, tp_tcp_net_has_out(c));
    }
    return count;
}
