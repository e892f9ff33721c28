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

#include "base/os/clock.h"
#include "base/os/thread.h"
#include "rma/fiber.h"

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

/** "barrier" and so on. */
const char *tp_rma_op_name(enum tp_rma_op op);

/** One call of a rank, as each of its lanes makes it. */
struct tp_rma_call {
    enum tp_rma_op op;
    const char *where;
    uint64_t args[8]; /* what all lanes must agree on; the rest 0 */
    const void *in; /* what only the one who does it looks at */
};

/** What a call gives to all lanes. */
struct tp_rma_result {
    telpher_status status;
    int64_t value;
    double real;
    void *pointer;
};

struct tp_rma_lane {
    telpher_rma api; /* first: a kernel's handle is its lane */
    struct tp_rma_fiber fiber;
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

/** A piece of memory that lanes share. */
struct tp_rma_shared {
    struct tp_rma_shared *next;
    const void *site;
    size_t len;
    _Alignas(64) char data[];
};

/** What a rank has put to a process. */
enum tp_rma_unflushed {
    TP_RMA_FLUSHED = 0, /* it has come */
    TP_RMA_UNFLUSHED, /* it may be under way */
    TP_RMA_FLUSHING /* the process was asked whether it has come, and owes the answer */
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
    _Atomic uint32_t *counts; /* notifications that came, by tag */
    _Atomic uint32_t *senders; /* who sent the last of a tag, plus 1 */
    uint32_t *taken; /* and were taken; this rank's own */
    struct tp_mutex lock; /* wait, asks, last */
    struct tp_rma_wait wait;
    struct tp_rma_wait
        asks; /* tests in vain, since it did anything else; for reports */
    telpher_status wait_status;
    _Atomic(const char *) last; /* where this rank made its last call */
    struct tp_rma_call call; /* what the first lane came with */
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

/** What one member came with. */
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
    struct tp_rma_fiber self;
    uint32_t index, rank_count, live; /* ranks that have not returned */
    struct tp_rma_rank **ranks;
    struct tp_rma_lane **ready; /* a ring of lanes that may run */
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
    struct tp_rma_stacks stacks;
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
    _Atomic(struct tp_rma_group *)
        groups[TP_RMA_GROUPS_MAX]; /* world, devices, splits */
    _Atomic(struct tp_rma_window *) windows[TP_RMA_WINDOWS_MAX];
    uint32_t group_count;
    _Atomic bool any_from; /* a rank waited for a certain other */
    _Atomic bool asks_told; /* that one tests in vain for longer than a wait may take */
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

/* ---- sched.c ---- */

/** Runs a worker until its ranks have returned. */
void *tp_rma_worker_main(void *worker);

/** Says that something @p rank may wait for has happened. Any thread. */
void tp_rma_rank_poke(struct tp_rma_rank *rank);

/** Stops the calling lane until the wait it has filled in ends. @return why it ended */
telpher_status tp_rma_rank_block(struct tp_rma_lane *lane,
                                 const struct tp_rma_wait *wait);

/** Lets others run, and comes back. @return false: a worker is in a proxy's place, and cannot */
bool tp_rma_lane_yield(struct tp_rma_lane *lane);

/** Puts @p lane among those that may run; its own worker only. */
void tp_rma_lane_ready(struct tp_rma_lane *lane);

/** Gives up the processor until somebody makes the lane ready. */
void tp_rma_lane_suspend(struct tp_rma_lane *lane);

/** Wakes every worker, so that it sees that the run has failed. */
void tp_rma_run_wake(struct tp_rma_run *run);

/* ---- idle.c ---- */

/** The worker has no lane that may run. @return true if it slept */
bool tp_rma_worker_rest(struct tp_rma_worker *w);

/** It has none, and counts as one that nothing is to be expected of. */
void tp_rma_worker_idle(struct tp_rma_worker *w);

/** True if no worker can go on by itself. Nobody else may change anything meanwhile.
 *  @param ret_waits  some rank waits */
bool tp_rma_run_is_still(struct tp_rma_run *run, bool *ret_waits);

/* ---- lanes.c ---- */

/** What a call does once, for its rank. */
typedef void (*tp_rma_call_fn)(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                               struct tp_rma_result *ret_result);

/** All lanes come; one does @p fn; all get its result. */
struct tp_rma_result tp_rma_lane_call(struct tp_rma_lane *lane,
                                      const struct tp_rma_call *call,
                                      tp_rma_call_fn fn);

/** A lane returned from the kernel. */
void tp_rma_lane_end(struct tp_rma_lane *lane);

/** The run has failed: the rank's lanes that wait for others return from their call. */
void tp_rma_rank_release(struct tp_rma_rank *rank);

/* ---- calls.c ---- */

/** args: length; in: the site */
void tp_rma_do_shared(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                      struct tp_rma_result *ret_result);
void tp_rma_rank_free_shared(struct tp_rma_rank *rank);

extern const telpher_rma_calls tp_rma_calls;

/* ---- run.c ---- */

/** Everything that a launch needs, or NULL and why. */
struct tp_rma_run *tp_rma_run_create(telpher_rma_job *job,
                                     const telpher_rma_kernel *kernel, void *data,
                                     telpher_status *ret_status);
void tp_rma_run_destroy(struct tp_rma_run *run);

/* ---- wait.c ---- */

/** TELPHER_OK if the wait is over, TELPHER_ERR_AGAIN, or TELPHER_ERR_PEER_LOST. */
telpher_status tp_rma_wait_look(struct tp_rma_rank *rank,
                                const struct tp_rma_wait *wait);
void tp_rma_do_test(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                    struct tp_rma_result *ret_result);
/** The rank does something else than to test in vain. */
void tp_rma_wait_asked(struct tp_rma_rank *rank);
void tp_rma_do_wait(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                    struct tp_rma_result *ret_result);
void tp_rma_do_wait_any(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                        struct tp_rma_result *ret_result);

/* ---- put.c ---- */
void tp_rma_do_put(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                   struct tp_rma_result *ret_result);
void tp_rma_do_get(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                   struct tp_rma_result *ret_result);
void tp_rma_do_notify(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                      struct tp_rma_result *ret_result);
void tp_rma_do_flush(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                     struct tp_rma_result *ret_result);
/** One notification has come. Any thread. @p from  world rank */
void tp_rma_rank_notify(struct tp_rma_rank *to, uint32_t from, uint32_t tag);
/** The window, or NULL. */
struct tp_rma_window *tp_rma_window_find(struct tp_rma_run *run, telpher_rma_win win);

/* ---- group.c ---- */
typedef void (*tp_rma_group_fn)(struct tp_rma_run *run, struct tp_rma_group *group);

/** The group that @p comm means to @p rank, or NULL if it is in no such group. */
struct tp_rma_group *tp_rma_group_find(const struct tp_rma_rank *rank,
                                       telpher_rma_comm comm);
/** Makes a group of @p size ranks, @p members. @p index  its number, to be found by; -1 = the
 *  next free one. */
telpher_status tp_rma_group_create(struct tp_rma_run *run, const uint32_t *members,
                                   uint32_t size, const char *name, int32_t index,
                                   int32_t *ret_index);
void tp_rma_group_destroy(struct tp_rma_group *group);
/** A number for a new group that this process leads. The table's lock is held. */
int32_t tp_rma_group_next_number(struct tp_rma_run *run);
/** This rank's slot, to be filled before it meets the others. */
struct tp_rma_slot *tp_rma_group_slot(const struct tp_rma_rank *rank,
                                      struct tp_rma_group *group);
/**
 * Waits for all members, having filled the slot. The last to come does @p fn (may be NULL)
 * alone, if all came with the same op and args.
 */
telpher_status tp_rma_group_meet(struct tp_rma_lane *lane, struct tp_rma_group *group,
                                 tp_rma_group_fn fn);
/** False, and who came for something else, unless the slots agree. */
bool tp_rma_group_agrees(const struct tp_rma_group *group, uint32_t *ret_other);
void tp_rma_group_refuse(struct tp_rma_run *run, const struct tp_rma_group *group,
                         uint32_t other);
/** All have come: lets this process's members go on, but not @p but (may be NULL). */
void tp_rma_group_let_go(struct tp_rma_run *run, struct tp_rma_group *group,
                         uint32_t generation, const struct tp_rma_rank *but);

/** Finds the group of a call's first argument and fills the slot. NULL when refused. */
struct tp_rma_group *tp_rma_group_begin(struct tp_rma_lane *lane,
                                        const struct tp_rma_call *call,
                                        const uint64_t args[4],
                                        struct tp_rma_result *ret_result);
void tp_rma_do_barrier(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                       struct tp_rma_result *ret_result);
void tp_rma_do_timer(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                     struct tp_rma_result *ret_result);

/* ---- reduce.c, fold.c ---- */
void tp_rma_do_broadcast(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                         struct tp_rma_result *ret_result);
void tp_rma_do_reduce(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                      struct tp_rma_result *ret_result);
/** Bytes of an element of @p type, 0 if there is no such type. */
size_t tp_rma_fold_size(int type);
/** *dst = *dst op *src for @p count elements. */
void tp_rma_fold(int type, int op, void *dst, const void *src, size_t count);

/* ---- split.c ---- */

/** What one member wants of a split. */
struct tp_rma_wish {
    int32_t color, key;
    uint32_t position;
};
/** Fills @p list from the slots, with the members of each new group side by side. */
void tp_rma_split_sort(const struct tp_rma_group *group, struct tp_rma_wish *list);
/** Makes the group of the first of @p left wishes, or none. @p index  as for tp_rma_group_create.
 *  @param ranks  room for @p left. @param ret_count  how many wishes that were */
telpher_status tp_rma_split_one(struct tp_rma_run *run, struct tp_rma_group *group,
                                const struct tp_rma_wish *list, uint32_t left,
                                uint32_t *ranks, int32_t index, uint32_t *ret_count);
void tp_rma_do_split(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                     struct tp_rma_result *ret_result);

/* ---- window.c ---- */
void tp_rma_do_win_create(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                          struct tp_rma_result *ret_result);
void tp_rma_do_win_free(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                        struct tp_rma_result *ret_result);

/* ---- report.c ---- */

/**
 * The run fails, if it has not yet: all waits end, and the report says @p words and who
 * waits for whom. Any thread, no lock held.
 */
void tp_rma_run_fail(struct tp_rma_run *run, telpher_status status, const char *words,
                     ...) __attribute__((format(printf, 3, 4)));

/** One more line in the report of a run that has failed, and whose workers have ended. */
void tp_rma_run_add(struct tp_rma_run *run, const char *words, ...)
    __attribute__((format(printf, 2, 3)));

/** In a child of fork(), whose other threads are gone: the launch has failed, without words,
 *  and all locks are free. */
void tp_rma_run_forked(struct tp_rma_run *run);

/** The first line of a report, without the name of @p kernel, which others put there again. */
void tp_rma_report_text(char *words, size_t max, const char *kernel,
                        const char *report);
/** The first line is the caller's error. */
void tp_rma_report_error(telpher_error *err, telpher_status status, const char *report);

/** Each line of a report is one of the log. */
void tp_rma_log_report(const char *report);

/** A call of @p lane was given what cannot be: the run fails, with the call's place. */
telpher_status tp_rma_call_refuse(struct tp_rma_lane *lane, telpher_status status,
                                  const struct tp_rma_call *call, const char *words,
                                  ...) __attribute__((format(printf, 4, 5)));

/** The table of who waits for whom, this process's ranks. Any thread. */
void tp_rma_report_table(FILE *out, struct tp_rma_run *run);
/** The same, with @p words, in the log: the run goes on. Any thread, no lock held. */
void tp_rma_run_warn(struct tp_rma_run *run, const char *words, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- crash_report.c: nothing happens without a check ---- */

/** A worker's stack for signals, and the one that its thread had before. */
struct tp_rma_crash_stack {
    void *memory;
    stack_t before;
};

/** From now on a kernel that crashes is told of. */
void tp_rma_crash_watch(const struct tp_rma_run *run);
void tp_rma_crash_forget(const struct tp_rma_run *run);
/** The calling thread is a worker of the run, and is none any more. */
void tp_rma_crash_enter(const struct tp_rma_run *run, struct tp_rma_crash_stack *stack);
void tp_rma_crash_leave(struct tp_rma_crash_stack *stack);

/* ---- races.c: nothing happens where races are not looked for ---- */
telpher_status tp_rma_races_create(struct tp_rma_run *run);
/** Whether the accesses of @p kernel would be seen; else UNSUPPORTED, with words in @p text. */
telpher_status tp_rma_races_check_kernel(const telpher_rma_kernel *kernel, char *text,
                                         size_t size);
void tp_rma_races_destroy(struct tp_rma_races *races);
/** A call of the rank reads or writes for all lanes together. */
void tp_rma_races_access(struct tp_rma_rank *rank, const void *at, size_t len,
                         bool write, const char *where);
/** The rank's lanes have come to a barrier of theirs. */
void tp_rma_races_sync(struct tp_rma_rank *rank);
/** What @p from did is before what @p to does once it has taken the notification. The first
 *  that came are taken first. */
void tp_rma_races_send(struct tp_rma_rank *from, struct tp_rma_rank *to, uint32_t tag);
void tp_rma_races_take(struct tp_rma_rank *rank, uint32_t tag, uint32_t count);
/** Before a member meets the others, and after. */
void tp_rma_races_arrive(struct tp_rma_rank *rank, struct tp_rma_group *group);
void tp_rma_races_leave(struct tp_rma_rank *rank, struct tp_rma_group *group,
                        uint32_t generation);
/** How many pairs of places there were; the run fails if there are any. */
void tp_rma_races_finish(struct tp_rma_run *run);

#endif
