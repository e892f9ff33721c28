/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the backend for processors. A job is configuration; a *run* is one launch of it. A
 * run has *workers* (threads); each has some *ranks* for good, each of them *lanes*
 * (fibers). docs/rma.md section 7 and docs/threading.md say which thread may access what.
 */
#ifndef TELPHER_RMA_RMA_INT_H
#define TELPHER_RMA_RMA_INT_H

#include "rma/run.h"

/* ---- settings.c ---- */

struct tp_rma_settings {
    int ranks, check;
    uint64_t timeout_ns, seed, stack_bytes;
};

/** The settings, loaded at the first use. */
const struct tp_rma_settings *tp_rma_settings(void);
/** The error in a TELPHER_RMA_… of the environment; NULL: none. */
const char *tp_rma_settings_wrong(void);

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

/** Suspends the lane until another one makes it ready. */
void tp_rma_lane_suspend(struct tp_rma_lane *lane);

/** Wakes every worker, so that it sees that the run has failed. */
void tp_rma_run_wake(struct tp_rma_run *run);

/* ---- idle.c ---- */

/** The worker has no lane that may run. @return true if it slept */
bool tp_rma_worker_rest(struct tp_rma_worker *w);

/** It has none, and counts as one that nothing is to be expected of. */
void tp_rma_worker_idle(struct tp_rma_worker *w);

/** True if no worker can continue. The caller must exclude concurrent changes.
 *  @param ret_waits  some rank waits */
bool tp_rma_run_is_still(struct tp_rma_run *run, bool *ret_waits);

/* ---- lanes.c ---- */

/** Does a call once, for its rank. @return the result's status */
typedef telpher_status tp_rma_call_fn(struct tp_rma_lane *lane,
                                      const struct tp_rma_call *call,
                                      struct tp_rma_result *ret_result);

/** All lanes come; one does @p fn; all get its result. */
struct tp_rma_result tp_rma_lane_call(struct tp_rma_lane *lane,
                                      const struct tp_rma_call *call,
                                      tp_rma_call_fn *fn);

/** A lane returned from the kernel. */
void tp_rma_lane_end(struct tp_rma_lane *lane);

/** The run has failed: the rank's lanes that wait for others return from their call. */
void tp_rma_rank_release(struct tp_rma_rank *rank);

/* ---- calls.c ---- */

/** Gives memory that the rank's lanes share. call->args[0]: its length; call->in: the place of
 *  the call in the source, which identifies it */
tp_rma_call_fn tp_rma_do_shared;
void tp_rma_rank_free_shared(struct tp_rma_rank *rank);

extern const telpher_rma_calls tp_rma_calls;

/* ---- run.c ---- */

/** Allocates everything that a launch needs. @return NULL: *ret_status says why */
struct tp_rma_run *tp_rma_run_create(telpher_rma_job *job,
                                     const telpher_rma_kernel *kernel, void *data,
                                     telpher_status *ret_status);
void tp_rma_run_destroy(struct tp_rma_run *run);

/* ---- wait.c ---- */

/** TELPHER_OK if the wait is over, TELPHER_ERR_AGAIN, or TELPHER_ERR_PEER_LOST. */
telpher_status tp_rma_wait_look(struct tp_rma_rank *rank,
                                const struct tp_rma_wait *wait);
tp_rma_call_fn tp_rma_do_test;
/** The rank does something other than testing without success. */
void tp_rma_wait_asked(struct tp_rma_rank *rank);
tp_rma_call_fn tp_rma_do_wait;
tp_rma_call_fn tp_rma_do_wait_any;

/* ---- put.c ---- */
tp_rma_call_fn tp_rma_do_put;
tp_rma_call_fn tp_rma_do_get;
tp_rma_call_fn tp_rma_do_notify;
tp_rma_call_fn tp_rma_do_flush;
/** Counts a notification that has arrived. Any thread. @p from  world rank */
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
 * alone, if all called with the same op and args.
 */
telpher_status tp_rma_group_meet(struct tp_rma_lane *lane, struct tp_rma_group *group,
                                 tp_rma_group_fn fn);
/** Checks that all members (with @p here_only: those of this process) have made the same call.
 *  @return false: they have not, and the run has failed */
bool tp_rma_group_agrees(struct tp_rma_run *run, const struct tp_rma_group *group,
                         bool here_only);
/** All ranks have arrived: resumes this process's members except @p but (may be
 *  NULL). */
void tp_rma_group_resume(struct tp_rma_run *run, struct tp_rma_group *group,
                         uint32_t generation, const struct tp_rma_rank *but);

/** Fills this rank's slot for a call. @param args  must be equal in all ranks; NULL: none */
void tp_rma_group_enter(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                        struct tp_rma_group *group, const uint64_t args[4]);
/** The same for the group of the call's first argument. @return OK; RANGE: there is none */
telpher_status tp_rma_group_begin(struct tp_rma_lane *lane,
                                  const struct tp_rma_call *call,
                                  const uint64_t args[4],
                                  struct tp_rma_group **ret_group);
tp_rma_call_fn tp_rma_do_barrier;
tp_rma_call_fn tp_rma_do_timer;

/* ---- reduce.c, fold.c ---- */
tp_rma_call_fn tp_rma_do_broadcast;
tp_rma_call_fn tp_rma_do_reduce;
/** Bytes of an element of @p type, 0 if there is no such type. */
size_t tp_rma_fold_size(int type);
/** *dst = *dst op *src for @p count elements. */
void tp_rma_fold(int type, int op, void *dst, const void *src, size_t count);

/* ---- split.c ---- */

/** One member's arguments of a split. */
struct tp_rma_wish {
    int32_t color, key;
    uint32_t position;
};
/** Fills @p list with the arguments that the members left in their slots, sorted so that the
 *  members of each new group stand side by side. */
void tp_rma_split_sort(const struct tp_rma_group *group, struct tp_rma_wish *list);
/** Makes the group of the first of @p left wishes, or none. @p index  as for tp_rma_group_create.
 *  @param ranks  room for @p left. @param ret_count  how many wishes that were */
telpher_status tp_rma_split_one(struct tp_rma_run *run, struct tp_rma_group *group,
                                const struct tp_rma_wish *list, uint32_t left,
                                uint32_t *ranks, int32_t index, uint32_t *ret_count);
tp_rma_call_fn tp_rma_do_split;

/* ---- window.c ---- */
tp_rma_call_fn tp_rma_do_win_create;
tp_rma_call_fn tp_rma_do_win_free;

/* ---- report.c ---- */

/**
 * Fails the run, unless it failed before: all waits end, and the report has @p format and
 * the waiting ranks. Any thread, no lock held.
 */
void tp_rma_run_fail(struct tp_rma_run *run, telpher_status status, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

/** Appends to the report of a run that has failed, and whose workers have ended. */
void tp_rma_report_append(struct tp_rma_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** In a child of fork(), whose other threads are gone: the launch has failed, without a text,
 *  and all locks are free. */
void tp_rma_run_forked(struct tp_rma_run *run);

/** The first line of a report, without the name of @p kernel, which others put there again. */
void tp_rma_report_text(char *text, size_t max, const char *kernel, const char *report);
/** The first line is the caller's error. */
void tp_rma_report_error(telpher_error *err, telpher_status status, const char *report);

/** Fills in an error, which may be NULL. @return @p status */
telpher_status tp_rma_error_set(telpher_error *err, telpher_status status,
                                const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Each line of a report is one of the log. */
void tp_rma_log_report(const char *report);

/** A call of @p lane was given what cannot be: the run fails, with the call's place. */
telpher_status tp_rma_call_refuse(struct tp_rma_lane *lane, telpher_status status,
                                  const struct tp_rma_call *call, const char *format,
                                  ...) __attribute__((format(printf, 4, 5)));
/** Refuses the call if the launch does not have that tag. */
static inline telpher_status
tp_rma_call_check_tag(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                      uint64_t tag)
{
    return tag < lane->api.tags
               ? TELPHER_OK
               : tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call,
                                    "tag %llu; the launch has %u tags",
                                    (unsigned long long)tag, lane->api.tags);
}

/** Prints the wait table of this process's ranks. Any thread. */
void tp_rma_report_table(FILE *out, struct tp_rma_run *run);
/** Logs a warning, @p format, with the wait table; the run goes on. Any thread, no lock held. */
void tp_rma_run_warn(struct tp_rma_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- crash_report.c: nothing happens without a check ---- */

/** A worker's stack for signals, and the one that its thread had before. */
struct tp_rma_crash_stack {
    void *memory;
    stack_t before;
};

/** Enables reports of kernels that crash. */
void tp_rma_crash_watch(const struct tp_rma_run *run);
void tp_rma_crash_forget(const struct tp_rma_run *run);
/** The calling thread is a worker of the run, and is none any more. */
void tp_rma_crash_enter(const struct tp_rma_run *run, struct tp_rma_crash_stack *stack);
void tp_rma_crash_leave(struct tp_rma_crash_stack *stack);

/* ---- races.c: nothing happens where races are not looked for ---- */
telpher_status tp_rma_races_create(struct tp_rma_run *run);
/** Checks that the accesses of @p kernel are instrumented; otherwise UNSUPPORTED,
 *  with an error text in @p text. */
telpher_status tp_rma_races_check_kernel(const telpher_rma_kernel *kernel, char *text,
                                         size_t size);
void tp_rma_races_destroy(struct tp_rma_races *races);
/** Records an access that a library call makes for all lanes of the rank. */
void tp_rma_races_access(struct tp_rma_rank *rank, const void *at, size_t len,
                         bool write, const char *where);
/** The rank's lanes have arrived at a barrier of theirs. */
void tp_rma_races_sync(struct tp_rma_rank *rank);
/** Accesses of @p from before the send precede accesses of @p to after it has taken the
 *  notification. Notifications are taken in order of arrival. */
void tp_rma_races_send(struct tp_rma_rank *from, struct tp_rma_rank *to, uint32_t tag);
void tp_rma_races_take(struct tp_rma_rank *rank, uint32_t tag, uint32_t count);
/** A member arrives at a collective call of the group, and leaves it. Accesses of any
 *  member before the call precede accesses of all members after it. */
void tp_rma_races_arrive(struct tp_rma_rank *rank, struct tp_rma_group *group);
void tp_rma_races_leave(struct tp_rma_rank *rank, struct tp_rma_group *group,
                        uint32_t generation);
/** How many pairs of places there were; the run fails if there are any. */
void tp_rma_races_finish(struct tp_rma_run *run);

#endif
