/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: queue WORKER [WORKERS [MIXED-CALLS]]
 * Kernels never wait for the program, and calls never for kernels: large ones behind a kernel that needs its input, and 100,000
 * behind one that sleeps, while memory and descriptors of both sides stay as they are.
 */
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "usage.h"

enum { QUEUED = 100000, MIXED = 4000, LARGE = 1 << 20, GROWTH_MAX_KIB = 16 * 1024 };

/* A sanitizer's heap grows with what the MPI allocates and frees. */
#ifdef __SANITIZE_ADDRESS__
enum { MIXED_GROWTH_MAX_KIB = 16 * 1024 };
#else
enum { MIXED_GROWTH_MAX_KIB = 1024 };
#endif

static MPI_Comm comm = MPI_COMM_NULL, inter;
static int rank, parents, workers, mixed = MIXED;

/* The most that a worker uses, at parent 0. */
static struct usage
usage_of_workers(void)
{
    struct usage most = {0, 0, 0}, one;

    check(MPIX_Kernel_call("tell_usage", 0, NULL, NULL, 0, comm, inter) == MPI_SUCCESS);
    for (int i = 0; rank == 0 && i < workers; i++) {
        MPI_Recv(&one, sizeof(one), MPI_BYTE, i, USAGE_TAG, inter, MPI_STATUS_IGNORE);
        most.now_kib = one.now_kib > most.now_kib ? one.now_kib : most.now_kib;
        most.peak_kib = one.peak_kib > most.peak_kib ? one.peak_kib : most.peak_kib;
        most.descriptors += one.descriptors;
    }
    MPI_Barrier(comm);
    return most;
}

/* A waits for its input; B, large, is called before that is sent. */
static void
large_behind_waiting(void)
{
    int count = 1, result = 0;
    unsigned char *bytes = calloc(1, LARGE);
    unsigned long sum = 0;
    void *echo_args[] = {&count}, *sum_args[] = {bytes, &sum};
    int echo_sizes[] = {sizeof(count)}, sum_sizes[] = {LARGE, sizeof(sum)};
    double values[64] = {0};
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;

    for (int round = 0; round < 3; round++) {
        check(MPIX_Kernel_call("echo", 1, echo_args, echo_sizes, 0, comm, inter) ==
              MPI_SUCCESS);
        check(MPIX_Kernel_icall("sum_bytes", 2, sum_args, sum_sizes, 0, comm, inter,
                                &request) == MPI_SUCCESS);
        check(MPIX_Kernel_call("nothing", 0, NULL, NULL, 0, comm, inter) ==
              MPI_SUCCESS);
        MPI_Alltoall(values, count, MPI_DOUBLE, values, 0, MPI_DOUBLE, inter);
        MPI_Alltoall(values, 0, MPI_DOUBLE, values, count, MPI_DOUBLE, inter);
        check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS);
        result += status.result;
    }
    check(result == 0);
    free(bytes);
}

/* The result of a kernel far back in the queue comes while this process sits in MPI. */
static void
results_from_the_end_of_the_queue(void)
{
    int ms = 20, count = 1;
    double d[5] = {1, 2, 3, 4, 5}, values[64] = {3};
    void *sleep_args[] = {&ms}, *args[] = {d, d + 1, d + 2, d + 3, d + 4};
    void *echo_args[] = {&count};
    int size[] = {sizeof(ms)}, sizes[] = {8, 8, 8, 8, 8};

    check(MPIX_Kernel_call("sleeps", 1, sleep_args, size, 0, comm, inter) ==
          MPI_SUCCESS);
    for (int i = 0; i < 5000; i++) {
        check(MPIX_Kernel_call("five", 5, args, sizes, 0, comm, inter) == MPI_SUCCESS);
    }
    check(MPIX_Kernel_call("echo", 1, echo_args, size, 0, comm, inter) == MPI_SUCCESS);
    MPI_Alltoall(values, count, MPI_DOUBLE, values, 0, MPI_DOUBLE, inter);
    MPI_Alltoall(values, 0, MPI_DOUBLE, values, count, MPI_DOUBLE, inter);
    check(values[0] == 6);
}

/*
 * Kernels run while the program is in no MPI call: behind reports that it has not taken, behind
 * arguments so long that an MPI only begins to send them, and behind more messages than
 * an MPI passes on to a worker that sleeps.
 */
static void
kernels_go_on_alone(int len, int ms)
{
    enum { CALLS = 200 };
    unsigned char *bytes = calloc(1, (size_t)len);
    unsigned long sum = 0;
    double d[5] = {1, 2, 3, 4, 5};
    void *args[] = {d, d + 1, d + 2, d + 3, d + 4}, *sum_args[] = {bytes, &sum};
    int sizes[] = {8, 8, 8, 8, 8}, sum_sizes[] = {len, sizeof(sum)};
    char path[] = "/tmp/telpher-offload-XXXXXX";
    void *touch_args[] = {path}, *sleep_args[] = {&ms};
    int touch_sizes[] = {sizeof(path) - 1}, file = rank == 0 ? mkstemp(path) : -1;
    int sleep_sizes[] = {sizeof(ms)};
    double end;

    check(bytes != NULL && (rank != 0 || file >= 0));
    if (rank == 0) {
        close(file);
        unlink(path);
    }
    check(MPIX_Kernel_call("sleeps", 1, sleep_args, sleep_sizes, 0, comm, inter) ==
          MPI_SUCCESS);
    for (int i = 0; i < CALLS; i++) {
        check(MPIX_Kernel_call("five", 5, args, sizes, 0, comm, inter) == MPI_SUCCESS);
    }
    check(MPIX_Kernel_call("sum_bytes", 2, sum_args, sum_sizes, 0, comm, inter) ==
          MPI_SUCCESS);
    check(MPIX_Kernel_call("touches", 1, touch_args, touch_sizes, 0, comm, inter) ==
          MPI_SUCCESS);
    for (end = seconds() + 30; rank == 0 && access(path, F_OK) != 0;) {
        check(seconds() < end);
        usleep(1000);
    }
    unlink(path);
    free(bytes);
    MPI_Barrier(comm);
}

static void
many_behind_a_sleeper(void)
{
    double d[5] = {1, 2, 3, 4, 5};
    void *args[] = {d, d + 1, d + 2, d + 3, d + 4};
    int sizes[] = {8, 8, 8, 8, 8}, ms = 500;
    void *sleep_args[] = {&ms};
    int sleep_sizes[] = {sizeof(ms)};
    struct usage before, after;

    for (int i = 0; i < 2000; i++) { /* what is allocated once is */
        check(MPIX_Kernel_call("five", 5, args, sizes, 0, comm, inter) == MPI_SUCCESS);
    }
    before = usage_of_workers();
    check(MPIX_Kernel_call("sleeps", 1, sleep_args, sleep_sizes, 0, comm, inter) ==
          MPI_SUCCESS);
    for (int i = 0; i < QUEUED; i++) {
        check(MPIX_Kernel_call("five", 5, args, sizes, 0, comm, inter) == MPI_SUCCESS);
    }
    after = usage_of_workers();
    if (rank == 0) {
        printf("%d queued: workers' memory %ld KiB, at most %ld KiB\n", QUEUED,
               before.now_kib, after.peak_kib);
        check(after.peak_kib - before.now_kib <= GROWTH_MAX_KIB);
    }
}

/* One of four kinds of calls. */
static void
mixed_call(int i)
{
    static unsigned char bytes[20000];
    unsigned long sum = 0;
    double d[5] = {1, 2, 3, 4, 5};
    int ms = 0, root = i % parents;
    void *sum_args[] = {bytes, &sum}, *sleep_args[] = {&ms};
    void *args[] = {d, d + 1, d + 2, d + 3, d + 4};
    void **both[] = {args, sleep_args};
    int sizes[] = {8, 8, 8, 8, 8}, size[] = {sizeof(ms)}, *both_sizes[] = {sizes, size};
    int sum_sizes[] = {i % (int)sizeof(bytes), sizeof(sum)}, counts[] = {5, 1};
    char five[] = "five", sleeps[] = "sleeps", *names[] = {five, sleeps};
    MPIX_Kernel_request request = MPIX_KERNEL_REQUEST_NULL;
    int rc;

    switch (i % 8) {
    case 0:
        rc = MPIX_Kernel_icall("sum_bytes", 2, sum_args, sum_sizes, 0, comm, inter,
                               &request);
        break;
    case 1:
        rc = MPIX_Kernel_icall("nothing", 0, NULL, NULL, root, comm, inter, &request);
        break;
    case 2:
        rc = MPIX_Kernel_call_multiple(2, names, counts, both, both_sizes, root, comm,
                                       inter);
        break;
    default:
        rc = MPIX_Kernel_call(five, 5, args, sizes, root, comm, inter);
    }
    check(rc == MPI_SUCCESS);
    check(MPIX_Kernel_wait(&request, NULL) == MPI_SUCCESS);
}

static void
mixed_calls_leave_nothing(void)
{
    struct usage before = {0, 0, 0}, after, mine = {0, 0, 0}, mine_after;

    for (int i = 0; i < mixed; i++) {
        if (i == mixed / 4) {
            before = usage_of_workers();
            usage_of_self(&mine);
        }
        mixed_call(i);
    }
    after = usage_of_workers();
    usage_of_self(&mine_after);
    check(mine_after.descriptors == mine.descriptors);
    check(mine_after.now_kib - mine.now_kib <= MIXED_GROWTH_MAX_KIB);
    if (rank == 0) {
        printf("%d mixed: workers' memory %ld KiB, then %ld KiB, descriptors %ld, then "
               "%ld; the program's memory %ld KiB, then %ld KiB\n",
               mixed, before.now_kib, after.now_kib, before.descriptors,
               after.descriptors, mine.now_kib, mine_after.now_kib);
        check(after.descriptors == before.descriptors);
        check(after.now_kib - before.now_kib <= MIXED_GROWTH_MAX_KIB);
    }
}

int
main(int argc, char **argv)
{
    int wanted = argc > 2 ? atoi(argv[2]) : 1;

    if (argc > 3) {
        mixed = atoi(argv[3]);
    }
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    check(argc > 1);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &parents);
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, wanted, MPI_INFO_NULL, 0, comm, &inter,
                   MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(inter, &workers);
    large_behind_waiting();
    results_from_the_end_of_the_queue();
    kernels_go_on_alone(60000, 0);
    kernels_go_on_alone(100, 50);
    many_behind_a_sleeper();
    mixed_calls_leave_nothing();
    check(MPIX_Kernel_call("", 0, NULL, NULL, 0, comm, inter) == MPI_SUCCESS);
    MPI_Comm_disconnect(&inter);
    check(inter == MPI_COMM_NULL);
    MPI_Finalize();
    return 0;
}
