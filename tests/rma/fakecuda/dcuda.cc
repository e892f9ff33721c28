/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: [telpher launch -n PROCESSES --] rma_gpu_dcuda | rma_dcuda LANES
 *
 * A kernel of dCUDA's names, on GPUs (real, or emulated with a block more in the grid, which is
 * no rank) and on processors, in one process or several: a number goes round all ranks, each
 * adding its own. Then each reads the next one's, which changes it as soon as it was read.
 */
#include <stdio.h>
#include <stdlib.h>

#include <telpher/rma/dcuda_device.cu.h>
#include <telpher/rma/dcuda_host.h>

static const int RANKS = 3; /* of a process */

struct ring {
    int cells[RANKS], read[RANKS], sum;
};

__global__ void
kernel_ring(dcuda_context_handle dcuda)
{
    __shared__ dcuda_state gst;
    int size, rank, local;
    ring *data;
    dcuda_win win;

    dcuda_gpu_init(dcuda, gst);
    dcuda_comm_size(gst, DCUDA_COMM_WORLD, &size);
    dcuda_comm_rank(gst, DCUDA_COMM_WORLD, &rank);
    dcuda_comm_rank(gst, DCUDA_COMM_DEVICE, &local);
    dcuda_get_data(gst, (void **)&data);
    dcuda_win_create(gst, DCUDA_COMM_WORLD, &data->cells[local], sizeof(int), &win);
    if (rank != 0) {
        dcuda_wait_notifications(gst, 1, 1);
    }
    if (threadIdx.x == 0) {
        data->cells[local] += rank;
    }
    __syncthreads();
    dcuda_put_notify(gst, win, (rank + 1) % size, 0, sizeof(int), &data->cells[local],
                     1);
    if (rank == 0) {
        dcuda_wait_notifications(gst, 1, 1);
        data->sum = data->cells[0];
    }
    dcuda_comm_barrier(gst, DCUDA_COMM_WORLD);
    dcuda_get_notify(gst, win, (rank + 1) % size, 0, sizeof(int), &data->read[local],
                     2);
    dcuda_wait_notifications(gst, 2, 1);
    if (threadIdx.x == 0) {
        data->cells[local] = -1;
    }
    dcuda_win_free(gst, win);
    dcuda_gpu_finish(gst);
}

/* The partial sum at rank k; the first rank has the whole sum. */
static int
left_in(int k, int world)
{
    return k == 0 ? world * (world - 1) / 2 : k * (k + 1) / 2;
}

int
main(int argc, char **argv)
{
    const char *name = getenv("TELPHER_RANK"), *size = getenv("TELPHER_SIZE");
    const int process = name != NULL ? atoi(name) : 0;
    const int world = RANKS * (size != NULL ? atoi(size) : 1);
    dcuda_host_context_handle host;
    ring data = {};
    int good;

    setenv("TELPHER_RMA_RANKS", "3", 1);
    dcuda_host_init(argc, argv, &host, kernel_ring, argc > 1 ? atoi(argv[1]) : 1);
    dcuda_host_run(host, &data, sizeof(data));
    dcuda_host_finish(host);
    good = process != 0 || data.sum == left_in(0, world);
    for (int i = 0; i < RANKS; i++) {
        const int next = (process * RANKS + i + 1) % world;

        good = good && data.read[i] == left_in(next, world) && data.cells[i] == -1;
    }
    printf("process %d: %s\n", process, good ? "good" : "FAILED");
    return !good;
}
