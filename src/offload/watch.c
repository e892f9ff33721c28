/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that ends the job instead of letting it hang. It watches
 * - processes of the other side on this machine: if one ends unexpectedly, some MPIs end the
 *   job, others hang;
 * - phases such as MPI_Comm_spawn(), which may hang inside the MPI;
 * - kernels that do not return: it logs one that runs for long, at growing intervals, and
 *   ends the job after TELPHER_OFFLOAD_KERNEL_TIMEOUT. The worker only records the call that
 *   it runs; the thread checks from time to time whether it is still the same call.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/descriptor.h"
#include "base/trace/log.h"
#include "offload/offload_int.h"

enum { WATCHED_MAX = 1024 };
#define LOOK_LEAST (10 * TP_CLOCK_MS)
#define LOOK_MOST (5 * TP_CLOCK_S)
enum { LOOKS = 4 }; /* before the first warning */

struct watched {
    int fd, rank, pid;
    const char *who;
    const void *group;
};

static struct tp_mutex lock = TP_MUTEX_INIT; /* guards these */
static struct watched watched[WATCHED_MAX];
static int count, wake[2] = {-1, -1};
static bool running;
static pthread_t thread;
static const char *phase; /* NULL: none */
static tp_ns phase_deadline;
static tp_ns look_every = TP_CLOCK_FOREVER; /* at kernels */

static _Atomic(const char *) kernel_running; /* NULL between kernels */
static atomic_uint calls;
static atomic_int worker;

/* The thread's copy of the call that it saw last. */
struct seen {
    unsigned call;
    tp_ns since, next_warning;
};

/* ---- processes ---- */

/* An entry removed since the poll may refer to a reused descriptor. */
static void
look_at_processes(void)
{
    struct watched dead = {.fd = -1};
    char words[160];

    tp_mutex_lock(&lock);
    for (int i = 0; i < count && dead.fd < 0; i++) {
        struct pollfd fd = {watched[i].fd, POLLIN, 0};

        if (poll(&fd, 1, 0) == 1) {
            dead = watched[i];
        }
    }
    tp_mutex_unlock(&lock);
    if (dead.fd >= 0) {
        snprintf(words, sizeof(words),
                 "%s %d (process %d) has ended in the middle of its work; the job is "
                 "ended",
                 dead.who, dead.rank, dead.pid);
        tp_offload_world_abort(words);
    }
}

/* ---- phases ---- */

/* The MPI itself may hang: it gets a second to end the job; then the process exits,
 * which the launcher notices. */
static void *
abort_job(void *unused)
{
    PMPI_Abort(MPI_COMM_WORLD, 1);
    return NULL;
}

static void
look_at_phase(void)
{
    const char *late;
    pthread_t helper;

    tp_mutex_lock(&lock);
    late = phase != NULL && tp_clock_passed(phase_deadline) ? phase : NULL;
    tp_mutex_unlock(&lock);
    if (late == NULL) {
        return;
    }
    fprintf(
        stderr,
        "telpher[%d]: no end in %.3g s: %s; the job is ended (TELPHER_OFFLOAD_TIMEOUT "
        "is the time)\n",
        (int)getpid(), (double)tp_offload_settings()->timeout_ns / 1e9, late);
    if (tp_thread_create(&helper, "tp-abort", abort_job, NULL) == TELPHER_OK) {
        tp_clock_sleep(TP_CLOCK_S);
    }
    _exit(1);
}

/* ---- kernels ---- */

static void
look_at_kernel(struct seen *seen)
{
    const struct tp_offload_settings *s = tp_offload_settings();
    const char *kernel = atomic_load(&kernel_running);
    unsigned call = atomic_load(&calls);
    tp_ns now = tp_clock_ns(), ran = now - seen->since;
    char words[256];

    if (kernel == NULL || call != seen->call) {
        *seen = (struct seen){call, now, s->kernel_warning_ns};
        return;
    }
    if (s->kernel_timeout_ns != 0 && ran >= s->kernel_timeout_ns) {
        snprintf(words, sizeof(words),
                 "worker %d: kernel %.100s has run for %.3g s, longer than "
                 "TELPHER_OFFLOAD_KERNEL_TIMEOUT; the job is ended",
                 atomic_load(&worker), kernel, (double)ran / 1e9);
        tp_offload_world_abort(words);
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
time_between_looks(const struct tp_offload_settings *s)
{
    tp_ns warning = s->kernel_warning_ns != 0 ? s->kernel_warning_ns : LOOK_MOST;
    tp_ns timeout = s->kernel_timeout_ns != 0 ? s->kernel_timeout_ns : LOOK_MOST;
    tp_ns time = TP_MIN(warning, timeout) / LOOKS;

    return TP_MIN(TP_MAX(time, LOOK_LEAST), LOOK_MOST);
}

/* ---- the thread ---- */

/* Lists the descriptors to poll, the wake-up first, and the time. @return their number */
static nfds_t
prepare(struct pollfd *fds, tp_ns *ret_time)
{
    nfds_t n = 0;

    tp_mutex_lock(&lock);
    fds[n++] = (struct pollfd){wake[0], POLLIN, 0};
    for (int i = 0; i < count; i++) {
        fds[n++] = (struct pollfd){watched[i].fd, POLLIN, 0};
    }
    *ret_time = phase != NULL ? TP_MIN(look_every, tp_clock_remaining(phase_deadline))
                              : look_every;
    tp_mutex_unlock(&lock);
    return n;
}

static void *
run(void *unused)
{
    static struct pollfd fds[1 + WATCHED_MAX];
    struct seen seen = {0};
    char byte;

    for (;;) {
        tp_ns time;
        nfds_t n = prepare(fds, &time);
        const struct timespec timeout = tp_clock_timespec(time);

        if (ppoll(fds, n, time == TP_CLOCK_FOREVER ? NULL : &timeout, NULL) < 0) {
            continue;
        }
        if (fds[0].revents != 0 && read(wake[0], &byte, 1) == 0) {
            return NULL;
        }
        look_at_processes();
        look_at_phase();
        look_at_kernel(&seen);
    }
}

static void
finish(void)
{
    close(wake[1]);
    tp_thread_join(thread);
    close(wake[0]);
}

/* With the lock held: starts the thread, or lets it see what has changed. */
static void
start(void)
{
    if (!running && pipe(wake) == 0) {
        running = tp_thread_create(&thread, "tp-watch", run, NULL) == TELPHER_OK;
        if (running) {
            (void)atexit(finish);
        }
    } else if (running && write(wake[1], "", 1) < 0) {
        tp_debug("offload",
                 "cannot wake the watching thread; it checks at its next interval");
    }
}

/* ---- what is watched ---- */

void
tp_offload_watch_add(const struct tp_process *process, const char *who, int rank,
                     const void *group)
{
    struct tp_process self;
    int fd;

    if (tp_process_self(&self) != TELPHER_OK || !tp_process_is_near(&self, process) ||
        tp_process_open(process, &fd) != TELPHER_OK) {
        return; /* the launcher handles that */
    }
    tp_mutex_lock(&lock);
    if (count < WATCHED_MAX) {
        watched[count++] = (struct watched){fd, rank, process->pid, who, group};
        fd = -1;
    }
    start();
    tp_mutex_unlock(&lock);
    tp_descriptor_close(fd);
}

void
tp_offload_watch_remove(const void *group)
{
    tp_mutex_lock(&lock);
    for (int i = count - 1; i >= 0; i--) {
        if (watched[i].group == group) {
            close(watched[i].fd);
            watched[i] = watched[--count];
        }
    }
    start();
    tp_mutex_unlock(&lock);
}

void
tp_offload_watch_phase(const char *what, tp_ns timeout)
{
    tp_mutex_lock(&lock);
    phase = what;
    phase_deadline = tp_clock_deadline(timeout);
    start();
    tp_mutex_unlock(&lock);
}

void
tp_offload_watch_phase_end(void)
{
    tp_mutex_lock(&lock);
    phase = NULL;
    tp_mutex_unlock(&lock);
}

void
tp_offload_watch_kernels(int rank)
{
    const struct tp_offload_settings *s = tp_offload_settings();

    atomic_store(&worker, rank);
    if (s->kernel_warning_ns != 0 || s->kernel_timeout_ns != 0) {
        tp_mutex_lock(&lock);
        look_every = time_between_looks(s);
        start();
        tp_mutex_unlock(&lock);
    }
}

void
tp_offload_watch_kernel_begin(const char *name)
{
    atomic_store_explicit(&calls,
                          atomic_load_explicit(&calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&kernel_running, name, memory_order_release);
}

void
tp_offload_watch_kernel_end(void)
{
    atomic_store_explicit(&kernel_running, NULL, memory_order_release);
}
