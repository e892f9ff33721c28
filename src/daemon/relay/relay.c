/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies bytes between a client and a server in both directions. Each direction has one
 * buffer and reads again when it is empty, so a side that does not read stops the other.
 */
#include "daemon/relay/relay.h"

#include <poll.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/os/clock.h"

#define SILENCE (10 * TP_CLOCK_S) /* without an answer of a machine: it is lost */
#define LOOK TP_CLOCK_S /* how often that is checked */
#define LINGER (2 * TP_CLOCK_S) /* for the last bytes when a side has closed */

enum { BUFFER_BYTES = 256 << 10 };

/** One direction. */
struct pump {
    struct tp_conn *from, *to;
    uint8_t *buf;
    size_t start, end; /* bytes [start, end) are not sent yet */
    bool closed; /* `from` has */
    bool blocked; /* `to` takes nothing more */
};

static bool
is_empty(const struct pump *p)
{
    return p->start == p->end;
}

/* Receives into an empty buffer. @return true if bytes arrived */
static bool
fill(struct pump *p)
{
    size_t got = 0;
    telpher_status status;

    if (p->closed || p->blocked || !is_empty(p)) {
        return false;
    }
    status = p->from->ops->recv(p->from, p->buf, BUFFER_BYTES, &got);
    p->closed = status != TELPHER_OK && status != TELPHER_ERR_AGAIN;
    p->start = 0;
    p->end = got;
    return got > 0;
}

/* Sends what the buffer has. @return true if bytes left */
static bool
drain(struct pump *p)
{
    const struct iovec iov = {p->buf + p->start, p->end - p->start};
    size_t sent = 0;
    telpher_status status;

    if (is_empty(p)) {
        return false;
    }
    status = p->to->ops->send(p->to, &iov, 1, &sent);
    p->start += sent;
    if (status != TELPHER_OK && status != TELPHER_ERR_AGAIN) {
        p->blocked = true;
        p->start = p->end;
    }
    return sent > 0;
}

/* Moves bytes until neither direction can go on. */
static void
move_all(struct pump pumps[2])
{
    bool moved;

    do {
        moved = false;
        for (int i = 0; i < 2; i++) {
            moved |= fill(&pumps[i]);
            moved |= drain(&pumps[i]);
        }
    } while (moved);
}

static short
events_of(const struct pump *reads, const struct pump *writes)
{
    return (short)((!reads->closed && !reads->blocked && is_empty(reads) ? POLLIN : 0) |
                   (is_empty(writes) ? 0 : POLLOUT));
}

/* Sleeps until a side is ready, @p until has passed, or it is time to look again. */
static void
await(const struct pump pumps[2], tp_ns until)
{
    struct pollfd fds[2];

    for (int i = 0; i < 2; i++) {
        short events = events_of(&pumps[i], &pumps[1 - i]);
        struct tp_conn *side = pumps[i].from;

        /* without events, a side that has closed would wake us again and again */
        fds[i] = (struct pollfd){.fd = events != 0 ? side->ops->fd(side) : -1,
                                 .events = events};
    }
    (void)poll(fds, 2, tp_clock_poll_ms(TP_MIN(until, tp_clock_deadline(LOOK))));
}

static bool
watch_side(struct tp_conn *c)
{
    return c->ops->watch != NULL && c->ops->watch(c, SILENCE);
}

static bool
is_lost(struct tp_conn *c, bool watched)
{
    return watched && c->ops->is_silent(c, SILENCE);
}

/* True if a side has closed and all of its bytes have been sent. */
static bool
has_ended(const struct pump pumps[2])
{
    return (pumps[0].closed && is_empty(&pumps[0])) ||
           (pumps[1].closed && is_empty(&pumps[1]));
}

static bool
is_ending(const struct pump pumps[2])
{
    return pumps[0].closed || pumps[1].closed || pumps[0].blocked || pumps[1].blocked;
}

static void
copy(struct pump pumps[2])
{
    bool watched[2] = {watch_side(pumps[0].from), watch_side(pumps[1].from)};
    tp_ns until = TP_CLOCK_FOREVER;

    for (;;) {
        move_all(pumps);
        if (until == TP_CLOCK_FOREVER && is_ending(pumps)) {
            until = tp_clock_deadline(LINGER);
        }
        if (has_ended(pumps) || tp_clock_passed(until) ||
            is_lost(pumps[0].from, watched[0]) || is_lost(pumps[1].from, watched[1])) {
            return;
        }
        await(pumps, until);
    }
}

void
tp_relay_run(struct tp_conn *a, struct tp_conn *b)
{
    uint8_t *buf = tp_malloc((size_t)2 * BUFFER_BYTES, "relay");
    struct pump pumps[2] = {{.from = a, .to = b, .buf = buf},
                            {.from = b, .to = a, .buf = buf + BUFFER_BYTES}};

    if (buf != NULL) {
        copy(pumps);
    }
    tp_free(buf);
}
