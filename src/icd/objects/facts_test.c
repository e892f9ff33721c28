/* SPDX-License-Identifier: Apache-2.0 */
/* Facts: every record is found, and only those; malformed ones are refused. */
#include "icd/objects/platform.h"
#include "icd/world_test.h"

static void
finds_what_is_there(void **state)
{
    struct world_facts f = {.len = 0};
    struct tp_icd_facts *facts;
    struct tp_wire_fact fact;

    (void)state;
    for (uint32_t index = 0; index < 8; index++) {
        for (uint32_t sub = 0; sub < 4; sub++) {
            world_add_u32(&f, TP_WIRE_FACT_KERNEL_ARG, index, sub, 0x1196,
                          index * 10 + sub);
        }
    }
    world_add_text(&f, TP_WIRE_FACT_PLATFORM, 2, 0, CL_PLATFORM_NAME, "x");
    facts = world_parse(&f);
    for (uint32_t index = 0; index < 8; index++) {
        for (uint32_t sub = 0; sub < 4; sub++) {
            uint32_t number;

            assert_true(tp_icd_facts_get(facts, TP_WIRE_FACT_KERNEL_ARG, index, sub,
                                         0x1196, &fact));
            memcpy(&number, fact.data, sizeof(number));
            assert_int_equal(number, index * 10 + sub);
        }
    }
    assert_int_equal(tp_icd_facts_count(facts, TP_WIRE_FACT_KERNEL_ARG), 8);
    assert_int_equal(tp_icd_facts_count(facts, TP_WIRE_FACT_PLATFORM), 3);
    assert_int_equal(tp_icd_facts_count(facts, TP_WIRE_FACT_KERNEL), 0);
    assert_int_equal(tp_icd_facts_count(facts, 999), 0);
    assert_false(tp_icd_facts_get(facts, TP_WIRE_FACT_KERNEL_ARG, 8, 0, 0x1196, &fact));
    assert_false(tp_icd_facts_get(facts, TP_WIRE_FACT_KERNEL_ARG, 0, 0, 0x1197, &fact));
    assert_false(tp_icd_facts_get(facts, TP_WIRE_FACT_KERNEL, 0, 0, 0x1196, &fact));
    tp_icd_facts_destroy(facts);
}

static void
later_of_two_counts(void **state)
{
    struct world_facts f = {.len = 0};
    struct tp_icd_facts *facts;
    struct tp_wire_fact fact;

    (void)state;
    world_add_text(&f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_NAME, "old");
    world_add_text(&f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_NAME, "new");
    facts = world_parse(&f);
    assert_true(
        tp_icd_facts_get(facts, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_NAME, &fact));
    assert_string_equal((const char *)fact.data, "new");
    tp_icd_facts_destroy(facts);
}

static void
nothing_is_found_in_nothing(void **state)
{
    struct tp_icd_facts *facts;
    struct tp_wire_fact fact;

    (void)state;
    assert_int_equal(tp_icd_facts_create((const uint8_t *)"", 0, &facts), TELPHER_OK);
    assert_false(tp_icd_facts_get(facts, 0, 0, 0, 0, &fact));
    tp_icd_facts_destroy(facts);
    tp_icd_facts_destroy(NULL);
}

static void
refuses_what_is_cut(void **state)
{
    struct world_facts f = {.len = 0};
    struct tp_icd_facts *facts = NULL;

    (void)state;
    world_add_text(&f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_NAME, "name");
    world_add_text(&f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_VENDOR, "vendor");
    for (size_t len = 1; len < f.len; len++) {
        telpher_status status = tp_icd_facts_create(f.bytes, len, &facts);

        if (len == tp_wire_fact_size(5)) {
            assert_int_equal(status, TELPHER_OK);
            tp_icd_facts_destroy(facts);
        } else {
            assert_int_equal(status, TELPHER_ERR_PROTO);
        }
    }
}

static void
survives_want_of_memory(void **state)
{
    struct world_facts f = {.len = 0};
    struct tp_icd_facts *facts = NULL;
    uint64_t live = tp_alloc_live();

    (void)state;
    world_add_text(&f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_NAME, "name");
    for (uint64_t nth = 1; nth <= 3; nth++) {
        tp_alloc_fail_nth(nth);
        assert_int_equal(tp_icd_facts_create(f.bytes, f.len, &facts),
                         TELPHER_ERR_NO_MEMORY);
    }
    tp_alloc_fail_nth(0);
    assert_int_equal(tp_alloc_live(), live);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_is_there),
        cmocka_unit_test(later_of_two_counts),
        cmocka_unit_test(nothing_is_found_in_nothing),
        cmocka_unit_test(refuses_what_is_cut),
        cmocka_unit_test(survives_want_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
