/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of offload_fft: rows are transformed, the workers transpose the array among
 * themselves, what were columns are transformed, and it is transposed back.
 */
#include <complex.h>
#include <math.h>

#include "rows.h"

typedef double complex value;

struct plan {
    int n, parts, mine, rows;
    int *counts, *offsets; /* of what goes to each worker, and comes from it */
    value *roots; /* of 1: the n powers of the first */
    value *terms; /* n at most */
    value *packed, *received;
};

/* Memory that is freed by free(), or the end of the job. */
static value *
values(size_t count)
{
    return (value *)doubles(2 * count);
}

/* The transform of in[0], in[step], ... by the smallest factor of @p n; n * step is the
 * whole row's length. */
static void
transform(const struct plan *p, int n, int step, const value *in, value *out)
{
    int factor = 2, m;

    if (n == 1) {
        out[0] = in[0];
        return;
    }
    while (n % factor != 0) {
        factor++;
    }
    m = n / factor;
    for (int r = 0; r < factor; r++) {
        transform(p, m, step * factor, in + r * step, out + r * m);
    }
    for (int k = 0; k < m; k++) {
        for (int r = 0; r < factor; r++) {
            p->terms[r] = out[r * m + k];
        }
        for (int j = k; j < n; j += m) {
            value sum = 0;

            for (int r = 0; r < factor; r++) {
                sum += p->terms[r] * p->roots[(long)r * j % n * step];
            }
            out[j] = sum;
        }
    }
}

/* a, this worker's rows, becomes its rows of the transposed array. */
static void
transpose(const struct plan *p, value *a)
{
    value *to = p->packed;
    const value *from = p->received;

    for (int column = 0; column < p->n; column++) {
        for (int row = 0; row < p->rows; row++) {
            *to++ = a[row * p->n + column];
        }
    }
    MPI_Alltoallv(p->packed, p->counts, p->offsets, MPI_C_DOUBLE_COMPLEX, p->received,
                  p->counts, p->offsets, MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
    for (int i = 0; i < p->parts; i++) {
        int first = first_row(p->n, p->parts, i),
            end = first_row(p->n, p->parts, i + 1);

        for (int row = 0; row < p->rows; row++) {
            for (int column = first; column < end; column++) {
                a[row * p->n + column] = *from++;
            }
        }
    }
}

static void
make_plan(struct plan *p, int n)
{
    const double pi = acos(-1);
    size_t count;

    p->n = n;
    MPI_Comm_rank(MPI_COMM_WORLD, &p->mine);
    MPI_Comm_size(MPI_COMM_WORLD, &p->parts);
    p->rows = first_row(n, p->parts, p->mine + 1) - first_row(n, p->parts, p->mine);
    count = (size_t)p->rows * (size_t)n;
    p->counts = (int *)doubles((size_t)p->parts);
    p->offsets = (int *)doubles((size_t)p->parts);
    for (int i = 0; i < p->parts; i++) {
        int first = first_row(n, p->parts, i);

        p->counts[i] = p->rows * (first_row(n, p->parts, i + 1) - first);
        p->offsets[i] = p->rows * first;
    }
    p->roots = values((size_t)n);
    p->terms = values((size_t)n);
    p->packed = values(count);
    p->received = values(count);
    for (int i = 0; i < n; i++) {
        p->roots[i] = cos(2 * pi * i / n) - I * sin(2 * pi * i / n);
    }
}

static void
free_plan(struct plan *p)
{
    free(p->counts);
    free(p->offsets);
    free(p->roots);
    free(p->terms);
    free(p->packed);
    free(p->received);
}

static void
fft2(int n)
{
    struct plan p;
    MPI_Comm parents;
    value *a, *b;

    MPI_Comm_get_parent(&parents);
    make_plan(&p, n);
    a = values((size_t)p.rows * (size_t)n);
    b = values((size_t)p.rows * (size_t)n);
    telpher_block_receive(a, n, n, MPI_C_DOUBLE_COMPLEX, parents);
    for (int pass = 0; pass < 2; pass++) { /* rows, then columns */
        for (int i = 0; i < p.rows; i++) {
            transform(&p, n, 1, a + i * n, b + i * n);
        }
        transpose(&p, b);
        {
            value *swap = a;

            a = b;
            b = swap;
        }
    }
    telpher_block_send(a, n, n, MPI_C_DOUBLE_COMPLEX, parents);
    free(a);
    free(b);
    free_plan(&p);
}

TELPHER_KERNEL(fft2, int)
