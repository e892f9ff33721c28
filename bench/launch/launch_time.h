/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows (Worsch, Reussner, Augustin 2002): process 0 says when the next repetition begins,
 * and each process waits for that time on its own clock. A repetition that begins late, or
 * has not ended when the next window opens, does not count and makes windows longer. With a
 * barrier, processes would begin one after another, and repetitions would overlap.
 *
 * Clocks of other machines are compared with that of process 0 by round trips, of which the
 * shortest counts, again and again since they drift. Processes of one machine have one clock.
 */
#ifndef BENCH_LAUNCH_TIME_H
#define BENCH_LAUNCH_TIME_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/** [us] on the clock of this process. */
double launch_now_us(void);

/** Offset of another process's clock to that of process 0. */
struct launch_clock {
    double offset_us; /**< 0 on the same machine */
    double measured_us; /**< the same as round trips have it */
    double round_trip_us;
};

/** Process 0: compares its clock with that of rank @p peer of @p comm. */
void launch_clock_compare(MPI_Comm comm, int peer, struct launch_clock *ret_clock);
/** The peer of that; process 0 is rank 0 of @p comm. */
void launch_clock_answer(MPI_Comm comm);

/** Windows, the same in all parents. */
struct launch_windows {
    MPI_Comm comm; /**< of the parents */
    int rank;
    double offset_us; /**< of this process's clock */
    double first_us, length_us; /**< at process 0 */
    int64_t index;
    bool bad; /**< the last one did not count */
    int in_a_row; /**< that were like it */
};

void launch_windows_init(struct launch_windows *w, MPI_Comm comm);

/** Waits for the next window. @return when it opened, on this clock; *ret_late: too late */
double launch_windows_await(struct launch_windows *w, bool *ret_late);

/** The repetition was over at @p end_us, which process 0 knows; were all in time? */
bool launch_windows_close(struct launch_windows *w, bool late, double end_us);

#endif
