/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a rank: the first ten that fail are reported, and all count. */
#ifndef TELPHER_TESTS_AMPI_EXPECT_H
#define TELPHER_TESTS_AMPI_EXPECT_H

#include <stdio.h>

static int rank, size, failures;

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition) && failures++ < 10) {                                         \
            fprintf(stderr, "rank %d of %d, line %d: %s: FAILED\n", rank, size,        \
                    __LINE__, #condition);                                             \
        }                                                                              \
    } while (0)

#endif
