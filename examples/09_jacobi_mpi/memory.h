/* SPDX-License-Identifier: Apache-2.0 */
/* Where the cube lies and who computes: this processor, or a GPU if nvcc compiles the program.
 * A function runs for each point of a box, and is the same on both. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** A box of points: where it begins, its edges, and the distance of neighbours along each. */
struct box {
    int64_t first, edge[3], stride[3];
};

#ifdef __CUDACC__

#define MEMORY_NAME "cuda"
#define ON_BOTH __host__ __device__

static inline void
memory_check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

static inline double *
memory_allocate(size_t count)
{
    double *points;

    memory_check(cudaMalloc((void **)&points, count * sizeof(double)), "cudaMalloc");
    memory_check(cudaMemset(points, 0, count * sizeof(double)), "cudaMemset");
    return points;
}

static inline double *
memory_allocate_host(size_t count)
{
    double *points;

    memory_check(cudaMallocHost((void **)&points, count * sizeof(double)),
                 "cudaMallocHost");
    memset(points, 0, count * sizeof(double));
    return points;
}

static inline void
memory_free(double *points)
{
    memory_check(cudaFree(points), "cudaFree");
}

static inline void
memory_free_host(double *points)
{
    memory_check(cudaFreeHost(points), "cudaFreeHost");
}

static inline void
memory_copy(double *dst, const double *src, size_t count)
{
    memory_check(cudaMemcpy(dst, src, count * sizeof(double), cudaMemcpyDefault),
                 "cudaMemcpy");
}

/* Ranks of one machine take its GPUs in turns. */
static inline void
memory_start(int rank)
{
    int count = 0;

    memory_check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    memory_check(cudaSetDevice(rank % count), "cudaSetDevice");
}

static inline void
memory_wait(void)
{
    memory_check(cudaDeviceSynchronize(), "a kernel");
}

#define FOR_EACH_POINT(function, points, to, from)                                     \
    do {                                                                               \
        const struct box box_ = (points);                                              \
        dim3 block(32, 4, 2);                                                          \
        dim3 grid((unsigned)((box_.edge[0] + 31) / 32),                                \
                  (unsigned)((box_.edge[1] + 3) / 4),                                  \
                  (unsigned)((box_.edge[2] + 1) / 2));                                 \
        function##_kernel<<<grid, block>>>(box_, to, from);                            \
    } while (0)

#define DEFINE_FOR_EACH(function)                                                      \
    __global__ void function##_kernel(struct box box, double *to, const double *from)  \
    {                                                                                  \
        int64_t x = blockIdx.x * blockDim.x + threadIdx.x;                             \
        int64_t y = blockIdx.y * blockDim.y + threadIdx.y;                             \
        int64_t z = blockIdx.z * blockDim.z + threadIdx.z;                             \
                                                                                       \
        if (x < box.edge[0] && y < box.edge[1] && z < box.edge[2]) {                   \
            function(&box, x, y, z, to, from);                                         \
        }                                                                              \
    }

#else

#define MEMORY_NAME "host"
#define ON_BOTH

static inline double *
memory_allocate(size_t count)
{
    double *points = (double *)calloc(count, sizeof(double));

    if (points == NULL) {
        fprintf(stderr, "no memory for %zu points\n", count);
        exit(EXIT_FAILURE);
    }
    return points;
}

static inline double *
memory_allocate_host(size_t count)
{
    return memory_allocate(count);
}

static inline void
memory_free(double *points)
{
    free(points);
}

static inline void
memory_free_host(double *points)
{
    free(points);
}

static inline void
memory_copy(double *dst, const double *src, size_t count)
{
    memcpy(dst, src, count * sizeof(double));
}

static inline void
memory_start(int rank)
{
    (void)rank;
}

static inline void
memory_wait(void)
{
}

#define FOR_EACH_POINT(function, points, to, from) function##_loop((points), to, from)

#define DEFINE_FOR_EACH(function)                                                      \
    static void function##_loop(struct box box, double *to, const double *from)        \
    {                                                                                  \
        for (int64_t z = 0; z < box.edge[2]; z++) {                                    \
            for (int64_t y = 0; y < box.edge[1]; y++) {                                \
                for (int64_t x = 0; x < box.edge[0]; x++) {                            \
                    function(&box, x, y, z, to, from);                                 \
                }                                                                      \
            }                                                                          \
        }                                                                              \
    }

#endif

#endif
