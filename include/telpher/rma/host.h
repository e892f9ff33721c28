/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of notified access between ranks: it starts a kernel whose ranks
 * communicate while it runs, and waits for its end. Kernels include rma/device.h.
 *
 * Backends: processors, in one process or several, where ranks are light threads in
 * groups that stand for devices; and GPUs, for kernels that nvcc compiled (docs/rma.md).
 */
#ifndef TELPHER_RMA_HOST_H
#define TELPHER_RMA_HOST_H

#include <telpher/error.h>
#include <telpher/rma/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A set of ranks for kernels, one launch at a time. */
typedef struct telpher_rma_job telpher_rma_job;

/** Checks during a launch (params.check, TELPHER_RMA_CHECK). */
enum telpher_rma_check {
    /** Lanes that are not all at the same call; with one lane asked for, 8 are run. The lanes
     *  run in a random order that the seed repeats. */
    TELPHER_RMA_CHECK_LANES = 1,
    /** Accesses of lanes and ranks that nothing puts in order: barriers and notifications that
     *  are missing. Sees what calls move, and every access of kernels compiled with
     *  -fsanitize=thread and linked with libtelpher-rma-check.a. All ranks on one thread. */
    TELPHER_RMA_CHECK_RACES = 2
};

/** Parameters of telpher_rma_create(); zero means default. */
typedef struct telpher_rma_params {
    uint32_t struct_size;
    uint32_t ranks; /**< 0 = TELPHER_RMA_RANKS, else one a processor, or a device */
    uint32_t block[3]; /**< lanes of a rank in x, y, z; 0 = 1 */
    uint32_t devices; /**< groups of ranks that stand for devices; 0 = 1 */
    uint32_t tags; /**< 0 = TELPHER_RMA_TAGS_DEFAULT */
    uint32_t workers; /**< threads; 0 = one a processor, no more than ranks */
    uint32_t check; /**< enum telpher_rma_check; added to TELPHER_RMA_CHECK */
    uint32_t whole; /**< not 0: ranks and devices are those of all processes together */
    uint64_t timeout_ns; /**< of every wait; 0 = TELPHER_RMA_TIMEOUT */
    uint64_t
        seed; /**< of the order in the check modes; 0 = TELPHER_RMA_SEED, else by time */
    uint64_t stack_bytes; /**< of a lane; 0 = TELPHER_RMA_STACK */
    /** Gets the lines that kernels log, one at a time, from any thread; NULL = stdout. */
    void (*log)(void *user, const char *line);
    void *user;
    /** The job spans its processes. The library has it to itself while a kernel runs, and its
     *  handlers TELPHER_HANDLERS - 1 and - 2 all the time; destroy it after the job. NULL = the
     *  job of the launcher that started this process, if one did. */
    struct telpher_context *context;
} telpher_rma_params;
#define TELPHER_RMA_PARAMS_INIT                                                        \
    {                                                                                  \
        sizeof(telpher_rma_params), 0, {0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL,  \
            NULL                                                                       \
    }

/**
 * Makes a job. Started by `telpher launch` or a launcher with PMIx, or given a context of
 * several processes, it spans them: each has as many ranks, process 0 the first, and devices
 * of its own. Then this is called by all of them, and so is telpher_rma_run().
 *
 * @param params  NULL = defaults; not kept.
 * @param err     may be NULL.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_RANGE      a number is above its limit, or ranks are fewer than devices
 *         TELPHER_ERR_INVALID    a check that is not in the list; struct_size is 0
 *         TELPHER_ERR_UNSUPPORTED  a check for races in several processes
 *         TELPHER_ERR_NO_MEMORY
 *         and what telpher_context_create() says of other processes
 * Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_rma_create(const telpher_rma_params *params,
                                               telpher_rma_job **ret_job,
                                               telpher_error *err);

/** Frees a job. NULL is fine; one that runs a kernel lives on, and the log says so.
 *  Since: 0.1. */
TELPHER_CALL void telpher_rma_destroy(telpher_rma_job *job);

/** Processes of a job, and which of them this is; 1 and 0 without others. Since: 0.1. */
TELPHER_CALL uint32_t telpher_rma_job_processes(const telpher_rma_job *job);
TELPHER_CALL uint32_t telpher_rma_job_process(const telpher_rma_job *job);

/** Ranks of a job in this process, and lanes of a rank as they will run. Since: 0.1. */
TELPHER_CALL uint32_t telpher_rma_job_ranks(const telpher_rma_job *job);
TELPHER_CALL uint32_t telpher_rma_job_lanes(const telpher_rma_job *job);

/**
 * Runs a kernel on all ranks and returns when the last has ended.
 *
 * A launch that fails ends all waits of its kernel with an error; the kernel's ranks run on
 * to their ends. The first failure is what is returned, and telpher_rma_report() has the
 * text.
 *
 * @param data  for telpher_rma_data() in the kernel; borrowed. May be NULL.
 * @param err   gets the first line of the report; may be NULL.
 *
 * @return TELPHER_OK             every rank ended, and no call of the kernel failed
 *         TELPHER_ERR_VERSION    the kernel was compiled with other headers; nothing ran
 *         TELPHER_ERR_BUSY       the job runs a kernel
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_LIMIT   no memory or no threads; nothing ran
 *         TELPHER_ERR_DEADLOCK   no rank was left that could end a wait
 *         TELPHER_ERR_TIMEOUT    a wait was longer than the deadline
 *         TELPHER_ERR_RACE       accesses without an order (TELPHER_RMA_CHECK_RACES)
 *         TELPHER_ERR_INVALID    lanes of a rank, or ranks of a group, were at different calls;
 *                                processes called with different kernels or numbers
 *         TELPHER_ERR_PEER_LOST  a process was lost, now or in an earlier launch
 *         TELPHER_ERR_UNSUPPORTED  a check for races of a kernel whose accesses it would not
 *                                see: compiled without -fsanitize=thread, or linked with it
 *         TELPHER_ERR_DEVICE     a call of CUDA failed, with its error text
 *         and what a call in the kernel returned, or passed to telpher_rma_fail()
 * Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_rma_run(telpher_rma_job *job,
                                            const telpher_rma_kernel *kernel,
                                            void *data, telpher_error *err);

/**
 * The error report of the last launch, in lines: the failure, then for each waiting rank
 * the rank and tag it waited for, since when and at which line of the kernel. "" after
 * success. Valid until the next launch. Since: 0.1.
 */
TELPHER_CALL const char *telpher_rma_report(const telpher_rma_job *job);

/**
 * The times that telpher_rma_timer_start() and _stop() of the last launch took.
 * @param ret_ms  gets the first @p max of them [ms]; may be NULL if that is 0.
 * @return how many there are. Since: 0.1.
 */
TELPHER_CALL size_t telpher_rma_timings(const telpher_rma_job *job, double *ret_ms,
                                        size_t max);

/** How long the last launch's kernel ran, from the first rank's start to the last one's end
 *  [ns]. Since: 0.1. */
TELPHER_CALL uint64_t telpher_rma_elapsed(const telpher_rma_job *job);

/** The lane that calls, or NULL outside of kernels. For headers over this one. Since: 0.1. */
TELPHER_CALL telpher_rma *telpher_rma_here(void);

/** For libtelpher-rma-check.a: the lane that calls read (write = 0) or wrote @p len bytes.
 *  @p atomic accesses order others and race only with plain ones. No bytes at NULL: the
 *  program has instrumented sources. Since: 0.1. */
TELPHER_CALL void telpher_rma_seen(const void *at, size_t len, int write, int atomic,
                                   const void *code);

#ifdef __cplusplus
}
#endif

#endif
