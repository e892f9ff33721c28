/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of offload share that know MPI. They call PMPI_ names only: MPI_ names are
 * the program's (pmpi.py).
 */
#ifndef TP_OFFLOAD_INT_H
#define TP_OFFLOAD_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <telpher/offload.h>

#include "base/container/buf.h"
#include "base/container/frame_ring.h"
#include "base/container/list.h"
#include "base/os/clock.h"
#include "base/os/process.h"
#include "base/os/thread.h"
#include "offload/message.h"

/** Tags on communicators that only we know, save the greeting's. */
enum {
    TP_OFFLOAD_TAG_GREETING =
        32749, /**< on the program's intercommunicator, before the first call */
    TP_OFFLOAD_TAG_LAUNCH = 1, /**< parent to worker 0 of a spawned group */
    TP_OFFLOAD_TAG_REPORT = 2, /**< worker 0 to a parent */
    TP_OFFLOAD_TAG_NAMES = 3, /**< worker 0 to the root */
    TP_OFFLOAD_TAG_FORWARD = 4, /**< from worker to worker, down the tree */
    TP_OFFLOAD_TAG_MERGE = 5, /**< up the tree */
    TP_OFFLOAD_TAG_BYE = 6, /**< parent 0 to worker 0: both sides disconnect */
    TP_OFFLOAD_TAG_POOL = 7, /**< to a worker that waits for a group */
    TP_OFFLOAD_TAG_ROWS = 8, /**< of arrays, between any two of the two sides */
    TP_OFFLOAD_TAG_LOST = 9, /**< from parent to parent: one has lost the workers */
    TP_OFFLOAD_TAG_GROUPS =
        16, /**< and up, one a group of this launch: to make it, and for its
                             launches. Those that came behind its end stay with MPI, which
                             may give its communicator's number to the next group. */
    TP_OFFLOAD_TAG_GROUPS_COUNT = 16384
};

/* settings.c */
struct tp_offload_settings {
    int mode; /**< enum telpher_offload_mode */
    int workers; /**< of this launch, the last so many; 0 = by program */
    bool thread; /**< ask MPI for threads */
    bool shared; /**< launches by memory, within a machine */
    uint64_t timeout_ns;
    uint64_t kernel_warning_ns, kernel_timeout_ns; /**< 0 = none */
    int idle; /**< enum tp_offload_idle_mode */
    uint64_t limit_bytes; /**< of a launch */
};
/** The settings, loaded at the first call; never NULL. */
const struct tp_offload_settings *tp_offload_settings(void);

/* idle.c: how to wait for something that must be looked at */
enum tp_offload_idle_mode {
    TP_OFFLOAD_IDLE_AUTO = 0,
    TP_OFFLOAD_IDLE_SPIN,
    TP_OFFLOAD_IDLE_YIELD,
    TP_OFFLOAD_IDLE_SLEEP
};
enum { TP_OFFLOAD_IDLE_LOOKS = 16 };
struct tp_offload_idle {
    tp_ns start;
    uint32_t looks; /**< before the next look at the clock */
};
#define TP_OFFLOAD_IDLE_INIT                                                           \
    {                                                                                  \
        0, TP_OFFLOAD_IDLE_LOOKS                                                       \
    }
/** Passes a little time: spins, yields, sleeps, the longer the wait the more. */
void tp_offload_idle_round(struct tp_offload_idle *idle);

/** Takes back memory that MPI has for @p request, which is cancelled if @p is_receive.
 *  @return false when MPI keeps it: the memory must stay, the request is forgotten */
bool tp_offload_mpi_take_back(MPI_Request *request, bool is_receive);

/** Waits for @p request by tp_offload_idle_round(). @return TELPHER_ERR_TIMEOUT at @p deadline,
 *  with the request still there; TELPHER_ERR_IO when MPI failed */
telpher_status tp_offload_mpi_wait(MPI_Request *request, tp_ns deadline);

/* world.c: what this process is, and what MPI_COMM_WORLD means to it */
struct tp_offload_world {
    MPI_Comm world; /**< what MPI_COMM_WORLD stands for */
    MPI_Comm base; /**< all processes of the launch; MPI_COMM_NULL when not split */
    MPI_Comm parent; /**< of a worker in split mode */
    bool is_worker; /**< telpher_worker_main() says so, or the settings */
    bool has_threads; /**< MPI_THREAD_MULTIPLE */
    int pool_count;
    int *pool; /**< ranks in base of the workers of this launch */
    bool *busy;
    int tag; /**< of the next group, from TP_OFFLOAD_TAG_GROUPS */
};
extern struct tp_offload_world tp_offload_world;
void tp_offload_world_declare_worker(void);
/** Before that: may it wait for a program of this launch that is none of MPI's? */
bool tp_offload_world_may_wait(void);
/** After PMPI_Init*(). @p provided is what MPI gave. A worker by setting does not return. */
void tp_offload_world_init(int provided);
/** Before PMPI_Finalize(): ends groups and pool. */
void tp_offload_world_fini(void);
/** Says @p words and ends the job. */
_Noreturn void tp_offload_world_abort(const char *words);

/* pool.c: workers of the launch */
struct tp_offload_pool_order {
    int op; /**< enum tp_offload_pool_op */
    int tag, leader, count;
};
enum tp_offload_pool_op { TP_OFFLOAD_POOL_START = 1, TP_OFFLOAD_POOL_END };
/** Parents: makes @p count waiting workers a group. Collective over @p comm. */
telpher_status tp_offload_pool_take(int count, int root, MPI_Comm comm,
                                    MPI_Comm *ret_inter, struct tp_error *err);
int tp_offload_pool_idle(void);
/** Parents: the workers of a group wait again. */
void tp_offload_pool_return(const int *workers, int count);
/** Parents: all workers of the launch end. */
void tp_offload_pool_end(void);
/** Workers: serves groups until the end. */
void tp_offload_pool_serve(void);

/* spawn.c */
telpher_status tp_offload_spawn(const telpher_offload_params *params, int root,
                                MPI_Comm comm, MPI_Comm *ret_inter,
                                struct tp_error *err);

/* spawn_watchdog.c: says which phase hangs, and ends the job */
void tp_offload_watchdog_start(const char *phase, tp_ns timeout);
void tp_offload_watchdog_stop(void);

/* long_kernel.c: kernels that do not return */
/** In worker number @p rank: watches what it runs from now on. */
void tp_offload_long_kernel_watch(int rank);
/** Before and after each kernel. @p name lives as long as the process. */
void tp_offload_long_kernel_begin(const char *name);
void tp_offload_long_kernel_end(void);

/* process_watch.c: the end of processes of this machine */
/** Watches @p process, the @p who number @p rank; at its end the job ends, with words. */
void tp_offload_watch_add(const struct tp_process *process, const char *who, int rank,
                          const void *group);
/** Forgets those of @p group. */
void tp_offload_watch_remove(const void *group);

/* worker.c */
/** Serves the parents of @p inter until they end it. @p world: the workers alone. @p launch_tag:
 *  of the messages from them. */
telpher_status tp_offload_worker_serve(MPI_Comm inter, MPI_Comm world, int launch_tag,
                                       struct tp_error *err);
/** How a worker's start goes on in spawn mode. */
void tp_offload_worker_catch_faults(void);

/* tree.c: launches go down a tree of workers, results up */
enum { TP_OFFLOAD_TREE_CHILDREN = 32 };
struct tp_offload_tree {
    MPI_Comm comm;
    int rank, size;
    int parent; /**< of worker 0 itself */
    int count; /**< of children, the one with most below first */
    int children[TP_OFFLOAD_TREE_CHILDREN];
};
/** Fills in who is above and below, from rank and size. */
void tp_offload_tree_init(struct tp_offload_tree *tree);
/** Merges what the workers below say; at worker 0 all is known then. */
telpher_status tp_offload_tree_merge(const struct tp_offload_tree *tree,
                                     struct tp_offload_report *report);

/* group.c: workers as their parents see them */
enum { TP_OFFLOAD_SEND_SLOTS = 256, TP_OFFLOAD_REPORT_EVERY = 64 };
enum {
    TP_OFFLOAD_RING_BYTES = 128 << 10, /* of memory shared with worker 0 */
    TP_OFFLOAD_RING_FRAME_MAX = 32 << 10 /* [bytes] of one launch there */
};
#define TP_OFFLOAD_WINDOW_BYTES (1024u * 1024)
#define TP_OFFLOAD_REPORT_BYTES (256u * 1024)
/** [bytes] of a message that MPIs send at once: longer ones may need both sides in MPI. */
#define TP_OFFLOAD_EAGER_BYTES 3840u

struct tp_offload_send_slot {
    MPI_Request request;
    struct tp_buf memory; /**< MPI's while there is a request */
    uint32_t len;
};

/** Launches that wait for credit: records, and what of them was sent. Or a gate, without
 *  records, which is open when a request of other workers is done. */
struct tp_offload_backlog {
    struct tp_list link;
    struct telpher_kernel_request *after; /**< of a gate; else NULL */
    struct tp_buf records;
    uint64_t first, last, total, sent;
};

enum { TP_OFFLOAD_AGREED_COUNT = 4 };

struct tp_offload_group {
    struct tp_list link; /**< in tp_offload_groups */
    MPI_Comm inter, control; /**< the program's; ours */
    MPI_Comm local; /**< ours, the parents alone */
    MPI_Comm
        checked; /**< last communicator of a call that was found right; the program's */
    int mode; /**< enum telpher_offload_mode */
    int rank, parents, workers;
    int launch_tag;
    bool attached, ended, lost;
    bool has_ended; /**< the workers have said so, which is the last they say */
    bool lost_is_known; /**< to the other parents */
    unsigned looks; /**< for word of a loss */
    int64_t said[TP_OFFLOAD_AGREED_COUNT],
        agreed
            [TP_OFFLOAD_AGREED_COUNT]; /**< what parents find out together (agreement.c) */
    MPI_Request agreeing;
    int *pool; /**< ranks in tp_offload_world.base, in split mode */
    struct tp_offload_names names;
    uint64_t limit_bytes;
    uint64_t next; /**< number of the next call, the same in all parents */
    /* sending, at roots */
    struct tp_offload_send_slot slots
        [TP_OFFLOAD_SEND_SLOTS]; /* message n is in slot n % TP_OFFLOAD_SEND_SLOTS */
    uint64_t sent, acked; /**< messages */
    /* large ones, and those behind many that were not taken, may need us in MPI to leave */
    uint64_t unsent_until; /**< messages up to the last of these */
    uint64_t left; /**< messages that MPI is done with, as far as was looked */
    uint64_t in_flight_bytes;
    uint64_t asked; /**< messages up to the last that asked for a report */
    uint64_t asked_bytes; /**< since then */
    /* both have room for a header in front */
    struct tp_buf
        scratch; /**< the records of a call; sent from here when they are short */
    struct tp_buf message; /**< a copy of others */
    struct tp_frame_ring ring; /**< to worker 0, if that is of this machine */
    struct tp_list backlog;
    bool is_sending; /**< the backlog; by way of a gate it may come back to itself */
    /* receiving */
    struct tp_offload_greeting mine, theirs;
    MPI_Request greeting_sent, greeting_heard;
    struct tp_offload_report report;
    MPI_Request report_request;
    struct tp_list requests; /**< struct telpher_kernel_request */
    struct telpher_kernel_request *spare; /**< so that the next one lacks no memory */
    struct tp_list arrays; /**< struct array (array.c) */
    telpher_status status; /**< why it is lost */
};

struct telpher_kernel_request {
    struct tp_list link;
    struct tp_offload_group *group;
    uint64_t number;
    bool done;
    unsigned gates; /**< that look at it */
    bool let_go; /**< by the program: the last gate frees it */
    telpher_status status;
    MPIX_Kernel_status result;
};

/** Protects groups and all in them. */
extern struct tp_mutex tp_offload_lock;
extern struct tp_list tp_offload_groups;

/** The group of @p inter; made, not attached, when there is none. NULL: no memory. */
struct tp_offload_group *tp_offload_group_of(MPI_Comm inter, int mode);
/** The group of @p inter if there is one. */
struct tp_offload_group *tp_offload_group_find(MPI_Comm inter);
/** Greets the workers. Collective over @p comm. When that fails they may be attached all the same:
 *  some parent then knows none of their kernels. */
telpher_status tp_offload_group_attach(struct tp_offload_group *group, int root,
                                       MPI_Comm comm, struct tp_error *err);
/** The group of @p inter, with the lock held; the first call meets the workers, collectively
 *  over @p comm. NULL: with words, without the lock. (launch.c) */
struct tp_offload_group *tp_offload_group_lock(MPI_Comm inter, int root, MPI_Comm comm,
                                               struct tp_error *err);
/** With the lock held: whether @p comm, of a call, is that of the parents. @return OK, or INVALID
 *  with words. A call that is refused is one all the same: other parents count it. (launch.c) */
telpher_status tp_offload_group_check_comm(struct tp_offload_group *group,
                                           MPI_Comm comm, struct tp_error *err);
/** [bytes] of the workers' table of kernels in one message. */
enum { TP_OFFLOAD_NAMES_PIECE = 4096 };
/** Receives the table of kernels at @p root and gives it to all parents. @return the same in all of
 *  them; one that had no memory then knows no kernel */
telpher_status tp_offload_group_names(struct tp_offload_group *group, int root,
                                      struct tp_error *err);
/** At one parent, with the lock held: call @p number is that the workers end, behind the
 *  records in group->scratch; @p wants_done: parents have a request for it. */
telpher_status tp_offload_group_send_end(struct tp_offload_group *group,
                                         uint64_t number, bool wants_done,
                                         struct tp_error *err);

/* end.c */
/** The program is about to free @p comm: if that has workers they end. */
void tp_offload_group_leave(MPI_Comm comm);
/** The same for all groups there are: MPI_Finalize(). */
void tp_offload_group_finish_all(void);
/** Notes that @p comm was disconnected for the program. (pmpi.c) */
void tp_offload_comm_gone(MPI_Comm comm);
/** Frees all of it but what requests need. */
void tp_offload_group_destroy(struct tp_offload_group *group);

/* agreement.c: what parents must know alike. Who waits there moves queues of launches. */
/** A call that all parents make, by what must be the same. */
struct tp_offload_agreement {
    uint32_t call; /**< a flag of records, or 0 of what has none */
    int root;
    uint64_t a, b;
};
/** Whether all parents can make @p call: none of them has an error in @p err, has lost the
 *  workers, or was told to end them. Collective over all parents. @return OK; the same error in
 *  all of them, with words; INVALID when they make different calls */
telpher_status tp_offload_group_agree(struct tp_offload_group *group,
                                      const struct tp_offload_agreement *call,
                                      struct tp_error *err);
/** All processes of @p comm come here. */
void tp_offload_agree(MPI_Comm comm);
/** With the lock held: tells the other parents that the workers are lost, once. */
void tp_offload_group_tell_lost(struct tp_offload_group *group);
/** With the lock held: do others say so? Looks now and then. */
void tp_offload_group_hear_lost(struct tp_offload_group *group);

/* launch.c */
/** The kernels of one call, which only its root looks at, one after the other. */
struct tp_offload_calls {
    uint32_t count;
    /** Kernel @p i, which may be put together in @p room with @p sizes; NULL: it makes no
     *  sense. */
    const telpher_launch *(*get)(const struct tp_offload_calls *calls, uint32_t i,
                                 telpher_launch *room,
                                 uint64_t sizes[TELPHER_KERNEL_ARGS_MAX]);
};

/** Appends the records of all kernels of @p calls to group->scratch, up to "" if that is among
 *  them: @p ret_ends. With the lock held. (encode.c) */
telpher_status tp_offload_encode_all(struct tp_offload_group *group,
                                     const struct tp_offload_calls *calls,
                                     bool wants_done, bool *ret_ends,
                                     struct tp_error *err);

/** telpher_offload_launch() for any of the public calls. */
telpher_status tp_offload_launch(const struct tp_offload_calls *calls, int root,
                                 MPI_Comm comm, MPI_Comm inter,
                                 MPIX_Kernel_request *ret_request,
                                 struct tp_error *err);

/* send.c: with the lock held */
enum { TP_OFFLOAD_PAYLOAD_MAX = TP_OFFLOAD_MESSAGE_MAX - TP_OFFLOAD_HEADER_MAX };
/** May another message of @p len bytes leave? A single one may always. */
bool tp_offload_send_has_credit(const struct tp_offload_group *group, uint64_t len);
/** Sends one message, for which there is credit: @p header says what @p data is. */
telpher_status tp_offload_send_message(struct tp_offload_group *group,
                                       const uint8_t *data,
                                       struct tp_offload_header *header);
/** Sends, or queues, the records in group->scratch: call @p number. When that fails the
 *  group is lost, since workers run the calls in their order and would wait for this. */
telpher_status tp_offload_send_records(struct tp_offload_group *group, uint64_t number,
                                       struct tp_error *err);
/** A call that was refused has its number all the same: says that nothing is to come, also
 *  to other parents that wait for it. */
void tp_offload_send_nothing(struct tp_offload_group *group, uint64_t number,
                             bool others_wait);
/** Is a message still in MPI's hands that may need us? Looks, which helps it on its way. */
bool tp_offload_send_unfinished(struct tp_offload_group *group);
/** @return false when MPI still holds memory of @p group, which must then stay */
bool tp_offload_send_fini(struct tp_offload_group *group);

/* backlog.c: with the lock held */
/** Puts the records in group->scratch behind those that wait: call @p number. */
telpher_status tp_offload_backlog_queue(struct tp_offload_group *group,
                                        uint64_t number);
/** What is called from now on waits until @p request of other workers is done. */
telpher_status tp_offload_send_after(struct tp_offload_group *group,
                                     struct telpher_kernel_request *request);
/** Sends what may go, takes reports. */
void tp_offload_send_progress(struct tp_offload_group *group);
void tp_offload_backlog_fini(struct tp_offload_group *group);

/* reports.c: with the lock held */
void tp_offload_take_reports(struct tp_offload_group *group);
/** The next request will lack no memory. @return OK; NO_MEMORY */
telpher_status tp_offload_request_reserve(struct tp_offload_group *group);
/** The request for call @p number: a new one, or done already. NULL: no memory. */
struct telpher_kernel_request *tp_offload_request_create(struct tp_offload_group *group,
                                                         uint64_t number);
/** The program needs @p request, which is done, no longer. */
void tp_offload_request_release(struct telpher_kernel_request *request);
/** Everything that waits for @p group ends with @p status, at the other parents, too. */
void tp_offload_group_lose(struct tp_offload_group *group, telpher_status status);

/* launch.c: requests, with the lock held */
struct telpher_kernel_request *tp_offload_request_make(struct tp_offload_group *group,
                                                       uint64_t number,
                                                       struct tp_error *err);
/** The call was refused. NULL is fine. */
void tp_offload_request_drop(struct telpher_kernel_request *request);

/* order.c: calls that are no kernels. Parents prepare, agree, and make them. */
/** With the lock held: memory for a call with @p len bytes of arguments, and for a request if
 *  @p wants_done. @return OK; NO_MEMORY with words, unless there are some */
telpher_status tp_offload_order_prepare(struct tp_offload_group *group, uint64_t len,
                                        bool wants_done, struct tp_error *err);
/** With the lock held: a call that is no kernel, a record of @p flags with @p len bytes of
 *  arguments. All parents make it, @p root sends it; when that fails, which it does
 *  for want of memory only if nothing was prepared, the workers are lost to all of them.
 *  @p ret_request: may be NULL */
telpher_status tp_offload_order(struct tp_offload_group *group, int root,
                                uint32_t flags, const void *args, uint64_t len,
                                MPIX_Kernel_request *ret_request, struct tp_error *err);
/** Waits for @p request, and frees it. @return as telpher_offload_test() */
telpher_status tp_offload_request_await(MPIX_Kernel_request *request,
                                        MPIX_Kernel_status *ret_status);

/* array.c */
/** With the lock held: fills @p args with those of @p launch, numbers (in @p ids) in the place
 *  of arrays. @return OK; INVALID when one is none of @p group */
telpher_status tp_offload_array_args(const struct tp_offload_group *group,
                                     const telpher_launch *launch,
                                     const struct tp_offload_signature *sig,
                                     void **args, uint64_t *ids, struct tp_error *err);
/** With the lock held: the workers of @p group have ended, and their arrays. */
void tp_offload_array_drop_all(struct tp_offload_group *group);

/* row_counts.c */
/** Is @p comm an intercommunicator? */
bool tp_offload_is_inter(MPI_Comm comm);

/* row_exchange.c: rows of an array between the sides */
struct tp_offload_transfer {
    MPI_Comm inter; /**< ours */
    uint64_t rows, row_bytes; /**< of the array */
    void *block; /**< this process's; borrowed */
    bool sends; /**< this side does, the other receives */
    telpher_status (*progress)(void *arg); /**< while it lasts; NULL = nothing */
    void *arg;
    struct tp_offload_lane *lanes; /**< ours; NULL until prepared */
    int peers;
};
/** Finds out what goes where. @return OK; INVALID without a block for its rows; NO_MEMORY */
telpher_status tp_offload_transfer_prepare(struct tp_offload_transfer *transfer,
                                           struct tp_error *err);
/** Moves the rows. Collective over both sides. @return OK; IO when MPI failed; what progress
 *  returned, when that is not OK: then MPI has still to do with the memory */
telpher_status tp_offload_transfer_run(struct tp_offload_transfer *transfer);
void tp_offload_transfer_fini(struct tp_offload_transfer *transfer);

/* progress_thread.c: moves queues while the program computes */
void tp_offload_progress_thread_wake(void);
/** With the lock held: moves all queues. @return whether something still waits */
bool tp_offload_progress_thread_round(void);
void tp_offload_progress_thread_stop(void);

/* error.c */
/** The MPI error code of @p status, after logging @p err and calling the handler of @p comm. */
int tp_offload_mpi_error(MPI_Comm comm, telpher_status status,
                         const struct tp_error *err);
/** Fills the public error. @return its code */
telpher_status tp_offload_public_error(telpher_error *dst, const struct tp_error *err);

#endif
