/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport loop: a pair of byte queues under one lock. The pair lives until both of its
 * ends have been destroyed.
 */
#include "transport/loop/test/loop.h"

#include <string.h>

#include "base/alloc.h"
#include "base/container/buf.h"
#include "base/os/thread.h"

enum { CAPACITY_DEFAULT = 256 << 10 };

struct pair;

struct loop_conn {
    struct tp_conn base;
    struct pair *pair; /* never changes */
    /* pair->lock: */
    struct tp_buf in; /* sent by the other end, not yet received here */
    size_t send_max, recv_max, capacity;
    bool down; /* this end was shut down */
    bool alive; /* not yet destroyed */
};

struct pair {
    struct tp_mutex lock;
    struct tp_cond changed;
    struct loop_conn ends[2];
};

static struct loop_conn *
loop_conn(struct tp_conn *c)
{
    return tp_container_of(c, struct loop_conn, base);
}

static struct loop_conn *
peer_of(struct loop_conn *c)
{
    return c == &c->pair->ends[0] ? &c->pair->ends[1] : &c->pair->ends[0];
}

/* [bytes] that this end may send now. */
static size_t
send_room(struct loop_conn *c)
{
    size_t used = tp_buf_len(&peer_of(c)->in);
    size_t room = used < c->capacity ? c->capacity - used : 0;

    return c->send_max != 0 ? TP_MIN(room, c->send_max) : room;
}

static telpher_status
append(struct tp_buf *in, const struct iovec *iov, int count, size_t room,
       size_t *ret_sent)
{
    telpher_status status = TELPHER_OK;
    size_t sent = 0;

    for (int i = 0; i < count && sent < room && status == TELPHER_OK; i++) {
        size_t len = TP_MIN(iov[i].iov_len, room - sent);

        status = tp_buf_append(in, iov[i].iov_base, len);
        sent += status == TELPHER_OK ? len : 0;
    }
    *ret_sent = sent;
    return sent != 0 ? TELPHER_OK : TELPHER_ERR_AGAIN;
}

static telpher_status
loop_send(struct tp_conn *conn, const struct iovec *iov, int count, size_t *ret_sent)
{
    struct loop_conn *c = loop_conn(conn), *peer = peer_of(c);
    telpher_status status;

    tp_mutex_lock(&c->pair->lock);
    if (c->down || peer->down) {
        status = TELPHER_ERR_PEER_LOST;
    } else {
        status = append(&peer->in, iov, count, send_room(c), ret_sent);
        tp_cond_broadcast(&c->pair->changed);
    }
    tp_mutex_unlock(&c->pair->lock);
    return status;
}

static telpher_status
loop_recv(struct tp_conn *conn, void *buf, size_t cap, size_t *ret_got)
{
    struct loop_conn *c = loop_conn(conn);
    telpher_status status = TELPHER_OK;
    size_t len;

    tp_mutex_lock(&c->pair->lock);
    len = TP_MIN(tp_buf_len(&c->in), cap);
    len = c->recv_max != 0 ? TP_MIN(len, c->recv_max) : len;
    if (c->down || (len == 0 && peer_of(c)->down)) {
        status = TELPHER_ERR_PEER_LOST;
    } else if (len == 0) {
        status = TELPHER_ERR_AGAIN;
    } else {
        memcpy(buf, tp_buf_data(&c->in), len);
        tp_buf_consume(&c->in, len);
        *ret_got = len;
        tp_cond_broadcast(&c->pair->changed);
    }
    tp_mutex_unlock(&c->pair->lock);
    return status;
}

static bool
is_ready(struct loop_conn *c, unsigned events)
{
    return c->down || peer_of(c)->down ||
           ((events & TP_WAIT_READ) != 0 && tp_buf_len(&c->in) != 0) ||
           ((events & TP_WAIT_WRITE) != 0 && send_room(c) != 0);
}

static telpher_status
loop_wait(struct tp_conn *conn, unsigned events, uint64_t deadline_ns)
{
    struct loop_conn *c = loop_conn(conn);
    telpher_status status = TELPHER_OK;

    tp_mutex_lock(&c->pair->lock);
    while (!is_ready(c, events) && status == TELPHER_OK) {
        status = tp_cond_wait(&c->pair->changed, &c->pair->lock, deadline_ns);
    }
    tp_mutex_unlock(&c->pair->lock);
    return status;
}

static int
loop_fd(struct tp_conn *conn)
{
    return -1;
}

static void
loop_shutdown(struct tp_conn *conn)
{
    struct loop_conn *c = loop_conn(conn);

    tp_mutex_lock(&c->pair->lock);
    c->down = true;
    tp_cond_broadcast(&c->pair->changed);
    tp_mutex_unlock(&c->pair->lock);
}

static void
destroy_pair(struct pair *p)
{
    tp_buf_fini(&p->ends[0].in);
    tp_buf_fini(&p->ends[1].in);
    tp_cond_fini(&p->changed);
    tp_mutex_fini(&p->lock);
    tp_free(p);
}

static void
loop_destroy(struct tp_conn *conn)
{
    struct loop_conn *c = loop_conn(conn);
    struct pair *p = c->pair;
    bool last;

    loop_shutdown(conn);
    tp_mutex_lock(&p->lock);
    c->alive = false;
    last = !peer_of(c)->alive;
    tp_mutex_unlock(&p->lock);
    if (last) {
        destroy_pair(p);
    }
}

static const struct tp_conn_ops loop_ops = {
    .send = loop_send,
    .recv = loop_recv,
    .wait = loop_wait,
    .fd = loop_fd,
    .shutdown = loop_shutdown,
    .close = loop_shutdown, /* the system holds nothing */
    .destroy = loop_destroy,
};

telpher_status
tp_loop_pair(struct tp_conn **ret_a, struct tp_conn **ret_b)
{
    struct pair *p = tp_zalloc(sizeof(*p), "loop pair");

    if (p == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_mutex_init(&p->lock);
    tp_cond_init(&p->changed);
    for (int i = 0; i < 2; i++) {
        p->ends[i].base.ops = &loop_ops;
        p->ends[i].pair = p;
        p->ends[i].capacity = CAPACITY_DEFAULT;
        p->ends[i].alive = true;
        tp_buf_init(&p->ends[i].in, 0);
    }
    *ret_a = &p->ends[0].base;
    *ret_b = &p->ends[1].base;
    return TELPHER_OK;
}

void
tp_loop_set_split(struct tp_conn *conn, size_t send_max, size_t recv_max)
{
    struct loop_conn *c = loop_conn(conn);

    tp_mutex_lock(&c->pair->lock);
    c->send_max = send_max;
    c->recv_max = recv_max;
    tp_mutex_unlock(&c->pair->lock);
}

void
tp_loop_set_capacity(struct tp_conn *conn, size_t capacity)
{
    struct loop_conn *c = loop_conn(conn);

    tp_mutex_lock(&c->pair->lock);
    c->capacity = capacity;
    tp_cond_broadcast(&c->pair->changed);
    tp_mutex_unlock(&c->pair->lock);
}
