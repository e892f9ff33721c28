/* SPDX-License-Identifier: Apache-2.0 */
/* What offload is compared with: a real MPI_Comm_spawn() for every kernel. */
#ifndef BENCH_LAUNCH_SPAWNS_H
#define BENCH_LAUNCH_SPAWNS_H

#include <mpi.h>

#include "bench/launch/launch.h"

#define LAUNCH_ONCE "--spawned"

/** Measures 1, 2, 4, … spawns one after the other and reports them. All parents. */
void launch_spawns(const struct launch_options *o, MPI_Comm parents);

/** The main of what is spawned: one kernel, and the end. */
int launch_spawned(void);

#endif
