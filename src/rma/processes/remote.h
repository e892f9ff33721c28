/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of other processes. A *world* is the job of processes; a *remote* is what one launch
 * has of it. Commands of ranks go through a bounded ring to whoever has the *role* of the
 * agent: a worker with nothing else to do, a rank that has the role at hand when it posts,
 * or the agent's own thread. Everything below that says so needs the role; the core's
 * context is touched with it alone.
 */
#ifndef TELPHER_RMA_PROCESSES_REMOTE_H
#define TELPHER_RMA_PROCESSES_REMOTE_H

#include <telpher/context.h>
#include <telpher/msg.h>
#include <telpher/rma/detail/command.h>

#include "base/container/list.h"
#include "rma/rma_int.h"

enum {
    TP_RMA_RING = 512, /* commands; a power of two */
    TP_RMA_CREDIT = 1024, /* commands that a process may have under way to another */
    TP_RMA_CREDIT_EACH = 256, /* and is told after so many that they are done */
    TP_RMA_INLINE_MAX = 960, /* [bytes] of data that travels with its command */
    TP_RMA_FOLD_SMALL =
        512, /* [bytes] of a reduction or broadcast that members bring along */
    TP_RMA_WHERE = 64,
    TP_RMA_REMOTE_HANDLER = TELPHER_HANDLERS - 1
};
#define TP_RMA_BODY_MAX ((size_t)64 << 20) /* [bytes] of what agents tell each other */

/** What agents send each other, beside commands of ranks. */
enum tp_rma_progress_op {
    TP_RMA_MSG_GOT = TELPHER_RMA_COMMAND_AGENTS, /* data of a get: number */
    TP_RMA_MSG_FLUSHED, /* to: who asked */
    TP_RMA_MSG_CREDIT, /* number: commands consumed so far */
    TP_RMA_MSG_ARRIVED, /* where: group; number: generation; tag: phase; a body */
    TP_RMA_MSG_HELLO, /* a launch begins: struct tp_rma_hello */
    TP_RMA_MSG_DONE, /* all ranks there have returned; a body of words */
    TP_RMA_MSG_FAILED, /* tag: status; a body of words */
    TP_RMA_MSG_QUIET, /* flags; from: wave; off, len: messages that went, came */
    TP_RMA_MSG_ASK, /* from: wave */
    TP_RMA_MSG_LEFT /* tag: serial; nothing of others is used there any more */
};

/** What a launch must have in common. */
struct tp_rma_hello {
    uint32_t serial, abi, ranks, devices, tags, lanes, status;
    uint32_t elsewhere; /* the kernel brings its launcher */
    uint32_t block[3];
    char kernel[TP_RMA_WHERE];
    char words[4 * TP_RMA_WHERE]; /* why not, where the status alone does not say it */
};

/** Something that came from another process and waits for its turn. */
struct tp_rma_delivery {
    struct tp_list link;
    telpher_rma_command c;
    bool landed;
    telpher_status status;
    void *data; /* what came with it, or NULL: it is where it belongs; owned */
    size_t len;
};

/** Another process, or this one. */
struct tp_rma_process {
    size_t inline_max; /* [bytes] that travel with a command to it */
    bool lost;
    bool done; /* its ranks have returned */
    uint32_t left; /* serial of the launch that it left last */
    uint32_t unread; /* of the last it came to without memory for what it says, or 0 */
    struct tp_rma_hello
        hellos[2]; /* of this launch and the next; serial 0 = none came */
    void *cards[2]; /* that came with them, owned, or NULL */
    size_t card_lens[2];
    char *table; /* its ranks, as it told at the end of a launch that failed */
    uint32_t sent, acked, consumed, told; /* commands; all wrap */
    uint32_t under_way; /* sends to it whose memory is still in use */
    struct tp_list landings; /* in the order they were announced */
};

/** The job of processes, for all launches. */
struct tp_rma_world {
    telpher_context *ctx;
    uint32_t process, count;
    uint32_t serial; /* of the launch */
    struct tp_rma_process *processes;
    struct tp_rma_run *run; /* NULL: none */
    bool broken; /* a process was lost, or left behind in a launch */
    _Atomic bool forked; /* this is a child of fork(): the context is its parent's */
    _Atomic bool busy;
};

/** A get under way. */
struct tp_rma_get {
    struct tp_rma_rank *rank; /* NULL: not used */
    uint32_t process; /* who owes the data */
    void *dst;
    uint64_t len;
    uint32_t serial;
    bool far; /* dst is a GPU's memory */
};

/** What a process comes to a launch with. */
struct tp_rma_coming {
    telpher_status own; /* why it cannot go on, or TELPHER_OK */
    const char *words; /* of that, or NULL */
    const void *card; /* the launcher's, for the others */
    size_t card_len;
};

struct tp_rma_remote {
    struct tp_rma_run *run;
    struct tp_rma_world *world;
    struct tp_mutex role; /* and all that follows, but what is atomic */
    telpher_rma_command *ring;
    _Atomic uint64_t head; /* next place to write */
    _Atomic uint64_t tail; /* next to read */
    _Atomic bool stalled; /* the first cannot go on before something comes */
    _Atomic bool room_wanted; /* some rank waits for room */
    _Atomic uint64_t room_waits, room_ns; /* how often they did, and for how long */
    _Atomic uint32_t
        wanted; /* who wants the role though the agent's thread sleeps with it */
    _Atomic bool asleep; /* it does */
    _Atomic uint32_t parked; /* it waits to be called: futex */
    _Atomic uint32_t lookers; /* workers that look for something to do */
    _Atomic uint64_t looks; /* times that somebody had the role */
    _Atomic bool stop;
    _Atomic bool told; /* the others know that the launch has failed, or told us */
    pthread_t thread;
    struct tp_rma_get *gets;
    uint32_t get_count;
    struct tp_list arrivals; /* of groups, that nobody waits for yet */
    unsigned turns;
    uint32_t next_group; /* number of a split's group, in steps of the processes */
    uint64_t came, went; /* messages that change something: tp_rma_deadlock_counts() */
    struct tp_rma_deadlock
        *quiet; /* process 0: what each said; others: [0] is what was told */
    uint32_t wave;
    bool asked;
};

/* ---- world.c ---- */

/** The job of processes that a job of ranks is part of; *ret_world is NULL if there is just
 *  this one. It ends with its context. @p ctx  the caller's, or NULL. */
telpher_status tp_rma_world_open(telpher_context *ctx, struct tp_rma_world **ret_world,
                                 telpher_error *err);
/** Makes what a launch needs, and makes it known to what comes. */
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
/** The card of a process that has come to this launch; NULL if it has none. */
const void *tp_rma_remote_address(const struct tp_rma_world *world, uint32_t process,
                                  size_t *ret_len);
/** This process's ranks have returned: waits for those of the others. */
void tp_rma_remote_end(struct tp_rma_run *run);
/** Says that this process uses no memory of others any more, and waits until none does. */
void tp_rma_remote_leave(struct tp_rma_world *world, tp_ns timeout_ns);

/* ---- progress.c ---- */

/** The first rank's number of a process, and the process of a rank. */
static inline uint32_t
tp_rma_process_of(const struct tp_rma_run *run, uint32_t rank)
{
    return rank / run->params.ranks;
}

/** Gives a command to the agent; waits for room. @return TELPHER_OK or CANCELED */
telpher_status tp_rma_remote_post(struct tp_rma_lane *lane,
                                  const struct tp_rma_call *call,
                                  const telpher_rma_command *command);
/** Moves everything on if nobody else does. Workers, on their own stack.
 *  @return how much happened */
unsigned tp_rma_remote_look(struct tp_rma_remote *r);
/** A worker begins to look for something to do; ends; the last is followed by the agent. */
void tp_rma_remote_look_begin(struct tp_rma_remote *r);
void tp_rma_remote_look_end(struct tp_rma_remote *r, bool sleeps);
/** Nobody looks: the agent's thread does. Any thread. */
void tp_rma_remote_call(struct tp_rma_remote *r);
/** The launch has failed here: the others are to be told. Any thread. */
void tp_rma_remote_failed(struct tp_rma_remote *r);
telpher_status tp_rma_remote_start(struct tp_rma_remote *r);
void tp_rma_remote_stop(struct tp_rma_remote *r);
/** One round. The role is held. @return how much happened */
unsigned tp_rma_remote_serve(struct tp_rma_remote *r);
/** Fails the launch if a process is lost. The role is held. */
void tp_rma_remote_look_for_lost(struct tp_rma_remote *r);
/** Tells the others once that the launch has failed, before anything else is sent. The role
 *  is held. */
void tp_rma_remote_tell_failure(struct tp_rma_remote *r);
/** True if a command would find a place; else all ranks are poked when one would. */
bool tp_rma_remote_has_room(struct tp_rma_remote *r);
void tp_rma_remote_lock(struct tp_rma_remote *r);
void tp_rma_remote_unlock(struct tp_rma_remote *r);
/** Takes the role for ever, if it can be had: the process ends while a kernel runs. */
void tp_rma_remote_seize(struct tp_rma_remote *r);

/* ---- send.c: all need the role ---- */

/** Does one command. @return false: not before something has come */
bool tp_rma_remote_execute(struct tp_rma_remote *r, const telpher_rma_command *c);
/** Sends a command with a body to a process; the body is copied or @p len is 0. What cannot
 *  be sent makes the launch fail. */
void tp_rma_progress_send(struct tp_rma_world *w, uint32_t process,
                          const telpher_rma_command *c, const void *body, size_t len);
/** The same to all others that are there. */
void tp_rma_progress_tell(struct tp_rma_world *w, const telpher_rma_command *c,
                          const void *body, size_t len);
/** Answers a get of another process. */
void tp_rma_progress_give(struct tp_rma_remote *r, uint32_t process,
                          const telpher_rma_command *c, const void *src);

/* ---- delivery.c: what comes ---- */

/** Registers the handler of all that comes. */
void tp_rma_delivery_listen(struct tp_rma_world *w);
void tp_rma_delivery_forget(struct tp_rma_process *process);

/* ---- remote_commands.c: what it does ---- */

/** What was under way when a launch failed may come in the next one. */
static inline bool
tp_rma_is_of_launch(const struct tp_rma_world *w, const telpher_rma_command *c)
{
    return w->run != NULL && c->launch == w->serial;
}

/** Where the data of a put or of an answer to a get belongs, or NULL. */
void *tp_rma_command_place(struct tp_rma_remote *r, uint32_t process,
                           const telpher_rma_command *c, size_t len);
/** It is there. @p data  what came with it, NULL if it landed where it belongs. */
void tp_rma_command_take(struct tp_rma_world *w, uint32_t process,
                         struct tp_rma_delivery *l, const void *data, size_t len);
/** The launch fails: this cannot be. */
void tp_rma_command_refuse(struct tp_rma_run *run, uint32_t process,
                           const telpher_rma_command *c);

/* ---- remote.c: what ranks do ---- */

void tp_rma_remote_put(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                       const struct tp_rma_rank *to, struct tp_rma_result *ret_result);
void tp_rma_remote_notify(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                          const struct tp_rma_rank *to, uint32_t tag,
                          struct tp_rma_result *ret_result);
/** Asks for data; tp_rma_remote_wait() waits for all that was asked for. */
telpher_status tp_rma_remote_ask(struct tp_rma_lane *lane,
                                 const struct tp_rma_call *call,
                                 const telpher_rma_command *command);
telpher_status tp_rma_remote_wait(struct tp_rma_lane *lane,
                                  const struct tp_rma_call *call);
void tp_rma_remote_get(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                       const struct tp_rma_rank *from,
                       struct tp_rma_result *ret_result);
void tp_rma_remote_flush(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                         struct tp_rma_result *ret_result);
void tp_rma_remote_returned(struct tp_rma_lane *lane);
/** An answer came. */
void tp_rma_remote_answer(struct tp_rma_rank *rank);

/* ---- spread.c: groups over several processes ---- */

uint32_t tp_rma_spread_processes(const struct tp_rma_run *run);
/** The process that gives a group's windows their numbers: its first member's. */
uint32_t tp_rma_spread_leader(const struct tp_rma_run *run,
                              const struct tp_rma_group *group);
telpher_status tp_rma_spread_create(struct tp_rma_run *run, struct tp_rma_group *group);
/** The group has its number: others may have come to it before it was made here. */
void tp_rma_spread_enrolled(struct tp_rma_run *run, struct tp_rma_group *group);
void tp_rma_spread_destroy(struct tp_rma_spread *spread);
/** The last member in this process has come. */
void tp_rma_spread_meet(struct tp_rma_lane *lane, struct tp_rma_group *group,
                        uint32_t generation, tp_rma_group_fn fn);
telpher_status tp_rma_spread_fold(struct tp_rma_lane *lane, struct tp_rma_group *group,
                                  const telpher_rma_fold *f);
telpher_status tp_rma_spread_broadcast(struct tp_rma_lane *lane,
                                       struct tp_rma_group *group,
                                       const telpher_rma_fold *f);
/** MEET of this process. The role is held. */
void tp_rma_spread_post(struct tp_rma_remote *r, const telpher_rma_command *c);
/** Another process's part has come; @p body becomes the callee's. The role is held. */
void tp_rma_spread_arrived(struct tp_rma_remote *r, uint32_t process,
                           const telpher_rma_command *c, void *body, size_t len);
void tp_rma_spread_forget(struct tp_rma_remote *r);
/** Names who has not come. */
void tp_rma_spread_print_missing(FILE *out, const struct tp_rma_run *run,
                                 const struct tp_rma_group *group, uint32_t generation);

/* ---- deadlock.c: whether anybody is left, with the role ---- */

telpher_status tp_rma_deadlock_create(struct tp_rma_remote *r);
/** True for messages that may end a wait. */
bool tp_rma_deadlock_counts(uint16_t op);
/** Nothing happened for a while: tells, or asks. */
void tp_rma_deadlock_look(struct tp_rma_remote *r);
/** QUIET or ASK came. @return false: it cannot be */
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
