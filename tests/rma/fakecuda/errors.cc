/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: [telpher launch -n PROCESSES --] rma_gpu_errors [DEVICES]
 *
 * One call of CUDA fails in the last process, whichever that is, once or for the rest of the
 * launch: the launch ends in all processes in time, who fails has CUDA's words and the others
 * hear of it, nothing is left, and the next launch is as good as the first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>
#include <time.h>

#include "join.h"
#include "tells.h"

enum { RANKS = 2, BOUND_S = 10 };

static struct told *data; /* a GPU's */
static int failures;

static bool
fails_here(void)
{
    return process == processes - 1;
}

static void
must(bool good, const char *what, const char *name, unsigned nth, const char *report)
{
    if (!good) {
        failures++;
        printf("FAILED process %u, %s %u: %s\n%s\n", process, name, nth, what, report);
        fflush(stdout);
    }
}

static telpher_status
launch(telpher_rma_job *job, uint64_t *failed, telpher_error *err)
{
    telpher_status status;

    cudaMemcpy(&data->failed, failed, sizeof(*failed), cudaMemcpyHostToDevice);
    status = telpher_rma_run(job, &kernel_tells, data, err);
    cudaMemcpy(failed, &data->failed, sizeof(*failed), cudaMemcpyDeviceToHost);
    return status;
}

/* Calls whose failure a launch tolerates. */
static bool
may_fail(const char *name)
{
    static const char *const names[] = {
        "cudaGetDeviceProperties",    "cudaGetDriverEntryPointByVersion",
        "cudaPointerGetAttributes",   "cudaIpcGetMemHandle",
        "cudaIpcOpenMemHandle",       "cudaIpcCloseMemHandle",
        "cudaDeviceEnablePeerAccess", "cudaDeviceCanAccessPeer",
        "cudaDeviceGetP2PAttribute",  "cudaGetDeviceCount"};

    return fakecuda_is_one_of(name, names);
}

/* Calls that are also made after the launch. */
static bool
comes_behind(const char *name)
{
    return strcmp(name, "cudaIpcCloseMemHandle") == 0 ||
           strcmp(name, "cudaSetDevice") == 0;
}

static bool
says_why(const char *words)
{
    return strstr(words, "fake error") != NULL || strstr(words, "reach") != NULL ||
           strstr(words, "TELPHER_RMA_GPUS is not a list") != NULL;
}

static void
look_at_words(const char *name, unsigned nth, telpher_status status, const char *words,
              bool sticky)
{
    if (fails_here() && fakecuda_failed()) {
        must(status < 0 || (!sticky && may_fail(name)) ||
                 comes_behind(name),
             "the launch", name, nth, words);
        must(status == TELPHER_OK || says_why(words), "CUDA's words", name, nth, words);
    } else if (status != TELPHER_OK) {
        must(says_why(words), "what others hear", name, nth,
             words);
    }
}

/* @return whether the call came */
static bool
one_fails(telpher_rma_job *job, const char *name, unsigned nth, bool sticky)
{
    const time_t begin = time(NULL);
    uint64_t failed = 0;
    telpher_error err = {TELPHER_OK, {0}};
    telpher_status status;
    size_t left;

    left = fakecuda_left();
    fakecuda_fail(fails_here() ? name : NULL, nth, sticky);
    status = telpher_rma_run(job, &kernel_tells, data, &err);
    failed = fakecuda_failed();
    look_at_words(name, nth, status, status != TELPHER_OK ? err.text : "", sticky);
    fakecuda_fail(NULL, 0, false);
    must(fakecuda_left() == left, "something is left", name, nth, err.text);
    must(cudaGetLastError() == cudaSuccess || failed, "an error is left", name, nth, "");
    must(time(NULL) - begin < BOUND_S, "time", name, nth, err.text);
    status = launch(job, &failed, &err);
    must(status == TELPHER_OK, "the next launch", name, nth, err.text);
    if (status != TELPHER_OK) {
        exit(1);
    }
    return failed != 0;
}

int
main(int argc, char **argv)
{
    static const char *const names[] = {"cudaGetDevice",
                                        "cudaSetDevice",
                                        "cudaGetDeviceCount",
                                        "cudaGetDeviceProperties",
                                        "cudaDeviceGetAttribute",
                                        "cudaDeviceGetP2PAttribute",
                                        "cudaDeviceCanAccessPeer",
                                        "cudaDeviceEnablePeerAccess",
                                        "cudaDeviceSynchronize",
                                        "cudaFuncGetAttributes",
                                        "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
                                        "cudaMalloc",
                                        "cudaHostAlloc",
                                        "cudaHostGetDevicePointer",
                                        "cudaMemset",
                                        "cudaMemcpy",
                                        "cudaPointerGetAttributes",
                                        "cudaGetDriverEntryPointByVersion",
                                        "cudaIpcGetMemHandle",
                                        "cudaIpcOpenMemHandle",
                                        "cudaIpcCloseMemHandle",
                                        "cudaStreamCreateWithFlags",
                                        "cudaLaunchCooperativeKernel",
                                        "cudaStreamQuery"};
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    unsigned came = 0;

    params.ranks = RANKS;
    params.devices = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    params.timeout_ns = 30000000000u; /* nobody waits for it */
    job = join(&params);
    if (cudaMalloc(&data, sizeof(*data)) != cudaSuccess) {
        return 1;
    }
    for (const char *name : names) {
        /* what breaks a context ends its grids, which those of threads do not */
        const unsigned kinds = strcmp(name, "cudaLaunchCooperativeKernel") == 0 ? 1 : 2;

        for (unsigned sticky = 0; sticky < kinds; sticky++) {
            unsigned nth = 1;

            while (nth < 200 && one_fails(job, name, nth, sticky != 0)) {
                nth += 1 + nth / 4;
                came++;
            }
        }
    }
    printf("process %u: %u calls failed, %s\n", process, came,
           failures == 0 ? "good" : "FAILED");
    telpher_rma_destroy(job);
    cudaFree(data);
    return failures != 0;
}
