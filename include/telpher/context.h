/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of ranks: processes that find each other at start and then send, put and notify. A call
 * that needs another rank is non-blocking unless its name contains wait, and every wait has a
 * time limit.
 *
 * Threads: a context belongs to one thread at a time. Callbacks are called from
 * telpher_progress() and from the waiting calls, never from another thread. A callback may start
 * operations, but must not wait.
 */
#ifndef TELPHER_CONTEXT_H
#define TELPHER_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include <telpher/error.h>
#include <telpher/status.h>
#include <telpher/two_sided.h>
#include <telpher/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An infinite time limit. [ns] */
#define TELPHER_FOREVER UINT64_MAX
/** Means all ranks, or any rank, in calls that say so. */
#define TELPHER_ANY_RANK UINT32_MAX

/**
 * The caller's own bootstrap, for systems without a supported launcher: rank, size and one
 * collective call. interop/mpi.h fills it from a communicator.
 */
typedef struct telpher_bootstrap {
    uint32_t struct_size;
    uint32_t rank;
    uint32_t size;
    /**
     * Gathers @p mine of all ranks into @p all, in the order of ranks. Collective, blocking,
     * used only while the context is created.
     * @param mine  @p len bytes, the same @p len in all ranks.
     * @param all   size * @p len bytes.
     * @return TELPHER_OK, or the status that telpher_context_create() shall return.
     */
    telpher_status (*allgather)(void *user, const void *mine, size_t len, void *all);
    void *user;
    /** Two-sided messages between the same ranks, for transport `mpi`. Read while the context
     *  is created, and then retained by it. NULL = none. */
    const telpher_two_sided *two_sided;
} telpher_bootstrap;

/** Zero means default in every field after the first. */
typedef struct telpher_context_params {
    uint32_t struct_size; /**< sizeof: TELPHER_CONTEXT_PARAMS_INIT sets it */
    uint32_t reserved;
    const telpher_bootstrap
        *bootstrap; /**< NULL: the launcher's, otherwise a job of one rank */
    uint64_t
        timeout_ns; /**< to find all other ranks; 0 = TELPHER_START_TIMEOUT, 60 s */
    const char
        /** "shm,tcp": transports to use, in this order; NULL = TELPHER_TRANSPORTS */
        *transports;
} telpher_context_params;

#define TELPHER_CONTEXT_PARAMS_INIT                                                    \
    {                                                                                  \
        sizeof(telpher_context_params), 0, NULL, 0, NULL                               \
    }

/**
 * Joins the job. Collective: all its ranks call it.
 *
 * The ranks come from the first of these that is present: @p params->bootstrap; the variables
 * that `telpher launch` sets (TELPHER_RANK, TELPHER_SIZE, TELPHER_ROOT); PMIx of `mpirun`,
 * `prterun` or `srun`; PMI-1 of MPICH's `mpiexec` (PMI_FD). Without any of them the process is
 * rank 0 of 1. If TELPHER_SIZE is 1 the process is rank 0 of 1 under any launcher. If a launcher
 * started several processes that cannot be joined, the call fails.
 *
 * @param params   NULL = defaults; read before return, never kept.
 * @param ret_ctx  receives the context; destroy it with telpher_context_destroy().
 * @param err      says what was wrong and what to do; may be NULL.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID      a variable or a parameter is invalid
 *         TELPHER_ERR_TIMEOUT      a rank did not connect in time; @p err names it
 *         TELPHER_ERR_UNREACHABLE  no transport connects this rank and another
 *         TELPHER_ERR_PEER_LOST    a rank died meanwhile
 *         TELPHER_ERR_UNSUPPORTED  the launcher started several processes and serves
 *                                  neither PMIx nor PMI-1
 *         TELPHER_ERR_BUSY         this process's MPI uses the launcher's connection:
 *                                  interop/mpi.h makes contexts from communicators
 *         TELPHER_ERR_AUTH, TELPHER_ERR_PROTO   the address belongs to another program or job
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_IO
 *
 * A child of fork() has no context: it must neither use nor destroy its parent's, whose tcp
 * connections are closed in it. A program that becomes a daemon does so before this call.
 *
 * Threads: any. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_context_create(const telpher_context_params *params,
                                                   telpher_context **ret_ctx,
                                                   telpher_error *err);

/**
 * Not 0 if a launcher started this process as a rank of a job, even if telpher_context_create()
 * cannot join it. Threads: any. Since: 0.1.
 */
TELPHER_CALL int telpher_is_launched(void);

/**
 * Text of the last call that failed: what failed, on what, why, and what to do.
 *
 * With a context: of the last call on it, or on a channel, window, request or memory of it, that
 * returned an error. Successful calls leave the text unchanged. TELPHER_ERR_AGAIN is no failure.
 * A request that completed with an error sets the text when telpher_request_test() or
 * telpher_request_wait() returns that error.
 * With NULL: of the last call of this thread that failed without a context, such as
 * telpher_context_create() and telpher_server_connect().
 *
 * @return the text, "" if nothing has failed; never NULL. Valid until the next call that fails,
 *         and no longer than @p ctx.
 *
 * Threads: the context's; with NULL any. Cost: none in successful calls. Since: 0.1.
 */
TELPHER_CALL const char *telpher_last_error(const telpher_context *ctx);

/**
 * Leaves the job. Not collective: ranks that still need this one get TELPHER_ERR_PEER_LOST.
 *
 * Data of complete requests still arrives, also at ranks that make no progress for a while: the
 * call waits until these ranks or their kernels have received it, at most TELPHER_LEAVE_TIMEOUT
 * (60 s; then it logs a line). It does not wait for ranks that die. Requests that are not
 * complete end without a callback. NULL is allowed.
 *
 * Only @p ctx is progressed meanwhile. A thread with contexts of several ranks destroys a
 * receiver's context first, or progresses it until the data was received. Since: 0.1.
 */
TELPHER_CALL void telpher_context_destroy(telpher_context *ctx);

/**
 * Registers @p fn to be called when the context is destroyed and no more callbacks come, in
 * reverse order of registration: for libraries that keep state for a context they do not own.
 * @return TELPHER_OK, TELPHER_ERR_LIMIT (at most 8). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_context_at_end(telpher_context *ctx,
                                                   void (*fn)(void *user), void *user);

/** Number of this process in the job, 0 .. size - 1. Since: 0.1. */
TELPHER_CALL uint32_t telpher_context_rank(const telpher_context *ctx);
/** Number of processes in the job. Since: 0.1. */
TELPHER_CALL uint32_t telpher_context_size(const telpher_context *ctx);
/** Random number of the job, the same in all its processes. Since: 0.1. */
TELPHER_CALL uint64_t telpher_context_job(const telpher_context *ctx);
/** Number of this process among those of the job on this machine. Since: 0.1. */
TELPHER_CALL uint32_t telpher_context_local_rank(const telpher_context *ctx);
/** Number of processes of the job on this machine. Since: 0.1. */
TELPHER_CALL uint32_t telpher_context_local_size(const telpher_context *ctx);

/** Name of the transport that reaches @p rank, "" if there is no such rank. Since: 0.1. */
TELPHER_CALL const char *telpher_context_transport(const telpher_context *ctx,
                                                   uint32_t rank);

/**
 * Returns whether @p rank is known to be lost.
 * @return TELPHER_OK, TELPHER_ERR_PEER_LOST, TELPHER_ERR_RANGE (no such rank)
 * Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_peer_status(const telpher_context *ctx,
                                                uint32_t rank);

/**
 * Declares @p rank dead, for a process that runs but does not answer. Operations with it
 * complete with TELPHER_ERR_PEER_LOST in the following calls of telpher_progress(), and their
 * memory, also exported memory, may then be reused. The other rank sees this process as lost; if
 * the two were not connected yet, it does so at its first send.
 *
 * @return TELPHER_OK, also if there was no operation; TELPHER_ERR_RANGE (no such rank, or
 *         this one); TELPHER_ERR_NO_MEMORY: nothing has changed
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_peer_disconnect(telpher_context *ctx,
                                                    uint32_t rank);

/**
 * Progresses all operations: sends, receives, copies, callbacks. Never blocks.
 * @return number of events handled, 0 if none. Since: 0.1.
 */
TELPHER_CALL unsigned telpher_progress(telpher_context *ctx);

/**
 * Progresses until an event was handled; polls first, then sleeps.
 * @param timeout_ns  0 .. TELPHER_FOREVER.
 * @return TELPHER_OK, TELPHER_ERR_TIMEOUT (no event). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_progress_wait(telpher_context *ctx,
                                                  uint64_t timeout_ns);

/**
 * Sleeps without polling first, until an event arrives, telpher_wake() is called or the timeout
 * passes, at most 100 ms; then progresses once. For a thread that serves others.
 * @return number of events handled, 0 if none. Since: 0.1.
 */
TELPHER_CALL unsigned telpher_progress_sleep(telpher_context *ctx, uint64_t timeout_ns);

/** Ends the current or the next sleep of the context's thread. Threads: any. Since: 0.1. */
TELPHER_CALL void telpher_wake(telpher_context *ctx);

/**
 * Returns when all ranks have called it. Collective.
 *
 * After an error other than INVALID the ranks no longer agree on the number of collectives. From
 * then on this call and telpher_win_create() return that error at once in this rank, and
 * PEER_LOST or the same error in others. Other operations between the remaining ranks continue.
 * For more collectives the ranks need a new job: destroy the context and create another with a
 * telpher_bootstrap of the remaining ranks, or restart the program. So choose a limit that
 * passes only after a failure. To poll whether all ranks have arrived, count notifications
 * instead (win.h).
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_TIMEOUT    a rank did not call it in time; ranks that had not received
 *                                this rank's data are declared dead
 *         TELPHER_ERR_PEER_LOST  a rank died; others may still get TELPHER_OK, if it had
 *                                called before
 *         TELPHER_ERR_INVALID    called in a callback; nothing was started
 *         TELPHER_ERR_NO_MEMORY
 * Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_barrier(telpher_context *ctx, uint64_t timeout_ns);

/** Called once when an operation is complete. @p len: [bytes] that were moved. */
typedef void (*telpher_done_fn)(void *user, telpher_status status, size_t len);

/** Options of a transfer; zero means default in every field after the first. */
typedef struct telpher_xfer_params {
    uint32_t struct_size; /**< sizeof: TELPHER_XFER_PARAMS_INIT sets it */
    uint32_t reserved;
    telpher_done_fn on_done; /**< NULL = no callback; then there is a request */
    void *user; /**< for on_done */
    /** Stream or queue of the domain (CUstream, cl_command_queue). The memory is ready after
     *  the work that is queued there now. NULL = it is ready now. */
    void *queue;
} telpher_xfer_params;

#define TELPHER_XFER_PARAMS_INIT                                                       \
    {                                                                                  \
        sizeof(telpher_xfer_params), 0, NULL, NULL, NULL                               \
    }

/**
 * Tests whether a request is complete. If it is, the request is freed and may not be used again.
 *
 * @param ret_len  receives [bytes] that were moved, only if complete; may be NULL.
 * @return TELPHER_IN_PROGRESS, TELPHER_OK, or the error of the operation:
 *         TELPHER_ERR_PEER_LOST, TELPHER_ERR_TRUNCATED, TELPHER_ERR_CANCELED,
 *         TELPHER_ERR_DEVICE, TELPHER_ERR_NO_MEMORY
 *
 * Threads: the context's. Cost: no system call. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_request_test(telpher_request *req, size_t *ret_len);

/**
 * Progresses until a request is complete; then as telpher_request_test().
 * @return as telpher_request_test(); also TELPHER_ERR_TIMEOUT: the request is unchanged. Since:
 *         0.1.
 */
TELPHER_CALL telpher_status telpher_request_wait(telpher_request *req,
                                                 uint64_t timeout_ns, size_t *ret_len);

/**
 * Cancels a receive for which no data has arrived. The request stays, and completes with
 * TELPHER_ERR_CANCELED.
 * @return TELPHER_OK, TELPHER_ERR_BUSY (too late, or not a receive: wait for it). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_request_cancel(telpher_request *req);

#ifdef __cplusplus
}
#endif

#endif
