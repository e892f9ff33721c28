/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: offload_jacobi WORKER WORKERS [N [ITERATIONS]]
 * Jacobi's method on an N x N grid, offloaded: the parents' blocks of rows go to the workers
 * and come back after the iterations, three times. The result is that of a serial run, bit
 * for bit.
 */
#include <string.h>

#include "rows.h"

enum { ROUNDS = 3 };

static double
start_value(int i, int j)
{
    return (double)((i * 37 + j * 101) % 1000) / 7.0;
}

static double *
serial(int n, int iterations)
{
    size_t row = (size_t)n;
    double *a = doubles(row * row), *b = doubles(row * row);

    for (int i = 0; i < n * n; i++) {
        a[i] = start_value(i / n, i % n);
    }
    memcpy(b, a, row * row * sizeof(double));
    for (int k = 0; k < iterations; k++) {
        double *swap = a;

        for (size_t i = 1; i + 1 < row; i++) {
            for (size_t j = 1; j + 1 < row; j++) {
                const double *at = a + i * row + j;

                b[i * row + j] = 0.25 * (*(at - row) + at[row] + at[-1] + at[1]);
            }
        }
        a = b;
        b = swap;
    }
    free(b);
    return a;
}

int
main(int argc, char **argv)
{
    int n = argc > 3 ? atoi(argv[3]) : 101, iterations = argc > 4 ? atoi(argv[4]) : 20;
    int workers = argc > 2 ? atoi(argv[2]) : 0, rank, parents, first, rows, differ;
    void *args[] = {&n, &iterations};
    int sizes[] = {sizeof(n), sizeof(iterations)};
    double *mine, *expected;
    MPI_Comm inter;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &parents);
    if (workers < 1 || n < 1 || iterations < 0) {
        fprintf(stderr, "usage: offload_jacobi WORKER WORKERS [N [ITERATIONS]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, workers, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &inter, MPI_ERRCODES_IGNORE);
    first = first_row(n, parents, rank);
    rows = first_row(n, parents, rank + 1) - first;
    mine = doubles((size_t)rows * (size_t)n);
    for (int i = 0; i < rows * n; i++) {
        mine[i] = start_value(first + i / n, i % n);
    }
    for (int round = 0; round < ROUNDS; round++) {
        MPIX_Kernel_call("jacobi", 2, args, sizes, 0, MPI_COMM_WORLD, inter);
        telpher_block_send(mine, n, n, MPI_DOUBLE, inter);
        telpher_block_receive(mine, n, n, MPI_DOUBLE, inter);
    }
    expected = serial(n, ROUNDS * iterations);
    differ = memcmp(mine, expected + (size_t)first * (size_t)n,
                    (size_t)rows * (size_t)n * sizeof(double)) != 0;
    MPI_Allreduce(MPI_IN_PLACE, &differ, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d x %d, %d iterations, %d parents, %d workers by %s: %s\n", n, n,
               ROUNDS * iterations, parents, workers,
               telpher_offload_mode_name(telpher_offload_mode_of(inter)),
               differ ? "DIFFERS from the serial run" : "equal to the serial run");
    }
    MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
    free(mine);
    free(expected);
    MPI_Finalize();
    return differ != 0;
}
