/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of random_test.c. */
#ifndef TELPHER_RMA_TEST_TEST_RANDOM_H
#define TELPHER_RMA_TEST_TEST_RANDOM_H

#include <telpher/rma/device.h>

/** How many steps, and which. At most 200 ranks. */
struct chance_data {
    uint64_t seed;
    uint32_t steps;
};

TELPHER_RMA_KERNEL_DECLARE(kernel_random);

#endif
