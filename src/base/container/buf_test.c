/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the byte buffer. */
#include "base/test_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/container/buf.h"
#include "base/trace/log.h"

static void
bytes_come_out_as_they_went_in(void **state)
{
    uint8_t in = 0;
    uint8_t out = 0;
    struct tp_buf buf;

    (void)state;
    tp_buf_init(&buf, 0);
    assert_int_equal(tp_buf_len(&buf), 0);
    assert_null(tp_buf_data(&buf));
    srand(1);
    for (int step = 0; step < 20000; step++) {
        size_t len = (size_t)rand() % 300;
        uint8_t *tail;

        assert_int_equal(tp_buf_reserve(&buf, len, &tail), TELPHER_OK);
        for (size_t i = 0; i < len; i++) {
            tail[i] = in++;
        }
        tp_buf_commit(&buf, len);
        len = (size_t)rand() % (tp_buf_len(&buf) + 1);
        for (size_t i = 0; i < len; i++) {
            assert_int_equal(tp_buf_data(&buf)[i], out++);
        }
        tp_buf_consume(&buf, len);
    }
    tp_buf_fini(&buf);
}

static void
limit_is_exact_and_leaves_the_contents(void **state)
{
    char bytes[600] = {0};
    struct tp_buf buf;
    uint8_t *tail;

    (void)state;
    tp_buf_init(&buf, 1000);
    assert_int_equal(tp_buf_append(&buf, bytes, sizeof(bytes)), TELPHER_OK);
    assert_int_equal(tp_buf_reserve(&buf, 401, &tail), TELPHER_ERR_LIMIT);
    assert_int_equal(tp_buf_reserve(&buf, SIZE_MAX, &tail), TELPHER_ERR_LIMIT);
    assert_int_equal(tp_buf_len(&buf), 600);
    assert_int_equal(tp_buf_reserve(&buf, 400, &tail), TELPHER_OK);
    tp_buf_commit(&buf, 400);
    tp_buf_consume(&buf, 1);
    assert_int_equal(tp_buf_append(&buf, "x", 1), TELPHER_OK);
    assert_int_equal(tp_buf_data(&buf)[999], 'x');
    tp_buf_fini(&buf);
}

static void
memory_stays_bounded_in_a_long_stream(void **state)
{
    char chunk[700] = {0};
    struct tp_buf buf;

    (void)state;
    tp_buf_init(&buf, 1000);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(tp_buf_append(&buf, chunk, sizeof(chunk)), TELPHER_OK);
        tp_buf_consume(&buf, i % 2 == 0 ? 500 : 900);
        assert_true(buf.capacity <= 2000);
    }
    tp_buf_fini(&buf);
}

static void
failure_to_grow_changes_nothing(void **state)
{
    struct tp_buf buf;
    uint8_t *tail;

    (void)state;
    tp_buf_init(&buf, 0);
    assert_int_equal(tp_buf_append(&buf, "abc", 3), TELPHER_OK);
    tp_alloc_fail_nth(1);
    assert_int_equal(tp_buf_reserve(&buf, 100000, &tail), TELPHER_ERR_NO_MEMORY);
    assert_int_equal(tp_buf_len(&buf), 3);
    assert_memory_equal(tp_buf_data(&buf), "abc", 3);
    tp_buf_consume(&buf, 3);
    tp_buf_trim(&buf, 16);
    assert_int_equal(buf.capacity, 0);
    tp_buf_fini(&buf);
}

static void
room_in_front_is_always_there(void **state)
{
    enum { FRONT = 32, STEPS = 500 };
    struct tp_buf buf;

    (void)state;
    tp_buf_init_front(&buf, 0, FRONT);
    for (unsigned i = 0; i < STEPS; i++) {
        uint8_t piece[100];

        memset(piece, (int)i, sizeof(piece));
        assert_int_equal(tp_buf_append(&buf, piece, sizeof(piece)), TELPHER_OK);
        memset(tp_buf_data(&buf) - FRONT, 0xff, FRONT);
        assert_int_equal(tp_buf_len(&buf), sizeof(piece) * (i % 2 + 1));
        assert_int_equal(tp_buf_data(&buf)[0], (uint8_t)(i - i % 2));
        if (i % 2 != 0) {
            tp_buf_consume(&buf, sizeof(piece));
            assert_int_equal(tp_buf_data(&buf)[0], (uint8_t)i);
            if (i % 3 == 0) {
                tp_buf_clear(&buf);
            } else {
                tp_buf_consume(&buf, sizeof(piece));
            }
        }
        if (i % 50 == 49) {
            tp_buf_trim(&buf, 0);
        }
    }
    tp_buf_fini(&buf);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_out_as_they_went_in),
        cmocka_unit_test(limit_is_exact_and_leaves_the_contents),
        cmocka_unit_test(memory_stays_bounded_in_a_long_stream),
        cmocka_unit_test(failure_to_grow_changes_nothing),
        cmocka_unit_test(room_in_front_is_always_there),
    };

    tp_log_configure("none", NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
