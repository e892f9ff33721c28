/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of tests: a job of a shape, and one run in it. Behind cmocka. */
#ifndef TELPHER_RMA_TEST_TEST_LAUNCH_H
#define TELPHER_RMA_TEST_TEST_LAUNCH_H

#include <telpher/rma/host.h>

#include "rma/test/test_kernels.h"

static inline telpher_rma_params
shape(uint32_t ranks, uint32_t lanes, uint32_t workers)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;

    p.ranks = ranks;
    p.block[0] = lanes;
    p.workers = workers;
    return p;
}

static inline telpher_rma_job *
make(const telpher_rma_params *p)
{
    telpher_rma_job *job = NULL;
    telpher_error err = {0};

    if (telpher_rma_create(p, &job, &err) != TELPHER_OK) {
        fail_msg("%s", err.text);
    }
    return job;
}

/* Runs once in a job of its own, and compares the status. */
static inline void
run_in(const telpher_rma_params *p, const telpher_rma_kernel *kernel,
       struct test_data *data, telpher_status expected)
{
    telpher_rma_job *job = make(p);
    telpher_error err = {0};
    telpher_status status = telpher_rma_run(job, kernel, data, &err);

    if (status != expected) {
        fail_msg("%s: %s (%s)\n%s", kernel->name, telpher_status_name(status), err.text,
                 telpher_rma_report(job));
    }
    assert_int_equal(telpher_rma_report(job)[0] == '\0', expected == TELPHER_OK);
    telpher_rma_destroy(job);
}

/* Of the checks in @p wanted those that @p kernel can be launched with: the check for races needs
 * instrumented kernels, and under the thread sanitizer there are none for it. */
static inline uint32_t
possible_checks(const telpher_rma_kernel *kernel, uint32_t wanted)
{
#if defined(__SANITIZE_THREAD__)
    (void)kernel;
#else
    if (kernel->flags == TELPHER_RMA_KERNEL_INSTRUMENTED) {
        return wanted;
    }
#endif
    return wanted & ~(uint32_t)TELPHER_RMA_CHECK_RACES;
}

#endif
