/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets_hostile_ucx
 *
 * Rank 1 of 2 knows the job and sends what no rank sends. Rank 0 gives it up, once, with the
 * reason, and keeps no more of it than it says; rank 1 is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#include "base/trace/log.h"
#include "transport/ucx/net_int.h"

enum { HOSTILE = 1, HELD = 5000 /* more than are kept of what comes too early */ };

struct nonsense {
    const char *name;
    struct ucx_prefix prefix; /* its number counts from the next */
    unsigned count;
    bool next; /* each has its own number */
};

static const struct nonsense nonsenses[] = {
    {"number", {.kind = UCX_MESSAGE, .number = 1 << 20}, 1, false},
    {"number, many times", {.kind = UCX_MESSAGE, .number = 5}, HELD, false},
    {"length", {.kind = UCX_MESSAGE, .len = 5}, 1, false},
    {"bulk of nothing", {.kind = UCX_BULK, .id = 1}, 1, false},
    {"bulk, twice", {.kind = UCX_BULK, .id = 1, .len = 100000}, 2, true},
    {"go to nothing", {.kind = UCX_GO, .id = 77, .len = 1}, 1, false},
    {"drop of nothing", {.kind = UCX_DROP, .id = 77}, 1, false},
    {"data of nothing", {.kind = UCX_DATA, .id = 77}, 1, false},
    {"small data for a device", {.kind = UCX_DATA, .id = 1, .len = 1}, 1, false},
};
enum { NONSENSES = sizeof(nonsenses) / sizeof(nonsenses[0]) };

static const struct nonsense *nonsense;

/* What is for a device comes by UCX's own hands, never in our message. */
static void
send_small(struct ucx_link *link)
{
    const struct ucx_prefix bulk = {
        .kind = UCX_BULK, .number = link->sent, .id = 1, .len = 1};

    (void)tp_ucx_post(link, &bulk, "h", 1, NULL, 0, true);
    (void)tp_ucx_post(link, &nonsense->prefix, NULL, 0, "x", 1, true);
}

static void
be_hostile(struct world *w)
{
    struct ucx_link *link = ucx_net(w->net)->links[0];

    if (nonsense->prefix.len == 1 && nonsense->prefix.kind == UCX_DATA) {
        send_small(link);
        UNTIL(w, w->lost[0] != 0);
        return;
    }
    for (unsigned i = 0; i < nonsense->count && w->lost[0] == 0; i++) {
        struct ucx_prefix prefix = nonsense->prefix;
        telpher_status status;

        prefix.number += link->sent + (nonsense->next ? i : 0);
        UNTIL(w, (status = tp_ucx_post(link, &prefix, "h", 1, NULL, 0, false)) !=
                     TELPHER_ERR_AGAIN);
    }
    UNTIL(w, w->lost[0] != 0); /* that is what it gets */
}

static void
rank(struct world *w)
{
    (void)tp_log_configure("error", NULL); /* that it sent nonsense is no news */
    world_connect(w, 1 - w->rank);
    world_send(w, 1 - w->rank, "x", 1, NULL, 0);
    UNTIL(w, w->messages >= 1);
    if (w->rank == HOSTILE) {
        be_hostile(w);
    } else {
        UNTIL(w, w->lost[HOSTILE] != 0);
        MUST(w, w->lost[HOSTILE] == 1 && w->why[HOSTILE] == TELPHER_ERR_PROTO);
    }
}

static void
wanted_done(struct tp_net_op *op, telpher_status status)
{
    (void)op;
    if (status != TELPHER_ERR_PEER_LOST) {
        abort();
    }
}

/* Kept: nobody wants it now; but one is for a device. */
static void
on_bulk(struct world *w, uint32_t from, const void *header, size_t header_len,
        uint64_t len, struct tp_net_bulk *bulk)
{
    (void)w;
    (void)from;
    (void)header;
    (void)header_len;
    if (len == 1) { /* which would not live to tell of a processor's touch */
        static struct tp_net_op op = {.done = wanted_done, .kind = TELPHER_MEM_SIM};

        w->ops->recv_bulk(w->net, bulk, (void *)(uintptr_t)4096, 1, &op);
    }
}

static void
test_nonsense(void **arg)
{
    static const struct hooks hooks = {NULL, on_bulk, NULL};
    const struct world_params params = {.transport = "ucx",
                                        .size = 2,
                                        .killed = UINT32_MAX,
                                        .hooks = &hooks,
                                        .fn = rank};

    nonsense = *(const struct nonsense *const *)*arg;
    assert_true(world_run(&params));
}

/* ---- versions ---- */

static void
other_version(struct world *w)
{
    uint8_t bytes[TP_NET_CARD_MAX];
    size_t len = w->shared->card_len[1 - w->rank];
    struct ucx_card card;

    (void)tp_log_configure("error", NULL);
    memcpy(bytes, w->shared->cards[1 - w->rank], len);
    MUST(w, w->ops->reaches(w->net, bytes, len));
    memcpy(&card, bytes, sizeof(card));
    card.version++;
    memcpy(bytes, &card, sizeof(card));
    MUST(w, !w->ops->reaches(w->net, bytes, len));
}

static void
test_other_version(void **arg)
{
    const struct world_params params = {
        .transport = "ucx", .size = 2, .killed = UINT32_MAX, .fn = other_version};

    (void)arg;
    assert_true(world_run(&params));
}

int
main(void)
{
    static const struct nonsense *each[NONSENSES];
    struct CMUnitTest all[NONSENSES + 1];

    if (!world_has("ucx")) {
        return 77;
    }
    for (unsigned i = 0; i < NONSENSES; i++) {
        each[i] = &nonsenses[i];
        all[i] =
            (struct CMUnitTest){nonsenses[i].name, test_nonsense, NULL, NULL, &each[i]};
    }
    all[NONSENSES] = (struct CMUnitTest)cmocka_unit_test(test_other_version);
    return cmocka_run_group_tests_name("ucx", all, NULL, NULL);
}
