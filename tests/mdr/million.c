/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_million TRANSPORT [MESSAGES [OBJECTS]]
 *
 * Messages between objects on 4 processes, each pair's in their order; quiescence comes once, after
 * the last. Then: what an idle object costs. Without arguments fewer than a million, which
 * scripts/check/mdr runs.
 */
#include "../comm/ranks.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/mdr.h>

enum { PROCESSES = 4, PEERS = 4, BURST = 10, IDLE = 10000, IDLE_BYTES = 512 };

static const char *transport;
static uint32_t messages = 60000, objects = 2000;

enum { GO, TAKE, REPORT, ENTRIES };

struct node {
    uint32_t left, sent[PEERS], got[PEERS];
};

struct item {
    uint32_t peer, number;
};

static int32_t
hop_of(uint32_t peer)
{
    static const uint32_t parts[PEERS] = {0, 2, 3, 7}; /* next, and far ones */

    return parts[peer] == 0 ? 1 : (int32_t)(objects / parts[peer] + peer);
}

/* A burst, then the rest by a message to itself. */
static void
node_go(telpher_mdr_call *call)
{
    struct node *n = call->self;

    n->left = call->params_len != 0 ? *TELPHER_MDR_PARAMS(call, uint32_t) : n->left;
    for (uint32_t i = 0; i < BURST && n->left != 0; i++, n->left--) {
        struct item item = {n->left % PEERS, n->sent[n->left % PEERS]++};
        telpher_mdr_index to = {
            {(call->index.at[0] + hop_of(item.peer)) % (int32_t)objects, 0, 0}};

        OK(telpher_mdr_invoke(call->mdr, &call->array, to, TAKE, &item, sizeof(item),
                              NULL, 0, NULL));
    }
    if (n->left != 0) {
        OK(telpher_mdr_invoke(call->mdr, &call->array, call->index, GO, NULL, 0, NULL,
                              0, NULL));
    }
}

static void
node_take(telpher_mdr_call *call)
{
    const struct item *item = TELPHER_MDR_PARAMS(call, struct item);
    struct node *n = call->self;

    MUST(item->peer < PEERS && item->number == n->got[item->peer]++);
}

static void
node_report(telpher_mdr_call *call)
{
    const telpher_mdr_target *target = TELPHER_MDR_PARAMS(call, telpher_mdr_target);
    const struct node *n = call->self;
    int64_t got = 0;

    for (uint32_t p = 0; p < PEERS; p++) {
        got += n->got[p];
    }
    OK(telpher_mdr_contribute(call, &got, sizeof(got), TELPHER_MDR_SUM_I64, target));
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [GO] = TELPHER_MDR_ENTRY_BYTES(node_go),
    [TAKE] = TELPHER_MDR_ENTRY(node_take, struct item),
    [REPORT] = TELPHER_MDR_ENTRY(node_report, telpher_mdr_target),
};
static const telpher_mdr_class nodes = {.struct_size = sizeof(nodes),
                                        .entry_count = ENTRIES,
                                        .name = "node",
                                        .object_size = sizeof(struct node),
                                        .entries = entries};

static void
main_million(telpher_mdr_call *call)
{
    const int32_t extent[] = {(int32_t)objects};
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE};
    uint32_t each = messages / objects;
    telpher_mdr_array array;
    telpher_mdr_future quiet;
    int64_t got = 0;

    OK(telpher_mdr_array_create(mdr, 0, 1, extent, NULL, 0, &array));
    OK(telpher_mdr_broadcast(mdr, &array, GO, &each, sizeof(each)));
    OK(telpher_mdr_future_create(mdr, &quiet));
    OK(telpher_mdr_quiescence(mdr, quiet));
    OK(telpher_mdr_await(mdr, quiet, NULL, 0, NULL));
    OK(telpher_mdr_future_create(mdr, &target.future));
    OK(telpher_mdr_broadcast(mdr, &array, REPORT, &target, sizeof(target)));
    OK(telpher_mdr_await(mdr, target.future, &got, sizeof(got), NULL));
    MUST(got == (int64_t)each * objects);
    telpher_mdr_exit(mdr, TELPHER_OK);
}

/* Bytes of malloc() that an idle object takes, its own state among them. */
static void
main_idle(telpher_mdr_call *call)
{
    static const int32_t extent[] = {IDLE};
    struct mallinfo2 before = mallinfo2(), after;
    telpher_mdr_array array;
    telpher_mdr_future quiet;
    size_t each;

    OK(telpher_mdr_array_create(call->mdr, 0, 1, extent, NULL, 0, &array));
    OK(telpher_mdr_future_create(call->mdr, &quiet));
    OK(telpher_mdr_quiescence(call->mdr, quiet));
    OK(telpher_mdr_await(call->mdr, quiet, NULL, 0, NULL));
    after = mallinfo2();
    each = (after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / IDLE;
    printf("an idle object of %zu bytes takes %zu bytes\n", sizeof(struct node), each);
    MUST(each <= sizeof(struct node) + IDLE_BYTES);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static telpher_mdr_entry_fn main_fn;

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &nodes, &number));
    OK(telpher_mdr_run(mdr, main_fn, NULL));
    telpher_mdr_destroy(mdr);
}

static void
test_million(void **state)
{
    (void)state;
    main_fn = main_million;
    assert_true(ranks_run(PROCESSES, transport, UINT32_MAX, rank_of_job));
}

static void
test_idle(void **state)
{
    (void)state;
    main_fn = main_idle;
    assert_true(ranks_run(1, transport, UINT32_MAX, rank_of_job));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_million),
                                       cmocka_unit_test(test_idle)};

    transport = ranks_transport(argc, argv);
    messages = argc > 2 ? (uint32_t)atoi(argv[2]) : messages;
    objects = argc > 3 ? (uint32_t)atoi(argv[3]) : objects;
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
