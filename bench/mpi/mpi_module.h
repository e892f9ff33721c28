/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface to an MPI, without its types: the sources of bench/mpi are compiled once for each
 * implementation, since the types and constants of mpi.h differ, and loaded when used.
 * Every call gives false if MPI failed. Lengths are at most INT_MAX.
 */
#ifndef BENCH_MPI_MODULE_H
#define BENCH_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/context.h>

#include "bench/mpi/calls.h"

enum { BENCH_MPI_WINDOW_MAX = 1024 };

/** Exported by the module as "bench_mpi". */
struct bench_mpi {
    bool (*start)(int *ret_rank, int *ret_size);
    /** The same for several threads that call MPI in turn. */
    bool (*start_serialized)(int *ret_rank, int *ret_size);
    /** The same by a session of MPI 4; NULL: this MPI has none. */
    bool (*start_session)(int *ret_rank, int *ret_size);
    /** telpher_context_create_mpi() of all processes. */
    telpher_status (*create_context)(const telpher_context_params *params,
                                     telpher_context **ret_ctx, telpher_error *err);
    void (*stop)(void);
    void (*abort)(void); /**< ends all ranks */
    const char *(*version)(void);
    bool (*takes_cuda)(void); /**< CUDA device memory where a buffer is asked for */
    /** This process as a rank of Telpher, if the MPI is of Telpher: it takes all memory of this
     *  context. Else, and before start(), NULL. */
    telpher_context *(*device_context)(void);
    bool (*barrier)(void);
    bool (*send)(const void *src, size_t len, int peer);
    bool (*recv)(void *dst, size_t len, int peer);
    bool (*begin_send)(int i, const void *src, size_t len, int peer);
    bool (*begin_recv)(int i, void *dst, size_t len, int peer);
    /** For the first of either kind that were begun. */
    bool (*wait_all)(int sends, int recvs);
    /** Replaces each value by the least, the sum and the most over all ranks, at rank 0. */
    bool (*reduce)(const double *mine, int count, double *least, double *sum,
                   double *most);
    /** From now on messages of w->len are sent as w->layout says. */
    bool (*lay_out)(const struct bench_work *w);
    const struct bench_call *(*find_call)(const char *name); /**< NULL: not there */
};

#endif
