/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel with something of everything that a launch on GPUs prepares. */
#ifndef FAKECUDA_TELLS_H
#define FAKECUDA_TELLS_H

#include <telpher/rma/device.h>

enum { WORLD = TELPHER_RMA_WORLD };

/** A number of the last rank's, for all. */
struct told {
    uint64_t failed, sums[8];
};

TELPHER_RMA_KERNEL(kernel_tells)
{
    struct told *t = (struct told *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, t->sums, sizeof(t->sums), &win);
    telpher_rma_put_value_notify(rma, win, (me + 1) % size, 0, t->failed, 1);
    telpher_rma_wait(rma, 1, 1);
    telpher_rma_broadcast(rma, WORLD, size - 1, &t->failed, sizeof(t->failed));
    telpher_rma_win_free(rma, win);
}

#endif
