/* SPDX-License-Identifier: Apache-2.0 */
/* Waits by polling with growing intervals, because MPI has no wake-up. */
#include <sched.h>

#include "base/os/spin.h"
#include "offload/offload_int.h"

/* Sleeping begins late: the kernel wakes a sleeper 50 us after its time at best. */
#define YIELD_AFTER (20 * TP_CLOCK_US)
#define SLEEP_AFTER (2 * TP_CLOCK_MS)
#define SLEEP_LEAST (50 * TP_CLOCK_US)
#define SLEEP_MOST TP_CLOCK_MS

/* Longest time of sched_yield() if no other thread is runnable. */
#define YIELD_ALONE (2 * TP_CLOCK_US)

/* Yields to other threads. @return number of polls until the next yield: if no other
 * thread is runnable, the system call between two polls is most of the latency */
static uint32_t
yield(tp_ns now)
{
    sched_yield();
    return tp_clock_ns() - now < YIELD_ALONE ? TP_OFFLOAD_IDLE_LOOKS : 0;
}

static uint32_t
wait_auto(tp_ns now, tp_ns waited)
{
    tp_ns nap;

    if (waited < YIELD_AFTER) {
        return 0;
    }
    if (waited < SLEEP_AFTER) {
        return yield(now);
    }
    nap = waited / 32;
    tp_clock_sleep(nap < SLEEP_LEAST ? SLEEP_LEAST : TP_MIN(nap, SLEEP_MOST));
    return 0;
}

void
tp_offload_idle_round(struct tp_offload_idle *idle)
{
    tp_ns now;

    if (idle->looks > 0) {
        idle->looks--;
        return; /* reading the clock costs as much as a poll */
    }
    now = tp_clock_ns();
    if (idle->start == 0) {
        idle->start = now;
    }
    switch (tp_offload_settings()->idle) {
    case TP_OFFLOAD_IDLE_SPIN:
        break;
    case TP_OFFLOAD_IDLE_YIELD:
        idle->looks = yield(now);
        break;
    case TP_OFFLOAD_IDLE_SLEEP:
        tp_clock_sleep(SLEEP_LEAST);
        break;
    default:
        idle->looks = wait_auto(now, tp_clock_between(idle->start, now));
    }
}

telpher_status
tp_offload_mpi_wait(MPI_Request *request, tp_ns deadline)
{
    struct tp_offload_idle idle = TP_OFFLOAD_IDLE_INIT;
    int done = 0;

    for (;;) {
        if (PMPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return TELPHER_ERR_IO;
        }
        if (done) {
            return TELPHER_OK;
        }
        if (deadline != TP_CLOCK_FOREVER && tp_clock_passed(deadline)) {
            return TELPHER_ERR_TIMEOUT;
        }
        tp_offload_idle_round(&idle);
    }
}

bool
tp_offload_mpi_take_back(MPI_Request *request, bool is_receive)
{
    if (*request == MPI_REQUEST_NULL) {
        return true;
    }
    if (is_receive) {
        PMPI_Cancel(request);
    }
    if (tp_offload_mpi_wait(request, tp_clock_deadline(10 * TP_CLOCK_MS)) ==
        TELPHER_OK) {
        return true;
    }
    if (*request != MPI_REQUEST_NULL) {
        PMPI_Request_free(request);
    }
    return false;
}
