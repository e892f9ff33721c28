/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 2 -- rma_gpu_memory
 *
 * The last process's host has no memory for its n-th allocation in a launch on GPUs, whichever
 * that is: the launch ends in all processes in time, and the next one is good.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>
#include <time.h>

#include <atomic>

#include "join.h"
#include "tells.h"

enum { RANKS = 2, BOUND_S = 10 };

/* ---- memory; calls of this program and of the library in it come here ---- */

static std::atomic<long> left(0); /* allocations up to the one that fails; 0 = it has */

static bool
fails(void)
{
    return left > 0 && --left == 0;
}

extern "C" {
void *__real_malloc(size_t len);
void *__real_calloc(size_t count, size_t len);
void *__real_realloc(void *at, size_t len);
void *__real_aligned_alloc(size_t align, size_t len);

void *
__wrap_malloc(size_t len)
{
    return fails() ? nullptr : __real_malloc(len);
}

void *
__wrap_calloc(size_t count, size_t len)
{
    return fails() ? nullptr : __real_calloc(count, len);
}

void *
__wrap_realloc(void *at, size_t len)
{
    return fails() ? nullptr : __real_realloc(at, len);
}

void *
__wrap_aligned_alloc(size_t align, size_t len)
{
    return fails() ? nullptr : __real_aligned_alloc(align, len);
}
}

/* ---- launches ---- */

static int failures;

static void
must(bool good, const char *what, long nth, telpher_status status, const char *words)
{
    if (!good) {
        failures++;
        printf("FAILED process %u, allocation %ld, %s: %s %s\n", process, nth, what,
               telpher_status_name(status), words);
        fflush(stdout);
    }
}

/* @return whether the last process came to that allocation */
static bool
one_fails(telpher_rma_job *job, struct told *data, long nth)
{
    const bool here = process == processes - 1;
    const time_t begin = time(NULL);
    const size_t there = fakecuda_left();
    telpher_error err = {TELPHER_OK, {0}};
    telpher_status status;
    uint64_t failed;

    left = here ? nth : 0;
    status = telpher_rma_run(job, &kernel_tells, data, &err);
    failed = here && left == 0;
    left = 0;
    must(status == TELPHER_OK || status == TELPHER_ERR_NO_MEMORY ||
             status == TELPHER_ERR_DEVICE,
         "the launch", nth, status, err.text);
    must(fakecuda_left() == there, "something is left", nth, status, err.text);
    must(time(NULL) - begin < BOUND_S, "time", nth, status, err.text);
    cudaMemcpy(&data->failed, &failed, sizeof(failed), cudaMemcpyHostToDevice);
    status = telpher_rma_run(job, &kernel_tells, data, &err);
    if (status == TELPHER_ERR_NO_MEMORY) { /* it was for this launch's beginning */
        status = telpher_rma_run(job, &kernel_tells, data, &err);
    }
    cudaMemcpy(&failed, &data->failed, sizeof(failed), cudaMemcpyDeviceToHost);
    must(status == TELPHER_OK, "the next launch", nth, status, err.text);
    return status == TELPHER_OK && failed != 0;
}

int
main(void)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    struct told *data;
    long nth = 1;

    params.ranks = RANKS;
    params.timeout_ns = 30000000000u; /* nobody waits for it */
    job = join(&params);
    if (cudaMalloc(&data, sizeof(*data)) != cudaSuccess) {
        return 1;
    }
    while (nth < 1000 && one_fails(job, data, nth)) {
        nth++;
    }
    printf("process %u: %ld allocations failed, %s\n", process, nth - 1,
           failures == 0 ? "good" : "FAILED");
    telpher_rma_destroy(job);
    cudaFree(data);
    return failures != 0 || nth < 50;
}
