/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the map and the list, the map against a plain array. */
#include "base/test_int.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/container/list.h"
#include "base/container/map.h"
#include "base/trace/log.h"

static char things[4096];

static void
put_get_remove(void **state)
{
    struct tp_map map;

    (void)state;
    tp_map_init(&map);
    assert_null(tp_map_get(&map, 0));
    assert_null(tp_map_remove(&map, 0));
    assert_int_equal(tp_map_put(&map, 0, &things[0]), TELPHER_OK);
    assert_int_equal(tp_map_put(&map, UINT64_MAX, &things[1]), TELPHER_OK);
    assert_int_equal(tp_map_put(&map, 0, &things[2]), TELPHER_ERR_EXISTS);
    assert_ptr_equal(tp_map_get(&map, 0), &things[0]);
    assert_ptr_equal(tp_map_get(&map, UINT64_MAX), &things[1]);
    assert_int_equal(tp_map_count(&map), 2);
    assert_ptr_equal(tp_map_remove(&map, 0), &things[0]);
    assert_null(tp_map_get(&map, 0));
    assert_int_equal(tp_map_count(&map), 1);
    tp_map_fini(&map);
}

/* Keys as ours are: a kind in the top byte, a counter below. */
static uint64_t
key_of(unsigned i)
{
    return ((uint64_t)(i % 7) << 56) | i;
}

static void
agrees_with_an_array_over_many_random_steps(void **state)
{
    bool present[sizeof(things)] = {false};
    struct tp_map map = {0};
    size_t count = 0;

    (void)state;
    srand(1);
    for (int step = 0; step < 200000; step++) {
        unsigned i = (unsigned)rand() % sizeof(things);

        if (rand() % 2 != 0) {
            assert_int_equal(tp_map_put(&map, key_of(i), &things[i]),
                             present[i] ? TELPHER_ERR_EXISTS : TELPHER_OK);
            count += !present[i];
            present[i] = true;
        } else {
            assert_ptr_equal(tp_map_remove(&map, key_of(i)),
                             present[i] ? &things[i] : NULL);
            count -= present[i];
            present[i] = false;
        }
        assert_int_equal(tp_map_count(&map), count);
    }
    for (unsigned i = 0; i < sizeof(things); i++) {
        assert_ptr_equal(tp_map_get(&map, key_of(i)), present[i] ? &things[i] : NULL);
    }
    assert_true(map.capacity <= 4 * sizeof(things));
    tp_map_fini(&map);
}

static void
keys_may_go_while_walking(void **state)
{
    struct tp_map map = {0};
    size_t cursor = 0;
    size_t seen = 0;
    uint64_t key;
    void *value;

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(tp_map_put(&map, key_of(i), &things[i]), TELPHER_OK);
    }
    while (tp_map_next(&map, &cursor, &key, &value)) {
        assert_ptr_equal(tp_map_remove(&map, key), value);
        seen++;
    }
    assert_int_equal(seen, 1000);
    assert_int_equal(tp_map_count(&map), 0);
    tp_map_fini(&map);
}

static void
reserved_room_needs_no_memory(void **state)
{
    struct tp_map map = {0};

    (void)state;
    assert_int_equal(tp_map_reserve(&map, 500), TELPHER_OK);
    tp_alloc_fail_nth(1);
    for (unsigned i = 0; i < 500; i++) {
        assert_int_equal(tp_map_put(&map, key_of(i), &things[i]), TELPHER_OK);
    }
    assert_false(tp_alloc_failed());
    tp_alloc_fail_nth(0);
    tp_map_fini(&map);
}

static void
failed_growth_keeps_everything(void **state)
{
    struct tp_map map = {0};
    unsigned i = 0;

    (void)state;
    assert_int_equal(tp_map_reserve(&map, SIZE_MAX), TELPHER_ERR_NO_MEMORY);
    assert_int_equal(tp_map_put(&map, key_of(i), &things[i]), TELPHER_OK);
    tp_alloc_fail_nth(1);
    do {
        i++;
    } while (tp_map_put(&map, key_of(i), &things[i]) == TELPHER_OK);
    assert_true(tp_alloc_failed());
    assert_int_equal(tp_map_count(&map), i);
    assert_ptr_equal(tp_map_get(&map, key_of(0)), &things[0]);
    assert_int_equal(tp_map_put(&map, key_of(i), &things[i]), TELPHER_OK);
    tp_map_fini(&map);
}

struct item {
    int number;
    struct tp_list link;
};

static void
list_keeps_order(void **state)
{
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    struct tp_list head;
    struct tp_list other;
    int wanted = 0;

    (void)state;
    tp_list_init(&head);
    tp_list_init(&other);
    assert_null(tp_list_pop_front(&head));
    tp_list_push_back(&head, &items[1].link);
    tp_list_push_front(&head, &items[0].link);
    tp_list_push_back(&other, &items[2].link);
    tp_list_push_back(&other, &items[3].link);
    tp_list_splice_back(&head, &other);
    tp_list_splice_back(&head, &other);
    assert_true(tp_list_is_empty(&other));
    assert_int_equal(tp_list_count(&head), 4);
    assert_ptr_equal(tp_list_last(&head), &items[3].link);
    tp_list_for_each_safe(link, &head) {
        assert_int_equal(tp_list_entry(link, struct item, link)->number, wanted++);
        tp_list_remove(link);
        assert_false(tp_list_is_linked(link));
    }
    assert_int_equal(wanted, 4);
    tp_list_remove(&items[0].link); /* harmless when in no list */
    assert_true(tp_list_is_empty(&head));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_get_remove),
        cmocka_unit_test(agrees_with_an_array_over_many_random_steps),
        cmocka_unit_test(keys_may_go_while_walking),
        cmocka_unit_test(reserved_room_needs_no_memory),
        cmocka_unit_test(failed_growth_keeps_everything),
        cmocka_unit_test(list_keeps_order),
    };

    tp_log_configure("none", NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
