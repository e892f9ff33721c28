/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n PROCESSES -- rma_gpu_dcuda LANES
 *
 * A kernel of dCUDA's names on GPUs of several processes: a number goes round all ranks, each
 * adding its own. The kernel's grid has a block more, which is none of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include <telpher/rma/dcuda_device.cu.h>
#include <telpher/rma/dcuda_host.h>

static const int RANKS = 3; /* of a process */

struct ring {
    int cells[RANKS], sum;
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
    dcuda_win_free(gst, win);
    dcuda_gpu_finish(gst);
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
    good = process != 0 || data.sum == world * (world - 1) / 2;
    printf("process %d: %s\n", process, good ? "good" : "FAILED");
    return !good;
}
