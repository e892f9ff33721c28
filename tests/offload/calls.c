/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: calls WORKER [WORKERS]
 * The calls of the paper and those beyond it, from a program written as the paper's: it spawns
 * WORKER, or gets the workers of its launch, and ends them with "".
 */
#include <string.h>

#include "check.h"

enum { ORDERED = 1000, BATCH = 128 }; /* a batch is longer than one message */

static MPI_Comm comm, inter;
static int rank, parents, workers;

static void
paper(void)
{
    double a = 1.5, values[64];
    int b = 42, count = 2;
    char c = 'x';
    void *args[] = {&a, &b, &c}, *echo_args[] = {&count};
    int sizes[] = {sizeof(a), sizeof(b), sizeof(c)}, echo_sizes[] = {sizeof(count)};

    check(MPIX_Kernel_call("kernel0", 3, args, sizes, 0, comm, inter) == MPI_SUCCESS);
    check(MPIX_Kernel_call("echo", 1, echo_args, echo_sizes, 0, comm, inter) ==
          MPI_SUCCESS);
    check(count * workers <= 64);
    for (int i = 0; i < count * workers; i++) {
        values[i] = 100 * rank + i;
    }
    MPI_Alltoall(values, count, MPI_DOUBLE, values, 0, MPI_DOUBLE, inter);
    memset(values, 0, sizeof(values));
    MPI_Alltoall(values, 0, MPI_DOUBLE, values, count, MPI_DOUBLE, inter);
    for (int i = 0; i < count * workers; i++) {
        check(values[i] == 2 * (100 * rank + i));
    }
}

/* Single calls and batches, and roots that change: in the order of the calls. */
static void
order(void)
{
    unsigned long n = 0;

    for (int round = 0; n < ORDERED; round++) {
        int root = round % parents;

        if (round % 3 != 2) {
            void *args[] = {&n};
            int sizes[] = {sizeof(n)};

            check(MPIX_Kernel_call("numbered", 1, args, sizes, root, comm, inter) ==
                  MPI_SUCCESS);
            n++;
        } else {
            unsigned long numbers[BATCH];
            void *args[BATCH][1], **all_args[BATCH];
            int size[] = {sizeof(n)}, *sizes[BATCH], counts[BATCH];
            char *names[BATCH];

            for (int i = 0; i < BATCH; i++) {
                numbers[i] = n++;
                args[i][0] = &numbers[i];
                all_args[i] = args[i];
                sizes[i] = size;
                counts[i] = 1;
                names[i] = "numbered";
            }
            check(MPIX_Kernel_call_multiple(BATCH, names, counts, all_args, sizes, root,
                                            comm, inter) == MPI_SUCCESS);
        }
    }
    {
        MPIX_Kernel_request request;
        MPIX_Kernel_status status;
        void *args[] = {&n};
        int sizes[] = {sizeof(n)};

        check(MPIX_Kernel_icall("count_numbered", 1, args, sizes, 0, comm, inter,
                                &request) == MPI_SUCCESS);
        check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS);
        check(request == MPIX_KERNEL_REQUEST_NULL && status.result == 0);
    }
}

/* At parents that are not the root nothing is looked at. */
static void
only_the_root_counts(void)
{
    double a = 1.5;
    int b = 42;
    char c = 'x';
    void *args[] = {&a, &b, &c};
    int sizes[] = {sizeof(a), sizeof(b), sizeof(c)};
    int root = parents - 1;

    if (rank == root) {
        check(MPIX_Kernel_call("kernel0", 3, args, sizes, root, comm, inter) ==
              MPI_SUCCESS);
    } else {
        check(MPIX_Kernel_call(NULL, -1, NULL, NULL, root, comm, inter) == MPI_SUCCESS);
    }
}

static void
results(void)
{
    MPIX_Kernel_request requests[3];
    MPIX_Kernel_status statuses[3];
    int at = workers - 1, result = 7, flag = 0;
    void *args[] = {&at, &result};
    int sizes[] = {sizeof(at), sizeof(result)};

    for (int i = 0; i < 3; i++) {
        result = 7 + i;
        check(MPIX_Kernel_icall("fails_at", 2, args, sizes, i % parents, comm, inter,
                                &requests[i]) == MPI_SUCCESS);
    }
    check(MPIX_Kernel_waitall(3, requests, statuses) == MPI_SUCCESS);
    for (int i = 0; i < 3; i++) {
        char text[64];

        snprintf(text, sizeof(text), "worker %d has no luck", at);
        check(statuses[i].result == 7 + i && statuses[i].rank == at);
        check(strcmp(statuses[i].text, text) == 0);
    }
    check(MPIX_Kernel_icall("nothing", 0, NULL, NULL, 0, comm, inter, &requests[0]) ==
          MPI_SUCCESS);
    while (!flag) {
        check(MPIX_Kernel_test(&requests[0], &flag, &statuses[0]) == MPI_SUCCESS);
    }
    check(statuses[0].result == 0 && requests[0] == MPIX_KERNEL_REQUEST_NULL);
}

/* All of any size arrive whole, also behind a kernel that sleeps. */
static void
sizes_of_all_kinds(void)
{
    static const size_t lens[] = {0, 1, 15, 4096, 65000, 65536, 300001, 8 << 20};
    int ms = 20;
    void *sleep_args[] = {&ms};
    int sleep_sizes[] = {sizeof(ms)};

    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        unsigned char *bytes = malloc(lens[i] + 1);
        unsigned long sum = 0;
        void *args[] = {bytes, &sum};
        int sizes[] = {(int)lens[i], sizeof(sum)};
        MPIX_Kernel_request request;
        MPIX_Kernel_status status;

        for (size_t k = 0; k < lens[i]; k++) {
            bytes[k] = (unsigned char)(k * 7 + i);
            sum += bytes[k];
        }
        check(MPIX_Kernel_call("sleeps", 1, sleep_args, sleep_sizes, 0, comm, inter) ==
              MPI_SUCCESS);
        check(MPIX_Kernel_icall("sum_bytes", 2, args, sizes, 0, comm, inter,
                                &request) == MPI_SUCCESS);
        memset(bytes, 0, lens[i]); /* it may be changed now */
        check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS);
        check(status.result == 0);
        free(bytes);
    }
}

/* Wrong calls are refused by the caller, and later calls still work. */
static void
refusals(void)
{
    int value = 1;
    long wide = 1;
    void *args[] = {&value, &value, &value}, *wide_args[] = {&wide};
    int sizes[] = {4, 4, 4}, wide_sizes[] = {8};
    int root = parents - 1, mine = rank == root;

    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    check((MPIX_Kernel_call("kernel1", 0, NULL, NULL, root, comm, inter) !=
           MPI_SUCCESS) == mine);
    check((MPIX_Kernel_call("abort", 0, NULL, NULL, root, comm, inter) !=
           MPI_SUCCESS) == mine);
    check((MPIX_Kernel_call("system", 1, wide_args, wide_sizes, root, comm, inter) !=
           MPI_SUCCESS) == mine);
    check((MPIX_Kernel_call("main", 0, NULL, NULL, root, comm, inter) != MPI_SUCCESS) ==
          mine);
    check((MPIX_Kernel_call("kernel0", 2, args, sizes, root, comm, inter) !=
           MPI_SUCCESS) == mine);
    check((MPIX_Kernel_call("kernel0", 3, args, sizes, root, comm, inter) !=
           MPI_SUCCESS) == mine);
    check((MPIX_Kernel_call("sleeps", 1, wide_args, wide_sizes, root, comm, inter) !=
           MPI_SUCCESS) == mine);
    check((MPIX_Kernel_call("sleeps", -1, wide_args, wide_sizes, root, comm, inter) !=
           MPI_SUCCESS) == mine);
    wide_args[0] = NULL;
    sizes[0] = 4;
    check((MPIX_Kernel_call("sleeps", 1, wide_args, sizes, root, comm, inter) !=
           MPI_SUCCESS) == mine);
    check(MPIX_Kernel_call("nothing", 0, NULL, NULL, parents, comm, inter) !=
          MPI_SUCCESS);
    check(MPIX_Kernel_call("nothing", 0, NULL, NULL, -1, comm, inter) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_ARE_FATAL);
    paper();
}

static void
typed_launches(void)
{
    static const telpher_kernel_arg wrong[] = {{'f', 4, 4}}, right[] = {{'i', 4, 4}};
    int ms = 0;
    void *args[] = {&ms};
    const uint64_t sizes[] = {sizeof(ms)};
    telpher_launch launch = {sizeof(launch), 1, "sleeps", args, sizes, right};
    telpher_error err = {0};

    check(telpher_offload_launch(1, &launch, 0, comm, inter, NULL, &err) == TELPHER_OK);
    launch.sizes = NULL;
    check((telpher_offload_launch(1, &launch, 0, comm, inter, NULL, &err) ==
           TELPHER_ERR_INVALID) == (rank == 0));
    launch.sizes = sizes;
    launch.types = wrong;
    if (rank == 0) {
        check(telpher_offload_launch(1, &launch, 0, comm, inter, NULL, &err) ==
              TELPHER_ERR_INVALID);
        check(strstr(err.text, "declared int") != NULL);
    } else {
        check(telpher_offload_launch(1, &launch, 0, comm, inter, NULL, &err) ==
              TELPHER_OK);
    }
}

/* The program's own messages on the intercommunicator are left alone. */
static void
messages_of_the_program(void)
{
    int ms = 1;
    void *args[] = {&ms};
    int sizes[] = {sizeof(ms)}, found = 1;

    check(MPIX_Kernel_call("sleeps", 1, args, sizes, 0, comm, inter) == MPI_SUCCESS);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &found, MPI_STATUS_IGNORE);
    check(!found);
}

/* The workers end behind a kernel, and who asked is told. */
static void
ends(void)
{
    int ms = 1;
    void *args[] = {&ms};
    const uint64_t sizes[] = {sizeof(ms)};
    const telpher_launch launches[] = {
        {sizeof(launches[0]), 1, "sleeps", args, sizes, NULL},
        {sizeof(launches[0]), 0, "", NULL, NULL, NULL},
    };
    MPIX_Kernel_request request;
    telpher_error err = {0};
    telpher_status status;

    check(telpher_offload_launch(2, launches, 0, comm, inter, &request, &err) ==
          TELPHER_OK);
    check(MPIX_Kernel_wait(&request, NULL) == MPI_SUCCESS);
    if (rank == 0) {
        check(telpher_offload_launch(1, launches, 0, comm, inter, NULL, &err) ==
              TELPHER_ERR_PEER_LOST);
        check(strstr(err.text, "told to end") != NULL);
    } else { /* it counts the call, too */
        (void)telpher_offload_launch(1, launches, 0, comm, inter, NULL, NULL);
    }
    /* a root that has not told them may not know yet, but nobody waits for ever */
    status =
        telpher_offload_launch(1, launches, parents - 1, comm, inter, &request, &err);
    while (status == TELPHER_OK || status == TELPHER_IN_PROGRESS) {
        status = telpher_offload_test(&request, NULL);
        check(status != TELPHER_OK);
    }
    check(status == TELPHER_ERR_PEER_LOST);
}

int
main(int argc, char **argv)
{
    int wanted = argc > 2 ? atoi(argv[2]) : 1;

    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    check(argc > 1);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &parents);
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, wanted, MPI_INFO_NULL, 0, comm, &inter,
                   MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(inter, &workers);
    check(workers == wanted);
    paper();
    order();
    only_the_root_counts();
    results();
    sizes_of_all_kinds();
    refusals();
    typed_launches();
    messages_of_the_program();
    if (rank == 0) {
        printf("%d parents, %d workers by %s: good\n", parents, workers,
               telpher_offload_mode_name(telpher_offload_mode_of(inter)));
    }
    ends();
    MPI_Finalize();
    return 0;
}
