/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that run random programs on one platform, so that a driver's crash ends no test. */
#ifndef TELPHER_TESTS_RANDOM_WORKER_H
#define TELPHER_TESTS_RANDOM_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** How a program ended. */
enum outcome { RAN, DIED, HUNG };

/** A worker process. Zeroed, with the first three members set, it starts when it is needed. */
struct worker {
    const char *platform; /**< part of its name */
    const char *vendors; /**< OCL_ICD_VENDORS; NULL: the variable is not set */
    int fault; /**< enum op_kind that it does wrongly; -1: none */
    unsigned devices;
    unsigned seconds; /**< for one program */
    pid_t pid; /**< 0: not running */
    int to, from;
    unsigned features; /**< enum plan_feature of its devices, once it runs */
    char *text; /**< results of the last program, each a line */
};

/** The main function of a worker process. */
int worker_main(const char *platform, unsigned devices, int fault);
/** Starts it. @return false: it found no device, or could not build its kernels */
bool worker_start(struct worker *w);
/** Runs the program of a seed, starting the process if it does not run. */
enum outcome worker_run(struct worker *w, unsigned features, uint64_t seed,
                        uint64_t kept);
void worker_stop(struct worker *w);

#endif
