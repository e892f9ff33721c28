/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: comm_ordered TRANSPORT
 *
 * Ordered messages: delivered in the order of their sends and after the sender's puts, though
 * data of earlier ones arrives slowly; at most as many in flight as there are credits. A rank
 * that sends without a credit is closed; of one that dies nothing is delivered past a gap.
 */
#include "ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <telpher/mem.h>
#include <telpher/msg.h>
#include <telpher/win.h>

enum {
    BIG = 200003, /* [bytes] that arrive slowly in memory with a latency */
    SMALL = 40,
    LONG_PARAMS = 1500, /* more than an entry handler is given where they came */
    MESSAGES = 24,
    CREDITS = 8,
    COMMANDS = 7, /* handlers */
    ANSWERS = 8,
    PLAIN = 9,
    BIG_TAG = 3,
    LAST_TAG = 4
};

static const char *transport;

struct inbox {
    uint8_t *slow; /* for buffers */
    uint32_t next; /* number of the next message */
    uint32_t lost; /* entered with PEER_LOST */
    uint32_t plain;
    telpher_win *win; /* NULL: nothing was put before */
};

static void
post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    const struct inbox *in = user;

    (void)ctx;
    MUST(msg->buffer_count == 1 && msg->buffers[0].len <= BIG);
    msg->buffers[0].data = in->slow;
}

static void
entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct inbox *in = user;
    uint32_t number;

    (void)ctx;
    memcpy(&number, msg->params, sizeof(number));
    if (msg->status == TELPHER_ERR_PEER_LOST) {
        in->lost++;
        return;
    }
    OK(msg->status);
    MUST(in->lost == 0); /* nothing is delivered past a gap */
    MUST(number == in->next);
    if (number == 0 && in->win != NULL) {
        OK(telpher_notify_test(in->win, BIG_TAG, 1)); /* the put was before it */
    }
    in->next++;
}

static void
plain_entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct inbox *in = user;

    (void)ctx;
    OK(msg->status);
    in->plain++;
}

static void
ignore(void *user, telpher_status status, size_t len)
{
    (void)user;
    (void)status;
    (void)len;
}

/* Nothing waits for its end: data does not change. */
static telpher_status
send(telpher_context *ctx, uint32_t handler, uint32_t number, size_t params_len,
     size_t len)
{
    static uint8_t data[BIG], params[LONG_PARAMS];
    const telpher_msg_buffer buffer = {data, len};
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    telpher_status status;

    memcpy(params, &number, sizeof(number));
    xfer.on_done = ignore;
    status = telpher_msg_send(ctx, 1, handler, params, params_len, &buffer, len != 0,
                              &xfer, NULL);
    return status == TELPHER_IN_PROGRESS ? TELPHER_OK : status;
}

static void
register_all(telpher_context *ctx, struct inbox *in)
{
    OK(telpher_msg_handler_ordered(ctx, COMMANDS, MESSAGES, post, entry, in));
    OK(telpher_msg_handler_ordered(ctx, ANSWERS, 0, post, entry, in));
    OK(telpher_msg_handler(ctx, PLAIN, NULL, plain_entry, in));
    OK(telpher_barrier(ctx, RANKS_TIME)); /* order begins with the registration */
}

/* ---- order ---- */

/* With and without buffers, short and long, of both handlers, behind a put. */
static void
send_mixed(telpher_context *ctx, telpher_win *win)
{
    static uint8_t big[BIG];
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;

    xfer.on_done = ignore;
    IS(telpher_put_notify(win, 1, 0, big, BIG, BIG_TAG, &xfer, NULL),
       TELPHER_IN_PROGRESS);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        static const size_t lens[] = {0, SMALL, 0, BIG};

        OK(send(ctx, i % 3 == 0 ? ANSWERS : COMMANDS, i, i % 5 == 0 ? LONG_PARAMS : 4,
                lens[i % 4]));
    }
    OK(send(ctx, PLAIN, 0, 4, 0));
    OK(telpher_notify(win, 1, LAST_TAG));
}

static void
receive_mixed(telpher_context *ctx, struct inbox *in)
{
    while (in->plain == 0) {
        OK(telpher_progress_wait(ctx, RANKS_TIME));
    }
    MUST(in->next < MESSAGES); /* an ordinary message overtakes them */
    OK(telpher_notify_wait(in->win, 0, LAST_TAG, 1, RANKS_TIME));
    MUST(in->next == MESSAGES); /* a notification does not */
}

static void
order(telpher_context *ctx)
{
    struct inbox in = {0};
    void *slow = NULL, *part = NULL;

    OK(telpher_mem_alloc(ctx, TELPHER_MEM_SIM, BIG, &slow));
    OK(telpher_mem_alloc(ctx, TELPHER_MEM_SIM, BIG, &part));
    in.slow = slow;
    OK(telpher_win_create(ctx, part, BIG, RANKS_TIME, &in.win));
    register_all(ctx, &in);
    if (telpher_context_rank(ctx) == 0) {
        send_mixed(ctx, in.win);
    } else {
        receive_mixed(ctx, &in);
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
    telpher_win_destroy(in.win);
    OK(telpher_mem_free(ctx, slow));
    OK(telpher_mem_free(ctx, part));
}

static void
test_order(void **state)
{
    (void)state;
    assert_true(ranks_run(2, transport, UINT32_MAX, order));
}

/* ---- credits ---- */

/* The receiver has not registered its handler yet: no credit comes back. */
static void
use_up(telpher_context *ctx)
{
    for (uint32_t i = 0; i < CREDITS; i++) {
        MUST(telpher_msg_credits(ctx, 1, COMMANDS) == CREDITS - i);
        OK(send(ctx, COMMANDS, i, 4, 0));
    }
    MUST(telpher_msg_credits(ctx, 1, COMMANDS) == 0);
    IS(send(ctx, COMMANDS, CREDITS, 4, 0), TELPHER_ERR_AGAIN);
    IS(send(ctx, COMMANDS, CREDITS, 4, SMALL), TELPHER_ERR_AGAIN);
}

static void
credits(telpher_context *ctx)
{
    static uint8_t place[BIG];
    struct inbox in = {.slow = place};

    if (telpher_context_rank(ctx) == 0) {
        OK(telpher_msg_handler_ordered(ctx, COMMANDS, CREDITS, post, entry, &in));
        use_up(ctx);
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
    if (telpher_context_rank(ctx) == 0) {
        for (uint32_t i = CREDITS; i < 100 * CREDITS; i++) {
            while (telpher_msg_credits(ctx, 1, COMMANDS) == 0) {
                OK(telpher_progress_wait(ctx, RANKS_TIME));
            }
            OK(send(ctx, COMMANDS, i, 4, i % 2 * SMALL));
        }
    } else {
        OK(telpher_msg_handler_ordered(ctx, COMMANDS, CREDITS, post, entry, &in));
        while (in.next < 100 * CREDITS) {
            OK(telpher_progress_wait(ctx, RANKS_TIME));
        }
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
}

/* The receiver knows of fewer credits than the sender. */
static void
overdrawn(telpher_context *ctx)
{
    static uint8_t place[BIG];
    struct inbox in = {.slow = place};
    const bool sends = telpher_context_rank(ctx) == 0;
    uint32_t sent = 0;

    OK(telpher_msg_handler_ordered(ctx, COMMANDS, sends ? MESSAGES : 2, post, entry,
                                   &in));
    OK(telpher_barrier(ctx, RANKS_TIME));
    while (sends && sent < MESSAGES &&
           send(ctx, COMMANDS, sent, 4, BIG) == TELPHER_OK) {
        sent++;
    }
    while (telpher_peer_status(ctx, sends) == TELPHER_OK) {
        (void)telpher_progress_wait(ctx, 1000000);
    }
    MUST(in.next <= 2);
}

static void
test_credits(void **state)
{
    (void)state;
    assert_true(ranks_run(2, transport, UINT32_MAX, credits));
}

static void
test_overdrawn(void **state)
{
    (void)state;
    assert_true(ranks_run(2, transport, UINT32_MAX, overdrawn));
}

/* ---- a rank dies ---- */

static void
dies(telpher_context *ctx)
{
    struct inbox in = {0};
    void *slow = NULL;

    OK(telpher_mem_alloc(ctx, TELPHER_MEM_SIM, BIG, &slow));
    in.slow = slow;
    register_all(ctx, &in);
    OK(telpher_barrier(ctx, RANKS_TIME));
    if (telpher_context_rank(ctx) == 0) {
        for (uint32_t i = 0; i < MESSAGES; i++) {
            OK(send(ctx, COMMANDS, i, 4, i % 4 == 1 ? SMALL : 0));
        }
        OK(send(ctx, PLAIN, 0, 4, 0));
        (void)telpher_progress_wait(ctx, 50000000);
        (void)raise(SIGKILL);
    }
    while (telpher_peer_status(ctx, 0) == TELPHER_OK || in.next + in.lost < MESSAGES) {
        (void)telpher_progress_wait(ctx, 1000000);
    }
    MUST(in.next >= 1 && in.next + in.lost == MESSAGES);
    OK(telpher_mem_free(ctx, slow));
}

static void
test_death(void **state)
{
    (void)state;
    assert_true(ranks_run(2, transport, 0, dies));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_credits),
        cmocka_unit_test(test_overdrawn),
        cmocka_unit_test(test_death),
    };

    transport = ranks_transport(argc, argv);
    setenv("TELPHER_DIRECT", "no", 1);
    setenv("TELPHER_SIM", "latency=100ms", 1); /* nothing is measured */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
