/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided communication of an MPI: operations x ways to end an epoch x kinds of windows. */
#include "bench/mpi/mpi_int.h"

/* Windows that MPICH 4.0 allocates with fewer bytes lose accumulations. */
enum { LEAST = 4096 };

/* Of the window that is open: one at a time. */
static struct {
    MPI_Win win;
    MPI_Group peer;
    MPI_Aint target; /* of the peer's memory, in a dynamic window */
    uint8_t old[1 << 22]; /* what the fetching operations fetch */
} s;

/* At a place in the peer's memory and in our own [bytes]. */
typedef int (*operation_fn)(struct bench_work *w, size_t at);

/* ---- operations ---- */

static int
put(struct bench_work *w, size_t at)
{
    return MPI_Put(w->out + at, (int)w->len, MPI_BYTE, w->peer, s.target + (MPI_Aint)at,
                   (int)w->len, MPI_BYTE, s.win);
}

static int
get(struct bench_work *w, size_t at)
{
    return MPI_Get(w->in + at, (int)w->len, MPI_BYTE, w->peer, s.target + (MPI_Aint)at,
                   (int)w->len, MPI_BYTE, s.win);
}

static int
accumulate(struct bench_work *w, size_t at)
{
    return MPI_Accumulate(w->out, (int)w->len, MPI_SIGNED_CHAR, w->peer,
                          s.target + (MPI_Aint)at, (int)w->len, MPI_SIGNED_CHAR,
                          MPI_SUM, s.win);
}

static int
get_accumulate(struct bench_work *w, size_t at)
{
    int len = (int)(w->len < sizeof(s.old) ? w->len : sizeof(s.old));

    return MPI_Get_accumulate(w->out, len, MPI_SIGNED_CHAR, s.old, len, MPI_SIGNED_CHAR,
                              w->peer, s.target + (MPI_Aint)at, len, MPI_SIGNED_CHAR,
                              MPI_SUM, s.win);
}

static int
fetch_and_op(struct bench_work *w, size_t at)
{
    return MPI_Fetch_and_op(w->out, s.old, MPI_INT64_T, w->peer,
                            s.target + (MPI_Aint)at, MPI_SUM, s.win);
}

static int
compare_and_swap(struct bench_work *w, size_t at)
{
    static const int64_t zero = 0;

    return MPI_Compare_and_swap(w->out, &zero, s.old, MPI_INT64_T, w->peer,
                                s.target + (MPI_Aint)at, s.win);
}

/* ---- windows ---- */

/* Does that rank's memory serve the other's operations? */
static bool
create(struct bench_work *w, uint8_t **memory, size_t bytes)
{
    MPI_Aint mine = 0;

    switch (w->memory) {
    case BENCH_ALLOCATE:
        return bench_mpi_good(MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL,
                                               bench_mpi_comm, memory, &s.win));
    case BENCH_CREATE:
        return bench_mpi_good(MPI_Win_create(*memory, (MPI_Aint)bytes, 1, MPI_INFO_NULL,
                                             bench_mpi_comm, &s.win));
    default:
        return bench_mpi_good(
                   MPI_Win_create_dynamic(MPI_INFO_NULL, bench_mpi_comm, &s.win)) &&
               bench_mpi_good(MPI_Win_attach(s.win, *memory, (MPI_Aint)bytes)) &&
               bench_mpi_good(MPI_Get_address(*memory, &mine)) &&
               bench_mpi_good(MPI_Sendrecv(&mine, 1, MPI_AINT, w->peer, 1, &s.target, 1,
                                           MPI_AINT, w->peer, 1, bench_mpi_comm,
                                           MPI_STATUS_IGNORE));
    }
}

/* Does one epoch, of the first of the pair, last for all operations? */
static bool
is_locked(const struct bench_work *w)
{
    return w->first && (w->sync == BENCH_FLUSH || w->sync == BENCH_FLUSH_LOCAL);
}

static bool
open_window(struct bench_work *w, uint8_t **memory, int lock)
{
    size_t slots = w->stride != 0 ? (size_t)w->window : 1;
    size_t bytes = slots > 1 ? slots * w->stride : w->len;
    MPI_Group world;

    s.target = 0;
    if (w->memory == BENCH_ALLOCATE && bytes < LEAST) {
        bytes = LEAST;
    }
    if (!create(w, memory, bytes) ||
        !bench_mpi_good(MPI_Comm_group(bench_mpi_comm, &world)) ||
        !bench_mpi_good(MPI_Group_incl(world, 1, &w->peer, &s.peer))) {
        return false;
    }
    MPI_Group_free(&world);
    return !is_locked(w) || bench_mpi_good(MPI_Win_lock(lock, w->peer, 0, s.win));
}

static bool
open_in(struct bench_work *w)
{
    w->trips = w->sync == BENCH_PSCW || w->sync == BENCH_FENCE ? 2 : 1;
    return open_window(w, &w->in, MPI_LOCK_SHARED);
}

/* As OSU: Open MPI's get_accumulate takes a lock of its own in a shared epoch. */
static bool
open_in_exclusive(struct bench_work *w)
{
    w->trips = w->sync == BENCH_PSCW || w->sync == BENCH_FENCE ? 2 : 1;
    return open_window(w, &w->in, MPI_LOCK_EXCLUSIVE);
}

static bool
open_in_once(struct bench_work *w)
{
    return open_window(w, &w->in, MPI_LOCK_SHARED);
}

static bool
open_out(struct bench_work *w)
{
    w->trips = w->sync == BENCH_PSCW || w->sync == BENCH_FENCE ? 2 : 1;
    return open_window(w, &w->out, MPI_LOCK_SHARED);
}

static bool
open_out_once(struct bench_work *w)
{
    return open_window(w, &w->out, MPI_LOCK_SHARED);
}

static void
close_window(struct bench_work *w)
{
    if (is_locked(w)) {
        MPI_Win_unlock(w->peer, s.win);
    }
    MPI_Group_free(&s.peer);
    MPI_Win_free(&s.win);
}

/* ---- epochs ---- */

static bool
operate(struct bench_work *w, operation_fn operation, int count)
{
    for (int i = 0; i < count; i++) {
        if (!bench_mpi_good(operation(w, (size_t)i * w->stride))) {
            return false;
        }
    }
    return true;
}

/* The first of the pair operates, the other does nothing. */
static bool
passive(struct bench_work *w, operation_fn operation, int count)
{
    if (!w->first) {
        return true;
    }
    switch (w->sync) {
    case BENCH_LOCK:
        return bench_mpi_good(MPI_Win_lock(MPI_LOCK_SHARED, w->peer, 0, s.win)) &&
               operate(w, operation, count) &&
               bench_mpi_good(MPI_Win_unlock(w->peer, s.win));
    case BENCH_LOCK_ALL:
        return bench_mpi_good(MPI_Win_lock_all(0, s.win)) &&
               operate(w, operation, count) &&
               bench_mpi_good(MPI_Win_unlock_all(s.win));
    case BENCH_FLUSH_LOCAL: /* the content is looked at only when it is there */
        if (!w->validation) {
            return operate(w, operation, count) &&
                   bench_mpi_good(MPI_Win_flush_local(w->peer, s.win));
        } /* fall through */
    default:
        return operate(w, operation, count) &&
               bench_mpi_good(MPI_Win_flush(w->peer, s.win));
    }
}

static bool
access_peer(struct bench_work *w, operation_fn operation, int count)
{
    return bench_mpi_good(MPI_Win_start(s.peer, 0, s.win)) &&
           operate(w, operation, count) && bench_mpi_good(MPI_Win_complete(s.win));
}

static bool
expose(struct bench_work *w)
{
    return bench_mpi_good(MPI_Win_post(s.peer, 0, s.win)) &&
           bench_mpi_good(MPI_Win_wait(s.win));
}

/* Does one of the pair operate in an epoch of its own, once? */
static bool
active(struct bench_work *w, operation_fn operation, int count, bool mine)
{
    if (w->sync == BENCH_FENCE) {
        return bench_mpi_good(MPI_Win_fence(0, s.win)) &&
               (!mine || operate(w, operation, count)) &&
               bench_mpi_good(MPI_Win_fence(0, s.win));
    }
    return mine ? access_peer(w, operation, count) : expose(w);
}

static bool
is_active(const struct bench_work *w)
{
    return w->sync == BENCH_PSCW || w->sync == BENCH_FENCE;
}

/* There, and in active epochs back: as long as the round trip of a message. */
static bool
run_once(struct bench_work *w, operation_fn operation)
{
    return is_active(w)
               ? active(w, operation, 1, w->first) && active(w, operation, 1, !w->first)
               : passive(w, operation, 1);
}

static bool
run_window(struct bench_work *w, operation_fn operation)
{
    return is_active(w) ? active(w, operation, w->window, w->first)
                        : passive(w, operation, w->window);
}

/* Both operate at the same time, which only active epochs can end for both. */
static bool
start_put_bibw(struct bench_work *w)
{
    if (w->sync != BENCH_PSCW) {
        return active(w, put, w->window, true);
    }
    return bench_mpi_good(MPI_Win_post(s.peer, 0, s.win)) &&
           access_peer(w, put, w->window) && bench_mpi_good(MPI_Win_wait(s.win));
}

#define OPERATION(name, run, operation)                                                \
    static bool start_##name(struct bench_work *w) { return run(w, operation); }
OPERATION(put_latency, run_once, put)
OPERATION(get_latency, run_once, get)
OPERATION(acc_latency, run_once, accumulate)
OPERATION(get_acc_latency, run_once, get_accumulate)
OPERATION(fop_latency, run_once, fetch_and_op)
OPERATION(cas_latency, run_once, compare_and_swap)
OPERATION(put_bw, run_window, put)
OPERATION(get_bw, run_window, get)

const struct bench_call bench_mpi_windows[] = {
    {"put_latency", open_in, start_put_latency, NULL, NULL, close_window},
    {"get_latency", open_out, start_get_latency, NULL, NULL, close_window},
    {"acc_latency", open_in, start_acc_latency, NULL, NULL, close_window},
    {"get_acc_latency", open_in_exclusive, start_get_acc_latency, NULL, NULL,
     close_window},
    {"fop_latency", open_in, start_fop_latency, NULL, NULL, close_window},
    {"cas_latency", open_in, start_cas_latency, NULL, NULL, close_window},
    {"put_bw", open_in_once, start_put_bw, NULL, NULL, close_window},
    {"get_bw", open_out_once, start_get_bw, NULL, NULL, close_window},
    {"put_bibw", open_in_once, start_put_bibw, NULL, NULL, close_window},
    {"get_multi_lat", open_out, start_get_latency, NULL, NULL, close_window},
    {"get_mbw", open_out_once, start_get_bw, NULL, NULL, close_window},
    {NULL, NULL, NULL, NULL, NULL, NULL}};
