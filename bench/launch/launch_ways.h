/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to run kernels with five doubles on workers. All kernels but the last get 5 as
 * their last argument; the last gets LAUNCH_LAST and records when it began and ended.
 */
#ifndef BENCH_LAUNCH_WAYS_H
#define BENCH_LAUNCH_WAYS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/launch/launch.h"

#define LAUNCH_LAST 6.0

/** A worker's measurements, returned by the kernel fetch. */
struct launch_stamp {
    double entry_us, exit_us; /**< of the last kernel, on the worker's clock */
    double kernels; /**< that ran since the last fetch */
    double wrong; /**< of them, with wrong arguments */
};

struct launch_way {
    const char *name; /**< in JSON */
    const char *title;
    /** Broadcasts of a protocol by hand; 0 = calls of the library. */
    int by_hand;
    /** At all parents of the library's calls, at process 0 of those by hand. */
    void (*start)(int count);
};

enum { LAUNCH_WAYS = 6 };
extern const struct launch_way launch_ways[LAUNCH_WAYS];

/* ---- messages of protocols by hand ---- */

enum { LAUNCH_HAND_TAG = 5, LAUNCH_STAMP_TAG = 6 };
enum { LAUNCH_HAND_END = 0, LAUNCH_HAND_FIVE = 1 };

/** One kernel as a protocol by hand has it. */
struct launch_hand_kernel {
    int32_t number; /**< of a switch */
    int32_t count; /**< of all in the message */
    double values[5];
};

/* ---- launch_ways.c ---- */

/** The parents and their workers; before anything else. */
void launch_ways_init(MPI_Comm parents, MPI_Comm workers);
/** From now on, one byte of an argument of the last kernel is wrong, or right again. */
void launch_ways_flip(bool wrong);
/** All parents: workers follow the protocol by hand, until process 0 ends that. */
void launch_hand_begin(int broadcasts);
void launch_hand_end(void);
/** All parents: workers are done with all; process 0 gets @p stamps of all of them. */
void launch_fetch(struct launch_stamp *stamps);
/** All parents: workers answer launch_clock_compare() one after the other. */
void launch_clocks_begin(void);
/** All parents: the workers end. */
void launch_workers_end(void);

/* ---- launch_spawns.c: a real MPI_Comm_spawn() for every kernel ---- */

#define LAUNCH_ONCE "--spawned"

/** Measures 1, 2, 4, … spawns one after the other and reports them. All parents.
 *  @return false: a spawned process got wrong arguments */
bool launch_spawns(const struct launch_options *o, MPI_Comm parents);

/** The main of what is spawned: one kernel, and the end. */
int launch_spawned(void);

#endif
