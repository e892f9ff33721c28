/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives frames. Rendezvous data is received at its destination. Input from peers is
 * checked before use.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "transport/tcp/net_int.h"

enum {
    IN = 160 << 10, /* [bytes] of a receive buffer: more than two eager frames */
    READS = 16, /* before other connections have their turn */
    BEHIND = 2048, /* [bytes] received together with the end of a data frame */
};
_Static_assert(IN > 2 * (TP_TCP_EAGER + sizeof(struct tp_tcp_frame)), "room to move");

static void
break_off(struct tcp_conn *c)
{
    tp_tcp_net_kill(c, TELPHER_ERR_PROTO);
}

/* The lower rank's choice of the connection to use. */
static void
on_word(struct tcp_conn *c, bool yours)
{
    if (!c->held) {
        break_off(c);
    } else if (yours) {
        c->held = false;
        tp_tcp_net_flush(c);
    }
}

/* Destination of the next bytes of data. @return [bytes] of room; 0: the data is
 * skipped */
static size_t
room_for(struct tcp_conn *c, uint8_t **ret_dst)
{
    const struct tp_net_params *params = &c->net->params;
    size_t room = 0;

    if (!params->events->data_at(params->user, c->peer->rank, c->into_id, c->into_left,
                                 ret_dst, &room)) {
        break_off(c);
        return 0;
    }
    return room;
}

static void
advance(struct tcp_conn *c, size_t len)
{
    const struct tp_net_params *params = &c->net->params;

    c->into_left -= len;
    params->events->data_received(params->user, c->peer->rank, c->into_id, len);
}

/* Copies data that is in the buffer. @return false: there is none */
static bool
take_data(struct tcp_conn *c)
{
    size_t len = TP_MIN(c->in_end - c->in_start, c->into_left);
    uint8_t *dst = NULL;
    size_t wanted;

    if (len == 0) {
        return false;
    }
    wanted = TP_MIN(room_for(c, &dst), len);
    if (c->dead) {
        return false;
    }
    if (wanted != 0) {
        memcpy(dst, c->in + c->in_start, wanted);
    }
    c->in_start += len;
    advance(c, len);
    return true;
}

static void
on_data(struct tcp_conn *c, const struct tp_tcp_frame *f)
{
    uint8_t *dst = NULL;

    if (f->len == 0 || f->len > SIZE_MAX) {
        break_off(c);
        return;
    }
    c->is_rndv = true;
    c->into_id = f->id;
    c->into_left = (size_t)f->len;
    (void)room_for(c, &dst); /* asks the engine for its destination */
}

static void
on_control(struct tcp_conn *c, const struct tp_tcp_frame *f, const uint8_t *frame)
{
    const struct tp_net_params *params = &c->net->params;

    c->is_rndv = true;
    c->into_id = 0;
    c->into_left = (size_t)f->len;
    params->events->on_control(params->user, c->peer->rank, frame, f->header_len,
                               (size_t)f->len);
}

/* True if no rank sends such a frame. */
static bool
is_nonsense(const struct tp_tcp_frame *f)
{
    return f->type == TP_TCP_CONTROL_FRAME
               ? f->header_len > TP_NET_CONTROL_MAX || f->len > TP_TCP_FIRST
               : f->header_len > TP_NET_HEADER_MAX ||
                     (f->type == TP_TCP_EAGER_FRAME && f->len > TP_TCP_EAGER);
}

/* Handles one frame, or part of its data, from the buffer. @return false: incomplete */
static bool
take_frame(struct tcp_conn *c)
{
    const struct tp_net_params *params = &c->net->params;
    const uint8_t *at = c->in + c->in_start;
    size_t have = c->in_end - c->in_start, whole;
    struct tp_tcp_frame f;

    if (c->into_left != 0) {
        return take_data(c);
    }
    if (have < sizeof(f)) {
        return false;
    }
    memcpy(&f, at, sizeof(f));
    if (is_nonsense(&f)) {
        break_off(c);
        return false;
    }
    whole =
        sizeof(f) + f.header_len + (f.type == TP_TCP_EAGER_FRAME ? (size_t)f.len : 0);
    if (have < whole) {
        c->is_rndv = false; /* receive the rest at once */
        return false;
    }
    at += sizeof(f);
    c->in_start += whole;
    switch (f.type) {
    case TP_TCP_EAGER_FRAME:
        c->is_rndv = c->is_rndv && f.len < BEHIND;
        params->events->on_message(params->user, c->peer->rank, at, f.header_len,
                                   at + f.header_len, (size_t)f.len);
        break;
    case TP_TCP_CONTROL_FRAME:
        on_control(c, &f, at);
        break;
    case TP_TCP_DATA_FRAME:
        on_data(c, &f);
        break;
    case TP_TCP_YOURS_FRAME:
    case TP_TCP_MINE_FRAME:
        on_word(c, f.type == TP_TCP_YOURS_FRAME);
        break;
    default:
        break_off(c);
    }
    return true;
}

static bool
take_hello(struct tcp_conn *c)
{
    struct tp_tcp_hello hello;

    if (c->in_end - c->in_start < sizeof(hello)) {
        return false;
    }
    memcpy(&hello, c->in + c->in_start, sizeof(hello));
    c->in_start += sizeof(hello);
    if (!tp_tcp_net_greet(c, &hello)) {
        tp_tcp_net_kill(c, TELPHER_ERR_AUTH);
        return false;
    }
    return true;
}

/* Receives once: to the destination inside a data frame, otherwise to the buffer.
 * @param ret_more  true if there is likely more */
static ssize_t
pull(struct tcp_conn *c, bool *ret_more)
{
    struct iovec iov[2];
    int count = 0;
    ssize_t got;
    size_t direct = 0, room;
    uint8_t *dst = NULL;

    if (c->in_start == c->in_end) {
        c->in_start = c->in_end = 0;
    } else if (IN - c->in_end < IN / 2) {
        memmove(c->in, c->in + c->in_start, c->in_end - c->in_start);
        c->in_end -= c->in_start;
        c->in_start = 0;
    }
    if (c->into_left != 0 && c->in_start == c->in_end) {
        direct = room_for(c, &dst);
        if (c->dead) {
            errno = EAGAIN;
            return -1;
        }
    }
    if (direct != 0) {
        iov[count++] = (struct iovec){dst, direct};
    }
    /* More such data is likely to follow. It would have to be copied from the
     * buffer, so only the space of small frames is used. */
    room = IN - c->in_end;
    if (direct != 0 || (c->is_rndv && c->into_left == 0)) {
        room = TP_MIN(room, (size_t)BEHIND);
    }
    iov[count++] = (struct iovec){c->in + c->in_end, room};
    got = count == 1 ? recv(c->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT)
                     : readv(c->fd, iov, count);
    if (got > 0) {
        *ret_more = (size_t)got >= direct + room / 2;
        direct = TP_MIN(direct, (size_t)got);
        c->in_end += (size_t)got - direct;
        if (direct != 0) {
            advance(c, direct);
        }
    }
    return got;
}

unsigned
tp_tcp_net_read(struct tcp_conn *c)
{
    unsigned count = 0;

    if (c->in == NULL) {
        c->in = tp_malloc(IN, "tcp receive buffer");
    }
    if (c->in == NULL) {
        tp_tcp_net_kill(c, TELPHER_ERR_NO_MEMORY);
        return 0;
    }
    for (unsigned reads = 0; reads < READS && !c->dead; reads++) {
        bool more = false;
        ssize_t got = pull(c, &more);

        if (got <= 0) {
            if (got == 0 || !tp_tcp_is_soft(errno)) {
                tp_tcp_net_kill(c, TELPHER_ERR_PEER_LOST);
            }
            break;
        }
        count++;
        while (!c->dead && (c->peer != NULL ? take_frame(c) : take_hello(c))) {
        }
        if (c->into_left == 0 && !more) {
            break; /* the socket is empty */
        }
    }
    return count;
}
