/* SPDX-License-Identifier: Apache-2.0 */
/* Tests handles, reference counts and answers to queries. */
#include "icd/icd.h"
#include "icd/objects/object.h"
#include "icd/world_test.h"

static int destroyed;

static void
count_destroyed(struct tp_icd_object *obj)
{
    assert_int_equal(obj->kind, TP_ICD_DEAD);
    destroyed++;
}

static void
wrong_handles_are_errors(void **state)
{
    struct tp_icd_object obj;
    char bytes[64] = {0};

    (void)state;
    tp_icd_object_init(&obj, TP_ICD_EVENT, 7, count_destroyed);
    assert_ptr_equal(tp_icd_check(&obj, TP_ICD_EVENT), &obj);
    assert_null(tp_icd_check(&obj, TP_ICD_QUEUE));
    assert_null(tp_icd_check(NULL, TP_ICD_EVENT));
    assert_null(tp_icd_check(bytes, TP_ICD_EVENT));
    assert_null(tp_icd_check((const char *)&obj + 1, TP_ICD_EVENT));
    assert_ptr_equal(obj.dispatch, tp_icd.dispatch);
}

static void
destroyed_once_when_nobody_needs_it(void **state)
{
    struct tp_icd_object obj;

    (void)state;
    destroyed = 0;
    tp_icd_object_init(&obj, TP_ICD_KERNEL, 0, count_destroyed);
    tp_icd_retain(&obj);
    tp_icd_hold(&obj);
    tp_icd_release(&obj);
    tp_icd_release(&obj);
    assert_int_equal(destroyed, 0);
    assert_int_equal(obj.refs, 0);
    assert_ptr_equal(tp_icd_check(&obj, TP_ICD_KERNEL), &obj); /* still held */
    tp_icd_release(&obj); /* one too many changes nothing */
    assert_int_equal(destroyed, 0);
    tp_icd_drop(&obj);
    assert_int_equal(destroyed, 1);
    assert_null(tp_icd_check(&obj, TP_ICD_KERNEL));
    tp_icd_drop(NULL);
}

static void
retained_again_while_held(void **state)
{
    struct tp_icd_object obj;

    (void)state;
    destroyed = 0;
    tp_icd_object_init(&obj, TP_ICD_CONTEXT, 0, count_destroyed);
    tp_icd_hold(&obj);
    tp_icd_release(&obj);
    tp_icd_retain(&obj);
    tp_icd_drop(&obj);
    assert_int_equal(destroyed, 0);
    tp_icd_release(&obj);
    assert_int_equal(destroyed, 1);
}

static void
dropped_under_the_lock_dies_after_it(void **state)
{
    struct tp_icd_object a, b;

    (void)state;
    destroyed = 0;
    tp_icd_object_init(&a, TP_ICD_EVENT, 0, count_destroyed);
    tp_icd_object_init(&b, TP_ICD_EVENT, 0, count_destroyed);
    tp_icd_lock();
    tp_icd_drop_locked(&a);
    tp_icd_drop_locked(&b);
    tp_icd_drop_locked(NULL);
    assert_int_equal(destroyed, 0);
    tp_icd_unlock();
    assert_int_equal(destroyed, 2);
}

static void
only_live_mems_are_mems(void **state)
{
    struct tp_icd_object mem, other;

    (void)state;
    tp_icd_object_init(&mem, TP_ICD_MEM, 0, count_destroyed);
    tp_icd_object_init(&other, TP_ICD_EVENT, 0, count_destroyed);
    assert_true(tp_icd_is_mem(&mem));
    assert_false(tp_icd_is_mem(&other));
    assert_false(tp_icd_is_mem(NULL));
    assert_false(tp_icd_is_mem((const void *)(uintptr_t)0x12345));
    tp_icd_release(&mem);
    assert_false(tp_icd_is_mem(&mem));
}

static void
answers_by_the_rules(void **state)
{
    uint8_t value[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    size_t size = 99;

    (void)state;
    assert_int_equal(tp_icd_answer(3, value, &size, "abcd", 4), CL_INVALID_VALUE);
    assert_int_equal(size, 99);
    assert_int_equal(value[0], 1);
    assert_int_equal(tp_icd_answer(0, NULL, &size, "abcd", 4), CL_SUCCESS);
    assert_int_equal(size, 4);
    assert_int_equal(tp_icd_answer(8, value, NULL, "abcd", 4), CL_SUCCESS);
    assert_memory_equal(value, "abcd\1\1\1\1", 8);
    assert_int_equal(tp_icd_answer(0, value, &size, NULL, 0), CL_SUCCESS);
    assert_int_equal(size, 0);
    assert_int_equal(tp_icd_answer_text(8, value, &size, "xyz"), CL_SUCCESS);
    assert_int_equal(size, 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_handles_are_errors),
        cmocka_unit_test(destroyed_once_when_nobody_needs_it),
        cmocka_unit_test(retained_again_while_held),
        cmocka_unit_test(dropped_under_the_lock_dies_after_it),
        cmocka_unit_test(only_live_mems_are_mems),
        cmocka_unit_test(answers_by_the_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
