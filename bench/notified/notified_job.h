/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of telpher-bench notified: options, kernels, rows. */
#ifndef BENCH_NOTIFIED_JOB_H
#define BENCH_NOTIFIED_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/context.h>

enum { NOTIFIED_TRIPS = 100, NOTIFIED_WINDOW = 64 }; /* in a row, of a sample */

/** Options of the benchmark, and its memory. */
struct notified {
    int samples, warmup;
    int ranks; /* of the bandwidth tests, two at least */
    size_t bytes; /* of their messages */
    bool json;
    int flips; /* of tests: 1: a wrong number is sent to and fro, 2: a wrong byte in windows */
    const char *transports; /* between two processes; NULL = those there are */
    const char *mpi; /* whose mpirun this runs under; NULL = it says so itself */
    double *us; /* samples */
    uint8_t *memory; /* two pieces of bytes for each rank */
};

/** Operation of the ping-pong. */
enum notified_what {
    NOTIFIED_PUT_4,
    NOTIFIED_PUT_SAME,
    NOTIFIED_VALUE_8,
    NOTIFIED_NOTIFY
};

/* ---- notified_kernels.c; false after words ---- */

/** Half round trips [us] into us, of NOTIFIED_TRIPS in a row: two ranks on @p workers
 *  threads; with @p ctx one in each of its two processes. */
bool notified_latency(const struct notified *n, telpher_context *ctx,
                      enum notified_what what, uint32_t workers);
/** Times [us] of @p senders ranks that put NOTIFIED_WINDOW messages each, into us, of @p
 *  samples; with @p ctx the ranks are shared out to its two processes. */
bool notified_bandwidth(const struct notified *n, telpher_context *ctx,
                        uint32_t senders, int samples);
/** [bytes] of all their messages. */
double notified_moved(const struct notified *n, uint32_t senders);

/* ---- notified.c ---- */

/** A table's head; nothing in JSON. @p unit  of its figures */
void notified_head(const struct notified *n, const char *table, const char *what,
                   const char *unit);
/** One row of @p samples in us: times, or for @p bytes moved in each GB/s. @p thesis  what
 *  dCUDA's thesis has there */
void notified_show(const struct notified *n, const char *table, const char *name,
                   int samples, double bytes, const char *thesis);

/** Fills in us, where it is not NULL, with the time [us] of one of @p parts of a trip: of
 *  each sample NOTIFIED_TRIPS trips in a row. @return false when a trip failed */
bool notified_time(const struct notified *n, int parts, double *us,
                   bool (*trip)(void *arg, uint64_t number), void *arg);

/* ---- notified_queue.c ---- */

/** Table 5.2. */
bool notified_queues(const struct notified *n);

/* ---- notified_net.c ---- */

/** True if @p list names ways between two processes, with commas between them. */
bool notified_are_ways(const char *list);
/** Rows between two processes of tables 5.1, 5.3 and 5.4. */
bool notified_net_latencies(const struct notified *n);
bool notified_net_core(const struct notified *n);
bool notified_net_bandwidths(const struct notified *n);
/** Does this run under mpirun? Then all there is are the rows over that MPI. */
bool notified_is_mpi(const struct notified *n);
/** Rows of all tables over MPI; only rank 0 prints. */
bool notified_mpi(const struct notified *n);

#endif
