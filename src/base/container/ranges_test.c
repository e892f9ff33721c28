/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of ranges, against one value for each byte. */
#include "base/test_int.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/container/ranges.h"
#include "base/trace/log.h"

enum { BYTES = 300, CHANGES = 3000, RUNS = 10000 };

static uint32_t state_of_any = 1;

static uint32_t
any(uint32_t below)
{
    state_of_any = state_of_any * 1664525U + 1013904223U;
    return (state_of_any >> 8) % below;
}

/* Compares all runs with the model; neighbours must differ. */
static void
check(const struct tp_ranges *r, const uint64_t *model)
{
    uint64_t at = 0, end, last = 0;

    while (at < BYTES) {
        uint64_t value = tp_ranges_at(r, at, &end);

        assert_true(end > at && end <= BYTES);
        assert_true(at == 0 || value != last);
        for (uint64_t i = at; i < end; i++) {
            assert_int_equal(value, model[i]);
        }
        last = value;
        at = end;
    }
}

static void
random_changes(void **state)
{
    uint64_t model[BYTES];
    struct tp_ranges r;

    (void)state;
    assert_int_equal(tp_ranges_init(&r, BYTES, 1), TELPHER_OK);
    for (int i = 0; i < BYTES; i++) {
        model[i] = 1;
    }
    for (int change = 0; change < CHANGES; change++) {
        uint64_t from = any(BYTES), to = from + 1 + any((uint32_t)(BYTES - from));
        uint64_t keep = any(2) != 0 ? UINT64_MAX : any(4), add = any(4);

        assert_int_equal(tp_ranges_reserve(&r, 1), TELPHER_OK);
        tp_ranges_change(&r, from, to, keep, add);
        for (uint64_t i = from; i < to; i++) {
            model[i] = (model[i] & keep) | add;
        }
        check(&r, model);
    }
    tp_ranges_fini(&r);
    tp_ranges_fini(&r);
}

static void
whole_and_bits(void **state)
{
    struct tp_ranges r;
    uint64_t end;

    (void)state;
    assert_int_equal(tp_ranges_init(&r, 100, 2), TELPHER_OK);
    assert_int_equal(tp_ranges_reserve(&r, 2), TELPHER_OK);
    tp_ranges_change(&r, 10, 20, 0, 4);
    assert_true(tp_ranges_have(&r, 4));
    assert_false(tp_ranges_have(&r, 8));
    assert_int_equal(tp_ranges_at(&r, 19, &end), 4);
    assert_int_equal(end, 20);
    tp_ranges_change(&r, 0, 100, 0, 2);
    assert_false(tp_ranges_have(&r, 4));
    assert_int_equal(tp_ranges_at(&r, 0, &end), 2);
    assert_int_equal(end, 100);
    tp_ranges_fini(&r);
}

/* Every second byte of 20,000: what a command finds and changes among 10,000 runs. */
static void
many_runs(void **state)
{
    struct tp_ranges r;
    unsigned grown = 0;
    uint64_t end;

    (void)state;
    assert_int_equal(tp_ranges_init(&r, 2 * RUNS, 1), TELPHER_OK);
    for (uint64_t i = 0; i < RUNS; i++) {
        size_t room = r.room;

        assert_int_equal(tp_ranges_reserve(&r, 1), TELPHER_OK);
        grown += r.room != room;
        tp_ranges_change(&r, 2 * ((i * 7919) % RUNS), 2 * ((i * 7919) % RUNS) + 1, 0,
                         2);
    }
    assert_int_equal(r.count, 2 * RUNS);
    for (uint64_t i = 0; i < RUNS; i++) {
        assert_int_equal(tp_ranges_at(&r, 2 * i, &end), 2);
        assert_int_equal(end, 2 * i + 1);
    }
    assert_in_range(grown, 1, 16); /* the array doubles, or each run would copy all */
    tp_ranges_change(&r, 0, 2 * RUNS, 0, 1);
    assert_int_equal(r.count, 1);
    tp_ranges_fini(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes),
        cmocka_unit_test(whole_and_bits),
        cmocka_unit_test(many_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
