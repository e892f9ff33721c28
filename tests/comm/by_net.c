/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that the transport itself moves, from the device and to it: what is moved so and
 * what is not, where one side cannot, what is cut or dropped, and a rank that dies:
 * `comm_by_net TRANSPORT [cuda]`, without the last with memory that plays a device's.
 */
#include "memory.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/channel.h>
#include <telpher/mem.h>

#include "device/sim/sim.h"

enum { LEAST = 7936, BIG = 3000001, SLOTS = 4, POISON = 0xee };

static const char *transport;
static enum telpher_mem_kind device = TELPHER_MEM_SIM;

/* One side of a transfer. */
struct side {
    telpher_context *ctx;
    telpher_channel *ch;
    bool sends;
    uint8_t *mem[2]; /* a device's, the host's */
};

static uint64_t
copies(telpher_context *ctx)
{
    telpher_mem_stats stats = {.struct_size = sizeof(stats)};

    OK(telpher_mem_get_stats(ctx, &stats));
    return stats.copies;
}

/** At the sender the pattern of @p seed, at the receiver bytes that show what was not written. */
static void
prepare(const struct side *s, uint8_t *mem, size_t len, unsigned seed)
{
    if (s->sends) {
        memory_fill(s->ctx, mem, len, seed);
    } else {
        memory_set(s->ctx, mem, len, POISON);
    }
}

/** The first @p len bytes of @p room must have been received, the others not. */
static void
check(const struct side *s, const uint8_t *mem, size_t len, size_t room, unsigned seed)
{
    memory_check(s->ctx, mem, len, seed);
    memory_check_set(s->ctx, mem + len, room - len, POISON);
}

static struct side
open_side(telpher_context *ctx)
{
    struct side s = {.ctx = ctx, .sends = telpher_context_rank(ctx) == 0};
    void *mem;

    OK(telpher_channel_open(ctx, s.sends ? 1 : 0, 0, &s.ch));
    for (unsigned i = 0; i < 2; i++) {
        OK(telpher_mem_alloc(ctx, i == 0 ? device : TELPHER_MEM_HOST, BIG, &mem));
        s.mem[i] = mem;
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
    return s;
}

static void
close_side(struct side *s)
{
    OK(telpher_barrier(s->ctx, RANKS_TIME));
    OK(telpher_mem_free(s->ctx, s->mem[0]));
    OK(telpher_mem_free(s->ctx, s->mem[1]));
}

/** One transfer. @return what this side's end was, and in *ret_copies what devices did for it */
static telpher_status
transfer(struct side *s, uint8_t *mem, size_t len, const telpher_xfer_params *params,
         uint64_t *ret_copies)
{
    uint64_t before = copies(s->ctx);
    telpher_request *req = NULL;
    size_t got = 0;
    telpher_status status =
        s->sends ? telpher_channel_send(s->ch, mem, len, params, &req)
                 : telpher_channel_recv(s->ch, mem, len, params, &req, &got);

    status = ranks_finish(status, &req);
    *ret_copies = copies(s->ctx) - before;
    return status;
}

/** One of @p len bytes, from memory @p from to @p to, that must be straight or not. */
static void
one(struct side *s, size_t len, unsigned from, unsigned to, bool straight)
{
    uint8_t *mem = s->mem[s->sends ? from : to];
    unsigned seed = 1 + (unsigned)len % 200;
    uint64_t made;

    prepare(s, mem, len + (len < BIG), seed);
    OK(transfer(s, mem, len, NULL, &made));
    MUST((made == 0) == (straight || mem == s->mem[1]));
    if (!s->sends) {
        check(s, mem, len, len + (len < BIG), seed);
    }
}

static void
use(const char *least)
{
    setenv("TELPHER_NET_DIRECT_MIN", least, 1);
    setenv("TELPHER_DIRECT", "no", 1); /* the ranks are on one machine */
    setenv("TELPHER_EXPORT_CHUNKS", "no", 1);
    setenv("TELPHER_CHUNK", "64K", 1);
    setenv("TELPHER_CHUNKS", "4", 1);
    setenv("TELPHER_SIM", "net=yes", 1);
}

/* ---- all sizes ---- */

static void
sizes(telpher_context *ctx)
{
    static const size_t lens[] = {7000,  LEAST - 1, LEAST,   LEAST + 1,
                                  99999, 1 << 20,   BIG - 1, BIG};
    static const unsigned pairs[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    struct side s = open_side(ctx);

    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (unsigned p = 0; p < 4; p++) {
            one(&s, lens[i], pairs[p][0], pairs[p][1], lens[i] >= LEAST);
        }
    }
    close_side(&s);
}

static void
test_sizes(void **state)
{
    (void)state;
    use("1"); /* as small as the transport allows */
    assert_true(ranks_run(2, transport, UINT32_MAX, sizes));
}

/* ---- where it is not done ---- */

static uint32_t unable; /* the rank that takes no part in it */

static void
one_cannot(uint32_t rank)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    struct side s;

    if (rank == unable) {
        use("0");
    }
    params.transports = transport;
    params.timeout_ns = RANKS_TIME;
    OK(telpher_context_create(&params, &ctx, NULL));
    s = open_side(ctx);
    one(&s, BIG, 0, 0, false);
    one(&s, BIG, 1 - unable, unable, true); /* from or to the other's device alone */
    one(&s, BIG, unable, 1 - unable, false);
    close_side(&s);
    telpher_context_destroy(ctx);
}

/* A kernel may run on one side, which has the transport stay away from its device. */
static void
one_keeps_open(telpher_context *ctx)
{
    struct side s = open_side(ctx);

    for (unsigned who = 0; who < 2; who++) {
        telpher_mem_keep_open(ctx, telpher_context_rank(ctx) == who);
        OK(telpher_barrier(ctx, RANKS_TIME));
        one(&s, BIG, 0, 0, false);
        telpher_mem_keep_open(ctx, 0);
        one(&s, BIG, 0, 0, true);
    }
    close_side(&s);
}

/* Transports know nothing of queues. */
static void
one_has_a_queue(telpher_context *ctx)
{
    struct tp_sim_queue queue = {0};
    telpher_xfer_params params = TELPHER_XFER_PARAMS_INIT;
    struct side s = open_side(ctx);
    uint64_t made;

    params.queue = &queue;
    for (unsigned who = 0; who < 2; who++) {
        const telpher_xfer_params *p =
            telpher_context_rank(ctx) == who ? &params : NULL;

        prepare(&s, s.mem[0], BIG, 9 + who);
        OK(transfer(&s, s.mem[0], BIG, p, &made));
        MUST(made != 0);
        if (!s.sends) {
            check(&s, s.mem[0], BIG, BIG, 9 + who);
        }
    }
    close_side(&s);
}

static void
test_not_done(void **state)
{
    (void)state;
    use("1");
    for (unable = 0; unable < 2; unable++) {
        assert_true(ranks_run_bare(2, UINT32_MAX, one_cannot));
    }
    assert_true(ranks_run(2, transport, UINT32_MAX, one_keeps_open));
    if (device == TELPHER_MEM_SIM) {
        assert_true(ranks_run(2, transport, UINT32_MAX, one_has_a_queue));
    }
}

/* ---- cut ---- */

static void
cut(telpher_context *ctx)
{
    static const size_t rooms[] = {0, 1, 1000, LEAST - 1, LEAST, BIG - 1};
    struct side s = open_side(ctx);
    uint64_t made;

    for (unsigned i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        prepare(&s, s.mem[0], BIG, 5);
        if (s.sends) {
            OK(transfer(&s, s.mem[0], BIG, NULL, &made));
        } else {
            IS(transfer(&s, s.mem[0], rooms[i], NULL, &made), TELPHER_ERR_TRUNCATED);
            check(&s, s.mem[0], rooms[i], BIG, 5);
        }
    }
    close_side(&s);
}

static void
test_cut(void **state)
{
    (void)state;
    use("1");
    assert_true(ranks_run(2, transport, UINT32_MAX, cut));
}

/* ---- a rank dies ---- */

/* Rank 1 dies in the middle of several; rank 0 sends to it and receives from it. */
static void
dies(telpher_context *ctx)
{
    struct side s = open_side(ctx);
    telpher_request *sends[SLOTS], *recvs[SLOTS];
    size_t got;

    for (unsigned round = 0;; round++) {
        for (unsigned i = 0; i < SLOTS; i++) {
            telpher_status sent =
                telpher_channel_send(s.ch, s.mem[0], BIG / 2, NULL, &sends[i]);
            telpher_status come = telpher_channel_recv(s.ch, s.mem[0] + BIG / 2,
                                                       BIG / 2, NULL, &recvs[i], &got);

            if (sent != TELPHER_IN_PROGRESS) {
                IS(sent, TELPHER_ERR_PEER_LOST);
                sends[i] = NULL;
            }
            if (come != TELPHER_IN_PROGRESS) {
                IS(come, TELPHER_ERR_PEER_LOST);
                recvs[i] = NULL;
            }
        }
        for (unsigned i = 0; round == 2 && !s.sends && i < 20; i++) {
            telpher_progress(ctx);
        }
        if (round == 2 && !s.sends) {
            raise(SIGKILL);
        }
        for (unsigned i = 0; i < SLOTS; i++) {
            telpher_request *both[2] = {sends[i], recvs[i]};

            for (unsigned b = 0; b < 2; b++) {
                telpher_status status =
                    both[b] != NULL ? telpher_request_wait(both[b], RANKS_TIME, NULL)
                                    : TELPHER_ERR_PEER_LOST;

                MUST(status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST);
                if (status != TELPHER_OK && i == SLOTS - 1 && b == 1) {
                    OK(telpher_mem_free(ctx, s.mem[0]));
                    return;
                }
            }
        }
    }
}

static void
test_death(void **state)
{
    (void)state;
    use("1");
    for (unsigned i = 0; i < 5; i++) {
        assert_true(ranks_run(2, transport, 1, dies));
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_not_done),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_death),
    };

    transport = ranks_transport(argc, argv);
    device = argc > 2 ? TELPHER_MEM_CUDA : TELPHER_MEM_SIM;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
