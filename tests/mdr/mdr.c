/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr TRANSPORT
 *
 * Message-driven objects in jobs of 1 to 5 processes: arrays, groups, broadcasts, reductions,
 * futures, quiescence, buffers in host and simulated device memory, floods, wrong calls and the
 * death of a process. Process 0 checks the results; each process checks what it sees.
 */
#include "../comm/memory.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <telpher/mdr.h>

static const char *transport;

/* ---- a program's frame ---- */

static telpher_mdr_entry_fn main_of_test;
static telpher_status expected;

/* Classes by their number: each process registers them in this order. */
enum { COUNTER, RELAY, SINK, CLASSES };

/* Entries of COUNTER. */
enum { COUNTER_ADD, COUNTER_REPORT, COUNTER_CHECK_SUM, COUNTER_WAIT, COUNTER_UNEQUAL };

struct counter {
    int64_t created_with, value;
};

struct report {
    telpher_mdr_target target;
    uint32_t op, large;
};

static void
counter_create(telpher_mdr_call *call)
{
    struct counter *c = call->self;

    MUST(c->created_with == 0 && c->value == 0);
    if (call->params_len == sizeof(int64_t)) {
        c->created_with = *TELPHER_MDR_PARAMS(call, int64_t);
    }
}

static void
counter_add(telpher_mdr_call *call)
{
    TELPHER_MDR_SELF(call, struct counter)->value += *TELPHER_MDR_PARAMS(call, int64_t);
}

/* Number of an element: no two of an array have the same. */
static int64_t
number_of(const telpher_mdr_call *call)
{
    return call->index.at[0] * 10000 + call->index.at[1] * 100 + call->index.at[2];
}

static void
counter_report(telpher_mdr_call *call)
{
    const struct report *r = TELPHER_MDR_PARAMS(call, struct report);
    const struct counter *c = call->self;
    const int64_t values[3] = {number_of(call), 1, c->value + c->created_with};

    OK(telpher_mdr_contribute(call, values, sizeof(values), r->op, &r->target));
}

static int64_t sums_seen;

static void
counter_check_sum(telpher_mdr_call *call)
{
    const int64_t *sum = call->params;

    sums_seen += sum[1];
    counter_add(call);
}

struct wait {
    telpher_mdr_future to_set;
};

/* Gives the caller a future, waits for it, and sets the caller's. */
static void
counter_wait(telpher_mdr_call *call)
{
    const struct wait *w = TELPHER_MDR_PARAMS(call, struct wait);
    telpher_mdr_future own;
    int64_t value = 0;
    size_t len = 0;

    OK(telpher_mdr_future_create(call->mdr, &own));
    OK(telpher_mdr_yield(call->mdr));
    OK(telpher_mdr_future_set(call->mdr, w->to_set, &own, sizeof(own)));
    OK(telpher_mdr_await(call->mdr, own, &value, sizeof(value), &len));
    MUST(len == sizeof(value));
    TELPHER_MDR_SELF(call, struct counter)->value = value;
}

static void
counter_unequal(telpher_mdr_call *call)
{
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE};
    const int64_t values[2] = {0, 0};

    (void)telpher_mdr_contribute(call, values, call->index.at[0] == 1 ? 8 : 16,
                                 TELPHER_MDR_SUM_I64, &target);
}

static const telpher_mdr_entry counter_entries[] = {
    [COUNTER_ADD] = TELPHER_MDR_ENTRY(counter_add, int64_t),
    [COUNTER_REPORT] = TELPHER_MDR_ENTRY(counter_report, struct report),
    [COUNTER_CHECK_SUM] = TELPHER_MDR_ENTRY_BYTES(counter_check_sum),
    [COUNTER_WAIT] = TELPHER_MDR_ENTRY_WAITS(counter_wait, struct wait),
    [COUNTER_UNEQUAL] = TELPHER_MDR_ENTRY_VOID(counter_unequal),
};

/* ---- RELAY: passes messages on ---- */

enum {
    RELAY_PASS,
    RELAY_SPREAD,
    RELAY_ORDER,
    RELAY_COUNT,
    RELAY_STALL,
    RELAY_STREAM,
    RELAY_BYTES,
    RELAY_LARGE,
    RELAY_ENTRIES
};

struct relay {
    uint64_t seen;
    uint32_t next[64]; /* number expected from each element */
};

struct hop {
    uint64_t left;
    telpher_mdr_future done;
};

static uint64_t relayed; /* by this process */

static telpher_mdr_index
at(int32_t i)
{
    return (telpher_mdr_index){{i, 0, 0}};
}

static void
relay_pass(telpher_mdr_call *call)
{
    struct hop hop = *TELPHER_MDR_PARAMS(call, struct hop);

    relayed++;
    if (hop.left-- == 0) {
        OK(telpher_mdr_future_set(call->mdr, hop.done, call->index.at,
                                  sizeof(call->index.at)));
        return;
    }
    OK(telpher_mdr_invoke(call->mdr, &call->array,
                          at((call->index.at[0] + 1) % call->array.extent[0]),
                          RELAY_PASS, &hop, sizeof(hop), NULL, 0, NULL));
}

/* Two messages each to other elements, down to depth 0: 2^(depth + 1) - 1 messages. */
static void
relay_spread(telpher_mdr_call *call)
{
    uint32_t depth = *TELPHER_MDR_PARAMS(call, uint32_t);

    TELPHER_MDR_SELF(call, struct relay)->seen++;
    for (int32_t i = 1; depth != 0 && i <= 2; i++) {
        uint32_t less = depth - 1;

        OK(telpher_mdr_invoke(call->mdr, &call->array,
                              at((call->index.at[0] * 3 + i) % call->array.extent[0]),
                              RELAY_SPREAD, &less, sizeof(less), NULL, 0, NULL));
    }
}

struct numbered {
    uint32_t from, number;
};

static void
relay_order(telpher_mdr_call *call)
{
    const struct numbered *n = TELPHER_MDR_PARAMS(call, struct numbered);
    struct relay *r = call->self;

    MUST(r->next[n->from]++ == n->number);
    r->seen++;
}

static void
relay_count(telpher_mdr_call *call)
{
    const struct relay *r = call->self;

    OK(telpher_mdr_contribute(call, &r->seen, sizeof(r->seen), TELPHER_MDR_SUM_I64,
                              TELPHER_MDR_PARAMS(call, telpher_mdr_target)));
}

static telpher_mdr_array seen_by_destroy; /* in process 0 */

static void
relay_destroy(telpher_mdr_call *call)
{
    MUST(call->self != NULL && call->params_len == 0);
    if (seen_by_destroy.id != 0 && call->array.id != seen_by_destroy.id) {
        struct relay *r = telpher_mdr_local(call->mdr, &seen_by_destroy, at(0));

        MUST(r != NULL && r->seen == 7);
    }
}

/* Holds up its process. */
static void
relay_stall(telpher_mdr_call *call)
{
    usleep(*TELPHER_MDR_PARAMS(call, uint32_t));
}

struct stream {
    telpher_mdr_array to;
    telpher_mdr_index index;
    uint32_t milliseconds;
};

/* Sends numbered messages to one element for a while. */
static void
relay_stream(telpher_mdr_call *call)
{
    const struct stream *s = TELPHER_MDR_PARAMS(call, struct stream);
    struct numbered n = {0, 0};

    for (uint32_t ms = 0; ms < s->milliseconds; ms++) {
        for (int i = 0; i < 20; i++, n.number++) {
            OK(telpher_mdr_invoke(call->mdr, &s->to, s->index, RELAY_ORDER, &n,
                                  sizeof(n), NULL, 0, NULL));
        }
        usleep(1000);
        OK(telpher_mdr_yield(call->mdr));
    }
}

static void
relay_bytes(telpher_mdr_call *call)
{
    const uint8_t *bytes = call->params;

    MUST((uintptr_t)bytes % 16 == 0);
    for (size_t i = 0; i < call->params_len; i++) {
        MUST(bytes[i] == (uint8_t)(i * 7));
    }
    TELPHER_MDR_SELF(call, struct relay)->seen++;
}

/* Contributions as long as they may be; longer ones are refused. */
static void
relay_large(telpher_mdr_call *call)
{
    static int64_t ones[TELPHER_MDR_REDUCE_MAX / 8];
    const struct report *r = TELPHER_MDR_PARAMS(call, struct report);

    ones[r->large / 8 - 1] = 1;
    IS(telpher_mdr_contribute(call, ones, sizeof(ones), r->op, &r->target),
       TELPHER_ERR_INVALID);
    OK(telpher_mdr_contribute(call, ones, r->large, r->op, &r->target));
}

static const telpher_mdr_entry relay_entries[] = {
    [RELAY_PASS] = TELPHER_MDR_ENTRY(relay_pass, struct hop),
    [RELAY_SPREAD] = TELPHER_MDR_ENTRY(relay_spread, uint32_t),
    [RELAY_ORDER] = TELPHER_MDR_ENTRY(relay_order, struct numbered),
    [RELAY_COUNT] = TELPHER_MDR_ENTRY(relay_count, telpher_mdr_target),
    [RELAY_STALL] = TELPHER_MDR_ENTRY(relay_stall, uint32_t),
    [RELAY_STREAM] = TELPHER_MDR_ENTRY_WAITS(relay_stream, struct stream),
    [RELAY_BYTES] = TELPHER_MDR_ENTRY_BYTES(relay_bytes),
    [RELAY_LARGE] = TELPHER_MDR_ENTRY(relay_large, struct report),
};

/* ---- SINK: takes buffers into memory of a kind ---- */

enum { SINK_TAKE };

struct sink {
    uint8_t *mem[2];
};

struct take {
    uint64_t len[2];
    telpher_mdr_future done;
    uint32_t seed, kind;
};

static void
sink_post(telpher_mdr_call *call)
{
    const struct take *t = TELPHER_MDR_PARAMS(call, struct take);
    struct sink *s = call->self;

    MUST(call->buffer_count == 2);
    for (int i = 0; i < 2; i++) {
        MUST(call->buffers[i].len == t->len[i] && s->mem[i] == NULL);
        s->mem[i] =
            memory_alloc(telpher_mdr_context(call->mdr), t->kind, t->len[i] + 1);
        call->buffers[i].data = s->mem[i];
    }
}

static void
sink_take(telpher_mdr_call *call)
{
    const struct take *t = TELPHER_MDR_PARAMS(call, struct take);
    telpher_context *ctx = telpher_mdr_context(call->mdr);
    struct sink *s = call->self;

    OK(call->status);
    for (int i = 0; i < 2; i++) {
        MUST(call->buffers[i].data == s->mem[i] && call->buffers[i].len == t->len[i]);
        memory_check(ctx, s->mem[i], t->len[i], t->seed + (unsigned)i);
        OK(telpher_mem_free(ctx, s->mem[i]));
        s->mem[i] = NULL;
    }
    OK(telpher_mdr_future_set(call->mdr, t->done, NULL, 0));
}

static void
sink_destroy(telpher_mdr_call *call)
{
    struct sink *s = call->self;

    for (int i = 0; i < 2; i++) {
        if (s->mem[i] != NULL) {
            OK(telpher_mem_free(telpher_mdr_context(call->mdr), s->mem[i]));
        }
    }
}

static const telpher_mdr_entry sink_entries[] = {
    [SINK_TAKE] = TELPHER_MDR_ENTRY_POST(sink_take, sink_post, struct take),
};

static const telpher_mdr_class classes[CLASSES] = {
    {sizeof(telpher_mdr_class), 5, "counter", sizeof(struct counter), counter_create,
     NULL, counter_entries, NULL},
    {sizeof(telpher_mdr_class), RELAY_ENTRIES, "relay", sizeof(struct relay), NULL,
     relay_destroy, relay_entries, NULL},
    {sizeof(telpher_mdr_class), 1, "sink", sizeof(struct sink), NULL, sink_destroy,
     sink_entries, NULL},
};

static void
largest_i32(void *into, const void *from, size_t len)
{
    int32_t *a = into;
    const int32_t *b = from;

    for (size_t i = 0; i < len / sizeof(*a); i++) {
        a[i] = a[i] > b[i] ? a[i] : b[i];
    }
}

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    telpher_error err = {0};
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, &err));
    for (uint32_t i = 0; i < CLASSES; i++) {
        OK(telpher_mdr_class_register(mdr, &classes[i], &number));
        MUST(number == i);
    }
    OK(telpher_mdr_op_register(mdr, largest_i32, &number));
    MUST(number == TELPHER_MDR_OP_USER);
    IS(telpher_mdr_run(mdr, main_of_test, &expected), expected);
    telpher_mdr_destroy(mdr);
}

static void
run(uint32_t size, telpher_mdr_entry_fn main_fn, telpher_status status)
{
    main_of_test = main_fn;
    expected = status;
    assert_true(ranks_run(size, transport, UINT32_MAX, rank_of_job));
}

/* Waits for quiescence, in the main function. */
static void
settle(telpher_mdr *mdr)
{
    telpher_mdr_future quiet;

    OK(telpher_mdr_future_create(mdr, &quiet));
    OK(telpher_mdr_quiescence(mdr, quiet));
    OK(telpher_mdr_await(mdr, quiet, NULL, 0, NULL));
}

/* ---- arrays and reductions ---- */

/* All elements report; the sums of their numbers, of ones and of their values. */
static void
report(telpher_mdr *mdr, const telpher_mdr_array *array, uint32_t op, int64_t ret[3])
{
    struct report r = {.target = {.kind = TELPHER_MDR_TO_FUTURE}, .op = op};
    size_t len;

    OK(telpher_mdr_future_create(mdr, &r.target.future));
    OK(telpher_mdr_broadcast(mdr, array, COUNTER_REPORT, &r, sizeof(r)));
    OK(telpher_mdr_await(mdr, r.target.future, ret, 3 * sizeof(*ret), &len));
    MUST(len == 3 * sizeof(*ret));
}

static void
one_shape(telpher_mdr *mdr, uint32_t dims, const int32_t *extent)
{
    int64_t with = 7, one = 1, sum[3], numbers = 0, count = 0, last = 0;
    telpher_mdr_array array;

    OK(telpher_mdr_array_create(mdr, COUNTER, dims, extent, &with, sizeof(with),
                                &array));
    for (int32_t x = 0; x < extent[0]; x++) {
        for (int32_t y = 0; y < (dims > 1 ? extent[1] : 1); y++) {
            for (int32_t z = 0; z < (dims > 2 ? extent[2] : 1); z++) {
                const telpher_mdr_index index = {{x, y, z}};

                numbers += last = x * 10000 + y * 100 + z;
                count++;
                OK(telpher_mdr_invoke(mdr, &array, index, COUNTER_ADD, &one,
                                      sizeof(one), NULL, 0, NULL));
            }
        }
    }
    settle(mdr);
    report(mdr, &array, TELPHER_MDR_SUM_I64, sum);
    MUST(sum[0] == numbers && sum[1] == count && sum[2] == 8 * count);
    report(mdr, &array, TELPHER_MDR_MAX_I64, sum);
    MUST(sum[0] == last && sum[1] == 1 && sum[2] == 8);
    report(mdr, &array, TELPHER_MDR_MIN_I64, sum);
    MUST(sum[0] == 0 && sum[1] == 1 && sum[2] == 8);
}

static void
main_arrays(telpher_mdr_call *call)
{
    static const int32_t shapes[][3] = {{1, 1, 1}, {2, 1, 1}, {100, 1, 1}, {3, 5, 1},
                                        {1, 7, 1}, {4, 3, 2}, {2, 1, 9}};
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_array group;
    int64_t sum[3], size = telpher_mdr_size(mdr);

    MUST(call->self == NULL && telpher_mdr_user(mdr) == &expected);
    for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (uint32_t dims = 1; dims <= 3; dims++) {
            one_shape(mdr, dims, shapes[i]);
        }
    }
    OK(telpher_mdr_group_create(mdr, COUNTER, NULL, 0, &group));
    report(mdr, &group, TELPHER_MDR_SUM_I64, sum);
    MUST(sum[1] == size && sum[0] == 10000 * size * (size - 1) / 2);
    for (int32_t r = 0; r < size; r++) {
        MUST(telpher_mdr_home(mdr, &group, at(r)) == (uint32_t)r);
    }
    MUST(telpher_mdr_local(mdr, &group, at(0)) != NULL);
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_arrays(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 5; size++) {
        run(size, main_arrays, TELPHER_OK);
    }
}

/* Results that go to an element and to all; contributions of two reductions interleave. */
static void
main_targets(telpher_mdr_call *call)
{
    static const int32_t extent[] = {37};
    telpher_mdr *mdr = call->mdr;
    struct report r = {.op = TELPHER_MDR_SUM_I64};
    telpher_mdr_array array;
    int64_t sum[3];

    OK(telpher_mdr_array_create(mdr, COUNTER, 1, extent, NULL, 0, &array));
    r.target.array = array;
    r.target.entry = COUNTER_CHECK_SUM;
    for (int i = 0; i < 10; i++) {
        r.target.kind = TELPHER_MDR_TO_ALL;
        OK(telpher_mdr_broadcast(mdr, &array, COUNTER_REPORT, &r, sizeof(r)));
        r.target.kind = TELPHER_MDR_TO_ELEMENT;
        r.target.index = at(36);
        OK(telpher_mdr_broadcast(mdr, &array, COUNTER_REPORT, &r, sizeof(r)));
        r.target.index = at(0);
    }
    settle(mdr);
    report(mdr, &array, TELPHER_MDR_SUM_I64, sum);
    /* each result adds the sum of numbers, to 37 elements or to one */
    MUST(sum[2] == INT64_C(10) * 38 * 10000 * (36 * 37 / 2));
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_targets(void **state)
{
    (void)state;
    run(3, main_targets, TELPHER_OK);
}

/* ---- messages ---- */

static void
main_ring(telpher_mdr_call *call)
{
    static const int32_t extent[] = {10};
    telpher_mdr *mdr = call->mdr;
    struct hop hop = {.left = 2003};
    telpher_mdr_array array;
    int32_t last[3];

    OK(telpher_mdr_array_create(mdr, RELAY, 1, extent, NULL, 0, &array));
    OK(telpher_mdr_future_create(mdr, &hop.done));
    OK(telpher_mdr_invoke(mdr, &array, at(4), RELAY_PASS, &hop, sizeof(hop), NULL, 0,
                          NULL));
    OK(telpher_mdr_await(mdr, hop.done, last, sizeof(last), NULL));
    MUST(last[0] == (4 + 2003) % 10);
    MUST(telpher_mdr_size(mdr) != 1 || relayed == 2004);
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_ring(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 4; size++) {
        run(size, main_ring, TELPHER_OK);
    }
}

static void
check_seen(telpher_mdr *mdr, const telpher_mdr_array *array, uint64_t want)
{
    telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE};
    uint64_t seen = 0;

    OK(telpher_mdr_future_create(mdr, &target.future));
    OK(telpher_mdr_broadcast(mdr, array, RELAY_COUNT, &target, sizeof(target)));
    OK(telpher_mdr_await(mdr, target.future, &seen, sizeof(seen), NULL));
    MUST(seen == want);
}

/* Quiescence comes when all messages of a tree have been handled, not earlier. */
static void
main_quiescence(telpher_mdr_call *call)
{
    static const int32_t extent[] = {23};
    uint32_t depth = 13;
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_array array;

    for (int turn = 0; turn < 3; turn++) {
        OK(telpher_mdr_array_create(mdr, RELAY, 1, extent, NULL, 0, &array));
        OK(telpher_mdr_invoke(mdr, &array, at(turn), RELAY_SPREAD, &depth,
                              sizeof(depth), NULL, 0, NULL));
        settle(mdr);
        check_seen(mdr, &array, (UINT64_C(1) << (depth + 1)) - 1);
    }
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_quiescence(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 4; size++) {
        run(size, main_quiescence, TELPHER_OK);
    }
}

/* More messages than credits, to one element: order is kept and nothing is lost. */
static void
main_flood(telpher_mdr_call *call)
{
    static const int32_t extent[] = {2};
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_array array;
    struct numbered n = {0, 0};

    OK(telpher_mdr_array_create(mdr, RELAY, 1, extent, NULL, 0, &array));
    for (n.number = 0; n.number < 50000; n.number++) {
        OK(telpher_mdr_invoke(mdr, &array, at(1), RELAY_ORDER, &n, sizeof(n), NULL, 0,
                              NULL));
    }
    settle(mdr);
    check_seen(mdr, &array, 50000);
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_flood(void **state)
{
    (void)state;
    setenv("TELPHER_MDR_CREDITS", "16", 1);
    run(1, main_flood, TELPHER_OK);
    run(2, main_flood, TELPHER_OK);
    unsetenv("TELPHER_MDR_CREDITS");
}

/* ---- entries that wait ---- */

enum { WAITERS = 20 };

static void
main_waits(telpher_mdr_call *call)
{
    static const int32_t extent[] = {WAITERS};
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_array array;
    telpher_mdr_future theirs;
    int64_t sum[3];

    OK(telpher_mdr_array_create(mdr, COUNTER, 1, extent, NULL, 0, &array));
    for (int32_t i = 0; i < WAITERS; i++) {
        struct wait w;
        int64_t value = 1000 + i;

        OK(telpher_mdr_future_create(mdr, &w.to_set));
        OK(telpher_mdr_invoke(mdr, &array, at(i), COUNTER_WAIT, &w, sizeof(w), NULL, 0,
                              NULL));
        OK(telpher_mdr_await(mdr, w.to_set, &theirs, sizeof(theirs), NULL));
        OK(telpher_mdr_future_set(mdr, theirs, &value, sizeof(value)));
    }
    settle(mdr);
    report(mdr, &array, TELPHER_MDR_SUM_I64, sum);
    MUST(sum[2] == WAITERS * 1000 + WAITERS * (WAITERS - 1) / 2);
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_waits(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 3; size++) {
        run(size, main_waits, TELPHER_OK);
    }
    setenv("TELPHER_MDR_THREADS", "2", 1);
    run(2, main_waits, TELPHER_OK);
    unsetenv("TELPHER_MDR_THREADS");
}

/* ---- buffers ---- */

static void
count_down(void *user, telpher_status status, size_t len)
{
    (void)len;
    OK(status);
    --*(unsigned *)user;
}

static void
send_buffers(telpher_mdr *mdr, const telpher_mdr_array *array, int32_t to,
             uint32_t kind, size_t len)
{
    telpher_context *ctx = telpher_mdr_context(mdr);
    unsigned pending = 1;
    struct take t = {.len = {len, len / 2}, .seed = (uint32_t)len, .kind = kind};
    telpher_msg_buffer buffers[2];
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;

    for (unsigned i = 0; i < 2; i++) {
        buffers[i].len = t.len[i];
        buffers[i].data = memory_alloc_filled(ctx, kind, t.len[i] + 1, t.seed + i);
    }
    xfer.on_done = count_down;
    xfer.user = &pending;
    OK(telpher_mdr_future_create(mdr, &t.done));
    OK(telpher_mdr_invoke(mdr, array, at(to), SINK_TAKE, &t, sizeof(t), buffers, 2,
                          &xfer));
    OK(telpher_mdr_await(mdr, t.done, NULL, 0, NULL));
    while (pending != 0) {
        OK(telpher_mdr_yield(mdr));
    }
    OK(telpher_mem_free(ctx, buffers[0].data));
    OK(telpher_mem_free(ctx, buffers[1].data));
}

static void
main_buffers(telpher_mdr_call *call)
{
    static const size_t lens[] = {0, 1, 100, 8192, 65537, 1 << 20};
    static const int32_t extent[] = {6};
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_array array;

    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        OK(telpher_mdr_array_create(mdr, SINK, 1, extent, NULL, 0, &array));
        for (int32_t to = 0; to < 6; to++) { /* the first may come before the array */
            send_buffers(mdr, &array, 5 - to, TELPHER_MEM_HOST, lens[i]);
            send_buffers(mdr, &array, to, TELPHER_MEM_SIM, lens[i]);
        }
    }
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_buffers(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 3; size++) {
        run(size, main_buffers, TELPHER_OK);
    }
}

/* ---- what is wrong ---- */

static void
says(telpher_mdr *mdr, const char *text)
{
    if (strstr(telpher_mdr_last_error(mdr), text) == NULL) {
        fprintf(stderr, "not \"%s\" in \"%s\"\n", text, telpher_mdr_last_error(mdr));
        MUST(false);
    }
}

static void
main_errors(telpher_mdr_call *call)
{
    static const int32_t extent[] = {4, 4, 4}, none[] = {0};
    static char big[70000];
    telpher_mdr *mdr = call->mdr;
    telpher_msg_buffer buffer = {big, 10};
    telpher_mdr_array array, other;
    telpher_mdr_future future;
    int64_t one = 1;

    IS(telpher_mdr_array_create(mdr, CLASSES, 1, extent, NULL, 0, &other),
       TELPHER_ERR_INVALID);
    IS(telpher_mdr_array_create(mdr, COUNTER, 4, extent, NULL, 0, &other),
       TELPHER_ERR_INVALID);
    says(mdr, "1 to 3 dimensions, not 4");
    IS(telpher_mdr_array_create(mdr, COUNTER, 1, none, NULL, 0, &other),
       TELPHER_ERR_INVALID);
    OK(telpher_mdr_array_create(mdr, COUNTER, 1, extent, NULL, 0, &array));
    IS(telpher_mdr_invoke(mdr, &array, at(4), COUNTER_ADD, &one, sizeof(one), NULL, 0,
                          NULL),
       TELPHER_ERR_RANGE);
    says(mdr, "class counter has no element (4, 0, 0)");
    IS(telpher_mdr_invoke(mdr, &array, at(-1), COUNTER_ADD, &one, sizeof(one), NULL, 0,
                          NULL),
       TELPHER_ERR_RANGE);
    IS(telpher_mdr_invoke(mdr, &array, at(0), 99, &one, sizeof(one), NULL, 0, NULL),
       TELPHER_ERR_RANGE);
    says(mdr, "class counter has no entry 99, only 5");
    IS(telpher_mdr_invoke(mdr, &array, at(0), COUNTER_ADD, &one, 4, NULL, 0, NULL),
       TELPHER_ERR_INVALID);
    says(mdr, "counter.counter_add takes 8 bytes of parameters, not 4");
    IS(telpher_mdr_invoke(mdr, &array, at(0), COUNTER_ADD, &one, sizeof(one), &buffer,
                          1, NULL),
       TELPHER_ERR_INVALID);
    says(mdr, "takes no buffers");
    IS(telpher_mdr_broadcast(mdr, &array, COUNTER_CHECK_SUM, big, sizeof(big)),
       TELPHER_ERR_RANGE);
    IS(telpher_mdr_contribute(call, &one, 8, TELPHER_MDR_SUM_I64, NULL),
       TELPHER_ERR_INVALID);
    OK(telpher_mdr_future_create(mdr, &future));
    future.generation += 2;
    IS(telpher_mdr_await(mdr, future, NULL, 0, NULL), TELPHER_ERR_NOT_FOUND);
    IS(telpher_mdr_class_register(mdr, &classes[0], &array.class_id), TELPHER_ERR_BUSY);
    telpher_mdr_exit(mdr, TELPHER_ERR_LIMIT);
    IS(telpher_mdr_broadcast(mdr, &array, COUNTER_ADD, &one, sizeof(one)),
       TELPHER_ERR_CANCELED);
}

static void
main_unequal(telpher_mdr_call *call)
{
    static const int32_t extent[] = {4};
    telpher_mdr_array array;
    telpher_mdr_future never;

    OK(telpher_mdr_array_create(call->mdr, COUNTER, 1, extent, NULL, 0, &array));
    OK(telpher_mdr_broadcast(call->mdr, &array, COUNTER_UNEQUAL, NULL, 0));
    OK(telpher_mdr_future_create(call->mdr, &never));
    IS(telpher_mdr_await(call->mdr, never, NULL, 0, NULL), TELPHER_ERR_CANCELED);
}

static void
test_errors(void **state)
{
    (void)state;
    run(1, main_errors, TELPHER_ERR_LIMIT);
    run(2, main_errors, TELPHER_ERR_LIMIT);
    setenv("TELPHER_LOG", "none", 1);
    run(1, main_unequal, TELPHER_ERR_INVALID);
    run(3, main_unequal, TELPHER_ERR_INVALID);
    unsetenv("TELPHER_LOG");
}

/* Proxies that a program has damaged, and arrays that are too large. */
static void
main_proxies(telpher_mdr_call *call)
{
    static const int32_t extent[] = {4}, huge[] = {1 << 20, 1 << 20, 1 << 24};
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_array array, group, bad;
    telpher_mdr_future never;
    struct hop hop = {0};

    IS(telpher_mdr_array_create(mdr, COUNTER, 3, huge, NULL, 0, &bad),
       TELPHER_ERR_INVALID);
    OK(telpher_mdr_array_create(mdr, COUNTER, 1, extent, NULL, 0, &array));
    OK(telpher_mdr_group_create(mdr, COUNTER, NULL, 0, &group));
    bad = group;
    bad.extent[0] = 1000;
    MUST(telpher_mdr_home(mdr, &bad, at(999)) == UINT32_MAX);
    bad = array;
    bad.dims = 1000000;
    MUST(telpher_mdr_home(mdr, &bad, at(0)) == UINT32_MAX);
    bad = array;
    bad.class_id = RELAY; /* whose entry 0 takes other parameters */
    OK(telpher_mdr_invoke(mdr, &bad, at(3), RELAY_PASS, &hop, sizeof(hop), NULL, 0,
                          NULL));
    OK(telpher_mdr_future_create(mdr, &never));
    IS(telpher_mdr_await(mdr, never, NULL, 0, NULL), TELPHER_ERR_CANCELED);
}

static void
bad_buffers(telpher_mdr_call *call)
{
    static const int32_t extent[] = {4};
    static char big[100000];
    const telpher_msg_buffer buffers[2] = {{big, sizeof(big)}, {big, 10}};
    const struct take t = {.len = {sizeof(big), 10}};
    telpher_mdr_array array;
    telpher_mdr_future never;

    OK(telpher_mdr_array_create(call->mdr, COUNTER, 1, extent, NULL, 0, &array));
    settle(call->mdr);
    array.class_id = SINK;
    OK(telpher_mdr_invoke(call->mdr, &array, at(3), SINK_TAKE, &t, sizeof(t), buffers,
                          2, NULL));
    OK(telpher_mdr_future_create(call->mdr, &never));
    IS(telpher_mdr_await(call->mdr, never, NULL, 0, NULL), TELPHER_ERR_CANCELED);
}

static void
test_proxies(void **state)
{
    (void)state;
    setenv("TELPHER_LOG", "none", 1);
    for (uint32_t size = 1; size <= 2; size++) {
        run(size, main_proxies, TELPHER_ERR_PROTO);
        run(size, bad_buffers, TELPHER_ERR_PROTO);
    }
    unsetenv("TELPHER_LOG");
}

/* ---- orders, limits and ends ---- */

/* Process 3 hears of the array through process 1, which is slow: messages are there before. */
static void
main_parked(telpher_mdr_call *call)
{
    static const int32_t extent[] = {4};
    telpher_mdr *mdr = call->mdr;
    uint32_t stall = 100000;
    struct stream s = {.index = at(3), .milliseconds = 200};
    telpher_mdr_array first;

    OK(telpher_mdr_array_create(mdr, RELAY, 1, extent, NULL, 0, &first));
    settle(mdr);
    OK(telpher_mdr_invoke(mdr, &first, at(1), RELAY_STALL, &stall, sizeof(stall), NULL,
                          0, NULL));
    OK(telpher_mdr_array_create(mdr, RELAY, 1, extent, NULL, 0, &s.to));
    OK(telpher_mdr_invoke(mdr, &first, at(2), RELAY_STREAM, &s, sizeof(s), NULL, 0,
                          NULL));
    settle(mdr);
    check_seen(mdr, &s.to, s.milliseconds * 20);
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_parked(void **state)
{
    (void)state;
    run(4, main_parked, TELPHER_OK);
}

static void
send_bytes(telpher_mdr *mdr, const telpher_mdr_array *array, int32_t to, uint8_t *from,
           size_t len, telpher_status status)
{
    IS(telpher_mdr_invoke(mdr, array, at(to), RELAY_BYTES, from, len, NULL, 0, NULL),
       status);
}

static void
main_limits(telpher_mdr_call *call)
{
    telpher_mdr *mdr = call->mdr;
    uint32_t size = telpher_mdr_size(mdr);
    uint8_t *bytes = malloc(1 << 20);
    static int64_t sums[TELPHER_MDR_REDUCE_MAX / 8];
    struct report r = {.target = {.kind = TELPHER_MDR_TO_FUTURE}};
    telpher_mdr_array group;

    MUST(bytes != NULL);
    for (size_t i = 0; i < (1 << 20) - 1; i++) {
        bytes[i + 1] = (uint8_t)(i * 7);
    }
    OK(telpher_mdr_group_create(mdr, RELAY, NULL, 0, &group));
    for (uint32_t to = 0; to < size; to++) {
        size_t max = telpher_msg_params_max(telpher_mdr_context(mdr), to) - 32;

        send_bytes(mdr, &group, (int32_t)to, bytes + 1, max, TELPHER_OK);
        send_bytes(mdr, &group, (int32_t)to, bytes + 1, max + 1, TELPHER_ERR_RANGE);
        send_bytes(mdr, &group, (int32_t)to, bytes + 1, SIZE_MAX, TELPHER_ERR_RANGE);
        send_bytes(mdr, &group, (int32_t)to, NULL, 0, TELPHER_OK);
    }
    settle(mdr);
    check_seen(mdr, &group, 2 * size);
    OK(telpher_mdr_future_create(mdr, &r.target.future));
    r.large =
        (uint32_t)((telpher_msg_params_max(telpher_mdr_context(mdr), 0) - 160) & ~7u);
    OK(telpher_mdr_broadcast(mdr, &group, RELAY_LARGE, &r, sizeof(r)));
    OK(telpher_mdr_await(mdr, r.target.future, sums, sizeof(sums), NULL));
    MUST(sums[0] == 0 && sums[r.large / 8 - 1] == size);
    free(bytes);
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
test_limits(void **state)
{
    (void)state;
    run(1, main_limits, TELPHER_OK);
    run(3, main_limits, TELPHER_OK);
}

/* An idle process alone needs no timer to become quiescent. */
static void
main_quick(telpher_mdr_call *call)
{
    time_t begin = time(NULL);

    for (int i = 0; i < 60; i++) {
        settle(call->mdr);
    }
    MUST(time(NULL) - begin < 4);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static void
main_destroys(telpher_mdr_call *call)
{
    static const int32_t extent[] = {1};
    telpher_mdr_array arrays[20];
    struct relay *r;

    for (unsigned i = 0; i < 20; i++) {
        OK(telpher_mdr_array_create(call->mdr, RELAY, 1, extent, NULL, 0, &arrays[i]));
    }
    settle(call->mdr);
    r = telpher_mdr_local(call->mdr, &arrays[7], at(0));
    r->seen = 7;
    seen_by_destroy = arrays[7];
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

enum { CANCELED_SENDS = 100 };

enum { CANCELED_BYTES = 100000 };

static void *sent_at_exit;
static unsigned sends_done;

static void
count_up(void *user, telpher_status status, size_t len)
{
    (void)user, (void)status, (void)len;
    sends_done++;
}

/* Ends the run with messages in queues and buffers on their way. */
static void
main_exits(telpher_mdr_call *call)
{
    static const int32_t extent[] = {CANCELED_SENDS};
    const telpher_msg_buffer buffers[2] = {{sent_at_exit, CANCELED_BYTES}, {NULL, 0}};
    struct take t = {.len = {CANCELED_BYTES, 0}, .kind = TELPHER_MEM_HOST};
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    telpher_mdr_array array;

    xfer.on_done = count_up;
    OK(telpher_mdr_array_create(call->mdr, SINK, 1, extent, NULL, 0, &array));
    for (int32_t i = 0; i < CANCELED_SENDS; i++) {
        OK(telpher_mdr_invoke(call->mdr, &array, at(CANCELED_SENDS - 1 - i), SINK_TAKE,
                              &t, sizeof(t), buffers, 2, &xfer));
    }
    telpher_mdr_exit(call->mdr, TELPHER_OK);
    telpher_mdr_exit(call->mdr, TELPHER_ERR_LIMIT);
    IS(telpher_mdr_yield(call->mdr), TELPHER_ERR_CANCELED);
}

static void
rank_that_exits(telpher_context *ctx)
{
    sends_done = 0;
    sent_at_exit = memory_alloc_filled(ctx, TELPHER_MEM_HOST, CANCELED_BYTES, 0);
    rank_of_job(ctx);
    for (int i = 0;
         i < 1000 && sends_done < CANCELED_SENDS && telpher_context_rank(ctx) == 0;
         i++) {
        (void)telpher_progress_wait(ctx, 10000000);
    }
    MUST(sends_done == (telpher_context_rank(ctx) == 0 ? CANCELED_SENDS : 0));
    OK(telpher_mem_free(ctx, sent_at_exit));
}

static void
test_ends(void **state)
{
    (void)state;
    run(1, main_quick, TELPHER_OK);
    run(1, main_destroys, TELPHER_OK);
    setenv("TELPHER_MDR_CREDITS", "16", 1);
    main_of_test = main_exits;
    expected = TELPHER_OK;
    for (uint32_t size = 1; size <= 3; size++) {
        assert_true(ranks_run(size, transport, UINT32_MAX, rank_that_exits));
    }
    unsetenv("TELPHER_MDR_CREDITS");
}

/* ---- a process dies ---- */

static void
main_sleeps(telpher_mdr_call *call)
{
    telpher_mdr_future never;

    OK(telpher_mdr_future_create(call->mdr, &never));
    IS(telpher_mdr_await(call->mdr, never, NULL, 0, NULL), TELPHER_ERR_CANCELED);
}

static void
die_while_running(telpher_mdr_call *call)
{
    raise(SIGKILL);
    (void)call;
}

static void
rank_that_dies(telpher_context *ctx)
{
    static const telpher_mdr_entry deadly[] = {
        TELPHER_MDR_ENTRY_VOID(die_while_running)};
    static const telpher_mdr_class def = {sizeof(def), 1,    "deadly", 0,
                                          NULL,        NULL, deadly,   NULL};
    telpher_mdr *mdr = NULL;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &def, &number));
    IS(telpher_mdr_run(mdr, main_of_test, NULL), TELPHER_ERR_PEER_LOST);
    telpher_mdr_destroy(mdr);
}

static void
main_kills(telpher_mdr_call *call)
{
    telpher_mdr_array group;

    OK(telpher_mdr_group_create(call->mdr, 0, NULL, 0, &group));
    OK(telpher_mdr_invoke(call->mdr, &group, at(2), 0, NULL, 0, NULL, 0, NULL));
    main_sleeps(call);
}

/* The main function never sleeps. */
static void
main_spins(telpher_mdr_call *call)
{
    telpher_mdr_array group;

    OK(telpher_mdr_group_create(call->mdr, 0, NULL, 0, &group));
    OK(telpher_mdr_invoke(call->mdr, &group, at(1), 0, NULL, 0, NULL, 0, NULL));
    while (telpher_mdr_yield(call->mdr) == TELPHER_OK) {
    }
}

static void
rank_that_never_runs(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    if (telpher_context_rank(ctx) == 1) {
        raise(SIGKILL);
    }
    IS(telpher_mdr_run(mdr, main_sleeps, NULL), TELPHER_ERR_PEER_LOST);
    telpher_mdr_destroy(mdr);
}

static void
test_death(void **state)
{
    (void)state;
    setenv("TELPHER_LOG", "none", 1);
    main_of_test = main_kills;
    assert_true(ranks_run(4, transport, 2, rank_that_dies));
    main_of_test = main_spins;
    assert_true(ranks_run(2, transport, 1, rank_that_dies));
    main_of_test = die_while_running;
    assert_true(ranks_run(3, transport, 0, rank_that_dies));
    assert_true(ranks_run(3, transport, 1, rank_that_never_runs));
    unsetenv("TELPHER_LOG");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays),  cmocka_unit_test(test_targets),
        cmocka_unit_test(test_ring),    cmocka_unit_test(test_quiescence),
        cmocka_unit_test(test_flood),   cmocka_unit_test(test_waits),
        cmocka_unit_test(test_buffers), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_proxies), cmocka_unit_test(test_parked),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_ends),
        cmocka_unit_test(test_death),
    };

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
