/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and acknowledgements: in order, gaps, duplicates, stale and impossible acks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/session/session.h"
#include "waist/address.h"

static void
test_numbers_from_one(void **state)
{
    struct tp_session_numbers n = {0};
    uint64_t ack = 99;

    (void)state;
    assert_int_equal(tp_session_next(&n, &ack), 1);
    assert_int_equal(ack, 0);
    assert_int_equal(tp_session_next(&n, &ack), 2);
    assert_int_equal(n.sent, 2);
}

static void
test_in_order(void **state)
{
    struct tp_session_numbers n = {0};
    uint64_t ack;

    (void)state;
    for (uint64_t seq = 1; seq <= 5; seq++) {
        assert_int_equal(tp_session_accept(&n, seq, 0), TP_SESSION_ACCEPT);
    }
    assert_int_equal(tp_session_unacked(&n), 5);
    tp_session_next(&n, &ack);
    assert_int_equal(ack, 5);
    assert_int_equal(tp_session_unacked(&n), 0);
}

static void
test_gaps(void **state)
{
    struct tp_session_numbers n = {.received = 7};

    (void)state;
    assert_int_equal(tp_session_accept(&n, 9, 0), TP_SESSION_GAP);
    assert_int_equal(tp_session_accept(&n, UINT64_MAX, 0), TP_SESSION_GAP);
    assert_int_equal(tp_session_accept(&n, 0, 0), TP_SESSION_GAP);
    assert_int_equal(n.received, 7);
    assert_int_equal(tp_session_accept(&n, 8, 0), TP_SESSION_ACCEPT);
}

static void
test_first_frame_must_be_one(void **state)
{
    struct tp_session_numbers n = {0};

    (void)state;
    assert_int_equal(tp_session_accept(&n, 0, 0), TP_SESSION_GAP);
    assert_int_equal(tp_session_accept(&n, 2, 0), TP_SESSION_GAP);
    assert_int_equal(tp_session_accept(&n, 1, 0), TP_SESSION_ACCEPT);
}

static void
test_duplicates_keep_their_ack(void **state)
{
    struct tp_session_numbers n = {.sent = 10, .received = 7, .acked = 2};

    (void)state;
    assert_int_equal(tp_session_accept(&n, 7, 3), TP_SESSION_DUPLICATE);
    assert_int_equal(tp_session_accept(&n, 1, 4), TP_SESSION_DUPLICATE);
    assert_int_equal(n.received, 7);
    assert_int_equal(n.acked, 4);
}

static void
test_stale_ack_changes_nothing(void **state)
{
    struct tp_session_numbers n = {.sent = 10, .acked = 6};

    (void)state;
    assert_int_equal(tp_session_accept(&n, 1, 5), TP_SESSION_ACCEPT);
    assert_int_equal(n.acked, 6);
    assert_int_equal(tp_session_accept(&n, 2, 0), TP_SESSION_ACCEPT);
    assert_int_equal(n.acked, 6);
    assert_int_equal(tp_session_accept(&n, 3, 10), TP_SESSION_ACCEPT);
    assert_int_equal(n.acked, 10);
}

static void
test_impossible_ack_breaks(void **state)
{
    struct tp_session_numbers n = {.sent = 10, .acked = 6};

    (void)state;
    assert_int_equal(tp_session_accept(&n, 1, 11), TP_SESSION_BAD_ACK);
    assert_int_equal(tp_session_accept(&n, 1, UINT64_MAX), TP_SESSION_BAD_ACK);
    assert_int_equal(n.acked, 6);
    assert_int_equal(n.received, 0);
}

static void
test_end_of_the_numbers(void **state)
{
    struct tp_session_numbers n = {.received = UINT64_MAX - 1};

    (void)state;
    assert_int_equal(tp_session_accept(&n, UINT64_MAX, 0), TP_SESSION_ACCEPT);
    assert_int_equal(tp_session_accept(&n, UINT64_MAX, 0), TP_SESSION_DUPLICATE);
    assert_int_equal(tp_session_accept(&n, 0, 0), TP_SESSION_GAP);
}

static void
test_route(void **state)
{
    char gateway[TP_ADDRESS_HOP_BYTES];

    (void)state;
    assert_string_equal(tp_address_route("g:1/i:2", gateway), "i:2");
    assert_string_equal(gateway, "g:1");
    assert_string_equal(tp_address_route("tls://g/tcp://i/j", gateway), "tcp://i/j");
    assert_string_equal(gateway, "tls://g");
    assert_null(tp_address_route("tcp://i", gateway));
    assert_null(tp_address_route("/run/x/y", gateway));
    assert_null(tp_address_route("unix:/run/x", gateway));
    assert_string_equal(tp_address_seen_from("g", "g/i"), "i");
    assert_string_equal(tp_address_seen_from("g/h", "g/i"), "i");
    assert_string_equal(tp_address_seen_from("g/h", "g/h/i"), "i");
    assert_string_equal(tp_address_seen_from("a", "g/i"), "g/i");
    assert_string_equal(tp_address_seen_from("g/i", "g"), "g");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_from_one),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_route),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_first_frame_must_be_one),
        cmocka_unit_test(test_duplicates_keep_their_ack),
        cmocka_unit_test(test_stale_ack_changes_nothing),
        cmocka_unit_test(test_impossible_ack_breaks),
        cmocka_unit_test(test_end_of_the_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
