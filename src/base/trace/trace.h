/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace: the last records of this process in a ring, written as Chrome trace JSON (for
 * chrome://tracing or ui.perfetto.dev) by tp_trace_flush() and at exit.
 *
 * TELPHER_TRACE=file switches it on; "%p" in the name becomes the process id. Switched
 * off, a trace point costs one predictable branch; on, it takes no lock and allocates
 * nothing. When the ring is full the oldest records go, and the file says how many went.
 *
 *     tp_trace_instant("icd", "enqueue", TP_ARG("queue", id), TP_ARG("bytes", len));
 *     tp_trace_frame("send launch", TP_ARG("frame", number), TP_ARG("cause", event));
 *
 * Names must be static strings: only the pointer is kept. Up to TP_TRACE_ARGS arguments.
 * Threads: any.
 */
#ifndef TELPHER_BASE_TRACE_TRACE_H
#define TELPHER_BASE_TRACE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/os/clock.h"

#define TP_TRACE_ARGS 5
#define TP_TRACE_RECORDS_DEFAULT 65536

struct tp_trace_arg {
    const char *name; /* static; NULL ends the list */
    uint64_t value;
};

/** One argument of a trace point. */
#define TP_ARG(arg_name, arg_value)                                                    \
    {                                                                                  \
        (arg_name), (uint64_t)(arg_value)                                              \
    }

/** Only for the macros and for callers that would prepare costly arguments. */
extern _Atomic bool tp_trace_on;

static inline bool
tp_trace_enabled(void)
{
    return tp_unlikely(atomic_load_explicit(&tp_trace_on, memory_order_relaxed));
}

/* clang-format off */
#define TP_TRACE_POINT(phase, category, name, start_ns, ...)                           \
    do {                                                                               \
        if (tp_trace_enabled()) {                                                      \
            tp_trace_record(phase, category, name, start_ns,                           \
                            (const struct tp_trace_arg[TP_TRACE_ARGS]){__VA_ARGS__});  \
        }                                                                              \
    } while (0)
/* clang-format on */

/** Something happened now. */
#define tp_trace_instant(category, name, ...)                                          \
    TP_TRACE_POINT('i', category, name, 0, __VA_ARGS__)
/** This thread starts @p name; tp_trace_end() of the same name in the same thread ends it. */
#define tp_trace_begin(category, name, ...)                                            \
    TP_TRACE_POINT('B', category, name, 0, __VA_ARGS__)
#define tp_trace_end(category, name, ...)                                              \
    TP_TRACE_POINT('E', category, name, 0, __VA_ARGS__)
/** @p name went on in this thread from @p start_ns (of tp_clock_ns()) until now. */
#define tp_trace_span(category, name, start_ns, ...)                                   \
    TP_TRACE_POINT('X', category, name, start_ns, __VA_ARGS__)
/** A counter that viewers plot over time. */
#define tp_trace_counter(category, name, ...)                                          \
    TP_TRACE_POINT('C', category, name, 0, __VA_ARGS__)
/** A frame of the wire was sent or received; category "frame". */
#define tp_trace_frame(name, ...) tp_trace_instant("frame", name, __VA_ARGS__)

void tp_trace_record(char phase, const char *category, const char *name, tp_ns start_ns,
                     const struct tp_trace_arg args[TP_TRACE_ARGS]);

/**
 * Starts tracing into @p path (copied; "%p" = process id, "%%" = "%") with room for
 * @p record_count records (0 = default; rounded up to a power of two), and has the file
 * written at exit. In a child after fork() it starts afresh; without it a child records
 * and writes nothing.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_EXISTS     tracing already; goes on as it was
 *         TELPHER_ERR_RANGE      record_count above 2^24
 *         TELPHER_ERR_NO_MEMORY
 */
telpher_status tp_trace_start(const char *path, size_t record_count,
                              struct tp_error *err);

/** tp_trace_start() with TELPHER_TRACE, if set, and TELPHER_TRACE_RECORDS; a failure gives
 *  one warning, no more. */
void tp_trace_start_env(void);

/** Calls this process @p name in the trace; copied, cut at 31 characters. */
void tp_trace_set_process_name(const char *name);

/**
 * Says that the frames of @p stream, as in records, are those of @p session: the same number
 * at both ends, by which telpher trace merge joins their traces. The last ones are kept.
 */
void tp_trace_stream(uint64_t stream, uint64_t session);

/**
 * Writes everything in the ring to the file, replacing what an earlier flush wrote.
 *
 * @return TELPHER_OK (also when tracing is off), TELPHER_ERR_IO, TELPHER_ERR_NO_MEMORY,
 *         or what tp_error_from_errno() makes of the failed call
 */
telpher_status tp_trace_flush(struct tp_error *err);

/** Flushes and switches tracing off; the ring's memory stays for late records. */
telpher_status tp_trace_stop(struct tp_error *err);

#endif
