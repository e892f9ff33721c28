/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: TELPHER_OFFLOAD_WORKERS=C mpirun -np 1+C offload_perf [REPETITIONS]
 * What it costs to start N empty kernels of five doubles, one call each and in one batch, beside
 * a protocol by hand: send, broadcast of the size, broadcast of the arguments, switch. Inject
 * is the caller's time; launch ends when the last worker enters the last kernel. Times are
 * medians, on the clock that processes of one machine share.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/offload.h>
#include <time.h>

enum { KERNELS_MAX = 256, REPETITIONS_MAX = 1000, HAND_TAG = 5 };

static double entered;

static double
now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void
five(double a, double b, double c, double d, double e)
{
    entered = now_us();
    if (a != 1 || b != 2 || c != 3 || d != 4 || e != 5) {
        abort();
    }
}

/* The time of the last entry of all workers, for the parent. */
static void
tell_entry(void)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    MPI_Reduce(&entered, NULL, 1, MPI_DOUBLE, MPI_MAX, 0, parent);
}

struct by_hand {
    int kernel;
    double values[5];
};

/* The protocol by hand, until kernel 0 is asked for. */
static void
hand(void)
{
    struct by_hand *all = malloc(KERNELS_MAX * sizeof(*all));
    MPI_Comm parent;
    int rank, len = 0, go_on = 1;

    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (all != NULL && go_on) {
        if (rank == 0) {
            MPI_Status status;

            MPI_Recv(all, KERNELS_MAX * (int)sizeof(*all), MPI_BYTE, 0, HAND_TAG,
                     parent, &status);
            MPI_Get_count(&status, MPI_BYTE, &len);
        }
        MPI_Bcast(&len, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Bcast(all, len, MPI_BYTE, 0, MPI_COMM_WORLD);
        for (int i = 0; i < len / (int)sizeof(*all); i++) {
            const double *v = all[i].values;

            switch (all[i].kernel) {
            case 1:
                five(v[0], v[1], v[2], v[3], v[4]);
                break;
            default:
                go_on = 0;
            }
        }
    }
    free(all);
}

TELPHER_KERNEL(five, double, double, double, double, double)
TELPHER_KERNEL(tell_entry)
TELPHER_KERNEL(hand)

static MPI_Comm inter;
static double values[5] = {1, 2, 3, 4, 5};

static void
call(char *name)
{
    MPIX_Kernel_call(name, 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
}

static void
single(int count)
{
    void *args[] = {values, values + 1, values + 2, values + 3, values + 4};
    int sizes[] = {8, 8, 8, 8, 8};

    for (int i = 0; i < count; i++) {
        MPIX_Kernel_call("five", 5, args, sizes, 0, MPI_COMM_WORLD, inter);
    }
}

static void
batch(int count)
{
    static void *args[] = {values, values + 1, values + 2, values + 3, values + 4};
    static int sizes[] = {8, 8, 8, 8, 8};
    static char *names[KERNELS_MAX];
    static int counts[KERNELS_MAX], *all_sizes[KERNELS_MAX];
    static void **all_args[KERNELS_MAX];

    for (int i = 0; i < count; i++) {
        names[i] = "five";
        counts[i] = 5;
        all_args[i] = args;
        all_sizes[i] = sizes;
    }
    MPIX_Kernel_call_multiple(count, names, counts, all_args, all_sizes, 0,
                              MPI_COMM_WORLD, inter);
}

static void
fill(struct by_hand *one, int kernel)
{
    one->kernel = kernel;
    memcpy(one->values, values, sizeof(values));
}

static void
hand_single(int count)
{
    struct by_hand one;

    for (int i = 0; i < count; i++) {
        fill(&one, 1);
        MPI_Send(&one, sizeof(one), MPI_BYTE, 0, HAND_TAG, inter);
    }
}

static void
hand_batch(int count)
{
    static struct by_hand all[KERNELS_MAX];

    for (int i = 0; i < count; i++) {
        fill(&all[i], 1);
    }
    MPI_Send(all, count * (int)sizeof(*all), MPI_BYTE, 0, HAND_TAG, inter);
}

struct times {
    double inject[REPETITIONS_MAX], launch[REPETITIONS_MAX];
};

static int
compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double
median(double *all, int count)
{
    qsort(all, (size_t)count, sizeof(*all), compare);
    return all[count / 2];
}

/* One repetition; workers are idle for a moment before it, as between phases of a program. */
static void
measure(void (*start)(int), int count, int by_hand, double *ret_inject,
        double *ret_launch)
{
    const struct timespec gap = {0, 1000000};
    struct by_hand end = {0, {0}};
    double from, back, to = 0;

    if (by_hand) {
        call("hand");
    }
    nanosleep(&gap, NULL);
    from = now_us();
    start(count);
    back = now_us();
    if (by_hand) {
        MPI_Send(&end, sizeof(end), MPI_BYTE, 0, HAND_TAG, inter);
    }
    call("tell_entry");
    /* MPICH looks at the buffer that does not count here */
    MPI_Reduce(&from, &to, 1, MPI_DOUBLE, MPI_MAX, MPI_ROOT, inter);
    *ret_inject = back - from;
    *ret_launch = to - from;
}

int
main(int argc, char **argv)
{
    static void (*const starts[])(int) = {single, hand_single, batch, hand_batch};
    static struct times times[4];
    int repetitions = argc > 1 ? atoi(argv[1]) : 100, workers;
    telpher_error err = {0};

    MPI_Init(&argc, &argv);
    if (repetitions < 1 || repetitions > REPETITIONS_MAX ||
        telpher_offload_start(NULL, 0, MPI_COMM_WORLD, &inter, &err) != TELPHER_OK) {
        fprintf(stderr, "offload_perf: %s\n", err.text);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_remote_size(inter, &workers);
    printf("# %d workers by %s; us, medians of %d\n", workers,
           telpher_offload_mode_name(telpher_offload_mode_of(inter)), repetitions);
    printf(
        "# N  single: inject launch  by hand: inject launch  batch: inject launch  by "
        "hand: inject launch\n");
    for (int count = 1; count <= KERNELS_MAX; count *= 2) {
        for (int r = -5; r < repetitions;
             r++) { /* all by turns, so that all see the same */
            for (int way = 0; way < 4; way++) {
                measure(starts[way], count, way % 2, &times[way].inject[r > 0 ? r : 0],
                        &times[way].launch[r > 0 ? r : 0]);
            }
        }
        printf("%4d", count);
        for (int way = 0; way < 4; way++) {
            printf("  %8.2f %8.2f", median(times[way].inject, repetitions),
                   median(times[way].launch, repetitions));
        }
        printf("\n");
    }
    call("");
    MPI_Finalize();
    return 0;
}
