/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-devices over the protocol alone: what a client may ask, and what one that means harm
 * may try. Skipped where telpherd finds no device that can be partitioned.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/test/test_session.h"

static struct test_daemon the_daemon;

/* @return status of the reply */
static int32_t
partition(struct test_session *s, uint32_t device, uint32_t first, uint32_t room,
          const struct tp_wire_u64s *properties,
          struct tp_wire_sub_devices_reply *ret_reply)
{
    struct tp_wire_sub_devices m = {.request = test_id(s, TP_WIRE_KIND_REQUEST),
                                    .device = device,
                                    .first = first,
                                    .room = room,
                                    .properties = *properties};

    test_put(s, TP_WIRE_SUB_DEVICES, &m);
    test_expect(s, TP_WIRE_SUB_DEVICES_REPLY, ret_reply);
    assert_int_equal(ret_reply->request, m.request);
    return ret_reply->status;
}

static const struct tp_wire_u64s equally_1 = TEST_IDS(CL_DEVICE_PARTITION_EQUALLY, 1);

static void
make_context(struct test_session *s, uint64_t device)
{
    struct tp_wire_context_create m = {.devices = TEST_IDS(device)};
    struct tp_wire_queue_create q = {.device = (uint32_t)device};
    struct tp_wire_marker marker = {.flags = TP_WIRE_NOTIFY};

    m.context = q.context = test_id(s, TP_WIRE_KIND_CONTEXT);
    test_put(s, TP_WIRE_CONTEXT_CREATE, &m);
    q.queue = marker.queue = test_id(s, TP_WIRE_KIND_QUEUE);
    test_put(s, TP_WIRE_QUEUE_CREATE, &q);
    marker.event = test_id(s, TP_WIRE_KIND_EVENT);
    test_put(s, TP_WIRE_MARKER, &marker);
}

static void
test_parts(void **state)
{
    const uint32_t first = TP_WIRE_SUB_DEVICE_FIRST;
    struct test_session s;
    struct tp_wire_sub_devices_reply r;
    struct tp_wire_release release = {
        .ids = TEST_IDS(tp_wire_id(TP_WIRE_KIND_DEVICE, first))};
    struct tp_wire_done done;
    struct tp_wire_fact f;
    const uint8_t *src;
    cl_uint units = 0;

    (void)state;
    test_session_open(&s, &the_daemon);
    test_session_start(&s);
    assert_int_equal(partition(&s, 0, first, 0, &equally_1, &r), 0);
    assert_true(r.count >= 2);
    assert_int_equal(r.facts.len, 0);
    assert_int_equal(partition(&s, 0, first, 1, &equally_1, &r), CL_INVALID_VALUE);
    assert_int_equal(partition(&s, 0, first, TP_WIRE_SUB_DEVICES_MAX, &equally_1, &r),
                     0);
    src = r.facts.data;
    while (tp_wire_get_fact(&src, (const uint8_t *)r.facts.data + r.facts.len, &f)) {
        assert_int_equal(f.kind, TP_WIRE_FACT_DEVICE);
        assert_true(f.index >= first && f.index < first + r.count);
        if (f.param == CL_DEVICE_MAX_COMPUTE_UNITS && f.index == first) {
            memcpy(&units, f.data, sizeof(units));
        }
    }
    assert_int_equal(units, 1);
    make_context(&s, first);
    test_put(&s, TP_WIRE_RELEASE, &release); /* the context goes on */
    test_expect(&s, TP_WIRE_DONE, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    make_context(&s, first); /* gone */
    test_expect(&s, TP_WIRE_DONE, &done);
    assert_int_equal(done.status, CL_INVALID_DEVICE);
    make_context(&s, first + 1);
    test_expect(&s, TP_WIRE_DONE, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
}

static void
test_nonsense_is_refused(void **state)
{
    const struct {
        struct tp_wire_u64s list;
        int32_t error;
    } bad[] = {
        {{0, NULL}, CL_INVALID_VALUE},
        {TEST_IDS(CL_DEVICE_PARTITION_EQUALLY), CL_INVALID_VALUE},
        {TEST_IDS(CL_DEVICE_PARTITION_EQUALLY, 0), CL_INVALID_VALUE},
        {TEST_IDS(CL_DEVICE_PARTITION_EQUALLY, 1, 1), CL_INVALID_VALUE},
        {TEST_IDS(CL_DEVICE_PARTITION_EQUALLY, UINT64_MAX), CL_INVALID_VALUE},
        {TEST_IDS(CL_DEVICE_PARTITION_EQUALLY, 1ULL << 32 | 1), CL_INVALID_VALUE},
        {TEST_IDS(CL_DEVICE_PARTITION_BY_COUNTS, 1, 0, 1),
         CL_INVALID_DEVICE_PARTITION_COUNT},
        {TEST_IDS(CL_DEVICE_PARTITION_BY_COUNTS, 1, UINT64_MAX),
         CL_INVALID_DEVICE_PARTITION_COUNT},
        {TEST_IDS(CL_DEVICE_PARTITION_BY_COUNTS, 1000000),
         CL_INVALID_DEVICE_PARTITION_COUNT},
        {TEST_IDS(0x4050, 1), CL_INVALID_VALUE},
    };
    static uint64_t many[65535];
    const struct tp_wire_u64s crowd = {65535, many};
    struct tp_wire_sub_devices_reply r;
    struct test_session s;

    (void)state;
    test_session_open(&s, &the_daemon);
    test_session_start(&s);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(
            partition(&s, 0, TP_WIRE_SUB_DEVICE_FIRST, 10, &bad[i].list, &r),
            bad[i].error);
    }
    many[0] = CL_DEVICE_PARTITION_BY_COUNTS;
    for (size_t i = 1; i < 65535; i++) {
        many[i] = 1;
    }
    assert_int_equal(partition(&s, 0, TP_WIRE_SUB_DEVICE_FIRST, 10, &crowd, &r),
                     CL_INVALID_DEVICE_PARTITION_COUNT);
    assert_int_equal(
        partition(&s, 4000000000u, TP_WIRE_SUB_DEVICE_FIRST, 10, &equally_1, &r),
        CL_INVALID_DEVICE);
    assert_int_equal(partition(&s, 0, TP_WIRE_SUB_DEVICE_FIRST, TP_WIRE_SUB_DEVICES_MAX,
                               &equally_1, &r),
                     0);
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
}

/* Numbers of the server's devices, behind the last one, used twice; too much room. */
static void
test_bad_numbers_end_the_session(void **state)
{
    static const struct {
        uint32_t first, room;
        unsigned times;
    } bad[] = {
        {0, 10, 1},
        {TP_WIRE_SUB_DEVICE_FIRST - 1, 10, 1},
        {UINT32_MAX - 5, 10, 1},
        {TP_WIRE_SUB_DEVICE_FIRST, TP_WIRE_SUB_DEVICES_MAX + 1, 1},
        {TP_WIRE_SUB_DEVICE_FIRST, UINT32_MAX, 1},
        {TP_WIRE_SUB_DEVICE_FIRST, TP_WIRE_SUB_DEVICES_MAX, 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct test_session s;

        test_session_open(&s, &the_daemon);
        test_session_start(&s);
        for (unsigned k = 0; k < bad[i].times; k++) {
            struct tp_wire_sub_devices m = {.request =
                                                test_id(&s, TP_WIRE_KIND_REQUEST),
                                            .first = bad[i].first,
                                            .room = bad[i].room,
                                            .properties = equally_1};

            test_put(&s, TP_WIRE_SUB_DEVICES, &m);
        }
        test_flush(&s);
        assert_int_not_equal(test_expect_end(&s), TELPHER_OK);
        test_session_close(&s);
        test_daemon_wait_children(&the_daemon, 0);
    }
}

/* Device 0 of the server can be cut into two. */
static bool
is_divisible(const struct tp_wire_fact *f)
{
    uint64_t most = 0;

    if (f->kind == TP_WIRE_FACT_DEVICE && f->index == 0 &&
        f->param == CL_DEVICE_PARTITION_MAX_SUB_DEVICES && f->len <= sizeof(most)) {
        memcpy(&most, f->data, f->len);
    }
    return most >= 2;
}

static int
start_daemon(void **state)
{
    *state = &the_daemon;
    test_daemon_start(&the_daemon, NULL);
    test_daemon_need(&the_daemon, is_divisible, "a device that can be partitioned");
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_bad_numbers_end_the_session),
    };

    return cmocka_run_group_tests(tests, start_daemon, test_daemon_teardown);
}
