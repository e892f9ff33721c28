/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches for kernels that do not return. In each worker a thread logs a kernel that
 * runs for long, at growing intervals, and ends the job after
 * TELPHER_OFFLOAD_KERNEL_TIMEOUT. The worker only records the call that it runs; the
 * thread checks from time to time whether it is still the same call.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/trace/log.h"
#include "offload/offload_int.h"

#define LOOK_LEAST (10 * TP_CLOCK_MS)
#define LOOK_MOST (5 * TP_CLOCK_S)
enum { LOOKS = 4 }; /* before the first warning */

static _Atomic(const char *) running; /* NULL between kernels */
static atomic_uint calls;
static atomic_int worker;

static struct tp_mutex lock = TP_MUTEX_INIT;
static struct tp_cond ending;
static pthread_t thread;
static bool started, stop;

/* The thread's copy of the call that it saw last. */
struct seen {
    unsigned call;
    tp_ns since, next_warning;
};

static _Noreturn void
end_job(const char *kernel, double seconds)
{
    char words[256];

    snprintf(words, sizeof(words),
             "worker %d: kernel %.100s has run for %.3g s, longer than "
             "TELPHER_OFFLOAD_KERNEL_TIMEOUT; the job is ended",
             atomic_load(&worker), kernel, seconds);
    tp_offload_world_abort(words);
}

static void
look(struct seen *seen)
{
    const struct tp_offload_settings *s = tp_offload_settings();
    const char *kernel = atomic_load(&running);
    unsigned call = atomic_load(&calls);
    tp_ns now = tp_clock_ns(), ran = now - seen->since;

    if (kernel == NULL || call != seen->call) {
        *seen = (struct seen){call, now, s->kernel_warning_ns};
        return;
    }
    if (s->kernel_timeout_ns != 0 && ran >= s->kernel_timeout_ns) {
        end_job(kernel, (double)ran / 1e9);
    }
    if (s->kernel_warning_ns != 0 && ran >= seen->next_warning) {
        tp_warn("offload",
                "worker %d: kernel %s has run for %.3g s; "
                "TELPHER_OFFLOAD_KERNEL_TIMEOUT bounds that (%.3g s; 0 = not at all)",
                atomic_load(&worker), kernel, (double)ran / 1e9,
                (double)s->kernel_timeout_ns / 1e9);
        seen->next_warning *= 2;
    }
}

static tp_ns
time_between_looks(void)
{
    const struct tp_offload_settings *s = tp_offload_settings();
    tp_ns warning = s->kernel_warning_ns != 0 ? s->kernel_warning_ns : LOOK_MOST;
    tp_ns timeout = s->kernel_timeout_ns != 0 ? s->kernel_timeout_ns : LOOK_MOST;
    tp_ns time = TP_MIN(warning, timeout) / LOOKS;

    return TP_MIN(TP_MAX(time, LOOK_LEAST), LOOK_MOST);
}

static void *
run(void *unused)
{
    struct seen seen = {0};
    tp_ns time = time_between_looks();

    tp_mutex_lock(&lock);
    while (!stop) {
        (void)tp_cond_wait(&ending, &lock, tp_clock_deadline(time));
        look(&seen);
    }
    tp_mutex_unlock(&lock);
    return NULL;
}

static void
finish(void)
{
    tp_mutex_lock(&lock);
    stop = true;
    tp_cond_broadcast(&ending);
    tp_mutex_unlock(&lock);
    tp_thread_join(thread);
}

void
tp_offload_long_kernel_watch(int rank)
{
    const struct tp_offload_settings *s = tp_offload_settings();

    atomic_store(&worker, rank);
    if (started || (s->kernel_warning_ns == 0 && s->kernel_timeout_ns == 0)) {
        return;
    }
    tp_cond_init(&ending);
    started = tp_thread_create(&thread, "tp-kernel", run, NULL) == TELPHER_OK;
    if (started) {
        (void)atexit(finish);
    }
}

void
tp_offload_long_kernel_begin(const char *name)
{
    atomic_store_explicit(&calls,
                          atomic_load_explicit(&calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&running, name, memory_order_release);
}

void
tp_offload_long_kernel_end(void)
{
    atomic_store_explicit(&running, NULL, memory_order_release);
}
