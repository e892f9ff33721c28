/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the stand-ins of NCCL and NVSHMEM: memory that all ranks of one machine map. */
#ifndef BENCH_STANDIN_AREA_H
#define BENCH_STANDIN_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { AREA_RANKS = 4, AREA_NAME = 64 };

/** The area begins with it. */
struct area_head {
    atomic_int joined; /**< ranks that mapped it */
    atomic_int arrived, generation; /**< of the barrier */
};

/** Makes an area of zeros and names it, in AREA_NAME bytes. @return false: no memory */
bool area_create(char *ret_name, size_t bytes);
/** Maps it; the last of @p size ranks removes the name. @return NULL: there is none */
void *area_join(const char *name, size_t bytes, int size);
/** Waits until all ranks have called it. */
void area_barrier(struct area_head *area, int size);
/** The function of the CUDA driver that libcuda.so.1 is; ends the program if it has none. */
void *area_cuda(const char *function);

#endif
