/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and windows; launch_time.h says what they are for. */
#include "bench/launch/launch_time.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TAG_CLOCK = 31, ROUND_TRIPS = 60 };
#define FIRST_WINDOW_US 1000.0
#define LONGEST_WINDOW_US 1e6
#define LATE_US 1.0 /* a process looks at its clock some 20 times in that */

double
launch_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Which boot of which machine: the clock is one in all its processes. */
static uint64_t
clock_id(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    char text[64] = "";
    uint64_t id = 14695981039346656037u;

    if (file != NULL) {
        if (fgets(text, sizeof(text), file) == NULL) {
            text[0] = '\0';
        }
        fclose(file);
    }
    for (const char *c = text; *c != '\0'; c++) {
        id = (id ^ (unsigned char)*c) * 1099511628211u;
    }
    return text[0] != '\0' ? id : 0;
}

struct answer {
    double now_us;
    uint64_t clock;
};

void
launch_clock_compare(MPI_Comm comm, int peer, struct launch_clock *ret_clock)
{
    struct answer theirs = {0, 0};

    ret_clock->round_trip_us = 1e18;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        double before = launch_now_us(), after;

        MPI_Send(&i, 1, MPI_INT, peer, TAG_CLOCK, comm);
        MPI_Recv(&theirs, sizeof(theirs), MPI_BYTE, peer, TAG_CLOCK, comm,
                 MPI_STATUS_IGNORE);
        after = launch_now_us();
        if (after - before < ret_clock->round_trip_us) {
            ret_clock->round_trip_us = after - before;
            ret_clock->measured_us = theirs.now_us - (before + after) / 2;
        }
    }
    ret_clock->offset_us =
        theirs.clock != 0 && theirs.clock == clock_id() ? 0 : ret_clock->measured_us;
}

void
launch_clock_answer(MPI_Comm comm)
{
    struct answer mine = {0, clock_id()};
    int i;

    do {
        MPI_Recv(&i, 1, MPI_INT, 0, TAG_CLOCK, comm, MPI_STATUS_IGNORE);
        mine.now_us = launch_now_us();
        MPI_Send(&mine, sizeof(mine), MPI_BYTE, 0, TAG_CLOCK, comm);
    } while (i + 1 < ROUND_TRIPS);
}

void
launch_windows_init(struct launch_windows *w, MPI_Comm comm)
{
    memset(w, 0, sizeof(*w));
    w->comm = comm;
    MPI_Comm_rank(comm, &w->rank);
    w->length_us = FIRST_WINDOW_US;
    w->first_us = launch_now_us();
}

double
launch_windows_await(struct launch_windows *w, bool *ret_late)
{
    double opens = w->first_us + (double)++w->index * w->length_us;

    MPI_Bcast(&opens, 1, MPI_DOUBLE, 0, w->comm);
    opens += w->offset_us;
    *ret_late = launch_now_us() > opens + LATE_US;
    while (launch_now_us() < opens) {
    }
    return opens;
}

/* Long windows let workers fall asleep: they are short again when all is quiet. */
static bool
fit_length(struct launch_windows *w)
{
    bool longer = w->bad && w->in_a_row >= 3 && w->length_us < LONGEST_WINDOW_US;
    bool shorter = !w->bad && w->in_a_row >= 20 && w->length_us > FIRST_WINDOW_US;

    if (longer || shorter) {
        w->length_us *= longer ? 2 : 0.5;
        w->in_a_row = 0;
    }
    return longer || shorter;
}

bool
launch_windows_close(struct launch_windows *w, bool late, double end_us)
{
    int bad = late;

    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, w->comm);
    bad |= w->rank == 0 && end_us > w->first_us + (double)(w->index + 1) * w->length_us;
    MPI_Bcast(&bad, 1, MPI_INT, 0, w->comm);
    w->in_a_row = (bad != 0) == w->bad ? w->in_a_row + 1 : 1;
    w->bad = bad != 0;
    if (fit_length(w) || bad) { /* the next one opens a whole length from now */
        w->first_us = launch_now_us();
        w->index = 0;
    }
    return bad == 0;
}
