/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the validation of launch headers, and the merge of many workers' results
 * into one report. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "offload/message.h"

enum { RECORDS = 96 };

static const struct tp_offload_header good = {
    .first = 5, .last = 5, .root = 70000, .total = RECORDS, .len = RECORDS};

/* Writes @p h, reads it again, and gives what was read. */
static telpher_status
write_and_read(const struct tp_offload_header *h, struct tp_offload_header *ret_read)
{
    uint8_t message[TP_OFFLOAD_HEADER_MAX + RECORDS] = {0};
    uint32_t bytes = tp_offload_header_put(h, message);

    assert_int_equal(bytes, tp_offload_header_put(h, NULL));
    return tp_offload_header_check(message, bytes + h->len, ret_read);
}

static void
check_same(const struct tp_offload_header *h)
{
    struct tp_offload_header read;

    assert_int_equal(write_and_read(h, &read), TELPHER_OK);
    assert_int_equal(read.flags, h->flags);
    assert_int_equal(read.root, h->root);
    assert_int_equal(read.first, h->first);
    assert_int_equal(read.last, h->last);
    assert_int_equal(read.total, h->total);
    assert_int_equal(read.offset, h->offset);
    assert_int_equal(read.len, h->len);
}

static void
headers_that_make_sense_pass(void **state)
{
    struct tp_offload_header h = good;

    (void)state;
    check_same(&h);
    h.flags = TP_OFFLOAD_REPORT | TP_OFFLOAD_MORE;
    check_same(&h);
    h.flags = 0;
    h.last = h.first + TP_OFFLOAD_CALLS_MAX;
    check_same(&h);
    h.total = 1000;
    h.offset = 1000 - RECORDS;
    check_same(&h);
    h.offset = 0;
    check_same(&h);
    h.total = h.len = 0; /* a call that was refused */
    check_same(&h);
}

/* A header with one byte changed. */
static telpher_status
spoilt(const struct tp_offload_header *h, size_t at, uint8_t byte)
{
    uint8_t message[TP_OFFLOAD_HEADER_MAX + RECORDS] = {0};
    uint32_t bytes = tp_offload_header_put(h, message);
    struct tp_offload_header read;

    message[at] = byte;
    return tp_offload_header_check(message, bytes + h->len, &read);
}

static void
others_are_refused(void **state)
{
    struct tp_offload_header piece = good, bad, read;
    uint8_t message[TP_OFFLOAD_HEADER_MAX + RECORDS] = {0};
    uint32_t bytes;

    (void)state;
    piece.total = 2 * RECORDS;
    assert_int_equal(spoilt(&good, 0, 0), TELPHER_ERR_PROTO);
    assert_int_equal(spoilt(&good, 1, 128), TELPHER_ERR_PROTO);
    bad = good;
    bad.flags = TP_OFFLOAD_MORE; /* of one call only, and no piece */
    bad.last = 6;
    assert_int_equal(write_and_read(&bad, &read), TELPHER_ERR_PROTO);
    bad = piece;
    bad.flags = TP_OFFLOAD_MORE;
    assert_int_equal(write_and_read(&bad, &read), TELPHER_ERR_PROTO);
    bad = piece;
    bad.offset = RECORDS + 1;
    assert_int_equal(write_and_read(&bad, &read), TELPHER_ERR_PROTO);
    bad = piece;
    bad.total = RECORDS - 1;
    assert_int_equal(write_and_read(&bad, &read), TELPHER_ERR_PROTO);
    bad = good;
    bad.first = bad.last = UINT64_MAX;
    bad.last++; /* by one call */
    assert_int_equal(write_and_read(&bad, &read), TELPHER_ERR_PROTO);
    bytes = tp_offload_header_put(&piece, message);
    for (uint32_t cut = 0; cut <= bytes; cut++) {
        assert_int_equal(tp_offload_header_check(message, cut, &read),
                         TELPHER_ERR_PROTO);
    }
    assert_int_equal(
        tp_offload_header_check(message, TP_OFFLOAD_MESSAGE_MAX + 1, &read),
        TELPHER_ERR_PROTO);
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

/* A report without text is accepted; an empty one is a protocol error. */
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

/* The greeting is the same in all versions, so that each version can refuse the other. */
static void
other_versions_are_refused(void **state)
{
    struct tp_offload_greeting greeting;
    struct tp_error err = {0};

    (void)state;
    tp_offload_greeting_init(&greeting);
    assert_int_equal(tp_offload_greeting_check(&greeting, &err), TELPHER_OK);
    for (uint16_t version = 0; version < 8; version++) {
        if (version != 2) {
            greeting.version = version;
            assert_int_equal(tp_offload_greeting_check(&greeting, &err),
                             TELPHER_ERR_VERSION);
            assert_non_null(strstr(err.text, "version"));
        }
    }
    greeting.version = 2;
    greeting.magic++;
    assert_int_equal(tp_offload_greeting_check(&greeting, &err), TELPHER_ERR_PROTO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_that_make_sense_pass),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(results_become_one_report),
        cmocka_unit_test(short_reports_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
