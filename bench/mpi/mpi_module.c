/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of runtime mpi, for the implementation whose mpi.h this is compiled with. */
#include "bench/mpi/mpi_int.h"
#include "bench/mpi/mpi_version.h"

#include <string.h>
#include <telpher/interop/mpi.h>

enum { TAG = 1 };

static MPI_Request sends[BENCH_MPI_WINDOW_MAX], recvs[BENCH_MPI_WINDOW_MAX];
static MPI_Status statuses[BENCH_MPI_WINDOW_MAX];

MPI_Comm bench_mpi_comm;

static bool
read_comm(int *ret_rank, int *ret_size)
{
    return MPI_Comm_rank(bench_mpi_comm, ret_rank) == MPI_SUCCESS &&
           MPI_Comm_size(bench_mpi_comm, ret_size) == MPI_SUCCESS;
}

static bool
start(int *ret_rank, int *ret_size)
{
    bench_mpi_comm = MPI_COMM_WORLD;
    return MPI_Init(NULL, NULL) == MPI_SUCCESS && read_comm(ret_rank, ret_size);
}

static bool
start_serialized(int *ret_rank, int *ret_size)
{
    int provided = MPI_THREAD_SINGLE;

    bench_mpi_comm = MPI_COMM_WORLD;
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) ==
               MPI_SUCCESS &&
           provided >= MPI_THREAD_SERIALIZED && read_comm(ret_rank, ret_size);
}

/* ---- sessions ---- */

#ifdef MPI_SESSION_NULL
static MPI_Session session = MPI_SESSION_NULL;

static bool
begin_session(int *ret_rank, int *ret_size)
{
    MPI_Group world = MPI_GROUP_NULL;
    bool good =
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) ==
            MPI_SUCCESS &&
        MPI_Group_from_session_pset(session, "mpi://WORLD", &world) == MPI_SUCCESS &&
        MPI_Comm_create_from_group(world, "telpher-bench", MPI_INFO_NULL,
                                   MPI_ERRORS_ARE_FATAL,
                                   &bench_mpi_comm) == MPI_SUCCESS;

    if (world != MPI_GROUP_NULL) {
        MPI_Group_free(&world);
    }
    return good && read_comm(ret_rank, ret_size);
}

static bool
stop_session(void)
{
    if (session == MPI_SESSION_NULL) {
        return false;
    }
    MPI_Comm_free(&bench_mpi_comm);
    MPI_Session_finalize(&session);
    return true;
}
#else
#define begin_session NULL

static bool
stop_session(void)
{
    return false;
}
#endif

/* ---- layouts ---- */

/* Of messages of that many bytes; one at a time. */
static struct {
    MPI_Datatype type;
    size_t len;
    bool used;
} layout;

/* As long as the message, so that several lie one after the other. */
static bool
make_type(const struct bench_work *w, MPI_Datatype base, int count)
{
    const struct bench_layout *l = w->layout;
    MPI_Datatype type;
    int error = l->kind == BENCH_VECTOR ? MPI_Type_vector(count / l->stride, l->block,
                                                          l->stride, base, &type)
                : l->kind == BENCH_INDEXED
                    ? MPI_Type_indexed(l->count, l->lengths, l->places, base, &type)
                    : MPI_Type_contiguous(count, base, &type);

    if (error != MPI_SUCCESS) {
        return false;
    }
    error = MPI_Type_create_resized(type, 0, (MPI_Aint)w->len, &layout.type);
    MPI_Type_free(&type);
    return error == MPI_SUCCESS && MPI_Type_commit(&layout.type) == MPI_SUCCESS;
}

bool
bench_mpi_lay_out(const struct bench_work *w)
{
    if (layout.used) {
        MPI_Type_free(&layout.type);
    }
    layout.used = false;
    layout.len = w->len;
    if (w->layout == NULL) {
        return true;
    }
    layout.used =
        make_type(w, bench_mpi_type(w->type), (int)(w->len / bench_type_size(w->type)));
    return layout.used;
}

struct bench_mpi_elements
bench_mpi_message(size_t len)
{
    return layout.used && len == layout.len
               ? (struct bench_mpi_elements){layout.type, 1}
               : (struct bench_mpi_elements){MPI_BYTE, (int)len};
}

struct bench_mpi_elements
bench_mpi_block(const struct bench_work *w)
{
    return layout.used
               ? (struct bench_mpi_elements){layout.type, 1}
               : (struct bench_mpi_elements){bench_mpi_type(w->type),
                                             (int)(w->len / bench_type_size(w->type))};
}

/* ---- the job ---- */

static telpher_status
create_context(const telpher_context_params *params, telpher_context **ret_ctx,
               telpher_error *err)
{
    return telpher_context_create_mpi(bench_mpi_comm, params, ret_ctx, err);
}

static void
stop(void)
{
    struct bench_work nothing = {.layout = NULL};

    bench_mpi_lay_out(&nothing);
    if (!stop_session()) {
        MPI_Finalize();
    }
}

static void
abort_all(void)
{
    MPI_Abort(bench_mpi_comm, 1);
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
    return MPI_Barrier(bench_mpi_comm) == MPI_SUCCESS;
}

static bool
send_bytes(const void *src, size_t len, int peer)
{
    struct bench_mpi_elements m = bench_mpi_message(len);

    return MPI_Send(src, m.count, m.type, peer, TAG, bench_mpi_comm) == MPI_SUCCESS;
}

static bool
recv_bytes(void *dst, size_t len, int peer)
{
    struct bench_mpi_elements m = bench_mpi_message(len);

    return MPI_Recv(dst, m.count, m.type, peer, TAG, bench_mpi_comm,
                    MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

static bool
begin_send(int i, const void *src, size_t len, int peer)
{
    struct bench_mpi_elements m = bench_mpi_message(len);

    return MPI_Isend(src, m.count, m.type, peer, TAG, bench_mpi_comm, &sends[i]) ==
           MPI_SUCCESS;
}

static bool
begin_recv(int i, void *dst, size_t len, int peer)
{
    struct bench_mpi_elements m = bench_mpi_message(len);

    return MPI_Irecv(dst, m.count, m.type, peer, TAG, bench_mpi_comm, &recvs[i]) ==
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
    return MPI_Reduce(mine, least, count, MPI_DOUBLE, MPI_MIN, 0, bench_mpi_comm) ==
               MPI_SUCCESS &&
           MPI_Reduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, 0, bench_mpi_comm) ==
               MPI_SUCCESS &&
           MPI_Reduce(mine, most, count, MPI_DOUBLE, MPI_MAX, 0, bench_mpi_comm) ==
               MPI_SUCCESS;
}

static const struct bench_call *
find_call(const char *name)
{
    const struct bench_call *const tables[] = {bench_mpi_collectives, bench_mpi_pairs,
                                               bench_mpi_windows};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        const struct bench_call *call = bench_call_find(tables[i], name);

        if (call != NULL) {
            return call;
        }
    }
    return NULL;
}

__attribute__((visibility("default"))) extern const struct bench_mpi bench_mpi;
const struct bench_mpi bench_mpi = {
    .start = start,
    .start_serialized = start_serialized,
    .start_session = begin_session,
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
    .lay_out = bench_mpi_lay_out,
    .find_call = find_call,
};
