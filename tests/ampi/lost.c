/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that dies while the others wait ends the job, which names it.
 * usage: telpher launch -n 3 -- ampi_lost [threads | parts | arrivals] */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4, LONG = 1 << 18 };

/* Each rank sends to the next one. Rank 1 dies when its first partition is ready; the others wait,
 * or ask for the last partition. */
static void
lose_partitions(int rank, int size, bool waits)
{
    static int out[PARTS * LONG], in[PARTS * LONG];
    MPI_Request requests[2];
    int flag = 0;

    MPI_Precv_init(in, PARTS, LONG, MPI_INT, (rank + size - 1) % size, 0,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Psend_init(out, PARTS, LONG, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready(0, requests[1]);
    if (rank == 1) {
        raise(SIGKILL);
    }
    MPI_Pready_range(1, PARTS - 1, requests[1]);
    if (waits) {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    while (rank == 2 || !flag) { /* rank 0 receives all, and then waits for rank 1 */
        MPI_Parrived(requests[0], PARTS - 1, &flag);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

int
main(int argc, char **argv)
{
    int rank, size, level, word = 0;

    MPI_Init_thread(&argc, &argv,
                    argc > 1 && strcmp(argv[1], "threads") == 0 ? MPI_THREAD_MULTIPLE
                                                                : MPI_THREAD_SINGLE,
                    &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && strcmp(argv[1], "threads") != 0) {
        lose_partitions(rank, size, strcmp(argv[1], "parts") == 0);
    }
    if (rank == 1) {
        raise(SIGKILL);
    }
    MPI_Recv(&word, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
