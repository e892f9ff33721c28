/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets_close_peer TRANSPORT
 *
 * Rank 0 closes its connection to rank 1 while large data is under way, and reuses the memory as soon
 * as the operation is done. Rank 1 receives all of the data, or PEER_LOST.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#include "base/config/settings.h"
#include "base/trace/log.h"

enum { LEN = 24 << 20, BEGUN = 0, USED_AGAIN = 1, BEFORE = 0xaa, AFTER = 0x55 };

static const char *transport;
static unsigned steps; /* that rank 1 makes before */

struct party {
    struct tp_net_op op;
    bool announced, ended;
    telpher_status status;
    uint8_t *memory;
};

static struct party the; /* of this process */

static void
ended(struct tp_net_op *op, telpher_status status)
{
    (void)op;
    the.ended = true;
    the.status = status;
}

static void
on_rndv(struct world *w, uint32_t from, const void *header, size_t header_len,
        uint64_t len, struct tp_net_rndv *bulk)
{
    (void)from, (void)header, (void)header_len;
    MUST(w, len == LEN);
    the.op.done = ended;
    the.announced = true;
    tp_rndv_recv(w->net, bulk, the.memory, LEN, &the.op);
}

static void
send_and_close(struct world *w)
{
    telpher_status status;

    the.op.done = ended;
    UNTIL(w, (status = tp_rndv_send(w->net, 1, "x", 1, the.memory, LEN, &the.op)) !=
                 TELPHER_ERR_AGAIN);
    MUST(w, status == TELPHER_OK);
    UNTIL(w, atomic_load(&w->shared->words[BEGUN]) != 0);
    w->ops->close_peer(w->net, 1);
    UNTIL(w, the.ended);
    MUST(w, the.status == TELPHER_OK || the.status == TELPHER_ERR_PEER_LOST);
    memset(the.memory, AFTER, LEN);
    atomic_store(&w->shared->words[USED_AGAIN], 1);
}

/* Does not look while the other gives up: it would see that. */
static void
receive(struct world *w)
{
    UNTIL(w, the.announced);
    for (unsigned i = 0; i < steps; i++) {
        (void)world_step(w);
    }
    atomic_store(&w->shared->words[BEGUN], 1);
    while (atomic_load(&w->shared->words[USED_AGAIN]) == 0) {
        sched_yield();
    }
    UNTIL(w, the.ended);
    MUST(w, the.status == TELPHER_OK || the.status == TELPHER_ERR_PEER_LOST);
    for (size_t i = 0; i < LEN && the.status == TELPHER_OK; i++) {
        MUST(w, the.memory[i] == BEFORE);
    }
}

static void
rank(struct world *w)
{
    the.memory = malloc(LEN);
    MUST(w, the.memory != NULL);
    memset(the.memory, w->rank == 0 ? BEFORE : 0, LEN);
    world_connect(w, 1 - w->rank);
    if (w->rank == 0) {
        send_and_close(w);
    } else {
        receive(w);
    }
    world_barrier(w);
    UNTIL(w, w->lost[1 - w->rank] == 1);
    free(the.memory);
}

static void
test_large_data(void **state)
{
    static const struct hooks hooks = {.on_rndv = on_rndv};
    const struct world_params params = {.transport = transport,
                                        .size = 2,
                                        .killed = UINT32_MAX,
                                        .lost_after = TP_CLOCK_S,
                                        .hooks = &hooks,
                                        .fn = rank};

    (void)state;
    for (steps = 0; steps < 25; steps += 6) {
        assert_true(world_run(&params));
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_large_data)};

    transport = argc > 1 ? argv[1] : "shm";
    tp_settings_configure_log();
    if (!world_has(transport)) {
        return 77;
    }
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
