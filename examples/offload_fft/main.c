/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: offload_fft WORKER WORKERS [N]
 * The Fourier transform of an N x N array, offloaded; any N. It is compared with a serial
 * transform by the definition.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "rows.h"

typedef double complex value;

static value
start_value(int i, int j)
{
    return (i * 37 + j * 101) % 1000 / 1000.0 + I * ((i * 53 + j * 19) % 700) / 700.0;
}

/* By the definition: each row of @p in, as a column of @p out. */
static void
transform_rows(int n, const value *in, value *out)
{
    const double pi = acos(-1);
    value *roots = (value *)doubles(2 * (size_t)n);

    for (int i = 0; i < n; i++) {
        roots[i] = cos(2 * pi * i / n) - I * sin(2 * pi * i / n);
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            value sum = 0;

            for (int j = 0; j < n; j++) {
                sum += in[i * n + j] * roots[(long)j * k % n];
            }
            out[k * n + i] = sum;
        }
    }
    free(roots);
}

static value *
serial(int n)
{
    value *a = (value *)doubles(2 * (size_t)n * (size_t)n);
    value *b = (value *)doubles(2 * (size_t)n * (size_t)n);

    for (int i = 0; i < n * n; i++) {
        a[i] = start_value(i / n, i % n);
    }
    transform_rows(n, a, b);
    transform_rows(n, b, a);
    free(b);
    return a;
}

int
main(int argc, char **argv)
{
    int n = argc > 3 ? atoi(argv[3]) : 55, workers = argc > 2 ? atoi(argv[2]) : 0;
    int rank, parents, first, rows, size[] = {sizeof(n)};
    void *args[] = {&n};
    double worst = 0, bound;
    value *mine, *expected;
    MPI_Comm inter;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &parents);
    if (workers < 1 || n < 1) {
        fprintf(stderr, "usage: offload_fft WORKER WORKERS [N]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, workers, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &inter, MPI_ERRCODES_IGNORE);
    first = first_row(n, parents, rank);
    rows = first_row(n, parents, rank + 1) - first;
    mine = (value *)doubles(2 * (size_t)rows * (size_t)n);
    for (int i = 0; i < rows * n; i++) {
        mine[i] = start_value(first + i / n, i % n);
    }
    MPIX_Kernel_call("fft2", 1, args, size, 0, MPI_COMM_WORLD, inter);
    telpher_block_send(mine, n, n, MPI_C_DOUBLE_COMPLEX, inter);
    expected = serial(n); /* while the workers compute */
    telpher_block_receive(mine, n, n, MPI_C_DOUBLE_COMPLEX, inter);
    for (int i = 0; i < rows * n; i++) {
        worst = fmax(worst, cabs(mine[i] - expected[first * n + i]));
    }
    MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    bound = 1e-12 * n * log2(n + 1);
    if (rank == 0) {
        printf("%d x %d, %d parents, %d workers by %s: largest difference %.2g, "
               "allowed %.2g\n",
               n, n, parents, workers,
               telpher_offload_mode_name(telpher_offload_mode_of(inter)), worst, bound);
    }
    MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
    free(mine);
    free(expected);
    MPI_Finalize();
    return !(worst <= bound);
}
