/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_balance TRANSPORT
 *
 * Load balancing: objects wait for each other, a balancer of the program or of the library spreads
 * them by measured times, and each runs its entry where it then is.
 */
#include "../comm/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

enum {
    WORKERS = 12,
    PROCESSES = 3,
    ROUNDS = 4,
    HEAVY_NS = 20000000,
    PERIODS = 3,
    GROWTH_MS = 30
};

static const char *transport;

enum { ROUND, RESUME, WORK, GROW, ENTRIES };

/* Data common to all objects; a copy moves with each. */
struct plan {
    telpher_mdr_future done;
    uint32_t heavy; /* objects 0 .. heavy - 1 take HEAVY_NS */
};

struct worker {
    struct plan plan;
    uint32_t rounds;
};

static void
pup(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    telpher_mdr_pup_bytes(p, call->self, sizeof(struct worker));
}

static void
finish(telpher_mdr_call *call)
{
    const struct worker *w = call->self;
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE,
                                       .future = w->plan.done};
    int64_t heavy[1 + PROCESSES] = {1};

    if ((uint32_t)call->index.at[0] < w->plan.heavy) {
        heavy[1 + telpher_mdr_rank(call->mdr)] = 1;
    }
    OK(telpher_mdr_contribute(call, heavy, sizeof(heavy), TELPHER_MDR_SUM_I64,
                              &target));
}

/* Every fifth object stays where it is. */
static bool
stays(int32_t i)
{
    return i % 5 == 0;
}

static telpher_status
begin_sync(telpher_mdr_call *call, uint32_t entry)
{
    return stays(call->index.at[0]) ? telpher_mdr_sync_here(call, entry)
                                    : telpher_mdr_sync(call, entry);
}

/* Entry of each round; each object waits without more messages. */
static void
worker_round(telpher_mdr_call *call)
{
    struct worker *w = call->self;
    int32_t i = call->index.at[0];

    if (call->params_len != 0) {
        w->plan = *TELPHER_MDR_PARAMS(call, struct plan);
    }
    IS(telpher_mdr_sync(call, ROUND), TELPHER_ERR_INVALID); /* takes parameters */
    IS(telpher_mdr_sync(call, ENTRIES), TELPHER_ERR_RANGE);
    OK(telpher_mdr_migrate(call, (uint32_t)i % PROCESSES)); /* undone by the next */
    OK(begin_sync(call, RESUME));
    IS(telpher_mdr_sync(call, RESUME), TELPHER_ERR_BUSY);
    IS(telpher_mdr_migrate(call, 0), TELPHER_ERR_BUSY);
}

/* A balancer that moves each object to the next process, and checks what it sees. */
static void
next_process(telpher_mdr_load *loads, size_t count, uint32_t size, void *user)
{
    bool seen[WORKERS] = {false};

    MUST(count == WORKERS && user == &transport);
    for (size_t i = 0; i < count; i++) {
        MUST(loads[i].rank < size && !seen[loads[i].index.at[0]]);
        MUST(loads[i].stays == stays(loads[i].index.at[0]));
        seen[loads[i].index.at[0]] = true;
        loads[i].rank = (loads[i].rank + 1) % size;
    }
}

static void
worker_resume(telpher_mdr_call *call)
{
    struct worker *w = call->self;
    uint32_t first = (uint32_t)call->index.at[0] / (WORKERS / PROCESSES);

    w->rounds++;
    MUST(telpher_mdr_rank(call->mdr) ==
         (stays(call->index.at[0]) ? first : (first + w->rounds) % PROCESSES));
    if (w->rounds < ROUNDS) {
        OK(begin_sync(call, RESUME));
    } else {
        finish(call);
    }
}

static uint64_t
thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Some objects work long, others not; the balancers of the library learn it by measuring. */
static void
worker_work(telpher_mdr_call *call)
{
    struct worker *w = call->self;
    uint64_t end = thread_ns() + HEAVY_NS;

    if (call->params_len != 0) {
        w->plan = *TELPHER_MDR_PARAMS(call, struct plan);
    }
    while ((uint32_t)call->index.at[0] < w->plan.heavy && thread_ns() < end) {
    }
    MUST(call->index.at[0] != 0 || telpher_mdr_rank(call->mdr) == 0); /* it stays */
    if (++w->rounds < PERIODS) {
        OK(begin_sync(call, WORK));
    } else {
        finish(call);
    }
}

/* Each period takes GROWTH_MS longer than the one before; the first takes 1 ms. */
static void
worker_grow(telpher_mdr_call *call)
{
    struct worker *w = call->self;
    uint64_t ns = UINT64_C(1000000) * (1 + GROWTH_MS * w->rounds);
    uint64_t end = thread_ns() + ns;

    if (call->params_len != 0) {
        w->plan = *TELPHER_MDR_PARAMS(call, struct plan);
    }
    if (call->index.at[0] % 2 != 0) {
        OK(telpher_mdr_load_add(call, ns)); /* instead of the work itself */
        end = 0;
    }
    while (thread_ns() < end) {
    }
    if (++w->rounds < PERIODS) {
        OK(telpher_mdr_sync(call, GROW));
    } else {
        finish(call);
    }
}

/* A balancer that checks that growth is expected to go on, by half, also after a move. */
static void
expect_growth(telpher_mdr_load *loads, size_t count, uint32_t size, void *user)
{
    static uint64_t spreads; /* used in process 0 alone */

    (void)user;
    for (size_t i = 0; i < count; i++) {
        MUST(loads[i].ns >= UINT64_C(1000000) * (1 + GROWTH_MS * spreads * 5 / 4));
        loads[i].rank = (loads[i].rank + 1) % size;
    }
    spreads++;
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [ROUND] = TELPHER_MDR_ENTRY(worker_round, struct plan),
    [RESUME] = TELPHER_MDR_ENTRY_VOID(worker_resume),
    [WORK] = TELPHER_MDR_ENTRY_BYTES(worker_work),
    [GROW] = TELPHER_MDR_ENTRY_BYTES(worker_grow),
};
static const telpher_mdr_class workers = {.struct_size = sizeof(workers),
                                          .entry_count = ENTRIES,
                                          .name = "worker",
                                          .object_size = sizeof(struct worker),
                                          .entries = entries,
                                          .pup = pup};

static void
run_plan(telpher_mdr *mdr, uint32_t entry, uint32_t heavy, int64_t *sums)
{
    static const int32_t extent[] = {WORKERS};
    struct plan plan = {.heavy = heavy};
    telpher_mdr_array array, group;

    OK(telpher_mdr_future_create(mdr, &plan.done));
    OK(telpher_mdr_group_create(mdr, 0, NULL, 0, &group));
    OK(telpher_mdr_array_create(mdr, 0, 1, extent, NULL, 0, &array));
    OK(telpher_mdr_broadcast(mdr, &array, entry, &plan, sizeof(plan)));
    OK(telpher_mdr_await(mdr, plan.done, sums, (1 + PROCESSES) * sizeof(*sums), NULL));
    MUST(sums[0] == WORKERS);
}

static void
main_rounds(telpher_mdr_call *call)
{
    int64_t sums[1 + PROCESSES];

    run_plan(call->mdr, ROUND, 0, sums);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

/* The heavy objects begin in process 0. In the end each process has one of three. */
static void
main_work(telpher_mdr_call *call)
{
    int64_t sums[1 + PROCESSES];

    run_plan(call->mdr, WORK, PROCESSES, sums);
    for (int r = 0; r < PROCESSES; r++) {
        MUST(sums[1 + r] == (telpher_mdr_user(call->mdr) != NULL ? 1 : r == 0 ? 3 : 0));
    }
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static void
main_growth(telpher_mdr_call *call)
{
    int64_t sums[1 + PROCESSES];

    run_plan(call->mdr, GROW, 0, sums);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static telpher_mdr_entry_fn main_fn;
static bool balances;

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &workers, &number));
    if (main_fn == main_rounds) {
        OK(telpher_mdr_balancer_set(mdr, next_process, &transport));
    }
    if (main_fn == main_growth) {
        OK(telpher_mdr_balancer_set(mdr, expect_growth, NULL));
    }
    OK(telpher_mdr_run(mdr, main_fn, balances ? &balances : NULL));
    IS(telpher_mdr_balancer_set(mdr, NULL, NULL), TELPHER_ERR_BUSY);
    telpher_mdr_destroy(mdr);
}

static void
test_rounds(void **state)
{
    (void)state;
    main_fn = main_rounds;
    assert_true(ranks_run(PROCESSES, transport, UINT32_MAX, rank_of_job));
}

static void
test_growth(void **state)
{
    (void)state;
    main_fn = main_growth;
    assert_true(ranks_run(PROCESSES, transport, UINT32_MAX, rank_of_job));
}

static void
test_balancers(void **state)
{
    static const char *const names[] = {"none", "refine", "greedy"};

    (void)state;
    main_fn = main_work;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        balances = strcmp(names[i], "none") != 0;
        setenv("TELPHER_MDR_BALANCER", names[i], 1);
        assert_true(ranks_run(PROCESSES, transport, UINT32_MAX, rank_of_job));
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_growth),
                                       cmocka_unit_test(test_balancers)};

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
