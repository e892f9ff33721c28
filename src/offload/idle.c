/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what must be looked at: MPI wakes nobody. */
#include <sched.h>

#include "base/spin.h"
#include "offload/offload_int.h"

/* Sleep begins late: a sleeper is woken 50 us after its time at best. */
#define YIELD_AFTER (20 * TP_CLOCK_US)
#define SLEEP_AFTER (2 * TP_CLOCK_MS)
#define SLEEP_LEAST (50 * TP_CLOCK_US)
#define SLEEP_MOST TP_CLOCK_MS

static void
wait_auto(tp_ns waited)
{
    tp_ns nap;

    if (waited < YIELD_AFTER) {
        return;
    }
    if (waited < SLEEP_AFTER) {
        sched_yield();
        return;
    }
    nap = waited / 32;
    tp_clock_sleep(nap < SLEEP_LEAST ? SLEEP_LEAST : TP_MIN(nap, SLEEP_MOST));
}

void
tp_idle_round(struct tp_idle *idle)
{
    tp_ns now;

    if (idle->rounds++ < 16) {
        return; /* the clock costs as much as a look */
    }
    now = tp_clock_ns();
    if (idle->start == 0) {
        idle->start = now;
    }
    switch (tp_offload_settings()->idle) {
    case TP_IDLE_SPIN:
        break;
    case TP_IDLE_YIELD:
        sched_yield();
        break;
    case TP_IDLE_SLEEP:
        tp_clock_sleep(SLEEP_LEAST);
        break;
    default:
        wait_auto(now - idle->start);
    }
}

telpher_status
tp_mpi_wait(MPI_Request *request, tp_ns deadline)
{
    struct tp_idle idle = TP_IDLE_INIT;
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
        tp_idle_round(&idle);
    }
}

bool
tp_mpi_take_back(MPI_Request *request, bool is_receive)
{
    if (*request == MPI_REQUEST_NULL) {
        return true;
    }
    if (is_receive) {
        PMPI_Cancel(request);
    }
    if (tp_mpi_wait(request, tp_clock_deadline(10 * TP_CLOCK_MS)) == TELPHER_OK) {
        return true;
    }
    if (*request != MPI_REQUEST_NULL) {
        PMPI_Request_free(request);
    }
    return false;
}
