/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time in nanoseconds and deadlines. A deadline is a point on the monotonic clock;
 * TP_CLOCK_FOREVER is the deadline (and the timeout) that never passes.
 */
#ifndef TELPHER_BASE_OS_CLOCK_H
#define TELPHER_BASE_OS_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/** [ns] a point in time or a length of time. */
typedef uint64_t tp_ns;

#define TP_CLOCK_FOREVER UINT64_MAX
#define TP_CLOCK_US ((tp_ns)1000)
#define TP_CLOCK_MS ((tp_ns)1000000)
#define TP_CLOCK_S ((tp_ns)1000000000)

/** Now on CLOCK_MONOTONIC, which all processes of a machine share. */
tp_ns tp_clock_ns(void);

/** Nanoseconds since 1970 UTC; may jump. For people and for comparing machines. */
tp_ns tp_clock_realtime_ns(void);

/** a + b, or TP_CLOCK_FOREVER when that overflows. */
static inline tp_ns
tp_clock_add(tp_ns a, tp_ns b)
{
    return a > TP_CLOCK_FOREVER - b ? TP_CLOCK_FOREVER : a + b;
}

/** Time from @p start to @p now, 0 if @p start is later: another thread may have taken it
 *  after @p now was read. */
static inline tp_ns
tp_clock_between(tp_ns start, tp_ns now)
{
    return now > start ? now - start : 0;
}

/** The deadline that is @p timeout after the current time. */
tp_ns tp_clock_deadline(tp_ns timeout);

bool tp_clock_passed(tp_ns deadline);

/** The time until @p deadline: 0 when passed, TP_CLOCK_FOREVER when there is none. */
tp_ns tp_clock_remaining(tp_ns deadline);

/** The same for poll(2): [ms] rounded up, at most INT_MAX; -1 for TP_CLOCK_FOREVER. */
int tp_clock_poll_ms(tp_ns deadline);

struct timespec tp_clock_timespec(tp_ns t);

/** Sleeps, across signals. Only where a thread has nothing else to wait for. */
void tp_clock_sleep(tp_ns duration);

/** Writes "2025-01-31T12:00:00.123456Z" and a 0 byte: @p size >= 28. */
#define TP_CLOCK_ISO_SIZE 28
void tp_clock_iso(tp_ns realtime, char *buf, size_t size);

/** For tests: @p source takes the place of CLOCK_MONOTONIC; NULL ends that. */
void tp_clock_set_source(tp_ns (*source)(void));

#endif
