/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the engine's choice between get() and write_data() over a transport of the
 * test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/comm/rndv/rndv_int.h"

enum { LEN = 4 << 10, PEER = 1, ENOUGH = 2200 /* transfers: more than two periods */ };

static struct {
    struct tp_net net;
    const struct tp_net_events *events;
    void *user;
    enum tp_net_get can_get;
    tp_ns write_ns, get_ns; /* how long a transfer takes */
    telpher_status get_status;
    uint32_t asked; /* id of a CTS that has no data yet; 0: none */
    unsigned writes, gets, ended;
    telpher_status status;
    struct tp_net_op op;
    uint8_t src[LEN], dst[LEN];
} the;

/* ---- the transport ---- */

static void
spend(tp_ns time)
{
    tp_ns end = tp_clock_ns() + time;

    while (tp_clock_ns() < end) {
    }
}

static telpher_status
fake_create(const struct tp_net_params *params, struct tp_net **ret_net,
            struct tp_error *err)
{
    (void)err;
    the.events = params->events;
    the.user = params->user;
    *ret_net = &the.net;
    return TELPHER_OK;
}

static telpher_status
fake_control(struct tp_net *net, uint32_t peer, const void *frame, size_t len,
             const void *data, size_t data_len)
{
    struct tp_rndv_frame f;

    (void)net, (void)data, (void)data_len;
    assert_int_equal(peer, PEER);
    assert_int_equal(len, sizeof(f));
    memcpy(&f, frame, sizeof(f));
    the.asked = f.kind == TP_RNDV_CTS ? (uint32_t)f.at : 0;
    return TELPHER_OK;
}

static size_t
fake_write(struct tp_net *net, uint32_t peer, uint32_t id, const void *src, size_t len,
           void *arg)
{
    (void)net, (void)peer, (void)id, (void)src, (void)arg;
    return len;
}

static enum tp_net_get
fake_can_get(struct tp_net *net, uint32_t peer)
{
    (void)net, (void)peer;
    return the.can_get;
}

static telpher_status
fake_get(struct tp_net *net, uint32_t peer, uint64_t address, void *dst, size_t len)
{
    (void)net, (void)peer;
    spend(the.get_ns);
    the.gets++;
    if (the.get_status == TELPHER_OK) {
        memcpy(dst, (const void *)(uintptr_t)address, len);
    }
    return the.get_status;
}

/* Delivers the data that the engine requested by CTS. */
static unsigned
fake_progress(struct tp_net *net)
{
    uint8_t *dst = NULL;
    size_t room = 0;

    (void)net;
    if (the.asked == 0) {
        return 0;
    }
    spend(the.write_ns);
    assert_true(the.events->data_at(the.user, PEER, the.asked, LEN, &dst, &room));
    assert_int_equal(room, LEN);
    memcpy(dst, the.src, LEN);
    the.writes++;
    the.events->data_received(the.user, PEER, the.asked, LEN);
    the.asked = 0;
    return 1;
}

static void
fake_destroy(struct tp_net *net)
{
    (void)net;
}

static const struct tp_net_ops fake = {.name = "fake",
                                       .create = fake_create,
                                       .control = fake_control,
                                       .write_data = fake_write,
                                       .can_get = fake_can_get,
                                       .get = fake_get,
                                       .progress = fake_progress,
                                       .destroy = fake_destroy};

/* ---- its user ---- */

static void
done(struct tp_net_op *op, telpher_status status)
{
    (void)op;
    the.ended++;
    the.status = status;
}

static void
on_rndv(void *user, uint32_t from, const void *header, size_t header_len, uint64_t len,
        struct tp_net_rndv *rndv)
{
    (void)user, (void)from, (void)header;
    assert_int_equal(header_len, 0);
    assert_int_equal(len, LEN);
    the.op.done = done;
    tp_rndv_recv(&the.net, rndv, the.dst, LEN, &the.op);
}

static int
start(void **state)
{
    static const struct tp_net_events events = {.on_rndv = on_rndv};
    const struct tp_net_params params = {.size = 2, .events = &events};
    struct tp_net *net;

    (void)state;
    memset(&the, 0, sizeof(the));
    the.net.ops = &fake;
    the.can_get = TP_NET_GET_MAYBE;
    assert_int_equal(tp_rndv_create(&fake, &params, &net, NULL), TELPHER_OK);
    return 0;
}

static int
stop(void **state)
{
    (void)state;
    tp_rndv_destroy(&the.net);
    return 0;
}

/* One offer of the peer, from start to completion. */
static void
transfer(uint8_t fill)
{
    const struct tp_rndv_frame rts = {
        .kind = TP_RNDV_RTS, .id = 1, .len = LEN, .at = (uintptr_t)the.src};
    unsigned before = the.ended;

    memset(the.src, fill, LEN);
    the.events->on_control(the.user, PEER, &rts, sizeof(rts), 0);
    for (unsigned i = 0; i < 4; i++) {
        (void)tp_rndv_progress(&the.net);
    }
    assert_int_equal(the.ended, before + 1);
    assert_int_equal(the.status,
                     the.get_status == TELPHER_ERR_IO ? TELPHER_ERR_IO : TELPHER_OK);
}

static void
transfer_many(unsigned count)
{
    the.writes = the.gets = 0;
    for (unsigned i = 0; i < count; i++) {
        transfer((uint8_t)i);
        assert_int_equal(the.dst[LEN - 1], (uint8_t)i);
    }
}

/* ---- tests ---- */

static void
test_faster_way_is_used(void **state)
{
    (void)state;
    the.write_ns = 5 * TP_CLOCK_US;
    the.get_ns = 120 * TP_CLOCK_US;
    transfer_many(ENOUGH);
    assert_true(the.writes > ENOUGH * 9 / 10);
    the.write_ns = 120 * TP_CLOCK_US; /* the machine's speeds change */
    the.get_ns = 5 * TP_CLOCK_US;
    transfer_many(ENOUGH);
    transfer_many(ENOUGH);
    assert_true(the.gets > ENOUGH * 9 / 10);
}

static void
test_sleeping_peer_is_read(void **state)
{
    (void)state;
    the.can_get = TP_NET_GET_NOW;
    the.get_ns = 120 * TP_CLOCK_US;
    transfer_many(100);
    assert_int_equal(the.gets, 100);
}

static void
test_never(void **state)
{
    (void)state;
    the.can_get = TP_NET_GET_NEVER;
    transfer_many(100);
    assert_int_equal(the.writes, 100);
}

/* The peer's memory can no longer be read: the data is requested by CTS, or the
 * transfer fails. */
static void
test_get_fails(void **state)
{
    (void)state;
    the.can_get = TP_NET_GET_NOW;
    the.get_status = TELPHER_ERR_UNSUPPORTED;
    transfer_many(10);
    assert_int_equal(the.writes, 10);
    the.get_status = TELPHER_ERR_IO;
    transfer(0);
    assert_int_equal(the.writes, 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_faster_way_is_used, start, stop),
        cmocka_unit_test_setup_teardown(test_sleeping_peer_is_read, start, stop),
        cmocka_unit_test_setup_teardown(test_never, start, stop),
        cmocka_unit_test_setup_teardown(test_get_fails, start, stop),
    };

    return cmocka_run_group_tests_name("rndv", tests, NULL, NULL);
}
