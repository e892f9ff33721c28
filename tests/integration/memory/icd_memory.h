/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the icd_memory test. */
#ifndef TELPHER_TESTS_ICD_MEMORY_H
#define TELPHER_TESTS_ICD_MEMORY_H

#include "world.h"

extern const struct CMUnitTest transfer_tests[], map_tests[], order_tests[],
    place_tests[], sized_tests[], refusal_tests[], loss_tests[];
extern const size_t transfer_test_count, map_test_count, order_test_count,
    place_test_count, sized_test_count, refusal_test_count, loss_test_count;

#endif
