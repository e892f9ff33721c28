/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress between processes: the holder of the role sends commands from the ring and runs
 * libtelpher's progress, whose handlers apply what arrived. Idle workers do it, as they react
 * soonest; a rank that posts does it if the role is free; the progress thread does it while all
 * workers compute or sleep. That thread sleeps in libtelpher and is woken when another thread
 * wants the role. Then it stands by until it is called, or until no thread had the role for
 * a while.
 */
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rma/processes/remote.h"

#define WATCH ((tp_ns)250000) /* [ns] without progress before the thread takes over */
#define SLEEP ((tp_ns)20000000) /* [ns] between checks for lost peers and deadlock */
#define SEIZE ((tp_ns)1000000000) /* [ns] that tp_rma_remote_seize() waits, at most */
enum { LOST_EVERY = 64 }; /* rounds between checks for lost peers while busy */

/* ---- the ring ---- */

static telpher_rma_command *
place(const struct tp_rma_remote *r, uint64_t at)
{
    return &r->ring[at % TP_RMA_RING];
}

/* True if the first command is there. */
static bool
is_ready(const struct tp_rma_remote *r)
{
    uint64_t tail = atomic_load(&r->tail);

    return __atomic_load_n(&place(r, tail)->turn, __ATOMIC_SEQ_CST) == tail + 1;
}

static uint64_t
commands(const struct tp_rma_remote *r)
{
    return atomic_load(&r->head) - atomic_load(&r->tail);
}

static bool
push(struct tp_rma_remote *r, const telpher_rma_command *c)
{
    uint64_t at = atomic_load(&r->head);
    telpher_rma_command *to;

    for (;;) {
        int64_t late;

        to = place(r, at);
        late = (int64_t)(__atomic_load_n(&to->turn, __ATOMIC_ACQUIRE) - at);
        if (late < 0) {
            return false;
        }
        if (late > 0) {
            at = atomic_load(&r->head);
        } else if (atomic_compare_exchange_weak(&r->head, &at, at + 1)) {
            break;
        }
    }
    memcpy(to, c, offsetof(telpher_rma_command, turn));
    __atomic_store_n(&to->turn, at + 1, __ATOMIC_SEQ_CST);
    return true;
}

static void
give_room(struct tp_rma_remote *r)
{
    struct tp_rma_run *run = r->run;

    atomic_store(&r->room_wanted, false);
    for (uint32_t i = 0; i < run->params.ranks; i++) {
        tp_rma_rank_poke(&run->ranks[run->first + i]);
    }
}

bool
tp_rma_remote_has_room(struct tp_rma_remote *r)
{
    if (commands(r) < TP_RMA_RING) {
        return true;
    }
    atomic_store(&r->room_wanted, true);
    return commands(r) < TP_RMA_RING; /* drain() may have missed room_wanted */
}

/* Sends commands until the ring is empty or the first has no credit. */
static unsigned
drain(struct tp_rma_remote *r)
{
    unsigned count = 0;

    if (atomic_load(&r->stalled)) {
        atomic_store(&r->stalled, false);
    }
    while (is_ready(r)) {
        uint64_t tail = atomic_load(&r->tail);
        telpher_rma_command *c = place(r, tail);

        if (!tp_rma_remote_execute(r, c)) {
            atomic_store(&r->stalled, true);
            break;
        }
        __atomic_store_n(&c->turn, tail + TP_RMA_RING, __ATOMIC_RELEASE);
        atomic_store(&r->tail, tail + 1);
        count++;
    }
    if (atomic_load(&r->room_wanted) && commands(r) < TP_RMA_RING) {
        give_room(r); /* pokes all ranks: any of them may wait */
    }
    return count;
}

/* ---- the role ---- */

/* A rank that pushed while the role was held relies on the holder to look once more. */
void
tp_rma_remote_unlock(struct tp_rma_remote *r)
{
    do {
        tp_mutex_unlock(&r->role);
        atomic_fetch_add(&r->looks, 1);
        if (!is_ready(r) || atomic_load(&r->stalled) || !tp_mutex_trylock(&r->role)) {
            return;
        }
        drain(r);
    } while (true);
}

static void
wake_sleeper(struct tp_rma_remote *r)
{
    if (atomic_load(&r->asleep)) {
        telpher_wake(r->world->ctx);
    }
}

void
tp_rma_remote_lock(struct tp_rma_remote *r)
{
    atomic_fetch_add(&r->wanted, 1);
    wake_sleeper(r);
    tp_mutex_lock(&r->role);
    atomic_fetch_sub(&r->wanted, 1);
}

void
tp_rma_remote_seize(struct tp_rma_remote *r)
{
    tp_ns deadline = tp_clock_deadline(SEIZE);

    atomic_fetch_add(&r->wanted, 1);
    while (!tp_mutex_trylock(&r->role) && !tp_clock_passed(deadline)) {
        wake_sleeper(r);
        sched_yield();
    }
}

/* ---- one round ---- */

static void
lose(struct tp_rma_remote *r, struct tp_rma_process *p, uint32_t number)
{
    const struct tp_rma_run *run = r->run;
    uint32_t first = number * run->params.ranks;

    p->lost = true;
    r->world->broken = true;
    if (!p->done) { /* its ranks had not all returned */
        tp_rma_run_fail(r->run, TELPHER_ERR_PEER_LOST,
                        "process %u with ranks %u to %u is lost", number, first,
                        first + run->params.ranks - 1);
    }
}

void
tp_rma_remote_look_for_lost(struct tp_rma_remote *r)
{
    struct tp_rma_world *w = r->world;

    for (uint32_t i = 0; i < w->count; i++) {
        if (i != w->process && !w->processes[i].lost &&
            telpher_peer_status(w->ctx, i) != TELPHER_OK) {
            lose(r, &w->processes[i], i);
        }
    }
}

static bool
is_to_tell(const struct tp_rma_remote *r)
{
    return atomic_load(&r->run->status) != TELPHER_OK && !r->failure_sent;
}

void
tp_rma_remote_tell_failure(struct tp_rma_remote *r)
{
    telpher_rma_command c = {.op = TP_RMA_CONTROL_FAILED};
    char text[TELPHER_ERROR_TEXT_BYTES];

    if (!is_to_tell(r)) {
        return;
    }
    atomic_store(&r->failure_sent, true);
    c.tag = (uint32_t)atomic_load(&r->run->status);
    tp_mutex_lock(&r->run->fail_lock);
    tp_rma_report_text(text, sizeof(text), r->run->kernel->name,
                       r->run->report != NULL ? r->run->report : "");
    tp_mutex_unlock(&r->run->fail_lock);
    tp_rma_control_broadcast(r->world, &c, text, strlen(text) + 1);
}

unsigned
tp_rma_remote_serve(struct tp_rma_remote *r)
{
    unsigned count = drain(r);

    if (atomic_load(&r->world->forked)) {
        return count;
    }
    count += telpher_progress(r->world->ctx);
    tp_rma_remote_tell_failure(r);
    if (++r->turns % LOST_EVERY == 0) {
        tp_rma_remote_look_for_lost(r);
    }
    return count;
}

/* ---- workers ---- */

unsigned
tp_rma_remote_look(struct tp_rma_remote *r)
{
    unsigned count;

    if (!tp_mutex_trylock(&r->role)) {
        return 0;
    }
    count = tp_rma_remote_serve(r);
    tp_rma_remote_unlock(r);
    return count;
}

void
tp_rma_remote_call(struct tp_rma_remote *r)
{
    if (atomic_load(&r->parked) != 0 && atomic_exchange(&r->parked, 0) != 0) {
        syscall(SYS_futex, &r->parked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

void
tp_rma_remote_look_begin(struct tp_rma_remote *r)
{
    atomic_fetch_add(&r->lookers, 1);
    wake_sleeper(r);
}

void
tp_rma_remote_look_end(struct tp_rma_remote *r, bool sleeps)
{
    if (atomic_fetch_sub(&r->lookers, 1) == 1 && sleeps) {
        tp_rma_remote_call(r);
    }
}

void
tp_rma_remote_failed(struct tp_rma_remote *r)
{
    wake_sleeper(r);
    tp_rma_remote_call(r);
}

/* ---- posting ---- */

static telpher_status
wait_for_room(struct tp_rma_lane *lane, const struct tp_rma_call *call)
{
    const struct tp_rma_wait wait = {.kind = TP_RMA_WAIT_ROOM,
                                     .op = call->op,
                                     .where = call->where,
                                     .from = TELPHER_RMA_NO_RANK};

    struct tp_rma_remote *r = lane->rank->run->remote;
    telpher_status status;
    tp_ns begin;

    if (tp_rma_wait_look(lane->rank, &wait) == TELPHER_OK) {
        return TELPHER_OK;
    }
    begin = tp_clock_ns();
    status = tp_rma_rank_block(lane, &wait);
    atomic_fetch_add(&r->room_waits, 1);
    atomic_fetch_add(&r->room_ns, tp_clock_ns() - begin);
    return status;
}

/* Without the ring, if it is empty and the role is free. */
static bool
do_now(struct tp_rma_remote *r, const telpher_rma_command *c)
{
    bool done;

    if (!tp_mutex_trylock(&r->role)) {
        return false;
    }
    done =
        atomic_load(&r->head) == atomic_load(&r->tail) && tp_rma_remote_execute(r, c);
    tp_rma_remote_unlock(r);
    return done;
}

/* A proxy's command is executed before this returns, since its data in the GPU's ring is
 * reused then. Without a credit other proxies run; the GPU rank waits when its ring is full.
 * @return AGAIN: no credit, and the caller is a worker in the proxy's place */
static telpher_status
post_for_device(struct tp_rma_lane *lane, struct tp_rma_remote *r,
                const telpher_rma_command *command)
{
    for (;;) {
        bool done;

        tp_rma_remote_lock(r);
        done = tp_rma_remote_execute(r, command);
        tp_rma_remote_unlock(r);
        if (done) {
            return TELPHER_OK;
        }
        if (atomic_load(&lane->rank->run->status) != TELPHER_OK) {
            return TELPHER_ERR_CANCELED;
        }
        if (!tp_rma_lane_yield(lane)) {
            return TELPHER_ERR_AGAIN;
        }
    }
}

telpher_status
tp_rma_remote_post(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                   const telpher_rma_command *command)
{
    struct tp_rma_remote *r = lane->rank->run->remote;

    if (lane->rank->run->link != NULL) {
        return post_for_device(lane, r, command);
    }
    if (do_now(r, command)) {
        return TELPHER_OK;
    }
    while (!push(r, command)) {
        telpher_status status = wait_for_room(lane, call);

        if (status != TELPHER_OK) {
            return status;
        }
    }
    if (tp_mutex_trylock(&r->role)) {
        drain(r);
        tp_rma_remote_unlock(r);
    } else {
        wake_sleeper(r);
    }
    return TELPHER_OK;
}

/* ---- the thread ---- */

/* Stands by until it is called, or no thread had the role for a while. */
static void
stand_by(struct tp_rma_remote *r)
{
    const struct timespec watch = tp_clock_timespec(WATCH);
    uint64_t seen = atomic_load(&r->looks);

    atomic_store(&r->parked, 1);
    while (atomic_load(&r->parked) != 0 && !atomic_load(&r->stop)) {
        uint64_t now;

        if (is_to_tell(r)) {
            break;
        }
        syscall(SYS_futex, &r->parked, FUTEX_WAIT_PRIVATE, 1, &watch, NULL, 0);
        now = atomic_load(&r->looks);
        if (now == seen && atomic_load(&r->lookers) == 0) {
            break;
        }
        seen = now;
    }
    atomic_store(&r->parked, 0);
}

static bool
is_called_off(const struct tp_rma_remote *r)
{
    return atomic_load(&r->wanted) != 0 || atomic_load(&r->lookers) != 0 ||
           atomic_load(&r->stop);
}

static void
serve_until_called_off(struct tp_rma_remote *r)
{
    tp_mutex_lock(&r->role);
    while (!is_called_off(r)) {
        if (tp_rma_remote_serve(r) != 0) {
            continue;
        }
        atomic_store(&r->asleep, true);
        if (!is_called_off(r) && (!is_ready(r) || atomic_load(&r->stalled)) &&
            !is_to_tell(r)) {
            if (telpher_progress_sleep(r->world->ctx, SLEEP) == 0) {
                tp_rma_deadlock_look(r);
            }
            tp_rma_remote_look_for_lost(r);
        }
        atomic_store(&r->asleep, false);
    }
    tp_rma_remote_unlock(r);
}

static void *
progress_main(void *remote)
{
    struct tp_rma_remote *r = remote;

    while (!atomic_load(&r->stop)) {
        stand_by(r);
        serve_until_called_off(r);
    }
    return NULL;
}

telpher_status
tp_rma_remote_start(struct tp_rma_remote *r)
{
    return tp_thread_create(&r->thread, "tp-rma-progress", progress_main, r);
}

void
tp_rma_remote_stop(struct tp_rma_remote *r)
{
    atomic_store(&r->stop, true);
    wake_sleeper(r);
    tp_rma_remote_call(r);
    tp_thread_join(r->thread);
}
