/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_memory TRANSPORT
 *
 * Allocations of libtelpher-mdr fail, one after the other: the run ends with a status in all
 * processes, or goes on; no process crashes or waits for ever.
 */
#include "../comm/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

#include "base/alloc.h"

enum { OBJECTS = 6, LEN = 3000 };
enum { START, TAKE, HEAR, WAIT, ENTRIES };

static const char *transport;
static uint64_t nth; /* of rank 0's allocations */

struct state {
    telpher_mdr_future done;
    uint32_t heard;
    uint8_t room[LEN];
};

static telpher_mdr_index
neighbour(const telpher_mdr_call *call)
{
    return (telpher_mdr_index){{(call->index.at[0] + 1) % OBJECTS, 0, 0}};
}

static void
pup(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    telpher_mdr_pup_bytes(p, call->self, sizeof(struct state));
}

static void
post(telpher_mdr_call *call)
{
    call->buffers[0].data = ((struct state *)call->self)->room;
}

/* An error ends the run, as in a program that checks its calls. */
static void
check(telpher_mdr_call *call, telpher_status status)
{
    if (status != TELPHER_OK) {
        telpher_mdr_exit(call->mdr, status);
    }
}

static void
start(telpher_mdr_call *call)
{
    static uint8_t data[LEN];
    struct state *s = call->self;
    const telpher_msg_buffer buffer = {data, LEN};
    const telpher_mdr_channel next = {.array = call->array, .index = neighbour(call)};
    const telpher_mdr_channel before = {
        .array = call->array,
        .index = {{(call->index.at[0] + OBJECTS - 1) % OBJECTS, 0, 0}}};
    telpher_mdr *mdr = call->mdr;
    const uint32_t zero = 0;

    s->done = *TELPHER_MDR_PARAMS(call, telpher_mdr_future);
    check(call, telpher_mdr_invoke(mdr, &call->array, neighbour(call), TAKE, &zero,
                                   sizeof(zero), &buffer, 1, NULL));
    check(call, telpher_mdr_invoke(mdr, &call->array, neighbour(call),
                                   TELPHER_MDR_LATER(WAIT, 3), &zero, sizeof(zero),
                                   NULL, 0, NULL));
    check(call,
          telpher_mdr_channel_send(call, &next, &zero, sizeof(zero), &buffer, 1, NULL));
    check(call, telpher_mdr_channel_recv(call, &before, TAKE));
    check(call, telpher_mdr_migrate(call, (telpher_mdr_rank(mdr) + 1) %
                                              telpher_mdr_size(mdr)));
}

static void
hear(telpher_mdr_call *call)
{
    struct state *s = call->self;
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE,
                                       .future = s->done};
    int64_t one = 1;

    if (++s->heard == 3) { /* two buffers and an entry that waits */
        check(call, telpher_mdr_contribute(call, &one, sizeof(one), TELPHER_MDR_SUM_I64,
                                           &target));
    }
}

static void
take(telpher_mdr_call *call)
{
    check(call, call->status);
    hear(call);
}

static void
linger(telpher_mdr_call *call)
{
    check(call, telpher_mdr_yield(call->mdr));
    hear(call);
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [START] = TELPHER_MDR_ENTRY(start, telpher_mdr_future),
    [TAKE] = TELPHER_MDR_ENTRY_POST(take, post, uint32_t),
    [HEAR] = TELPHER_MDR_ENTRY_VOID(hear),
    [WAIT] = TELPHER_MDR_ENTRY_WAITS(linger, uint32_t),
};
static const telpher_mdr_class objects = {.struct_size = sizeof(objects),
                                          .entry_count = ENTRIES,
                                          .name = "object",
                                          .object_size = sizeof(struct state),
                                          .entries = entries,
                                          .pup = pup};

static void
run_main(telpher_mdr_call *call)
{
    static const int32_t extent[] = {OBJECTS};
    telpher_mdr_future done;
    telpher_mdr_array array;
    int64_t sum = 0;
    telpher_status status = telpher_mdr_future_create(call->mdr, &done);

    if (status == TELPHER_OK) {
        status = telpher_mdr_array_create(call->mdr, 0, 1, extent, NULL, 0, &array);
    }
    if (status == TELPHER_OK) {
        status = telpher_mdr_broadcast(call->mdr, &array, START, &done, sizeof(done));
    }
    if (status == TELPHER_OK) {
        status = telpher_mdr_await(call->mdr, done, &sum, sizeof(sum), NULL);
        MUST(status != TELPHER_OK || sum == OBJECTS);
    }
    telpher_mdr_exit(call->mdr, status);
}

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    telpher_status status;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &objects, &number));
    tp_alloc_fail_nth(telpher_mdr_rank(mdr) == 0 ? nth : 0);
    status = telpher_mdr_run(mdr, run_main, NULL);
    if (tp_alloc_failed()) {
        MUST(status != TELPHER_OK && telpher_mdr_last_error(mdr)[0] != '\0');
    }
    tp_alloc_fail_nth(0);
    telpher_mdr_destroy(mdr);
}

/* Every allocation of a small run. */
static void
test_memory(void **state)
{
    (void)state;
    for (nth = 1; nth <= 120; nth++) {
        assert_true(
            ranks_run(1 + (uint32_t)(nth % 2), transport, UINT32_MAX, rank_of_job));
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory)};

    setenv("TELPHER_LOG", "none", 1);
    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
