/* SPDX-License-Identifier: Apache-2.0 */
/* `telpher-bench compare`: a channel against an MPI in one pair of processes. */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

/** Runs with its own options, argv[0] being the command. @return the exit code */
int compare_main(int argc, char **argv);

#endif
