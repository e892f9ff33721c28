/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the backend for processors. A job is configuration; a *run* is one launch of it. A
 * run has *workers* (threads); each has some *ranks* for good, each of them *lanes*
 * (fibers). docs/rma.md section 7 and docs/threading.md say who may touch what.
 */
#ifndef TP_RMA_INT_H
#define TP_RMA_INT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <telpher/rma/host.h>

#include "base/clock.h"
#include "base/thread.h"
#include "rma/fiber.h"

struct tp_run;
struct tp_worker;
struct tp_rank;
struct tp_races;
struct tp_remote;
struct tp_spread;
struct tp_world;
struct tp_link;

enum { TP_GROUPS_MAX = 8192, TP_WINDOWS_MAX = 4096 };
enum { TP_RMA_STACK_MIN = 16 << 10 }; /* [bytes] */
enum { TP_RMA_CHECK_ALL = TELPHER_RMA_CHECK_LANES | TELPHER_RMA_CHECK_RACES };

struct tp_rma_settings {
    int ranks, check;
    uint64_t timeout_ns, seed, stack_bytes;
};

/** The settings, read once. */
const struct tp_rma_settings *tp_rma_settings(void);
/** What is wrong with a TELPHER_RMA_… of the environment; NULL: nothing. */
const char *tp_rma_settings_wrong(void);

/* ---- lanes ---- */

/** What lanes of a rank do together. Sync, put and notify of one rank are told apart so. */
enum tp_op {
    TP_OP_NONE = 0,
    TP_OP_SYNC,
    TP_OP_SHARED,
    TP_OP_LANE_SUM,
    TP_OP_WIN_CREATE,
    TP_OP_WIN_FREE,
    TP_OP_PUT,
    TP_OP_PUT_NOTIFY,
    TP_OP_PUT_VALUE,
    TP_OP_GET,
    TP_OP_FLUSH,
    TP_OP_NOTIFY,
    TP_OP_TEST,
    TP_OP_WAIT,
    TP_OP_WAIT_ANY,
    TP_OP_BARRIER,
    TP_OP_BROADCAST,
    TP_OP_REDUCE,
    TP_OP_SPLIT,
    TP_OP_TIMER
};

/** "barrier" and so on. */
const char *tp_op_name(enum tp_op op);

/** One call of a rank, as each of its lanes makes it. */
struct tp_call {
    enum tp_op op;
    const char *where;
    uint64_t args[8]; /* what all lanes must agree on; the rest 0 */
    const void *in; /* what only the one who does it looks at */
};

/** What a call gives to all lanes. */
struct tp_result {
    telpher_status status;
    int64_t value;
    double real;
    void *pointer;
};

struct tp_lane {
    telpher_rma api; /* first: a kernel's handle is its lane */
    struct tp_fiber fiber;
    struct tp_rank *rank;
    double sum; /* this lane's part of a lane_sum */
    bool parked; /* waits for the rank's other lanes */
};

/* ---- waiting ---- */

/** Why a rank does not run. */
enum tp_wait_kind {
    TP_WAIT_NONE = 0,
    TP_WAIT_TAG,
    TP_WAIT_ANY,
    TP_WAIT_GROUP,
    TP_WAIT_ANSWER, /* of another process */
    TP_WAIT_ROOM, /* for a command to another process */
    TP_WAIT_DEVICE /* of a proxy: for a command of its rank on a GPU */
};

/** Guarded by the rank's lock, since reports look at it. */
struct tp_wait {
    enum tp_wait_kind kind;
    enum tp_op op;
    const char *where;
    tp_ns since, deadline;
    bool own_deadline; /* the kernel's: passing it is an answer */
    uint32_t tag, count, from; /* from: world rank, or TELPHER_RMA_NO_RANK */
    const uint32_t *tags; /* TP_WAIT_ANY: count of them */
    struct tp_group *group; /* TP_WAIT_GROUP */
    uint32_t generation;
};

/** A piece of memory that lanes share. */
struct tp_shared {
    struct tp_shared *next;
    const void *site;
    size_t len;
    _Alignas(64) char data[];
};

/** What a rank has put to a process. */
enum tp_unflushed {
    TP_FLUSHED = 0, /* it has come */
    TP_UNFLUSHED, /* it may be under way */
    TP_FLUSHING /* the process was asked whether it has come, and owes the answer */
};

/* Of a rank of another process only run, index, remote and returned are set. */
struct tp_rank {
    struct tp_run *run;
    bool remote; /* it lies in another process */
    bool near_source; /* a proxy's next put or get is of the host's memory */
    struct tp_worker *worker;
    uint32_t index; /* in the world */
    uint32_t device;
    uint32_t local; /* in its worker: its bit of `poked` */
    struct tp_lane *lanes;
    _Atomic uint32_t *counts; /* notifications that came, by tag */
    _Atomic uint32_t *senders; /* who sent the last of a tag, plus 1 */
    uint32_t *taken; /* and were taken; this rank's own */
    struct tp_mutex lock; /* wait, asks, last */
    struct tp_wait wait;
    struct tp_wait asks; /* tests in vain, since it did anything else; for reports */
    telpher_status wait_status;
    _Atomic(const char *) last; /* where this rank made its last call */
    struct tp_call call; /* what the first lane came with */
    struct tp_result result;
    uint32_t arrived, left; /* lanes at the call; lanes that returned from the kernel */
    _Atomic bool returned; /* all lanes did */
    struct tp_lane *waiter; /* the lane that waits for all of them */
    _Atomic uint32_t answers; /* that other processes owe to this rank */
    char *scratch; /* of reductions over processes; one of `shared` */
    size_t scratch_len;
    uint8_t *unflushed; /* by process: enum tp_unflushed */
    struct tp_shared *shared;
    uint32_t canceled; /* calls since the run failed */
};

/* ---- groups ---- */

/** What one member came with. */
struct tp_slot {
    _Atomic uint32_t arrived; /* generation it is in, plus 1 */
    enum tp_op op;
    const char *where;
    uint64_t args[4];
    telpher_rma_fold fold;
    void *base; /* windows */
    uint64_t len;
    int32_t color, key; /* splits */
    int32_t result; /* of this member */
};

/** Ranks that do something all together. */
struct tp_group {
    int32_t
        number; /* in the run's table; of a spread group the same in all processes */
    uint32_t size;
    uint32_t local; /* members in this process */
    struct tp_spread *spread; /* NULL: all members are */
    uint32_t *members; /* world ranks */
    uint32_t *positions; /* by world rank; TELPHER_RMA_NO_RANK = not in it */
    struct tp_slot *slots; /* by position */
    char name[24];
    _Atomic uint32_t arrived, generation;
    /* Written by the last that comes, read by all after the generation has changed. */
    telpher_status status;
    int32_t result;
};

struct tp_window {
    struct tp_group *group;
    _Atomic bool open; /* a closed one is used again by its group */
    struct tp_part {
        char *base;
        uint64_t len;
    } parts[]; /* by position in the group */
};

/* ---- workers and runs ---- */

struct tp_worker {
    struct tp_run *run;
    pthread_t thread;
    struct tp_fiber self;
    uint32_t index, rank_count, live; /* ranks that have not returned */
    struct tp_rank **ranks;
    struct tp_lane **ready; /* a ring of lanes that may run */
    uint32_t ready_first, ready_count, ready_size;
    tp_ns next_deadline;
    tp_ns busy; /* proxies': when one had a command last */
    bool took; /* it did one of theirs itself, since it looked at the clock */
    tp_ns spin; /* how long to look for a poke before sleep; 0 = nobody can poke */
    uint32_t crowded; /* times to sleep at once, since others want the processor */
    uint64_t random;
    bool idle; /* counted in run->idle */
    bool released; /* nobody waits any more: the run has failed */
    uint32_t vain; /* tests in vain since a lane did anything else */
    _Atomic uint64_t *poked; /* a bit a rank: look at what it waits for */
    _Atomic uint32_t sleeping;
};

struct tp_run {
    telpher_rma_job *job;
    const telpher_rma_kernel *kernel;
    void *data;
    telpher_rma_params params; /* every value set */
    uint32_t lanes, worker_count;
    tp_ns spin; /* workers' at the beginning, and when waits are long */
    uint32_t device_count; /* of all processes */
    uint32_t first, world; /* this process's first rank; ranks of all processes */
    struct tp_remote *remote; /* NULL: this process is alone */
    struct tp_link *link; /* NULL: its ranks run on processors, and are no proxies */
    struct tp_rank
        *ranks; /* of the world; this process's are params.ranks from first on */
    struct tp_lane *lane_memory;
    struct tp_worker *workers;
    struct tp_stacks stacks;
    _Atomic uint32_t *counts, *senders;
    uint32_t *taken;
    uint8_t *unflushed;
    struct tp_mutex
        idle_lock; /* the start, idle, and who decides that nobody is left */
    uint32_t idle;
    bool canceled; /* before it began: not all workers could be started */
    struct tp_mutex fail_lock; /* status, report, timings, log */
    _Atomic bool failed; /* somebody writes the report; status follows */
    _Atomic telpher_status status;
    char *report;
    double *timings;
    size_t timing_count, timing_max;
    tp_ns *timer_starts; /* by device */
    struct tp_mutex table_lock; /* new groups and windows */
    _Atomic(struct tp_group *) groups[TP_GROUPS_MAX]; /* world, devices, splits */
    _Atomic(struct tp_window *) windows[TP_WINDOWS_MAX];
    uint32_t group_count;
    _Atomic bool any_from; /* a rank waited for a certain other */
    _Atomic bool asks_told; /* that one tests in vain for longer than a wait may take */
    struct tp_races *races; /* NULL unless they are looked for */
    tp_ns start, end;
};

struct telpher_rma_job {
    telpher_rma_params params; /* zero where the setting decides */
    struct tp_world *world; /* NULL: one process */
    _Atomic bool busy;
    char *report;
    double *timings;
    size_t timing_count;
    uint64_t elapsed_ns;
};

/** Words of a worker's bits. */
static inline uint32_t
tp_worker_poke_words(const struct tp_worker *w)
{
    return (w->rank_count + 63) / 64;
}

/** True if something happened that a rank of it may wait for. */
static inline bool
tp_worker_is_poked(const struct tp_worker *w)
{
    for (uint32_t i = 0; i < tp_worker_poke_words(w); i++) {
        if (atomic_load(&w->poked[i]) != 0) {
            return true;
        }
    }
    return false;
}

/** The lane that a handle is. */
static inline struct tp_lane *
tp_lane_of(const telpher_rma *rma)
{
    return (struct tp_lane *)(uintptr_t)rma;
}

/* ---- sched.c ---- */

/** Runs a worker until its ranks have returned. */
void *tp_worker_main(void *worker);

/** Says that something @p rank may wait for has happened. Any thread. */
void tp_rank_poke(struct tp_rank *rank);

/** Stops the calling lane until the wait it has filled in ends. @return why it ended */
telpher_status tp_rank_block(struct tp_lane *lane, const struct tp_wait *wait);

/** Lets others run, and comes back. @return false: a worker is in a proxy's place, and cannot */
bool tp_lane_yield(struct tp_lane *lane);

/** Puts @p lane among those that may run; its own worker only. */
void tp_lane_ready(struct tp_lane *lane);

/** Gives up the processor until somebody makes the lane ready. */
void tp_lane_suspend(struct tp_lane *lane);

/** Wakes every worker, so that it sees that the run has failed. */
void tp_run_wake(struct tp_run *run);

/* ---- idle.c ---- */

/** The worker has no lane that may run. @return true if it slept */
bool tp_worker_rest(struct tp_worker *w);

/** It has none, and counts as one that nothing is to be expected of. */
void tp_worker_idle(struct tp_worker *w);

/** True if no worker can go on by itself. Nobody else may change anything meanwhile.
 *  @param ret_waits  some rank waits */
bool tp_run_is_still(struct tp_run *run, bool *ret_waits);

/* ---- lanes.c ---- */

/** What a call does once, for its rank. */
typedef void (*tp_call_fn)(struct tp_lane *lane, const struct tp_call *call,
                           struct tp_result *ret_result);

/** All lanes come; one does @p fn; all get its result. */
struct tp_result tp_lane_call(struct tp_lane *lane, const struct tp_call *call,
                              tp_call_fn fn);

/** A lane returned from the kernel. */
void tp_lane_end(struct tp_lane *lane);

/** The run has failed: the rank's lanes that wait for others return from their call. */
void tp_rank_release(struct tp_rank *rank);

/* ---- calls.c ---- */

/** args: length; in: the site */
void tp_do_shared(struct tp_lane *lane, const struct tp_call *call,
                  struct tp_result *ret_result);
void tp_rank_free_shared(struct tp_rank *rank);

extern const telpher_rma_calls tp_rma_calls;

/* ---- run.c ---- */

/** Everything that a launch needs, or NULL and why. */
struct tp_run *tp_run_create(telpher_rma_job *job, const telpher_rma_kernel *kernel,
                             void *data, telpher_status *ret_status);
void tp_run_destroy(struct tp_run *run);

/* ---- wait.c ---- */

/** TELPHER_OK if the wait is over, TELPHER_ERR_AGAIN, or TELPHER_ERR_PEER_LOST. */
telpher_status tp_wait_look(struct tp_rank *rank, const struct tp_wait *wait);
void tp_do_test(struct tp_lane *lane, const struct tp_call *call,
                struct tp_result *ret_result);
/** The rank does something else than to test in vain. */
void tp_wait_asked(struct tp_rank *rank);
void tp_do_wait(struct tp_lane *lane, const struct tp_call *call,
                struct tp_result *ret_result);
void tp_do_wait_any(struct tp_lane *lane, const struct tp_call *call,
                    struct tp_result *ret_result);

/* ---- put.c ---- */
void tp_do_put(struct tp_lane *lane, const struct tp_call *call,
               struct tp_result *ret_result);
void tp_do_get(struct tp_lane *lane, const struct tp_call *call,
               struct tp_result *ret_result);
void tp_do_notify(struct tp_lane *lane, const struct tp_call *call,
                  struct tp_result *ret_result);
void tp_do_flush(struct tp_lane *lane, const struct tp_call *call,
                 struct tp_result *ret_result);
/** One notification has come. Any thread. @p from  world rank */
void tp_rank_notify(struct tp_rank *to, uint32_t from, uint32_t tag);
/** The window, or NULL. */
struct tp_window *tp_window_find(struct tp_run *run, telpher_rma_win win);

/* ---- group.c ---- */
typedef void (*tp_group_fn)(struct tp_run *run, struct tp_group *group);

/** The group that @p comm means to @p rank, or NULL if it is in no such group. */
struct tp_group *tp_group_find(const struct tp_rank *rank, telpher_rma_comm comm);
/** Makes a group of @p size ranks, @p members. @p index  its number, to be found by; -1 = the
 *  next free one. */
telpher_status tp_group_create(struct tp_run *run, const uint32_t *members,
                               uint32_t size, const char *name, int32_t index,
                               int32_t *ret_index);
void tp_group_destroy(struct tp_group *group);
/** A number for a new group that this process leads. The table's lock is held. */
int32_t tp_group_next_number(struct tp_run *run);
/** This rank's slot, to be filled before it meets the others. */
struct tp_slot *tp_group_slot(const struct tp_rank *rank, struct tp_group *group);
/**
 * Waits for all members, having filled the slot. The last to come does @p fn (may be NULL)
 * alone, if all came with the same op and args.
 */
telpher_status tp_group_meet(struct tp_lane *lane, struct tp_group *group,
                             tp_group_fn fn);
/** False, and who came for something else, unless the slots agree. */
bool tp_group_agrees(const struct tp_group *group, uint32_t *ret_other);
void tp_group_refuse(struct tp_run *run, const struct tp_group *group, uint32_t other);
/** All have come: lets this process's members go on, but not @p but (may be NULL). */
void tp_group_let_go(struct tp_run *run, struct tp_group *group, uint32_t generation,
                     const struct tp_rank *but);

/** Finds the group of a call's first argument and fills the slot. NULL when refused. */
struct tp_group *tp_group_begin(struct tp_lane *lane, const struct tp_call *call,
                                const uint64_t args[4], struct tp_result *ret_result);
void tp_do_barrier(struct tp_lane *lane, const struct tp_call *call,
                   struct tp_result *ret_result);
void tp_do_timer(struct tp_lane *lane, const struct tp_call *call,
                 struct tp_result *ret_result);

/* ---- reduce.c, fold.c ---- */
void tp_do_broadcast(struct tp_lane *lane, const struct tp_call *call,
                     struct tp_result *ret_result);
void tp_do_reduce(struct tp_lane *lane, const struct tp_call *call,
                  struct tp_result *ret_result);
/** Bytes of an element of @p type, 0 if there is no such type. */
size_t tp_fold_size(int type);
/** *dst = *dst op *src for @p count elements. */
void tp_fold(int type, int op, void *dst, const void *src, size_t count);

/* ---- split.c ---- */

/** What one member wants of a split. */
struct tp_wish {
    int32_t color, key;
    uint32_t position;
};
/** Fills @p list from the slots, with the members of each new group side by side. */
void tp_split_sort(const struct tp_group *group, struct tp_wish *list);
/** Makes the group of the first of @p left wishes, or none. @p index  as for tp_group_create.
 *  @param ranks  room for @p left. @param ret_count  how many wishes that were */
telpher_status tp_split_one(struct tp_run *run, struct tp_group *group,
                            const struct tp_wish *list, uint32_t left, uint32_t *ranks,
                            int32_t index, uint32_t *ret_count);
void tp_do_split(struct tp_lane *lane, const struct tp_call *call,
                 struct tp_result *ret_result);

/* ---- window.c ---- */
void tp_do_win_create(struct tp_lane *lane, const struct tp_call *call,
                      struct tp_result *ret_result);
void tp_do_win_free(struct tp_lane *lane, const struct tp_call *call,
                    struct tp_result *ret_result);

/* ---- report.c ---- */

/**
 * The run fails, if it has not yet: all waits end, and the report says @p words and who
 * waits for whom. Any thread, no lock held.
 */
void tp_run_fail(struct tp_run *run, telpher_status status, const char *words, ...)
    __attribute__((format(printf, 3, 4)));

/** One more line in the report of a run that has failed, and whose workers have ended. */
void tp_run_add(struct tp_run *run, const char *words, ...)
    __attribute__((format(printf, 2, 3)));

/** In a child of fork(), whose other threads are gone: the launch has failed, without words,
 *  and all locks are free. */
void tp_run_forked(struct tp_run *run);

/** The first line of a report, without the name of @p kernel, which others put there again. */
void tp_report_words(char *words, size_t max, const char *kernel, const char *report);
/** The first line is the caller's error. */
void tp_report_error(telpher_error *err, telpher_status status, const char *report);

/** Each line of a report is one of the log. */
void tp_rma_log_report(const char *report);

/** A call of @p lane was given what cannot be: the run fails, with the call's place. */
telpher_status tp_call_refuse(struct tp_lane *lane, telpher_status status,
                              const struct tp_call *call, const char *words, ...)
    __attribute__((format(printf, 4, 5)));

/** The table of who waits for whom, this process's ranks. Any thread. */
void tp_report_table(FILE *out, struct tp_run *run);
/** The same, with @p words, in the log: the run goes on. Any thread, no lock held. */
void tp_run_warn(struct tp_run *run, const char *words, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- crash.c: nothing happens without a check ---- */

/** A worker's stack for signals, and the one that its thread had before. */
struct tp_crash_stack {
    void *memory;
    stack_t before;
};

/** From now on a kernel that crashes is told of. */
void tp_crash_watch(const struct tp_run *run);
void tp_crash_forget(const struct tp_run *run);
/** The calling thread is a worker of the run, and is none any more. */
void tp_crash_enter(const struct tp_run *run, struct tp_crash_stack *stack);
void tp_crash_leave(struct tp_crash_stack *stack);

/* ---- races.c: nothing happens where races are not looked for ---- */
telpher_status tp_races_create(struct tp_run *run);
void tp_races_destroy(struct tp_races *races);
/** A call of the rank reads or writes for all lanes together. */
void tp_races_access(struct tp_rank *rank, const void *at, size_t len, bool write,
                     const char *where);
/** The rank's lanes have come to a barrier of theirs. */
void tp_races_sync(struct tp_rank *rank);
/** What @p from did is before what @p to does once it has taken the notification. The first
 *  that came are taken first. */
void tp_races_send(struct tp_rank *from, struct tp_rank *to, uint32_t tag);
void tp_races_take(struct tp_rank *rank, uint32_t tag, uint32_t count);
/** Before a member meets the others, and after. */
void tp_races_arrive(struct tp_rank *rank, struct tp_group *group);
void tp_races_leave(struct tp_rank *rank, struct tp_group *group, uint32_t generation);
/** How many pairs of places there were; the run fails if there are any. */
void tp_races_finish(struct tp_run *run);

#endif
