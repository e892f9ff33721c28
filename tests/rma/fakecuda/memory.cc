/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 2 -- rma_gpu_memory
 *        telpher launch -n 3 -- rma_gpu_memory greets
 *
 * The last process's host has no memory for its n-th allocation in a launch on GPUs, whichever
 * that is: the launch ends in all processes in time, and the next one is good. Or one
 * has none to read that another one comes, when that one runs already and a third has not looked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>
#include <time.h>

#include <csignal>
#include <thread>

#include <atomic>

#include "join.h"
#include "tells.h"

enum { RANKS = 2, BOUND_S = 10 };

/* ---- memory; calls of this program and of the library in it come here ---- */

static std::atomic<long> left(0); /* allocations up to the one that fails; 0 = it has */
static std::atomic<bool> all_fail;

static bool
fails(void)
{
    return all_fail || (left > 0 && --left == 0);
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
    telpher_status status, next;
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
    next = telpher_rma_run(job, &kernel_tells, data, &err);
    if (status == TELPHER_OK && next == TELPHER_ERR_NO_MEMORY) { /* it was for this one */
        next = telpher_rma_run(job, &kernel_tells, data, &err);
    }
    cudaMemcpy(&failed, &data->failed, sizeof(failed), cudaMemcpyDeviceToHost);
    must(next == TELPHER_OK, "the next launch", nth, next, err.text);
    return next == TELPHER_OK && failed != 0;
}

/* A child stops this process from a time on, and then lets it go on, in [us] from now. */
static void
stop_between(useconds_t from, useconds_t to)
{
    const pid_t self = getpid();

    if (fork() == 0) {
        usleep(from);
        kill(self, SIGSTOP);
        usleep(to - from);
        kill(self, SIGCONT);
        _exit(0);
    }
}

/* Process 1 has said that it comes, and then that it does not go on. Process 0 has seen the first
 * of these alone, and runs; process 2 sees both at once, and does not. */
static void
one_cannot_read(telpher_rma_job *job, struct told *data)
{
    const time_t begin = time(NULL);
    telpher_error err = {TELPHER_OK, {0}};
    telpher_status status;
    std::thread later;

    if (process == 1) {
        stop_between(500000, 800000);
        later = std::thread([] {
            usleep(400000);
            all_fail = true;
        });
    } else if (process == 0) {
        usleep(600000);
    } else {
        stop_between(300000, 1300000);
    }
    status = telpher_rma_run(job, &kernel_tells, data, &err);
    if (later.joinable()) {
        later.join();
    }
    all_fail = false;
    must(status == TELPHER_ERR_NO_MEMORY, "the launch", 0, status, err.text);
    must(time(NULL) - begin < BOUND_S, "time", 0, status, err.text);
    status = telpher_rma_run(job, &kernel_tells, data, &err);
    if (status == TELPHER_ERR_NO_MEMORY) { /* who came to it was not read either */
        status = telpher_rma_run(job, &kernel_tells, data, &err);
    }
    must(status == TELPHER_OK, "the next launch", 0, status, err.text);
}

int
main(int argc, char **)
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
    if (argc > 1) {
        one_cannot_read(job, data);
    }
    while (argc == 1 && nth < 1000 && one_fails(job, data, nth)) {
        nth++;
    }
    printf("process %u: %ld allocations failed, %s\n", process, nth - 1,
           failures == 0 ? "good" : "FAILED");
    telpher_rma_destroy(job);
    cudaFree(data);
    return failures != 0 || (argc == 1 && nth < 50);
}
