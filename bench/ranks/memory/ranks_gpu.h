/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the runtimes nccl and nvshmem: a loaded library, and a stream of this rank's GPU. */
#ifndef BENCH_RANKS_GPU_H
#define BENCH_RANKS_GPU_H

#include "bench/ranks/ranks.h"

/** A function of a library, and where its address goes. */
struct ranks_function {
    void **place;
    const char *name;
};

/** Loads the first of the libraries that is there, NULL after the last. Ends the program with a
 *  line if there is none, or if it lacks a function. */
void ranks_gpu_load(const struct ranks_pair *p, const char *const *libraries,
                    const struct ranks_function *functions, size_t count);
/** The CUDA context of Telpher's memory becomes that of this thread. @return a stream of it */
void *ranks_gpu_stream(struct ranks_pair *p);
/** Waits for all of the stream. */
bool ranks_gpu_finish(void *stream);
/** Ends the program unless all buffers are CUDA's. */
void ranks_gpu_refuse_host(struct ranks_pair *p);

#endif
