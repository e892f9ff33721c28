/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets_death TRANSPORT
 *
 * Rank 1 of 3 is killed while it is in one of several states. The others notice in time and
 * once, each operation ends exactly once, and they go on with each other.
 */
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/delay.h"
#include "world.h"

#include "base/config/settings.h"
#include "base/trace/log.h"

enum { VICTIM = 1, OPS = 20, BIG = 32 << 20, SMALL = 100000, FRIENDLY = 1000 };
/** Noticed in this time by promise; the machine may be slow, to others than us as well. */
#define LOST_AFTER (500 * TP_CLOCK_MS)
#define SLACK (3 * TP_CLOCK_S)

enum state {
    IDLE, /* connected, nothing under way */
    ASLEEP, /* the others wait for something to come */
    FLOODING, /* it sends small messages */
    FLOODED, /* it is sent small messages and reads none */
    ANNOUNCED, /* it announced data that nobody has taken */
    TAKEN, /* the same, and when one that was taken ends, another is */
    ANNOUNCED_TO, /* data was announced to it that it does not take */
    SENDING, /* large data of it is being received */
    RECEIVING, /* it receives large data */
    BEREAVING, /* idle, and a child of it lives on */
    TOO_LATE, /* the same, and rank 2 connects only when it is dead */
    REPLACED, /* by another program, which knows nothing of us and lives on for a while */
    STATES
};
static const char *const names[STATES] = {
    "idle",         "asleep",  "flooding",  "flooded",   "announced", "taken",
    "announced to", "sending", "receiving", "bereaving", "too late",  "replaced"};

static const char *transport;
static enum state state;

struct party {
    struct world *w;
    struct tp_net_op ops[OPS];
    unsigned begun, done[OPS], ended;
    struct tp_net_rndv *bulks[OPS];
    unsigned announced, taken;
    uint8_t *memory;
    unsigned from_other; /* messages of the other survivor */
};

static struct party the; /* of this process */

static void take_next(void);

static void
done(struct tp_net_op *op, telpher_status status)
{
    size_t i = (size_t)(op - the.ops);

    MUST(the.w, i < OPS && ++the.done[i] == 1);
    MUST(the.w, status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST);
    the.ended++;
    if (state == TAKEN && the.taken < the.announced) {
        take_next();
    }
}

static struct tp_net_op *
next_op(void)
{
    MUST(the.w, the.begun < OPS);
    the.ops[the.begun].done = done;
    return &the.ops[the.begun++];
}

static void
take_next(void)
{
    struct tp_net_rndv *bulk = the.bulks[the.taken++];

    tp_rndv_recv(the.w->net, bulk, the.memory, SMALL, next_op());
}

static void
on_message(struct world *w, uint32_t from, const void *header, size_t header_len,
           const void *data, size_t len)
{
    (void)header;
    (void)header_len;
    (void)data;
    (void)len;
    w->messages++;
    the.from_other += from != VICTIM;
}

static void
on_rndv(struct world *w, uint32_t from, const void *header, size_t header_len,
        uint64_t len, struct tp_net_rndv *bulk)
{
    (void)header;
    (void)header_len;
    if (w->rank == VICTIM && state == ANNOUNCED_TO) {
        return; /* kept for ever */
    }
    MUST(w, w->rank == VICTIM || from == VICTIM);
    if (state == ANNOUNCED || state == TAKEN) {
        MUST(w, the.announced < OPS);
        the.bulks[the.announced++] = bulk;
    } else {
        tp_rndv_recv(w->net, bulk, the.memory, len, next_op());
    }
}

static void
on_lost(struct world *w, uint32_t peer, telpher_status why)
{
    if (peer != VICTIM) { /* the other survivor may be the first to leave, at the end */
        MUST(w, the.from_other == FRIENDLY);
        return;
    }
    MUST(w, why != TELPHER_OK);
    MUST(w, the.ended == the.begun); /* all that needed it has ended before */
}

/* ---- the victim ---- */

static void
send_bulks(struct world *w, uint32_t peer, unsigned count, size_t len)
{
    for (unsigned i = 0; i < count; i++) {
        struct tp_net_op *op = next_op();
        telpher_status status;

        UNTIL(w, (status = tp_rndv_send(w->net, peer, &i, sizeof(i), the.memory, len,
                                        op)) != TELPHER_ERR_AGAIN);
        if (status == TELPHER_ERR_PEER_LOST) {
            the.begun--;
            return;
        }
        MUST(w, status == TELPHER_OK);
    }
}

/* Reads nothing and answers nobody until both others have done what they do. */
static void
stand_still(struct world *w)
{
    tp_ns end = tp_clock_deadline(5 * TP_CLOCK_S);

    while (atomic_load(&w->shared->words[1]) != 2 && !tp_clock_passed(end)) {
        sched_yield();
    }
}

/* A child that lives until both others are through, and touches nothing. */
static void
outlive(struct world *w)
{
    tp_ns end = tp_clock_deadline(TIME_S * TP_CLOCK_S);
    pid_t child = fork();

    MUST(w, child >= 0);
    while (child == 0) {
        if (atomic_load(&w->shared->words[3]) == 2 || tp_clock_passed(end)) {
            _exit(0);
        }
        usleep(1000);
    }
}

static void
live_and_die(struct world *w)
{
    unsigned sent = 0;

    UNTIL(w, w->messages >= (state == TOO_LATE ? 1 : 2)); /* the others are there */
    if (state == ANNOUNCED || state == TAKEN) {
        send_bulks(w, 0, OPS / 2, SMALL);
        send_bulks(w, 2, OPS / 2, SMALL);
    } else if (state == SENDING) {
        send_bulks(w, 0, 1, BIG);
        send_bulks(w, 2, 1, BIG / 4); /* another way, over some transports */
    }
    atomic_fetch_add(&w->shared->words[0], 1);
    while (state == FLOODING && sent < 5000) {
        sent +=
            w->ops->send(w->net, 0, &sent, sizeof(sent), the.memory, 100) == TELPHER_OK;
        (void)w->ops->send(w->net, 2, &sent, sizeof(sent), the.memory, 1000);
        (void)world_step(w);
    }
    if (state == SENDING || state == RECEIVING) { /* somewhere in the middle */
        tp_ns end = tp_clock_deadline(3 * TP_CLOCK_MS);

        while (!tp_clock_passed(end)) {
            (void)world_step(w);
        }
    } else if (state == TAKEN) { /* what was announced leaves only with progress */
        UNTIL(w, atomic_load(&w->shared->words[2]) == 2);
        atomic_store(&w->shared->words[4], 1);
        stand_still(w);
    } else if (state != FLOODED) {
        tp_ns end = tp_clock_deadline(50 * TP_CLOCK_MS);

        while (!tp_clock_passed(end)) {
            (void)world_step(w);
        }
    } else {
        stand_still(w);
    }
    if (state == BEREAVING || state == TOO_LATE) {
        outlive(w);
    }
    atomic_store(&w->shared->numbers[0], tp_clock_ns());
    if (state == REPLACED) {
        (void)execl("/bin/sh", "sh", "-c", "sleep 4; kill -KILL $$", NULL);
    }
    (void)raise(SIGKILL);
}

/* ---- the others ---- */

static void
flood(struct world *w)
{
    telpher_status status = TELPHER_OK;

    for (unsigned i = 0; i < 200 && status == TELPHER_OK; i++) {
        status = w->ops->send(w->net, VICTIM, &i, sizeof(i), the.memory, 1000);
    }
    atomic_fetch_add(&w->shared->words[1], 1);
}

static void
take_part(struct world *w)
{
    UNTIL(w, atomic_load(&w->shared->words[0]) != 0);
    if (state == FLOODED) {
        flood(w);
    } else if (state == TAKEN) {
        UNTIL(w, the.announced == OPS / 2);
        atomic_fetch_add(&w->shared->words[2], 1);
        UNTIL(w, atomic_load(&w->shared->words[4]) != 0);
        take_next();
        atomic_fetch_add(&w->shared->words[1], 1);
    } else if (state == ANNOUNCED_TO) {
        send_bulks(w, VICTIM, OPS / 2, SMALL);
    } else if (state == RECEIVING) {
        send_bulks(w, VICTIM, 1, w->rank == 0 ? BIG : BIG / 4);
    }
}

static void
nap(struct world *w)
{
    struct pollfd p = {.fd = w->ops->fd(w->net), .events = POLLIN};

    if (p.fd >= 0 && tp_rndv_arm(w->net) == TELPHER_OK) {
        (void)poll(&p, 1, 10000);
    }
    (void)tp_rndv_progress(w->net);
}

static void
notice(struct world *w)
{
    uint64_t delay = delay_ns();
    tp_ns died;

    while (state == ASLEEP && w->lost[VICTIM] == 0) {
        nap(w);
    }
    UNTIL(w, w->lost[VICTIM] != 0);
    died = atomic_load(&w->shared->numbers[0]);
    MUST(w, tp_clock_ns() - died < LOST_AFTER + SLACK + (delay_ns() - delay));
    MUST(w, the.ended == the.begun);
    for (unsigned i = 0; i < 200; i++) {
        (void)world_step(w);
    }
    MUST(w, w->lost[VICTIM] == 1 && the.ended == the.begun);
    MUST(w, w->ops->send(w->net, VICTIM, "", 1, NULL, 0) == TELPHER_ERR_PEER_LOST);
    MUST(w, tp_rndv_send(w->net, VICTIM, "", 1, the.memory, 10, next_op()) ==
                TELPHER_ERR_PEER_LOST);
    the.begun--;
    MUST(w, w->ops->connect(w->net, VICTIM, w->shared->addresses[VICTIM],
                            w->shared->address_len[VICTIM]) == TELPHER_ERR_UNREACHABLE);
}

/* A child that does nothing, and has all that this process has open. */
static pid_t
leave_child(struct world *w)
{
    pid_t child = fork();

    MUST(w, child >= 0);
    if (child == 0) {
        alarm(TIME_S);
        pause();
        _exit(0);
    }
    return child;
}

static void
survive(struct world *w)
{
    uint32_t other = 2 - w->rank;
    pid_t child;

    if (state == TOO_LATE && w->rank == 2) {
        UNTIL(w, atomic_load(&w->shared->numbers[0]) != 0);
        usleep(100000); /* for its end itself */
    }
    world_connect(w, VICTIM);
    world_connect(w, other);
    world_send(w, VICTIM, "x", 1, NULL, 0);
    take_part(w);
    child = leave_child(w);
    notice(w);
    for (unsigned i = 0; i < FRIENDLY; i++) { /* the others are as before */
        world_send(w, other, &i, sizeof(i), the.memory, i);
    }
    UNTIL(w, the.from_other == FRIENDLY);
    atomic_fetch_add(&w->shared->words[3], 1);
    UNTIL(w, atomic_load(&w->shared->words[3]) == 2);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

static void
rank(struct world *w)
{
    the.w = w;
    the.memory = calloc(1, BIG);
    MUST(w, the.memory != NULL);
    if (w->rank == VICTIM) {
        world_connect(w, 0);
        if (state != TOO_LATE) {
            world_connect(w, 2);
        }
        live_and_die(w);
    }
    survive(w);
    free(the.memory);
}

/* Over UCX another program is seen when it ends: docs/comm.md 6. */
static bool
is_seen(enum state which)
{
    return which == TOO_LATE   ? strcmp(transport, "tcp") == 0
           : which == REPLACED ? strcmp(transport, "ucx") != 0
                               : true;
}

static void
test_state(void **arg)
{
    static const struct hooks hooks = {on_message, on_rndv, on_lost};
    const struct world_params params = {.transport = transport,
                                        .size = 3,
                                        .killed = VICTIM,
                                        .lost_after = LOST_AFTER,
                                        .hooks = &hooks,
                                        .fn = rank};

    state = *(const enum state *)*arg;
    assert_true(world_run(&params));
}

int
main(int argc, char **argv)
{
    static enum state states[STATES];
    struct CMUnitTest tests[STATES];
    unsigned count = 0;

    transport = argc > 1 ? argv[1] : "shm";
    tp_settings_configure_log();
    if (!world_has(transport)) {
        return 77;
    }
    for (unsigned i = 0; i < STATES; i++) {
        if (is_seen((enum state)i)) {
            states[i] = (enum state)i;
            tests[count++] =
                (struct CMUnitTest){names[i], test_state, NULL, NULL, &states[i]};
        }
    }
    return _cmocka_run_group_tests(transport, tests, count, NULL, NULL);
}
