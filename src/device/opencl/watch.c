/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements clSetEventCallback for drivers whose own is slow. NVIDIA's driver (580.159,
 * H200) calls back after 0.2 to 0.4 ms, and after up to 20 ms for longer commands. So one
 * thread polls the states of the events: continuously at first, then at intervals of a
 * sixteenth of the time waited, at most one millisecond. It sleeps without events.
 *
 * An otherwise idle thread may poll its own events: it then sees and reports the end of a
 * command without a switch to another thread.
 */
#include "device/opencl/watch.h"

#include <sched.h>
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
    tp_opencl_callback fn;
    void *arg;
};

/* One process serves one session with one driver, so there is one watcher. */
static struct {
    const struct tp_opencl *cl;
    struct tp_mutex lock;
    struct tp_cond more;
    struct tp_list fresh; /* under lock */
    struct tp_list active; /* the thread's */
    pthread_t thread;
    bool spins; /* there are processors to spare */
} watch = {.lock = TP_MUTEX_INIT};

/* Events that the calling thread polls itself. */
static _Thread_local struct {
    bool is_owner;
    struct tp_list items;
    unsigned count;
} own;

static cl_int
status_of(cl_event event)
{
    cl_int status = CL_COMPLETE;
    cl_int error = watch.cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                          sizeof(status), &status, NULL);

    return error != CL_SUCCESS ? error : status;
}

/* Calls back for events that have ended. @return their number */
static unsigned
look(struct tp_list *list)
{
    unsigned found = 0;

    tp_list_for_each_entry_safe(struct item, item, list, link) {
        cl_int status = status_of(item->event);

        if (status <= CL_COMPLETE) {
            found++;
            tp_list_remove(&item->link);
            item->fn(item->event, status, item->arg);
            watch.cl->ReleaseEvent(item->event);
            tp_free(item);
        }
    }
    return found;
}

/* Takes over new events; waits for new ones, for a limited time if there are old ones. */
static bool
take_fresh(tp_ns waited)
{
    tp_ns pause = TP_MIN(waited / 16, SLEEP_MAX_NS);
    bool came;

    tp_mutex_lock(&watch.lock);
    while (tp_list_is_empty(&watch.active) && tp_list_is_empty(&watch.fresh)) {
        (void)tp_cond_wait(&watch.more, &watch.lock, TP_CLOCK_FOREVER);
    }
    if (tp_list_is_empty(&watch.fresh) && (!watch.spins || waited > SPIN_NS)) {
        (void)tp_cond_wait(&watch.more, &watch.lock, tp_clock_deadline(pause));
    }
    came = !tp_list_is_empty(&watch.fresh);
    tp_list_splice_back(&watch.active, &watch.fresh);
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
        if (look(&watch.active) > 0) {
            since = tp_clock_ns();
        }
        sched_yield();
    }
    return NULL;
}

static void
give_to_thread(struct tp_list *items)
{
    tp_mutex_lock(&watch.lock);
    tp_list_splice_back(&watch.fresh, items);
    tp_cond_signal(&watch.more);
    tp_mutex_unlock(&watch.lock);
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
    if (!own.is_owner) {
        tp_list_init(&own.items);
    }
    own.is_owner = adopt && watch.cl != NULL;
}

bool
tp_opencl_watch_look(void)
{
    struct tp_list items;
    unsigned found;

    if (!own.is_owner || own.count == 0) {
        return false;
    }
    tp_list_init(&items);
    tp_list_splice_back(&items, &own.items); /* callbacks may add events */
    own.count = 0;
    found = look(&items);
    own.count += (unsigned)tp_list_count(&items);
    tp_list_splice_back(&own.items, &items);
    return found > 0;
}

void
tp_opencl_watch_leave(void)
{
    if (own.is_owner && own.count > 0) {
        own.count = 0;
        give_to_thread(&own.items);
    }
}

/* The calling thread polls its own events, up to OWN_MAX. */
static void
keep(struct item *item)
{
    tp_list_push_back(&own.items, &item->link);
    if (++own.count > OWN_MAX) {
        tp_opencl_watch_leave();
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
    *item = (struct item){.event = event, .fn = fn, .arg = arg};
    tp_list_init(&item->link);
    if (own.is_owner) {
        keep(item);
    } else {
        struct tp_list one;

        tp_list_init(&one);
        tp_list_push_back(&one, &item->link);
        give_to_thread(&one);
    }
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
