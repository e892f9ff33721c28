/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets TRANSPORT
 *
 * Tests the contract of src/waist/net.h over one transport: order, sizes, room, rendezvous data
 * received in any way, sleep, leaving. Ranks are processes, and threads where that matters.
 */
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/pattern.h"
#include "world.h"

static const char *transport;
static bool copies;

static bool
run(uint32_t size, bool threads, const struct hooks *hooks, void (*fn)(struct world *w))
{
    const struct world_params params = {.transport = transport,
                                        .size = size,
                                        .threads = threads,
                                        .killed = UINT32_MAX,
                                        .copies = copies,
                                        .hooks = hooks,
                                        .fn = fn};

    return world_run(&params);
}

/* ---- order, sizes, contents ---- */

enum { STEPS = 400, BIG = 64 << 20 };

/** Header of each message. */
struct mark {
    uint32_t number;
    uint32_t seed;
    uint64_t len;
};

struct block {
    struct tp_net_op op;
    struct world *w;
    struct talk *talk;
    struct mark mark;
    uint8_t *memory;
    size_t offset; /* of the data: it need not be aligned */
    unsigned done;
};

struct talk {
    uint32_t next[RANKS_MAX]; /* number expected from each */
    uint32_t pending; /* ops */
    uint32_t steps;
    bool big;
};

static size_t
size_of_step(const struct world *w, uint32_t step)
{
    size_t eager = w->net->eager_max, bulk = w->net->rndv_min;
    const size_t sizes[] = {0,        1,           7,
                            8,        64,          247,
                            248,      249,         503,
                            504,      505,         1000,
                            1023,     bulk - 1,    bulk,
                            bulk + 1, eager - 150, eager - sizeof(struct mark),
                            eager,    eager + 1,   3 * eager + 13,
                            300001,   1 << 20};

    return sizes[step % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void
take_mark(struct world *w, uint32_t from, const void *header, size_t header_len,
          uint64_t len, struct mark *ret)
{
    struct talk *t = w->user;
    const uint8_t *bytes = header;

    MUST(w, header_len >= sizeof(*ret) && header_len <= TP_NET_HEADER_MAX);
    memcpy(ret, header, sizeof(*ret));
    for (size_t i = sizeof(*ret); i < header_len; i++) {
        MUST(w, bytes[i] == (uint8_t)i);
    }
    MUST(w, ret->number == t->next[from]);
    MUST(w, ret->len == len);
    t->next[from]++;
}

static void
talk_message(struct world *w, uint32_t from, const void *header, size_t header_len,
             const void *data, size_t len)
{
    struct mark mark;

    take_mark(w, from, header, header_len, len, &mark);
    MUST(w, pattern_matches(data, len, mark.seed));
}

static void
received(struct tp_net_op *op, telpher_status status)
{
    struct block *b = (struct block *)(void *)op;

    MUST(b->w, status == TELPHER_OK && ++b->done == 1);
    MUST(b->w, pattern_matches(b->memory + b->offset, b->mark.len, b->mark.seed));
    b->talk->pending--;
    free(b->memory);
    free(b);
}

static struct block *
make_block(struct world *w, const struct mark *mark)
{
    struct block *b = calloc(1, sizeof(*b));

    MUST(w, b != NULL);
    *b = (struct block){
        .w = w, .talk = w->user, .mark = *mark, .offset = mark->number % 5};
    b->memory = malloc(mark->len + b->offset);
    MUST(w, b->memory != NULL);
    b->talk->pending++;
    return b;
}

static void
talk_bulk(struct world *w, uint32_t from, const void *header, size_t header_len,
          uint64_t len, struct tp_net_rndv *bulk)
{
    struct mark mark;
    struct block *b;

    take_mark(w, from, header, header_len, len, &mark);
    b = make_block(w, &mark);
    b->op.done = received;
    tp_rndv_recv(w->net, bulk, b->memory + b->offset, len, &b->op);
}

static void
sent(struct tp_net_op *op, telpher_status status)
{
    struct block *b = (struct block *)(void *)op;

    MUST(b->w, status == TELPHER_OK && ++b->done == 1);
    b->talk->pending--;
    free(b->memory);
    free(b);
}

static void
send_step(struct world *w, uint32_t peer, uint32_t step, size_t len)
{
    struct {
        struct mark mark;
        uint8_t more[TP_NET_HEADER_MAX - sizeof(struct mark)];
    } header = {.mark = {step, step + w->rank * 17 + peer, len}};
    size_t header_len = sizeof(struct mark) + (step * 13) % (sizeof(header.more) + 1);
    struct block *b = make_block(w, &header.mark);
    telpher_status status;

    for (size_t i = 0; i < sizeof(header.more); i++) {
        header.more[i] = (uint8_t)(i + sizeof(struct mark));
    }
    pattern_fill(b->memory + b->offset, len, header.mark.seed);
    if (len == 0 || (header_len + len <= w->net->eager_max && step % 3 != 0)) {
        world_send(w, peer, &header, header_len, b->memory + b->offset, len);
        sent(&b->op, TELPHER_OK);
        return;
    }
    b->op.done = sent;
    UNTIL(w, (status = tp_rndv_send(w->net, peer, &header, header_len,
                                    b->memory + b->offset, len, &b->op)) !=
                 TELPHER_ERR_AGAIN);
    MUST(w, status == TELPHER_OK);
}

static bool
has_heard_all(const struct world *w, const struct talk *t)
{
    for (uint32_t r = 0; r < w->size; r++) {
        if (r != w->rank && t->next[r] != t->steps) {
            return false;
        }
    }
    return t->pending == 0;
}

static void
talk(struct world *w)
{
    struct talk t = {.steps = STEPS};

    w->user = &t;
    for (uint32_t r = 0; r < w->size; r++) {
        if (r != w->rank) {
            world_connect(w, r); /* both sides at once */
        }
    }
    for (uint32_t i = 0; i < t.steps; i++) {
        for (uint32_t r = 0; r < w->size; r++) {
            if (r != w->rank) {
                send_step(w, r, i, size_of_step(w, i));
            }
        }
    }
    UNTIL(w, has_heard_all(w, &t));
    MUST(w, w->lost[0] + w->lost[1] == 0);
    world_barrier(w); /* behind it the others leave */
}

/* One side connects only when it was spoken to, and 64 MiB go both ways. */
static void
talk_big(struct world *w)
{
    struct talk t = {.steps = 2};

    w->user = &t;
    if (w->rank == 0) {
        world_connect(w, 1);
        send_step(w, 1, 0, BIG + 1);
    }
    UNTIL(w, t.next[1 - w->rank] != 0 || w->rank == 0);
    world_connect(w, 1 - w->rank);
    if (w->rank == 1) {
        send_step(w, 0, 0, BIG);
    }
    send_step(w, 1 - w->rank, 1, 5);
    UNTIL(w, has_heard_all(w, &t));
    world_barrier(w);
}

static void
test_talk(void **state)
{
    static const struct hooks hooks = {talk_message, talk_bulk, NULL};

    (void)state;
    assert_true(run(2, false, &hooks, talk));
    assert_true(run(4, false, &hooks, talk));
    assert_true(run(4, true, &hooks, talk));
    assert_true(run(2, false, &hooks, talk_big));
}

/* ---- room ---- */

static void
flood(struct world *w)
{
    static uint8_t data[1000];
    struct talk t = {0};
    uint32_t number = 0;

    w->user = &t;
    if (w->rank == 0) {
        telpher_status status = TELPHER_OK;

        world_connect(w, 1);
        while (status == TELPHER_OK && number < 1000000) {
            const struct mark mark = {number, number, sizeof(data)};

            pattern_fill(data, sizeof(data), number);
            status = w->ops->send(w->net, 1, &mark, sizeof(mark), data, sizeof(data));
            number += status == TELPHER_OK;
            (void)world_step(w);
        }
        MUST(w, status == TELPHER_ERR_AGAIN); /* what nobody reads does not pile up */
        atomic_store(&w->shared->words[0], number);
        pattern_fill(data, sizeof(data), number);
        world_send(w, 1, &(struct mark){number, number, sizeof(data)},
                   sizeof(struct mark), data, sizeof(data));
    } else {
        while (atomic_load(&w->shared->words[0]) == 0) {
            tp_clock_sleep(TP_CLOCK_MS);
        }
        number = atomic_load(&w->shared->words[0]);
        UNTIL(w, t.next[0] == number + 1);
    }
    world_barrier(w);
}

static void
test_room(void **state)
{
    static const struct hooks hooks = {talk_message, talk_bulk, NULL};

    (void)state;
    assert_true(run(2, false, &hooks, flood));
}

/* ---- the first message after a pause ---- */

static void
pause_and_send(struct world *w)
{
    _Atomic uint32_t *paused = &w->shared->words[0], *sent = &w->shared->words[1];

    if (w->rank == 0) {
        world_connect(w, 1);
        world_send(w, 1, "", 1, NULL, 0);
        UNTIL(w, atomic_load(paused) == 1);
        for (int i = 0; i < 3; i++) {
            world_send(w, 1, "", 1, NULL, 0);
        }
        atomic_store(sent, 1);
    } else {
        UNTIL(w, w->messages == 1 && world_step(w) == 0);
        atomic_store(paused, 1);
        while (atomic_load(sent) == 0) {
            sched_yield();
        }
        MUST(w, tp_rndv_progress(w->net) == 1 && w->messages == 2);
        MUST(w, tp_rndv_progress(w->net) == 2 && w->messages == 4);
    }
    world_barrier(w);
}

/* Shared memory delivers it alone, since its reader may wait for it. */
static void
test_pause(void **state)
{
    static const struct hooks hooks = {NULL, NULL, NULL};

    (void)state;
    assert_true(strcmp(transport, "shm") != 0 || run(2, false, &hooks, pause_and_send));
}

/* ---- bulk taken late, in part, not at all ---- */

enum { BULKS = 300, BULK_BYTES = 20000 };

struct late {
    struct world *w;
    struct tp_net_rndv *bulks[BULKS];
    struct tp_net_op ops[BULKS];
    unsigned done[BULKS];
    telpher_status status[BULKS];
    unsigned came, ended;
    uint8_t *memory;
};

static void
late_bulk(struct world *w, uint32_t from, const void *header, size_t header_len,
          uint64_t len, struct tp_net_rndv *bulk)
{
    struct late *l = w->user;
    uint32_t i;

    (void)from;
    MUST(w, header_len == sizeof(i) && len == BULK_BYTES);
    memcpy(&i, header, sizeof(i));
    MUST(w, i == l->came && i < BULKS);
    l->bulks[l->came++] = bulk;
}

static struct late *the_late; /* of this process */

static void
late_done(struct tp_net_op *op, telpher_status status)
{
    struct late *l = the_late;
    size_t i = (size_t)(op - l->ops);

    MUST(l->w, i < BULKS && ++l->done[i] == 1);
    l->status[i] = status;
    l->ended++;
}

static size_t
late_want(const struct world *w, unsigned i)
{
    size_t part = w->net->whole ? BULK_BYTES : 1 + i * 61;

    return i % 3 == 0 ? BULK_BYTES : i % 3 == 1 ? part : 0;
}

static void
late_take(struct world *w, struct late *l)
{
    unsigned dropped = 0;

    UNTIL(w, l->came == BULKS);
    for (unsigned k = 0; k < BULKS; k++) { /* in another order than they came */
        unsigned i = (k * 7) % BULKS;
        size_t want = late_want(w, i);

        if (want == 0) {
            tp_rndv_reject(w->net, l->bulks[i]);
            dropped++;
        } else {
            memset(l->memory + (size_t)i * BULK_BYTES, 0xee, BULK_BYTES);
            tp_rndv_recv(w->net, l->bulks[i], l->memory + (size_t)i * BULK_BYTES, want,
                         &l->ops[i]);
        }
    }
    UNTIL(w, l->ended == BULKS - dropped);
    for (unsigned i = 0; i < BULKS; i++) {
        const uint8_t *at = l->memory + (size_t)i * BULK_BYTES;
        size_t want = late_want(w, i);

        MUST(w, want == 0 || l->status[i] == TELPHER_OK);
        MUST(w, pattern_matches(at, want, i));
        MUST(w, want == 0 || want == BULK_BYTES || at[want] == 0xee);
    }
}

static void
late_give(struct world *w, struct late *l)
{
    for (unsigned i = 0; i < BULKS; i++) {
        uint8_t *src = l->memory + (size_t)i * BULK_BYTES;
        telpher_status status;

        pattern_fill(src, BULK_BYTES, i);
        UNTIL(w, (status = tp_rndv_send(w->net, 1, &i, sizeof(i), src, BULK_BYTES,
                                        &l->ops[i])) != TELPHER_ERR_AGAIN);
        MUST(w, status == TELPHER_OK);
    }
    UNTIL(w, l->ended == BULKS);
    for (unsigned i = 0; i < BULKS; i++) {
        MUST(w, l->status[i] ==
                    (late_want(w, i) == 0 ? TELPHER_ERR_CANCELED : TELPHER_OK));
    }
}

static void
late(struct world *w)
{
    struct late *l = calloc(1, sizeof(*l));

    MUST(w, l != NULL && (l->memory = malloc((size_t)BULKS * BULK_BYTES)) != NULL);
    the_late = l;
    l->w = w;
    w->user = l;
    for (unsigned i = 0; i < BULKS; i++) {
        l->ops[i].done = late_done;
    }
    if (w->rank == 0) {
        world_connect(w, 1);
        late_give(w, l);
    } else {
        late_take(w, l);
    }
    world_barrier(w);
    free(l->memory);
    free(l);
}

static void
test_bulk(void **state)
{
    static const struct hooks hooks = {NULL, late_bulk, NULL};

    (void)state;
    assert_true(run(2, false, &hooks, late));
}

/* Where no process may read another's memory. */
static void
test_copies(void **state)
{
    copies = true;
    test_talk(state);
    test_bulk(state);
    copies = false;
}

/* ---- sleep ---- */

enum { NAPS = 100000 };

/* Sleeps until something comes; a wake-up that is lost shows as a long sleep. */
static void
nap(struct world *w)
{
    struct pollfd p = {.fd = w->ops->fd(w->net), .events = POLLIN};

    if (p.fd >= 0 && tp_rndv_arm(w->net) == TELPHER_OK) {
        MUST(w, poll(&p, 1, 20000) == 1);
    }
    (void)tp_rndv_progress(w->net);
}

static void
naps(struct world *w)
{
    uint32_t peer = 1 - w->rank;
    unsigned seed = w->rank + 1;

    world_connect(w, peer);
    for (unsigned i = 1; i <= NAPS; i++) {
        if (w->rank == 0) {
            world_send(w, peer, &i, sizeof(i), NULL, 0);
        }
        while (w->messages < i) {
            if (rand_r(&seed) % 8 == 0) {
                (void)tp_rndv_progress(w->net);
            } else {
                nap(w);
            }
        }
        if (w->rank == 1) {
            world_send(w, peer, &i, sizeof(i), NULL, 0);
        }
    }
    world_barrier(w);
}

/* Both sleep while one has no room, and while bulk data is under way. */
static void
full_naps(struct world *w)
{
    static uint8_t data[1000];

    if (w->rank == 0) {
        world_connect(w, 1);
        for (unsigned i = 0; i < 20000; i++) {
            while (w->ops->send(w->net, 1, &i, sizeof(i), data, sizeof(data)) !=
                   TELPHER_OK) {
                nap(w);
            }
        }
    } else {
        while (w->messages < 20000) {
            nap(w);
        }
    }
    world_barrier(w);
}

static void
test_sleep(void **state)
{
    (void)state;
    assert_true(run(2, false, NULL, naps));
    assert_true(run(2, false, NULL, full_naps));
}

/* ---- disconnecting in order ---- */

/* Data arrives though its sender leaves at once; the peer gets one callback for the leaving. */
static void
disconnect(struct world *w)
{
    static const uint8_t data[100];

    if (w->rank == 1) {
        world_connect(w, 0);
        for (unsigned i = 0; i < 100; i++) {
            world_send(w, 0, &i, sizeof(i), data, sizeof(data));
        }
        return;
    }
    UNTIL(w, w->lost[1] != 0);
    MUST(w, w->messages == 100);
    for (unsigned i = 0; i < 1000; i++) {
        (void)world_step(w);
    }
    MUST(w, w->lost[1] == 1);
    if (strcmp(w->ops->name, "shm") == 0) {
        MUST(w, w->why[1] == TELPHER_OK);
    }
}

static void
test_disconnect(void **state)
{
    (void)state;
    assert_true(run(2, false, NULL, disconnect));
}

/* ---- closing a connection with an error ---- */

static void
close_peer(struct world *w)
{
    uint8_t byte = 0;

    world_connect(w, 1 - w->rank);
    if (w->rank == 0) {
        world_send(w, 1, &byte, 1, &byte, 1);
        world_barrier(w);
        w->ops->close_peer(w->net, 1);
        UNTIL(w, w->lost[1] != 0);
        MUST(w, w->ops->send(w->net, 1, &byte, 1, NULL, 0) == TELPHER_ERR_PEER_LOST);
    } else {
        UNTIL(w, w->messages == 1);
        world_barrier(w);
        UNTIL(w, w->lost[0] != 0); /* the other sees it too */
    }
    world_barrier(w);
    MUST(w, w->lost[1 - w->rank] == 1);
}

static void
test_close_peer(void **state)
{
    (void)state;
    assert_true(run(2, false, NULL, close_peer));
}

/* ---- addresses ---- */

static void
addresses(struct world *w)
{
    uint32_t peer = 1 - w->rank;
    uint8_t address[TP_NET_ADDRESS_MAX];
    size_t len = w->shared->address_len[peer];
    unsigned seed = 7;

    memcpy(address, w->shared->addresses[peer], len);
    for (size_t cut = 0; cut < len; cut++) {
        (void)w->ops->reaches(w->net, address, cut);
    }
    MUST(w, w->ops->connect(w->net, peer, address, 0) != TELPHER_OK);
    for (unsigned i = 0; i < 20000; i++) {
        size_t at = (size_t)rand_r(&seed) % len;
        uint8_t was = address[at];

        address[at] = (uint8_t)rand_r(&seed);
        (void)w->ops->reaches(w->net, address, len);
        address[at] = was;
    }
    world_barrier(w);
}

static void
test_addresses(void **state)
{
    (void)state;
    assert_true(run(2, false, NULL, addresses));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_talk),       cmocka_unit_test(test_room),
        cmocka_unit_test(test_bulk),       cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_disconnect), cmocka_unit_test(test_close_peer),
        cmocka_unit_test(test_addresses),  cmocka_unit_test(test_copies),
        cmocka_unit_test(test_pause),
    };

    transport = argc > 1 ? argv[1] : "shm";
    if (!world_has(transport)) {
        return 77;
    }
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
