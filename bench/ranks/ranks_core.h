/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of Telpher's ranks, for the job of its runtimes. */
#ifndef BENCH_RANKS_CORE_H
#define BENCH_RANKS_CORE_H

#include "bench/ranks/ranks.h"

/** Sets the context that all calls here are of. @return false: no memory */
bool ranks_core_use(telpher_context *ctx);
/** Gives all ranks what rank 0 has there. */
bool ranks_core_share(void *bytes, size_t len);
/** As ranks_job.reduce and ranks_job.find_call. */
bool ranks_core_reduce(const double *mine, int count, double *least, double *sum,
                       double *most);
const struct bench_call *ranks_core_find_call(const char *name);

#endif
