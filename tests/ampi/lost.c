/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that dies while the others wait ends the job, which names it.
 * usage: telpher launch -n 3 -- ampi_lost [threads] */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    int rank, size, level, word = 0;

    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        raise(SIGKILL);
    }
    MPI_Recv(&word, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
