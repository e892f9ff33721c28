/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two engines exchange rendezvous over a transport of the test's that delays, splits,
 * refuses, fails and, in some runs, loses the peer, lacks memory or falsifies frames.
 * Each operation must complete exactly once. Data that is reported as received must be
 * the sender's, and a completed send's memory may be reused at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/comm/rndv/rndv_int.h"

enum {
    SIDES = 2,
    OPS = 6, /* sends, and receives, of a side at a time */
    LEN = 3000, /* [bytes] at most, but for one operation in a while */
    LONG_LEN = (5 << 20) / 2, /* more than a turn and a slice of the engine */
    FIRST = 600, /* [bytes] of first data */
    WIRE = 256, /* frames and parts under way */
    STEPS = 2000, /* of a run while operations begin */
    LAST_STEPS = 200000, /* until all must have completed */
    RUNS = 12
};

enum fault { NONE, LOSS, MEMORY, FALSE_FRAMES, FAULTS };

/* A frame with its first data, or a part of rendezvous data in the sender's memory. */
struct packet {
    bool is_data;
    uint8_t frame[TP_NET_CONTROL_MAX], first[FIRST];
    size_t len, first_len;
    uint32_t id;
    const uint8_t *src;
    size_t done, all;
    size_t taken; /* [bytes] to report as left */
    void *arg;
};

struct send {
    struct tp_net_op op;
    bool busy;
    size_t len;
    uint8_t *memory;
};

struct receive {
    struct tp_net_op op;
    bool busy;
    size_t len;
    uint8_t fill; /* of the data, by the offer's header */
    uint8_t *memory;
};

struct offer {
    struct tp_net_rndv *rndv; /* NULL: none */
    uint8_t fill;
    size_t len;
};

struct side {
    struct tp_net net;
    const struct tp_net_events *events;
    void *user;
    struct packet wire[WIRE]; /* what it sent */
    unsigned head, tail; /* next to send, next to deliver */
    unsigned left; /* parts before this one were reported as left */
    bool closing, lost;
    struct send sends[OPS];
    struct receive receives[OPS];
    struct offer offers[4 * OPS];
    unsigned completed;
};

static struct side sides[SIDES];
static uint8_t memory[SIDES][2][OPS][LEN], long_memory[SIDES][2][LONG_LEN];
static enum fault fault;
static bool begins; /* operations begin */
static uint64_t seed;

static unsigned
draw(unsigned below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % below;
}

static bool
is_one_of(unsigned many)
{
    return draw(many) == 0;
}

/* ---- the transport ---- */

static struct side *
side_of(struct tp_net *net)
{
    return tp_container_of(net, struct side, net);
}

static struct side *
other(struct side *s)
{
    return s == &sides[0] ? &sides[1] : &sides[0];
}

static telpher_status
wire_create(const struct tp_net_params *params, struct tp_net **ret_net,
            struct tp_error *err)
{
    struct side *s = &sides[params->rank];

    (void)err;
    s->events = params->events;
    s->user = params->user;
    *ret_net = &s->net;
    return TELPHER_OK;
}

static struct packet *
post(struct side *s)
{
    struct packet *p = &s->wire[s->head++ % WIRE];

    memset(p, 0, sizeof(*p));
    return p;
}

static bool
has_room(const struct side *s)
{
    return s->head - s->left < WIRE && !is_one_of(8);
}

static telpher_status
wire_control(struct tp_net *net, uint32_t peer, const void *frame, size_t len,
             const void *data, size_t data_len)
{
    struct side *s = side_of(net);
    struct packet *p;

    assert_int_equal(peer, s == &sides[0]);
    assert_true(len <= sizeof(p->frame) && data_len <= FIRST);
    if (s->closing) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (!has_room(s)) {
        return TELPHER_ERR_AGAIN;
    }
    p = post(s);
    memcpy(p->frame, frame, len);
    p->len = len;
    p->first_len = data_len;
    if (data_len != 0) {
        memcpy(p->first, data, data_len);
    }
    return TELPHER_OK;
}

static size_t
wire_write(struct tp_net *net, uint32_t peer, uint32_t id, const void *src, size_t len,
           void *arg)
{
    struct side *s = side_of(net);
    struct packet *p;

    (void)peer;
    if (s->closing || !has_room(s)) {
        return 0;
    }
    p = post(s);
    p->is_data = true;
    p->id = id;
    p->src = src;
    p->all = len > LEN ? TP_MIN(len, (size_t)700000) : 1 + draw((unsigned)len);
    p->taken = p->all;
    p->arg = arg;
    if (p->all <= FIRST && is_one_of(2)) { /* copies it */
        memcpy(p->first, src, p->all);
        p->src = p->first;
        p->taken = 0;
        s->events->data_sent(s->user, arg, p->all);
    }
    return p->all;
}

static bool
wire_is_idle(struct tp_net *net, uint32_t peer)
{
    (void)peer;
    return !side_of(net)->closing && !is_one_of(3);
}

static enum tp_net_get
wire_can_get(struct tp_net *net, uint32_t peer)
{
    (void)net, (void)peer;
    return (enum tp_net_get)draw(3);
}

/* True if this is memory of a send that is under way. */
static bool
is_exported(const struct side *s, uint64_t address, size_t len)
{
    for (unsigned i = 0; i < OPS; i++) {
        uint64_t at = (uintptr_t)s->sends[i].memory;

        if (s->sends[i].busy && address >= at && address - at <= s->sends[i].len &&
            len <= s->sends[i].len - (address - at)) {
            return true;
        }
    }
    return false;
}

static telpher_status
wire_get(struct tp_net *net, uint32_t peer, uint64_t address, void *dst, size_t len)
{
    struct side *s = side_of(net);
    bool exported = is_exported(other(s), address, len);

    (void)peer;
    if (s->closing || other(s)->closing) {
        s->closing = true;
        return TELPHER_ERR_PEER_LOST;
    }
    assert_true(exported || fault == FALSE_FRAMES);
    if (!exported || is_one_of(16)) {
        return is_one_of(2) ? TELPHER_ERR_UNSUPPORTED : TELPHER_ERR_IO;
    }
    memcpy(dst, (const void *)(uintptr_t)address, len);
    return TELPHER_OK;
}

static void
wire_close_peer(struct tp_net *net, uint32_t peer)
{
    (void)peer;
    assert_int_not_equal(fault, NONE);
    side_of(net)->closing = true;
}

/* True if this is memory of a receive that is under way. */
static bool
is_posted(const struct side *s, const uint8_t *dst, size_t len)
{
    for (unsigned i = 0; i < OPS; i++) {
        const struct receive *r = &s->receives[i];

        if (r->busy && dst >= r->memory && dst + len <= r->memory + r->len) {
            return true;
        }
    }
    return false;
}

/* Delivers some of a part, or of first data. @return true if all of it was */
static bool
deliver_data(struct side *to, struct packet *p, const uint8_t *src, size_t all,
             uint32_t id)
{
    uint32_t from = to == &sides[0];

    while (p->done < all) {
        size_t left = all - p->done, len = left > LEN ? left : 1 + draw((unsigned)left);
        uint8_t *dst = NULL;
        size_t room = 0;

        if (!to->events->data_at(to->user, from, id, left, &dst, &room)) {
            assert_int_not_equal(fault, NONE);
            assert_true(to->closing);
            return false;
        }
        assert_true(room <= left);
        assert_true(room == 0 || id == 0 || is_posted(to, dst, room));
        if (TP_MIN(room, len) != 0) {
            memcpy(dst, src + p->done, TP_MIN(room, len));
        }
        to->events->data_received(to->user, from, id, len);
        p->done += len;
        if (to->closing || is_one_of(4)) {
            break;
        }
    }
    return p->done == all;
}

static void
falsify(struct packet *p)
{
    struct tp_rndv_frame f;

    if (p->is_data) {
        if (is_one_of(2)) {
            p->id = draw(12);
        } else {
            p->src = p->first;
            p->all = FIRST;
        }
        return;
    }
    memcpy(&f, p->frame, sizeof(f));
    switch (draw(6)) {
    case 0:
        f.kind = draw(7);
        break;
    case 1:
        f.id = draw(12);
        break;
    case 2:
        f.len = is_one_of(2) ? draw(2 * LEN) : UINT64_MAX - draw(3);
        break;
    case 3:
        f.at = is_one_of(2) ? draw(12) : UINT64_MAX - draw(3);
        break;
    case 4:
        p->len = draw(TP_NET_CONTROL_MAX + 1);
        break;
    default:
        p->first_len = draw(FIRST + 1);
    }
    memcpy(p->frame, &f, sizeof(f));
}

static void
deliver(struct side *to, struct side *from)
{
    struct packet *p = &from->wire[from->tail % WIRE];
    uint32_t rank = to == &sides[0];

    if (p->is_data) {
        if (fault == FALSE_FRAMES && p->done == 0 && is_one_of(40)) {
            falsify(p);
        }
        if (deliver_data(to, p, p->src, p->all, p->id)) {
            from->tail++;
        }
        return;
    }
    if (p->len != 0) {
        if (fault == FALSE_FRAMES && is_one_of(40)) {
            falsify(p);
        }
        to->events->on_control(to->user, rank, p->frame, p->len, p->first_len);
        if (fault == FALSE_FRAMES && is_one_of(60) && p->first_len == 0) {
            return; /* it arrives a second time */
        }
        p->len = 0;
    }
    if (to->closing || deliver_data(to, p, p->first, p->first_len, 0)) {
        from->tail++;
    }
}

/* Reports parts that were delivered. The receiver of a lost peer's parts has none. */
static void
report_left(struct side *s)
{
    for (; s->left != s->tail && !s->closing; s->left++) {
        struct packet *p = &s->wire[s->left % WIRE];

        if (p->taken != 0) {
            s->events->data_sent(s->user, p->arg, p->taken);
        }
    }
}

static unsigned
wire_progress(struct tp_net *net)
{
    struct side *s = side_of(net), *peer = other(s);

    for (unsigned i = draw(6); i != 0 && !s->closing && peer->tail != peer->head; i--) {
        deliver(s, peer);
    }
    report_left(s);
    if (!s->lost && (s->closing || peer->lost)) {
        s->closing = s->lost = true;
        s->tail = s->left = s->head; /* the peer reads no more of this memory */
        s->events->on_lost(s->user, s == &sides[0], TELPHER_ERR_PEER_LOST);
    }
    return 1;
}

static void
wire_destroy(struct tp_net *net)
{
    (void)net;
}

static const struct tp_net_ops wire = {.name = "wire",
                                       .create = wire_create,
                                       .control = wire_control,
                                       .write_data = wire_write,
                                       .is_idle = wire_is_idle,
                                       .can_get = wire_can_get,
                                       .get = wire_get,
                                       .close_peer = wire_close_peer,
                                       .progress = wire_progress,
                                       .destroy = wire_destroy};

/* ---- its user ---- */

static void begin_send(struct side *s);

static void
sent(struct tp_net_op *op, telpher_status status)
{
    struct send *send = tp_container_of(op, struct send, op);
    struct side *s = &sides[send < sides[1].sends ? 0 : 1];

    assert_true(send->busy);
    assert_true(status == TELPHER_OK || status == TELPHER_ERR_CANCELED ||
                status == TELPHER_ERR_IO ||
                (status == TELPHER_ERR_PEER_LOST && fault != NONE));
    send->busy = false;
    memset(send->memory, 0xee, send->len); /* not borrowed any more */
    s->completed++;
    if (is_one_of(2)) {
        begin_send(s);
    }
}

static void
received(struct tp_net_op *op, telpher_status status)
{
    struct receive *r = tp_container_of(op, struct receive, op);

    assert_true(r->busy);
    r->busy = false;
    if (status == TELPHER_OK && fault != FALSE_FRAMES) {
        for (size_t i = 0; i < r->len; i += 1 + i / 2000) {
            assert_int_equal(r->memory[i], (uint8_t)(r->fill + i));
        }
        assert_int_equal(r->memory[r->len - 1], (uint8_t)(r->fill + r->len - 1));
    }
    memset(r->memory, 0xdd, r->len);
}

static void
begin_send(struct side *s)
{
    unsigned of = (unsigned)(s - sides), i = draw(OPS);
    struct send *send = &s->sends[i];
    bool is_long = i == 0 && is_one_of(40);
    uint8_t fill = (uint8_t)draw(256);
    telpher_status status;

    if (!begins || send->busy) {
        return;
    }
    send->memory = is_long ? long_memory[of][0] : memory[of][0][i];
    send->len = is_long ? LONG_LEN : 1 + draw(LEN);
    send->op.done = sent;
    for (size_t at = 0; at < send->len; at++) {
        send->memory[at] = (uint8_t)(fill + at);
    }
    send->busy = true;
    status =
        tp_rndv_send(&s->net, of == 0, &fill, 1, send->memory, send->len, &send->op);
    if (status != TELPHER_OK) {
        assert_true(status == TELPHER_ERR_AGAIN || fault != NONE);
        send->busy = false;
    }
}

static void
answer(struct side *s, struct offer *o)
{
    struct tp_net_rndv *rndv = o->rndv;
    unsigned of = (unsigned)(s - sides), i = o->len > LEN ? 0 : draw(OPS);
    struct receive *r = &s->receives[i];

    if (is_one_of(4)) {
        o->rndv = NULL;
        tp_rndv_reject(&s->net, rndv);
        return;
    }
    if (r->busy || o->len > LONG_LEN) {
        return; /* later, by another or by a rejection */
    }
    o->rndv = NULL;
    *r = (struct receive){.busy = true, .fill = o->fill, .op.done = received};
    r->len = is_one_of(2) ? o->len : 1 + draw((unsigned)o->len);
    r->memory = r->len > LEN ? long_memory[of][1] : memory[of][1][i];
    tp_rndv_recv(&s->net, rndv, r->memory, r->len, &r->op);
}

static void
on_rndv(void *user, uint32_t from, const void *header, size_t header_len, uint64_t len,
        struct tp_net_rndv *rndv)
{
    struct side *s = user;

    assert_int_equal(from, s == &sides[0]);
    for (size_t i = 0; i < TP_ARRAY_LEN(s->offers); i++) {
        struct offer *o = &s->offers[i];

        if (o->rndv == NULL) {
            *o = (struct offer){.rndv = rndv, .len = (size_t)len};
            o->fill = header_len != 0 ? *(const uint8_t *)header : 0;
            if (is_one_of(2)) {
                answer(s, o);
            }
            return;
        }
    }
    assert_int_equal(fault, FALSE_FRAMES); /* more than the peer's sends */
    tp_rndv_reject(&s->net, rndv);
}

static void
on_lost(void *user, uint32_t rank, telpher_status why)
{
    struct side *s = user;

    (void)rank, (void)why;
    assert_int_not_equal(fault, NONE);
    for (unsigned i = 0; i < OPS; i++) {
        assert_false(s->sends[i].busy || s->receives[i].busy);
    }
    memset(s->offers, 0, sizeof(s->offers)); /* void */
}

/* ---- the runs ---- */

static void
step(struct side *s)
{
    if (fault == MEMORY && begins && is_one_of(200)) {
        tp_alloc_fail_nth(1 + draw(4));
    }
    if (is_one_of(2)) {
        begin_send(s);
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(s->offers) && !s->lost; i++) {
        if (s->offers[i].rndv != NULL && is_one_of(4)) {
            answer(s, &s->offers[i]);
        }
    }
    (void)tp_rndv_progress(&s->net);
}

static bool
has_ended(const struct side *s)
{
    bool busy = false;

    for (unsigned i = 0; i < OPS; i++) {
        busy = busy || s->sends[i].busy || s->receives[i].busy;
    }
    return !busy;
}

static void
start(unsigned run)
{
    static const struct tp_net_events events = {.on_rndv = on_rndv, .on_lost = on_lost};

    seed = run;
    memset(sides, 0, sizeof(sides));
    for (uint32_t i = 0; i < SIDES; i++) {
        const struct tp_net_params params = {
            .rank = i, .size = SIDES, .events = &events, .user = &sides[i]};
        struct tp_net *net;

        sides[i].net = (struct tp_net){.ops = &wire, .first_max = run % 2 * FIRST};
        assert_int_equal(tp_rndv_create(&wire, &params, &net, NULL), TELPHER_OK);
    }
}

static void
run_once(unsigned run)
{
    unsigned last = draw(STEPS);

    begins = true;
    for (unsigned i = 0; i < STEPS; i++) {
        if (fault == LOSS && i == last) {
            sides[draw(SIDES)].closing = true;
        }
        step(&sides[draw(SIDES)]);
    }
    begins = false;
    if (fault == FALSE_FRAMES) { /* else a false answer may be waited for */
        sides[0].closing = true;
    }
    tp_alloc_fail_nth(0);
    for (unsigned i = 0;
         i < LAST_STEPS && !(has_ended(&sides[0]) && has_ended(&sides[1])); i++) {
        step(&sides[i % SIDES]);
    }
    if (!has_ended(&sides[0]) || !has_ended(&sides[1])) {
        fail_msg("run %u: operations did not complete", run);
    }
    assert_true(sides[0].completed + sides[1].completed >
                (fault == NONE ? STEPS / 20 : 0));
}

static void
run_many(enum fault which)
{
    uint64_t live = tp_alloc_live();

    fault = which;
    for (unsigned run = 1; run <= RUNS; run++) {
        start(run);
        run_once(run);
        tp_rndv_destroy(&sides[0].net);
        tp_rndv_destroy(&sides[1].net);
        assert_int_equal(tp_alloc_live(), live);
    }
}

static void
test_slow_transport(void **state)
{
    (void)state;
    run_many(NONE);
}

static void
test_lost_peer(void **state)
{
    (void)state;
    run_many(LOSS);
}

static void
test_no_memory(void **state)
{
    (void)state;
    run_many(MEMORY);
}

static void
test_false_frames(void **state)
{
    (void)state;
    run_many(FALSE_FRAMES);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_transport),
        cmocka_unit_test(test_lost_peer),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_false_frames),
    };

    return cmocka_run_group_tests_name("rndv, random", tests, NULL, NULL);
}
