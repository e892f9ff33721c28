/* SPDX-License-Identifier: Apache-2.0 */
/* Parents: kernels started by the library, and by hand. launch_ways.h */
#include "bench/launch/launch_ways.h"

#include <string.h>
#include <telpher/offload.h>

#include "bench/launch/launch.h"

static MPI_Comm comm, inter;
static int workers;

/* Arguments of a kernel that others follow, and of the last. */
static double values[2][5] = {{1, 2, 3, 4, 5}, {1, 2, 3, 4, LAUNCH_LAST}};
static void *args[2][5];
static int sizes[5] = {8, 8, 8, 8, 8};

static char *names[LAUNCH_KERNELS_MAX];
static int counts[LAUNCH_KERNELS_MAX], *all_sizes[LAUNCH_KERNELS_MAX];
static void **all_args[LAUNCH_KERNELS_MAX];
static struct launch_hand_kernel by_hand[LAUNCH_KERNELS_MAX];

void
launch_ways_init(MPI_Comm parents, MPI_Comm group)
{
    static char five[] = "launch_five";

    comm = parents;
    inter = group;
    MPI_Comm_remote_size(inter, &workers);
    for (int i = 0; i < 5; i++) {
        args[0][i] = &values[0][i];
        args[1][i] = &values[1][i];
    }
    for (int i = 0; i < LAUNCH_KERNELS_MAX; i++) {
        names[i] = five;
        counts[i] = 5;
        all_sizes[i] = sizes;
        all_args[i] = args[0];
    }
}

void
launch_ways_flip(bool wrong)
{
    double right = values[0][2];

    memcpy(&values[1][2], &right, sizeof(right));
    ((uint8_t *)&values[1][2])[6] ^= wrong ? 0x40 : 0;
}

static void
single(int count)
{
    for (int i = 0; i < count; i++) {
        MPIX_Kernel_call(names[0], 5, args[i + 1 == count], sizes, 0, comm, inter);
    }
}

static void
batch(int count)
{
    all_args[count - 1] = args[1];
    MPIX_Kernel_call_multiple(count, names, counts, all_args, all_sizes, 0, comm,
                              inter);
    all_args[count - 1] = args[0];
}

static void
write_by_hand(struct launch_hand_kernel *k, int count, bool is_last)
{
    k->number = LAUNCH_HAND_FIVE;
    k->count = count;
    memcpy(k->values, values[is_last], sizeof(k->values));
}

static void
hand_single(int count)
{
    struct launch_hand_kernel one;

    for (int i = 0; i < count; i++) {
        write_by_hand(&one, 1, i + 1 == count);
        MPI_Send(&one, sizeof(one), MPI_BYTE, 0, LAUNCH_HAND_TAG, inter);
    }
}

static void
hand_batch(int count)
{
    for (int i = 0; i < count; i++) {
        write_by_hand(&by_hand[i], count, i + 1 == count);
    }
    MPI_Send(by_hand, count * (int)sizeof(*by_hand), MPI_BYTE, 0, LAUNCH_HAND_TAG,
             inter);
}

const struct launch_way launch_ways[LAUNCH_WAYS] = {
    {"single", "MPIX_Kernel_call", 0, single},
    {"hand_single", "by hand, one broadcast", 1, hand_single},
    {"paper_single", "by hand, two broadcasts", 2, hand_single},
    {"batch", "MPIX_Kernel_call_multiple", 0, batch},
    {"hand_batch", "batch by hand, one broadcast and the rest", 1, hand_batch},
    {"paper_batch", "batch by hand, two broadcasts", 2, hand_batch},
};

void
launch_hand_begin(int broadcasts)
{
    void *arg[] = {&broadcasts};
    int size[] = {sizeof(broadcasts)};

    MPIX_Kernel_call((char *)"launch_hand", 1, arg, size, 0, comm, inter);
}

void
launch_hand_end(void)
{
    struct launch_hand_kernel end = {.number = LAUNCH_HAND_END, .count = 1};

    MPI_Send(&end, sizeof(end), MPI_BYTE, 0, LAUNCH_HAND_TAG, inter);
}

static void
call(const char *name)
{
    MPIX_Kernel_call((char *)name, 0, NULL, NULL, 0, comm, inter);
}

void
launch_fetch(struct launch_stamp *stamps)
{
    int rank;

    MPI_Comm_rank(comm, &rank);
    call("launch_fetch_kernel");
    for (int i = 0; rank == 0 && i < workers; i++) {
        MPI_Recv(&stamps[i], sizeof(stamps[i]), MPI_BYTE, i, LAUNCH_STAMP_TAG, inter,
                 MPI_STATUS_IGNORE);
    }
    MPI_Barrier(comm);
}

void
launch_clocks_begin(void)
{
    call("launch_clock");
}

void
launch_workers_end(void)
{
    call("");
}
