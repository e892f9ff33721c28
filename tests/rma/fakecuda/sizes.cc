/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n PROCESSES -- rma_gpu_sizes
 *
 * Jobs of different sizes live side by side and launch by turns: nothing of one is left for the
 * next. A launch that one process alone refuses fails in all, and none of them loses step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

#include "join.h"
#include "tells.h"

enum { JOBS = 5, TURNS = 3 };

/* All members of the world put to all others, and count. */
TELPHER_RMA_KERNEL(kernel_all)
{
    struct told *t = (struct told *)telpher_rma_data(rma);
    const uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    const uint32_t tag = rma->tags - 1;
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, t->sums, sizeof(t->sums), &win);
    for (uint32_t to = 0; to < size; to++) {
        telpher_rma_put_value_notify(rma, win, to, me % 8 * 8, me, tag);
    }
    telpher_rma_wait(rma, tag, size);
    if (telpher_rma_test(rma, tag, 1) != TELPHER_ERR_AGAIN) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO);
    }
    telpher_rma_barrier(rma, WORLD);
    telpher_rma_win_free(rma, win);
}

static telpher_rma_job *
make(uint32_t ranks, uint32_t devices, uint32_t tags)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;

    params.ranks = ranks;
    params.devices = devices;
    params.tags = tags;
    params.timeout_ns = 30000000000u; /* nobody waits for it */
    return join(&params);
}

/* Process 0 alone cannot launch. */
static int
is_refused(telpher_rma_job *job, struct told *data)
{
    telpher_error err = {TELPHER_OK, {0}};
    telpher_status status;

    setenv("TELPHER_RMA_GPUS", process == 0 ? "none" : "", 1);
    status = telpher_rma_run(job, &kernel_all, data, &err);
    unsetenv("TELPHER_RMA_GPUS");
    return status == TELPHER_ERR_INVALID &&
           strstr(err.text, "TELPHER_RMA_GPUS is not a list of GPUs") != NULL;
}

int
main(void)
{
    telpher_rma_job *jobs[JOBS] = {make(1, 1, 2), make(7, 2, 300), make(2, 1, 1),
                                   make(3, 3, 64), make(2, 1, TELPHER_RMA_TAGS_MAX)};
    telpher_error err = {TELPHER_OK, {0}};
    struct told *data;
    size_t left;
    int good;

    good = cudaMalloc(&data, sizeof(*data)) == cudaSuccess;
    left = fakecuda_left();
    for (int i = 0; i < JOBS * TURNS && good; i++) {
        good = telpher_rma_run(jobs[i % JOBS], &kernel_all, data, &err) == TELPHER_OK &&
               is_refused(jobs[i % JOBS], data);
    }
    good = good && fakecuda_left() == left;
    printf("process %u: %s %s\n", process, good ? "good" : "FAILED", err.text);
    for (telpher_rma_job *job : jobs) {
        telpher_rma_destroy(job);
    }
    cudaFree(data);
    return !good;
}
