/* SPDX-License-Identifier: Apache-2.0 */
/* telpher-bench reconnect: what it takes to go on after a loss of the network. */
#ifndef BENCH_RECONNECT_H
#define BENCH_RECONNECT_H

/** argv[0] is the command's name. Returns an exit status. */
int reconnect_main(int argc, char **argv);

#endif
