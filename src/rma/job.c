/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs, and launches from begin to end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/os/spin.h"
#include "base/params.h"
#include "base/trace/log.h"
#include "rma/gpu/link.h"
#include "rma/processes/remote.h"

enum {
    CHECKED_LANES = 8,
    STACK_BYTES_PROXY = 128 << 10,
};

/* ---- jobs ---- */

static telpher_status
check_params(const telpher_rma_params *p, telpher_error *err)
{
    const char *wrong = tp_rma_settings_wrong();
    uint64_t lanes = 1;

    if (wrong != NULL) { /* a misspelt check would find nothing */
        return tp_rma_error_set(err, TELPHER_ERR_INVALID, "%s", wrong);
    }

    if (p->ranks > TELPHER_RMA_RANKS_MAX || p->tags > TELPHER_RMA_TAGS_MAX) {
        return tp_rma_error_set(
            err, TELPHER_ERR_RANGE, "%u ranks and %u tags: there can be %u and %u",
            p->ranks, p->tags, TELPHER_RMA_RANKS_MAX, TELPHER_RMA_TAGS_MAX);
    }
    for (int i = 0; i < 3; i++) {
        lanes *= p->block[i] != 0 ? p->block[i] : 1;
        if (lanes > TELPHER_RMA_LANES_MAX) {
            return tp_rma_error_set(err, TELPHER_ERR_RANGE,
                                    "more lanes of a rank than 1024");
        }
    }
    if ((p->check & ~(uint32_t)TP_RMA_CHECK_ALL) != 0) {
        return tp_rma_error_set(err, TELPHER_ERR_INVALID, "no such check");
    }
    return TELPHER_OK;
}

/* This process's part of what the caller requested for all. */
static telpher_status
share_out(telpher_rma_params *p, const struct tp_rma_world *world, telpher_error *err)
{
    uint32_t count = world != NULL ? world->count : 1;

    if (p->whole == 0 || count == 1) {
        return TELPHER_OK;
    }
    if (p->ranks % count != 0 || p->devices % count != 0) {
        bool ranks = p->ranks % count != 0;

        return tp_rma_error_set(
            err, TELPHER_ERR_RANGE,
            "%u %s cannot be shared out among %u processes: not a multiple of %u",
            ranks ? p->ranks : p->devices, ranks ? "ranks" : "devices", count, count);
    }
    p->ranks /= count;
    p->devices /= count;
    return TELPHER_OK;
}

/* Rejects options that several processes cannot have. */
static telpher_status
check_world(const telpher_rma_params *p, const struct tp_rma_world *world,
            telpher_error *err)
{
    if (world == NULL) {
        return TELPHER_OK;
    }
    if ((p->check & TELPHER_RMA_CHECK_RACES) != 0) {
        return tp_rma_error_set(
            err, TELPHER_ERR_UNSUPPORTED,
            "the check for races looks at one process: run it without a "
            "launcher");
    }
    if (p->ranks > TELPHER_RMA_RANKS_MAX / world->count) {
        return tp_rma_error_set(
            err, TELPHER_ERR_RANGE,
            "all processes together have more ranks than there can be");
    }
    return TELPHER_OK;
}

/* Fills in the settings for options that the caller left at default. */
static telpher_status
complete_params(telpher_rma_params *p, const struct tp_rma_world *world,
                telpher_error *err)
{
    const struct tp_rma_settings *settings = tp_rma_settings();
    uint32_t processors = tp_spin_processors();

    if (world != NULL) { /* the processes of one machine share them */
        processors = TP_MAX(processors / telpher_context_local_size(world->ctx), 1u);
    }

    p->devices = p->devices != 0 ? p->devices : 1;
    if (p->ranks == 0) {
        p->ranks = settings->ranks != 0 ? (uint32_t)settings->ranks
                                        : TP_MAX(processors, p->devices);
    }
    if (p->ranks < p->devices || p->ranks > TELPHER_RMA_RANKS_MAX) {
        return tp_rma_error_set(
            err, TELPHER_ERR_RANGE,
            "%u ranks for %u devices: ranks are no fewer, and at most %u", p->ranks,
            p->devices, TELPHER_RMA_RANKS_MAX);
    }
    for (int i = 0; i < 3; i++) {
        p->block[i] = p->block[i] != 0 ? p->block[i] : 1;
    }
    p->check |= (uint32_t)settings->check;
    if ((p->check & TELPHER_RMA_CHECK_LANES) != 0 &&
        p->block[0] * p->block[1] * p->block[2] == 1) {
        p->block[0] = CHECKED_LANES;
    }
    p->tags = p->tags != 0 ? p->tags : TELPHER_RMA_TAGS_DEFAULT;
    p->workers = p->workers != 0 ? p->workers : processors;
    p->workers = (p->check & TELPHER_RMA_CHECK_RACES) != 0 ? 1 : p->workers;
    p->workers = TP_MIN(p->workers, p->ranks);
    p->timeout_ns = p->timeout_ns != 0 ? p->timeout_ns : settings->timeout_ns;
    p->seed = p->seed != 0 ? p->seed : settings->seed;
    p->stack_bytes = p->stack_bytes != 0 ? p->stack_bytes : settings->stack_bytes;
    p->stack_bytes = TP_MAX(p->stack_bytes, TP_RMA_STACK_MIN);
    if (world != NULL) { /* a rank may do the progress thread's work */
        p->stack_bytes = TP_MAX(p->stack_bytes, STACK_BYTES_PROXY);
    }
    return check_world(p, world, err);
}

telpher_status
telpher_rma_create(const telpher_rma_params *params, telpher_rma_job **ret_job,
                   telpher_error *err)
{
    telpher_rma_params own = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    struct tp_rma_world *world = NULL;
    struct tp_error why = {0};
    telpher_status status;

    status =
        tp_params_copy(&own, sizeof(own), params, offsetof(telpher_rma_params, context),
                       "TELPHER_RMA_PARAMS_INIT", &why);
    if (status != TELPHER_OK) {
        return tp_rma_error_set(err, status, "%s", why.text);
    }
    own.struct_size = sizeof(own);
    status = check_params(&own, err);
    if (status == TELPHER_OK) {
        status = tp_rma_world_open(own.context, &world, err);
    }
    if (status == TELPHER_OK) {
        status = share_out(&own, world, err);
    }
    if (status == TELPHER_OK) {
        status = complete_params(&own, world, err);
    }
    job = status == TELPHER_OK ? tp_zalloc(sizeof(*job), "job") : NULL;
    if (job == NULL) {
        return status != TELPHER_OK
                   ? status
                   : tp_rma_error_set(err, TELPHER_ERR_NO_MEMORY, "out of memory");
    }
    job->world = world;
    job->params = own;
    *ret_job = job;
    return TELPHER_OK;
}

static void
forget_run(telpher_rma_job *job)
{
    free(job->report); /* of open_memstream() */
    tp_free(job->timings);
    job->report = NULL;
    job->timings = NULL;
    job->timing_count = 0;
    job->elapsed_ns = 0;
}

void
telpher_rma_destroy(telpher_rma_job *job)
{
    if (job == NULL) {
        return;
    }
    if (atomic_exchange(&job->busy, true)) {
        tp_error("rma", "telpher_rma_destroy() does not free the job: it still runs a "
                        "kernel in another thread; wait for its launch to return");
        return;
    }
    forget_run(job);
    tp_free(job);
}

uint32_t
telpher_rma_job_ranks(const telpher_rma_job *job)
{
    return job->params.ranks;
}

uint32_t
telpher_rma_job_processes(const telpher_rma_job *job)
{
    return job->world != NULL ? job->world->count : 1;
}

uint32_t
telpher_rma_job_process(const telpher_rma_job *job)
{
    return job->world != NULL ? job->world->process : 0;
}

uint32_t
telpher_rma_job_lanes(const telpher_rma_job *job)
{
    return job->params.block[0] * job->params.block[1] * job->params.block[2];
}

const char *
telpher_rma_report(const telpher_rma_job *job)
{
    return job->report != NULL ? job->report : "";
}

size_t
telpher_rma_timings(const telpher_rma_job *job, double *ret_ms, size_t max)
{
    for (size_t i = 0; i < TP_MIN(max, job->timing_count); i++) {
        ret_ms[i] = job->timings[i];
    }
    return job->timing_count;
}

uint64_t
telpher_rma_elapsed(const telpher_rma_job *job)
{
    return job->elapsed_ns;
}

/* ---- launching ---- */

/* The lock is a gate: no worker begins before all are started. */
static telpher_status
run_workers(struct tp_rma_run *run)
{
    uint32_t started = 1;
    telpher_status status = TELPHER_OK;

    tp_mutex_lock(&run->idle_lock);
    for (; started < run->worker_count; started++) {
        status = tp_thread_create(&run->workers[started].thread, "tp-rma",
                                  tp_rma_worker_main, &run->workers[started]);
        if (status != TELPHER_OK) {
            run->canceled = true;
            break;
        }
    }
    run->start = tp_clock_ns();
    tp_mutex_unlock(&run->idle_lock);
    tp_rma_worker_main(&run->workers[0]);
    for (uint32_t i = 1; i < started; i++) {
        tp_thread_join(run->workers[i].thread);
    }
    run->end = tp_clock_ns();
    return status;
}

static telpher_status
check_kernel(const telpher_rma_job *job, const telpher_rma_kernel *kernel,
             telpher_error *err)
{
    char text[TELPHER_ERROR_TEXT_BYTES];

    if (kernel == NULL || (kernel->body == NULL && kernel->launch == NULL)) {
        return tp_rma_error_set(err, TELPHER_ERR_INVALID, "no kernel");
    }
    if (kernel->abi != TELPHER_RMA_ABI || kernel->state_size != sizeof(telpher_rma) ||
        kernel->calls_size != sizeof(telpher_rma_calls)) {
        return tp_rma_error_set(
            err, TELPHER_ERR_VERSION,
            "the kernel was compiled with headers of version %u (%u, %u bytes), the "
            "library has %u (%zu, %zu): compile it again",
            kernel->abi, kernel->state_size, kernel->calls_size, TELPHER_RMA_ABI,
            sizeof(telpher_rma), sizeof(telpher_rma_calls));
    }
    if ((job->params.check & TELPHER_RMA_CHECK_RACES) != 0 && kernel->launch == NULL &&
        tp_rma_races_check_kernel(kernel, text, sizeof(text)) != TELPHER_OK) {
        return tp_rma_error_set(err, TELPHER_ERR_UNSUPPORTED, "%s", text);
    }
    return TELPHER_OK;
}

static telpher_status
run_watched(struct tp_rma_run *run)
{
    telpher_status status;

    tp_rma_crash_watch(run);
    status = run_workers(run);
    tp_rma_crash_forget(run);
    return status;
}

telpher_status
tp_rma_run_all(struct tp_rma_run *run)
{
    telpher_status status;

    if (run->remote == NULL) {
        return run_watched(run);
    }
    status = tp_rma_remote_start(run->remote);
    if (status == TELPHER_OK) {
        status = run_watched(run);
        tp_rma_remote_stop(run->remote);
    }
    if (status != TELPHER_OK) { /* the others already run */
        tp_rma_run_fail(run, status,
                        "process %u cannot start its threads for kernel %s: %s; "
                        "`ulimit -u` allows more",
                        run->remote->world->process, run->kernel->name,
                        telpher_status_text(status));
    }
    if (run->link != NULL) {
        tp_rma_link_settle(run);
    }
    tp_rma_remote_end(run);
    return TELPHER_OK;
}

telpher_status
tp_rma_run_finish(telpher_rma_job *job, struct tp_rma_run *run, telpher_error *err)
{
    telpher_status status = atomic_load(&run->status);

    job->report = run->report;
    job->timings = run->timings;
    job->timing_count = run->timing_count;
    run->report = NULL;
    run->timings = NULL;
    job->elapsed_ns = run->end - run->start;
    tp_rma_run_destroy(run);
    if (status != TELPHER_OK) {
        tp_rma_report_error(err, status,
                            job->report != NULL ? job->report
                                                : telpher_status_text(status));
    }
    return status;
}

struct tp_rma_run *
tp_rma_run_begin(telpher_rma_job *job, const telpher_rma_kernel *kernel, void *data,
                 telpher_status *ret_status, telpher_error *err)
{
    struct tp_rma_run *run = tp_rma_run_create(job, kernel, data, ret_status);

    if (run == NULL && *ret_status == TELPHER_ERR_LIMIT) {
        tp_rma_error_set(err, *ret_status,
                         "too many devices: limit %d in all processes",
                         TP_RMA_GROUPS_MAX - 1); /* a group for each, and the world */
    } else if (run == NULL) {
        tp_rma_error_set(err, *ret_status, "%s",
                         *ret_status == TELPHER_ERR_NO_MEMORY
                             ? "no memory for so many ranks, lanes and tags"
                             : telpher_status_text(*ret_status));
    }
    return run;
}

/* @param status  why this process cannot launch, or TELPHER_OK; sent to the other
 *         processes. */
static telpher_status
launch(telpher_rma_job *job, const telpher_rma_kernel *kernel, void *data,
       telpher_status status, telpher_error *err)
{
    struct tp_rma_run *run = NULL;

    if (status == TELPHER_OK) {
        run = tp_rma_run_begin(job, kernel, data, &status, err);
    }
    if (job->world != NULL && atomic_load(&job->world->forked)) {
        status =
            tp_rma_error_set(err, TELPHER_ERR_UNSUPPORTED,
                             "a child of fork() is not one of the job's processes");
    } else if (job->world != NULL) {
        const struct tp_rma_coming coming = {.own = status, .text = err->text};

        status = tp_rma_remote_begin(job->world, run, job, kernel, &coming, err);
    }
    if (status != TELPHER_OK) {
        if (run != NULL) {
            job->report = run->report;
            run->report = NULL;
            tp_rma_run_destroy(run);
        }
        return status;
    }
    status = tp_rma_run_all(run);
    if (status != TELPHER_OK) {
        tp_rma_run_destroy(run);
        return tp_rma_error_set(err, status, "the system has no thread left");
    }
    tp_rma_races_finish(run);
    return tp_rma_run_finish(job, run, err);
}

/* A kernel with a launcher of its own was compiled for a device other than the CPU. */
static telpher_status
launch_elsewhere(telpher_rma_job *job, const telpher_rma_kernel *kernel, void *data,
                 telpher_error *err)
{
    const telpher_rma_params *p = &job->params;
    telpher_rma_outcome outcome = {
        .ranks = p->ranks,
        .devices = p->devices,
        .tags = p->tags,
        .block = {p->block[0], p->block[1], p->block[2]},
        .timeout_ns = p->timeout_ns,
        .log = p->log,
        .user = p->user,
    };

    if (p->check != 0) {
        tp_rma_error_set(err, TELPHER_ERR_UNSUPPORTED,
                         "checks look at kernels compiled for processors");
        if (job->world == NULL) {
            return TELPHER_ERR_UNSUPPORTED;
        }
    }
    if (job->world != NULL) {
        outcome.status = tp_rma_link_launch(job, kernel, data, &outcome, err);
    } else {
        kernel->launch(kernel, data, &outcome);
        job->report = outcome.report;
    }
    if (outcome.timings != NULL) {
        job->timings =
            tp_memdup(outcome.timings, outcome.timing_count * sizeof(*outcome.timings),
                      "timings");
        job->timing_count = job->timings != NULL ? outcome.timing_count : 0;
        free(outcome.timings);
    }
    job->elapsed_ns = outcome.elapsed_ns != 0 ? outcome.elapsed_ns : job->elapsed_ns;
    if (outcome.status != TELPHER_OK && job->world == NULL) {
        tp_rma_log_report(telpher_rma_report(job));
        tp_rma_report_error(err, outcome.status, telpher_rma_report(job));
    }
    return outcome.status;
}

/* Allows one launch at a time per job and per context. */
static bool
begin_alone(telpher_rma_job *job)
{
    if (atomic_exchange(&job->busy, true)) {
        return false;
    }
    if (job->world != NULL && atomic_exchange(&job->world->busy, true)) {
        atomic_store(&job->busy, false);
        return false;
    }
    return true;
}

telpher_status
telpher_rma_run(telpher_rma_job *job, const telpher_rma_kernel *kernel, void *data,
                telpher_error *err)
{
    telpher_error
        own; /* other processes learn of an error here even if they did not ask */
    telpher_status status;

    err = err != NULL ? err : &own;
    (void)tp_rma_error_set(err, TELPHER_OK, "%s", "");
    status = check_kernel(job, kernel, err);
    if (status != TELPHER_OK && job->world == NULL) {
        return status;
    }
    if (telpher_rma_here() != NULL) {
        return tp_rma_error_set(err, TELPHER_ERR_BUSY, "a kernel cannot run kernels");
    }
    if (!begin_alone(job)) {
        return tp_rma_error_set(err, TELPHER_ERR_BUSY,
                                "the job, or another of its context, runs a kernel");
    }
    forget_run(job);
    status = status == TELPHER_OK && kernel->launch != NULL
                 ? launch_elsewhere(job, kernel, data, err)
                 : launch(job, kernel, data, status, err);
    if (job->world != NULL) {
        atomic_store(&job->world->busy, false);
    }
    atomic_store(&job->busy, false);
    return status;
}
