/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_flood TRANSPORT [MESSAGES]
 *
 * A slow object gets more messages than fit into memory: senders that may wait are held back,
 * others are told. No process grows, no message is lost, and their order holds.
 */
#include "../comm/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum {
    GROWTH_KIB = 1 << 30,
    MESSAGES = 20000
}; /* they are slow, and keep freed memory */
#else
enum { GROWTH_KIB = 24 << 10, MESSAGES = 100000 };
#endif
enum { PLAIN, WAITING, STORM, REPORT, ENTRIES };
enum { SLOW = 400 };

static const char *transport;
static uint64_t messages = MESSAGES;

struct drop {
    uint64_t number, more[3];
};

struct lake {
    uint64_t got[2];
    bool disordered;
};

static void
take(telpher_mdr_call *call, int way)
{
    struct lake *l = call->self;

    for (volatile int i = 0; i < SLOW; i++) {
    }
    if (TELPHER_MDR_PARAMS(call, struct drop)->number != l->got[way]) {
        l->disordered = true;
    }
    l->got[way]++;
}

static void
lake_plain(telpher_mdr_call *call)
{
    take(call, PLAIN);
}

/* Such entries may pass each other: only their number counts. */
static void
lake_waiting(telpher_mdr_call *call)
{
    struct lake *l = call->self;
    bool disordered = l->disordered;

    take(call, WAITING);
    l->disordered = disordered;
}

/* An entry that may not wait sends until it is told that there is no room. */
static void
lake_storm(telpher_mdr_call *call)
{
    const telpher_mdr_index here = {{(int32_t)telpher_mdr_rank(call->mdr), 0, 0}};
    telpher_status status = TELPHER_OK;
    struct drop d = {.number = 0};

    while (status == TELPHER_OK && d.number < messages) {
        status =
            TELPHER_MDR_INVOKE(call->mdr, &call->array, here, PLAIN, struct drop, &d);
        d.number++;
    }
    IS(status, TELPHER_ERR_AGAIN);
    MUST(strstr(telpher_mdr_last_error(call->mdr), "TELPHER_MDR_MEMORY") != NULL);
}

static void
lake_report(telpher_mdr_call *call)
{
    const struct lake *l = call->self;
    const telpher_mdr_target to = {.kind = TELPHER_MDR_TO_FUTURE,
                                   .future =
                                       *TELPHER_MDR_PARAMS(call, telpher_mdr_future)};
    const int64_t sums[] = {(int64_t)l->got[PLAIN], (int64_t)l->got[WAITING],
                            l->disordered};

    OK(telpher_mdr_contribute(call, sums, sizeof(sums), TELPHER_MDR_SUM_I64, &to));
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [PLAIN] = TELPHER_MDR_ENTRY(lake_plain, struct drop),
    [WAITING] = TELPHER_MDR_ENTRY_WAITS(lake_waiting, struct drop),
    [STORM] = TELPHER_MDR_ENTRY_VOID(lake_storm),
    [REPORT] = TELPHER_MDR_ENTRY(lake_report, telpher_mdr_future),
};
static const telpher_mdr_class lake_class = {.struct_size = sizeof(lake_class),
                                             .entry_count = ENTRIES,
                                             .name = "lake",
                                             .object_size = sizeof(struct lake),
                                             .entries = entries};

static void
await_quiet(telpher_mdr *mdr)
{
    telpher_mdr_future quiet;

    OK(telpher_mdr_future_create(mdr, &quiet));
    OK(telpher_mdr_quiescence(mdr, quiet));
    OK(telpher_mdr_await(mdr, quiet, NULL, 0, NULL));
}

/* The sums of all lakes, which are new. */
static void
expect(telpher_mdr *mdr, const telpher_mdr_array *lakes, uint64_t plain,
       uint64_t waiting)
{
    telpher_mdr_future done;
    int64_t sums[3];

    OK(telpher_mdr_future_create(mdr, &done));
    OK(telpher_mdr_broadcast(mdr, lakes, REPORT, &done, sizeof(done)));
    OK(telpher_mdr_await(mdr, done, sums, sizeof(sums), NULL));
    MUST((uint64_t)sums[0] == plain && (uint64_t)sums[1] == waiting && sums[2] == 0);
}

static void
flood(telpher_mdr *mdr, int32_t to, uint32_t entry)
{
    const telpher_mdr_index index = {{to, 0, 0}};
    bool waits = entry == WAITING;
    telpher_mdr_array lakes;
    struct drop d = {.number = 0};

    OK(telpher_mdr_group_create(mdr, 0, NULL, 0, &lakes));
    for (; d.number < messages; d.number++) {
        OK(TELPHER_MDR_INVOKE(mdr, &lakes, index, entry, struct drop, &d));
    }
    await_quiet(mdr);
    expect(mdr, &lakes, waits ? 0 : messages, waits ? messages : 0);
}

static void
main_flood(telpher_mdr_call *call)
{
    const telpher_mdr_index last = {{(int32_t)telpher_mdr_size(call->mdr) - 1, 0, 0}};
    telpher_mdr_array lakes;

    for (int32_t to = 0; to <= last.at[0]; to++) {
        flood(call->mdr, to, PLAIN);
        flood(call->mdr, to, WAITING);
        flood(call->mdr, to, TELPHER_MDR_LATER(PLAIN, 1));
    }
    OK(telpher_mdr_group_create(call->mdr, 0, NULL, 0, &lakes));
    OK(telpher_mdr_invoke(call->mdr, &lakes, last, STORM, NULL, 0, NULL, 0, NULL));
    await_quiet(call->mdr);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static long
most_kib(void)
{
    struct rusage usage;

    MUST(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    long before = most_kib();
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &lake_class, &number));
    OK(telpher_mdr_run(mdr, main_flood, NULL));
    telpher_mdr_destroy(mdr);
    if (most_kib() - before >= GROWTH_KIB) {
        (void)fprintf(stderr, "grew by %ld KiB\n", most_kib() - before);
        exit(1);
    }
}

static void
test_flood(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 2; size++) {
        assert_true(ranks_run(size, transport, UINT32_MAX, rank_of_job));
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flood)};

    transport = ranks_transport(argc, argv);
    if (argc > 2) {
        messages = strtoull(argv[2], NULL, 10);
        ranks_seconds = 2900; /* the limit of scripts/check/mdr is 3000 */
    }
    if (setenv("TELPHER_MDR_MEMORY", "2M", 1) != 0) {
        return 1;
    }
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
