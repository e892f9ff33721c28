/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: offload_opencl WORKER WORKERS [PLATFORM [N]]
 * A product of N x N matrices on the OpenCL devices of the workers, of the first platform
 * with PLATFORM in its name: one device a worker, in turns or as TELPHER_MAPPING says. The
 * rows of one matrix are the parents' and go to the workers; the other goes to each whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/offload.h>

#include "device.h"

static float
a_value(int i, int j)
{
    return (float)((i * 3 + j) % 7);
}

static float
b_value(int i, int j)
{
    return (float)((i + j * 5) % 9);
}

/* Small integers: the sums are exact in any order. @return how many are not */
static int
count_wrong(const float *c, int first, int rows, int n)
{
    int wrong = 0;

    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < n; j++) {
            float sum = 0;

            for (int k = 0; k < n; k++) {
                sum += a_value(first + i, k) * b_value(k, j);
            }
            wrong += c[i * n + j] != sum;
        }
    }
    return wrong;
}

/* Devices are opened where the workers can; who could not says why. */
static int
open_devices(char *platform, int rank, int workers, MPI_Comm inter)
{
    struct device_taken *taken = calloc((size_t)workers, sizeof(*taken));
    void *args[] = {platform};
    int size[] = {(int)strlen(platform)};
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;

    MPIX_Kernel_icall("open_device", 1, args, size, 0, MPI_COMM_WORLD, inter, &request);
    MPIX_Kernel_wait(&request, &status);
    if (status.result != 0 && rank == 0) {
        printf("worker %d: %s\n", status.rank, status.text);
    }
    if (status.result == 0) {
        MPIX_Kernel_call("tell_device", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
        MPI_Gather(NULL, 0, MPI_BYTE, taken, sizeof(*taken), MPI_BYTE,
                   rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    }
    for (int i = 0; rank == 0 && status.result == 0 && i < workers; i++) {
        printf("worker %d: device %d of %d, %s\n", i, taken[i].number, taken[i].count,
               taken[i].name);
    }
    free(taken);
    return status.result == 0;
}

/* @return how many elements of this parent's rows of the product are wrong */
static int
multiply(int n, int rank, int parents, MPI_Comm inter)
{
    int first = (int)telpher_block_first((uint64_t)n, parents, rank);
    int rows = (int)telpher_block_first((uint64_t)n, parents, rank + 1) - first;
    size_t all = (size_t)n * (size_t)n;
    float *a = calloc(all + 1, sizeof(*a)), *b = calloc(all, sizeof(*b));
    void *args[] = {&n, b};
    int sizes[] = {sizeof(n), (int)(all * sizeof(*b))}, wrong;
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;

    if (a == NULL || b == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            b[i * n + j] = b_value(i, j);
            if (i < rows) {
                a[i * n + j] = a_value(first + i, j);
            }
        }
    }
    MPIX_Kernel_icall("multiply", 2, args, sizes, 0, MPI_COMM_WORLD, inter, &request);
    telpher_block_send(a, n, n, MPI_FLOAT, inter);
    telpher_block_receive(a, n, n, MPI_FLOAT, inter);
    MPIX_Kernel_wait(&request, &status);
    if (status.result != 0 && rank == 0) {
        printf("worker %d: %s\n", status.rank, status.text);
    }
    wrong = count_wrong(a, first, rows, n) + (status.result != 0);
    free(a);
    free(b);
    return wrong;
}

int
main(int argc, char **argv)
{
    int workers = argc > 2 ? atoi(argv[2]) : 0, n = argc > 4 ? atoi(argv[4]) : 101;
    int rank, parents, wrong = 1;
    MPI_Comm inter;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &parents);
    if (workers < 1 || n < 1 || n > 10000) {
        fprintf(stderr, "usage: offload_opencl WORKER WORKERS [PLATFORM [N]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, workers, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &inter, MPI_ERRCODES_IGNORE);
    if (open_devices(argc > 3 ? argv[3] : "", rank, workers, inter)) {
        wrong = multiply(n, rank, parents, inter);
        MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%d x %d, %d parents, %d workers: the product is %s\n", n, n,
                   parents, workers, wrong == 0 ? "right" : "WRONG");
        }
    }
    MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
    MPI_Finalize();
    return wrong != 0;
}
