/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers and commands through the ICD, with two servers on Unix sockets and whatever
 * driver the machine has: results against values computed on the host.
 */
#include "icd_memory.h"

static int
run_all(void)
{
    struct {
        const char *name;
        const struct CMUnitTest *tests;
        size_t count;
    } groups[] = {
        {"transfers", transfer_tests, transfer_test_count},
        {"maps", map_tests, map_test_count},
        {"order", order_tests, order_test_count},
        {"places", place_tests, place_test_count},
        {"sized", sized_tests, sized_test_count},
        {"refusals", refusal_tests, refusal_test_count},
        {"loss", loss_tests, loss_test_count},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        failed += _cmocka_run_group_tests(groups[i].name, groups[i].tests,
                                          groups[i].count, NULL, NULL);
    }
    return failed;
}

int
main(int argc, char **argv)
{
    return worlds_run(argc, argv, run_all);
}
