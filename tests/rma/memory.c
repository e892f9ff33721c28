/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 2 -- rma_memory
 *
 * Process 0 has no memory for its n-th allocation, whichever that is: the launch ends in both
 * processes, with the same words, and the next one is good.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

#include "base/alloc.h"

enum { WORLD = TELPHER_RMA_WORLD, RANKS = 2, BIG = 3000, STEP = 2, LAUNCHES = 85 };

struct test_memory {
    uint8_t parts[RANKS][2 * RANKS * BIG], own[RANKS][BIG];
    double sums[RANKS][BIG / 8];
};

/* Something of everything that needs memory: windows, large and small data, groups. */
TELPHER_RMA_KERNEL(kernel_needs_memory)
{
    struct test_memory *d = telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint32_t to = (me + RANKS) % size, at = me % RANKS;
    telpher_rma_win win;
    telpher_rma_comm half;

    telpher_rma_win_create(rma, WORLD, d->parts[at], sizeof(d->parts[at]), &win);
    telpher_rma_put(rma, win, to, me * BIG, d->own[at], BIG);
    telpher_rma_put_notify(rma, win, to, me * BIG, d->own[at], 8, 1);
    telpher_rma_wait_from(rma, WORLD, to, 1, 1);
    telpher_rma_get(rma, win, to, 0, d->own[at], BIG);
    telpher_rma_flush(rma, win);
    telpher_rma_split(rma, WORLD, (int32_t)(me % 2), 0, &half);
    telpher_rma_allreduce(rma, half, d->sums[at], d->sums[at], BIG / 8, TELPHER_RMA_F64,
                          TELPHER_RMA_SUM, 0);
    telpher_rma_broadcast(rma, WORLD, 1, d->sums[at], sizeof(d->sums[at]));
    telpher_rma_win_free(rma, win);
}

static void
must(int good, uint64_t nth, telpher_status status, const telpher_rma_job *job)
{
    if (!good) {
        fprintf(stderr, "process %u, allocation %llu: %s\n%s\n",
                telpher_rma_job_process(job), (unsigned long long)nth,
                telpher_status_text(status), telpher_rma_report(job));
        exit(1);
    }
}

int
main(void)
{
    static struct test_memory data;
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    unsigned failures = 0;

    params.ranks = RANKS;
    if (telpher_rma_create(&params, &job, NULL) != TELPHER_OK) {
        return 1;
    }
    for (uint64_t nth = 1; nth < STEP * LAUNCHES; nth += STEP) {
        telpher_status status;

        if (telpher_rma_job_process(job) == 0) {
            tp_alloc_fail_nth(nth);
        }
        status = telpher_rma_run(job, &kernel_needs_memory, &data, NULL);
        tp_alloc_fail_nth(0);
        must(status == TELPHER_OK || status == TELPHER_ERR_NO_MEMORY, nth, status, job);
        failures += status != TELPHER_OK;
        status = telpher_rma_run(job, &kernel_needs_memory, &data, NULL);
        must(status == TELPHER_OK, nth, status, job);
    }
    printf("process %u: %u launches without memory\n", telpher_rma_job_process(job),
           failures);
    telpher_rma_destroy(job);
    return failures < 20;
}
