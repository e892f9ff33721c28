/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark frame. A *runtime* (OpenCL, plain TCP, ...) is a table of *cases*; a case
 * says by which *pattern* it is driven (latency, batch, bandwidth, ...), and transfers take
 * their host memory from a *memory* of the runtime. To add one of these, fill in a
 * table. The driver is shared; turns.py has processes, statistics and output.
 *
 * One process measures one case of one target (`--raw CASE`), so that a driver that
 * crashes or hangs costs one row, and so that targets can be measured in turn.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>

/** Command-line options. */
struct bench_settings {
    const char *platform; /**< part of its name, "!" and what is no part of it, or "" */
    int device; /**< index on the platform */
    const char *memory; /**< name of a bench_memory; "" = the runtime's first */
    size_t min_bytes;
    size_t max_bytes;
    int iterations;
    int warmup;
    int window; /**< transfers in flight in bandwidth cases */
    int batch; /**< commands of one run of the batched cases */
    bool validation; /**< check every byte of every iteration */
    const char *floor_host; /**< ADDR:PORT of `floor --serve`, NULL = this machine */
    const char *interface; /**< whose bytes are counted, NULL = of none */
};

struct bench_case;

/** How a case is driven: how often, and how its samples are shown. */
struct bench_pattern {
    const char *name;
    bool sized; /**< one series per size */
    size_t size_step; /**< of sized ones: each size is so many times the one before */
    size_t few_from; /**< [bytes] from which on a tenth of the iterations do */
};

extern const struct bench_pattern bench_latency; /**< every operation is timed */
extern const struct bench_pattern bench_batch; /**< many operations, timed together */
extern const struct bench_pattern bench_bandwidth; /**< sizes from min to max */
extern const struct bench_pattern bench_slow; /**< takes milliseconds: few times */
extern const struct bench_pattern bench_migration; /**< sizes, shown as times */

/**
 * One thing to measure. All functions return false after bench_fail(). `setup` and
 * `teardown` may be NULL. Sessions and sizes: setup(bytes), run..., check, teardown.
 */
struct bench_case {
    const char *name;
    const char *help;
    const struct bench_pattern *pattern;
    int operations; /**< in one run(), 0: settings.batch; the sample is divided by it */
    const char *floor; /**< case of the floor runtime it is compared with, or NULL */
    double trips; /**< how many times that floor one run() should cost */
    bool (*setup)(void *session, size_t bytes);
    /** Does the thing once. *own_us is negative; a case that measures the time itself
     * (because it passes in another process) puts it there. */
    bool (*run)(void *session, double *own_us);
    bool (*check)(void *session); /**< were the results right? */
    void (*teardown)(void *session);
};

/** Where the host side of transfers lives. */
struct bench_memory {
    const char *name;
    const char *help;
    bool (*alloc)(void *session, size_t bytes, void **ret_memory);
    void (*free)(void *session, void *memory);
};

struct bench_runtime {
    const char *name; /**< subcommand */
    const struct bench_case *cases;
    size_t case_count;
    const struct bench_memory *memories;
    size_t memory_count;
    /** Gives a session (close it), having printed "info KEY VALUE" lines about itself.
     * The session borrows the settings. */
    bool (*open)(const struct bench_settings *settings, void **ret_session);
    void (*close)(void *session);
};

extern const struct bench_runtime bench_ocl;
extern const struct bench_runtime bench_floor;
extern const struct bench_runtime bench_migrate;

/** The memory of that name, the first if it is "", NULL if there is none. */
const struct bench_memory *bench_find_memory(const struct bench_runtime *runtime,
                                             const char *name);
const struct bench_case *bench_find_case(const struct bench_runtime *runtime,
                                         const char *name);

/** Keeps the text as the reason of the failure; returns false. */
__attribute__((format(printf, 1, 2))) bool bench_fail(const char *format, ...);
/** The reason last kept, "" if none. */
const char *bench_reason(void);

/** Measures one case in this process and prints its samples to stdout, one a line:
 * "sample BYTES US", then "check BYTES ok" or "error BYTES TEXT". False if any failed. */
bool bench_measure_raw(const struct bench_runtime *runtime, const struct bench_case *c,
                       const struct bench_settings *settings);

/** [us] since some fixed point, monotonic. */
double bench_now_us(void);

/** `floor --serve ADDR:PORT`: answers other machines' measurements until a signal ends
 * the program. Returns false if it cannot listen. */
bool bench_floor_serve(const char *address);

/** `measure RUNTIME OPTION...`; argv[0] is the runtime's name. Returns an exit status. */
int bench_run_main(const struct bench_runtime *runtime, int argc, char **argv);

#endif
