/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel offload over MPI: parents start functions of workers by name; a call costs one
 * message. docs/offload.md goes from a plain MPI program to an offloaded one.
 *
 * MPIX_Kernel_call() and MPIX_Kernel_call_multiple() are those of Rinke, Prabhakaran and
 * Wolf, "Efficient Offloading of Parallel Kernels Using MPI_Comm_spawn". Workers come from
 * MPI_Comm_spawn(), of telpher-worker or of a program linked with its library, or from the
 * same launch: mpirun -np 2 ./program : -np 4 telpher-worker. In such a launch the library
 * emulates a spawn: MPI_COMM_WORLD of each side holds that side only, MPI_Comm_spawn() returns
 * the waiting workers, and MPI_Comm_get_parent() works in them. For that, link the library
 * before the MPI (mpicc does).
 *
 * Errors: MPIX calls use the error handler of the intercommunicator. Tests and waits use that
 * of MPI_COMM_WORLD, because a request may outlive its intercommunicator. Both handlers end
 * the job by default. Calls return MPI error codes; the error text is logged.
 *
 * Threads: any thread; the program serializes calls for one intercommunicator.
 */
#ifndef TELPHER_OFFLOAD_H
#define TELPHER_OFFLOAD_H

#include <mpi.h>

#include <telpher/error.h>
#include <telpher/kernel.h>
#include <telpher/offload_array.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Starts the kernel @p kernelname on all workers of @p intercomm. Collective over @p comm,
 * the parents that got @p intercomm from MPI_Comm_spawn(). The arguments before @p root are
 * significant at that rank only. The call returns when the arguments may be changed; the
 * kernel runs later, after the kernels called before it. args[i] points to argument i of
 * argsizes[i] bytes, which must match the kernel's declaration; for telpher_bytes it points
 * to that many bytes. The name "" ends the workers; the program's own communicators stay
 * connected.
 */
TELPHER_CALL int MPIX_Kernel_call(char *kernelname, int argcount, void *args[],
                                  int *argsizes, int root, MPI_Comm comm,
                                  MPI_Comm intercomm);

/** The same for @p count kernels in one message; they run in this order. */
TELPHER_CALL int MPIX_Kernel_call_multiple(int count, char *array_of_kernelname[],
                                           int *array_of_argcount,
                                           void **array_of_args[],
                                           int *array_of_argsizes[], int root,
                                           MPI_Comm comm, MPI_Comm intercomm);

/** A kernel in progress; every parent has one. */
typedef struct telpher_kernel_request *MPIX_Kernel_request;
#define MPIX_KERNEL_REQUEST_NULL ((MPIX_Kernel_request)0)

/** Result of a kernel. */
typedef struct MPIX_Kernel_status {
    int result; /**< highest result of all workers; 0 for a kernel that returns void */
    int rank; /**< first worker that returned it */
    char text
        /** text that this worker passed to telpher_kernel_error() */
        [TELPHER_ERROR_TEXT_BYTES];
} MPIX_Kernel_status;
#define MPIX_KERNEL_STATUS_IGNORE ((MPIX_Kernel_status *)0)

/**
 * As MPIX_Kernel_call(), and returns a request that completes when the kernel has ended in all
 * workers. The next kernel begins after that.
 */
TELPHER_CALL int MPIX_Kernel_icall(char *kernelname, int argcount, void *args[],
                                   int *argsizes, int root, MPI_Comm comm,
                                   MPI_Comm intercomm, MPIX_Kernel_request *request);

/**
 * Orders kernels of different groups of workers without blocking the program. Later calls for
 * the workers of @p intercomm begin after all @p requests, which are of other workers, are
 * complete. Null requests and requests of the same workers, which are ordered anyway, are
 * allowed. Collective over @p comm, each parent with its requests for the same calls. The
 * program keeps the requests, and may wait for and free them meanwhile. A kernel may have any
 * result; but if the workers of a request are lost, those of @p intercomm are lost as well.
 * Returns at once, and sends nothing.
 */
TELPHER_CALL int MPIX_Kernel_after(int count, const MPIX_Kernel_request requests[],
                                   MPI_Comm comm, MPI_Comm intercomm);

/** Tests whether @p request is complete; then frees it and sets it to null. */
TELPHER_CALL int MPIX_Kernel_test(MPIX_Kernel_request *request, int *flag,
                                  MPIX_Kernel_status *status);
/** Waits for @p request, frees it and sets it to null. */
TELPHER_CALL int MPIX_Kernel_wait(MPIX_Kernel_request *request,
                                  MPIX_Kernel_status *status);
/** Waits for all requests; @p statuses may be null, otherwise it has @p count entries. */
TELPHER_CALL int MPIX_Kernel_waitall(int count, MPIX_Kernel_request requests[],
                                     MPIX_Kernel_status statuses[]);

/** How workers are started. */
enum telpher_offload_mode {
    TELPHER_OFFLOAD_AUTO = 0, /**< split if the launch has workers, otherwise spawn */
    TELPHER_OFFLOAD_SPAWN = 1, /**< MPI_Comm_spawn() */
    TELPHER_OFFLOAD_SPLIT = 2 /**< workers that were launched beside the program */
};

/** Parameters of telpher_offload_start(); zero means default. */
typedef struct telpher_offload_params {
    uint32_t struct_size;
    int32_t mode; /**< enum telpher_offload_mode */
    int32_t workers; /**< number of workers; 0 = one, or in split mode all that wait */
    const char *program; /**< to spawn; NULL = telpher-worker of this MPI */
    char **argv; /**< for the program, NULL-ended; NULL = none */
    const MPI_Info *info; /**< for MPI_Comm_spawn(); NULL = none */
} telpher_offload_params;
#define TELPHER_OFFLOAD_PARAMS_INIT                                                    \
    {                                                                                  \
        sizeof(telpher_offload_params), 0, 0, NULL, NULL, NULL                         \
    }

/**
 * Starts workers: MPI_Comm_spawn() with additional checks. It first checks that the spawn can
 * succeed, then verifies the workers' protocol version. A watchdog ends the job with an error
 * text if the spawn hangs, which some MPIs do (TELPHER_OFFLOAD_TIMEOUT). Collective over @p
 * comm. The arguments before count are significant at @p root only, except the mode, which is
 * the same in all ranks.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_NOT_FOUND    no such program here
 *         TELPHER_ERR_LIMIT        fewer slots, or waiting workers, than requested
 *         TELPHER_ERR_UNSUPPORTED  the MPI cannot spawn, or the launch has no workers
 *         TELPHER_ERR_INVALID      no such root, or mode
 *         TELPHER_ERR_TIMEOUT, TELPHER_ERR_VERSION, TELPHER_ERR_PROTO  of the version check
 */
TELPHER_CALL telpher_status telpher_offload_start(const telpher_offload_params *params,
                                                  int root, MPI_Comm comm,
                                                  MPI_Comm *ret_intercomm,
                                                  telpher_error *err);

/** SPAWN or SPLIT: how the workers of @p intercomm were started; AUTO if it has none. */
TELPHER_CALL int telpher_offload_mode_of(MPI_Comm intercomm);

/** "spawn" or "split". */
TELPHER_CALL const char *telpher_offload_mode_name(int mode);

/**
 * Loads a plugin, a shared library with TELPHER_KERNEL() in it, into all workers and makes
 * its kernels known. Waits for the kernels before it. Collective like a kernel call.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_NOT_FOUND  with the error text of the first worker that failed
 *         TELPHER_ERR_INVALID, TELPHER_ERR_LIMIT  no path, or a path that is too long
 *         TELPHER_ERR_NO_MEMORY  in a parent, whose table of kernels may be empty: load it again
 *         TELPHER_ERR_PEER_LOST  the workers have ended
 *         and those of the first call, telpher_offload_start(); the same in all parents
 */
TELPHER_CALL telpher_status telpher_offload_load(const char *path, int root,
                                                 MPI_Comm comm, MPI_Comm intercomm,
                                                 telpher_error *err);

/** One launch with 64-bit sizes and, if the caller knows them, types. */
typedef struct telpher_launch {
    uint32_t struct_size;
    uint32_t argcount;
    const char *name;
    void *const *args;
    const uint64_t *sizes; /**< [bytes] */
    const telpher_kernel_arg
        *types; /**< checked as well; NULL = only the sizes are checked */
} telpher_launch;

/**
 * Starts kernels; as MPIX_Kernel_call_multiple(). @p ret_request may be NULL;
 * otherwise it completes when the last of them has ended.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_NOT_FOUND    no such kernel; none was started
 *         TELPHER_ERR_INVALID      arguments are not as declared; none was started
 *         TELPHER_ERR_LIMIT        longer than the workers accept
 *         TELPHER_ERR_PEER_LOST    the workers have ended
 *         and, at the first call, those of telpher_offload_start()
 */
TELPHER_CALL telpher_status telpher_offload_launch(
    uint32_t count, const telpher_launch *launches, int root, MPI_Comm comm,
    MPI_Comm intercomm, MPIX_Kernel_request *ret_request, telpher_error *err);

/** As MPIX_Kernel_test(), without an error handler. Returns TELPHER_IN_PROGRESS or the result. */
TELPHER_CALL telpher_status telpher_offload_test(MPIX_Kernel_request *request,
                                                 MPIX_Kernel_status *ret_status);

/** The main function of a worker: MPI_Init(), kernels until the end, MPI_Finalize(). */
TELPHER_CALL int telpher_worker_main(int argc, char **argv);

/** In a kernel: the result of MPI_Comm_get_parent(), and the workers' MPI_COMM_WORLD. */
TELPHER_CALL MPI_Comm telpher_worker_parent(void);
TELPHER_CALL MPI_Comm telpher_worker_world(void);

/** In a kernel: this worker's number among the workers of its machine, and their count. */
TELPHER_CALL int telpher_worker_local_rank(void);
TELPHER_CALL int telpher_worker_local_size(void);

/**
 * In a kernel: the device to use of @p devices, by local rank or by TELPHER_MAPPING. Returns -1
 * and logs an error if the mapping is malformed or names a missing device; also -1 if there are
 * no devices.
 */
TELPHER_CALL int telpher_worker_device(int devices);

#ifdef __cplusplus
}
#endif

#endif
