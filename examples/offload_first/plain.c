/* SPDX-License-Identifier: Apache-2.0 */
/* The plain program: every rank smooths its part of an array. */
#include <mpi.h>
#include <stdio.h>

enum { N = 1200 };
static double data[N], part[N];

static void
smooth(int count, double factor)
{
    for (int i = 0; i < count; i++) {
        part[i] *=
            factor; /* stands for hours of work, and messages between the ranks */
    }
}

int
main(int argc, char **argv)
{
    double sum = 0;
    int rank, size, count;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    count = N / size;
    for (int i = 0; i < N; i++) {
        data[i] = i;
    }
    MPI_Scatter(data, count, MPI_DOUBLE, part, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    smooth(count, 0.5);
    MPI_Gather(part, count, MPI_DOUBLE, data, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) {
        sum += data[i];
    }
    if (rank == 0) {
        printf("%g\n", sum);
    }
    MPI_Finalize();
    return 0;
}
