/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and deadlines. */
#include "base/os/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/compiler.h"

static _Atomic(tp_ns (*)(void)) test_source;

static tp_ns
read_clock(clockid_t id)
{
    struct timespec ts;

    tp_assert(clock_gettime(id, &ts) == 0);
    return (tp_ns)ts.tv_sec * TP_CLOCK_S + (tp_ns)ts.tv_nsec;
}

tp_ns
tp_clock_ns(void)
{
    tp_ns (*source)(void) = atomic_load_explicit(&test_source, memory_order_relaxed);

    return tp_unlikely(source != NULL) ? source() : read_clock(CLOCK_MONOTONIC);
}

tp_ns
tp_clock_realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

tp_ns
tp_clock_deadline(tp_ns timeout)
{
    return tp_clock_add(tp_clock_ns(), timeout);
}

bool
tp_clock_passed(tp_ns deadline)
{
    return deadline != TP_CLOCK_FOREVER && tp_clock_ns() >= deadline;
}

tp_ns
tp_clock_remaining(tp_ns deadline)
{
    tp_ns now;

    if (deadline == TP_CLOCK_FOREVER) {
        return TP_CLOCK_FOREVER;
    }
    now = tp_clock_ns();
    return now >= deadline ? 0 : deadline - now;
}

int
tp_clock_poll_ms(tp_ns deadline)
{
    tp_ns left = tp_clock_remaining(deadline);
    tp_ns ms = left / TP_CLOCK_MS + (left % TP_CLOCK_MS != 0);

    if (left == TP_CLOCK_FOREVER) {
        return -1;
    }
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

struct timespec
tp_clock_timespec(tp_ns t)
{
    return (struct timespec){
        .tv_sec = (time_t)(t / TP_CLOCK_S),
        .tv_nsec = (long)(t % TP_CLOCK_S),
    };
}

void
tp_clock_sleep(tp_ns duration)
{
    struct timespec left = tp_clock_timespec(duration);

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

static unsigned
days_of_year(unsigned year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 366 : 365;
}

/*
 * A calendar of our own: gmtime_r() takes a lock inside libc that may stay locked
 * forever in a child of fork(), where log lines need dates too.
 */
void
tp_clock_iso(tp_ns realtime, char *buf, size_t size)
{
    static const unsigned char month_days[] = {31, 28, 31, 30, 31, 30,
                                               31, 31, 30, 31, 30, 31};
    uint64_t seconds = realtime / TP_CLOCK_S;
    uint64_t days = seconds / 86400;
    unsigned rest = (unsigned)(seconds % 86400);
    unsigned year = 1970;
    unsigned month = 0;

    while (days >= days_of_year(year)) {
        days -= days_of_year(year++);
    }
    for (;; month++) {
        unsigned len = month_days[month] + (month == 1 && days_of_year(year) == 366);

        if (days < len) {
            break;
        }
        days -= len;
    }
    snprintf(buf, size, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", year, month + 1,
             (unsigned)days + 1, rest / 3600, rest / 60 % 60, rest % 60,
             (unsigned)(realtime % TP_CLOCK_S / 1000));
}

void
tp_clock_set_source(tp_ns (*source)(void))
{
    atomic_store(&test_source, source);
}
