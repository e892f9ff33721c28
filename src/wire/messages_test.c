/* SPDX-License-Identifier: Apache-2.0 */
/* Every message with every kind of value: there and back, cut short, too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/test/sample.h"

static struct tp_sample_room room;

/* Exactly size bytes, so that a sanitizer sees a read or write beyond. */
static uint8_t *
encode(const struct tp_wire_message *row, const void *m, size_t *ret_size)
{
    size_t size = row->size(m);
    uint8_t *body = malloc(size);

    assert_non_null(body);
    row->put(body, m);
    *ret_size = size;
    return body;
}

static void
check_round_trip(const struct tp_wire_message *row, enum tp_sample kind)
{
    _Alignas(16) uint8_t in[TP_WIRE_STRUCT_MAX] = {0}, out[TP_WIRE_STRUCT_MAX];
    size_t size, again_size;
    uint8_t *body, *again;

    tp_sample(row->type, kind, &room, in);
    body = encode(row, in, &size);
    assert_true(row->get(body, body + size, out));
    assert_true(tp_sample_equal(row->type, in, out));
    again = encode(row, out, &again_size);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, body, size);
    free(again);
    free(body);
}

static void
test_round_trip(void **state)
{
    const struct tp_wire_message *row;

    (void)state;
    for (size_t i = 0; (row = tp_wire_message_at(i)) != NULL; i++) {
        for (int kind = 0; kind < TP_SAMPLE_COUNT; kind++) {
            check_round_trip(row, (enum tp_sample)kind);
        }
    }
}

static void
check_cuts(const struct tp_wire_message *row, enum tp_sample kind)
{
    _Alignas(16) uint8_t in[TP_WIRE_STRUCT_MAX] = {0}, out[TP_WIRE_STRUCT_MAX];
    size_t size;
    uint8_t *body;

    tp_sample(row->type, kind, &room, in);
    body = encode(row, in, &size);
    for (size_t len = 0; len < size; len++) {
        uint8_t *cut = malloc(len != 0 ? len : 1);

        assert_non_null(cut);
        memcpy(cut, body, len);
        assert_false(row->get(cut, cut + len, out));
        free(cut);
    }
    free(body);
}

static void
test_every_truncation_is_refused(void **state)
{
    const struct tp_wire_message *row;

    (void)state;
    for (size_t i = 0; (row = tp_wire_message_at(i)) != NULL; i++) {
        check_cuts(row, TP_SAMPLE_ZERO);
        check_cuts(row, TP_SAMPLE_ONES);
        check_cuts(row, TP_SAMPLE_PATTERN);
    }
}

static void
test_over_long_is_refused(void **state)
{
    const struct tp_wire_message *row;

    (void)state;
    for (size_t i = 0; (row = tp_wire_message_at(i)) != NULL; i++) {
        _Alignas(16) uint8_t in[TP_WIRE_STRUCT_MAX] = {0}, out[TP_WIRE_STRUCT_MAX];
        uint8_t *body;
        size_t size;

        tp_sample(row->type, TP_SAMPLE_PATTERN, &room, in);
        size = row->size(in);
        body = calloc(1, size + 8);
        assert_non_null(body);
        row->put(body, in);
        for (size_t extra = 1; extra <= 8; extra++) {
            assert_false(row->get(body, body + size + extra, out));
        }
        free(body);
    }
}

static void
test_counts_beyond_the_body_are_refused(void **state)
{
    uint8_t release[2 + 8] = {2, 0}; /* says two ids, has one */
    uint8_t text[4 + 3] = {0xff, 0xff, 0xff, 0xff, 'a', 'b', 'c'};
    struct tp_wire_release r;
    struct tp_wire_printf p;

    (void)state;
    assert_false(tp_wire_get_release(release, release + sizeof(release), &r));
    assert_false(tp_wire_get_printf(text, text + sizeof(text), &p));
    text[0] = 3;
    text[1] = text[2] = text[3] = 0;
    assert_true(tp_wire_get_printf(text, text + sizeof(text), &p));
    assert_int_equal(p.text.len, 3);
    assert_memory_equal(p.text.data, "abc", 3);
}

static void
test_outputs_stay_on_failure(void **state)
{
    uint8_t body[1] = {0};
    struct tp_wire_start m = {.platform = 7};

    (void)state;
    assert_false(tp_wire_get_start(body, body + 1, &m));
    assert_int_equal(m.platform, 7);
}

static void
test_table(void **state)
{
    size_t count = 0;

    (void)state;
    for (uint32_t type = 0; type <= UINT16_MAX; type++) {
        const struct tp_wire_message *row = tp_wire_message((uint16_t)type);

        if (row != NULL) {
            assert_int_equal(row->type, type);
            count++;
        }
    }
    assert_non_null(tp_wire_message_at(count - 1));
    assert_null(tp_wire_message_at(count));
    assert_string_equal(tp_wire_message(TP_WIRE_LAUNCH)->name, "launch");
    assert_null(tp_wire_message(0));
    assert_null(tp_wire_message(0xff));
    assert_null(tp_wire_message(0x100 + TP_WIRE_LAUNCH));
}

static void
test_launch_is_small(void **state)
{
    uint64_t sizes[9] = {0, 0, 0, 64, 64, 64, 8, 8, 8};
    struct tp_wire_launch m = {.event = 1, .queue = 2, .kernel = 3, .dims = 3};

    (void)state;
    m.sizes = (struct tp_wire_u64s){.count = 9, .data = sizes};
    assert_true(TP_WIRE_HEADER_BYTES + tp_wire_size_launch(&m) <= TP_WIRE_LAUNCH_MAX);
}

static void
test_unaligned_arrays(void **state)
{
    uint8_t raw[17] = {0};
    struct tp_wire_u64s a = {.count = 2, .data = raw + 1};

    (void)state;
    raw[1] = 1;
    raw[9] = 2;
    raw[16] = 0x80;
    assert_int_equal(tp_wire_u64_at(&a, 0), 1);
    assert_true(tp_wire_u64_at(&a, 1) == 0x8000000000000002ULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_over_long_is_refused),
        cmocka_unit_test(test_counts_beyond_the_body_are_refused),
        cmocka_unit_test(test_outputs_stay_on_failure),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_launch_is_small),
        cmocka_unit_test(test_unaligned_arrays),
    };

    tp_sample_room_init(&room);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
