/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets_late_ucx
 *
 * A rank is given up while UCX still brings data, as a GPU's copies or a network's adapter do for a
 * while: who receives is told when the memory is its own again, and not before. UCX's calls that
 * matter come here first (ld --wrap). One that UCX never lets go of is told as well, later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <ucp/api/ucp.h>

#include "world.h"

#include "base/trace/log.h"

enum { LEN = 1 << 20, BEFORE = 0xaa, LATE = 0x55 };

static tp_ns how_late; /* TP_CLOCK_FOREVER: never */

/* The receive posted to UCX in this process. */
static struct {
    bool begun, held;
    uint8_t *dst;
    size_t len;
    tp_ns until;
    ucp_am_recv_data_nbx_callback_t fn;
    void *user;
} late;

static struct {
    struct tp_net_op op;
    bool ended, in_time;
    telpher_status status;
} the;

ucs_status_ptr_t __wrap_ucp_am_recv_data_nbx(ucp_worker_h worker, void *data, void *dst,
                                             size_t len, const ucp_request_param_t *p);
void __wrap_ucp_request_free(void *request);
unsigned __wrap_ucp_worker_progress(ucp_worker_h worker);
void __real_ucp_request_free(void *request);
unsigned __real_ucp_worker_progress(ucp_worker_h worker);

ucs_status_ptr_t
__wrap_ucp_am_recv_data_nbx(ucp_worker_h worker, void *data, void *dst, size_t len,
                            const ucp_request_param_t *p)
{
    (void)worker, (void)data;
    late.begun = late.held = true;
    late.dst = dst;
    late.len = len;
    late.until =
        how_late == TP_CLOCK_FOREVER ? TP_CLOCK_FOREVER : tp_clock_ns() + how_late;
    late.fn = p->cb.recv_am;
    late.user = p->user_data;
    return &late;
}

void
__wrap_ucp_request_free(void *request)
{
    if (request != &late) {
        __real_ucp_request_free(request);
    }
}

unsigned
__wrap_ucp_worker_progress(ucp_worker_h worker)
{
    unsigned count = __real_ucp_worker_progress(worker);

    if (late.held && tp_clock_passed(late.until)) {
        memset(late.dst, LATE, late.len);
        late.held = false;
        late.fn(&late, UCS_ERR_CANCELED, 0, late.user);
        count++;
    }
    return count;
}

static void
ended(struct tp_net_op *op, telpher_status status)
{
    (void)op;
    the.ended = true;
    the.in_time = !late.held;
    the.status = status;
}

static uint8_t memory[LEN];

static void
on_rndv(struct world *w, uint32_t from, const void *header, size_t header_len,
        uint64_t len, struct tp_net_rndv *bulk)
{
    (void)from, (void)header, (void)header_len;
    MUST(w, len == LEN);
    the.op.done = ended;
    w->ops->rndv_recv(w->net, bulk, memory, LEN, &the.op);
}

static void
receive(struct world *w)
{
    UNTIL(w, late.begun);
    w->ops->close_peer(w->net, 0);
    UNTIL(w, the.ended);
    MUST(w, the.status == TELPHER_ERR_PEER_LOST);
    MUST(w, the.in_time == (how_late != TP_CLOCK_FOREVER));
    memset(memory, BEFORE, LEN);
    UNTIL(w, w->lost[0] == 1);
    for (unsigned i = 0; i < 1000; i++) {
        (void)world_step(w);
    }
    for (size_t i = 0; i < LEN; i++) {
        MUST(w, memory[i] == BEFORE);
    }
}

static void
rank(struct world *w)
{
    telpher_status status;

    (void)tp_log_configure("error", NULL);
    world_connect(w, 1 - w->rank);
    if (w->rank == 1) {
        receive(w);
        return;
    }
    the.op.done = ended;
    UNTIL(w, (status = w->ops->rndv_send(w->net, 1, "x", 1, memory, LEN, &the.op)) !=
                 TELPHER_ERR_AGAIN);
    MUST(w, status == TELPHER_OK);
    UNTIL(w, the.ended && w->lost[1] == 1);
}

static void
run(tp_ns time)
{
    static const struct hooks hooks = {NULL, on_rndv, NULL};
    const struct world_params params = {.transport = "ucx",
                                        .size = 2,
                                        .killed = UINT32_MAX,
                                        .hooks = &hooks,
                                        .fn = rank};

    how_late = time;
    assert_true(world_run(&params));
}

static void
test_late(void **state)
{
    (void)state;
    run(2 * TP_CLOCK_MS);
    run(300 * TP_CLOCK_MS);
}

static void
test_never(void **state)
{
    (void)state;
    run(TP_CLOCK_FOREVER);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_never),
    };

    return world_has("ucx") ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
