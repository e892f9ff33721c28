/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -k -n 3 -- rma_gpu_killed
 *
 * One process ends, at the call of CUDA that FAKE_CUDA_KILL names: before a launch, while
 * memory of others is opened, behind the kernel. The others' launches fail in time and say who
 * it was, and nothing is left of them.
 */
#include <stdio.h>
#include <string.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>
#include <time.h>

#include "join.h"
#include "tells.h"

enum { RANKS = 2, LAUNCHES = 20, BOUND_S = 15 };

int
main(void)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    const time_t begin = time(NULL);
    telpher_error err = {TELPHER_OK, {0}};
    telpher_status status = TELPHER_OK;
    telpher_rma_job *job;
    struct told *data;
    size_t left;
    bool good;

    params.ranks = RANKS;
    params.timeout_ns = 30000000000u; /* nobody waits for it */
    job = join(&params);
    if (cudaMalloc(&data, sizeof(*data)) != cudaSuccess) {
        return 1;
    }
    left = fakecuda_left();
    for (int i = 0; i < LAUNCHES && status == TELPHER_OK; i++) {
        status = telpher_rma_run(job, &kernel_tells, data, &err);
    }
    good = status == TELPHER_ERR_PEER_LOST && strstr(err.text, "process 1 ") != NULL &&
           strstr(err.text, "is lost") != NULL;
    good = good && telpher_rma_run(job, &kernel_tells, data, NULL) ==
                       TELPHER_ERR_PEER_LOST;
    good = good && fakecuda_left() == left && time(NULL) - begin < BOUND_S;
    printf("process %u: %s, %s, %zu left, %d s: %s\n", process,
           telpher_status_name(status), err.text, fakecuda_left() - left,
           (int)(time(NULL) - begin), good ? "knows" : "knows nothing");
    telpher_rma_destroy(job);
    cudaFree(data);
    return !good;
}
