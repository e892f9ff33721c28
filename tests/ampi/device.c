/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory in all calls that take a buffer: simulated, which the CPU cannot touch, or a device's.
 * usage: telpher launch -n N -- ampi_device [sim|opencl|cuda] [+vp M] */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <telpher/mem.h>

#include "expect.h"

enum { MAX = 5000 };

static int host[MAX], result[MAX], *out, *in; /* out, in: device memory */

static int
value(int r, int i)
{
    return (r + 1) * 10007 + i;
}

/* out gets this rank's values, in gets -1. */
static void
fill(int count)
{
    for (int i = 0; i < count; i++) {
        host[i] = value(rank, i);
        result[i] = -1;
    }
    EXPECT(telpher_mem_copy(AMPI_Context(), out, host, (size_t)count * 4) ==
           TELPHER_OK);
    EXPECT(telpher_mem_copy(AMPI_Context(), in, result, (size_t)count * 4) ==
           TELPHER_OK);
}

/* The content of in, at result. */
static const int *
fetch(int count)
{
    EXPECT(telpher_mem_copy(AMPI_Context(), result, in, (size_t)count * 4) ==
           TELPHER_OK);
    return result;
}

static int
sum(int i)
{
    int all = 0;

    for (int r = 0; r < size; r++) {
        all += value(r, i);
    }
    return all;
}

static void
test_exchanges(int n)
{
    MPI_Request request;

    fill(n * size);
    MPI_Bcast(rank == 0 ? out : in, n, MPI_INT, 0, MPI_COMM_WORLD);
    EXPECT(rank == 0 || fetch(n)[n - 1] == value(0, n - 1));
    MPI_Iallgather(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fetch(n * size);
    for (int r = 0; r < size; r++) {
        EXPECT(result[r * n] == value(r, 0) &&
               result[r * n + n - 1] == value(r, n - 1));
    }
    fill(n * size);
    MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
    fetch(n * size);
    for (int r = 0; r < size; r++) {
        EXPECT(result[r * n] == value(r, rank * n));
    }
    MPI_Alltoall(MPI_IN_PLACE, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
    fetch(n * size);
    EXPECT(result[n * size - 1] == value(rank, n * size - 1));
    MPI_Gather(out, n, MPI_INT, in, n, MPI_INT, size - 1, MPI_COMM_WORLD);
    if (rank == size - 1) {
        EXPECT(fetch(n * size)[0] == value(0, 0));
    }
    MPI_Scatter(out, n, MPI_INT, in, n, MPI_INT, 0, MPI_COMM_WORLD);
    EXPECT(fetch(n)[1] == value(0, rank * n + 1));
}

static void
test_reductions(int n)
{
    int before = 0;

    fill(n * size);
    MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(fetch(n)[n - 1] == sum(n - 1));
    MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT(fetch(n)[n - 1] == sum(n - 1));
    fill(n * size);
    MPI_Reduce(out, rank == 0 ? in : NULL, n, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    EXPECT(fetch(n)[0] == (rank == 0 ? sum(0) : -1));
    MPI_Reduce_scatter_block(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(fetch(n)[2] == sum(rank * n + 2));
    fill(n * size);
    MPI_Exscan(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int r = 0; r < rank; r++) {
        before += value(r, 3);
    }
    EXPECT(fetch(n)[3] == (rank == 0 ? -1 : before));
    MPI_Reduce(out, result, n, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD); /* to the host */
    EXPECT(rank != 0 || result[1] == sum(1));
}

/* Each operation on each type that devices have kernels for, or every step-th: as in host
 * memory. */
static void
test_operations(int n, int step)
{
    static const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,
                                 MPI_BAND, MPI_BOR,  MPI_BXOR};
    static const MPI_Datatype types[] = {MPI_INT,           MPI_UNSIGNED, MPI_LONG,
                                         MPI_UNSIGNED_LONG, MPI_FLOAT,    MPI_DOUBLE};
    static long mine[MAX / 2], want[MAX / 2];
    int bytes;

    for (int t = 0; t < 6; t += step) {
        MPI_Type_size(types[t], &bytes);
        for (int i = 0; i < n; i++) {
            int small = 1 + (rank + i) % 3;

            if (t < 2) {
                ((int *)mine)[i] = small;
            } else if (t < 4) {
                mine[i] = small;
            } else if (t == 4) {
                ((float *)mine)[i] = (float)small;
            } else {
                ((double *)mine)[i] = small;
            }
        }
        for (int o = 0; o < (t < 4 ? 7 : 4); o += step) {
            MPI_Allreduce(mine, want, n, types[t], ops[o], MPI_COMM_WORLD);
            telpher_mem_copy(AMPI_Context(), out, mine, (size_t)(n * bytes));
            MPI_Allreduce(out, in, n, types[t], ops[o], MPI_COMM_WORLD);
            telpher_mem_copy(AMPI_Context(), host, in, (size_t)(n * bytes));
            EXPECT(memcmp(host, want, (size_t)(n * bytes)) == 0);
            MPI_Allreduce(MPI_IN_PLACE, out, n, types[t], ops[o], MPI_COMM_WORLD);
            telpher_mem_copy(AMPI_Context(), host, out, (size_t)(n * bytes));
            EXPECT(memcmp(host, want, (size_t)(n * bytes)) == 0);
        }
    }
}

static void
test_gaps(void)
{
    MPI_Datatype column;
    MPI_Win win;

    MPI_Type_vector(4, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    EXPECT(MPI_Bcast(out, 1, column, 0, MPI_COMM_WORLD) == MPI_ERR_BUFFER);
    MPI_Win_create(in, 64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    EXPECT(MPI_Put(out, 1, column, 0, 0, 4, MPI_INT, win) == MPI_ERR_BUFFER);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Type_free(&column);
}

static void
test_local(int n)
{
    MPI_Datatype column;
    int position = 4, back = 4;

    fill(n);
    MPI_Reduce_local(out, in, n, MPI_INT, MPI_SUM);
    EXPECT(fetch(n)[n - 1] == value(rank, n - 1) - 1);
    MPI_Reduce_local(host, in, n, MPI_INT, MPI_SUM);
    EXPECT(fetch(n)[0] == 2 * value(rank, 0) - 1);
    MPI_Reduce_local(out, result, n, MPI_INT, MPI_SUM);
    EXPECT(result[1] == 3 * value(rank, 1) - 1);
    MPI_Type_vector(2, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    fill(n);
    MPI_Pack(out + 1, 1, column, in, n * 4, &position, MPI_COMM_SELF);
    fetch(n);
    EXPECT(position == 12 && result[0] == -1 && result[1] == value(rank, 1) &&
           result[2] == value(rank, 4) && result[3] == -1);
    MPI_Unpack(in, n * 4, &back, out, 1, column, MPI_COMM_SELF);
    EXPECT(back == 12 &&
           telpher_mem_copy(AMPI_Context(), result, out, 16) == TELPHER_OK);
    EXPECT(result[0] == value(rank, 1) && result[1] == value(rank, 1) &&
           result[2] == value(rank, 2) && result[3] == value(rank, 4));
    position = back = 0;
    MPI_Pack(out, n, MPI_INT, host, MAX * 4, &position, MPI_COMM_SELF);
    MPI_Unpack(host, MAX * 4, &back, in, n, MPI_INT, MPI_COMM_SELF);
    EXPECT(fetch(n)[n - 1] == value(rank, n - 1) && back == n * 4);
    MPI_Type_free(&column);
}

/* A window of device memory, with origins in device and host memory. */
static void
test_window(int n)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const int one = 1,
              last = value(rank, n - 1); /* what the next rank has after the put */
    int got = -1;
    MPI_Win win;

    fill(n);
    MPI_Win_create(in, n * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(out, n, MPI_INT, next, 0, n, MPI_INT, win);
    MPI_Win_fence(0, win);
    EXPECT(fetch(n)[0] == value(before, 0) && result[n - 1] == value(before, n - 1));
    MPI_Get(out, n, MPI_INT, next, 0, n, MPI_INT, win);
    MPI_Get(&got, 1, MPI_INT, next, n - 1, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    telpher_mem_copy(AMPI_Context(), result, out, (size_t)n * 4);
    EXPECT(result[n - 1] == value(rank, n - 1) && got == last);
    MPI_Accumulate(out, n, MPI_INT, next, 0, n, MPI_INT, MPI_SUM, win); /* doubles it */
    MPI_Win_fence(0, win);
    EXPECT(fetch(n)[1] == 2 * value(before, 1) &&
           result[n - 1] == 2 * value(before, n - 1));
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
    MPI_Fetch_and_op(&one, out, MPI_INT, next, 0, MPI_SUM,
                     win); /* into device memory */
    MPI_Win_unlock(next, win);
    telpher_mem_copy(AMPI_Context(), result, out, 8);
    EXPECT(result[0] == 2 * value(rank, 0) && result[1] == value(rank, 1));
    MPI_Win_fence(0, win);
    got = 2 * value(rank, 0) + 1;
    telpher_mem_copy(AMPI_Context(), out, &got, 4);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Compare_and_swap(&one, out, &got, MPI_INT, next, 0, win);
    MPI_Win_unlock(next, win);
    EXPECT(got == 2 * value(rank, 0) + 1);
    MPI_Win_fence(0, win);
    EXPECT(fetch(n)[0] == 1 && result[1] == 2 * value(before, 1));
    MPI_Win_free(&win);
}

/* Memory of the program's own in a window; a dynamic window of device memory. */
static void
test_host_and_dynamic(int n)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Aint own, there;
    MPI_Win win;

    fill(n);
    MPI_Win_create(result, n * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(out, n, MPI_INT, next, 0, n, MPI_INT, win);
    MPI_Win_fence(0, win);
    EXPECT(result[0] == value(before, 0) && result[n - 1] == value(before, n - 1));
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, in, n * 4);
    MPI_Get_address(in, &own);
    MPI_Sendrecv(&own, 1, MPI_AINT, before, 0, &there, 1, MPI_AINT, next, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_fence(0, win);
    MPI_Put(out, n, MPI_INT, next, there, n, MPI_INT, win);
    MPI_Win_fence(0, win);
    EXPECT(fetch(n)[n - 1] == value(before, n - 1));
    MPI_Win_detach(win, in);
    MPI_Win_free(&win);
}

static int *
take(uint32_t kind)
{
    void *ret = NULL;

    if (telpher_mem_alloc(AMPI_Context(), kind, MAX * sizeof(int), &ret) !=
        TELPHER_OK) {
        fprintf(stderr, "rank %d: no device memory of this kind\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return ret;
}

/* A window whose memory was freed. */
static void
test_freed(uint32_t kind)
{
    int *own = take(kind), one = 1;
    MPI_Win win;

    MPI_Win_create(own, MAX * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    telpher_mem_free(AMPI_Context(), own);
    MPI_Win_fence(0, win);
    EXPECT(MPI_Put(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, win) == MPI_ERR_RMA_RANGE);
    EXPECT(MPI_Get(&one, 1, MPI_INT, rank, 9, 1, MPI_INT, win) == MPI_ERR_RMA_RANGE);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

int
main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "sim";
    uint32_t kind = strcmp(name, "cuda") == 0     ? TELPHER_MEM_CUDA
                    : strcmp(name, "opencl") == 0 ? TELPHER_MEM_OPENCL
                                                  : TELPHER_MEM_SIM;
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = take(kind);
    in = take(kind);
    test_exchanges(5);
    test_exchanges(MAX / size);
    test_reductions(5);
    test_reductions(MAX / size);
    test_operations(3, kind == TELPHER_MEM_OPENCL ? 3
                                                  : 1); /* kernels take time to build */
    test_operations(MAX / 2, kind == TELPHER_MEM_OPENCL ? 3 : 1);
    test_local(5);
    test_local(MAX);
    test_window(5);
    test_window(MAX);
    test_host_and_dynamic(5);
    test_host_and_dynamic(MAX);
    test_freed(kind);
    if (kind != TELPHER_MEM_SIM) { /* which has no kernels */
        EXPECT(telpher_mem_combine(AMPI_Context(), TELPHER_MEM_SUM, TELPHER_MEM_INT32,
                                   out, in, in, 1) == TELPHER_OK);
    }
    test_gaps();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    telpher_mem_free(AMPI_Context(), out);
    telpher_mem_free(AMPI_Context(), in);
    if (rank == 0 && all == 0) {
        printf("device memory (%s): good\n", name);
    }
    MPI_Finalize();
    return all != 0;
}
