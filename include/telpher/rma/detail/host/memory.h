/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of a launch and its tables there; part of rma/detail/host/launch.h. */
#ifndef TELPHER_RMA_DETAIL_HOST_MEMORY_H
#define TELPHER_RMA_DETAIL_HOST_MEMORY_H

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

/* ---- choice of GPUs ---- */

/* TELPHER_RMA_GPUS as numbers, at most @p max; @p current if it is not set. @return
 * how many; 0 if malformed */
TELPHER_RMA_HOST_FN_ uint32_t
telpher_rma_cuda_list(int current, int *gpus, uint32_t max)
{
    const char *text = getenv("TELPHER_RMA_GPUS");
    uint32_t n = 0;
    int all = 0;
    char *end;

    if (text == NULL || *text == '\0') {
        gpus[0] = current;
        return 1;
    }
    if (cudaGetDeviceCount(&all) != cudaSuccess) {
        return 0;
    }
    if (strcmp(text, "all") == 0) {
        for (; n < max && n < (uint32_t)all; n++) {
            gpus[n] = (int)n;
        }
        return n;
    }
    for (;; text = end + 1) {
        long gpu = strtol(text, &end, 10);

        if (end == text || gpu < 0 || gpu >= all || (*end != ',' && *end != '\0') ||
            n >= TELPHER_RMA_GPU_DOMAINS) {
            return 0;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (gpus[i] == (int)gpu) {
                return 0;
            }
        }
        gpus[n++] = (int)gpu;
        if (*end == '\0') {
            return n < max ? n : max;
        }
    }
}

/** The CUDA device that device @p device of @p devices will run on, for a program that
 *  allocates its memory there; -1 when there is none. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_gpu(uint32_t device, uint32_t devices)
{
    int gpus[TELPHER_RMA_GPU_DOMAINS], current = 0;
    uint32_t n;

    if (device >= devices || cudaGetDevice(&current) != cudaSuccess) {
        return -1;
    }
    n = telpher_rma_cuda_list(
        current, gpus,
        devices < TELPHER_RMA_GPU_DOMAINS ? devices : TELPHER_RMA_GPU_DOMAINS);
    return n == 0 ? -1 : gpus[(uint64_t)device * n / devices];
}

/* Whether GPU @p a can access @p b's memory, also with atomics. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_reaches(int a, int b)
{
    int can = 0, atomics = 0;
    cudaError_t error;

    if (cudaDeviceCanAccessPeer(&can, a, b) != cudaSuccess || !can ||
        cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, a,
                                  b) != cudaSuccess ||
        !atomics || cudaSetDevice(a) != cudaSuccess) {
        return 0;
    }
    error = cudaDeviceEnablePeerAccess(b, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        return 1;
    }
    return error == cudaSuccess;
}

/* Distributes devices over GPUs, and ranks over domains. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_domains(struct telpher_rma_cuda *c, const char *kernel,
                         telpher_rma_outcome *o)
{
    const char *peers = getenv("TELPHER_RMA_PEERS");
    int gpus[TELPHER_RMA_GPU_DOMAINS];
    uint32_t max =
        o->devices < TELPHER_RMA_GPU_DOMAINS ? o->devices : TELPHER_RMA_GPU_DOMAINS;
    uint32_t n = telpher_rma_cuda_list(c->before, gpus, max);
    char text[80];

    if (n == 0) {
        telpher_rma_cuda_say(o, TELPHER_ERR_INVALID, kernel,
                             "TELPHER_RMA_GPUS is not a list of GPUs", "");
        return 0;
    }
    c->spread = n > 1;
    c->count = n > 1 ? n : peers != NULL && strcmp(peers, "1") == 0 ? max : 1;
    for (uint32_t a = 0; a < c->count; a++) {
        c->domains[a].gpu = gpus[c->spread ? a : 0];
        for (uint32_t b = 0; c->spread && b < n; b++) {
            if (a != b && !telpher_rma_cuda_reaches(gpus[a], gpus[b])) {
                snprintf(text, sizeof(text), "GPU %d does not reach GPU %d's memory",
                         gpus[a], gpus[b]);
                telpher_rma_cuda_say(o, TELPHER_ERR_UNSUPPORTED, kernel, text, "");
                return 0;
            }
        }
    }
    for (uint32_t r = 0; r < o->ranks; r++) {
        uint64_t device = (uint64_t)r * o->devices / o->ranks;
        struct telpher_rma_cuda_domain *d = &c->domains[device * c->count / o->devices];

        d->first = d->ranks == 0 ? c->host.base + r : d->first;
        d->ranks++;
    }
    return 1;
}

#endif
