/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: encoding, sending, backlog, reports; and calls that are no kernels. */
#ifndef TELPHER_OFFLOAD_PARENT_LAUNCH_H
#define TELPHER_OFFLOAD_PARENT_LAUNCH_H

#include "offload/parent/group.h"

/* launch.c */
/** The kernels of one call, which only its root reads, one after the other. */
struct tp_offload_calls {
    uint32_t count;
    /** Kernel @p i, which may be assembled in @p room with @p sizes; NULL: invalid. */
    const telpher_launch *(*get)(const struct tp_offload_calls *calls, uint32_t i,
                                 telpher_launch *room,
                                 uint64_t sizes[TELPHER_KERNEL_ARGS_MAX]);
};

/** Appends the records of all kernels of @p calls to group->scratch, up to the
 *  kernel "" if there is one (@p ret_ends). With the lock held. (encode.c) */
telpher_status tp_offload_encode_all(struct tp_offload_group *group,
                                     const struct tp_offload_calls *calls,
                                     bool wants_done, bool *ret_ends,
                                     struct tp_error *err);

/** telpher_offload_launch() for each of the public calls. */
telpher_status tp_offload_launch(const struct tp_offload_calls *calls, int root,
                                 MPI_Comm comm, MPI_Comm inter,
                                 MPIX_Kernel_request *ret_request,
                                 struct tp_error *err);

/* send.c: with the lock held */
enum { TP_OFFLOAD_PAYLOAD_MAX = TP_OFFLOAD_MESSAGE_MAX - TP_OFFLOAD_HEADER_MAX };
/** True if credit allows another message of @p len bytes. The first one is always
 *  allowed. */
bool tp_offload_send_has_credit(const struct tp_offload_group *group, uint64_t len);
/** Sends one message, for which there is credit; @p header describes @p data. */
telpher_status tp_offload_send_message(struct tp_offload_group *group,
                                       const uint8_t *data,
                                       struct tp_offload_header *header);
/** Sends or queues the records in group->scratch: call @p number. If that fails the
 *  group is lost, because workers run calls in order and would wait for this one. */
telpher_status tp_offload_send_records(struct tp_offload_group *group, uint64_t number,
                                       struct tp_error *err);
/** Sends a placeholder for a rejected call, whose number the workers and other
 *  parents expect. */
void tp_offload_send_nothing(struct tp_offload_group *group, uint64_t number,
                             bool others_wait);
/** True if an active send may need calls of MPI. Tests the sends, which makes
 *  progress. */
bool tp_offload_send_unfinished(struct tp_offload_group *group);
/** @return false if MPI still uses memory of @p group, which must then stay
 *  allocated */
bool tp_offload_send_fini(struct tp_offload_group *group);

/* backlog.c: with the lock held */
/** Appends the records in group->scratch to the backlog: call @p number. */
telpher_status tp_offload_backlog_queue(struct tp_offload_group *group,
                                        uint64_t number);
/** Adds a gate: later calls wait until @p request of other workers is complete. */
telpher_status tp_offload_send_after(struct tp_offload_group *group,
                                     struct telpher_kernel_request *request);
/** Sends what credit allows, and receives reports. */
void tp_offload_send_progress(struct tp_offload_group *group);
void tp_offload_backlog_fini(struct tp_offload_group *group);

/* reports.c: with the lock held */
void tp_offload_take_reports(struct tp_offload_group *group);
/** Preallocates the next request. @return OK; NO_MEMORY */
telpher_status tp_offload_request_reserve(struct tp_offload_group *group);
/** The request for call @p number: new, or complete already. NULL: no memory. */
struct telpher_kernel_request *tp_offload_request_create(struct tp_offload_group *group,
                                                         uint64_t number);
/** Frees @p request, which is complete. */
void tp_offload_request_release(struct telpher_kernel_request *request);
/** Completes all requests of @p group with @p status, also at the other parents. */
void tp_offload_group_lose(struct tp_offload_group *group, telpher_status status);
/** Fills @p err with the loss of a group that is lost, and returns its status. */
telpher_status tp_offload_group_error_lost(const struct tp_offload_group *group,
                                           struct tp_error *err);

/* launch.c: requests, with the lock held */
struct telpher_kernel_request *tp_offload_request_make(struct tp_offload_group *group,
                                                       uint64_t number,
                                                       struct tp_error *err);
/** Frees the request of a call that was rejected. NULL is allowed. */
void tp_offload_request_drop(struct telpher_kernel_request *request);

/* order.c: calls that are no kernels. The parents prepare, agree, and make the call. */
/** With the lock held: allocates memory for a call with @p len bytes of arguments,
 *  and a request if @p wants_done. @return OK; NO_MEMORY with an error text, unless
 *  @p err has one */
telpher_status tp_offload_order_prepare(struct tp_offload_group *group, uint64_t len,
                                        bool wants_done, struct tp_error *err);
/** With the lock held: makes a call that is no kernel, a record with @p flags and @p
 *  len bytes of arguments. All parents make it, @p root sends it. If it fails, which
 *  can be for lack of memory only if nothing was prepared, the workers are lost to
 *  all parents. @p ret_request may be NULL. */
telpher_status tp_offload_order(struct tp_offload_group *group, int root,
                                uint32_t flags, const void *args, uint64_t len,
                                MPIX_Kernel_request *ret_request, struct tp_error *err);
/** Waits for @p request and frees it. @return as telpher_offload_test() */
telpher_status tp_offload_request_await(MPIX_Kernel_request *request,
                                        MPIX_Kernel_status *ret_status);

/* array.c */
/** With the lock held: fills @p args with those of @p launch; array numbers (in @p
 *  ids) replace handles. @return OK; INVALID if a handle is no array of @p group */
telpher_status tp_offload_array_args(const struct tp_offload_group *group,
                                     const telpher_launch *launch,
                                     const struct tp_offload_signature *sig,
                                     void **args, uint64_t *ids, struct tp_error *err);
/** With the lock held: the workers of @p group have ended; drops its arrays. */
void tp_offload_array_drop_all(struct tp_offload_group *group);

/* row_counts.c */
/** True if @p comm is an intercommunicator. */
bool tp_offload_is_inter(MPI_Comm comm);

/* row_exchange.c: rows of an array between the sides */
struct tp_offload_transfer {
    MPI_Comm inter; /**< our duplicate */
    uint64_t rows, row_bytes; /**< of the array */
    void *block; /**< this process's; borrowed */
    bool sends; /**< true: this side sends; false: it receives */
    telpher_status (*progress)(void *arg); /**< called while rows are transferred;
                                            *  NULL = none */
    void *arg;
    struct tp_offload_lane *lanes; /**< ours; NULL until prepared */
    int peers;
};
/** Computes the transfers. @return OK; INVALID if rows have no block; NO_MEMORY */
telpher_status tp_offload_transfer_prepare(struct tp_offload_transfer *transfer,
                                           struct tp_error *err);
/** Transfers the rows. Collective over both sides. @return OK; IO if MPI failed; the
 *  error of progress(): then MPI still uses the memory */
telpher_status tp_offload_transfer_run(struct tp_offload_transfer *transfer);
void tp_offload_transfer_fini(struct tp_offload_transfer *transfer);

/* progress_thread.c: sends the backlog while the program computes */
void tp_offload_progress_thread_wake(void);
/** With the lock held: advances all groups. @return true if something still waits */
bool tp_offload_progress_thread_round(void);
void tp_offload_progress_thread_stop(void);

/* error.c */
/** The MPI error code of @p status, after logging @p err and calling the handler of @p comm. */
int tp_offload_mpi_error(MPI_Comm comm, telpher_status status,
                         const struct tp_error *err);
/** Fills the public error. @return its code */
telpher_status tp_offload_public_error(telpher_error *dst, const struct tp_error *err);

#endif
