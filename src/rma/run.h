/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes, ranks, groups, workers and runs: the structs of the backend for processors. */
#ifndef TELPHER_RMA_RUN_H
#define TELPHER_RMA_RUN_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <telpher/rma/host.h>

#include "base/os/clock.h"
#include "base/os/fiber.h"
#include "base/os/thread.h"

struct tp_rma_run;
struct tp_rma_worker;
struct tp_rma_rank;
struct tp_rma_races;
struct tp_rma_remote;
struct tp_rma_spread;
struct tp_rma_world;
struct tp_rma_link;

enum { TP_RMA_GROUPS_MAX = 8192, TP_RMA_WINDOWS_MAX = 4096 };
enum { TP_RMA_STACK_MIN = 16 << 10 }; /* [bytes] */
enum { TP_RMA_CHECK_ALL = TELPHER_RMA_CHECK_LANES | TELPHER_RMA_CHECK_RACES };

/* ---- lanes ---- */

/** Collective operations of a rank's lanes. They distinguish sync, put and notify of
 *  one rank. */
enum tp_rma_op {
    TP_RMA_OP_NONE = 0,
    TP_RMA_OP_SYNC,
    TP_RMA_OP_SHARED,
    TP_RMA_OP_LANE_SUM,
    TP_RMA_OP_WIN_CREATE,
    TP_RMA_OP_WIN_FREE,
    TP_RMA_OP_PUT,
    TP_RMA_OP_PUT_NOTIFY,
    TP_RMA_OP_PUT_VALUE,
    TP_RMA_OP_GET,
    TP_RMA_OP_FLUSH,
    TP_RMA_OP_NOTIFY,
    TP_RMA_OP_TEST,
    TP_RMA_OP_WAIT,
    TP_RMA_OP_WAIT_ANY,
    TP_RMA_OP_BARRIER,
    TP_RMA_OP_BROADCAST,
    TP_RMA_OP_REDUCE,
    TP_RMA_OP_SPLIT,
    TP_RMA_OP_TIMER
};

/** Name of an operation for texts: "barrier" for TP_RMA_OP_BARRIER. */
const char *tp_rma_op_name(enum tp_rma_op op);

/** One call of a rank, as each of its lanes makes it. */
struct tp_rma_call {
    enum tp_rma_op op;
    const char *where;
    uint64_t args[8]; /* what all lanes must agree on; the rest 0 */
    const void *in; /* for the thread that executes it alone */
};

/** Result of a call, for all lanes. */
struct tp_rma_result {
    telpher_status status;
    int64_t value;
    double real;
    void *pointer;
};

struct tp_rma_lane {
    telpher_rma api; /* first: a kernel's handle is its lane */
    struct tp_fiber fiber;
    struct tp_rma_rank *rank;
    double sum; /* this lane's part of a lane_sum */
    bool parked; /* waits for the rank's other lanes */
};

/* ---- waiting ---- */

/** Why a rank does not run. */
enum tp_rma_wait_kind {
    TP_RMA_WAIT_NONE = 0,
    TP_RMA_WAIT_TAG,
    TP_RMA_WAIT_ANY,
    TP_RMA_WAIT_GROUP,
    TP_RMA_WAIT_ANSWER, /* of another process */
    TP_RMA_WAIT_ROOM, /* for a command to another process */
    TP_RMA_WAIT_DEVICE /* of a proxy: for a command of its rank on a GPU */
};

/** Guarded by the rank's lock, since reports look at it. */
struct tp_rma_wait {
    enum tp_rma_wait_kind kind;
    enum tp_rma_op op;
    const char *where;
    tp_ns since, deadline;
    bool own_deadline; /* the kernel's: passing it is an answer */
    uint32_t tag, count, from; /* from: world rank, or TELPHER_RMA_NO_RANK */
    const uint32_t *tags; /* TP_RMA_WAIT_ANY: count of them */
    struct tp_rma_group *group; /* TP_RMA_WAIT_GROUP */
    uint32_t generation;
};

/** A shared memory object of the lanes. */
struct tp_rma_shared {
    struct tp_rma_shared *next;
    const void *site;
    size_t len;
    _Alignas(64) char data[];
};

/** State of a rank's puts to a process. */
enum tp_rma_unflushed {
    TP_RMA_FLUSHED = 0, /* all puts have arrived */
    TP_RMA_UNFLUSHED, /* it may be under way */
    TP_RMA_FLUSHING /* a flush was sent; the process has not answered yet */
};

/* Of a rank of another process only run, index, remote and returned are set. */
struct tp_rma_rank {
    struct tp_rma_run *run;
    bool remote; /* it lies in another process */
    bool near_source; /* a proxy's next put or get is of the host's memory */
    struct tp_rma_worker *worker;
    uint32_t index; /* in the world */
    uint32_t device;
    uint32_t local; /* in its worker: its bit of `poked` */
    struct tp_rma_lane *lanes;
    _Atomic uint32_t *counts; /* notifications that arrived, by tag */
    _Atomic uint32_t *senders; /* the rank that sent the last of a tag, plus 1 */
    uint32_t *taken; /* and were taken; this rank's own */
    struct tp_mutex lock; /* wait, asks, last */
    struct tp_rma_wait wait;
    struct tp_rma_wait
        asks; /* tests without success since it did anything else; for reports */
    telpher_status wait_status;
    _Atomic(const char *) last; /* where this rank made its last call */
    struct tp_rma_call call; /* the call of the first lane */
    struct tp_rma_result result;
    uint32_t arrived, left; /* lanes at the call; lanes that returned from the kernel */
    _Atomic bool returned; /* all lanes did */
    struct tp_rma_lane *waiter; /* the lane that waits for all of them */
    _Atomic uint32_t answers; /* that other processes owe to this rank */
    char *scratch; /* of reductions over processes; one of `shared` */
    size_t scratch_len;
    uint8_t *unflushed; /* by process: enum tp_rma_unflushed */
    struct tp_rma_shared *shared;
    uint32_t canceled; /* calls since the run failed */
};

/* ---- groups ---- */

/** Arguments of one member's present collective call. */
struct tp_rma_slot {
    _Atomic uint32_t arrived; /* generation it is in, plus 1 */
    enum tp_rma_op op;
    const char *where;
    uint64_t args[4];
    telpher_rma_fold fold;
    void *base; /* windows */
    uint64_t len;
    int32_t color, key; /* splits */
    int32_t result; /* of this member */
};

/** Ranks that do something all together. */
struct tp_rma_group {
    int32_t
        number; /* in the run's table; of a spread group the same in all processes */
    uint32_t size;
    uint32_t local; /* members in this process */
    struct tp_rma_spread *spread; /* NULL: all members are */
    uint32_t *members; /* world ranks */
    uint32_t *positions; /* by world rank; TELPHER_RMA_NO_RANK = not in it */
    struct tp_rma_slot *slots; /* by position */
    char name[24];
    _Atomic uint32_t arrived, generation;
    /* Written by the last that comes, read by all after the generation has changed. */
    telpher_status status;
    int32_t result;
};

struct tp_rma_window {
    struct tp_rma_group *group;
    _Atomic bool open; /* a closed one is used again by its group */
    struct tp_rma_part {
        char *base;
        uint64_t len;
    } parts[]; /* by position in the group */
};

/* ---- workers and runs ---- */

struct tp_rma_worker {
    struct tp_rma_run *run;
    pthread_t thread;
    struct tp_fiber self;
    uint32_t index, rank_count, live; /* ranks that have not returned */
    struct tp_rma_rank **ranks;
    struct tp_rma_lane **ready; /* a ring of lanes that may run */
    uint32_t ready_first, ready_count, ready_size;
    tp_ns next_deadline;
    tp_ns busy; /* proxies': when one had a command last */
    bool took; /* it did one of theirs itself, since it looked at the clock */
    tp_ns spin; /* time to poll before sleeping; 0 = no other thread can wake the
                 * worker */
    uint32_t crowded; /* times to sleep at once, since others want the processor */
    uint64_t random;
    bool idle; /* counted in run->idle */
    bool released; /* the run has failed: no rank waits any more */
    uint32_t vain; /* tests without success since a lane did anything else */
    _Atomic uint64_t *poked; /* a bit a rank: look at what it waits for */
    _Atomic uint32_t sleeping;
};

struct tp_rma_run {
    telpher_rma_job *job;
    const telpher_rma_kernel *kernel;
    void *data;
    telpher_rma_params params; /* every value set */
    uint32_t lanes, worker_count;
    tp_ns spin; /* workers' at the beginning, and when waits are long */
    uint32_t device_count; /* of all processes */
    uint32_t first, world; /* this process's first rank; ranks of all processes */
    struct tp_rma_remote *remote; /* NULL: this process is alone */
    struct tp_rma_link
        *link; /* NULL: its ranks run on processors, and are no proxies */
    struct tp_rma_rank
        *ranks; /* of the world; this process's are params.ranks from first on */
    struct tp_rma_lane *lane_memory;
    struct tp_rma_worker *workers;
    struct tp_stacks stacks;
    _Atomic uint32_t *counts, *senders;
    uint32_t *taken;
    uint8_t *unflushed;
    struct tp_mutex idle_lock; /* protects start, idle and the deadlock decision */
    uint32_t idle;
    bool canceled; /* before it began: not all workers could be started */
    struct tp_mutex fail_lock; /* status, report, timings, log */
    _Atomic bool failed; /* a thread writes the report; status follows */
    _Atomic telpher_status status;
    char *report;
    double *timings;
    size_t timing_count, timing_max;
    tp_ns *timer_starts; /* by device */
    struct tp_mutex table_lock; /* new groups and windows */
    _Atomic(struct tp_rma_group *)
        groups[TP_RMA_GROUPS_MAX]; /* world, devices, splits */
    _Atomic(struct tp_rma_window *) windows[TP_RMA_WINDOWS_MAX];
    uint32_t group_count;
    _Atomic bool any_from; /* a rank waited for a certain other */
    _Atomic bool
        asks_told; /* a rank was reported to test without success for longer than a wait may take */
    struct tp_rma_races *races; /* NULL unless they are looked for */
    tp_ns start, end;
};

struct telpher_rma_job {
    telpher_rma_params params; /* zero where the setting decides */
    struct tp_rma_world *world; /* NULL: one process */
    _Atomic bool busy;
    char *report;
    double *timings;
    size_t timing_count;
    uint64_t elapsed_ns;
};

/** Words of a worker's bits. */
static inline uint32_t
tp_rma_worker_poke_words(const struct tp_rma_worker *w)
{
    return (w->rank_count + 63) / 64;
}

/** True if something happened that a rank of it may wait for. */
static inline bool
tp_rma_worker_is_poked(const struct tp_rma_worker *w)
{
    for (uint32_t i = 0; i < tp_rma_worker_poke_words(w); i++) {
        if (atomic_load(&w->poked[i]) != 0) {
            return true;
        }
    }
    return false;
}

/** The lane that a handle is. */
static inline struct tp_rma_lane *
tp_rma_lane_of(const telpher_rma *rma)
{
    return (struct tp_rma_lane *)(uintptr_t)rma;
}

#endif
