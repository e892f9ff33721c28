/* SPDX-License-Identifier: Apache-2.0 */
/* The patterns, and the one driver that measures a case by them. */
#include "bench/bench.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGE_BYTES = 1 << 20 };

static char reason[512];

bool
bench_fail(const char *format, ...)
{
    char text[sizeof(reason)];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments); /* may quote the last reason */
    va_end(arguments);
    memcpy(reason, text, sizeof(reason));
    return false;
}

const char *
bench_reason(void)
{
    return reason;
}

double
bench_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* --- patterns ------------------------------------------------------------------- */

/* As the OSU benchmarks do, large messages are sent fewer times. */
static int
iterations_of(const struct bench_case *c, const struct bench_settings *s, size_t bytes)
{
    const int least = s->iterations < 3 ? s->iterations : 3;

    if (bytes < c->pattern->few_from) {
        return s->iterations;
    }
    return s->iterations / 10 > least ? s->iterations / 10 : least;
}

static int
warmup_of(const struct bench_case *c, const struct bench_settings *s, size_t bytes)
{
    return bytes < c->pattern->few_from ? s->warmup : s->warmup > 0;
}

const struct bench_pattern bench_latency = {.name = "latency", .few_from = SIZE_MAX};
const struct bench_pattern bench_batch = {.name = "batch"};
const struct bench_pattern bench_slow = {.name = "slow"};
const struct bench_pattern bench_bandwidth = {
    .name = "bandwidth", .sized = true, .size_step = 2, .few_from = LARGE_BYTES};
const struct bench_pattern bench_migration = {
    .name = "migration", .sized = true, .size_step = 4, .few_from = LARGE_BYTES};

/* --- tables --------------------------------------------------------------------- */

const struct bench_memory *
bench_find_memory(const struct bench_runtime *runtime, const char *name)
{
    for (size_t i = 0; i < runtime->memory_count; i++) {
        if (name[0] == '\0' || strcmp(runtime->memories[i].name, name) == 0) {
            return &runtime->memories[i];
        }
    }
    return NULL;
}

const struct bench_case *
bench_find_case(const struct bench_runtime *runtime, const char *name)
{
    for (size_t i = 0; i < runtime->case_count; i++) {
        if (strcmp(runtime->cases[i].name, name) == 0) {
            return &runtime->cases[i];
        }
    }
    return NULL;
}

/* --- the driver ----------------------------------------------------------------- */

/* Runs once; gives the time of one operation. */
static bool
time_once(const struct bench_case *c, void *session, int operations, double *ret_us)
{
    double own_us = -1;
    const double start = bench_now_us();
    const bool good = c->run(session, &own_us);
    const double elapsed = bench_now_us() - start;

    *ret_us = (own_us >= 0 ? own_us : elapsed) / operations;
    return good;
}

static bool
time_all(const struct bench_case *c, void *session, const struct bench_settings *s,
         size_t bytes, double *samples)
{
    const int warmup = warmup_of(c, s, bytes);
    const int iterations = iterations_of(c, s, bytes);
    const int operations = c->pattern->sized    ? s->window
                           : c->operations != 0 ? c->operations
                                                : s->batch;
    double unused;

    for (int i = 0; i < warmup; i++) {
        if (!time_once(c, session, operations, &unused)) {
            return false;
        }
    }
    for (int i = 0; i < iterations; i++) {
        if (!time_once(c, session, operations, &samples[i])) {
            return false;
        }
    }
    return c->check(session) || bench_fail("wrong result: %s", bench_reason());
}

static bool
measure_size(const struct bench_case *c, void *session, const struct bench_settings *s,
             size_t bytes)
{
    const int iterations = iterations_of(c, s, bytes);
    double *samples = calloc((size_t)iterations, sizeof(*samples));
    bool good;

    if (samples == NULL) {
        return bench_fail("out of memory for %d times", iterations);
    }
    good = (c->setup == NULL || c->setup(session, bytes)) &&
           time_all(c, session, s, bytes, samples);
    if (c->teardown != NULL) {
        c->teardown(session);
    }
    for (int i = 0; good && i < iterations; i++) {
        printf("sample %zu %.4f\n", bytes, samples[i]);
    }
    free(samples);
    return good;
}

static bool
report_size(bool good, size_t bytes)
{
    if (good) {
        printf("check %zu ok\n", bytes);
    } else {
        printf("error %zu %s\n", bytes, bench_reason());
    }
    fflush(stdout); /* a later crash must not take this with it */
    return good;
}

bool
bench_measure_raw(const struct bench_runtime *runtime, const struct bench_case *c,
                  const struct bench_settings *s)
{
    const size_t first = c->pattern->sized ? s->min_bytes : 0;
    const size_t last = c->pattern->sized ? s->max_bytes : 0;
    void *session;
    bool good = true;

    if (!runtime->open(s, &session)) {
        return report_size(false, first);
    }
    for (size_t bytes = first; bytes <= last; bytes *= c->pattern->size_step) {
        good = report_size(measure_size(c, session, s, bytes), bytes) && good;
        if (bytes == 0) {
            break;
        }
    }
    runtime->close(session);
    return good;
}
