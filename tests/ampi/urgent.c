/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that a message of another process wakes runs before ranks that were ready earlier.
 * usage: telpher launch -n 2 -- ampi_urgent +vp 6: rank 0 waits for rank 3 of the other
 * process; rank 1 computes meanwhile, then wakes rank 2.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 100, READY = 1, GO, ANSWER, WAKE };

static void
compute(double seconds)
{
    double start = MPI_Wtime();

    while (MPI_Wtime() - start < seconds) {
    }
}

/* Ranks 0 and 2 note who came first. @return whether it was rank 0 */
static int
note(volatile int *first, int rank)
{
    if (*first < 0) {
        *first = rank;
    }
    return *first == 0;
}

int
main(int argc, char **argv)
{
    int rank, zero_first = 0, in;
    int *first = NULL; /* the three ranks have one memory */

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        first = malloc(sizeof(*first));
    }
    MPI_Bcast(&first, sizeof(first), MPI_BYTE, 1, MPI_COMM_WORLD);
    for (int i = 0; i < TRIES && !zero_first; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0 || rank == 2) { /* before rank 1 goes on, they wait for more */
            MPI_Send(&rank, 1, MPI_INT, 1, READY, MPI_COMM_WORLD);
        }
        if (rank == 0) {
            MPI_Recv(&in, 1, MPI_INT, 3, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            zero_first = note(first, rank);
        } else if (rank == 1) {
            *first = -1;
            MPI_Recv(&in, 1, MPI_INT, 0, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(&in, 1, MPI_INT, 2, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&rank, 1, MPI_INT, 3, GO, MPI_COMM_WORLD);
            compute(0.02); /* the answer comes */
            MPI_Send(&rank, 1, MPI_INT, 2, WAKE, MPI_COMM_WORLD);
        } else if (rank == 2) {
            MPI_Recv(&in, 1, MPI_INT, 1, WAKE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            zero_first = note(first, rank);
        } else if (rank == 3) {
            MPI_Recv(&in, 1, MPI_INT, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&rank, 1, MPI_INT, 0, ANSWER, MPI_COMM_WORLD);
        }
        MPI_Bcast(&zero_first, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0 && !zero_first) {
        (void)fprintf(stderr, "rank 2 ran first %d times\n", TRIES);
    }
    if (rank == 1) {
        free(first);
    }
    MPI_Finalize();
    return !zero_first;
}
