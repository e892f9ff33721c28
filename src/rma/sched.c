/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: each runs the lanes of its ranks in turn, and after a poke checks what a
 * rank waits for. idle.c has the idle workers.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "rma/gpu/link.h"
#include "rma/processes/remote.h"

/* turns between two checks: clock, other processes */
enum { CLOCK_EVERY = 64, LOOK_EVERY = 16 };

/* The lane that this thread runs. A lane never changes threads. */
static _Thread_local struct tp_rma_lane *current;

telpher_rma *
telpher_rma_here(void)
{
    return current != NULL ? &current->api : NULL;
}

/* ---- turns ---- */

void
tp_rma_lane_ready(struct tp_rma_lane *lane)
{
    struct tp_rma_worker *w = lane->rank->worker;
    uint32_t at = (w->ready_first + w->ready_count) % w->ready_size;

    w->ready[at] = lane;
    w->ready_count++;
}

static uint64_t
next_random(struct tp_rma_worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static struct tp_rma_lane *
take_ready(struct tp_rma_worker *w)
{
    struct tp_rma_lane *lane;

    if (w->ready_count == 0) {
        return NULL;
    }
    if (w->run->params.check != 0) { /* any of them may run first */
        uint32_t other =
            (w->ready_first + (uint32_t)(next_random(w) % w->ready_count)) %
            w->ready_size;

        lane = w->ready[other];
        w->ready[other] = w->ready[w->ready_first];
        w->ready[w->ready_first] = lane;
    }
    lane = w->ready[w->ready_first];
    w->ready_first = (w->ready_first + 1) % w->ready_size;
    w->ready_count--;
    return lane;
}

void
tp_rma_lane_suspend(struct tp_rma_lane *lane)
{
    current = NULL;
    tp_fiber_switch(&lane->fiber, &lane->rank->worker->self);
    current = lane;
}

bool
tp_rma_lane_yield(struct tp_rma_lane *lane)
{
    if (current == NULL) {
        return false;
    }
    tp_rma_lane_ready(lane);
    tp_rma_lane_suspend(lane);
    return true;
}

/* ---- pokes ---- */

static void
wake(struct tp_rma_worker *w)
{
    if (atomic_load(&w->sleeping) != 0 && atomic_exchange(&w->sleeping, 0) != 0) {
        syscall(SYS_futex, &w->sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

void
tp_rma_rank_poke(struct tp_rma_rank *rank)
{
    atomic_fetch_or(&rank->worker->poked[rank->local / 64],
                    (uint64_t)1 << (rank->local % 64));
    wake(rank->worker);
}

void
tp_rma_run_wake(struct tp_rma_run *run)
{
    for (uint32_t i = 0; i < run->worker_count; i++) {
        wake(&run->workers[i]);
    }
}

/* ---- waits ---- */

static void
end_wait(struct tp_rma_rank *rank, telpher_status status)
{
    tp_mutex_lock(&rank->lock);
    rank->wait.kind = TP_RMA_WAIT_NONE;
    tp_mutex_unlock(&rank->lock);
    rank->wait_status = status;
    tp_rma_lane_ready(rank->waiter);
}

/* Only its worker changes what a rank waits for, so the worker may read it without
 * the lock. */
static void
look_at(struct tp_rma_rank *rank)
{
    telpher_status status;

    if (rank->wait.kind == TP_RMA_WAIT_NONE ||
        atomic_load(&rank->run->status) != TELPHER_OK) { /* release_all() follows */
        return;
    }
    status = tp_rma_wait_look(rank, &rank->wait);
    if (status == TELPHER_ERR_PEER_LOST) {
        tp_rma_run_fail(rank->run, status,
                        "rank %u waits for rank %u, whose kernel has returned",
                        rank->index, rank->wait.from);
    }
    if (status != TELPHER_ERR_AGAIN) {
        end_wait(rank, status);
    }
}

static void
take_pokes(struct tp_rma_worker *w)
{
    for (uint32_t i = 0; i < tp_rma_worker_poke_words(w); i++) {
        uint64_t bits = atomic_load_explicit(&w->poked[i], memory_order_relaxed) != 0
                            ? atomic_exchange(&w->poked[i], 0)
                            : 0;

        for (; bits != 0; bits &= bits - 1) {
            look_at(w->ranks[i * 64 + (uint32_t)__builtin_ctzll(bits)]);
        }
    }
}

telpher_status
tp_rma_rank_block(struct tp_rma_lane *lane, const struct tp_rma_wait *wait)
{
    struct tp_rma_rank *rank = lane->rank;
    struct tp_rma_worker *w = rank->worker;

    if (atomic_load(&rank->run->status) != TELPHER_OK) {
        return TELPHER_ERR_CANCELED;
    }
    tp_mutex_lock(&rank->lock);
    rank->wait = *wait;
    rank->wait.since = tp_clock_ns();
    if (!wait->own_deadline) {
        rank->wait.deadline =
            tp_clock_add(rank->wait.since, rank->run->params.timeout_ns);
    }
    w->next_deadline = TP_MIN(w->next_deadline, rank->wait.deadline);
    tp_mutex_unlock(&rank->lock);
    rank->waiter = lane;
    tp_rma_lane_suspend(lane);
    rank->waiter = NULL;
    return rank->wait_status;
}

/* The wait of a rank exceeded its limit. */
static void
expire(struct tp_rma_rank *rank)
{
    if (!rank->wait.own_deadline) {
        tp_rma_run_fail(rank->run, TELPHER_ERR_TIMEOUT,
                        "rank %u waited longer than the deadline of %.3f s",
                        rank->index, (double)rank->run->params.timeout_ns * 1e-9);
    }
    end_wait(rank, TELPHER_ERR_TIMEOUT);
}

static void
check_deadlines(struct tp_rma_worker *w)
{
    tp_ns now, next = TP_CLOCK_FOREVER;

    if (w->next_deadline == TP_CLOCK_FOREVER ||
        (now = tp_clock_ns()) < w->next_deadline) {
        return;
    }
    for (uint32_t i = 0; i < w->rank_count; i++) {
        struct tp_rma_rank *rank = w->ranks[i];

        if (rank->wait.kind == TP_RMA_WAIT_NONE) {
            continue;
        }
        if (rank->wait.deadline <= now) {
            expire(rank);
        } else {
            next = TP_MIN(next, rank->wait.deadline);
        }
    }
    w->next_deadline = next;
}

/* Result of a wait itself in a launch that failed. */
static bool
is_told(telpher_status status)
{
    return status == TELPHER_ERR_DEADLOCK || status == TELPHER_ERR_PEER_LOST;
}

/* The run has failed: ends all waits, and lanes that wait for others of their rank
 * return. Once is enough, because later calls neither wait nor park. */
static void
release_all(struct tp_rma_worker *w, telpher_status status)
{
    w->released = true;
    for (uint32_t i = 0; i < w->rank_count; i++) {
        struct tp_rma_rank *rank = w->ranks[i];

        if (rank->wait.kind != TP_RMA_WAIT_NONE) {
            end_wait(rank, is_told(status) ? status : TELPHER_ERR_CANCELED);
        } else if (rank->arrived > 0 && rank->arrived < w->run->lanes) {
            tp_rma_rank_release(rank);
        }
    }
}

/* ---- the worker ---- */

static void
lane_main(void *arg)
{
    struct tp_rma_lane *lane = arg;
    const struct tp_rma_rank *rank = lane->rank;

    current = lane;
    rank->run->kernel->body(&lane->api);
    tp_rma_lane_end(lane);
    current = NULL;
}

static void
start_lanes(struct tp_rma_worker *w)
{
    for (uint32_t i = 0; i < w->rank_count; i++) {
        struct tp_rma_rank *rank = w->ranks[i];

        for (uint32_t k = 0; k < w->run->lanes; k++) {
            tp_fiber_init(&rank->lanes[k].fiber, &w->run->stacks,
                          (size_t)(rank->index - w->run->first) * w->run->lanes + k,
                          lane_main, &rank->lanes[k]);
            rank->lanes[k].fiber.back = &w->self;
            tp_rma_lane_ready(&rank->lanes[k]);
        }
    }
}

static void
run_lanes(struct tp_rma_worker *w)
{
    for (unsigned turn = 0; w->live > 0; turn++) {
        telpher_status status = atomic_load(&w->run->status);
        struct tp_rma_lane *lane;
        bool slept = false;

        take_pokes(w);
        if (status != TELPHER_OK && !w->released) {
            release_all(w, status);
        }
        lane = take_ready(w);
        if (w->run->remote != NULL && turn % LOOK_EVERY == 0) {
            /* for ranks that only test, and never wait */
            tp_rma_remote_look(w->run->remote);
            if (w->run->link != NULL) {
                tp_rma_link_scan(w);
            }
        }
        if (lane != NULL) {
            tp_fiber_switch(&w->self, &lane->fiber);
        } else {
            slept = tp_rma_worker_rest(w);
        }
        if (slept || turn % CLOCK_EVERY == 0) {
            check_deadlines(w);
        }
    }
}

void *
tp_rma_worker_main(void *worker)
{
    struct tp_rma_worker *w = worker;
    struct tp_rma_crash_stack stack;
    bool canceled;

    tp_mutex_lock(&w->run->idle_lock);
    canceled = w->run->canceled;
    tp_mutex_unlock(&w->run->idle_lock);
    if (canceled) {
        return NULL;
    }
    tp_rma_crash_enter(w->run, &stack);
    tp_fiber_init_thread(&w->self);
    start_lanes(w);
    run_lanes(w);
    tp_rma_crash_leave(&stack);
    tp_rma_worker_idle(w); /* until the end of the run */
    for (uint32_t i = 0; i < w->rank_count; i++) {
        for (uint32_t k = 0; k < w->run->lanes; k++) {
            tp_fiber_fini(&w->ranks[i]->lanes[k].fiber);
        }
    }
    return NULL;
}
