/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets_hostile_ucx
 *
 * Rank 1 of 2 knows the job and breaks the protocol. Rank 0 closes the connection, reports the
 * loss once with PROTO, and keeps no more early messages than its limit; rank 1 is told.
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

enum { HOSTILE = 1, EARLY = 5000 /* more early messages than are kept */ };

struct nonsense {
    const char *name;
    struct ucx_prefix prefix; /* its number is relative to the next one */
    unsigned count;
    bool by_rndv; /* sent by UCX's rendezvous, else eager */
    bool after_bulk; /* names the number of a valid message that rank 0 keeps */
};

static const struct nonsense nonsenses[] = {
    {"number", {.kind = UCX_EAGER, .number = 1 << 20}, 1, false, false},
    {"number, many times", {.kind = UCX_EAGER, .number = 5}, EARLY, false, false},
    {"number of a rendezvous", {.kind = UCX_RNDV, .number = 1 << 20}, 1, true, false},
    {"early rendezvous", {.kind = UCX_RNDV, .number = 5}, EARLY, true, false},
    {"same rendezvous twice", {.kind = UCX_RNDV}, 2, true, false},
    {"length", {.kind = UCX_EAGER, .len = 5}, 1, false, false},
    {"rendezvous sent eagerly", {.kind = UCX_RNDV, .len = 1}, 1, false, false},
    {"eager by rendezvous", {.kind = UCX_EAGER, .len = 1}, 1, true, false},
    {"close by rendezvous", {.kind = UCX_CLOSE}, 1, true, false},
    {"reject of nothing", {.kind = UCX_REJECT}, 1, false, false},
    {"reject of what it sent", {.kind = UCX_REJECT, .number = -1}, 1, false, true},
};
enum { NONSENSES = sizeof(nonsenses) / sizeof(nonsenses[0]) };

static const struct nonsense *nonsense;

static void
on_sent(void *request, ucs_status_t status, void *user)
{
    (void)status, (void)user;
    ucp_request_free(request);
}

/* UCX has it until it is rejected, or the connection ends. */
static void
send_by_rndv(struct ucx_link *link, struct ucx_prefix prefix, unsigned i)
{
    static struct ucx_prefix sent[EARLY];
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_RNDV,
                                       .cb.send = on_sent};

    prefix.job = link->net->params.job;
    prefix.from = link->net->params.rank;
    sent[i] = prefix;
    (void)ucp_am_send_nbx(link->ep, UCX_AM, &sent[i], sizeof(prefix), "x", 1, &param);
}

static void
send_eager(struct world *w, struct ucx_link *link, struct ucx_prefix prefix)
{
    telpher_status status;

    UNTIL(w, (status = tp_ucx_post(link, prefix, "h", 1, NULL, 0, false)) !=
                 TELPHER_ERR_AGAIN);
}

static void
ignore_end(struct tp_net_op *op, telpher_status status)
{
    (void)op, (void)status;
}

static void
be_hostile(struct world *w)
{
    struct ucx_link *link = ucx_net(w->net)->links[0];

    if (nonsense->after_bulk) {
        static struct tp_net_op op = {.done = ignore_end};

        MUST(w, w->ops->rndv_send(w->net, 0, "h", 1, "x", 1, &op) == TELPHER_OK);
    }
    for (unsigned i = 0; i < nonsense->count && w->lost[0] == 0; i++) {
        struct ucx_prefix prefix = nonsense->prefix;

        prefix.number += link->sent;
        if (nonsense->by_rndv) {
            send_by_rndv(link, prefix, i);
            (void)world_step(w);
        } else {
            send_eager(w, link, prefix);
        }
    }
    UNTIL(w, w->lost[0] != 0);
}

static void
rank(struct world *w)
{
    (void)tp_log_configure("error", NULL); /* the warnings are expected */
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

/* Neither received nor rejected. */
static void
on_rndv(struct world *w, uint32_t from, const void *header, size_t header_len,
        uint64_t len, struct tp_net_rndv *bulk)
{
    (void)w, (void)from, (void)header, (void)header_len, (void)len, (void)bulk;
}

static void
test_nonsense(void **arg)
{
    static const struct hooks hooks = {NULL, on_rndv, NULL};
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
    uint8_t bytes[TP_NET_ADDRESS_MAX];
    size_t len = w->shared->address_len[1 - w->rank];
    struct ucx_address address;

    (void)tp_log_configure("error", NULL);
    memcpy(bytes, w->shared->addresses[1 - w->rank], len);
    MUST(w, w->ops->reaches(w->net, bytes, len));
    memcpy(&address, bytes, sizeof(address));
    address.version++;
    memcpy(bytes, &address, sizeof(address));
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
