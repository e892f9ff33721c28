/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: comm_reused TRANSPORT
 *
 * Rank 0 gives rank 1 up while that one's device copies out of its memory, or of a chunk that it
 * exported, or while its transport may, and uses the memory again as soon as it is told that it may;
 * or it leaves with its sending not at an end. Rank 1, which does not look
 * meanwhile, has what was sent, or is told that it is lost.
 */
#include "memory.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include <telpher/channel.h>
#include <telpher/mem.h>

enum { BEFORE = 0xaa, AFTER = 0x55, CHUNK = 64 << 10, CHUNKS = 8 };

/* Copies of the device take long and are done at their end (src/device/sim). */
#define SIM "latency=400ms"

/** Memory shared by both ranks. */
static struct shared {
    _Atomic uint32_t copies, used_again;
} * shared;

static const char *transport;
static bool exports, leaves;
static enum telpher_mem_kind from_kind, to_kind;
static size_t len, other_len;

static void *
make(telpher_context *ctx, enum telpher_mem_kind kind, size_t bytes, int value)
{
    uint8_t *mem = memory_alloc(ctx, kind, bytes);

    memory_set(ctx, mem, bytes, value);
    return mem;
}

static uint64_t
copies_of(telpher_context *ctx)
{
    telpher_mem_stats stats = {.struct_size = sizeof(stats)};

    OK(telpher_mem_get_stats(ctx, &stats));
    return stats.copies;
}

/* Lent chunks are free again: all of them get something else, for rank 2. */
static void
fill_chunks(telpher_context *ctx, const void *mem)
{
    telpher_channel *ch = NULL;
    telpher_request *req = NULL;
    telpher_status status;

    OK(telpher_channel_open(ctx, 2, 4, &ch));
    status = telpher_channel_send(ch, mem, other_len, NULL, &req);
    OK(ranks_finish(status, &req));
}

static void
take(telpher_context *ctx)
{
    telpher_channel *ch = NULL;
    telpher_request *req = NULL;
    void *host = malloc(other_len);
    telpher_status status;

    MUST(host != NULL);
    OK(telpher_channel_open(ctx, 0, 4, &ch));
    status = telpher_channel_recv(ch, host, other_len, NULL, &req, NULL);
    OK(ranks_finish(status, &req));
    free(host);
}

static void
send_and_disconnect(telpher_context *ctx)
{
    void *mem = make(ctx, TELPHER_MEM_SIM, len, BEFORE);
    void *other = make(ctx, TELPHER_MEM_SIM, other_len, AFTER);
    telpher_channel *ch = NULL;
    telpher_request *req = NULL;

    OK(telpher_channel_open(ctx, 1, 3, &ch));
    IS(telpher_channel_send(ch, mem, len, NULL, &req), TELPHER_IN_PROGRESS);
    while (atomic_load(&shared->copies) == 0) {
        (void)telpher_progress(ctx);
        sched_yield();
    }
    OK(telpher_peer_disconnect(ctx, 1));
    IS(telpher_request_wait(req, RANKS_TIME, NULL), TELPHER_ERR_PEER_LOST);
    OK(telpher_mem_copy(ctx, mem, other, len));
    if (exports) {
        fill_chunks(ctx, other);
    }
    atomic_store(&shared->used_again, 1);
}

static void
receive(telpher_context *ctx)
{
    void *mem = make(ctx, to_kind, len, 0);
    uint64_t before = copies_of(ctx);
    telpher_channel *ch = NULL;
    telpher_request *req = NULL;
    telpher_status status;

    OK(telpher_channel_open(ctx, 0, 3, &ch));
    IS(telpher_channel_recv(ch, mem, len, NULL, &req, NULL), TELPHER_IN_PROGRESS);
    while (copies_of(ctx) == before) { /* none of it has ended */
        (void)telpher_progress(ctx);
        sched_yield();
    }
    atomic_store(&shared->copies, 1);
    while (atomic_load(&shared->used_again) == 0) {
        sched_yield();
    }
    status = telpher_request_wait(req, RANKS_TIME, NULL);
    MUST(status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST);
    if (status == TELPHER_OK) {
        memory_check_set(ctx, mem, len, BEFORE);
    }
}

static void
rank(telpher_context *ctx)
{
    if (telpher_context_rank(ctx) == 0) {
        send_and_disconnect(ctx);
    } else if (telpher_context_rank(ctx) == 1) {
        receive(ctx);
    } else if (exports) {
        take(ctx);
    }
}

/* ---- bulks ---- */

static void
progress_for(telpher_context *ctx, unsigned ms)
{
    struct timespec nap = {.tv_nsec = 1000000};

    for (unsigned i = 0; i < ms; i++) {
        (void)telpher_progress(ctx);
        (void)nanosleep(&nap, NULL);
    }
}

static void
wait_for(_Atomic uint32_t *flag)
{
    while (atomic_load(flag) == 0) {
        sched_yield();
    }
}

/* Is there until the process ends, since the other one may read it: no leak. */
static void *volatile left_behind;

/* It has been asked for the data, and has said where it is or sent some of it. */
static void
offer_and_disconnect(telpher_context *ctx, telpher_channel *ch)
{
    void *mem = leaves ? malloc(len) : make(ctx, from_kind, len, BEFORE);
    void *other = make(ctx, from_kind, len, AFTER);
    telpher_request *req = NULL;
    telpher_status status;

    if (leaves) {
        MUST(mem != NULL);
        memset(mem, BEFORE, len);
    }
    IS(telpher_channel_send(ch, mem, len, NULL, &req), TELPHER_IN_PROGRESS);
    wait_for(&shared->copies);
    progress_for(ctx, 200);
    if (leaves) {
        telpher_context_destroy(ctx);
        memset(mem, AFTER, len);
        left_behind = mem;
        atomic_store(&shared->used_again, 1);
        return;
    }
    OK(telpher_peer_disconnect(ctx, 1));
    status = telpher_request_wait(req, RANKS_TIME, NULL);
    MUST(status == TELPHER_OK ||
         status == TELPHER_ERR_PEER_LOST); /* OK: all has left */
    OK(telpher_mem_copy(ctx, mem, other, len));
    atomic_store(&shared->used_again, 1);
}

static void
ask(telpher_context *ctx, telpher_channel *ch)
{
    void *mem = make(ctx, to_kind, len, 0);
    telpher_request *req = NULL;
    telpher_status status;

    IS(telpher_channel_recv(ch, mem, len, NULL, &req, NULL), TELPHER_IN_PROGRESS);
    progress_for(ctx, 200);
    atomic_store(&shared->copies, 1);
    wait_for(&shared->used_again);
    status = telpher_request_wait(req, RANKS_TIME, NULL);
    MUST(status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST);
    if (status ==
        TELPHER_ERR_PEER_LOST) { /* its own again: nobody writes it any more */
        void *own = make(ctx, TELPHER_MEM_HOST, len, BEFORE);

        OK(telpher_mem_copy(ctx, mem, own, len));
        progress_for(ctx, 100);
    }
    memory_check_set(ctx, mem, len, BEFORE);
}

static void
rank_of_bulk(uint32_t rank)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    telpher_channel *ch = NULL;

    params.transports = transport;
    params.timeout_ns = RANKS_TIME;
    OK(telpher_context_create(&params, &ctx, NULL));
    OK(telpher_channel_open(ctx, 1 - rank, 3, &ch));
    OK(telpher_barrier(ctx, RANKS_TIME));
    progress_for(ctx, 100); /* also its last message has left */
    if (rank == 0) {
        offer_and_disconnect(ctx, ch);
    } else {
        ask(ctx, ch);
    }
    if (rank != 0 || !leaves) {
        telpher_context_destroy(ctx);
    }
}

/* ---- all ---- */

static void
run(enum telpher_mem_kind to, size_t bytes, bool by_chunks)
{
    memset(shared, 0, sizeof(*shared));
    to_kind = to;
    len = bytes;
    other_len = bytes + CHUNKS * CHUNK;
    exports = by_chunks;
    setenv("TELPHER_DIRECT", by_chunks ? "no" : "yes", 1);
    assert_true(ranks_run(3, transport, UINT32_MAX, rank));
}

static void
test_direct(void **state)
{
    (void)state;
    run(TELPHER_MEM_SIM, 1 << 20, false);
    run(TELPHER_MEM_HOST, 32 << 10, false); /* by a chunk */
}

static void
test_exported(void **state)
{
    (void)state;
    run(TELPHER_MEM_SIM, 2 * CHUNK, true); /* in three pieces */
}

static void
run_bulk(enum telpher_mem_kind from, enum telpher_mem_kind to, size_t bytes)
{
    memset(shared, 0, sizeof(*shared));
    from_kind = from;
    to_kind = to;
    len = bytes;
    assert_true(ranks_run_bare(2, UINT32_MAX, rank_of_bulk));
}

static void
test_bulk(void **state)
{
    static const size_t sizes[] = {100000, 1 << 20, 20 << 20};

    (void)state;
    setenv("TELPHER_DIRECT", "no", 1);
    setenv("TELPHER_EXPORT_CHUNKS", "no", 1);
    setenv("TELPHER_NET_DIRECT_MIN", "1", 1);
    setenv("TELPHER_SIM", "net=yes", 1);
    setenv("TELPHER_LEAVE_TIMEOUT", "100ms", 1);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (unsigned j = 0; j < 2; j++) {
            leaves = j == 1;
            run_bulk(TELPHER_MEM_HOST, TELPHER_MEM_HOST, sizes[i]);
        }
        leaves = false;
        run_bulk(TELPHER_MEM_SIM, TELPHER_MEM_SIM, sizes[i]);
        run_bulk(TELPHER_MEM_SIM, TELPHER_MEM_HOST, sizes[i]);
        run_bulk(TELPHER_MEM_HOST, TELPHER_MEM_SIM, sizes[i]);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_exported),
        cmocka_unit_test(test_bulk),
    };

    transport = ranks_transport(argc, argv);
    setenv("TELPHER_CHUNK", "64K", 1);
    setenv("TELPHER_CHUNKS", "8", 1);
    setenv("TELPHER_DIRECT_MIN", "1", 1);
    setenv("TELPHER_SIM", SIM, 1);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared != MAP_FAILED
               ? cmocka_run_group_tests_name(transport, tests, NULL, NULL)
               : 1;
}
