/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of telpher-bench launch. */
#include <telpher/offload.h>

#include "bench/launch/launch.h"
#include "bench/launch/launch_time.h"
#include "bench/launch/launch_ways.h"

static struct launch_stamp stamp;

/* The kernel that is started: nearly nothing. */
static void
launch_five(double a, double b, double c, double d, double e)
{
    if (e == LAUNCH_LAST) {
        stamp.entry_us = launch_now_us();
        stamp.exit_us = stamp.entry_us;
    }
    stamp.kernels++;
    if (a != 1 || b != 2 || c != 3 || d != 4 || (e != 5 && e != LAUNCH_LAST)) {
        stamp.wrong++;
    }
    if (e == LAUNCH_LAST) {
        stamp.exit_us = launch_now_us();
    }
}

/* The next message of the parent, at all workers; one broadcast more for a batch. */
static void
next_by_count(struct launch_hand_kernel *all, int rank, MPI_Comm parent)
{
    if (rank == 0) {
        MPI_Recv(all, LAUNCH_KERNELS_MAX * (int)sizeof(*all), MPI_BYTE, 0,
                 LAUNCH_HAND_TAG, parent, MPI_STATUS_IGNORE);
    }
    MPI_Bcast(all, sizeof(*all), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (all->count > 1) {
        MPI_Bcast(all + 1, (all->count - 1) * (int)sizeof(*all), MPI_BYTE, 0,
                  MPI_COMM_WORLD);
    }
}

/* As the paper does it: first how long the message is, then the message. */
static void
next_by_length(struct launch_hand_kernel *all, int rank, MPI_Comm parent)
{
    MPI_Status status;
    int len = 0;

    if (rank == 0) {
        MPI_Recv(all, LAUNCH_KERNELS_MAX * (int)sizeof(*all), MPI_BYTE, 0,
                 LAUNCH_HAND_TAG, parent, &status);
        MPI_Get_count(&status, MPI_BYTE, &len);
    }
    MPI_Bcast(&len, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(all, len, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void
launch_hand(int broadcasts)
{
    static struct launch_hand_kernel all[LAUNCH_KERNELS_MAX];
    MPI_Comm parent;
    int rank;

    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (;;) {
        if (broadcasts == 1) {
            next_by_count(all, rank, parent);
        } else {
            next_by_length(all, rank, parent);
        }
        for (int i = 0; i < all->count; i++) {
            const double *v = all[i].values;

            switch (all[i].number) {
            case LAUNCH_HAND_FIVE:
                launch_five(v[0], v[1], v[2], v[3], v[4]);
                break;
            default:
                return;
            }
        }
    }
}

static void
launch_fetch_kernel(void)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    MPI_Send(&stamp, sizeof(stamp), MPI_BYTE, 0, LAUNCH_STAMP_TAG, parent);
    stamp = (struct launch_stamp){0, 0, 0, 0};
}

static void
launch_clock(void)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    launch_clock_answer(parent);
}

TELPHER_KERNEL(launch_five, double, double, double, double, double)
TELPHER_KERNEL(launch_hand, int)
TELPHER_KERNEL(launch_fetch_kernel)
TELPHER_KERNEL(launch_clock)
