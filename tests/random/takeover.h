/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs random programs on two servers with copies, kills one of the two meanwhile, and counts how
 * often the other took over. Each program has a process of its own, because a take-over leaves
 * the sessions of a process without copies.
 */
#ifndef TELPHER_TESTS_RANDOM_TAKEOVER_H
#define TELPHER_TESTS_RANDOM_TAKEOVER_H

#include <stdio.h>

#include "../integration/servers.h"
#include "kill.h"
#include "worker.h"

struct takeover {
    struct servers *servers;
    const char *vendors; /**< of the servers' drivers; NULL: the system's */
    unsigned features; /**< enum plan_feature of the programs */
    unsigned devices;
    FILE *errors; /**< of the process of the last program; NULL: none */
    struct kill kill; /**< of the last program */
    unsigned programs, count; /**< take-overs */
};

/** Sets the environment for servers and workers. Before both start. */
void takeover_prepare(void);
void takeover_init(struct takeover *t, struct servers *servers, const char *vendors);
void takeover_fini(struct takeover *t);
/** Runs the program of a seed in a new process. */
enum outcome takeover_run(struct takeover *t, struct worker *w, uint64_t seed,
                          uint64_t kept);
/** Ends the process, and starts the broker again if it was killed. @return false: something is
 *  left, or the process did not end well; what is in @p dst */
bool takeover_end(struct takeover *t, struct worker *w, char *dst, size_t cap);
/** Prints what was killed, and what the process of the last program said. */
void takeover_print(struct takeover *t, FILE *to);
/** @return false: too few take-overs for the test to show anything */
bool takeover_sum(const struct takeover *t, FILE *to);

#endif
