/* SPDX-License-Identifier: Apache-2.0 */
/* `telpher-bench mdr`: entry methods of objects beside messages and channels. */
#ifndef BENCH_MDR_MDR_H
#define BENCH_MDR_MDR_H

/** @return the exit code */
int mdr_main(int argc, char **argv);

#endif
