/* SPDX-License-Identifier: Apache-2.0 */
/* Kills processes of two servers with copies, at a moment that a random program's seed chooses. */
#ifndef TELPHER_TESTS_RANDOM_KILL_H
#define TELPHER_TESTS_RANDOM_KILL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Victims. */
enum kill_what {
    KILL_EXECUTORS, /**< all of one server: a session and the copies of the other session */
    KILL_SERVER, /**< and its broker before them, as if the machine were switched off */
    KILL_SESSIONS, /**< the executors of both sessions, not those that have copies */
};

/** The victims, and the moment of their death. */
struct kill {
    enum kill_what what;
    unsigned server; /**< 0 or 1 */
    bool youngest_first;
    unsigned gap_us; /**< between two victims */
    bool while_building; /**< while contexts are created and kernels built; else: */
    unsigned op; /**< the command before which it begins; op_count: after the last */
    unsigned delay_us; /**< from then on */
    pid_t brokers[2]; /**< of the servers; 0: nothing is killed */
    bool runs; /**< a thread kills when the delay is over */
    pthread_t thread;
};

/** Derives the choice from a seed. @param op_count commands of the program */
void kill_choose(struct kill *kill, uint64_t seed, unsigned op_count);
/** Writes the victims and the moment. */
void kill_print(const struct kill *kill, char *dst, size_t cap);
/** Kills after the delay: call it at the chosen moment. */
void kill_begin(struct kill *kill);
/** Waits until all victims are killed, if kill_begin() was called. */
void kill_end(struct kill *kill);

#endif
