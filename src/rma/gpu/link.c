/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launch of a kernel on GPUs in several processes: the beginning, and a thread that looks
 * after the grid. proxy.c does what its ranks ask for.
 */
#include "rma/gpu/link.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/mem.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "rma/gpu/link_int.h"
#include "rma/processes/remote.h"

enum { MEETING = 4096 }; /* [bytes] */
#define WATCH ((tp_ns)50000) /* [ns] between looks at the grid */
#define LEAVE ((tp_ns)1000000000) /* [ns] */

/* ---- the grid ---- */

static void
look_for_failure(struct tp_rma_link *l)
{
    const telpher_rma_failure *f = &l->shared->failure;
    telpher_status status = __atomic_load_n(&f->status, __ATOMIC_ACQUIRE);

    if (status < 0 && atomic_load(&l->run->status) == TELPHER_OK) {
        tp_rma_run_fail(l->run, status, "rank %u, %.*s at %.*s: %s", f->rank,
                        (int)sizeof(f->call), f->call, (int)sizeof(f->where), f->where,
                        status == TELPHER_ERR_TIMEOUT ? "longer than the deadline"
                                                      : "failed");
    }
}

/* The kernel's waits end when this is less than 0. */
static void
tell_control(struct tp_rma_link *l, int32_t control)
{
    __atomic_store_n(&l->shared->control, control, __ATOMIC_RELEASE);
}

static void *
watch(void *link)
{
    const struct timespec nap = tp_clock_timespec(WATCH);
    struct tp_rma_link *l = link;
    telpher_status ended;

    while ((ended = l->grid.look(l->grid.user)) == TELPHER_IN_PROGRESS) {
        look_for_failure(l);
        if (atomic_load(&l->run->status) != TELPHER_OK) {
            atomic_store(&l->over, true);
            tell_control(l, atomic_load(&l->run->status));
        }
        nanosleep(&nap, NULL);
    }
    look_for_failure(l);
    atomic_store(&l->over, true);
    if (ended != TELPHER_OK) {
        tp_rma_run_fail(l->run, ended, "the GPU: %s", l->grid.error_text(l->grid.user));
    } else if (__atomic_load_n(&l->shared->control, __ATOMIC_ACQUIRE) ==
               TELPHER_RMA_GOES_ON) {
        tp_rma_run_fail(l->run, TELPHER_ERR_DEVICE,
                        "the kernel on the GPU has returned before all its ranks "
                        "ended: see the first error in its output");
    }
    return NULL;
}

static void
add_table(struct tp_rma_link *l)
{
    char *table = l->grid.table(l->grid.user);

    if (table != NULL) {
        tp_rma_log_report(table);
        tp_rma_report_append(l->run, "%s", table);
    }
    free(table);
}

/* Waits for the grid's end, once. */
static void
join_grid(struct tp_rma_link *l)
{
    if (l->watching) {
        tp_thread_join(l->watcher);
    } else if (!l->ended) { /* there was no thread to watch it */
        while (l->grid.look(l->grid.user) == TELPHER_IN_PROGRESS) {
            sched_yield();
        }
    }
    l->watching = false;
    l->ended = true;
}

void
tp_rma_link_settle(struct tp_rma_run *run)
{
    struct tp_rma_link *l = run->link;

    if (atomic_load(&run->status) != TELPHER_OK) {
        join_grid(l);
        add_table(l);
    }
}

static telpher_status
serve(telpher_rma_link *api, const telpher_rma_grid *grid)
{
    struct tp_rma_link *l = (struct tp_rma_link *)api;
    telpher_status status;

    l->grid = *grid;
    l->served = true;
    telpher_mem_keep_open(l->job->world->ctx, 1); /* closing waits for kernels */
    status = tp_thread_create(&l->watcher, "tp-rma-grid", watch, l);
    l->watching = status == TELPHER_OK;
    if (status != TELPHER_OK) {
        tell_control(l, status);
        tp_rma_run_fail(l->run, status,
                        "cannot start the thread that watches the GPU's kernel: %s; "
                        "`ulimit -u` allows more",
                        telpher_status_text(status));
    }
    tp_rma_link_push_early(l);
    (void)tp_rma_run_all(l->run);
    status = atomic_load(&l->run->status);
    tell_control(l, status != TELPHER_OK ? status : TELPHER_RMA_STOPS);
    join_grid(l);
    telpher_mem_keep_open(l->job->world->ctx, 0); /* the next launch may open it all */
    return atomic_load(&l->run->status);
}

static void
leave(telpher_rma_link *api)
{
    tp_rma_remote_leave(((struct tp_rma_link *)api)->job->world, LEAVE);
}

/* ---- the beginning ---- */

/* There and back. */
static telpher_status
meet(telpher_rma_link *api, void *some)
{
    telpher_context *ctx = ((struct tp_rma_link *)api)->job->world->ctx;
    uint8_t bytes[MEETING];
    telpher_status status = telpher_mem_copy(ctx, bytes, some, sizeof(bytes));

    return status == TELPHER_OK ? telpher_mem_copy(ctx, some, bytes, sizeof(bytes))
                                : status;
}

static telpher_status
begin(telpher_rma_link *api, telpher_status own, telpher_rma_shared *shared,
      const void *address, size_t address_len)
{
    struct tp_rma_link *l = (struct tp_rma_link *)api;
    struct tp_rma_world *w = l->job->world;
    const bool broken = w->broken; /* then the address is not sent */
    const char *report = l->outcome->report;
    char text[TELPHER_ERROR_TEXT_BYTES];
    struct tp_rma_coming coming = {.own = own,
                                   .text = l->err->text,
                                   .address = address,
                                   .address_len = address_len};

    if (report != NULL) {
        tp_rma_report_text(text, sizeof(text), l->kernel->name, report);
        coming.text = text;
    }
    l->begun = true;
    l->shared = shared;
    if (l->run != NULL) {
        l->run->link = l;
    }
    l->status = tp_rma_remote_begin(w, l->run, l->job, l->kernel, &coming, l->err);
    if (l->status != TELPHER_OK) {
        /* who found all good runs, and has this one's memory open until it hears of it */
        tp_rma_remote_leave(w, address_len != 0 && !broken ? LEAVE : 0);
    }
    return l->status;
}

static const void *
address_of(const telpher_rma_link *api, uint32_t process, size_t *ret_len)
{
    const struct tp_rma_world *w = ((const struct tp_rma_link *)api)->job->world;

    return process < w->count ? tp_rma_remote_address(w, process, ret_len) : NULL;
}

static uint32_t
beside_max(const struct tp_rma_world *w)
{
    size_t most = TELPHER_RMA_BESIDE;

    for (uint32_t i = 0; i < w->count; i++) {
        most = i != w->process ? TP_MIN(most, w->processes[i].inline_max) : most;
    }
    return (uint32_t)most / 16 * 16;
}

static telpher_status
open_link(struct tp_rma_link *l, telpher_rma_job *job, const telpher_rma_kernel *kernel,
          void *data, telpher_rma_outcome *outcome, telpher_error *err)
{
    const struct tp_rma_world *w = job->world;
    const telpher_rma_params *p = &job->params;

    *l = (struct tp_rma_link){
        .job = job, .kernel = kernel, .outcome = outcome, .err = err};
    l->api = (telpher_rma_link){.struct_size = sizeof(l->api),
                                .process = w->process,
                                .processes = w->count,
                                .first = w->process * p->ranks,
                                .world = w->count * p->ranks,
                                .first_device = w->process * p->devices,
                                .world_devices = w->count * p->devices,
                                .beside_max = beside_max(w),
                                .meet = meet,
                                .begin = begin,
                                .address = address_of,
                                .serve = serve,
                                .leave = leave};
    tp_mutex_init(&l->push);
    l->proxies = *kernel;
    l->proxies.body = tp_rma_link_proxy;
    l->next = tp_alloc_array(p->ranks, sizeof(*l->next), "ranks");
    l->where = tp_alloc_array(p->ranks, sizeof(*l->where), "ranks");
    l->run_status = TELPHER_ERR_NO_MEMORY;
    if (l->next != NULL && l->where != NULL) {
        l->run_status = TELPHER_OK;
        l->run = tp_rma_run_begin(job, &l->proxies, data, &l->run_status, err);
    }
    return l->run_status;
}

/* The launcher's own error takes precedence over errors of other processes. */
static telpher_status
refuse(struct tp_rma_link *l)
{
    const telpher_rma_outcome *o = l->outcome;
    telpher_status own = o->status != TELPHER_OK ? o->status : l->run_status;

    if (!l->begun) {
        l->status =
            begin(&l->api, own != TELPHER_OK ? own : TELPHER_ERR_DEVICE, NULL, NULL, 0);
    }
    if (l->run != NULL) {
        tp_rma_run_destroy(l->run);
    }
    l->job->report = o->report;
    if (o->report != NULL) {
        tp_rma_log_report(o->report);
        tp_rma_report_error(l->err, l->status, o->report);
    }
    return l->status;
}

/* The launch was good, or failed in all processes; what the launcher finds then is a matter of
 * this one alone. */
static telpher_status
finish(struct tp_rma_link *l)
{
    telpher_rma_outcome *o = l->outcome;
    telpher_status status = tp_rma_run_finish(l->job, l->run, l->err);

    if (status != TELPHER_OK || o->report == NULL) {
        free(o->report);
        return status;
    }
    free(l->job->report);
    l->job->report = o->report;
    tp_rma_log_report(o->report);
    tp_rma_report_error(l->err, o->status, o->report);
    return o->status;
}

telpher_status
tp_rma_link_launch(telpher_rma_job *job, const telpher_rma_kernel *kernel, void *data,
                   telpher_rma_outcome *outcome, telpher_error *err)
{
    struct tp_rma_link l;
    telpher_status status = open_link(&l, job, kernel, data, outcome, err);

    if (job->params.check != 0 && status == TELPHER_OK) {
        l.run_status = TELPHER_ERR_UNSUPPORTED;
    }
    outcome->link = &l.api;
    if (l.run_status == TELPHER_OK) {
        kernel->launch(kernel, data, outcome);
    }
    status = l.served ? finish(&l) : refuse(&l);
    tp_free(l.early);
    tp_free(l.next);
    tp_free(l.where);
    return status;
}
