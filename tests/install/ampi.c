/* SPDX-License-Identifier: Apache-2.0 */
/* A program of a user of adaptive MPI: each rank hands its number to the next. */
#include <mpi.h>
#include <stdio.h>

static int rank = -1; /* each virtual rank's own */

int
main(int argc, char **argv)
{
    int size, got;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d of %d got %d\n", rank, size, got);
    MPI_Finalize();
    return 0;
}
