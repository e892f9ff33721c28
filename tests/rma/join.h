/* SPDX-License-Identifier: Apache-2.0 */
/* How programs of several processes begin, on processors and on GPUs. */
#ifndef TESTS_RMA_JOIN_H
#define TESTS_RMA_JOIN_H

#include <stdio.h>
#include <stdlib.h>
#include <telpher/rma/host.h>

/** Where this process is in its job. */
static uint32_t process, processes, first, world;

/** Joins the job of processes, or ends this one. */
static telpher_rma_job *
join(const telpher_rma_params *params)
{
    telpher_error err = {TELPHER_OK, {0}};
    telpher_rma_job *job = NULL;

    if (telpher_rma_create(params, &job, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    process = telpher_rma_job_process(job);
    processes = telpher_rma_job_processes(job);
    first = process * telpher_rma_job_ranks(job);
    world = processes * telpher_rma_job_ranks(job);
    return job;
}

#endif
