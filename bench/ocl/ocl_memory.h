/* SPDX-License-Identifier: Apache-2.0 */
/* The host memories of the OpenCL cases. */
#ifndef BENCH_OCL_MEMORY_H
#define BENCH_OCL_MEMORY_H

#include "bench/ocl/clutil.h"

enum { OCL_MEMORY_COUNT = 2 };

extern const struct bench_memory ocl_memories[OCL_MEMORY_COUNT];

#endif
