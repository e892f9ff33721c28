/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that another process waits for run before ranks that were ready earlier.
 * usage: telpher launch -n 2 -- ampi_urgent +vp 8: rank FAR is in the other process. First
 * BORDER waits for FAR while WAKER computes and then wakes PLAIN. Then NEAR, which has had a
 * message of BORDER, is woken after PLAIN. Last, BORDER and NEAR wake each other until PLAIN, which
 * is farther from the other process, tells them to stop.
 */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BORDER, WAKER, NEAR, PLAIN, FAR };
enum { TRIES = 100, EXCHANGES = 100000, READY = 1, GO, ANSWER, WAKE, STOP };

static int rank;
static volatile int *first; /* rank that ran first; all of a process have this memory */

static void
compute(double seconds)
{
    double start = MPI_Wtime();

    while (MPI_Wtime() - start < seconds) {
    }
}

static void
tell(int to, int tag)
{
    MPI_Send(&rank, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
}

static void
hear(int from, int tag)
{
    int in;

    MPI_Recv(&in, 1, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void
note(void)
{
    if (*first < 0) {
        *first = rank;
    }
}

/* PLAIN is ready when the answer comes. */
static void
wake_border(void)
{
    switch (rank) {
    case BORDER:
        tell(WAKER, READY);
        hear(FAR, ANSWER);
        note();
        break;
    case PLAIN:
        tell(WAKER, READY); /* before WAKER goes on, PLAIN waits for more */
        hear(WAKER, WAKE);
        note();
        break;
    case WAKER:
        hear(BORDER, READY);
        hear(PLAIN, READY);
        tell(FAR, GO);
        compute(0.02); /* the answer comes */
        tell(PLAIN, WAKE);
        break;
    case FAR:
        hear(WAKER, GO);
        tell(BORDER, ANSWER);
        break;
    }
}

static void
wake_near(void)
{
    switch (rank) {
    case BORDER:
        tell(FAR, GO);
        hear(FAR, ANSWER);
        tell(NEAR, GO);
        break;
    case FAR:
        hear(BORDER, GO);
        tell(BORDER, ANSWER);
        break;
    case NEAR:
        hear(BORDER, GO);
        tell(WAKER, READY);
        hear(WAKER, WAKE);
        note();
        break;
    case PLAIN:
        tell(WAKER, READY);
        hear(WAKER, WAKE);
        note();
        break;
    case WAKER:
        hear(PLAIN, READY);
        hear(NEAR, READY);
        tell(PLAIN, WAKE);
        tell(NEAR, WAKE);
        break;
    }
}

/* Exchanges messages until STOP, @p max at most. @return whether there was a STOP */
static int
exchange_with(int other, int max)
{
    MPI_Status status = {0};
    int in;

    for (int i = 0; status.MPI_TAG != STOP && i < max; i++) {
        MPI_Sendrecv(&rank, 1, MPI_INT, other, WAKE, &in, 1, MPI_INT, MPI_ANY_SOURCE,
                     MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    }
    return status.MPI_TAG == STOP;
}

/* BORDER has learnt that it is near, NEAR learns it of BORDER, PLAIN of NEAR.
 * @return whether PLAIN ran while BORDER and NEAR had messages for each other */
static int
runs_with_others_busy(void)
{
    int runs = 1;

    switch (rank) {
    case BORDER:
        tell(FAR, GO);
        hear(FAR, ANSWER);
        tell(NEAR, GO);
        runs = exchange_with(NEAR, EXCHANGES);
        tell(NEAR, STOP);
        for (int i = 0; i < 2; i++) { /* of NEAR, or of PLAIN, before it heard STOP */
            hear(MPI_ANY_SOURCE, MPI_ANY_TAG);
        }
        break;
    case FAR:
        hear(BORDER, GO);
        tell(BORDER, ANSWER);
        break;
    case NEAR:
        hear(BORDER, GO);
        tell(PLAIN, WAKE);
        (void)exchange_with(BORDER, INT_MAX);
        break;
    case PLAIN:
        hear(NEAR, WAKE);
        tell(BORDER, STOP);
        break;
    }
    MPI_Bcast(&runs, 1, MPI_INT, BORDER, MPI_COMM_WORLD);
    if (rank == BORDER && !runs) {
        (void)fprintf(stderr, "rank %d did not run while others were busy\n", PLAIN);
    }
    return runs;
}

/* @return whether the expected rank was first once, on all ranks */
static int
try(void (*wake)(void), int expected)
{
    int found = 0;

    for (int i = 0; i < TRIES && !found; i++) {
        if (rank == WAKER) {
            *first = -1;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        wake();
        MPI_Barrier(MPI_COMM_WORLD);
        found = rank == WAKER && *first == expected;
        MPI_Bcast(&found, 1, MPI_INT, WAKER, MPI_COMM_WORLD);
    }
    if (rank == WAKER && !found) {
        (void)fprintf(stderr, "rank %d never ran first\n", expected);
    }
    return found;
}

int
main(int argc, char **argv)
{
    int found;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == WAKER) {
        first = malloc(sizeof(*first));
    }
    MPI_Bcast((void *)&first, sizeof(first), MPI_BYTE, WAKER, MPI_COMM_WORLD);
    found = try(wake_border, BORDER) && try(wake_near, NEAR) && runs_with_others_busy();
    if (rank == WAKER) {
        free((void *)first);
    }
    MPI_Finalize();
    return !found;
}
