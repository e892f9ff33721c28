/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of workers as their parents see them, and what parents agree on. */
#ifndef TELPHER_OFFLOAD_PARENT_GROUP_H
#define TELPHER_OFFLOAD_PARENT_GROUP_H

#include "offload/process.h"

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

#endif
