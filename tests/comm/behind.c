/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: comm_behind TRANSPORT
 *
 * Notified puts behind one that is landing: none is seen before it, all are seen after it, and what is
 * kept of them until then does not grow with their number. A rank that dies leaves none.
 */
#include "ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <telpher/mem.h>
#include <telpher/win.h>

enum {
    BIG = 200003, /* [bytes] that land slowly */
    PUTS = 210000, /* behind it */
    LAST_PUTS = 1000, /* of who dies then */
    TAGS = 3,
    BIG_TAG = 9,
    KEPT_MAX = 8 << 20, /* [bytes]; 5 MiB were seen under a sanitizer, notes take 16 */
};

static const char *transport;
static bool dies;

/* [bytes] of this process in memory. */
static size_t
resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    MUST(file != NULL && fscanf(file, "%*u %lu", &pages) == 1);
    (void)fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void
put_all(telpher_win *slow, telpher_win *quick)
{
    static uint8_t big[BIG];
    telpher_request *req = NULL;
    uint64_t value;
    telpher_status status;

    memset(big, 7, sizeof(big));
    status = telpher_put_notify(slow, 1, 0, big, BIG, BIG_TAG, NULL, &req);
    MUST(status == TELPHER_IN_PROGRESS);
    for (unsigned i = 0; i < (dies ? LAST_PUTS : PUTS); i++) {
        telpher_request *one = NULL;

        value = i;
        status = telpher_put_notify(quick, 1, 0, &value, sizeof(value), i % TAGS, NULL,
                                    &one);
        OK(ranks_finish(status, &one));
    }
    if (dies) {
        (void)raise(SIGKILL);
    }
    OK(telpher_request_wait(req, RANKS_TIME, NULL));
    OK(telpher_win_flush(slow, 1, RANKS_TIME));
}

static void
check_landed(telpher_context *ctx, const uint8_t *mem)
{
    static uint8_t host[BIG];

    OK(telpher_mem_copy(ctx, host, mem, BIG));
    for (size_t i = 0; i < BIG; i++) {
        MUST(host[i] == 7);
    }
}

static void
see_all(telpher_context *ctx, telpher_win *slow, telpher_win *quick, const uint8_t *mem)
{
    static const uint32_t tags[TAGS] = {0, 1, 2};
    size_t before = resident();
    uint32_t tag;

    OK(telpher_notify_wait_any(quick, 0, tags, TAGS, RANKS_TIME, &tag));
    OK(telpher_notify_test(slow, BIG_TAG, 1)); /* it came before */
    MUST(resident() < before + KEPT_MAX);
    check_landed(ctx, mem);
    for (uint32_t t = 0; t < TAGS; t++) {
        OK(telpher_notify_wait(quick, 0, t, PUTS / TAGS - (t == tag), RANKS_TIME));
        IS(telpher_notify_test(quick, t, 1), TELPHER_ERR_AGAIN);
    }
}

/* On a machine that is slow enough all has landed before the other dies. */
static void
see_none(telpher_win *slow, telpher_win *quick)
{
    telpher_status status = telpher_notify_wait(quick, 0, 0, 1, RANKS_TIME);

    MUST(status == TELPHER_ERR_PEER_LOST || status == TELPHER_OK);
    IS(telpher_notify_test(slow, BIG_TAG, 1),
       status == TELPHER_OK ? TELPHER_OK : TELPHER_ERR_AGAIN);
}

static void
rank(telpher_context *ctx)
{
    telpher_win *slow, *quick;
    uint64_t value = 0;
    void *mem = NULL;

    OK(telpher_mem_alloc(ctx, TELPHER_MEM_SIM, BIG, &mem));
    OK(telpher_win_create(ctx, mem, BIG, RANKS_TIME, &slow));
    OK(telpher_win_create(ctx, &value, sizeof(value), RANKS_TIME, &quick));
    if (telpher_context_rank(ctx) == 0) {
        put_all(slow, quick);
    } else if (dies) {
        see_none(slow, quick);
    } else {
        see_all(ctx, slow, quick, mem);
        MUST(value == PUTS - 1);
    }
    if (!dies) {
        OK(telpher_barrier(ctx, RANKS_TIME));
    }
    telpher_win_destroy(quick);
    telpher_win_destroy(slow);
    OK(telpher_mem_free(ctx, mem));
}

static void
test_order_and_memory(void **state)
{
    (void)state;
    dies = false;
    assert_true(ranks_run(2, transport, UINT32_MAX, rank));
}

/* Copies into the memory go on after the loss is told, and after it is freed. */
static void
test_death(void **state)
{
    (void)state;
    dies = true;
    assert_true(ranks_run(2, transport, 0, rank));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_memory),
        cmocka_unit_test(test_death),
    };

    transport = ranks_transport(argc, argv);
    setenv("TELPHER_DIRECT", "no", 1);
    setenv("TELPHER_CHUNK", "64K", 1);
    setenv("TELPHER_CHUNKS", "4", 1);
    setenv("TELPHER_SIM", "latency=500ms", 1); /* nothing is measured */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
