/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: encoded, sent, queued without credit, reported; calls that are no kernels. */
#ifndef TELPHER_OFFLOAD_PARENT_LAUNCH_H
#define TELPHER_OFFLOAD_PARENT_LAUNCH_H

#include "offload/parent/group.h"

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
