/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames. Small ones go straight to the socket, and wait in a buffer when it is full. Data
 * of bulks goes in parts, so that small frames pass between them, and is received where it
 * belongs. What a peer sends is checked before it is used.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "transport/tcp/net_int.h"

enum {
    SMALL = 512, /* [bytes] of a frame that are put together rather than gathered */
    PART = 256 << 10, /* [bytes] of one data frame */
    TURN = 1 << 20, /* [bytes] of one bulk before others have their turn */
    IN = 160 << 10, /* [bytes] of a receive buffer: more than two eager frames */
    READS = 16, /* before others have their turn */
    BEHIND = 2048, /* [bytes] taken together with the end of a data frame */
};
_Static_assert(IN > 2 * (TP_TCP_EAGER + sizeof(struct tp_tcp_frame)), "room to move");

static bool
is_soft(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

bool
tp_tcp_net_has_out(const struct tcp_conn *c)
{
    return !c->mute && (tp_buf_len(&c->out) != 0 || c->part != NULL ||
                        !tp_list_is_empty(&c->sending));
}

/* ---- out ---- */

/* What the peer had sent before it went is still read: then the connection ends.
 * @return [bytes], or -1: not now, or never */
static ssize_t
sent_or_mute(struct tcp_conn *c, ssize_t sent)
{
    if (sent < 0 && !is_soft(errno)) {
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
    size_t data_len = frame->type == TP_TCP_EAGER_FRAME ? (size_t)frame->len : 0;
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
    c->part_left = TP_MIN(out->len - out->sent, (size_t)PART);
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
    } else if (out->sent % TURN == 0) {
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

/* ---- in ---- */

static void
break_off(struct tcp_conn *c)
{
    tp_tcp_net_kill(c, TELPHER_ERR_PROTO);
}

static void
on_bulk(struct tcp_conn *c, const struct tp_tcp_frame *f, const void *header)
{
    const struct tp_net_params *params = &c->net->params;
    struct tp_net_bulk *bulk = tp_zalloc(sizeof(*bulk), "tcp bulk");

    if (bulk == NULL || f->len == 0 || f->len > SIZE_MAX / 2 ||
        tp_map_put(&c->peer->in, f->id, bulk) != TELPHER_OK) {
        tp_free(bulk);
        tp_tcp_net_kill(c, bulk == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_PROTO);
        return;
    }
    tp_list_init(&bulk->link);
    bulk->peer = c->peer;
    bulk->id = f->id;
    bulk->len = f->len;
    params->events->on_bulk(params->user, c->peer->rank, header, f->header_len, f->len,
                            bulk);
}

static void
on_go(struct tcp_conn *c, const struct tp_tcp_frame *f)
{
    struct tcp_out *out = tp_map_get(&c->peer->out, f->id);
    struct tcp_conn *way = c->peer->conn;

    if (out == NULL || out->status != TELPHER_IN_PROGRESS || out->sent != 0 ||
        tp_list_is_linked(&out->link) || way == NULL || way->part == out ||
        f->len == 0 || f->len > out->len) {
        break_off(c);
        return;
    }
    out->len = (size_t)f->len;
    tp_list_push_back(&way->sending, &out->link);
    tp_tcp_net_flush(way);
}

static void
on_drop(struct tcp_conn *c, const struct tp_tcp_frame *f)
{
    struct tcp_out *out = tp_map_get(&c->peer->out, f->id);

    if (out == NULL || out->status != TELPHER_IN_PROGRESS ||
        tp_list_is_linked(&out->link) || out->sent != 0 ||
        (c->peer->conn != NULL && c->peer->conn->part == out)) {
        break_off(c);
        return;
    }
    tp_tcp_net_end(out, TELPHER_ERR_CANCELED);
}

static void
on_data(struct tcp_conn *c, const struct tp_tcp_frame *f)
{
    struct tp_net_bulk *bulk = tp_map_get(&c->peer->in, f->id);

    if (bulk == NULL || bulk->dst == NULL || f->len == 0 ||
        f->len > bulk->want - bulk->promised) {
        break_off(c);
        return;
    }
    bulk->promised += (size_t)f->len;
    c->into = bulk;
    c->into_left = (size_t)f->len;
}

/* The lower rank says which connection it is. */
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

/* More of a bulk's data lies in its place. */
static void
advance(struct tcp_conn *c, size_t len)
{
    struct tp_net_bulk *bulk = c->into;
    struct tp_net_op *op = bulk->op;

    bulk->got += len;
    c->into_left -= len;
    if (c->into_left != 0) {
        return;
    }
    c->into = NULL;
    if (bulk->got == bulk->want) {
        tp_map_remove(&bulk->peer->in, bulk->id);
        tp_free(bulk);
        op->done(op, TELPHER_OK);
    }
}

/* Takes one frame, or part of its data, from the buffer. @return false: not whole yet */
static bool
take_frame(struct tcp_conn *c)
{
    const struct tp_net_params *params = &c->net->params;
    const uint8_t *at = c->in + c->in_start;
    size_t have = c->in_end - c->in_start, whole;
    struct tp_tcp_frame f;

    if (c->into != NULL) {
        size_t len = TP_MIN(have, c->into_left);

        memcpy(c->into->dst + c->into->got, at, len);
        c->in_start += len;
        advance(c, len);
        return len != 0;
    }
    if (have < sizeof(f)) {
        return false;
    }
    memcpy(&f, at, sizeof(f));
    if (f.header_len > TP_NET_HEADER_MAX ||
        (f.type == TP_TCP_EAGER_FRAME && f.len > TP_TCP_EAGER)) {
        break_off(c);
        return false;
    }
    whole =
        sizeof(f) + f.header_len + (f.type == TP_TCP_EAGER_FRAME ? (size_t)f.len : 0);
    if (have < whole) {
        return false;
    }
    at += sizeof(f);
    c->in_start += whole;
    switch (f.type) {
    case TP_TCP_EAGER_FRAME:
        params->events->on_message(params->user, c->peer->rank, at, f.header_len,
                                   at + f.header_len, (size_t)f.len);
        break;
    case TP_TCP_BULK_FRAME:
        on_bulk(c, &f, at);
        break;
    case TP_TCP_GO_FRAME:
        on_go(c, &f);
        break;
    case TP_TCP_DROP_FRAME:
        on_drop(c, &f);
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

/* Receives once: to where data belongs if we are inside a data frame, else to the buffer. */
static ssize_t
pull(struct tcp_conn *c)
{
    struct iovec iov[2];
    int count = 0;
    ssize_t got;
    size_t direct = 0;

    if (c->in_start == c->in_end) {
        c->in_start = c->in_end = 0;
    } else if (IN - c->in_end < IN / 2) {
        memmove(c->in, c->in + c->in_start, c->in_end - c->in_start);
        c->in_end -= c->in_start;
        c->in_start = 0;
    }
    if (c->into != NULL && c->in_start == c->in_end) {
        direct = c->into_left;
        iov[count++] = (struct iovec){c->into->dst + c->into->got, direct};
    }
    /* What comes behind a data frame is most often the next one of the same data: no more of
     * it than small frames have goes where it would be copied from. */
    iov[count++] = (struct iovec){c->in + c->in_end,
                                  direct != 0 ? TP_MIN(IN - c->in_end, (size_t)BEHIND)
                                              : IN - c->in_end};
    got = count == 1 ? recv(c->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT)
                     : readv(c->fd, iov, count);
    if (got > 0) {
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
        size_t room = IN - (c->in_end - c->in_start);
        ssize_t got = pull(c);

        if (got <= 0) {
            if (got == 0 || !is_soft(errno)) {
                tp_tcp_net_kill(c, TELPHER_ERR_PEER_LOST);
            }
            break;
        }
        count++;
        while (!c->dead && (c->peer != NULL ? take_frame(c) : take_hello(c))) {
        }
        if (c->into == NULL && (size_t)got < room / 2) {
            break; /* that was all */
        }
    }
    return count;
}
