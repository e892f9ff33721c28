/* SPDX-License-Identifier: Apache-2.0 */
/* telpher-bench notified: notified access between the ranks of a kernel. */
#ifndef BENCH_NOTIFIED_H
#define BENCH_NOTIFIED_H

/** Runs with its own options, argv[0] being the command. @return the exit code */
int notified_main(int argc, char **argv);

#endif
