/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of launches are checked, and results of many workers become one report. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "offload/message.h"

enum { RECORDS = 96 };

static telpher_status
check(const struct tp_offload_header *h, uint64_t len)
{
    uint8_t message[sizeof(*h) + RECORDS] = {0};
    struct tp_offload_header seen;

    memcpy(message, h, sizeof(*h));
    return tp_offload_header_check(message, len, &seen);
}

static const struct tp_offload_header good = {
    .magic = TP_OFFLOAD_MAGIC, .first = 5, .last = 5, .total = RECORDS, .len = RECORDS};

static void
headers_that_make_sense_pass(void **state)
{
    struct tp_offload_header h = good;

    (void)state;
    assert_int_equal(check(&h, sizeof(h) + RECORDS), TELPHER_OK);
    h.flags = TP_OFFLOAD_REPORT | TP_OFFLOAD_MORE;
    assert_int_equal(check(&h, sizeof(h) + RECORDS), TELPHER_OK);
    h.flags = 0;
    h.last = 9;
    assert_int_equal(check(&h, sizeof(h) + RECORDS), TELPHER_OK);
    h = good;
    h.total = 1000;
    h.offset = 1000 - RECORDS;
    assert_int_equal(check(&h, sizeof(h) + RECORDS), TELPHER_OK);
}

static void
others_are_refused(void **state)
{
    struct tp_offload_header bad[8];

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        bad[i] = good;
    }
    bad[0].magic++;
    bad[1].first = 6;
    bad[2].flags = 64;
    bad[3].len--;
    bad[4].offset = 16;
    bad[5].total = RECORDS - 1;
    bad[6].flags = TP_OFFLOAD_MORE; /* a piece is no whole records */
    bad[6].total = 2 * RECORDS;
    bad[7].flags = TP_OFFLOAD_MORE; /* of one call only */
    bad[7].last = 6;
    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        assert_int_equal(check(&bad[i], sizeof(good) + RECORDS), TELPHER_ERR_PROTO);
    }
    assert_int_equal(check(&good, sizeof(good) - 1), TELPHER_ERR_PROTO);
    assert_int_equal(check(&good, sizeof(good) + RECORDS - 1), TELPHER_ERR_PROTO);
}

/* The highest result, of the first worker that had it, with that one's words. */
static void
results_become_one_report(void **state)
{
    struct tp_offload_report all, one;

    (void)state;
    tp_offload_report_init(&all);
    tp_offload_report_note(&all, 0, 3, 7, "");
    assert_int_equal(all.result, 0);
    assert_int_equal(tp_offload_report_len(&all), TP_OFFLOAD_REPORT_SHORT);
    tp_offload_report_note(&all, 4, 3, 8, "words of 3");
    tp_offload_report_note(&all, 2, 3, 9, "lower");
    assert_int_equal(all.failed, 2);
    assert_string_equal(all.text, "words of 3");
    assert_int_equal(tp_offload_report_len(&all), sizeof(all));

    tp_offload_report_init(&one);
    tp_offload_report_note(&one, 4, 1, 8, "");
    tp_offload_report_merge(&all, &one);
    assert_int_equal(all.rank, 1);
    assert_string_equal(all.text, "");
    tp_offload_report_init(&one);
    tp_offload_report_note(&one, 5, 2, 6, "highest");
    tp_offload_report_merge(&all, &one);
    assert_int_equal(all.result, 5);
    assert_int_equal(all.rank, 2);
    assert_int_equal(all.kernel, 6);
    assert_int_equal(all.failed, 4);
    assert_string_equal(all.text, "highest");
}

/* What is received may lack the text, or be nothing at all. */
static void
short_reports_are_read(void **state)
{
    struct tp_offload_report sent, heard;

    (void)state;
    tp_offload_report_init(&sent);
    memset(&heard, 'x', sizeof(heard));
    tp_offload_report_clear(&heard);
    memcpy(&heard, &sent, (size_t)tp_offload_report_len(&sent));
    assert_int_equal(tp_offload_report_check(&heard), TELPHER_OK);
    assert_string_equal(heard.text, "");
    tp_offload_report_clear(&heard);
    assert_int_equal(tp_offload_report_check(&heard), TELPHER_ERR_PROTO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_that_make_sense_pass),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(results_become_one_report),
        cmocka_unit_test(short_reports_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
