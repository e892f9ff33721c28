/* SPDX-License-Identifier: Apache-2.0 */
/* usage: deadlock [probe] [+vp N]. Each rank waits for the next one, after some messages that
 * arrive; rank 0 in a probe. */
#include <mpi.h>

int
main(int argc, char **argv)
{
    int rank, size, value = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &value, 1, MPI_INT,
                 (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (argc > 1 && rank == 0) {
        MPI_Probe(1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Recv(&value, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
