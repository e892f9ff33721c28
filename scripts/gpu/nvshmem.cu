/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest calls of NVSHMEM, for comparison: a signal, and a put with a signal by one
 * block, between two GPUs, half a round trip. scripts/gpu/rma.sh builds and runs it where
 * NVSHMEM names a folder with NVSHMEM's include and lib. One process a GPU.
 */
#include <nvshmem.h>
#include <nvshmemx.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

enum { REPEATS = 11, BYTES = 1 << 20 };
enum what { SET, ADD, PUT };

struct row {
    const char *name;
    what kind;
    uint64_t len;
    int lanes, rounds;
    int look; /* every put has a new word, which the receiver compares on arrival */
};

static __device__ uint64_t
now()
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__global__ void
trips(int me, row r, uint8_t *dst, uint8_t *src, uint64_t *signal, uint64_t base,
      double *us)
{
    const uint64_t start = now();
    int wrong = 0;

    for (int n = 1; n <= r.rounds; n++) {
        for (int half = 0; half < 2; half++) {
            if (half == me && r.kind == PUT) {
                if (r.look) {
                    if (threadIdx.x == 0) {
                        *(volatile uint32_t *)src = n;
                    }
                    __syncthreads();
                }
                nvshmemx_putmem_signal_block(dst, src, r.len, signal, base + n,
                                             NVSHMEM_SIGNAL_SET, 1 - me);
            } else if (half == me && threadIdx.x == 0) {
                nvshmemx_signal_op(
                    signal, r.kind == SET ? base + n : 1,
                    r.kind == SET ? NVSHMEM_SIGNAL_SET : NVSHMEM_SIGNAL_ADD, 1 - me);
            } else if (half != me) {
                if (threadIdx.x == 0) {
                    nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, base + n);
                }
                __syncthreads();
                if (r.look && threadIdx.x == 0) {
                    wrong += *(volatile uint32_t *)dst != (uint32_t)n;
                    *(volatile uint32_t *)dst = ~0u;
                }
            }
        }
    }
    if (threadIdx.x == 0) {
        *us = wrong != 0 ? -wrong : (double)(now() - start) * 1e-3 / (2 * r.rounds);
    }
}

/* @return 0, or 1 after words */
static int
measure(int me)
{
    static const row rows[] = {
        {"signal_op, set", SET, 0, 1, 1000, 0},
        {"signal_op, add", ADD, 0, 1, 1000, 0},
        {"putmem_signal_block 4 B", PUT, 4, 128, 1000, 0},
        {"putmem_signal_block 4 B, looked at", PUT, 4, 128, 1000, 1},
        {"putmem_signal_block 8 B", PUT, 8, 128, 1000, 0},
        {"putmem_signal_block 2 KiB", PUT, 2048, 256, 500, 0},
        {"putmem_signal_block 16 KiB", PUT, 16384, 256, 500, 0},
        {"putmem_signal_block 1 MiB", PUT, BYTES, 256, 50, 0},
        {"putmem_signal_block 1 MiB", PUT, BYTES, 1024, 50, 0},
    };
    uint64_t *signal = (uint64_t *)nvshmem_calloc(1, 256), base = 0;
    uint8_t *dst = (uint8_t *)nvshmem_malloc(BYTES);
    uint8_t *src = (uint8_t *)nvshmem_malloc(BYTES);
    double *us, all[REPEATS];

    if (signal == NULL || dst == NULL || src == NULL ||
        cudaHostAlloc((void **)&us, sizeof(*us), cudaHostAllocMapped) != cudaSuccess) {
        fprintf(stderr, "nvshmem: no memory\n");
        return 1;
    }
    for (const row &r : rows) {
        for (double &one : all) {
            nvshmem_barrier_all();
            trips<<<1, r.lanes>>>(me, r, dst, src, signal, base, us);
            if (cudaDeviceSynchronize() != cudaSuccess) {
                fprintf(stderr, "nvshmem: %s fails\n", r.name);
                return 1;
            }
            base += r.rounds;
            one = *us;
            if (one < 0) {
                fprintf(stderr, "nvshmem: %s: %g words were not there\n", r.name, -one);
                return 1;
            }
        }
        std::sort(all, all + REPEATS);
        if (me == 0) {
            printf("nvshmem  %-34s %5d %9.3f %9.3f %9.3f us\n", r.name, r.lanes,
                   all[REPEATS / 2], all[0], all[REPEATS - 1]);
        }
    }
    nvshmem_barrier_all();
    return 0;
}

static int
process(int me, nvshmemx_uniqueid_t id)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;

    if (cudaSetDevice(me) != cudaSuccess ||
        nvshmemx_set_attr_uniqueid_args(me, 2, &id, &attr) != 0 ||
        nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) != 0) {
        fprintf(stderr, "nvshmem: no start\n");
        return 1;
    }
    if (measure(me) != 0) {
        return 1; /* the other one waits forever; the script ends both */
    }
    nvshmem_finalize();
    return 0;
}

int
main()
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    int ends[2], status = 0, other = 0;
    pid_t child;

    if (pipe(ends) != 0 || (child = fork()) < 0) {
        return 1;
    }
    if (child == 0) {
        return read(ends[0], &id, sizeof(id)) == sizeof(id) ? process(1, id) : 1;
    }
    if (nvshmemx_get_uniqueid(&id) != 0 ||
        write(ends[1], &id, sizeof(id)) != sizeof(id)) {
        return 1;
    }
    status = process(0, id);
    if (status != 0) {
        kill(child, SIGKILL);
    }
    waitpid(child, &other, 0);
    return status != 0 || other != 0;
}
