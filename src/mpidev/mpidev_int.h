/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside libtelpher-mpi-device: MPI calls in front of the MPI's own, which take device
 * memory. An *operation* is a call with device memory, or a receive whose content comes
 * separately. Programs wait for it as for any request: it is a generalized request
 * (MPI-4.0, 13.2) that this library completes in its progress.
 *
 * Locks: tp_mpidev_lock() for all state; no MPI call that may block is made with it.
 */
#ifndef TP_MPIDEV_INT_H
#define TP_MPIDEV_INT_H

/* Exported symbols are the functions that MPI declares. */
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/context.h>

/* ---- device.c: the context, and which memory is a device's ---- */

/** NULL: none here; then all calls go to MPI as they are. */
extern telpher_context *tp_mpidev_context;

/** After MPI_Init(). Collective. */
void tp_mpidev_start(int threads);
/** After MPI_Session_init(): a context of this process alone, whose messages are all staged. */
void tp_mpidev_start_session(void);
/** Before each call that ends MPI: the last one destroys the context. */
void tp_mpidev_stop(void);
void tp_mpidev_lock(void);
void tp_mpidev_unlock(void);
bool tp_mpidev_is_device(const void *pointer);
/** The address that tells which memory a buffer is in: a datatype of absolute addresses has it, if
 *  the buffer is MPI_BOTTOM. */
static inline const void *
tp_mpidev_first(const void *buffer, MPI_Datatype type)
{
    MPI_Aint first = 0, extent;

    if (buffer == MPI_BOTTOM && tp_mpidev_context != NULL &&
        type != MPI_DATATYPE_NULL) {
        (void)PMPI_Type_get_true_extent(type, &first, &extent);
        return (const void *)(uintptr_t)first;
    }
    return buffer;
}
/** @return MPI_SUCCESS, or MPI_ERR_OTHER. The lock is held. */
int tp_mpidev_copy(void *dst, const void *src, size_t len);
/** Rank in MPI_COMM_WORLD; MPI_UNDEFINED for a process of another world. */
int tp_mpidev_world_rank(MPI_Comm comm, int rank);

struct tp_mpidev_settings {
    bool on;
    int64_t content_min; /**< [bytes] of a message whose content goes separately */
};

extern struct tp_mpidev_settings tp_mpidev_settings;
/** @return false: a setting is wrong; it was logged */
bool tp_mpidev_settings_load(void);

/* ---- stage.c: host memory that stands for a buffer of the program ---- */

enum tp_mpidev_use { TP_MPIDEV_IN = 1, TP_MPIDEV_OUT = 2, TP_MPIDEV_IN_OUT = 3 };

/** A buffer of a call: itself, or host memory in its place. */
struct tp_mpidev_stage {
    void *mpi; /**< what MPI gets as the buffer's address */
    char *host; /**< NULL: the buffer is host memory, and is used itself */
    char *device; /**< first byte of the span in device memory */
    size_t span; /**< [bytes] */
    size_t room; /**< [bytes] of host */
    bool copies_in, copies_out;
    bool keeps_host; /**< of a persistent request, for its next start */
    bool dense; /**< the datatype has no gaps */
};

/**
 * Finds out what memory @p buffer is in; copies device memory of TP_MPIDEV_IN to new host
 * memory, with the layout of the datatype. The lock is held.
 * @return MPI_SUCCESS, MPI_ERR_NO_MEM, MPI_ERR_OTHER
 */
int tp_mpidev_stage_open(struct tp_mpidev_stage *stage, const void *buffer,
                         int64_t count, MPI_Datatype type, enum tp_mpidev_use use);
/** The same for memory from the lowest byte that any of @p n blocks touches. @param displs in
 *  units of @p type's extent; NULL: one after another */
int tp_mpidev_stage_open_blocks(struct tp_mpidev_stage *stage, const void *buffer,
                                int n, const int *counts, const int *displs,
                                MPI_Datatype type, enum tp_mpidev_use use);
/** The same for MPI_Alltoallw(): displacements in bytes, a datatype for each block.
 *  @param wide  displacements if @p displs is NULL */
int tp_mpidev_stage_open_typed(struct tp_mpidev_stage *stage, const void *buffer, int n,
                               const int *counts, const int *displs,
                               const MPI_Aint *wide, const MPI_Datatype *types,
                               enum tp_mpidev_use use);
/** Copies device memory in again, before another use of the host memory. @return an error */
int tp_mpidev_stage_fill(struct tp_mpidev_stage *stage);
/** Takes host memory that stands for no buffer. @return MPI_SUCCESS, MPI_ERR_NO_MEM */
int tp_mpidev_stage_host(struct tp_mpidev_stage *stage, size_t bytes);
/** Copies results back if @p error is MPI_SUCCESS, and releases host memory that it does not
 *  keep. @return an error */
int tp_mpidev_stage_close(struct tp_mpidev_stage *stage, int error);
void tp_mpidev_stage_fini(void);

/* ---- operation.c ---- */

#define TP_MPIDEV_STAGES 2

struct tp_mpidev_op {
    struct tp_mpidev_op *next;
    MPI_Request user; /**< generalized request; MPI_REQUEST_NULL while a call waits */
    MPI_Request inner; /**< MPI's own */
    MPI_Status status; /**< of the inner one */
    struct tp_mpidev_stage stages[TP_MPIDEV_STAGES];
    MPI_Comm comm;
    struct tp_mpidev_content *content; /**< NULL: MPI carries the content */
    MPI_Datatype unpack_type; /**< MPI_DATATYPE_NULL: nothing is unpacked */
    int unpack_count;
    int error;
    bool done;
    bool receives;
    bool keeps_inner; /**< the inner request is a persistent one */
    bool detached; /**< the program has freed its request */
};

/** @return NULL: no memory. The lock is held. */
struct tp_mpidev_op *tp_mpidev_op_new(MPI_Comm comm);
/** Has a receive land in stages[1].host, [bytes]; its end unpacks that into stages[0].
 *  @return MPI_SUCCESS, MPI_ERR_NO_MEM */
int tp_mpidev_op_unpack(struct tp_mpidev_op *op, size_t bytes, int count,
                        MPI_Datatype type);
/** Before it was started: releases all. @return @p error, reported to the communicator */
int tp_mpidev_op_drop(struct tp_mpidev_op *op, int error);
/** Starts to progress the operation, whose inner request was started; gives the program a
 *  request. @return @p error, or one of its own; then the operation is gone */
int tp_mpidev_op_start(struct tp_mpidev_op *op, int error, MPI_Request *ret_request);
/** Waits for an operation of a call that blocks, and frees it. The lock is released meanwhile. */
int tp_mpidev_op_wait(struct tp_mpidev_op *op, int error, MPI_Status *ret_status);
/** The program frees its request before the operation is over. @return false: it is no operation's.
 *  The lock is not held. */
bool tp_mpidev_op_detach(MPI_Request *request);
/** Returns when sends whose requests were freed are over. */
void tp_mpidev_drain(void);
/**
 * Returns when all processes of @p comm have called it, and progresses operations meanwhile. For
 * calls of MPI that wait for the others: their messages to this process end first.
 */
void tp_mpidev_meet(MPI_Comm comm);
/** Progresses all. @return whether there are any. The lock is not held. */
bool tp_mpidev_progress(void);
/** Whether operations are in progress: calls that block must progress them. */
bool tp_mpidev_is_busy(void);
/** Tells the communicator's error handler. @return @p error */
int tp_mpidev_fail(MPI_Comm comm, int error);
/** The same for a call without a communicator. */
int tp_mpidev_fail_local(int error);

/* ---- persistent.c: requests that are started again and again ---- */

/** How MPI starts a send of one of its modes. */
typedef int (*tp_mpidev_send_fn)(const void *buffer, int count, MPI_Datatype type,
                                 int dest, int tag, MPI_Comm comm,
                                 MPI_Request *ret_request);

/** Whether there are any: otherwise each request is MPI's. */
bool tp_mpidev_has_persistent(void);
/** Whether @p request is one of this library's persistent requests; then the request of MPI
 *  that it stands for: MPI_REQUEST_NULL while it is inactive. */
bool tp_mpidev_persistent_get(MPI_Request request, MPI_Request *ret_active);
/** Takes back the request of MPI that @p request stands for, after a call of MPI. */
void tp_mpidev_persistent_set(MPI_Request request, MPI_Request active);
/** Makes a persistent request of an operation, whose inner request is persistent. Takes
 *  @p op. @return @p error, or one of its own. The lock is not held. */
int tp_mpidev_persistent_collective(struct tp_mpidev_op *op, int error,
                                    MPI_Request *ret_request);

/* ---- p2p.c: starts of messages with device memory, or whose content comes apart ---- */

int tp_mpidev_send_start(struct tp_mpidev_op *op, tp_mpidev_send_fn start,
                         const void *buffer, int count, MPI_Datatype type, int dest,
                         int tag, bool content_may_follow);
int tp_mpidev_recv_start(struct tp_mpidev_op *op, void *buffer, int count,
                         MPI_Datatype type, int source, int tag, MPI_Message *message);
/** Whether MPI's own receive does: host memory, too small for content that comes apart. */
bool tp_mpidev_is_plain_recv(const void *buffer, int count, MPI_Datatype type);

/* ---- init.c: calls that refuse device memory ---- */

/** Says so, and calls the error handler of the object, or of MPI_COMM_SELF.
 *  @return MPI_ERR_BUFFER */
int tp_mpidev_refuse(const char *call);
int tp_mpidev_refuse_comm(const char *call, MPI_Comm comm);
int tp_mpidev_refuse_win(const char *call, MPI_Win win);
int tp_mpidev_refuse_file(const char *call, MPI_File file);

/* ---- content.c: large messages from device memory ---- */

/** Sends the content of [data, data + len) apart from the message: fills the envelope that MPI sends
 *  in its place. @return NULL: not possible; MPI carries it */
struct tp_mpidev_content *tp_mpidev_content_send(const void *data, size_t len,
                                                 MPI_Comm comm, int rank,
                                                 const void **ret_envelope,
                                                 int *ret_len);
/** Prepares a receive of up to @p cap bytes whose content may come apart. @return NULL: no memory */
struct tp_mpidev_content *tp_mpidev_content_recv(void *data, size_t cap);
/** Whether @p status and the bytes that were received are an envelope; then asks for the content. */
bool tp_mpidev_content_begin(struct tp_mpidev_content *content, const void *received,
                             const MPI_Status *status);
/** Whether bytes that were received are an envelope; then the length of its content. */
bool tp_mpidev_content_is_envelope(const void *received, MPI_Count len,
                                   MPI_Count *ret_len);
/** @return whether all is over; then with the length and an error */
bool tp_mpidev_content_is_done(const struct tp_mpidev_content *content, size_t *ret_len,
                               int *ret_error);
void tp_mpidev_content_free(struct tp_mpidev_content *content);
telpher_status tp_mpidev_content_init(void);
/** [bytes] of an envelope */
#define TP_MPIDEV_ENVELOPE 59

/* ---- probe.c: messages that a probe had to take from MPI ---- */

/** A message that MPI_Probe received because it may be an envelope, which has the length. */
struct tp_mpidev_found {
    struct tp_mpidev_found *next;
    MPI_Comm comm;
    MPI_Status status;
    char bytes[TP_MPIDEV_ENVELOPE];
};

/** Whether there are any: receives look there first. */
bool tp_mpidev_has_found(void);
/** Takes the first that a receive matches; the caller frees it. NULL: none. The lock is held. */
struct tp_mpidev_found *tp_mpidev_found_take(int source, int tag, MPI_Comm comm);

#endif
