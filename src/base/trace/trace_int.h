/* SPDX-License-Identifier: Apache-2.0 */
/* The trace ring as its recorder and its writer share it; private to base. */
#ifndef TELPHER_BASE_TRACE_TRACE_INT_H
#define TELPHER_BASE_TRACE_TRACE_INT_H

#include "base/trace/trace.h"

struct tp_trace_entry {
    const char *category;
    const char *name;
    tp_ns ts;
    tp_ns duration; /* phase X only */
    int tid;
    char phase; /* as in Chrome's format: i B E X C */
    struct tp_trace_arg args[TP_TRACE_ARGS];
};

struct tp_trace_slot {
    _Atomic uint64_t turn; /* 0 = never used; number + 1 of the record in it; or busy */
    struct tp_trace_entry record;
};

struct tp_trace_ring {
    struct tp_trace_ring *before; /* keeps old rings reachable */
    uint64_t mask; /* number of slots - 1 */
    _Atomic uint64_t next; /* number of the next record */
    struct tp_trace_slot slots[];
};

enum { TP_TRACE_STREAMS = 64 };

struct tp_trace_stream {
    uint64_t stream, session;
};

struct tp_trace_streams {
    struct tp_trace_stream last[TP_TRACE_STREAMS]; /* a ring */
    size_t count; /* ever written */
};

/** Copies record @p number; false if the ring does not hold it at this moment. */
bool tp_trace_ring_read(struct tp_trace_ring *ring, uint64_t number,
                        struct tp_trace_entry *ret_record);

/** Writes all of the ring as JSON: to a new file, which then takes the place of @p path. */
telpher_status tp_trace_write_file(struct tp_trace_ring *ring, const char *path,
                                   const char *process_name,
                                   const struct tp_trace_streams *streams,
                                   struct tp_error *err);

#endif
