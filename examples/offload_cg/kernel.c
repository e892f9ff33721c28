/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of offload_cg: conjugate gradients for the Laplacian of an n x n grid. The
 * right-hand side is an array that stays in the workers between kernels.
 */
#include <math.h>
#include <string.h>

#include "rows.h"

static int n, rows, up, down;

/* out = A in; @p in has a row of the neighbours before and behind its own. */
static void
multiply(double *in, double *out)
{
    MPI_Sendrecv(in + n, n, MPI_DOUBLE, up, 0, in + (size_t)(rows + 1) * (size_t)n, n,
                 MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(in + (size_t)rows * (size_t)n, n, MPI_DOUBLE, down, 1, in, n,
                 MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < n; j++) {
            const double *at = in + (size_t)(i + 1) * (size_t)n + j;

            out[i * n + j] = 4 * *at - at[-n] - at[n] - (j > 0 ? at[-1] : 0) -
                             (j < n - 1 ? at[1] : 0);
        }
    }
}

static double
dot(const double *x, const double *y)
{
    double sum = 0;

    for (int i = 0; i < rows * n; i++) {
        sum += x[i] * y[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* The grid is as wide as the right-hand side is high. */
static void
look_around(telpher_block b)
{
    int mine, parts;

    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Comm_size(MPI_COMM_WORLD, &parts);
    n = (int)b.all_rows;
    rows = (int)b.rows;
    up = neighbour(n, parts, mine, -1);
    down = neighbour(n, parts, mine, 1);
}

/* Solves to the relative residual; gives back the solution. The result is the count of
 * iterations, as an error text for who waits, or 1 if that was not enough. */
static int
solve(telpher_block b, double tolerance, int iterations)
{
    size_t count = b.rows * b.all_rows;
    double *x = doubles(count), *r = doubles(count), *q = doubles(count);
    double *p = doubles(count + 2 * b.all_rows), rho, start, alpha;
    MPI_Comm parents;
    int k;

    look_around(b);
    MPI_Comm_get_parent(&parents);
    memcpy(r, b.data, count * sizeof(double));
    memcpy(p + n, b.data, count * sizeof(double));
    rho = start = dot(r, r);
    for (k = 0; k < iterations && rho > tolerance * tolerance * start; k++) {
        double before = rho;

        multiply(p, q);
        alpha = rho / dot(p + n, q);
        for (size_t i = 0; i < count; i++) {
            x[i] += alpha * p[(size_t)n + i];
            r[i] -= alpha * q[i];
        }
        rho = dot(r, r);
        for (size_t i = 0; i < count; i++) {
            p[(size_t)n + i] = r[i] + rho / before * p[(size_t)n + i];
        }
    }
    telpher_block_send(x, n, n, MPI_DOUBLE, parents);
    free(x);
    free(r);
    free(q);
    free(p);
    telpher_kernel_error("%d", k);
    return rho > tolerance * tolerance * start;
}

TELPHER_KERNEL(solve, telpher_block, double, int)
