/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: after WORKER WORKERS
 * Several groups at once, of WORKERS / 2 each, whose kernels wait for those of the other, while
 * the parents go on; also in chains, behind requests that are freed, and up to the end.
 */
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { TAG_GO = 90, TAG_STEP = 91 };

static MPI_Comm comm, first, second;
static int rank, parents, workers;

/* A kernel that waits for go(). */
static MPIX_Kernel_request
waits_for_go(MPI_Comm inter)
{
    MPIX_Kernel_request request;
    int size[] = {sizeof(int)}, tag = TAG_GO;
    void *args[] = {&tag};

    check(MPIX_Kernel_icall("waits_for", 1, args, size, 0, comm, inter, &request) ==
          MPI_SUCCESS);
    return request;
}

/* All parents have looked before. */
static void
go(MPI_Comm inter)
{
    MPI_Barrier(comm);
    for (int i = 0; rank == 0 && i < workers; i++) {
        MPI_Send(&i, 1, MPI_INT, i, TAG_GO, inter);
    }
}

/* A kernel that says when it ran. */
static MPIX_Kernel_request
step(MPI_Comm inter, int root)
{
    MPIX_Kernel_request request;
    int size[] = {sizeof(int)}, tag = TAG_STEP;
    void *args[] = {&tag};

    check(MPIX_Kernel_icall("tells_time", 1, args, size, root, comm, inter, &request) ==
          MPI_SUCCESS);
    return request;
}

/* When the kernel began in the first worker, and ended in the last. */
static void
times(MPI_Comm inter, double ret_times[2])
{
    double told[2];

    ret_times[0] = 1e300;
    ret_times[1] = 0;
    for (int i = 0; rank == 0 && i < workers; i++) {
        MPI_Recv(told, 2, MPI_DOUBLE, i, TAG_STEP, inter, MPI_STATUS_IGNORE);
        ret_times[0] = told[0] < ret_times[0] ? told[0] : ret_times[0];
        ret_times[1] = told[1] > ret_times[1] ? told[1] : ret_times[1];
    }
}

static void
after(MPI_Comm inter, MPIX_Kernel_request request)
{
    check(MPIX_Kernel_after(1, &request, comm, inter) == MPI_SUCCESS);
}

static int
is_done(MPIX_Kernel_request *request)
{
    int flag;

    check(MPIX_Kernel_test(request, &flag, NULL) == MPI_SUCCESS);
    return flag;
}

/* No call blocks; what waits runs when it may, while the program sits in MPI. */
static void
one_for_the_other(void)
{
    MPIX_Kernel_request a = waits_for_go(first), b;
    double told[2];
    int found = 0;

    after(second, a);
    b = step(second, parents - 1);
    check(!is_done(&a) && !is_done(&b));
    usleep(20000);
    if (rank == 0) {
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_STEP, second, &found, MPI_STATUS_IGNORE);
    }
    check(!found && !is_done(&b));
    go(first);
    if (getenv("TELPHER_OFFLOAD_THREAD") == NULL) { /* nobody calls the library */
        times(second, told);
        check(MPIX_Kernel_wait(&b, NULL) == MPI_SUCCESS);
    } else {
        check(MPIX_Kernel_wait(&b, NULL) == MPI_SUCCESS);
        times(second, told);
    }
    check(MPIX_Kernel_wait(&a, NULL) == MPI_SUCCESS);
}

/* Each behind the one before, by turns; requests are freed before they are looked at. */
static void
there_and_back(void)
{
    enum { STEPS = 6 };
    MPIX_Kernel_request last = waits_for_go(first), requests[STEPS];
    double told[2], before = 0;

    after(second, last);
    for (int i = 0; i < STEPS; i++) {
        requests[i] = step(i % 2 != 0 ? first : second, i % parents);
        after(i % 2 != 0 ? second : first, requests[i]);
    }
    check(MPIX_Kernel_call("nothing", 0, NULL, NULL, 0, comm, second) == MPI_SUCCESS);
    go(first);
    check(MPIX_Kernel_wait(&last, NULL) == MPI_SUCCESS);
    check(MPIX_Kernel_waitall(STEPS, requests, NULL) == MPI_SUCCESS);
    for (int i = 0; i < STEPS; i++) {
        times(i % 2 != 0 ? first : second, told);
        check(rank != 0 || told[0] >= before);
        before = told[1];
    }
}

/* Many at once, null and done ones among them; and those of the same workers. */
static void
several(void)
{
    MPIX_Kernel_request requests[5] = {MPIX_KERNEL_REQUEST_NULL}, end;
    double told[2];

    requests[1] = step(first, 0);
    while (!is_done(&requests[1])) {
        usleep(100);
    }
    times(first, told);
    requests[1] = step(first, 0);
    requests[2] = waits_for_go(first);
    requests[3] = step(second, 0);
    requests[4] = step(first, parents - 1);
    check(MPIX_Kernel_after(5, requests, comm, second) == MPI_SUCCESS);
    end = step(second, 0);
    check(MPIX_Kernel_after(0, NULL, comm, second) == MPI_SUCCESS);
    check(!is_done(&end));
    go(first);
    check(MPIX_Kernel_waitall(5, requests, NULL) == MPI_SUCCESS);
    check(MPIX_Kernel_wait(&end, NULL) == MPI_SUCCESS);
    for (int i = 0; i < 2; i++) {
        times(first, told);
        times(second, told);
    }
    after(second, end); /* null */
}

/* An array is put and got behind the dependency. */
static void
with_arrays(void)
{
    MPIX_Kernel_request a;
    telpher_array *array = NULL;
    uint64_t rows = 9, mine = telpher_block_first(rows, parents, rank + 1) -
                              telpher_block_first(rows, parents, rank);
    int in[9 + 1], out[9 + 1] = {0};

    check(telpher_array_create(rows, sizeof(int), 0, comm, second, &array, NULL) ==
          TELPHER_OK);
    for (int i = 0; i < 9; i++) {
        in[i] = 100 * rank + i;
    }
    a = waits_for_go(first);
    after(second, a);
    check(MPIX_Kernel_call("nothing", 0, NULL, NULL, 0, comm, second) == MPI_SUCCESS);
    go(first);
    check(telpher_array_put(array, in, NULL) == TELPHER_OK);
    check(MPIX_Kernel_wait(&a, NULL) == MPI_SUCCESS);
    check(telpher_array_get(array, out, NULL) == TELPHER_OK);
    check(memcmp(in, out, mine * sizeof(int)) == 0);
    check(telpher_array_free(&array, NULL) == TELPHER_OK);
}

/* One group's arrays are nothing to another. */
static void
arrays_have_their_workers(void)
{
    telpher_array *array = NULL;
    unsigned long sum = 0;
    int sizes[] = {sizeof(array), sizeof(sum)};
    void *args[] = {&array, &sum};

    check(telpher_array_create(5, 1, 0, comm, first, &array, NULL) == TELPHER_OK);
    check(MPIX_Kernel_call("sum_rows", 2, args, sizes, 0, comm, first) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(second, MPI_ERRORS_RETURN);
    check((MPIX_Kernel_call("sum_rows", 2, args, sizes, 0, comm, second) !=
           MPI_SUCCESS) == (rank == 0));
    MPI_Comm_set_errhandler(second, MPI_ERRORS_ARE_FATAL);
    check(telpher_array_free(&array, NULL) == TELPHER_OK);
}

int
main(int argc, char **argv)
{
    MPIX_Kernel_request a, b;

    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    check(argc > 2);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &parents);
    workers = atoi(argv[2]) / 2;
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, workers, MPI_INFO_NULL, 0, comm, &first,
                   MPI_ERRCODES_IGNORE);
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, workers, MPI_INFO_NULL, 0, comm, &second,
                   MPI_ERRCODES_IGNORE);
    one_for_the_other();
    there_and_back();
    several();
    with_arrays();
    arrays_have_their_workers();
    /* the end, too, has its turn */
    a = waits_for_go(first);
    after(second, a);
    check(MPIX_Kernel_icall("nothing", 0, NULL, NULL, 0, comm, second, &b) ==
          MPI_SUCCESS);
    check(MPIX_Kernel_call("", 0, NULL, NULL, 0, comm, second) == MPI_SUCCESS);
    go(first);
    MPI_Comm_disconnect(&second);
    check(is_done(&a) && is_done(&b));
    MPI_Finalize(); /* ends the first */
    if (rank == 0) {
        puts("after: good");
    }
    return 0;
}
