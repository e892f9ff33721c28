/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of workers in a parent, and what parents agree on. */
#ifndef TELPHER_OFFLOAD_PARENT_GROUP_H
#define TELPHER_OFFLOAD_PARENT_GROUP_H

#include "offload/process.h"

/* group.c: creation and lookup of groups */
enum { TP_OFFLOAD_SEND_SLOTS = 256, TP_OFFLOAD_REPORT_EVERY = 64 };
enum {
    TP_OFFLOAD_RING_BYTES = 128 << 10, /* of memory shared with worker 0 */
    TP_OFFLOAD_RING_FRAME_MAX = 32 << 10 /* [bytes] of one launch there */
};
#define TP_OFFLOAD_WINDOW_BYTES (1024u * 1024)
#define TP_OFFLOAD_REPORT_BYTES (256u * 1024)
/** [bytes] of a message that MPIs send at once; a longer one may need both sides to
 *  make progress. */
#define TP_OFFLOAD_EAGER_BYTES 3840u

struct tp_offload_send_slot {
    MPI_Request request;
    struct tp_buf memory; /**< owned by the MPI while a request is active */
    uint32_t len;
};

/** A queued message that waits for credit: its records and how much of them was
 *  sent. Or a gate without records, which opens when a request of other workers is
 *  complete. */
struct tp_offload_backlog {
    struct tp_list link;
    struct telpher_kernel_request *after; /**< of a gate; else NULL */
    struct tp_buf records;
    uint64_t first, last, total, sent;
};

enum { TP_OFFLOAD_AGREED_COUNT = 4 };

struct tp_offload_group {
    struct tp_list link; /**< in tp_offload_groups */
    MPI_Comm inter, control; /**< the program's communicator; our duplicate */
    MPI_Comm local; /**< our communicator of the parents */
    MPI_Comm checked; /**< the communicator of the last call that was checked; the
                  *  program's */
    int mode; /**< enum telpher_offload_mode */
    int rank, parents, workers;
    int launch_tag;
    bool attached, ended, lost;
    bool has_ended; /**< the workers have reported the end; no report follows */
    uint64_t
        last; /**< with has_ended: the call that ended them, which this parent may not have made yet */
    bool lost_is_known; /**< the other parents know of the loss */
    unsigned looks; /**< calls of tp_offload_group_check_lost(), few of which probe */
    int64_t said[TP_OFFLOAD_AGREED_COUNT],
        agreed[TP_OFFLOAD_AGREED_COUNT]; /**< state of an agreement of the parents
                                        *  (agreement.c) */
    MPI_Request agreeing;
    int *pool; /**< ranks in tp_offload_world.base, in split mode */
    struct tp_offload_names names;
    uint64_t limit_bytes;
    uint64_t next; /**< number of the next call, the same in all parents */
    /* buffers for sending, at roots */
    struct tp_offload_send_slot slots
        [TP_OFFLOAD_SEND_SLOTS]; /* message n uses slot n % TP_OFFLOAD_SEND_SLOTS */
    uint64_t sent, acked; /**< messages */
    /* messages that may need calls of MPI to make progress: large ones, and those
     * after many unreceived ones */
    uint64_t unsent_until; /**< messages up to the last of these */
    uint64_t left; /**< messages whose send was complete at the last check */
    uint64_t in_flight_bytes;
    uint64_t asked; /**< messages up to the last that requested a report */
    uint64_t asked_bytes; /**< since then */
    /* both have room for a header in front */
    struct tp_buf
        scratch; /**< the encoded records of a call; short ones are sent from here */
    struct tp_buf message; /**< a copy of longer ones */
    struct tp_frame_ring ring; /**< shared memory to worker 0, if that is on this
                                *  machine */
    struct tp_list backlog;
    bool is_sending; /**< the backlog; a gate may lead back to this group */
    /* receiving */
    struct tp_offload_greeting mine, theirs;
    MPI_Request greeting_sent, greeting_heard;
    struct tp_offload_report report;
    MPI_Request report_request;
    struct tp_list requests; /**< struct telpher_kernel_request */
    struct telpher_kernel_request *spare; /**< preallocated, so that the next request
                                           *  needs no memory */
    struct tp_list arrays; /**< struct array (array.c) */
    telpher_status status; /**< error text of the loss */
};

struct telpher_kernel_request {
    struct tp_list link;
    struct tp_offload_group *group;
    uint64_t number;
    bool done;
    unsigned gates; /**< gates that wait for it */
    bool is_released; /**< freed by the program: the last gate frees it */
    telpher_status status;
    MPIX_Kernel_status result;
};

/** Protects the groups and all their members. */
extern struct tp_mutex tp_offload_lock;
extern struct tp_list tp_offload_groups;

/** The group of @p inter, which it creates if there is none. NULL: no memory. */
struct tp_offload_group *tp_offload_group_of(MPI_Comm inter, int mode);
/** The group of @p inter if there is one. */
struct tp_offload_group *tp_offload_group_find(MPI_Comm inter);
/** Exchanges greetings with the workers. Collective over @p comm. If it fails, the
 *  workers may still be attached: then some parent has no table of kernels. */
telpher_status tp_offload_group_attach(struct tp_offload_group *group, int root,
                                       MPI_Comm comm, struct tp_error *err);
/** The group of @p inter, with the lock held; the first call connects to the
 *  workers, collectively over @p comm. NULL: with an error text, without the lock.
 *  (launch.c) */
struct tp_offload_group *tp_offload_group_lock(MPI_Comm inter, int root, MPI_Comm comm,
                                               struct tp_error *err);
/** With the lock held: checks that @p comm is the parents' communicator. @return OK,
 *  or INVALID with an error text. A rejected call counts as a call, because other
 *  parents count it. (launch.c) */
telpher_status tp_offload_group_check_comm(struct tp_offload_group *group,
                                           MPI_Comm comm, struct tp_error *err);
/** [bytes] of the workers' table of kernels in one message. */
enum { TP_OFFLOAD_NAMES_PIECE = 4096 };
/** Receives the table of kernels at @p root and broadcasts it to all parents.
 *  @return the same in all of them; a parent without memory then has an empty table */
telpher_status tp_offload_group_names(struct tp_offload_group *group, int root,
                                      struct tp_error *err);
/** At one parent, with the lock held: records that call @p number ends the workers,
 *  after the records in group->scratch; @p wants_done: parents have a request for
 *  it. */
telpher_status tp_offload_group_send_end(struct tp_offload_group *group,
                                         uint64_t number, bool wants_done,
                                         struct tp_error *err);

/* end.c */
/** Ends the workers of @p comm, if it has any; the program is about to free it. */
void tp_offload_group_leave(MPI_Comm comm);
/** Ends all groups: MPI_Finalize(). */
void tp_offload_group_finish_all(void);
/** Records that the program has disconnected @p comm. (pmpi.c) */
void tp_offload_comm_gone(MPI_Comm comm);
/** Frees the group, except memory that requests need. */
void tp_offload_group_destroy(struct tp_offload_group *group);

/* agreement.c: agreement of the parents. A parent that waits there keeps sending
 * launches. */
/** A call that all parents make, with the members that must be equal. */
struct tp_offload_agreement {
    uint32_t call; /**< a flag of records; 0 for calls without one */
    int root;
    uint64_t a, b;
};
/** Agrees whether all parents can make @p call: none has an error in @p err, has
 *  lost the workers, or has ended them. Collective over all parents. @return OK; the
 *  same error with an error text in all of them; INVALID if they make different
 *  calls */
telpher_status tp_offload_group_agree(struct tp_offload_group *group,
                                      const struct tp_offload_agreement *call,
                                      struct tp_error *err);
/** A barrier over @p comm. */
void tp_offload_agree(MPI_Comm comm);
/** With the lock held: reports the loss of the workers to the other parents, once. */
void tp_offload_group_tell_lost(struct tp_offload_group *group);
/** With the lock held: marks the workers lost if another parent has reported it. Few calls poll. */
void tp_offload_group_check_lost(struct tp_offload_group *group);

#endif
