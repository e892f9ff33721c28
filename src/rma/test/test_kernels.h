/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that tests run, good and bad; those of test_races.c are compiled for the check. */
#ifndef TELPHER_RMA_TEST_TEST_KERNELS_H
#define TELPHER_RMA_TEST_TEST_KERNELS_H

#include <telpher/rma/device.h>

enum { CELLS = 4096, RANKS = 512 };

/** How many kinds of what cannot be kernel_refused has, and what a kind's launch says. */
enum { REFUSED = 33 };
static inline telpher_status
refused_status(uint32_t kind)
{
    return kind < 21 || kind == 30 || kind == 31 ? TELPHER_ERR_RANGE
                                                 : TELPHER_ERR_INVALID;
}

/** Data shared by tests and their kernels. */
struct test_data {
    uint64_t cells[CELLS];
    double reals[CELLS];
    uint64_t own[RANKS][64]; /* each rank's */
    uint32_t n; /* a number that the kernel wants */
    telpher_status statuses[RANKS]; /* by rank: what a call said */
};

TELPHER_RMA_KERNEL_DECLARE(kernel_ring);
TELPHER_RMA_KERNEL_DECLARE(kernel_collectives);
TELPHER_RMA_KERNEL_DECLARE(kernel_groups);
TELPHER_RMA_KERNEL_DECLARE(kernel_windows);
TELPHER_RMA_KERNEL_DECLARE(kernel_tags);
TELPHER_RMA_KERNEL_DECLARE(kernel_values);
TELPHER_RMA_KERNEL_DECLARE(kernel_deadlock);
TELPHER_RMA_KERNEL_DECLARE(kernel_early);
TELPHER_RMA_KERNEL_DECLARE(kernel_mismatch);
TELPHER_RMA_KERNEL_DECLARE(kernel_slow);
TELPHER_RMA_KERNEL_DECLARE(kernel_patient);
TELPHER_RMA_KERNEL_DECLARE(kernel_polls);
TELPHER_RMA_KERNEL_DECLARE(kernel_lost);
TELPHER_RMA_KERNEL_DECLARE(kernel_refused);
TELPHER_RMA_KERNEL_DECLARE(kernel_blocks);
TELPHER_RMA_KERNEL_DECLARE(kernel_parts_ways);
TELPHER_RMA_KERNEL_DECLARE(kernel_returns_alone);
TELPHER_RMA_KERNEL_DECLARE(kernel_other_arguments);
TELPHER_RMA_KERNEL_DECLARE(kernel_says);
TELPHER_RMA_KERNEL_DECLARE(kernel_empty);
TELPHER_RMA_KERNEL_DECLARE(kernel_nests);

/* test_folds.c */
TELPHER_RMA_KERNEL_DECLARE(kernel_folds);

/* test_races.c */
TELPHER_RMA_KERNEL_DECLARE(kernel_halo);
TELPHER_RMA_KERNEL_DECLARE(kernel_reads_and_tells);
TELPHER_RMA_KERNEL_DECLARE(kernel_no_credit);
TELPHER_RMA_KERNEL_DECLARE(kernel_no_barrier);
TELPHER_RMA_KERNEL_DECLARE(kernel_all_lanes_add);
TELPHER_RMA_KERNEL_DECLARE(kernel_reads_early);
TELPHER_RMA_KERNEL_DECLARE(kernel_races_and_fails);
TELPHER_RMA_KERNEL_DECLARE(kernel_fails_first);

#endif
