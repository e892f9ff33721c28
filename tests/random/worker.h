/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that run random programs on one platform, so that a driver's crash ends no test. */
#ifndef TELPHER_TESTS_RANDOM_WORKER_H
#define TELPHER_TESTS_RANDOM_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** How a program ended. */
enum outcome { RAN, DIED, HUNG };

/** A worker process. Zeroed, with the first members before `pid` set, it starts when it is needed. */
struct worker {
    const char *platform; /**< part of its name */
    const char *vendors; /**< OCL_ICD_VENDORS; NULL: the variable is not set */
    int fault; /**< enum op_kind that it does wrongly; -1: none */
    unsigned devices;
    unsigned seconds; /**< for one program */
    const char
        *on_hang; /**< command that runs before a hung process is ended; NULL: none */
    int errors; /**< descriptor of its errors; 0: those of this process */
    pid_t pid; /**< 0: not running */
    int to, from;
    unsigned features; /**< enum plan_feature of its devices, once it runs */
    char *text; /**< results of the last program, each a line */
};

/** The main function of a worker process. */
int worker_main(const char *platform, unsigned devices, int fault);
/** Starts it. @return false: it found no device, or could not build its kernels */
bool worker_start(struct worker *w);
/** Runs the program of a seed, starting the process if it does not run.
 *  @param brokers of the two servers, parts of which it kills: kill.h; NULL: of none */
enum outcome worker_run(struct worker *w, unsigned features, uint64_t seed,
                        uint64_t kept, const pid_t *brokers);
/** Has the process end by itself. @return RAN: with status 0 */
enum outcome worker_end(struct worker *w);
void worker_stop(struct worker *w);

#endif
