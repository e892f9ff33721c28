/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent, partitioned and congested point-to-point communication of an MPI. */
#include "bench/mpi/mpi_int.h"

enum { TAG = 1, ACK = 2 };

/* Of the call that is open: one at a time. A window's sends, then its receives. */
static struct {
    MPI_Request requests[2 * BENCH_MPI_WINDOW_MAX];
    MPI_Status
        statuses[2 *
                 BENCH_MPI_WINDOW_MAX]; /* MPICH's MPI_STATUSES_IGNORE makes GCC warn */
    int sends, recvs;
} s;

static uint8_t *
slot(const struct bench_work *w, uint8_t *base, int i)
{
    return base + (size_t)i * w->stride;
}

/* ---- persistent ---- */

static bool
init_window(struct bench_work *w, int sends, int recvs)
{
    struct bench_mpi_elements m = bench_mpi_message(w->len);

    s.sends = s.recvs = 0;
    for (; s.sends < sends; s.sends++) {
        if (!bench_mpi_good(MPI_Send_init(slot(w, w->out, s.sends), m.count, m.type,
                                          w->peer, TAG, bench_mpi_comm,
                                          &s.requests[s.sends]))) {
            return false;
        }
    }
    for (; s.recvs < recvs; s.recvs++) {
        if (!bench_mpi_good(MPI_Recv_init(slot(w, w->in, s.recvs), m.count, m.type,
                                          w->peer, TAG, bench_mpi_comm,
                                          &s.requests[s.sends + s.recvs]))) {
            return false;
        }
    }
    return true;
}

static bool
open_one(struct bench_work *w)
{
    w->trips = 2;
    return init_window(w, 1, 1);
}

static bool
open_bw(struct bench_work *w)
{
    return init_window(w, w->first ? w->window : 0, w->first ? 0 : w->window);
}

static bool
open_bibw(struct bench_work *w)
{
    return init_window(w, w->window, w->window);
}

static void
close_requests(struct bench_work *w)
{
    for (int i = 0; i < s.sends + s.recvs; i++) {
        MPI_Request_free(&s.requests[i]);
    }
}

static bool
run_request(int i)
{
    return bench_mpi_good(MPI_Start(&s.requests[i])) &&
           bench_mpi_good(MPI_Wait(&s.requests[i], MPI_STATUS_IGNORE));
}

static bool
start_latency(struct bench_work *w)
{
    return run_request(w->first ? 0 : 1) && run_request(w->first ? 1 : 0);
}

/* The second of the pair says that the window has arrived. */
static bool
acknowledge(struct bench_work *w)
{
    char byte = 0;

    return bench_mpi_good(
        w->first ? MPI_Recv(&byte, 1, MPI_BYTE, w->peer, ACK, bench_mpi_comm,
                            MPI_STATUS_IGNORE)
                 : MPI_Send(&byte, 1, MPI_BYTE, w->peer, ACK, bench_mpi_comm));
}

static bool
start_both(struct bench_work *w)
{
    return bench_mpi_good(MPI_Startall(s.sends + s.recvs, s.requests)) &&
           bench_mpi_good(MPI_Waitall(s.sends + s.recvs, s.requests, s.statuses));
}

static bool
start_bw(struct bench_work *w)
{
    return start_both(w) && acknowledge(w);
}

/* ---- partitioned ---- */

#ifdef BENCH_MPI_PARTITIONED
static int
partitions_of(const struct bench_work *w)
{
    int n = w->partitions;

    while (w->len % (size_t)n != 0) {
        n--;
    }
    return n;
}

static bool
init_parts(struct bench_work *w, int sends, int recvs)
{
    int n = partitions_of(w);
    MPI_Count count = (MPI_Count)(w->len / (size_t)n);

    s.sends = s.recvs = 0;
    for (; s.sends < sends; s.sends++) {
        if (!bench_mpi_good(MPI_Psend_init(slot(w, w->out, s.sends), n, count, MPI_BYTE,
                                           w->peer, TAG, bench_mpi_comm, MPI_INFO_NULL,
                                           &s.requests[s.sends]))) {
            return false;
        }
    }
    for (; s.recvs < recvs; s.recvs++) {
        if (!bench_mpi_good(MPI_Precv_init(slot(w, w->in, s.recvs), n, count, MPI_BYTE,
                                           w->peer, TAG, bench_mpi_comm, MPI_INFO_NULL,
                                           &s.requests[s.sends + s.recvs]))) {
            return false;
        }
    }
    return true;
}

static bool
open_parts(struct bench_work *w)
{
    w->trips = 2;
    return init_parts(w, 1, 1);
}

static bool
open_parts_bw(struct bench_work *w)
{
    return init_parts(w, w->first ? w->window : 0, w->first ? 0 : w->window);
}

/* Parts are ready one by one, as by the threads that make them. */
static bool
ready_parts(struct bench_work *w, int send)
{
    for (int part = 0, n = partitions_of(w); part < n; part++) {
        if (!bench_mpi_good(MPI_Pready(part, s.requests[send]))) {
            return false;
        }
    }
    return true;
}

static bool
send_parts(struct bench_work *w)
{
    return bench_mpi_good(MPI_Start(&s.requests[0])) && ready_parts(w, 0) &&
           bench_mpi_good(MPI_Wait(&s.requests[0], MPI_STATUS_IGNORE));
}

static bool
start_parts(struct bench_work *w)
{
    return w->first ? send_parts(w) && run_request(1) : run_request(1) && send_parts(w);
}

static bool
start_parts_bw(struct bench_work *w)
{
    if (!bench_mpi_good(MPI_Startall(s.sends + s.recvs, s.requests))) {
        return false;
    }
    for (int i = 0; i < s.sends; i++) {
        if (!ready_parts(w, i)) {
            return false;
        }
    }
    return bench_mpi_good(MPI_Waitall(s.sends + s.recvs, s.requests, s.statuses)) &&
           acknowledge(w);
}
#endif

/* ---- all to one, one to all ---- */

/* Begins a window from or to @p peer. Block @p block of a buffer is that rank's. */
static bool
begin_window(struct bench_work *w, bool send, int peer, int block)
{
    struct bench_mpi_elements m = bench_mpi_message(w->len);

    for (int i = 0; i < w->window; i++) {
        uint8_t *at = (send ? w->out : w->in) + (size_t)block * w->len;
        MPI_Request *request = &s.requests[s.sends];
        int error =
            send ? MPI_Isend(at, m.count, m.type, peer, TAG, bench_mpi_comm, request)
                 : MPI_Irecv(at, m.count, m.type, peer, TAG, bench_mpi_comm, request);

        if (!bench_mpi_good(error)) {
            return false;
        }
        if (++s.sends == 2 * BENCH_MPI_WINDOW_MAX) { /* more ranks than requests */
            if (!bench_mpi_good(MPI_Waitall(s.sends, s.requests, s.statuses))) {
                return false;
            }
            s.sends = 0;
        }
    }
    return true;
}

static bool
start_fan(struct bench_work *w, bool in)
{
    bool good = true;

    s.sends = 0;
    if (w->rank != w->root) {
        good = begin_window(w, in, w->root, 0);
    }
    for (int i = 0; good && w->rank == w->root && i < w->size; i++) {
        good = i == w->root || begin_window(w, !in, i, i);
    }
    return good && bench_mpi_good(MPI_Waitall(s.sends, s.requests, s.statuses)) &&
           bench_mpi_good(MPI_Barrier(bench_mpi_comm));
}

static bool
start_fan_in(struct bench_work *w)
{
    return start_fan(w, true);
}

static bool
start_fan_out(struct bench_work *w)
{
    return start_fan(w, false);
}

const struct bench_call bench_mpi_pairs[] = {
    {"latency_persistent", open_one, start_latency, NULL, NULL, close_requests},
    {"bw_persistent", open_bw, start_bw, NULL, NULL, close_requests},
    {"bibw_persistent", open_bibw, start_both, NULL, NULL, close_requests},
#ifdef BENCH_MPI_PARTITIONED
    {"latency_partitioned", open_parts, start_parts, NULL, NULL, close_requests},
    {"bw_partitioned", open_parts_bw, start_parts_bw, NULL, NULL, close_requests},
#endif
    {"bw_fan_in", NULL, start_fan_in, NULL, NULL, NULL},
    {"bw_fan_out", NULL, start_fan_out, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL}};
