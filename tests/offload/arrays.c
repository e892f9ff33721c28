/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: arrays WORKER [WORKERS]
 * Blocks of rows that go to the workers and back; arrays that stay there between kernels: put,
 * computed with, got; of any number of rows; bad ones refused; freed while kernels that
 * use them still wait.
 */
#include <string.h>

#include "check.h"

static MPI_Comm comm, inter;
static int rank, parents, workers;

static telpher_array *
create(uint64_t rows, uint64_t row_bytes)
{
    telpher_array *array = NULL;
    telpher_error err = {0};

    check(telpher_array_create(rows, row_bytes, 0, comm, inter, &array, &err) ==
          TELPHER_OK);
    check(array != NULL);
    return array;
}

static uint64_t
my_rows(uint64_t rows, uint64_t *ret_first)
{
    *ret_first = telpher_block_first(rows, parents, rank);
    return telpher_block_first(rows, parents, rank + 1) - *ret_first;
}

static void
axpy(telpher_array *y, telpher_array *x, double a, MPIX_Kernel_request *request)
{
    void *args[] = {&y, &x, &a};
    int sizes[] = {sizeof(y), sizeof(x), sizeof(a)};

    check(MPIX_Kernel_icall("axpy", 3, args, sizes, 0, comm, inter, request) ==
          MPI_SUCCESS);
}

/* y += a x in the workers, twice; 0 at first. Rows of three numbers. */
static void
compute(uint64_t rows)
{
    uint64_t first, mine = my_rows(rows, &first), count = 3 * mine;
    telpher_array *x = create(rows, 3 * sizeof(double)),
                  *y = create(rows, 3 * sizeof(double));
    double *block = calloc(count + 1, sizeof(double));
    telpher_error err = {0};
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;

    for (uint64_t i = 0; i < count; i++) {
        block[i] = (double)(3 * first + i) + 1;
    }
    block[count] = -1;
    check(telpher_array_put(x, block, &err) == TELPHER_OK);
    memset(block, 0, count * sizeof(double));
    axpy(y, x, 2, NULL);
    axpy(y, x, 0.5, &request);
    check(telpher_array_get(y, block, &err) == TELPHER_OK);
    for (uint64_t i = 0; i < count; i++) {
        check(block[i] == 2.5 * ((double)(3 * first + i) + 1));
    }
    check(block[count] == -1); /* no more than it is */
    check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS && status.result == 0);
    check(telpher_array_free(&x, &err) == TELPHER_OK && x == NULL);
    check(telpher_array_free(&y, &err) == TELPHER_OK && y == NULL);
    check(telpher_array_free(&y, &err) == TELPHER_OK); /* none: fine */
    free(block);
}

/* Blocks go over by MPI_Alltoallv() with the counts we give, and come back by our call. */
static void
over_and_back(unsigned long rows)
{
    uint64_t first, mine = my_rows(rows, &first);
    int *block = calloc(2 * mine + 1, sizeof(*block)), size[] = {sizeof(rows)};
    int *counts = calloc((size_t)workers, 3 * sizeof(*counts));
    int *offsets = counts + workers, *none = counts + 2 * workers, sum = 0;
    void *args[] = {&rows};

    check(block != NULL && counts != NULL);
    for (uint64_t i = 0; i < 2 * mine; i++) {
        block[i] = (int)(2 * first + i);
    }
    check(telpher_block_counts(rows, 2, inter, counts, offsets) == TELPHER_OK);
    for (int i = 0; i < workers; i++) {
        check(counts[i] == 0 || offsets[i] == sum);
        sum += counts[i];
    }
    check((uint64_t)sum == 2 * mine);
    check(MPIX_Kernel_call("negates", 1, args, size, 0, comm, inter) == MPI_SUCCESS);
    MPI_Alltoallv(block, counts, offsets, MPI_INT, block, none, none, MPI_INT, inter);
    check(telpher_block_receive(block, rows, 2, MPI_INT, inter) == TELPHER_OK);
    for (uint64_t i = 0; i < 2 * mine; i++) {
        check(block[i] == -(int)(2 * first + i));
    }
    check(telpher_block_counts(rows, 2, comm, counts, offsets) == TELPHER_ERR_INVALID);
    check(telpher_block_send(block, rows, 2, MPI_INT, MPI_COMM_NULL) ==
          TELPHER_ERR_INVALID);
    check(telpher_block_send(block, UINT64_C(1) << 40, 2, MPI_INT, inter) ==
          TELPHER_ERR_RANGE);
    check(telpher_block_counts(UINT64_C(1) << 40, 2, inter, counts, offsets) ==
          TELPHER_ERR_RANGE);
    free(block);
    free(counts);
}

/* One row a worker is something of each worker's own. */
static void
of_each_worker(void)
{
    telpher_array *own = create((uint64_t)workers, sizeof(int));
    int *ranks = calloc((size_t)workers + 1, sizeof(int)), sizes[] = {sizeof(own)};
    uint64_t first, mine = my_rows((uint64_t)workers, &first);
    void *args[] = {&own};
    telpher_error err = {0};

    check(MPIX_Kernel_call("note_rank", 1, args, sizes, parents - 1, comm, inter) ==
          MPI_SUCCESS);
    check(telpher_array_get(own, ranks, &err) == TELPHER_OK);
    for (uint64_t i = 0; i < mine; i++) {
        check(ranks[i] == (int)(first + i));
    }
    check(telpher_array_free(&own, &err) == TELPHER_OK);
    free(ranks);
}

/* More than a message, than a piece, and than one worker's credit. */
static void
large(void)
{
    uint64_t rows = 5000003, first, mine = my_rows(rows, &first);
    telpher_array *array = create(rows, 1);
    unsigned char *block = malloc(mine + 1);
    unsigned long sum = 0;
    int sizes[] = {sizeof(array), sizeof(sum)};
    void *args[] = {&array, &sum};
    telpher_error err = {0};
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;

    check(block != NULL);
    for (uint64_t i = 0; i < mine; i++) {
        block[i] = (unsigned char)((first + i) * 7);
        sum += block[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UNSIGNED_LONG, MPI_SUM, comm);
    check(telpher_array_put(array, block, &err) == TELPHER_OK);
    memset(block, 0, mine);
    check(MPIX_Kernel_icall("sum_rows", 2, args, sizes, 0, comm, inter, &request) ==
          MPI_SUCCESS);
    check(telpher_array_get(array, block, &err) == TELPHER_OK);
    for (uint64_t i = 0; i < mine; i++) {
        check(block[i] == (unsigned char)((first + i) * 7));
    }
    check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS && status.result == 0);
    check(telpher_array_free(&array, &err) == TELPHER_OK);
    free(block);
}

/* An array freed while a waiting kernel uses it stays until the kernel has run. */
static void
freed_in_use(void)
{
    telpher_array *x = create(10, 3 * sizeof(double)),
                  *y = create(10, 3 * sizeof(double));
    telpher_error err = {0};
    MPIX_Kernel_request requests[50];
    int ms = 20, size[] = {sizeof(ms)};
    void *args[] = {&ms};

    check(MPIX_Kernel_call("sleeps", 1, args, size, 0, comm, inter) == MPI_SUCCESS);
    for (int i = 0; i < 50; i++) {
        axpy(y, x, 1, &requests[i]);
    }
    check(telpher_array_free(&y, &err) == TELPHER_OK);
    check(telpher_array_free(&x, &err) == TELPHER_OK);
    check(MPIX_Kernel_waitall(50, requests, NULL) == MPI_SUCCESS);
}

/* Each is an error with words, and what follows works. */
static void
refusals(void)
{
    telpher_array *array = create(7, 8), *freed = array, *none = NULL;
    double block[7 + 1] = {0};
    int sizes[] = {sizeof(freed), sizeof(freed), sizeof(double)};
    double a = 1;
    void *args[] = {&freed, &none, &a};
    telpher_error err = {0};

    check(telpher_array_free(&array, &err) == TELPHER_OK);
    check(telpher_array_put(freed, block, &err) == TELPHER_ERR_INVALID);
    check(err.text[0] != '\0');
    check(telpher_array_get(freed, block, &err) == TELPHER_ERR_INVALID);
    array = freed;
    check(telpher_array_free(&array, &err) == TELPHER_ERR_INVALID && array == freed);
    check(telpher_array_put(NULL, block, &err) == TELPHER_ERR_INVALID);
    array = create(7, 8); /* perhaps where the other one was */
    check(array != freed);
    check(telpher_array_put(freed, block, &err) == TELPHER_ERR_INVALID);
    check(telpher_array_put(array, rank == 0 ? NULL : block, &err) ==
          TELPHER_ERR_INVALID);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    check((MPIX_Kernel_call("axpy", 3, args, sizes, 0, comm, inter) != MPI_SUCCESS) ==
          (rank == 0));
    check(telpher_array_free(&array, &err) == TELPHER_OK);
    check(telpher_array_create(5 + (uint64_t)rank, 1, 0, comm, inter, &array, &err) ==
          (parents > 1 ? TELPHER_ERR_INVALID : TELPHER_OK));
    check(parents > 1 || telpher_array_free(&array, &err) == TELPHER_OK);
    sizes[0] = 4;
    check((MPIX_Kernel_call("axpy", 3, args, sizes, 0, comm, inter) != MPI_SUCCESS) ==
          (rank == 0));
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_ARE_FATAL);
    check(telpher_array_create(UINT64_MAX, 2, 0, comm, inter, &none, &err) ==
          TELPHER_ERR_RANGE);
    check(telpher_array_create(UINT64_C(1) << 40, UINT64_C(1) << 20, 0, comm, inter,
                               &none, &err) == TELPHER_ERR_NO_MEMORY);
    check(none == NULL && strstr(err.text, "worker 0: out of memory") != NULL);
    compute(11);
}

/* The workers end, and all arrays with them. */
static void
ended(void)
{
    telpher_array *array = create(5, 8), *left = create(5, 8), *none = NULL;
    double block[5 + 1] = {0};
    telpher_error err = {0};

    check(MPIX_Kernel_call("", 0, NULL, NULL, parents - 1, comm, inter) == MPI_SUCCESS);
    check(telpher_array_put(array, block, &err) == TELPHER_ERR_PEER_LOST);
    check(telpher_array_create(5, 8, 0, comm, inter, &none, &err) ==
          TELPHER_ERR_PEER_LOST);
    check(telpher_offload_load("plugin.so", 0, comm, inter, &err) ==
          TELPHER_ERR_PEER_LOST);
    check(telpher_array_free(&array, &err) == TELPHER_ERR_PEER_LOST && array == NULL);
    MPI_Comm_disconnect(&inter);
    check(telpher_array_get(left, block, &err) == TELPHER_ERR_INVALID);
}

int
main(int argc, char **argv)
{
    static const uint64_t rows[] = {0, 1, 2, 7, 101, 4099};
    int wanted = argc > 2 ? atoi(argv[2]) : 1;

    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    check(argc > 1);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &parents);
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, wanted, MPI_INFO_NULL, 0, comm, &inter,
                   MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(inter, &workers);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        compute(rows[i]);
        over_and_back(rows[i]);
    }
    of_each_worker();
    large();
    freed_in_use();
    refusals();
    ended();
    if (rank == 0) {
        puts("arrays: good");
    }
    MPI_Finalize();
    return 0;
}
