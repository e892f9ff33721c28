/* SPDX-License-Identifier: Apache-2.0 */
/* One launch of a test on GPUs, and what it should have said; of cuda_test.cu and
 * cuda_edges.cu. */
#ifndef TELPHER_RMA_GPU_CUDA_RUN_H
#define TELPHER_RMA_GPU_CUDA_RUN_H

#include <stdio.h>
#include <string.h>

#include <telpher/rma/host.h>

static int failures;

static void
say_failed(const char *kernel, uint32_t ranks, uint32_t lanes, telpher_status status,
           const char *report)
{
    failures++;
    printf("FAILED %s, %u ranks, %u lanes: %s\n%s", kernel, ranks, lanes,
           telpher_status_name(status), report);
}

static telpher_rma_job *
make_job(const telpher_rma_kernel *kernel, uint32_t ranks, uint32_t lanes,
         uint32_t devices, uint64_t timeout_ns)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    telpher_rma_job *job;

    p.ranks = ranks;
    if (lanes == 30) { /* in three dimensions */
        p.block[0] = 3;
        p.block[1] = 5;
        p.block[2] = 2;
    } else {
        p.block[0] = lanes;
    }
    p.devices = devices;
    p.timeout_ns = timeout_ns;
    p.tags = 512;
    if (telpher_rma_create(&p, &job, &err) != TELPHER_OK) {
        say_failed(kernel->name, ranks, lanes, err.code, err.text);
        return NULL;
    }
    return job;
}

/* On busy processors an expected deadline may pass before all ranks are in the state that
 * @p words describe: then it runs again with twice the time, up to LONGEST. */
static telpher_status
run(const telpher_rma_kernel *kernel, uint32_t ranks, uint32_t lanes, uint32_t devices,
    uint64_t timeout_ns, telpher_status expected, const char *words, void *user)
{
    const uint64_t LONGEST = 20000000000u;
    telpher_rma_job *job = make_job(kernel, ranks, lanes, devices, timeout_ns);
    telpher_status status;
    int told;

    if (job == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = telpher_rma_run(job, kernel, user, NULL);
    told = strstr(telpher_rma_report(job), words) != NULL;
    if (expected == TELPHER_ERR_TIMEOUT && status == expected && !told &&
        timeout_ns < LONGEST) {
        telpher_rma_destroy(job);
        return run(kernel, ranks, lanes, devices, 2 * timeout_ns, expected, words,
                   user);
    }
    if (status != expected || !told) {
        say_failed(kernel->name, ranks, lanes, status, telpher_rma_report(job));
    }
    telpher_rma_destroy(job);
    return status;
}

#endif
