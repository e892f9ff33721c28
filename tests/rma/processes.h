/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels over several processes, and the program that runs them. */
#ifndef TESTS_RMA_PROCESSES_H
#define TESTS_RMA_PROCESSES_H

#include <telpher/context.h>
#include <telpher/rma/device.h>

enum { PROCESSES_BYTES = 2000000, ODD_BYTES = 8192 };

struct processes_data {
    uint64_t len; /* [bytes] of each put */
    uint8_t **parts; /* by rank: a place for each other one */
    uint8_t **sources;
    uint32_t tags[TELPHER_RMA_TAGS_MAX]; /* all of them */
};

TELPHER_RMA_KERNEL_DECLARE(kernel_everybody);
TELPHER_RMA_KERNEL_DECLARE(kernel_order);
TELPHER_RMA_KERNEL_DECLARE(kernel_flood);
TELPHER_RMA_KERNEL_DECLARE(kernel_first_fails);
TELPHER_RMA_KERNEL_DECLARE(kernel_last_waits);
TELPHER_RMA_KERNEL_DECLARE(kernel_returned);
TELPHER_RMA_KERNEL_DECLARE(kernel_gets_and_fails);
TELPHER_RMA_KERNEL_DECLARE(kernel_odd);
TELPHER_RMA_KERNEL_DECLARE(kernel_freed);
TELPHER_RMA_KERNEL_DECLARE(kernel_last_process_stays_away);

/** @param ctx  NULL = the launcher's */
int processes_main(int argc, char **argv, telpher_context *ctx);

#endif
