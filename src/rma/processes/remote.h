/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of other processes. A *world* is the job of processes; a *remote* is one launch's part
 * of it. Commands of ranks go through a bounded ring to the holder of the *progress role*, a
 * lock: an idle worker, a rank that posts while the role is free, or the progress thread. Only
 * the holder touches libtelpher's context; functions below say so if they need the role.
 */
#ifndef TELPHER_RMA_PROCESSES_REMOTE_H
#define TELPHER_RMA_PROCESSES_REMOTE_H

#include "rma/processes/world.h"

/* ---- world.c ---- */

/** The job of processes that a job of ranks is part of; *ret_world is NULL if there is just
 *  this one. It ends with its context. @p ctx  the caller's, or NULL. */
telpher_status tp_rma_world_open(telpher_context *ctx, struct tp_rma_world **ret_world,
                                 telpher_error *err);
/** Makes what a launch needs. @return OK; NO_MEMORY: tp_rma_remote_destroy() frees the rest */
telpher_status tp_rma_remote_create(struct tp_rma_run *run, struct tp_rma_world *world);
void tp_rma_remote_destroy(struct tp_rma_run *run);

/* ---- launch.c ---- */

/** All processes come to the same launch. @p run is NULL in one that cannot go on.
 *  @return what all return */
telpher_status tp_rma_remote_begin(struct tp_rma_world *world, struct tp_rma_run *run,
                                   const telpher_rma_job *job,
                                   const telpher_rma_kernel *kernel,
                                   const struct tp_rma_coming *coming,
                                   telpher_error *err);
/** The address of a process in this launch; NULL if it has sent none. */
const void *tp_rma_remote_address(const struct tp_rma_world *world, uint32_t process,
                                  size_t *ret_len);
/** Waits for the ranks of all processes, when this process's have returned. */
void tp_rma_remote_end(struct tp_rma_run *run);
/** Tells that this process uses no memory of others any more, and waits for their LEFT. */
void tp_rma_remote_leave(struct tp_rma_world *world, tp_ns timeout_ns);

/* ---- progress.c ---- */

/** The first rank's number of a process, and the process of a rank. */
static inline uint32_t
tp_rma_process_of(const struct tp_rma_run *run, uint32_t rank)
{
    return rank / run->params.ranks;
}

/** Sends a command, or queues it; waits for room. @return TELPHER_OK or CANCELED */
telpher_status tp_rma_remote_post(struct tp_rma_lane *lane,
                                  const struct tp_rma_call *call,
                                  const telpher_rma_command *command);
/** Makes progress if the role is free. Workers, on their own stack.
 *  @return how many things happened */
unsigned tp_rma_remote_look(struct tp_rma_remote *r);
/** An idle worker begins to make progress; ends. After the last the thread takes over. */
void tp_rma_remote_look_begin(struct tp_rma_remote *r);
void tp_rma_remote_look_end(struct tp_rma_remote *r, bool sleeps);
/** Calls the progress thread, as no worker makes progress. Any thread. */
void tp_rma_remote_call(struct tp_rma_remote *r);
/** The launch has failed here: wakes the progress thread, which tells others. Any thread. */
void tp_rma_remote_failed(struct tp_rma_remote *r);
telpher_status tp_rma_remote_start(struct tp_rma_remote *r);
void tp_rma_remote_stop(struct tp_rma_remote *r);
/** One round of progress. The role is held. @return how many things happened */
unsigned tp_rma_remote_serve(struct tp_rma_remote *r);
/** Fails the launch if a process is lost. The role is held. */
void tp_rma_remote_look_for_lost(struct tp_rma_remote *r);
/** Sends FAILED once, before anything else is sent. The role is held. */
void tp_rma_remote_tell_failure(struct tp_rma_remote *r);
/** True if the ring has room; else all ranks are poked when it has. */
bool tp_rma_remote_has_room(struct tp_rma_remote *r);
/** Takes and releases the role. */
void tp_rma_remote_lock(struct tp_rma_remote *r);
void tp_rma_remote_unlock(struct tp_rma_remote *r);
/** Takes the role for good, within a second: the process ends while a kernel runs. */
void tp_rma_remote_seize(struct tp_rma_remote *r);

/* ---- send.c: all need the role ---- */

/** Does one command. @return false: it has no credit; again after progress */
bool tp_rma_remote_execute(struct tp_rma_remote *r, const telpher_rma_command *c);
/** Sends a control message; the body is copied. If that fails, so does the launch. */
void tp_rma_control_send(struct tp_rma_world *w, uint32_t process,
                         const telpher_rma_command *c, const void *body, size_t len);
/** The same to all others that are not lost. */
void tp_rma_control_broadcast(struct tp_rma_world *w, const telpher_rma_command *c,
                              const void *body, size_t len);
/** Answers a get of another process. */
void tp_rma_answer_get(struct tp_rma_remote *r, uint32_t process,
                       const telpher_rma_command *c, const void *src);

/* ---- receive.c ---- */

/** The handler of commands, or of control messages. */
static inline uint32_t
tp_rma_handler_of(uint16_t op)
{
    return op < TELPHER_RMA_COMMAND_CONTROL ? TP_RMA_COMMAND_HANDLER
                                            : TP_RMA_CONTROL_HANDLER;
}

/** Registers the handlers. @return OK, NO_MEMORY */
telpher_status tp_rma_receive_start(struct tp_rma_world *w);

/* ---- remote_commands.c: what it does ---- */

/** A message of a launch that failed may arrive during the next one. */
static inline bool
tp_rma_is_of_launch(const struct tp_rma_world *w, const telpher_rma_command *c)
{
    return w->run != NULL && c->launch == w->serial;
}

/** Where the data of a put or of an answer to a get belongs, or NULL. */
void *tp_rma_command_place(struct tp_rma_remote *r, uint32_t process,
                           const telpher_rma_command *c, size_t len);
/** Executes a command that arrived, if it is of this launch or a HELLO. */
void tp_rma_command_take(struct tp_rma_world *w, uint32_t process,
                         struct tp_rma_delivery *d);
/** Fails the launch, since no process that works would send this. */
void tp_rma_command_refuse(struct tp_rma_run *run, uint32_t process,
                           const telpher_rma_command *c);

/* ---- remote.c: what ranks do ---- */

telpher_status tp_rma_remote_put(struct tp_rma_lane *lane,
                                 const struct tp_rma_call *call,
                                 const struct tp_rma_rank *to);
telpher_status tp_rma_remote_notify(struct tp_rma_lane *lane,
                                    const struct tp_rma_call *call,
                                    const struct tp_rma_rank *to, uint32_t tag);
/** Asks for data; tp_rma_remote_wait() waits for all that was asked for. */
telpher_status tp_rma_remote_ask(struct tp_rma_lane *lane,
                                 const struct tp_rma_call *call,
                                 const telpher_rma_command *command);
telpher_status tp_rma_remote_wait(struct tp_rma_lane *lane,
                                  const struct tp_rma_call *call);
telpher_status tp_rma_remote_get(struct tp_rma_lane *lane,
                                 const struct tp_rma_call *call,
                                 const struct tp_rma_rank *from);
telpher_status tp_rma_remote_flush(struct tp_rma_lane *lane,
                                   const struct tp_rma_call *call);
void tp_rma_remote_returned(struct tp_rma_lane *lane);
/** Handles an answer. */
void tp_rma_remote_answer(struct tp_rma_rank *rank);

/* ---- spread.c: groups over several processes ---- */

uint32_t tp_rma_spread_processes(const struct tp_rma_run *run);
/** The process that gives a group's windows their numbers: its first member's. */
uint32_t tp_rma_spread_leader(const struct tp_rma_run *run,
                              const struct tp_rma_group *group);
telpher_status tp_rma_spread_create(struct tp_rma_run *run, struct tp_rma_group *group);
/** The group has its number; arrivals of other processes may precede its creation
 *  here. */
void tp_rma_spread_enrolled(struct tp_rma_run *run, struct tp_rma_group *group);
void tp_rma_spread_destroy(struct tp_rma_spread *spread);
/** The last member in this process has arrived. */
void tp_rma_spread_meet(struct tp_rma_lane *lane, struct tp_rma_group *group,
                        uint32_t generation, tp_rma_group_fn fn);
telpher_status tp_rma_spread_fold(struct tp_rma_lane *lane, struct tp_rma_group *group,
                                  const telpher_rma_fold *f);
telpher_status tp_rma_spread_broadcast(struct tp_rma_lane *lane,
                                       struct tp_rma_group *group,
                                       const telpher_rma_fold *f);
/** MEET of this process. The role is held. */
void tp_rma_spread_post(struct tp_rma_remote *r, const telpher_rma_command *c);
/** Handles the arrival of another process's part; takes @p body. The caller holds
 *  the role. */
void tp_rma_spread_arrived(struct tp_rma_remote *r, uint32_t process,
                           const telpher_rma_command *c, void *body, size_t len);
void tp_rma_spread_forget(struct tp_rma_remote *r);
/** Names the processes whose members have not arrived. */
void tp_rma_spread_print_missing(FILE *out, const struct tp_rma_run *run,
                                 const struct tp_rma_group *group, uint32_t generation);

/* ---- deadlock.c: whether anybody is left, with the role ---- */

telpher_status tp_rma_deadlock_create(struct tp_rma_remote *r);
/** True for messages that may end a wait. */
bool tp_rma_deadlock_counts(uint16_t op);
/** Called after a while without progress: reports this process as quiet or, in process 0, asks the
 *  others whether they still are. */
void tp_rma_deadlock_look(struct tp_rma_remote *r);
/** Handles QUIET or ASK. @return false: the peer broke the protocol */
bool tp_rma_deadlock_take(struct tp_rma_remote *r, uint32_t process,
                          const telpher_rma_command *c);

/* ---- window.c ---- */
enum { TP_RMA_WINDOW_NONE = -1, TP_RMA_WINDOW_NO_MEMORY = -2 };
/** Reserves a number for the group's next window, or says why not. */
int32_t tp_rma_window_number(struct tp_rma_run *run, struct tp_rma_group *group);
/** True for what the group's leader may say of a new window: its number, or why there is none. */
bool tp_rma_window_can_be(const struct tp_rma_run *run,
                          const struct tp_rma_group *group, int32_t number);
void tp_rma_window_create_all(struct tp_rma_run *run, struct tp_rma_group *group);

#endif
