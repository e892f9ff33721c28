/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory between processes of one machine: small data by one copy; pieces in chunks
 * that the other's device copies out of, more transfers than chunks, and what happens when a rank cannot map them,
 * when a device fails and when either side dies: `comm_export TRANSPORT`.
 */
#include "memory.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include <telpher/channel.h>
#include <telpher/mem.h>

enum { CHUNK = 64 << 10, BIG = 400003, MANY = 8 };

static const char *transport;

static telpher_mem_stats
stats_of(telpher_context *ctx)
{
    telpher_mem_stats stats = {.struct_size = sizeof(stats)};

    OK(telpher_mem_get_stats(ctx, &stats));
    return stats;
}

static telpher_status
send_one(telpher_channel *ch, const uint8_t *mem, size_t len)
{
    telpher_request *req = NULL;
    telpher_status status = telpher_channel_send(ch, mem, len, NULL, &req);

    return ranks_finish(status, &req);
}

static telpher_status
recv_one(telpher_channel *ch, uint8_t *mem, size_t len)
{
    telpher_request *req = NULL;
    size_t got = 0;
    telpher_status status = telpher_channel_recv(ch, mem, len, NULL, &req, &got);

    return ranks_finish(status, &req);
}

/** Pieces only, by chunks of a known size and number; nothing is measured. */
static void
use(const char *chunks, const char *export_chunks, const char *sim)
{
    setenv("TELPHER_DIRECT", "no", 1);
    setenv("TELPHER_CHUNK", "64K", 1);
    setenv("TELPHER_CHUNKS", chunks, 1);
    setenv("TELPHER_EXPORT_CHUNKS", export_chunks, 1);
    setenv("TELPHER_SIM", sim, 1);
}

/* ---- all is well ---- */

static bool exports; /* what the ranks of a run are expected to do */
static enum telpher_mem_kind from_kind, to_kind;

/* In a ring, in both directions, all at once, of odd sizes: far more than there are chunks. */
static void
more_than_chunks(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx), size = telpher_context_size(ctx);
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    telpher_channel *out, *in;
    telpher_request *sends[MANY], *recvs[MANY];
    uint8_t *src[MANY], *dst[MANY];
    size_t got[MANY];

    OK(telpher_channel_open(ctx, next, rank, &out));
    OK(telpher_channel_open(ctx, before, before, &in));
    for (unsigned i = 0; i < MANY; i++) {
        src[i] = memory_alloc_filled(ctx, from_kind, BIG + i, i + rank);
        dst[i] = memory_alloc_filled(ctx, to_kind, BIG + i, 0);
        IS(telpher_channel_send(out, src[i], BIG + i, NULL, &sends[i]),
           TELPHER_IN_PROGRESS);
        IS(telpher_channel_recv(in, dst[i], BIG + i, NULL, &recvs[i], &got[i]),
           TELPHER_IN_PROGRESS);
    }
    for (unsigned i = 0; i < MANY; i++) {
        OK(telpher_request_wait(recvs[i], RANKS_TIME, &got[i]));
        OK(telpher_request_wait(sends[i], RANKS_TIME, NULL));
        MUST(got[i] == BIG + i);
        memory_check(ctx, dst[i], BIG + i, i + before);
        OK(telpher_mem_free(ctx, src[i]));
        OK(telpher_mem_free(ctx, dst[i]));
    }
    MUST((stats_of(ctx).chunks_exported >= MANY * (BIG / CHUNK)) == exports);
    MUST((stats_of(ctx).chunks_exported != 0) == exports);
    OK(telpher_barrier(ctx, RANKS_TIME));
}

static void
test_more_than_chunks(void **state)
{
    static const enum telpher_mem_kind pairs[][2] = {
        {TELPHER_MEM_SIM, TELPHER_MEM_SIM},
        {TELPHER_MEM_SIM, TELPHER_MEM_HOST},
        {TELPHER_MEM_HOST, TELPHER_MEM_SIM},
    };

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        exports = i < 3;
        from_kind = pairs[i % 3][0];
        to_kind = pairs[i % 3][1];
        use("4", exports ? "yes" : "no", "");
        assert_true(ranks_run(3, transport, UINT32_MAX, more_than_chunks));
    }
}

/* ---- small ---- */

enum { SMALL = 777, TURNS = 5 };

static bool one_copy; /* what the ranks of a run are expected to do */

/* Small data of a device goes by one copy at the receiver, or by one on each side; in order with
 * what comes from host memory, either way. */
static void
small_ones(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    uint8_t *mem = memory_alloc_filled(ctx, TELPHER_MEM_SIM, SMALL, 3), *host;
    telpher_channel *ch;
    uint64_t before;

    host = memory_alloc_filled(ctx, TELPHER_MEM_HOST, SMALL, 4);
    OK(telpher_channel_open(ctx, 1 - rank, 0, &ch));
    before = stats_of(ctx).copies;
    for (unsigned i = 0; i < TURNS; i++) {
        if (rank == 0) {
            OK(send_one(ch, mem, SMALL));
            OK(send_one(ch, host, SMALL));
        } else {
            OK(recv_one(ch, mem, SMALL));
            OK(recv_one(ch, host, SMALL));
        }
    }
    MUST(stats_of(ctx).copies - before == (rank == 1 || !one_copy ? TURNS : 0));
    memory_check(ctx, mem, SMALL, 3);
    memory_check(ctx, host, SMALL, 4);
    if (rank == 0) { /* to host memory as well */
        OK(send_one(ch, mem + 1, SMALL - 1));
    } else {
        OK(recv_one(ch, host, SMALL - 1));
        MUST(host[0] == pattern_at(1, 3) &&
             host[SMALL - 2] == pattern_at(SMALL - 1, 3));
    }
    OK(telpher_mem_free(ctx, host));
    OK(telpher_barrier(ctx, RANKS_TIME)); /* nobody copies out of it any more */
    OK(telpher_mem_free(ctx, mem));
}

/* Another kind of memory than the sender's cannot be copied to directly: pulled once, then sent
 * at once. */
static void
small_ones_elsewhere(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    uint8_t *mem;
    telpher_channel *ch;
    void *dst = NULL;

    if (telpher_mem_alloc(ctx, TELPHER_MEM_OPENCL, SMALL, &dst) != TELPHER_OK) {
        return; /* on both sides */
    }
    mem = memory_alloc_filled(ctx, TELPHER_MEM_SIM, SMALL, 6);
    OK(telpher_channel_open(ctx, 1 - rank, 0, &ch));
    for (unsigned i = 0; i < TURNS; i++) {
        uint64_t exported = stats_of(ctx).chunks_exported;

        if (rank == 0) {
            OK(send_one(ch, mem, SMALL));
            MUST(stats_of(ctx).chunks_exported - exported == (i == 0));
        } else {
            OK(recv_one(ch, dst, SMALL));
            memory_check(ctx, dst, SMALL, 6);
        }
    }
    OK(telpher_mem_free(ctx, mem));
    OK(telpher_mem_free(ctx, dst));
    OK(telpher_barrier(ctx, RANKS_TIME));
}

static void
test_small(void **state)
{
    (void)state;
    use("8", "yes", "");
    setenv("TELPHER_DIRECT", "yes", 1);
    for (unsigned i = 0; i < 2; i++) {
        one_copy = i == 0;
        setenv("TELPHER_DIRECT_MIN", one_copy ? "1" : "1M", 1);
        assert_true(ranks_run(2, transport, UINT32_MAX, small_ones));
    }
    setenv("TELPHER_DIRECT_MIN", "1", 1);
    assert_true(ranks_run(2, transport, UINT32_MAX, small_ones_elsewhere));
    unsetenv("TELPHER_DIRECT_MIN");
    /* as measured: two copies or one, of so long that a busy machine does not matter */
    unsetenv("TELPHER_CHUNK");
    setenv("TELPHER_SIM", "latency=120ms", 1);
    one_copy = true;
    assert_true(ranks_run(2, transport, UINT32_MAX, small_ones));
}

/* ---- refused ---- */

/* Host memory goes to the device by chunks of rank 0 that are not the device's. */
static void
meet(telpher_context *ctx, telpher_channel *ch, uint8_t *mem)
{
    uint8_t *host = memory_alloc_filled(ctx, TELPHER_MEM_HOST, BIG, 0);

    if (telpher_context_rank(ctx) == 0) {
        OK(send_one(ch, host, BIG));
    } else {
        OK(recv_one(ch, mem, BIG));
        memory_check(ctx, mem, BIG, 0);
    }
    OK(telpher_mem_free(ctx, host));
}

static bool met; /* before, by chunks of other memory */

/* The receiver may not open one more file: what is exported to it has to be sent. */
static void
cannot_map(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    uint8_t *mem = memory_alloc_filled(ctx, TELPHER_MEM_SIM, BIG, rank);
    struct rlimit before, none;
    telpher_channel *ch;
    uint64_t exported;

    OK(telpher_channel_open(ctx, 1 - rank, 0, &ch));
    if (met) {
        meet(ctx, ch, mem);
    }
    exported = stats_of(ctx).chunks_exported;
    MUST((exported != 0) == (met && rank == 0));
    OK(telpher_barrier(ctx, RANKS_TIME)); /* connected */
    if (rank == 1) {
        MUST(getrlimit(RLIMIT_NOFILE, &before) == 0);
        none = (struct rlimit){3, before.rlim_max};
        MUST(setrlimit(RLIMIT_NOFILE, &none) == 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        if (rank == 0) {
            OK(send_one(ch, mem, BIG));
        } else {
            OK(recv_one(ch, mem, BIG));
            memory_check(ctx, mem, BIG, 0);
        }
    }
    if (rank == 1) {
        MUST(setrlimit(RLIMIT_NOFILE, &before) == 0);
    }
    exported = stats_of(ctx).chunks_exported - exported;
    if (rank == 0) { /* asked for once, in at most as many pieces as were under way */
        MUST(met ? exported >= 1 && exported <= 4 : exported == 0);
    }
    OK(telpher_mem_free(ctx, mem));
    OK(telpher_barrier(ctx, RANKS_TIME));
}

static void
test_cannot_map(void **state)
{
    (void)state;
    use("8", "yes", "");
    for (int i = 0; i < 2;
         i++) { /* who cannot map the sender's revocation table never asks */
        met = i == 0;
        assert_true(ranks_run(2, transport, UINT32_MAX, cannot_map));
    }
}

/* ---- a device fails ---- */

/* The receiver's third copy fails. The sender has nothing to do with it, and both go on. */
static void
receiver_fails(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    uint8_t *src = memory_alloc_filled(ctx, TELPHER_MEM_HOST, BIG, 7);
    telpher_channel *ch;
    void *dst = NULL;

    OK(telpher_channel_open(ctx, 1 - rank, 0, &ch));
    if (rank == 0) {
        telpher_status status = send_one(ch, src, BIG);

        MUST(status == TELPHER_OK || status == TELPHER_ERR_CANCELED);
        OK(send_one(ch, src, BIG));
    } else {
        OK(telpher_mem_alloc(ctx, TELPHER_MEM_SIM, BIG, &dst));
        IS(recv_one(ch, dst, BIG), TELPHER_ERR_DEVICE);
        OK(recv_one(ch, dst, BIG));
        memory_check(ctx, dst, BIG, 7);
        OK(telpher_mem_free(ctx, dst));
    }
    OK(telpher_mem_free(ctx, src));
    OK(telpher_barrier(ctx, RANKS_TIME));
}

/* The sender's third copy fails, its first being that of the pattern. */
static void
sender_fails(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    uint8_t *dst = memory_alloc_filled(ctx, TELPHER_MEM_HOST, BIG, 0), *src;
    telpher_channel *ch;

    OK(telpher_channel_open(ctx, 1 - rank, 0, &ch));
    if (rank == 0) {
        src = memory_alloc_filled(ctx, TELPHER_MEM_SIM, BIG, 5);
        IS(send_one(ch, src, BIG), TELPHER_ERR_DEVICE);
        OK(send_one(ch, src, BIG));
        OK(telpher_mem_free(ctx, src));
    } else {
        IS(recv_one(ch, dst, BIG), TELPHER_ERR_DEPENDENCY);
        OK(recv_one(ch, dst, BIG));
        memory_check(ctx, dst, BIG, 5);
    }
    OK(telpher_mem_free(ctx, dst));
    OK(telpher_barrier(ctx, RANKS_TIME));
}

static void
test_device_fails(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        use("8", i == 0 ? "yes" : "no", "fail=3");
        assert_true(ranks_run(2, transport, UINT32_MAX, receiver_fails));
        assert_true(ranks_run(2, transport, UINT32_MAX, sender_fails));
    }
}

/* ---- a rank dies ---- */

/* Rank 1 dies while its device copies out of the only chunk that rank 0 may have out. Rank 0
 * gets it back: what it sends to rank 2 needs it. */
static void
reader_dies(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    telpher_request *req = NULL;
    telpher_channel *ch, *other = NULL;
    void *mem = NULL;
    size_t got;

    OK(telpher_mem_alloc(ctx, TELPHER_MEM_SIM, BIG, &mem));
    OK(telpher_channel_open(ctx, rank == 0 ? 1 : 0, rank == 2, &ch));
    if (rank == 1) {
        IS(telpher_channel_recv(ch, mem, BIG, NULL, &req, &got), TELPHER_IN_PROGRESS);
        while (stats_of(ctx).copies == 0) {
            telpher_progress(ctx);
        }
        raise(SIGKILL);
    }
    if (rank == 0) {
        OK(telpher_channel_open(ctx, 2, 1, &other));
        IS(send_one(ch, mem, BIG), TELPHER_ERR_PEER_LOST);
        MUST(stats_of(ctx).chunks_exported == 1);
        OK(send_one(other, mem, 2 * CHUNK + 1));
    } else {
        OK(recv_one(ch, mem, 2 * CHUNK + 1));
    }
    OK(telpher_mem_free(ctx, mem));
}

/* Rank 1 dies while rank 0's device copies out of its memory. */
static void
lender_dies(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    telpher_request *req = NULL;
    telpher_channel *ch, *other = NULL;
    void *mem = NULL;

    OK(telpher_mem_alloc(ctx, TELPHER_MEM_SIM, BIG, &mem));
    OK(telpher_channel_open(ctx, rank == 0 ? 1 : 0, rank == 2, &ch));
    if (rank == 1) {
        IS(telpher_channel_send(ch, mem, BIG, NULL, &req), TELPHER_IN_PROGRESS);
        while (stats_of(ctx).chunks_exported == 0) {
            telpher_progress(ctx);
        }
        raise(SIGKILL);
    }
    if (rank == 0) {
        OK(telpher_channel_open(ctx, 2, 1, &other));
        IS(recv_one(ch, mem, BIG), TELPHER_ERR_PEER_LOST);
        OK(recv_one(other, mem, 2 * CHUNK + 1));
    } else {
        OK(send_one(ch, mem, 2 * CHUNK + 1));
    }
    OK(telpher_mem_free(ctx, mem));
}

static void
test_death(void **state)
{
    (void)state;
    use("2", "yes", "latency=300ms");
    assert_true(ranks_run(3, transport, 1, reader_dies));
    assert_true(ranks_run(3, transport, 1, lender_dies));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_chunks),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_cannot_map),
        cmocka_unit_test(test_device_fails),
        cmocka_unit_test(test_death),
    };

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
