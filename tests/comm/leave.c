/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: comm_leave TRANSPORT
 *
 * A rank sends to another, which it has never turned to before, and leaves. The other does not
 * look for longer than anything in between keeps it: everything arrives nevertheless. If it
 * dies meanwhile, or does not look until TELPHER_LEAVE_TIMEOUT is over, the first leaves. If
 * the other is given up, all that is under way ends at once.
 */
#include "ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <telpher/channel.h>
#include <telpher/msg.h>

enum { FEW = 20, MANY = 3000, PARAMS = 512, HANDLER = 5 };
#define NAP_NS 1200000000L /* [ns] that the receiver does not look */
#define SOON_NS UINT64_C(20000000000) /* [ns], less than the 60 s of the setting */

/** Memory shared by both ranks. */
static struct shared {
    _Atomic uint32_t sent, left, met;
} * shared;

static const char *transport;
static uint32_t sender; /* its number: who is the lower one makes a difference */
static uint32_t count; /* messages to the handler */
static bool words_expected, handler_last;

static uint64_t
now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static telpher_context *
join(void)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;

    params.transports = transport;
    params.timeout_ns = RANKS_TIME;
    OK(telpher_context_create(&params, &ctx, NULL));
    return ctx;
}

static void
ignore(void *user, telpher_status status, size_t len)
{
    (void)user;
    (void)status;
    (void)len;
}

/* ---- who sends ---- */

static void
send_all(telpher_context *ctx, uint32_t to)
{
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    uint8_t params[PARAMS] = {0};
    uint64_t value = 4711;
    telpher_channel *ch = NULL;
    telpher_request *req = NULL;
    telpher_status status;

    xfer.on_done = ignore;
    OK(telpher_channel_open(ctx, to, 3, &ch));
    OK(ranks_finish(telpher_channel_send(ch, &value, sizeof(value), NULL, &req), &req));
    for (uint32_t i = 0; i < count; i++) {
        memcpy(params, &i, sizeof(i));
        status = telpher_msg_send(ctx, to, HANDLER, params, sizeof(params), NULL, 0,
                                  &xfer, NULL);
        MUST(status == TELPHER_OK || status == TELPHER_IN_PROGRESS);
    }
}

/* Collects messages on standard error in a file while the rank leaves. */
static bool
leave_and_listen(telpher_context *ctx)
{
    char text[4096] = "", who[64];
    int fd = memfd_create("words", 0), before = dup(STDERR_FILENO);

    snprintf(who, sizeof(who), "rank %u has not received", 1 - sender);
    MUST(fd >= 0 && before >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    telpher_context_destroy(ctx);
    MUST(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    MUST(pread(fd, text, sizeof(text) - 1, 0) >= 0);
    close(fd);
    return strstr(text, who) != NULL && strstr(text, "TELPHER_LEAVE_TIMEOUT") != NULL;
}

static void
send_and_leave(void)
{
    telpher_context *ctx = join();
    uint64_t since = now_ns();

    send_all(ctx, 1 - sender);
    atomic_store(&shared->sent, 1);
    MUST(leave_and_listen(ctx) == words_expected);
    MUST(now_ns() - since < SOON_NS);
    atomic_store(&shared->left, 1);
}

/* ---- who receives ---- */

static void
on_message(telpher_context *ctx, telpher_msg *msg, void *user)
{
    uint32_t *seen = user, number;

    (void)ctx;
    memcpy(&number, msg->params, sizeof(number));
    MUST(msg->from == sender && msg->params_len == PARAMS && number == *seen);
    ++*seen;
}

static void
look_late(void)
{
    const struct timespec nap = {NAP_NS / 1000000000, NAP_NS % 1000000000};
    telpher_context *ctx = join();
    telpher_channel *ch = NULL;
    telpher_request *req = NULL;
    uint64_t value = 0;
    uint32_t seen = 0;
    size_t len = 0;

    nanosleep(&nap, NULL); /* computes, for all that the sender knows */
    if (!handler_last) {
        OK(telpher_msg_handler(ctx, HANDLER, NULL, on_message, &seen));
    }
    OK(telpher_channel_open(ctx, sender, 3, &ch));
    OK(ranks_finish(telpher_channel_recv(ch, &value, sizeof(value), NULL, &req, &len),
                    &req));
    MUST(value == 4711);
    while (telpher_peer_status(ctx, sender) == TELPHER_OK) {
        OK(telpher_progress_wait(ctx, RANKS_TIME));
    }
    if (handler_last) { /* who sent is gone, what it sent is here */
        OK(telpher_msg_handler(ctx, HANDLER, NULL, on_message, &seen));
    }
    while (seen < count) {
        OK(telpher_progress_wait(ctx, RANKS_TIME));
    }
    MUST(seen == count);
    telpher_context_destroy(ctx);
}

static void
wait_for(_Atomic uint32_t *word)
{
    const struct timespec moment = {0, 1000000};

    while (atomic_load(word) == 0) {
        nanosleep(&moment, NULL);
    }
}

/* The sender is to be in the middle of its leaving. */
static void
die_late(void)
{
    const struct timespec moment = {0, 100000000};

    (void)join();
    wait_for(&shared->sent);
    nanosleep(&moment, NULL);
    (void)raise(SIGKILL);
}

static void
never_look(void)
{
    telpher_context *ctx = join();

    wait_for(&shared->left);
    telpher_context_destroy(ctx);
}

/* ---- who gives up ---- */

static void
count_lost(void *user, telpher_status status, size_t len)
{
    (void)len;
    *(unsigned *)user += status == TELPHER_ERR_PEER_LOST;
}

/* They are connected then. */
static telpher_channel *
exchange(telpher_context *ctx, uint32_t with)
{
    telpher_channel *ch = NULL;
    telpher_request *sent = NULL, *got = NULL;
    uint64_t out = 4711, in = 0;
    size_t len;
    telpher_status status;

    OK(telpher_channel_open(ctx, with, 3, &ch));
    status = telpher_channel_send(ch, &out, sizeof(out), NULL, &sent);
    OK(ranks_finish(telpher_channel_recv(ch, &in, sizeof(in), NULL, &got, &len), &got));
    OK(ranks_finish(status, &sent));
    MUST(in == 4711);
    atomic_fetch_add(&shared->met, 1);
    while (atomic_load(&shared->met) < 2) {
        /* what was sent may need progress to leave */
        (void)telpher_progress_wait(ctx, 1000000);
    }
    return ch;
}

/* A message that is not taken, and a receive. */
static void
disconnect_and_leave(void)
{
    enum { BIG = 1 << 22 };
    telpher_context *ctx = join();
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    telpher_msg_buffer buffer = {calloc(1, BIG), BIG};
    telpher_channel *ch = exchange(ctx, 1 - sender);
    uint64_t value = 0, since = now_ns();
    unsigned lost = 0;

    MUST(buffer.data != NULL);
    while (atomic_load(&shared->sent) == 0) {
        (void)telpher_progress_wait(ctx, 1000000);
    }
    xfer.on_done = count_lost;
    xfer.user = &lost;
    IS(telpher_channel_recv(ch, &value, sizeof(value), &xfer, NULL, NULL),
       TELPHER_IN_PROGRESS);
    IS(telpher_msg_send(ctx, 1 - sender, HANDLER, NULL, 0, &buffer, 1, &xfer, NULL),
       TELPHER_IN_PROGRESS);
    IS(telpher_peer_disconnect(ctx, 2), TELPHER_ERR_RANGE);
    IS(telpher_peer_disconnect(ctx, sender), TELPHER_ERR_RANGE);
    OK(telpher_peer_disconnect(ctx, 1 - sender));
    OK(telpher_peer_disconnect(ctx, 1 - sender)); /* once more is nothing */
    IS(telpher_peer_status(ctx, 1 - sender), TELPHER_ERR_PEER_LOST);
    while (lost < 2) {
        MUST(now_ns() - since < SOON_NS);
        (void)telpher_progress_wait(ctx, 10000000);
    }
    free(buffer.data);
    telpher_context_destroy(ctx);
    MUST(now_ns() - since < SOON_NS);
    atomic_store(&shared->left, 1);
}

static void
be_disconnected(void)
{
    telpher_context *ctx = join();

    (void)exchange(ctx, sender);
    atomic_store(&shared->sent, 1);
    wait_for(&shared->left);
    while (telpher_peer_status(ctx, sender) == TELPHER_OK) {
        OK(telpher_progress_wait(ctx, RANKS_TIME));
    }
    telpher_context_destroy(ctx);
}

/* The ranks are not connected yet. The other one sends later and gets PEER_LOST. */
static void
disconnect_unmet(void)
{
    telpher_context *ctx = join();
    telpher_channel *ch = NULL;
    telpher_request *req = NULL;
    uint64_t value = 0;

    OK(telpher_peer_disconnect(ctx, 1 - sender));
    IS(telpher_peer_status(ctx, 1 - sender), TELPHER_ERR_PEER_LOST);
    IS(telpher_msg_send(ctx, 1 - sender, HANDLER, &value, sizeof(value), NULL, 0, NULL,
                        &req),
       TELPHER_ERR_PEER_LOST);
    OK(telpher_channel_open(ctx, 1 - sender, 3, &ch));
    IS(ranks_finish(telpher_channel_recv(ch, &value, sizeof(value), NULL, &req, NULL),
                    &req),
       TELPHER_ERR_PEER_LOST);
    atomic_store(&shared->sent, 1);
    while (atomic_load(&shared->left) == 0) {
        (void)telpher_progress_wait(ctx, 1000000);
    }
    IS(telpher_peer_status(ctx, 1 - sender), TELPHER_ERR_PEER_LOST);
    telpher_context_destroy(ctx);
}

static void
send_to_disconnected(void)
{
    telpher_context *ctx = join();
    uint64_t value = 4711, since = now_ns();
    telpher_status status = TELPHER_OK;

    wait_for(&shared->sent);
    while (status == TELPHER_OK) { /* connecting, no message waits for the other */
        telpher_request *req = NULL;

        status = ranks_finish(telpher_msg_send(ctx, sender, HANDLER, &value,
                                               sizeof(value), NULL, 0, NULL, &req),
                              &req);
        MUST(now_ns() - since < SOON_NS);
        (void)telpher_progress_wait(ctx, 1000000);
    }
    IS(status, TELPHER_ERR_PEER_LOST);
    IS(telpher_peer_status(ctx, sender), TELPHER_ERR_PEER_LOST);
    atomic_store(&shared->left, 1);
    telpher_context_destroy(ctx);
}

/* ---- tests ---- */

static void (*receive)(void);

static void
rank(uint32_t r)
{
    if (r == sender && receive == be_disconnected) {
        disconnect_and_leave();
    } else if (r == sender && receive == send_to_disconnected) {
        disconnect_unmet();
    } else if (r == sender) {
        send_and_leave();
    } else {
        receive();
    }
}

static void
run(void (*as)(void), uint32_t from, uint32_t messages)
{
    memset(shared, 0, sizeof(*shared));
    receive = as;
    sender = from;
    count = messages;
    assert_true(ranks_run_bare(2, as == die_late ? 1 - from : UINT32_MAX, rank));
}

static void
test_late(void **state)
{
    (void)state;
    for (uint32_t from = 0; from < 2; from++) {
        handler_last = from == 0;
        run(look_late, from, FEW);
    }
}

/* More than the kernel or a ring has room for. */
static void
test_much(void **state)
{
    (void)state;
    run(look_late, 0, MANY);
    run(look_late, 1, MANY);
}

static void
test_dead(void **state)
{
    (void)state;
    run(die_late, 0, MANY);
    run(die_late, 1, MANY);
}

static void
test_disconnect(void **state)
{
    (void)state;
    run(be_disconnected, 0, 0);
    run(be_disconnected, 1, 0);
    run(send_to_disconnected, 0, 0);
    run(send_to_disconnected, 1, 0);
}

static void
test_words(void **state)
{
    (void)state;
    setenv("TELPHER_LEAVE_TIMEOUT", "200ms", 1);
    words_expected = true;
    run(never_look, 1, MANY);
    words_expected = false;
    unsetenv("TELPHER_LEAVE_TIMEOUT");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late),  cmocka_unit_test(test_much),
        cmocka_unit_test(test_dead),  cmocka_unit_test(test_disconnect),
        cmocka_unit_test(test_words),
    };

    transport = ranks_transport(argc, argv);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
