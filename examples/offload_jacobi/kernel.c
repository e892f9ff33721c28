/* SPDX-License-Identifier: Apache-2.0 */
/* The worker of offload_jacobi: iterations on a block of rows, with rows of its neighbours. */
#include <string.h>

#include "rows.h"

/* One step on rows 1 to rows of @p in, whose rows 0 and rows + 1 are the neighbours'. */
static void
step(const double *in, double *out, int first, int rows, int n)
{
    for (int i = 1; i <= rows; i++) {
        int row = first + i - 1;

        for (int j = 0; j < n; j++) {
            int edge = row == 0 || row == n - 1 || j == 0 || j == n - 1;
            const double *at = in + (size_t)i * (size_t)n + j;

            out[(size_t)i * (size_t)n + (size_t)j] =
                edge ? *at : 0.25 * (at[-n] + at[n] + at[-1] + at[1]);
        }
    }
}

static int
jacobi(int n, int iterations)
{
    MPI_Comm parents;
    int mine, parts, first, rows, up, down;
    double *a, *b;

    MPI_Comm_get_parent(&parents);
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Comm_size(MPI_COMM_WORLD, &parts);
    first = first_row(n, parts, mine);
    rows = first_row(n, parts, mine + 1) - first;
    up = neighbour(n, parts, mine, -1);
    down = neighbour(n, parts, mine, 1);
    a = doubles((size_t)(rows + 2) * (size_t)n);
    b = doubles((size_t)(rows + 2) * (size_t)n);
    telpher_block_receive(a + n, n, n, MPI_DOUBLE, parents);
    for (int k = 0; rows > 0 && k < iterations; k++) {
        double *swap = a;

        MPI_Sendrecv(a + n, n, MPI_DOUBLE, up, 0, a + (size_t)(rows + 1) * (size_t)n, n,
                     MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(a + (size_t)rows * (size_t)n, n, MPI_DOUBLE, down, 1, a, n,
                     MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        step(a, b, first, rows, n);
        a = b;
        b = swap;
    }
    telpher_block_send(a + n, n, n, MPI_DOUBLE, parents);
    free(a);
    free(b);
    return 0;
}

TELPHER_KERNEL(jacobi, int, int)
