/* SPDX-License-Identifier: Apache-2.0 */
/* Times an allreduce of device memory, by its size: 5th percentile and median, in us.
 * usage: telpher launch -n N -- ampi_device_time cuda|opencl BYTES [+vp M] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/mem.h>

enum { TIMES = 60 };

static int
compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

static void
measure(const void *out, void *in, int bytes, int rank)
{
    double took[TIMES];

    for (int i = 0; i < TIMES; i++) {
        double start;

        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        took[i] = 1e6 * (MPI_Wtime() - start);
    }
    qsort(took, TIMES, sizeof(took[0]), compare);
    if (rank == 0) {
        printf("%10d %12.1f %12.1f\n", bytes, took[TIMES / 20], took[TIMES / 2]);
    }
}

int
main(int argc, char **argv)
{
    int rank, most;
    uint32_t kind;
    void *out, *in, *zeros;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3 || atoi(argv[2]) < 4096) {
        fprintf(stderr, "usage: ampi_device_time cuda|opencl BYTES, at least 4096\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kind = strcmp(argv[1], "cuda") == 0 ? TELPHER_MEM_CUDA : TELPHER_MEM_OPENCL;
    most = atoi(argv[2]);
    zeros = calloc(1, (size_t)most);
    if (zeros == NULL ||
        telpher_mem_alloc(AMPI_Context(), kind, (size_t)most, &out) != TELPHER_OK ||
        telpher_mem_alloc(AMPI_Context(), kind, (size_t)most, &in) != TELPHER_OK ||
        telpher_mem_copy(AMPI_Context(), out, zeros, (size_t)most) != TELPHER_OK) {
        fprintf(stderr, "rank %d: no %s memory\n", rank, argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int bytes = 4096; bytes <= most; bytes *= 4) {
        measure(out, in, bytes, rank);
    }
    telpher_mem_free(AMPI_Context(), out);
    telpher_mem_free(AMPI_Context(), in);
    free(zeros);
    MPI_Finalize();
    return 0;
}
