/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `telpher-bench launch`: the cost of starting kernels on workers over MPI, compared
 * with hand-written protocols and with real spawns. telpher-bench itself does not use
 * MPI: it executes libexec/telpher/telpher-bench-launch-<mpi>, which is built for each
 * MPI.
 *
 * A repetition begins when a window of time opens, on all ranks at once; see
 * launch_time.h.
 */
#ifndef BENCH_LAUNCH_H
#define BENCH_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

enum { LAUNCH_FLIP_SPAWNS = 7 };
enum { LAUNCH_KERNELS_MAX = 256, LAUNCH_SPAWNS_MAX = 64, LAUNCH_WORKERS_MAX = 1024 };

/** Command-line options. */
struct launch_options {
    int workers; /**< of this launch: its last processes; with spawn: to be spawned */
    bool spawn; /**< workers by MPI_Comm_spawn() */
    int spawns; /**< the longest sequence of real spawns, 0 = none */
    int most; /**< kernels started at once, up to */
    int repetitions, warmup;
    int seed; /**< of the order in which ways and counts take turns */
    bool json;
    int flip; /**< this way, from 1 on, sends a wrong argument, LAUNCH_FLIP_SPAWNS real spawns; 0: none */
    const char *mpi; /**< "openmpi", "mpich"; NULL = of the launcher */
};

/** Reads the command line, argv[0] is "launch". @return an exit code, or -1 to go on */
int launch_parse_options(int argc, char **argv, struct launch_options *o);

/** The command: looks at the options and becomes the program for the MPI. */
int launch_main(int argc, char **argv);

#endif
