/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements clSetEventCallback for drivers whose own is slow. NVIDIA's driver (580.159,
 * H200) calls back after 0.2 to 0.4 ms, and after up to 20 ms for longer commands. So one
 * thread polls the states of the events: continuously at first, then at intervals of a
 * sixteenth of the time waited, at most one millisecond. It sleeps without events.
 *
 * An otherwise idle thread may poll instead, while there are few events and it set all
 * callbacks: it then sees and reports the end of a command without a switch to another thread.
 *
 * Events are polled from the newest back and reported from the oldest on. An event that
 * another one waited for was given earlier, so it is seen and reported before that one.
 */
#include "device/opencl/watch.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/container/list.h"
#include "base/os/clock.h"
#include "base/os/thread.h"
#include "base/trace/log.h"

enum {
    OWN_MAX = 4, /* events that a caller polls itself */
};

static const tp_ns SPIN_NS = 50 * TP_CLOCK_US;
static const tp_ns SLEEP_MAX_NS = TP_CLOCK_MS;

struct item {
    struct tp_list link;
    cl_event event; /* retained */
    cl_int status; /* at the last poll */
    tp_opencl_callback fn;
    void *arg;
};

/* One process serves one session with one driver, so there is one watcher. */
static struct {
    const struct tp_opencl *cl;
    struct tp_mutex lock; /* of changes of the next five */
    struct tp_cond more;
    struct tp_list fresh; /* not polled yet, in the order of the calls */
    _Atomic unsigned count; /* fresh and active ones */
    bool shared; /* the thread polls; else the owner alone */
    bool busy; /* a thread polls `active` or calls back */
    struct tp_list active; /* in the order of the calls; of the thread that is busy */
    pthread_t thread;
    bool spins; /* there are processors to spare */
} watch = {.lock = TP_MUTEX_INIT};

static _Thread_local bool is_owner; /* the calling thread polls */

static cl_int
status_of(cl_event event)
{
    cl_int status = CL_COMPLETE;
    cl_int error = watch.cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                          sizeof(status), &status, NULL);

    return error != CL_SUCCESS ? error : status;
}

/* Calls back for the active events that were seen to have ended. @return their number */
static unsigned
report(void)
{
    unsigned found = 0;

    tp_list_for_each_entry_safe(struct item, item, &watch.active, link) {
        if (item->status <= CL_COMPLETE) {
            found++;
            tp_list_remove(&item->link);
            item->fn(item->event, item->status, item->arg);
            watch.cl->ReleaseEvent(item->event);
            tp_free(item);
        }
    }
    return found;
}

/* Polls all events once, and calls back. By the thread that is busy. @return how many ended */
static unsigned
look(void)
{
    unsigned found;

    for (struct tp_list *at = watch.active.prev; at != &watch.active; at = at->prev) {
        struct item *item = tp_list_entry(at, struct item, link);

        item->status = status_of(item->event);
    }
    found = report();
    tp_mutex_lock(&watch.lock);
    watch.count -= found;
    watch.shared = watch.shared && watch.count > 0;
    watch.busy = false;
    if (watch.shared) { /* else waking the thread would cost each look of the owner */
        tp_cond_signal(&watch.more);
    }
    tp_mutex_unlock(&watch.lock);
    return found;
}

/* Waits for events that the thread shall poll, for a limited time if there are old ones, and
 * takes over new ones. @return whether there were new ones */
static bool
take_fresh(tp_ns waited)
{
    tp_ns pause = TP_MIN(waited / 16, SLEEP_MAX_NS);
    bool came;

    tp_mutex_lock(&watch.lock);
    while (!watch.shared || watch.busy) {
        (void)tp_cond_wait(&watch.more, &watch.lock, TP_CLOCK_FOREVER);
    }
    if (tp_list_is_empty(&watch.fresh) && (!watch.spins || waited > SPIN_NS)) {
        (void)tp_cond_wait(&watch.more, &watch.lock, tp_clock_deadline(pause));
    }
    came = !tp_list_is_empty(&watch.fresh);
    tp_list_splice_back(&watch.active, &watch.fresh);
    watch.busy = true;
    tp_mutex_unlock(&watch.lock);
    return came;
}

static void *
watch_main(void *arg)
{
    tp_ns since = tp_clock_ns();

    (void)prctl(PR_SET_TIMERSLACK, 1000UL);
    for (;;) {
        if (take_fresh(tp_clock_ns() - since)) {
            since = tp_clock_ns();
        }
        if (look() > 0) {
            since = tp_clock_ns();
        }
        sched_yield();
    }
    return NULL;
}

bool
tp_opencl_watches(void)
{
    return watch.cl != NULL;
}

void
tp_opencl_watch_adopt(bool adopt)
{
    tp_opencl_watch_leave();
    is_owner = adopt && watch.cl != NULL;
}

bool
tp_opencl_watch_look(void)
{
    bool alone;

    if (!is_owner || atomic_load_explicit(&watch.count, memory_order_relaxed) == 0) {
        return false;
    }
    tp_mutex_lock(&watch.lock);
    alone = watch.count > 0 && !watch.shared && !watch.busy;
    if (alone) {
        tp_list_splice_back(&watch.active, &watch.fresh);
        watch.busy = true;
    }
    tp_mutex_unlock(&watch.lock);
    return alone && look() > 0;
}

/* Has the thread poll. Under the lock. */
static void
share(void)
{
    watch.shared = watch.count > 0;
    tp_cond_signal(&watch.more);
}

void
tp_opencl_watch_leave(void)
{
    /* often called: waking the thread for no event would cost each command 1.4 us (H100) */
    if (is_owner && atomic_load_explicit(&watch.count, memory_order_relaxed) > 0) {
        tp_mutex_lock(&watch.lock);
        if (!watch.shared) {
            share();
        }
        tp_mutex_unlock(&watch.lock);
    }
}

/* Replaces clSetEventCallback in the table, for CL_COMPLETE only. */
static cl_int CL_API_CALL
set_callback(cl_event event, cl_int when, tp_opencl_callback fn, void *arg)
{
    struct item *item;
    cl_int error;

    tp_assert(when == CL_COMPLETE);
    item = tp_malloc(sizeof(*item), "watched event");
    if (item == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    error = watch.cl->RetainEvent(event);
    if (error != CL_SUCCESS) {
        tp_free(item);
        return error;
    }
    *item = (struct item){.event = event, .status = CL_QUEUED, .fn = fn, .arg = arg};
    tp_list_init(&item->link);
    tp_mutex_lock(&watch.lock);
    tp_list_push_back(&watch.fresh, &item->link);
    watch.count++;
    if (watch.shared || !is_owner || watch.count > OWN_MAX) {
        share();
    }
    tp_mutex_unlock(&watch.lock);
    return CL_SUCCESS;
}

telpher_status
tp_opencl_watch_start(struct tp_opencl *cl)
{
    telpher_status status;

    watch.cl = cl;
    watch.spins = sysconf(_SC_NPROCESSORS_ONLN) > 2;
    tp_list_init(&watch.fresh);
    tp_list_init(&watch.active);
    tp_cond_init(&watch.more);
    status = tp_thread_create(&watch.thread, "watch", watch_main, NULL);
    if (status == TELPHER_OK) {
        cl->SetEventCallback = set_callback;
    } else {
        tp_warn("executor",
                "cannot start the thread that watches events: %s; completions are up "
                "to the driver's callbacks, which may be late",
                telpher_status_text(status));
    }
    return status;
}
