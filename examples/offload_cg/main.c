/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: offload_cg WORKER WORKERS [N]
 * Conjugate gradients for the Laplacian of an N x N grid, in the workers; the right-hand side
 * is an array that stays there between kernels. The residual is checked here.
 */
#include <math.h>

#include "rows.h"

/* |b - A x| / |b|, from the whole vectors. */
static double
residual(const double *x, const double *b, int n)
{
    double above = 0, below = 0;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            const double *at = x + (size_t)i * (size_t)n + j;
            double r = b[(size_t)i * (size_t)n + (size_t)j] - 4 * *at;

            r += (i > 0 ? at[-n] : 0) + (i < n - 1 ? at[n] : 0) + (j > 0 ? at[-1] : 0) +
                 (j < n - 1 ? at[1] : 0);
            above += r * r;
            below += b[(size_t)i * (size_t)n + (size_t)j] *
                     b[(size_t)i * (size_t)n + (size_t)j];
        }
    }
    return sqrt(above / below);
}

/* All rows at all parents. */
static void
gather(double *all, int n, int parents)
{
    for (int i = 0; i < parents; i++) {
        int from = first_row(n, parents, i), to = first_row(n, parents, i + 1);

        MPI_Bcast(all + (size_t)from * (size_t)n, (to - from) * n, MPI_DOUBLE, i,
                  MPI_COMM_WORLD);
    }
}

int
main(int argc, char **argv)
{
    int n = argc > 3 ? atoi(argv[3]) : 61, workers = argc > 2 ? atoi(argv[2]) : 0;
    int rank, parents, first, iterations = 10 * n;
    double tolerance = 1e-11, *b, *x, left = 1;
    telpher_array *right = NULL;
    void *solve[] = {&right, &tolerance, &iterations};
    int solve_sizes[] = {sizeof(right), sizeof(tolerance), sizeof(iterations)};
    telpher_error err = {0};
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;
    MPI_Comm inter;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &parents);
    if (workers < 1 || n < 1) {
        fprintf(stderr, "usage: offload_cg WORKER WORKERS [N]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, workers, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &inter, MPI_ERRCODES_IGNORE);
    first = first_row(n, parents, rank);
    b = doubles((size_t)n * (size_t)n);
    x = doubles((size_t)n * (size_t)n);
    for (int i = 0; i < n * n; i++) {
        b[i] = (double)(i * 29 % 113) / 113.0 - 0.4;
    }
    if (telpher_array_create(n, n * sizeof(double), 0, MPI_COMM_WORLD, inter, &right,
                             &err) != TELPHER_OK ||
        telpher_array_put(right, b + (size_t)first * (size_t)n, &err) != TELPHER_OK) {
        fprintf(stderr, "offload_cg: %s\n", err.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int round = 0; round < 2; round++) { /* the second finds the problem there */
        MPIX_Kernel_icall("solve", 3, solve, solve_sizes, 0, MPI_COMM_WORLD, inter,
                          &request);
        telpher_block_receive(x + (size_t)first * (size_t)n, n, n, MPI_DOUBLE, inter);
        MPIX_Kernel_wait(&request, &status);
    }
    gather(x, n, parents);
    left = residual(x, b, n);
    if (rank == 0) {
        printf("%d x %d, %d parents, %d workers: %s iterations, residual %.2g\n", n, n,
               parents, workers, status.text, left);
    }
    MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
    free(b);
    free(x);
    MPI_Finalize();
    return status.result != 0 || left > 1e-10;
}
