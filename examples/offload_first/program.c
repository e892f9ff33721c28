/* SPDX-License-Identifier: Apache-2.0 */
/* The program that starts workers and calls the kernel. */
#include <stdio.h>
#include <telpher/offload.h>

enum { N = 1200, WORKERS = 4 };
static double data[N];

int
main(int argc, char **argv)
{
    double factor = 0.5, sum = 0;
    int count = N / WORKERS;
    void *args[] = {&count, &factor};
    int sizes[] = {sizeof(count), sizeof(factor)};
    char kernel[] = "smooth", end[] = "";
    MPI_Comm workers;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < N; i++) {
        data[i] = i;
    }
    MPI_Comm_spawn("./worker", MPI_ARGV_NULL, WORKERS, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &workers, MPI_ERRCODES_IGNORE);
    MPIX_Kernel_call(kernel, 2, args, sizes, 0, MPI_COMM_WORLD, workers);
    MPI_Scatter(data, count, MPI_DOUBLE, NULL, 0, MPI_DOUBLE, MPI_ROOT, workers);
    /* other work, at the same time */
    MPI_Gather(NULL, 0, MPI_DOUBLE, data, count, MPI_DOUBLE, MPI_ROOT, workers);
    for (int i = 0; i < N; i++) {
        sum += data[i];
    }
    printf("%g\n", sum);
    MPIX_Kernel_call(end, 0, NULL, NULL, 0, MPI_COMM_WORLD,
                     workers); /* the workers leave */
    MPI_Finalize();
    return 0;
}
