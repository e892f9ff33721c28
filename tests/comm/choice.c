/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: comm_choice
 *
 * Ranks that name transports in different orders come to the same one, pair by pair, or are
 * told which ranks nothing joins; what is not needed is closed. A rank that announces more than anybody keeps is given up.
 */
#include "ranks.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cmocka.h>

#include <telpher/channel.h>

enum { RANKS = 3, BIG = 100000, TOO_MANY = 100, CHANNEL = 7, FLOODED = 8 };

static uint32_t missing_call, missing_error;

static telpher_status
join(const char *transports, telpher_context **ret_ctx, telpher_error *err)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;

    params.timeout_ns = RANKS_TIME;
    setenv("TELPHER_TRANSPORTS", transports, 1);
    return telpher_context_create(&params, ret_ctx, err);
}

static void
exchange(telpher_context *ctx, telpher_channel *ch, uint32_t other, size_t len)
{
    static uint8_t out[BIG], in[BIG];
    telpher_request *sent = NULL, *got = NULL;
    telpher_status begun;

    memset(out, (int)telpher_context_rank(ctx) + 1, len);
    begun = telpher_channel_send(ch, out, len, NULL, &sent);
    OK(ranks_finish(telpher_channel_recv(ch, in, len, NULL, &got, NULL), &got));
    OK(ranks_finish(begun, &sent));
    MUST(in[0] == other + 1 && in[len - 1] == other + 1);
}

static void
talk(telpher_context *ctx, uint32_t other)
{
    telpher_channel *ch = NULL;

    OK(telpher_channel_open(ctx, other, CHANNEL, &ch));
    exchange(ctx, ch, other, 8);
    exchange(ctx, ch, other, BIG);
    telpher_channel_close(ch);
}

static void
talk_to_all(telpher_context *ctx, uint32_t rank)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != rank) {
            talk(ctx, r);
        }
    }
}

static void
leave(telpher_context *ctx)
{
    OK(telpher_barrier(ctx, RANKS_TIME));
    telpher_context_destroy(ctx);
}

/* ---- orders ---- */

/* Of two ranks, the lower one's order counts. */
static const char *const orders[RANKS] = {"tcp,shm", "shm,tcp", "shm"};
static const char *const chosen[RANKS][RANKS] = {
    {"loop", "tcp", "shm"}, {"tcp", "loop", "shm"}, {"shm", "shm", "loop"}};

static void
in_any_order(uint32_t rank)
{
    telpher_context *ctx = NULL;

    OK(join(orders[rank], &ctx, NULL));
    for (uint32_t r = 0; r < RANKS; r++) {
        MUST(strcmp(telpher_context_transport(ctx, r), chosen[rank][r]) == 0);
    }
    talk_to_all(ctx, rank);
    leave(ctx);
}

static void
without_any(uint32_t rank)
{
    telpher_context *ctx = NULL;
    telpher_error err = {0};

    IS(join(rank == 1 ? "tcp" : "shm", &ctx, &err), TELPHER_ERR_UNREACHABLE);
    MUST(strstr(err.text, rank == 1 ? "rank 0 (shm)" : "rank 1 (tcp)") != NULL);
}

static void
test_orders(void **state)
{
    (void)state;
    assert_true(ranks_run_bare(RANKS, UINT32_MAX, in_any_order));
    assert_true(ranks_run_bare(RANKS, UINT32_MAX, without_any));
}

/* ---- what is needed ---- */

/* Sockets of this process that others may connect to. */
static unsigned
listeners(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 256; fd++) {
        int is = 0;
        socklen_t len = sizeof(is);

        count += getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &len) == 0 && is != 0;
    }
    return count;
}

/* A transport that joins a rank to nobody is closed, and nobody can come by it. */
static void
only_shm(uint32_t rank)
{
    unsigned before = listeners();
    telpher_context *ctx = NULL;

    OK(join("shm,tcp", &ctx, NULL));
    MUST(listeners() == before);
    if (rank != 1) {
        talk(ctx, 2 - rank);
    }
    leave(ctx);
}

static void
only_tcp(uint32_t rank)
{
    unsigned before = listeners();
    telpher_context *ctx = NULL;

    (void)rank;
    OK(join("tcp,shm", &ctx, NULL));
    MUST(listeners() > before);
    leave(ctx);
}

static void
test_needed(void **state)
{
    (void)state;
    assert_true(ranks_run_bare(RANKS, UINT32_MAX, only_shm));
    assert_true(ranks_run_bare(RANKS, UINT32_MAX, only_tcp));
}

/* ---- what a rank may not do ---- */

/* From now on a system call is not there, as in an old kernel, or not allowed, as in some
 * containers. */
static void
take_away(uint32_t call)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | missing_error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Rank 1 cannot share memory: the others reach it otherwise. */
static void
without_call(uint32_t rank)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;

    params.timeout_ns = RANKS_TIME;
    if (rank == 1) {
        take_away(missing_call);
    }
    OK(telpher_context_create(&params, &ctx, NULL));
    MUST(strcmp(telpher_context_transport(ctx, 1), rank == 1 ? "loop" : "tcp") == 0);
    talk_to_all(ctx, rank);
    leave(ctx);
}

static void
test_calls(void **state)
{
    (void)state;
    assert_true(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0); /* a kernel with filters */
    for (unsigned i = 0; i < 4; i++) {
        missing_call = i % 2 == 0 ? SYS_pidfd_open : SYS_memfd_create;
        missing_error = i < 2 ? ENOSYS : EPERM;
        assert_true(ranks_run_bare(RANKS, UINT32_MAX, without_call));
    }
}

/* ---- too much ---- */

static const char *transport;

static void
announce_too_much(telpher_context *ctx)
{
    static uint8_t data[BIG];
    telpher_request *reqs[2 * TOO_MANY];
    telpher_channel *ch = NULL;

    OK(telpher_channel_open(ctx, 0, FLOODED, &ch));
    for (unsigned i = 0; i < 2 * TOO_MANY; i++) {
        telpher_status status = telpher_channel_send(ch, data, BIG, NULL, &reqs[i]);

        reqs[i] = status == TELPHER_IN_PROGRESS ? reqs[i] : NULL;
        MUST(status == TELPHER_IN_PROGRESS || status == TELPHER_ERR_PEER_LOST);
    }
    for (unsigned i = 0; i < 2 * TOO_MANY; i++) {
        if (reqs[i] != NULL) {
            IS(telpher_request_wait(reqs[i], RANKS_TIME, NULL), TELPHER_ERR_PEER_LOST);
        }
    }
}

static void
too_much(uint32_t rank)
{
    telpher_context *ctx = NULL;
    telpher_channel *ch = NULL;

    OK(join(transport, &ctx, NULL));
    if (rank == 1) {
        announce_too_much(ctx);
    } else {
        if (rank == 0) {
            OK(telpher_channel_open(ctx, 1, FLOODED, &ch));
            while (telpher_peer_status(ctx, 1) == TELPHER_OK) {
                OK(telpher_progress_wait(ctx, RANKS_TIME));
            }
        }
        talk(ctx, 2 - rank); /* the others are as before */
    }
    telpher_context_destroy(ctx);
}

static void
test_too_much(void **state)
{
    (void)state;
    setenv("TELPHER_KEPT_MAX", "100", 1);
    for (int i = 0; i < 2; i++) {
        transport = i == 0 ? "shm" : "tcp";
        assert_true(ranks_run_bare(RANKS, UINT32_MAX, too_much));
    }
    unsetenv("TELPHER_KEPT_MAX");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_needed),
        cmocka_unit_test(test_too_much),
    };
    char *const shm[] = {"comm_choice", "shm", NULL};

    (void)ranks_transport(2, (char **)shm);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
