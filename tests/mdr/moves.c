/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_moves TRANSPORT [MOVES]
 *
 * Objects that move at random between 4 processes while their channels are full, with broadcasts
 * and reductions among them. Each object has memory of one kind that moves with it. Nothing may be
 * lost, doubled or reordered. Without MOVES, device memory moves less often than host memory.
 */
#include "../comm/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

enum { MOVERS = 40, PROCESSES = 4, PEERS = 2, STATE = 3000, BURST = 2, LARGE = 20000 };

static const char *transport;
static uint32_t moves = 1280, slower = 4, steps;
static enum telpher_mem_kind kind;

enum { STEP, TAKE, SHOUT, COUNT, ASK, REPORT, ENTRIES };

struct mover {
    uint64_t random;
    uint32_t steps, sent[PEERS], wanted[PEERS], got[PEERS];
    uint32_t shouts, asked;
    uint8_t *state; /* STATE bytes of `kind` */
    uint32_t state_seed;
};

struct item {
    uint32_t from, peer, number, len;
};

static const int32_t hops[PEERS] = {1, 7};

static uint32_t
random_below(struct mover *m, uint32_t below)
{
    m->random =
        m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m->random >> 33) % below;
}

static void
mover_create(telpher_mdr_call *call)
{
    struct mover *m = call->self;

    m->random = (uint64_t)call->index.at[0] * 977 + 1;
    m->state_seed = (uint32_t)call->index.at[0];
    m->state =
        memory_alloc_filled(telpher_mdr_context(call->mdr), kind, STATE, m->state_seed);
}

static void
mover_destroy(telpher_mdr_call *call)
{
    struct mover *m = call->self;

    OK(telpher_mem_free(telpher_mdr_context(call->mdr), m->state));
}

static void
mover_pup(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    struct mover *m = call->self;
    uint8_t *state = m->state;

    telpher_mdr_pup_bytes(p, m, sizeof(*m));
    if (telpher_mdr_pup_mode(p) == TELPHER_MDR_UNPACK) {
        state = memory_alloc(telpher_mdr_context(call->mdr), kind, STATE);
    }
    m->state = state;
    telpher_mdr_pup_bytes(p, m->state, STATE);
}

/* The channel of peer p: its sender is the one with the smaller hop, its number p. */
static telpher_mdr_channel
channel_to(const telpher_mdr_call *call, uint32_t p, bool sending)
{
    int32_t hop = sending ? hops[p] : MOVERS - hops[p];
    telpher_mdr_channel c = {.array = call->array, .number = p};

    c.index.at[0] = (call->index.at[0] + hop) % MOVERS;
    return c;
}

struct parcel {
    telpher_context *ctx;
    uint8_t *mem;
};

static void
free_parcel(void *user, telpher_status status, size_t len)
{
    struct parcel *parcel = user;

    (void)len;
    OK(status);
    OK(telpher_mem_free(parcel->ctx, parcel->mem));
    free(parcel);
}

static void
send_item(telpher_mdr_call *call, uint32_t p)
{
    struct mover *m = call->self;
    telpher_context *ctx = telpher_mdr_context(call->mdr);
    const telpher_mdr_channel c = channel_to(call, p, true);
    struct item item = {(uint32_t)call->index.at[0], p, m->sent[p]++, 0};
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    struct parcel *parcel;
    telpher_msg_buffer buffer;

    if (random_below(m, 3) == 0) { /* without a buffer */
        OK(telpher_mdr_channel_send(call, &c, &item, sizeof(item), NULL, 0, NULL));
        return;
    }
    item.len = 1 + random_below(m, random_below(m, 4) == 0 ? LARGE : 300);
    parcel = malloc(sizeof(*parcel));
    MUST(parcel != NULL);
    parcel->ctx = ctx;
    parcel->mem = memory_alloc_filled(ctx, kind, item.len, item.number + item.from);
    buffer = (telpher_msg_buffer){parcel->mem, item.len};
    xfer.on_done = free_parcel;
    xfer.user = parcel;
    OK(telpher_mdr_channel_send(call, &c, &item, sizeof(item), &buffer, 1, &xfer));
}

static void
want_items(telpher_mdr_call *call, uint32_t p, uint32_t count)
{
    struct mover *m = call->self;
    const telpher_mdr_channel c = channel_to(call, p, false);

    for (; count != 0 && m->wanted[p] < steps * BURST; count--, m->wanted[p]++) {
        OK(telpher_mdr_channel_recv(call, &c, TAKE));
    }
}

/* Sends, receives less than was sent, moves, and calls itself again. */
static void
mover_step(telpher_mdr_call *call)
{
    struct mover *m = call->self;
    bool last = ++m->steps == steps;

    for (uint32_t p = 0; p < PEERS; p++) {
        for (int i = 0; i < BURST; i++) {
            send_item(call, p);
        }
        want_items(call, p, last ? UINT32_MAX : random_below(m, 2 * BURST));
    }
    memory_check(telpher_mdr_context(call->mdr), m->state, STATE, m->state_seed);
    memory_fill(telpher_mdr_context(call->mdr), m->state, STATE, ++m->state_seed);
    OK(telpher_mdr_migrate(call, random_below(m, PROCESSES)));
    if (!last) {
        OK(telpher_mdr_invoke(call->mdr, &call->array, call->index, STEP, NULL, 0, NULL,
                              0, NULL));
    }
    if (call->index.at[0] == 0 && m->steps % 8 == 0) {
        OK(telpher_mdr_broadcast(call->mdr, &call->array, SHOUT, &m->steps,
                                 sizeof(m->steps)));
    }
}

static void
mover_post(telpher_mdr_call *call)
{
    const struct item *item = TELPHER_MDR_PARAMS(call, struct item);

    MUST(call->buffer_count == 1 && call->buffers[0].len == item->len);
    call->buffers[0].data =
        memory_alloc(telpher_mdr_context(call->mdr), kind, item->len);
}

static void
mover_take(telpher_mdr_call *call)
{
    struct item item = *TELPHER_MDR_PARAMS(call, struct item);
    telpher_context *ctx = telpher_mdr_context(call->mdr);
    struct mover *m = call->self;
    uint32_t p = item.peer;

    OK(call->status);
    MUST(p < PEERS && item.number == m->got[p]++);
    MUST(item.from == (uint32_t)(call->index.at[0] + MOVERS - hops[p]) % MOVERS);
    MUST(call->buffer_count == (item.len != 0));
    if (item.len != 0) {
        memory_check(ctx, call->buffers[0].data, item.len, item.number + item.from);
        OK(telpher_mem_free(ctx, call->buffers[0].data));
    }
}

/* Broadcasts come in order, each once. */
static void
mover_shout(telpher_mdr_call *call)
{
    struct mover *m = call->self;

    m->shouts++;
    MUST(m->shouts * 8 == *TELPHER_MDR_PARAMS(call, uint32_t));
    if (m->shouts % 4 == 0) {
        const telpher_mdr_target all = {
            .kind = TELPHER_MDR_TO_ALL, .entry = COUNT, .array = call->array};
        const int64_t values[2] = {1, m->shouts};

        OK(telpher_mdr_contribute(call, values, sizeof(values), TELPHER_MDR_SUM_I64,
                                  &all));
    }
}

static void
mover_count(telpher_mdr_call *call)
{
    struct mover *m = call->self;
    const int64_t *sum = call->params;

    MUST(sum[0] == MOVERS && sum[1] == MOVERS * 4 * (int64_t)++m->asked);
}

/* A message from anywhere finds the object. */
static void
mover_ask(telpher_mdr_call *call)
{
    OK(telpher_mdr_future_set(call->mdr, *TELPHER_MDR_PARAMS(call, telpher_mdr_future),
                              call->index.at, sizeof(call->index.at[0])));
}

static void
mover_report(telpher_mdr_call *call)
{
    const struct mover *m = call->self;
    const telpher_mdr_target *target = TELPHER_MDR_PARAMS(call, telpher_mdr_target);
    const int64_t values[4] = {m->got[0], m->got[1], m->shouts, m->asked};

    MUST(m->state_seed == (uint32_t)call->index.at[0] + m->steps);
    OK(telpher_mdr_contribute(call, values, sizeof(values), TELPHER_MDR_SUM_I64,
                              target));
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [STEP] = TELPHER_MDR_ENTRY_VOID(mover_step),
    [TAKE] = TELPHER_MDR_ENTRY_POST(mover_take, mover_post, struct item),
    [SHOUT] = TELPHER_MDR_ENTRY(mover_shout, uint32_t),
    [COUNT] = TELPHER_MDR_ENTRY_BYTES(mover_count),
    [ASK] = TELPHER_MDR_ENTRY(mover_ask, telpher_mdr_future),
    [REPORT] = TELPHER_MDR_ENTRY(mover_report, telpher_mdr_target),
};

static const telpher_mdr_class movers = {
    .struct_size = sizeof(movers),
    .entry_count = ENTRIES,
    .name = "mover",
    .object_size = sizeof(struct mover),
    .create = mover_create,
    .destroy = mover_destroy,
    .entries = entries,
    .pup = mover_pup,
};

static void
settle(telpher_mdr *mdr)
{
    telpher_mdr_future quiet;

    OK(telpher_mdr_future_create(mdr, &quiet));
    OK(telpher_mdr_quiescence(mdr, quiet));
    OK(telpher_mdr_await(mdr, quiet, NULL, 0, NULL));
}

/* Asks objects while they move. */
static void
ask_all(telpher_mdr *mdr, const telpher_mdr_array *array)
{
    for (int32_t i = 0; i < MOVERS; i++) {
        telpher_mdr_future f;
        int32_t answer = -1;

        OK(telpher_mdr_future_create(mdr, &f));
        OK(telpher_mdr_invoke(mdr, array, (telpher_mdr_index){{i, 0, 0}}, ASK, &f,
                              sizeof(f), NULL, 0, NULL));
        OK(telpher_mdr_await(mdr, f, &answer, sizeof(answer), NULL));
        MUST(answer == i);
    }
}

static void
main_moves(telpher_mdr_call *call)
{
    static const int32_t extent[] = {MOVERS};
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE};
    telpher_mdr_array array;
    int64_t sums[4];

    OK(telpher_mdr_array_create(mdr, 0, 1, extent, NULL, 0, &array));
    for (int32_t i = 0; i < MOVERS; i++) {
        OK(telpher_mdr_invoke(mdr, &array, (telpher_mdr_index){{i, 0, 0}}, STEP, NULL,
                              0, NULL, 0, NULL));
    }
    ask_all(mdr, &array);
    settle(mdr);
    OK(telpher_mdr_future_create(mdr, &target.future));
    OK(telpher_mdr_broadcast(mdr, &array, REPORT, &target, sizeof(target)));
    OK(telpher_mdr_await(mdr, target.future, sums, sizeof(sums), NULL));
    MUST(sums[0] == (int64_t)MOVERS * steps * BURST && sums[1] == sums[0]);
    MUST(sums[2] == MOVERS * (int64_t)(steps / 8));
    MUST(sums[3] == MOVERS * (int64_t)(steps / 8 / 4));
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    uint32_t number;

    if (!ranks_have_memory(ctx, kind)) {
        return;
    }
    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &movers, &number));
    OK(telpher_mdr_run(mdr, main_moves, NULL));
    telpher_mdr_destroy(mdr);
}

static void
test_moves(void **state)
{
    kind = *(const enum telpher_mem_kind *)*state;
    steps = moves / MOVERS / (kind == TELPHER_MEM_HOST ? 1 : slower);
    assert_true(ranks_run(PROCESSES, transport, UINT32_MAX, rank_of_job));
}

int
main(int argc, char **argv)
{
    static enum telpher_mem_kind kinds[] = {TELPHER_MEM_HOST, TELPHER_MEM_SIM,
                                            TELPHER_MEM_OPENCL};
    const struct CMUnitTest tests[] = {
        {"host", test_moves, NULL, NULL, &kinds[0]},
        {"sim", test_moves, NULL, NULL, &kinds[1]},
        {"opencl", test_moves, NULL, NULL, &kinds[2]},
    };

    transport = ranks_transport(argc, argv);
    if (argc > 2) {
        moves = (uint32_t)atoi(argv[2]);
        slower = 1;
    }
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
