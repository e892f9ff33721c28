/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: quiet TRANSPORT
 *
 * Once two ranks are connected, small messages do without the heap and without waiting for
 * locks, early or late receives, whatever they are: the counters of the debug build stand
 * still. Memory that was needed once is used again, so a few rounds go before.
 */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <telpher/channel.h>
#include <telpher/mem.h>
#include <telpher/msg.h>
#include <telpher/win.h>

#include "base/os/effort.h"

/** Rounds; those counted are 10,000 messages in all four ways. */
enum { BEFORE = 200, COUNTED = 1250, SMALL = 64, HANDLER = 5, BURST = 20 };

#if TP_EFFORT_COUNTED

static const char *transport;

/** A rank and what it needs for a round. */
struct party {
    telpher_context *ctx;
    uint32_t rank, round;
    telpher_channel *ch;
    telpher_win *win;
    uint8_t src[SMALL], dst[SMALL];
    unsigned entered;
};

static void
send_one(struct party *p)
{
    telpher_request *req = NULL;
    telpher_status status = telpher_channel_send(p->ch, p->src, 8, NULL, &req);

    OK(ranks_finish(status, &req));
}

static void
recv_one(struct party *p)
{
    telpher_request *req = NULL;
    telpher_status status =
        telpher_channel_recv(p->ch, p->dst, SMALL, NULL, &req, NULL);

    OK(ranks_finish(status, &req));
}

/* To and fro. */
static void
by_channel(struct party *p)
{
    if (p->rank == 0) {
        send_one(p);
        recv_one(p);
    } else {
        recv_one(p);
        send_one(p);
    }
}

/* Messages that come before they are asked for; the last is answered. */
static void
by_late_receives(struct party *p)
{
    unsigned last = p->round % BURST;
    uint32_t sender = p->round / BURST % 2;

    if (p->rank == sender) {
        send_one(p);
        if (last == BURST - 1) {
            OK(telpher_notify(p->win, 1 - sender, 9)); /* behind them */
            recv_one(p);
        }
    } else if (last == BURST - 1) {
        OK(telpher_notify_wait(p->win, sender, 9, 1, RANKS_TIME));
        for (unsigned i = 0; i < BURST; i++) {
            recv_one(p);
        }
        send_one(p);
    }
}

static void
by_put(struct party *p)
{
    telpher_request *req = NULL;
    telpher_status status;

    if (p->rank == 1) {
        OK(telpher_notify_wait(p->win, 0, 3, 1, RANKS_TIME));
    }
    status = telpher_put_notify(p->win, 1 - p->rank, 0, p->src, SMALL, 3, NULL, &req);
    OK(ranks_finish(status, &req));
    if (p->rank == 0) {
        OK(telpher_notify_wait(p->win, 1, 3, 1, RANKS_TIME));
    }
}

static void
post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct party *p = user;

    (void)ctx;
    msg->buffers[0].data = p->dst;
}

static void
enter(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct party *p = user;

    (void)ctx;
    OK(msg->status);
    p->entered++;
}

static void
send_message(struct party *p, size_t count)
{
    const telpher_msg_buffer buffer = {p->src, SMALL};
    telpher_request *req = NULL;
    telpher_status status = telpher_msg_send(p->ctx, 1 - p->rank, HANDLER, "abc", 3,
                                             &buffer, count, NULL, &req);

    OK(ranks_finish(status, &req));
}

/* With a buffer and without. */
static void
by_message(struct party *p)
{
    unsigned before = p->round;

    if (p->rank == 0) {
        send_message(p, p->round % 2);
    }
    while (p->entered == before) {
        OK(telpher_progress_wait(p->ctx, RANKS_TIME));
    }
    if (p->rank == 1) {
        send_message(p, p->round % 2);
    }
}

static void
run(struct party *p, const char *name, void (*round)(struct party *p))
{
    struct tp_effort before;

    p->entered = 0;
    OK(telpher_barrier(p->ctx, RANKS_TIME));
    for (p->round = 0; p->round < BEFORE; p->round++) {
        round(p);
    }
    before = tp_effort;
    for (; p->round < BEFORE + COUNTED; p->round++) {
        round(p);
    }
    printf("  %s, rank %u: %llu allocations, %llu locks, %llu contended\n", name,
           p->rank, (unsigned long long)(tp_effort.allocations - before.allocations),
           (unsigned long long)(tp_effort.locks - before.locks),
           (unsigned long long)(tp_effort.contended - before.contended));
    fflush(stdout);
    MUST(tp_effort.allocations == before.allocations);
    MUST(tp_effort.contended == before.contended);
}

static void
rank(telpher_context *ctx)
{
    struct party p = {.ctx = ctx, .rank = telpher_context_rank(ctx)};

    OK(telpher_channel_open(ctx, 1 - p.rank, 1, &p.ch));
    OK(telpher_win_create(ctx, p.dst, SMALL, RANKS_TIME, &p.win));
    OK(telpher_msg_handler(ctx, HANDLER, post, enter, &p));
    run(&p, "channel", by_channel);
    run(&p, "late receives", by_late_receives);
    run(&p, "put_notify", by_put);
    run(&p, "message", by_message);
    OK(telpher_barrier(ctx, RANKS_TIME));
    telpher_win_destroy(p.win);
}

static void
test_quiet(void **state)
{
    (void)state;
    assert_true(ranks_run(2, transport, UINT32_MAX, rank));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quiet)};

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int
main(void)
{
    printf("skipped: what a thread costs is counted in debug builds only\n");
    return 77;
}

#endif
