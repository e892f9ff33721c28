/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: sizes TRANSPORT
 *
 * Every pair of kinds of memory, by channel, put and get, at every size at which the way
 * changes and beside it, from and to any alignment; nothing but the place is written.
 * TELPHER_TEST_ALL_SIZES=1 adds sizes up to 32 MiB: minutes, too long for every change, so
 * scripts/check/sizes sets it.
 */
#include "../support/pattern.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/channel.h>
#include <telpher/mem.h>
#include <telpher/win.h>

enum {
    TAG = 2,
    GUARD = 64, /* [bytes] before and behind, that nobody may write */
    BIGGEST = 300000,
    BIGGEST_OF_ALL = 32 << 20,
};

/** Boundaries; each is tried with one byte less and one more. */
static const size_t boundaries[] = {
    8,     64,     216, /* in one cell of shared memory, with our header */
    248,   1000,   4096,   8192, 16384, 32768, 65504, /* 64 KiB with our header */
    65536, /* eager, bulk; a chunk */
    65568, 131072, 262144, /* a piece, a frame of data */
};
static const size_t more[] = {
    524288, 1 << 20, 4 << 20,
    16 << 20, /* parts through the ring, or the other's memory */
    (32 << 20) - GUARD};
enum { COUNT = sizeof(boundaries) / sizeof(boundaries[0]) };
enum { MORE = sizeof(more) / sizeof(more[0]) };

static const enum telpher_mem_kind kinds[] = {TELPHER_MEM_HOST, TELPHER_MEM_SIM,
                                              TELPHER_MEM_OPENCL};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const char *transport;
static bool all_sizes;
static unsigned from_kind, to_kind;

/** A rank: memory of its kind, and as much to fill and look at it. */
struct party {
    telpher_context *ctx;
    uint32_t rank;
    size_t room;
    uint8_t *mem, *host;
    telpher_channel *ch;
    telpher_win *win;
    unsigned seed;
};

/* The sender's bytes at an offset; at the receiver, nothing of what will come. */
static void
prepare(struct party *p, size_t off, size_t len)
{
    size_t whole = GUARD + off + len + GUARD;

    memset(p->host, 0xa5, whole);
    if (p->rank == 0) {
        pattern_fill(p->host + GUARD + off, len, p->seed);
    }
    OK(telpher_mem_copy(p->ctx, p->mem, p->host, whole));
    OK(telpher_barrier(p->ctx, RANKS_TIME));
}

static void
check(struct party *p, size_t off, size_t len)
{
    size_t whole = GUARD + off + len + GUARD;

    OK(telpher_mem_copy(p->ctx, p->host, p->mem, whole));
    for (size_t i = 0; i < GUARD + off; i++) {
        MUST(p->host[i] == 0xa5);
    }
    MUST(pattern_matches(p->host + GUARD + off, len, p->seed));
    for (size_t i = GUARD + off + len; i < whole; i++) {
        MUST(p->host[i] == 0xa5);
    }
}

static void
by_channel(struct party *p, size_t off, size_t len)
{
    telpher_request *req = NULL;
    uint8_t *mem = p->mem + GUARD + off;
    size_t got = SIZE_MAX;

    if (p->rank == 0) {
        OK(ranks_finish(telpher_channel_send(p->ch, mem, len, NULL, &req), &req));
    } else {
        telpher_status status = telpher_channel_recv(p->ch, mem, len, NULL, &req, &got);

        if (status == TELPHER_IN_PROGRESS) {
            status = telpher_request_wait(req, RANKS_TIME, &got);
        }
        OK(status);
        MUST(got == len);
    }
}

static void
by_put(struct party *p, size_t off, size_t len, size_t to)
{
    telpher_request *req = NULL;

    if (p->rank == 0) {
        OK(ranks_finish(telpher_put_notify(p->win, 1, GUARD + to, p->mem + GUARD + off,
                                           len, TAG, NULL, &req),
                        &req));
    } else {
        OK(telpher_notify_wait(p->win, 0, TAG, 1, RANKS_TIME));
    }
}

static void
by_get(struct party *p, size_t off, size_t len, size_t from)
{
    telpher_request *req = NULL;

    if (p->rank == 1) {
        OK(ranks_finish(
            telpher_get(p->win, 0, GUARD + from, p->mem + GUARD + off, len, NULL, &req),
            &req));
    }
    OK(telpher_barrier(p->ctx, RANKS_TIME));
}

static void
try_size(struct party *p, size_t len)
{
    static const size_t offsets[] = {0, 1, 3, 8, 5};
    unsigned n = p->seed;
    size_t src = offsets[n % 5], dst = offsets[n / 5 % 5];
    size_t off = p->rank == 0 ? src : dst;

    for (unsigned way = 0; way < 3; way++, p->seed++) {
        prepare(p, off, len);
        if (way == 0) {
            by_channel(p, off, len);
        } else if (way == 1) {
            by_put(p, off, len, dst);
        } else {
            by_get(p, off, len, src);
        }
        if (p->rank == 1) {
            check(p, off, len);
        }
    }
}

static void
party_init(struct party *p, telpher_context *ctx)
{
    void *mem = NULL;

    p->ctx = ctx;
    p->rank = telpher_context_rank(ctx);
    p->room = (all_sizes ? BIGGEST_OF_ALL : BIGGEST) + 2 * GUARD + 16;
    p->host = malloc(p->room);
    MUST(p->host != NULL);
    OK(telpher_mem_alloc(ctx, kinds[p->rank == 0 ? from_kind : to_kind], p->room,
                         &mem));
    p->mem = mem;
    OK(telpher_channel_open(ctx, 1 - p->rank, 1, &p->ch));
    OK(telpher_win_create(ctx, p->mem, p->room, RANKS_TIME, &p->win));
}

static void
every_size(telpher_context *ctx)
{
    struct party p = {0};

    if (!ranks_have_memory(ctx, kinds[from_kind]) ||
        !ranks_have_memory(ctx, kinds[to_kind])) {
        return;
    }
    party_init(&p, ctx);
    try_size(&p, 0);
    for (unsigned i = 0; i < COUNT + (all_sizes ? MORE : 0); i++) {
        size_t at = i < COUNT ? boundaries[i] : more[i - COUNT];

        for (size_t len = at - 1; len <= at + 1; len++) {
            try_size(&p, len);
        }
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
    telpher_win_destroy(p.win);
    OK(telpher_mem_free(ctx, p.mem));
    free(p.host);
}

static void
test_sizes(void **state)
{
    (void)state;
    for (from_kind = 0; from_kind < KINDS; from_kind++) {
        for (to_kind = 0; to_kind < KINDS; to_kind++) {
            assert_true(ranks_run(2, transport, UINT32_MAX, every_size));
        }
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes)};

    transport = ranks_transport(argc, argv);
    all_sizes = getenv("TELPHER_TEST_ALL_SIZES") != NULL;
    ranks_seconds = all_sizes ? 900 : ranks_seconds;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
