/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI_Comm_spawn() and related calls may hang inside the MPI. After a timeout this
 * thread logs the phase and ends the job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "offload/offload_int.h"

static struct tp_mutex lock = TP_MUTEX_INIT;
static struct tp_cond changed;
static pthread_t thread;
static bool running, armed, stop;
static const char *phase;
static tp_ns deadline;

/* The MPI itself may hang: it gets a second to end the job; then the process exits,
 * which the launcher notices. */
static void *
abort_job(void *unused)
{
    PMPI_Abort(MPI_COMM_WORLD, 1);
    return NULL;
}

static _Noreturn void
give_up(void)
{
    pthread_t helper;

    fprintf(
        stderr,
        "telpher[%d]: no end in %.3g s: %s; the job is ended (TELPHER_OFFLOAD_TIMEOUT "
        "is the time)\n",
        (int)getpid(), (double)tp_offload_settings()->timeout_ns / 1e9, phase);
    if (tp_thread_create(&helper, "tp-abort", abort_job, NULL) == TELPHER_OK) {
        tp_clock_sleep(TP_CLOCK_S);
    }
    _exit(1);
}

static void *
run(void *unused)
{
    tp_mutex_lock(&lock);
    while (!stop) {
        telpher_status status =
            tp_cond_wait(&changed, &lock, armed ? deadline : TP_CLOCK_FOREVER);

        if (status == TELPHER_ERR_TIMEOUT && armed && tp_clock_passed(deadline)) {
            give_up();
        }
    }
    tp_mutex_unlock(&lock);
    return NULL;
}

static void
finish(void)
{
    tp_mutex_lock(&lock);
    stop = true;
    tp_cond_broadcast(&changed);
    tp_mutex_unlock(&lock);
    tp_thread_join(thread);
}

void
tp_offload_watchdog_start(const char *what, tp_ns timeout)
{
    tp_mutex_lock(&lock);
    if (!running) {
        tp_cond_init(&changed);
        running = tp_thread_create(&thread, "tp-watchdog", run, NULL) == TELPHER_OK;
        if (running) {
            (void)atexit(finish);
        }
    }
    phase = what;
    deadline = tp_clock_deadline(timeout);
    armed = true;
    tp_cond_broadcast(&changed);
    tp_mutex_unlock(&lock);
}

void
tp_offload_watchdog_stop(void)
{
    tp_mutex_lock(&lock);
    armed = false;
    tp_mutex_unlock(&lock);
}
