/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dCUDA's example of a distributed reduction, written anew against its headers: every lane
 * has a value, lane 0 of each rank adds up those of its rank, and a binomial tree adds up
 * the ranks. Unlike in the listing, additions and results are one lane's alone; with
 * -DUNGUARDED all lanes add, which TELPHER_RMA_CHECK=races finds. Several processes
 * (telpher launch) have the same values; that of rank 0 has the sum of them all.
 */
#include <cstdlib>
#include <iostream>

#include "dcuda_device.cu.h"
#include "dcuda_host.h"

enum { THREADS_PER_BLOCK = 128 };

struct user_data {
    double *data; /* a value for each lane of the device */
    double *buffer; /* behind it: what other ranks sent, by their number */
    double result;
};

#ifdef UNGUARDED
#define ONE_LANE true
#else
#define ONE_LANE (threadIdx.x == 0)
#endif

/* Sum of the rank's own values, in its first. */
__device__ static void
add_lanes(double *own)
{
    if (threadIdx.x == 0) {
        for (unsigned i = 1; i < blockDim.x; i++) {
            own[0] += own[i];
        }
    }
}

__global__ void
kernel(dcuda_context_handle dcuda)
{
    __shared__ dcuda_state gst;
    int size, rank, local_size, local_rank;
    user_data *data;
    dcuda_win win;

    dcuda_gpu_init(dcuda, gst);
    dcuda_log log = dcuda_log_get(gst);
    dcuda_comm_size(gst, DCUDA_COMM_WORLD, &size);
    dcuda_comm_rank(gst, DCUDA_COMM_WORLD, &rank);
    dcuda_comm_size(gst, DCUDA_COMM_DEVICE, &local_size);
    dcuda_comm_rank(gst, DCUDA_COMM_DEVICE, &local_rank);
    dcuda_get_data(gst, (void **)&data);
    dcuda_win_create(gst, DCUDA_COMM_WORLD, data->data,
                     (int)(2 * local_size * blockDim.x * sizeof(double)), &win);
    dcuda_start_cpu_timer(gst);

    double *own = &data->data[local_rank * blockDim.x];
    int offset = (int)((local_size * blockDim.x + rank) * sizeof(double));

    add_lanes(own);
    for (int step = 1, round = 0; step < size; step *= 2, round++) {
        if (rank % (2 * step) == step) {
            dcuda_put_notify(gst, win, rank - step, offset, sizeof(double), own,
                             round % 256);
        } else if (rank % (2 * step) == 0 && rank + step < size) {
            dcuda_wait_notifications(gst, round % 256, 1);
            if (ONE_LANE) {
                own[0] += data->buffer[rank + step];
            }
        }
    }

    dcuda_stop_cpu_timer(gst);
    if (rank == 0 && threadIdx.x == 0) {
        data->result = own[0];
        log << "result = " << data->result << log.flush;
    }
    dcuda_win_free(gst, win);
    dcuda_gpu_finish(gst);
}

int
main(int argc, char **argv)
{
    dcuda_host_context_handle dcuda_host;
    dcuda_rank_info info;
    user_data data;
    double right = 0;

    dcuda_host_init(argc, argv, &dcuda_host, kernel, THREADS_PER_BLOCK);
    dcuda_host_get_rank_info(dcuda_host, &info);

    int size = info.rank_responsible * THREADS_PER_BLOCK;
    std::vector<double> values(size);

    if (cudaMalloc(&data.data, 2 * size * sizeof(double)) != cudaSuccess) {
        return 1;
    }
    data.buffer = &data.data[size];
    for (int i = 0; i < size; i++) {
        values[i] = std::rand(); /* whole numbers: the sum is exact in any order */
        right += values[i];
    }
    cudaMemcpy(data.data, &values[0], size * sizeof(double), cudaMemcpyHostToDevice);
    right *= info.process_count;
    try {
        dcuda_host_run(dcuda_host, &data, sizeof(data));
        if (info.rank_start == 0) {
            std::cout << "Sum = " << data.result << std::endl;
        } else {
            data.result = right; /* rank 0 is another process's */
        }
        std::cout << "Computation Time: " << dcuda_host_get_timings(dcuda_host)[0]
                  << " ms" << std::endl;
    } catch (const std::exception &failure) {
        std::cout << failure.what() << std::endl;
        data.result = -1;
    }
    cudaFree(data.data);
    dcuda_host_finish(dcuda_host);
    return data.result == right ? 0 : 1;
}
