/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: behind WORKER WORKERS [GROUPS]
 * Calls behind the end of the workers, which another parent told them: nobody waits for them, and
 * the workers' next group never sees them.
 */
#include "check.h"

enum { FEW = 10, MANY = 120, LONG_BYTES = 60000 };

static MPI_Comm comm, inter;
static int rank, parents;

static void
start(char *worker, int count)
{
    telpher_offload_params params = TELPHER_OFFLOAD_PARAMS_INIT;

    params.program = worker;
    params.workers = count;
    check(telpher_offload_start(&params, 0, comm, &inter, NULL) == TELPHER_OK);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
}

/* In order, by all parents in turn, and nothing else between. */
static void
number(int count)
{
    unsigned long i = 0;
    void *args[] = {&i};
    int size[] = {sizeof(i)};
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;

    for (; i < (unsigned long)count; i++) {
        check(MPIX_Kernel_call("numbered", 1, args, size, (int)i % parents, comm,
                               inter) == MPI_SUCCESS);
    }
    check(MPIX_Kernel_icall("count_numbered", 1, args, size, 0, comm, inter,
                            &request) == MPI_SUCCESS);
    check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS && status.result == 0);
}

/* More calls than leave without a report, and long ones. Roots that have heard of the end by then are
 * told so. */
static void
call_behind(int ender)
{
    static unsigned char bytes[LONG_BYTES];
    unsigned long sum = 0;
    void *args[] = {bytes, &sum};
    int sizes[] = {LONG_BYTES, sizeof(sum)};

    for (int i = 1; i < parents; i++) {
        int root = (ender + i) % parents;

        for (int k = 0; k < MANY; k++) {
            (void)MPIX_Kernel_call("nothing", 0, NULL, NULL, root, comm, inter);
        }
        (void)MPIX_Kernel_call("sum_bytes", 2, args, sizes, root, comm, inter);
    }
}

int
main(int argc, char **argv)
{
    char end[] = "", other[] = "not looked at";
    int groups;

    check(argc > 2);
    groups = argc > 3 ? atoi(argv[3]) : 6;
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &parents);
    check(parents > 1);
    for (int i = 0; i < groups; i++) {
        int ender = i % parents;

        start(argv[1], atoi(argv[2]));
        number(i % 2 == 0 ? FEW : 2 * MANY); /* where what was behind the last began */
        check(MPIX_Kernel_call(rank == ender ? end : other, 0, NULL, NULL, ender, comm,
                               inter) == MPI_SUCCESS);
        call_behind(ender);
        MPI_Comm_disconnect(&inter);
    }
    if (rank == 0) {
        printf("%d parents: good\n", parents);
    }
    MPI_Finalize();
    return 0;
}
