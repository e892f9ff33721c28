/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in. Data of bulks is received where it belongs. What a peer sends is checked before it
 * is used.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "transport/tcp/net_int.h"

enum {
    IN = 160 << 10, /* [bytes] of a receive buffer: more than two eager frames */
    READS = 16, /* before others have their turn */
    BEHIND = 2048, /* [bytes] taken together with the end of a data frame */
};
_Static_assert(IN > 2 * (TP_TCP_EAGER + sizeof(struct tp_tcp_frame)), "room to move");

static void
break_off(struct tcp_conn *c)
{
    tp_tcp_net_kill(c, TELPHER_ERR_PROTO);
}

/* A frame with data of a bulk begins. */
static void
expect(struct tcp_conn *c, struct tp_net_bulk *bulk, size_t len)
{
    bulk->promised += len;
    bulk->coming = true;
    c->into = bulk;
    c->into_left = len;
}

/* What nobody was waiting for is kept until somebody does, or drops it. */
static bool
keep_first(struct tcp_conn *c)
{
    struct tp_net_bulk *bulk = c->into;

    if (bulk != NULL && bulk->dst == NULL && !bulk->dropped) {
        bulk->kept = tp_malloc(c->into_left, "tcp bulk");
        return bulk->kept != NULL;
    }
    return true;
}

static void
on_bulk(struct tcp_conn *c, const struct tp_tcp_frame *f, const void *header)
{
    const struct tp_net_params *params = &c->net->params;
    struct tp_net_bulk *bulk = tp_zalloc(sizeof(*bulk), "tcp bulk");

    if (bulk == NULL || f->len == 0 || f->len > SIZE_MAX / 2 ||
        tp_tcp_inside(f) > f->len || f->first > TP_TCP_FIRST ||
        (f->first != 0 && c->peer->firsts_in >= TP_TCP_FIRSTS) ||
        tp_map_put(&c->peer->in, f->id, bulk) != TELPHER_OK) {
        tp_free(bulk);
        tp_tcp_net_kill(c, bulk == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_PROTO);
        return;
    }
    tp_list_init(&bulk->link);
    bulk->peer = c->peer;
    bulk->id = f->id;
    bulk->len = f->len;
    c->bulky = true;
    if (f->first != 0) {
        bulk->first = true;
        c->peer->firsts_in++;
        expect(c, bulk, tp_tcp_inside(f));
    }
    params->events->on_bulk(params->user, c->peer->rank, header, f->header_len, f->len,
                            bulk);
    if (!keep_first(c)) {
        tp_tcp_net_kill(c, TELPHER_ERR_NO_MEMORY);
    }
}

/* The bulk that a GO or a DROP is about; NULL: there is none, or it had its answer. */
static struct tcp_out *
find_asked(struct tcp_peer *peer, uint32_t id)
{
    struct tcp_out *out = tp_map_get(&peer->out, id);

    if (out == NULL || out->status != TELPHER_IN_PROGRESS || out->asked) {
        return NULL;
    }
    out->asked = true;
    peer->firsts_out -= out->first;
    return out;
}

static void
on_go(struct tcp_conn *c, const struct tp_tcp_frame *f)
{
    struct tcp_out *out = find_asked(c->peer, f->id);
    struct tcp_conn *way = c->peer->conn;

    if (out == NULL || way == NULL || f->len == 0 || f->len > out->len) {
        break_off(c);
        return;
    }
    c->peer->drops = false;
    out->len = (size_t)f->len;
    if (out->sent >= out->len) {
        tp_tcp_net_end(out, TELPHER_OK);
        return;
    }
    tp_list_push_back(&way->sending, &out->link);
    tp_tcp_net_flush(way);
}

static void
on_drop(struct tcp_conn *c, const struct tp_tcp_frame *f)
{
    struct tcp_out *out = find_asked(c->peer, f->id);

    if (out == NULL) {
        break_off(c);
        return;
    }
    c->peer->drops = true;
    tp_tcp_net_end(out, TELPHER_ERR_CANCELED);
}

static void
on_data(struct tcp_conn *c, const struct tp_tcp_frame *f)
{
    struct tp_net_bulk *bulk = tp_map_get(&c->peer->in, f->id);

    if (bulk == NULL || bulk->dst == NULL || f->len == 0 ||
        bulk->promised >= bulk->want || f->len > bulk->want - bulk->promised) {
        break_off(c);
        return;
    }
    expect(c, bulk, (size_t)f->len);
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

/* Where the next bytes of a bulk belong. @return [bytes] of room; 0: they are not wanted */
static size_t
room_for(const struct tcp_conn *c, uint8_t **ret_dst)
{
    const struct tp_net_bulk *bulk = c->into;

    if (bulk->kept != NULL) {
        *ret_dst = bulk->kept + bulk->got;
        return c->into_left;
    }
    if (bulk->dst == NULL || bulk->got >= bulk->want) {
        return 0;
    }
    *ret_dst = bulk->dst + bulk->got;
    return TP_MIN(c->into_left, bulk->want - bulk->got);
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
    bulk->coming = false;
    if (bulk->dropped || (bulk->dst != NULL && bulk->got >= bulk->want)) {
        bool dropped = bulk->dropped;

        tp_map_remove(&bulk->peer->in, bulk->id);
        tp_tcp_net_free_bulk(bulk);
        if (!dropped) {
            op->done(op, TELPHER_OK);
        }
    }
}

/* The same, of what lies in the buffer. @return false: there is none */
static bool
take_data(struct tcp_conn *c)
{
    size_t len = TP_MIN(c->in_end - c->in_start, c->into_left);
    uint8_t *dst = NULL;
    size_t wanted = TP_MIN(room_for(c, &dst), len);

    if (wanted != 0) {
        memcpy(dst, c->in + c->in_start, wanted);
    }
    c->in_start += len;
    advance(c, len);
    return len != 0;
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
        return take_data(c);
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
        c->bulky = false; /* the rest at once */
        return false;
    }
    at += sizeof(f);
    c->in_start += whole;
    switch (f.type) {
    case TP_TCP_EAGER_FRAME:
        c->bulky = c->bulky && f.len < BEHIND;
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

/* Receives once: to where data belongs if we are inside a frame of it, else to the buffer.
 * @param ret_more  is there likely more? */
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
    if (c->into != NULL && c->in_start == c->in_end) {
        direct = room_for(c, &dst);
    }
    if (direct != 0) {
        iov[count++] = (struct iovec){dst, direct};
    }
    /* What comes next is most often more of a bulk: no more of it than small frames have
     * goes where it would be copied from. */
    room = IN - c->in_end;
    if (direct != 0 || (c->bulky && c->into == NULL)) {
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
        if (c->into == NULL && !more) {
            break; /* that was all */
        }
    }
    return count;
}
