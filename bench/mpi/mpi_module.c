/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of runtime mpi, for the implementation whose mpi.h this is compiled with. */
#include "bench/mpi/mpi_int.h"
#include "bench/mpi/mpi_version.h"

#include <string.h>
#include <telpher/interop/mpi.h>

enum { TAG = 1 };

static MPI_Request sends[BENCH_MPI_WINDOW_MAX], recvs[BENCH_MPI_WINDOW_MAX];
static MPI_Status statuses[BENCH_MPI_WINDOW_MAX];

static bool
start(int *ret_rank, int *ret_size)
{
    return MPI_Init(NULL, NULL) == MPI_SUCCESS &&
           MPI_Comm_rank(MPI_COMM_WORLD, ret_rank) == MPI_SUCCESS &&
           MPI_Comm_size(MPI_COMM_WORLD, ret_size) == MPI_SUCCESS;
}

static bool
start_serialized(int *ret_rank, int *ret_size)
{
    int provided = MPI_THREAD_SINGLE;

    return MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) ==
               MPI_SUCCESS &&
           provided >= MPI_THREAD_SERIALIZED &&
           MPI_Comm_rank(MPI_COMM_WORLD, ret_rank) == MPI_SUCCESS &&
           MPI_Comm_size(MPI_COMM_WORLD, ret_size) == MPI_SUCCESS;
}

static telpher_status
create_context(const telpher_context_params *params, telpher_context **ret_ctx,
               telpher_error *err)
{
    return telpher_context_create_mpi(MPI_COMM_WORLD, params, ret_ctx, err);
}

static void
stop(void)
{
    MPI_Finalize();
}

static void
abort_all(void)
{
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static bool
takes_cuda(void)
{
#if defined(OPEN_MPI) && defined(MPIX_CUDA_AWARE_SUPPORT)
    return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
    int supported = 0;

    return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported) == MPI_SUCCESS &&
           supported != 0;
#else
    return false;
#endif
}

static telpher_context *
device_context(void)
{
#ifdef TELPHER_AMPI
    return AMPI_Context();
#else
    return NULL;
#endif
}

static bool
barrier(void)
{
    return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS;
}

static bool
send_bytes(const void *src, size_t len, int peer)
{
    return MPI_Send(src, (int)len, MPI_BYTE, peer, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
}

static bool
recv_bytes(void *dst, size_t len, int peer)
{
    return MPI_Recv(dst, (int)len, MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

static bool
begin_send(int i, const void *src, size_t len, int peer)
{
    return MPI_Isend(src, (int)len, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &sends[i]) ==
           MPI_SUCCESS;
}

static bool
begin_recv(int i, void *dst, size_t len, int peer)
{
    return MPI_Irecv(dst, (int)len, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &recvs[i]) ==
           MPI_SUCCESS;
}

static bool
wait_all(int send_count, int recv_count)
{
    return MPI_Waitall(recv_count, recvs, statuses) == MPI_SUCCESS &&
           MPI_Waitall(send_count, sends, statuses) == MPI_SUCCESS;
}

static bool
reduce(const double *mine, int count, double *least, double *sum, double *most)
{
    return MPI_Reduce(mine, least, count, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD) ==
               MPI_SUCCESS &&
           MPI_Reduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD) ==
               MPI_SUCCESS &&
           MPI_Reduce(mine, most, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD) ==
               MPI_SUCCESS;
}

static const struct bench_call *
find_call(const char *name)
{
    const struct bench_call *const tables[] = {bench_mpi_collectives, bench_mpi_pairs,
                                               bench_mpi_windows};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const struct bench_call *c = tables[i]; c->name != NULL; c++) {
            if (strcmp(c->name, name) == 0) {
                return c;
            }
        }
    }
    return NULL;
}

__attribute__((visibility("default"))) extern const struct bench_mpi bench_mpi;
const struct bench_mpi bench_mpi = {
    .start = start,
    .start_serialized = start_serialized,
    .create_context = create_context,
    .stop = stop,
    .abort = abort_all,
    .version = bench_mpi_version,
    .takes_cuda = takes_cuda,
    .device_context = device_context,
    .barrier = barrier,
    .send = send_bytes,
    .recv = recv_bytes,
    .begin_send = begin_send,
    .begin_recv = begin_recv,
    .wait_all = wait_all,
    .reduce = reduce,
    .find_call = find_call,
};
