/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 2 -- rma_gpu_near
 *
 * The second process does not see the first one's GPU, which adds to its counters all the
 * same: it must know, since it has to look at them in another way.
 * The first one's launch uses that GPU alone, which is not the current one, in whatever thread.
 * And a address of another process is used only if its numbers can be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

#include "join.h"

TELPHER_RMA_KERNEL(kernel_near)
{
    uint32_t *domains = (uint32_t *)telpher_rma_data(rma);
    const uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    const telpher_rma_gpu *g = (const telpher_rma_gpu *)rma->backend;

    if (me == 0) {
        domains[1] = g->boxes != NULL && g->boxes[2] != 0;
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, 1, 1);
    } else {
        telpher_rma_wait(rma, 1, 1);
    }
    domains[0] = telpher_rma_gpu_state_of(rma)->domains;
}

/* A address as a process like this one would send it, but for one thing. */
static int
addresses_are_checked(void)
{
    struct telpher_rma_cuda_address mine, address;
    int good;

    memset(&mine, 0, sizeof(mine));
    mine.tags = 4;
    mine.count = 2;
    mine.senders = 64;
    mine.regions[0].range.len = 4096;
    good = telpher_rma_cuda_is_good(&mine, &mine, sizeof(mine)) &&
           !telpher_rma_cuda_is_good(&mine, NULL, sizeof(mine)) &&
           !telpher_rma_cuda_is_good(&mine, &mine, sizeof(mine) - 1);
    for (int n = 0; n < 6; n++) {
        address = mine;
        address.machine[0] = n == 0;
        address.tags += n == 1;
        address.senders = n == 2 ? UINT64_MAX : address.senders;
        address.count = n == 3 ? 0 : n == 4 ? 2 + TELPHER_RMA_CUDA_REGIONS : address.count;
        address.regions[0].range.len -= n == 5;
        good = good && !telpher_rma_cuda_is_good(&mine, &address, sizeof(address));
    }
    return good;
}

int
main(void)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    uint32_t *data, domains[2] = {0, 0};
    int good;

    setenv("TELPHER_RMA_IPC", "1", 1);
    params.ranks = 1;
    job = join(&params);
    setenv("FAKE_CUDA_GPUS", process == 0 ? "2" : "1", 1);
    setenv("TELPHER_RMA_GPUS", process == 0 ? "1" : "0", 1);
    if (cudaMalloc(&data, sizeof(domains)) != cudaSuccess) {
        return 1;
    }
    fakecuda_used();
    good = telpher_rma_run(job, &kernel_near, data, NULL) == TELPHER_OK;
    good = good && fakecuda_used() == (process == 0 ? 2 : 1);
    cudaMemcpy(domains, data, sizeof(domains), cudaMemcpyDeviceToHost);
    good = good && addresses_are_checked() && domains[0] == 2 && (process != 0 || domains[1] == 1);
    printf("process %u: %s\n", process, good ? "good" : "FAILED");
    telpher_rma_destroy(job);
    cudaFree(data);
    return !good;
}
