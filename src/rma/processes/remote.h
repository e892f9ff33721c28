/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of other processes. A *world* is the job of processes; a *remote* is one launch's part
 * of it. Commands of ranks go through a bounded ring to the holder of the *progress role*, a
 * lock: an idle worker, a rank that posts while the role is free, or the progress thread. Only
 * the holder touches libtelpher's context; functions below say so if they need the role.
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
    TP_RMA_COMMAND_CREDITS = 1024, /* commands in flight from a process to another */
    TP_RMA_INLINE_MAX = 960, /* [bytes] of data that travels with its command */
    TP_RMA_FOLD_SMALL = 512, /* [bytes] of a reduction that travel with an arrival */
    TP_RMA_WHERE = 64,
    TP_RMA_COMMAND_HANDLER = TELPHER_HANDLERS - 1,
    TP_RMA_CONTROL_HANDLER =
        TELPHER_HANDLERS - 2 /* without credits: answers and so on */
};
#define TP_RMA_BODY_MAX ((size_t)64 << 20) /* [bytes] of a control message's body */

/** Control messages between processes, beside commands of ranks. */
enum tp_rma_control_op {
    TP_RMA_CONTROL_GOT = TELPHER_RMA_COMMAND_AGENTS, /* data of a get: number */
    TP_RMA_CONTROL_FLUSHED, /* to: the rank that flushes */
    TP_RMA_CONTROL_ARRIVED, /* where: group; number: generation; tag: phase; a body */
    TP_RMA_CONTROL_HELLO, /* a launch begins: struct tp_rma_hello */
    TP_RMA_CONTROL_DONE, /* all ranks of the sender have returned; a body of text */
    TP_RMA_CONTROL_FAILED, /* tag: status; a body of text */
    TP_RMA_CONTROL_QUIET, /* flags; from: wave; off, len: messages sent, received */
    TP_RMA_CONTROL_ASK, /* from: wave */
    TP_RMA_CONTROL_LEFT /* tag: serial; the sender uses no memory of others any more */
};

/** What a launch must have in common. */
struct tp_rma_hello {
    uint32_t serial, abi, ranks, devices, tags, lanes, status;
    uint32_t elsewhere; /* the kernel brings its launcher */
    uint32_t block[3];
    char kernel[TP_RMA_WHERE];
    char words[4 * TP_RMA_WHERE]; /* text of an error, if the status is one */
};

/** A command or a control message from another process, when its turn has come. */
struct tp_rma_delivery {
    const telpher_rma_command *command;
    const void *data; /* what came with it, or NULL: it is where it belongs */
    size_t len;
    void *
        body; /* the same, if it has memory of its own: owned; the callee may take it */
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
    uint32_t under_way; /* sends to it whose memory is still in use */
    uint32_t
        incoming; /* messages from it whose data is under way, or waits for its turn */
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
    uint32_t process; /* that sends the data */
    void *dst;
    uint64_t len;
    uint32_t serial;
    bool far; /* dst is a GPU's memory */
};

/** What a process brings to a launch. */
struct tp_rma_coming {
    telpher_status own; /* its own error, or TELPHER_OK */
    const char *words; /* text of that, or NULL */
    const void *card; /* the launcher's, for the other processes */
    size_t card_len;
};

struct tp_rma_remote {
    struct tp_rma_run *run;
    struct tp_rma_world *world;
    struct tp_mutex role; /* guards what follows, except what is atomic */
    telpher_rma_command *ring;
    _Atomic uint64_t head; /* next place to write */
    _Atomic uint64_t tail; /* next to read */
    _Atomic bool stalled; /* the first command has no credit */
    _Atomic bool room_wanted; /* some rank waits for room */
    _Atomic uint64_t room_waits, room_ns; /* how often ranks did, and for how long */
    _Atomic uint32_t wanted; /* threads that wait for the role */
    _Atomic bool asleep; /* the progress thread sleeps in the context, with the role */
    _Atomic uint32_t parked; /* the progress thread waits to be called: futex */
    _Atomic uint32_t lookers; /* idle workers, which make progress */
    _Atomic uint64_t looks; /* times that the role was released */
    _Atomic bool stop;
    _Atomic bool told; /* the other processes know that the launch has failed */
    pthread_t thread;
    struct tp_rma_get *gets;
    uint32_t get_count;
    struct tp_list arrivals; /* at groups whose members here have not arrived */
    unsigned turns;
    uint32_t next_group; /* number of a split's group, in steps of the processes */
    uint64_t came, went; /* messages that may end a wait: tp_rma_deadlock_counts() */
    struct tp_rma_deadlock
        *quiet; /* process 0: of each process; others: [0] is the last sent */
    uint32_t wave;
    bool asked;
};

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
/** The card of a process that has come to this launch; NULL if it has none. */
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
    return op < TELPHER_RMA_COMMAND_AGENTS ? TP_RMA_COMMAND_HANDLER
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
/** Does what it asks for, if it is of this launch or a hello. */
void tp_rma_command_take(struct tp_rma_world *w, uint32_t process,
                         struct tp_rma_delivery *d);
/** Fails the launch, since no process that works would send this. */
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
/** Names the processes whose members have not arrived. */
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
