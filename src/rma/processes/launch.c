/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch over several processes: all enter it, and all leave it. Waits for a process
 * that does neither are bounded; afterwards it is declared dead.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/text/text.h"
#include "base/trace/log.h"
#include "rma/processes/remote.h"

#define NAP ((tp_ns)20000000) /* [ns] between checks for lost processes */
#define PATIENCE                                                                       \
    ((tp_ns)5000000000) /* [ns] minimum wait for processes, which do not start in step */
#define PARTING                                                                        \
    ((tp_ns)1000000000) /* [ns] for operations in progress with a process declared dead */

/* ---- waiting for others ---- */

static tp_ns
patience(uint64_t timeout_ns)
{
    return tp_clock_deadline(TP_MAX(timeout_ns, (uint64_t)PATIENCE));
}

/* Progresses once and checks for lost peers. */
static void
progress(struct tp_rma_world *w)
{
    telpher_progress_wait(w->ctx, NAP);
    for (uint32_t i = 0; i < w->count; i++) {
        if (i != w->process && telpher_peer_status(w->ctx, i) != TELPHER_OK) {
            w->processes[i].lost = true;
        }
    }
}

static telpher_status say(telpher_error *err, telpher_status status, const char *format,
                          ...) __attribute__((format(printf, 3, 4)));

static telpher_status
say(telpher_error *err, telpher_status status, const char *format, ...)
{
    char text[TELPHER_ERROR_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tp_error("rma", "%s", text);
    err->code = status;
    memcpy(err->text, text, sizeof(text));
    return status;
}

/* ---- begin ---- */

/* Tells all processes that this one enters the launch, or that it cannot. */
static void
say_hello(struct tp_rma_world *w, const struct tp_rma_hello *hello, const void *address,
          size_t more)
{
    const telpher_rma_command c = {.op = TP_RMA_CONTROL_HELLO};
    uint8_t *body = more != 0 ? tp_malloc(sizeof(*hello) + more, "hello") : NULL;

    w->processes[w->process].hellos[w->serial % 2] = *hello;
    if (body == NULL) { /* without the address they reach this process in another way */
        tp_rma_control_broadcast(w, &c, hello, sizeof(*hello));
        return;
    }
    memcpy(body, hello, sizeof(*hello));
    memcpy(body + sizeof(*hello), address, more);
    tp_rma_control_broadcast(w, &c, body, sizeof(*hello) + more);
    tp_free(body);
}

static struct tp_rma_hello
make_hello(const struct tp_rma_world *w, const telpher_rma_job *job,
           const telpher_rma_kernel *kernel, telpher_status own)
{
    const telpher_rma_params *p = &job->params;
    struct tp_rma_hello hello = {.serial = w->serial,
                                 .abi = TELPHER_RMA_ABI,
                                 .ranks = p->ranks,
                                 .devices = p->devices,
                                 .tags = p->tags,
                                 .status = (uint32_t)own,
                                 .elsewhere = kernel != NULL && kernel->launch != NULL};

    hello.lanes = telpher_rma_job_lanes(job);
    memcpy(hello.block, p->block, sizeof(hello.block));
    snprintf(hello.kernel, sizeof(hello.kernel), "%s",
             kernel != NULL && kernel->name != NULL ? kernel->name : "no kernel");
    tp_text_tame(hello.kernel, false); /* as receivers read it */
    return hello;
}

/* NULL: not received yet. A process that enters a later launch but not the next one
 * has skipped it: it can no longer launch, and reports that each time. */
static const struct tp_rma_hello *
hello_of(const struct tp_rma_world *w, uint32_t process)
{
    const struct tp_rma_hello *hello = &w->processes[process].hellos[w->serial % 2];

    return (int32_t)(hello->serial - w->serial) >= 0 ? hello : NULL;
}

static bool
says_no(const struct tp_rma_world *w, const struct tp_rma_hello *hello)
{
    return (int32_t)hello->status < 0 || hello->serial != w->serial;
}

/* It has sent its hello, which could not be read for lack of memory. */
static bool
is_unread(const struct tp_rma_world *w, uint32_t process)
{
    const uint32_t serial = w->processes[process].unread;

    return serial != 0 && (int32_t)(serial - w->serial) >= 0;
}

/* The first process whose hello is missing. */
static uint32_t
who_is_missing(const struct tp_rma_world *w)
{
    uint32_t i = 0;

    while (i < w->count && hello_of(w, i) != NULL) {
        i++;
    }
    return i;
}

/* A process may have left because another did not come: that one is reported first.
 * A process whose ranks have returned is not missing. */
static uint32_t
who_is_lost(const struct tp_rma_world *w)
{
    uint32_t lost = w->count;

    for (uint32_t i = w->count; i-- > 0;) {
        if (w->processes[i].lost && !w->processes[i].done &&
            (lost == w->count || hello_of(w, i) == NULL || hello_of(w, lost) != NULL)) {
            lost = i;
        }
    }
    return lost;
}

/* A process that entered the launch and cannot run it. */
static telpher_status
say_cannot(const struct tp_rma_world *w, uint32_t process, telpher_error *err)
{
    const struct tp_rma_hello *hello = hello_of(w, process);
    telpher_status status =
        (int32_t)hello->status < 0 ? (int32_t)hello->status : TELPHER_ERR_PROTO;

    return say(err, status, "process %u cannot launch %s: %s", process, hello->kernel,
               hello->text[0] != '\0' ? hello->text : telpher_status_text(status));
}

static telpher_status
say_lost(const struct tp_rma_world *w, uint32_t lost, const char *kernel,
         telpher_error *err)
{
    const struct tp_rma_hello *hello = hello_of(w, lost);

    if (hello != NULL && says_no(w, hello)) {
        return say_cannot(w, lost, err);
    }
    return say(err, TELPHER_ERR_PEER_LOST, "process %u is lost%s of %s", lost,
               hello == NULL ? ", before it joined the launch" : " at the launch",
               kernel);
}

/* Another process reported why it cannot launch; its text is in the log. */
static telpher_status
repeat_failure(const struct tp_rma_run *run, telpher_error *err)
{
    telpher_status status = atomic_load(&run->status);

    tp_rma_report_error(err, status, run->report != NULL ? run->report : "");
    return status;
}

/*
 * This process cannot run the launch. Processes that run already get the error; those
 * that enter later find a hello with it. Processes that did not come are declared dead;
 * then this world has no further launch, as without a lost process.
 */
static void
step_back(struct tp_rma_world *w, struct tp_rma_hello *hello, telpher_status status,
          const char *reason)
{
    const telpher_rma_command failed = {.op = TP_RMA_CONTROL_FAILED,
                                        .tag = (uint32_t)status};

    w->broken = status == TELPHER_ERR_TIMEOUT || status == TELPHER_ERR_PEER_LOST;
    hello->status = (uint32_t)status;
    snprintf(hello->text, sizeof(hello->text), "%.*s", (int)sizeof(hello->text) - 1,
             reason);
    say_hello(w, hello, NULL, 0);
    tp_rma_control_broadcast(w, &failed, reason, strlen(reason) + 1);
    for (uint32_t i = 0; i < w->count && status == TELPHER_ERR_TIMEOUT; i++) {
        if (i != w->process && hello_of(w, i) == NULL) {
            w->processes[i].lost = true;
            telpher_peer_disconnect(w->ctx, i);
        }
    }
}

/* The launch failed here, or another process cannot run it. A kernel that failed
 * elsewhere had seen all hellos, and this process will see them too. */
static bool
is_called_off(const struct tp_rma_world *w)
{
    bool refused = false;

    if (w->run == NULL || atomic_load(&w->run->status) == TELPHER_OK) {
        return false;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        const struct tp_rma_hello *hello = hello_of(w, i);

        refused = refused || (hello != NULL && says_no(w, hello));
    }
    return refused || !atomic_load(&w->run->remote->failure_sent);
}

static telpher_status
wait_for_hellos(struct tp_rma_world *w, const telpher_rma_job *job, const char *kernel,
                telpher_error *err)
{
    tp_ns begin = tp_clock_ns(), deadline = patience(job->params.timeout_ns);
    uint32_t missing, lost;

    while ((missing = who_is_missing(w)) < w->count) {
        lost = who_is_lost(w);
        if (is_called_off(w)) {
            return repeat_failure(w->run, err);
        }
        if (lost < w->count) {
            return say_lost(w, lost, kernel, err);
        }
        if (is_unread(w, missing)) {
            return say(
                err, TELPHER_ERR_NO_MEMORY,
                "no memory for the message of process %u that starts the launch of %s",
                missing, kernel);
        }
        if (tp_clock_passed(deadline)) {
            return say(err, TELPHER_ERR_TIMEOUT,
                       "process %u has not started the launch of %s within %.3f s",
                       missing, kernel, (double)(tp_clock_ns() - begin) * 1e-9);
        }
        progress(w);
    }
    if (is_called_off(w)) { /* the peer may be waiting for this process's hello */
        return repeat_failure(w->run, err);
    }
    lost = who_is_lost(w); /* found lost together with its hello: not checked again */
    return lost < w->count ? say_lost(w, lost, kernel, err) : TELPHER_OK;
}

static bool
differ(const struct tp_rma_hello *a, const struct tp_rma_hello *b)
{
    return a->abi != b->abi || a->ranks != b->ranks || a->devices != b->devices ||
           a->tags != b->tags || a->elsewhere != b->elsewhere ||
           memcmp(a->block, b->block, sizeof(a->block)) != 0 ||
           strcmp(a->kernel, b->kernel) != 0;
}

/* All processes compare the same hellos, and so get the same result. */
static telpher_status
compare_hellos(const struct tp_rma_world *w, telpher_status own, telpher_error *err)
{
    const struct tp_rma_hello *a = hello_of(w, 0);

    for (uint32_t i = 0; i < w->count; i++) {
        if (says_no(w, hello_of(w, i))) {
            return own != TELPHER_OK ? own /* its hello has the text */
                                     : say_cannot(w, i, err);
        }
    }
    for (uint32_t i = 1; i < w->count; i++) {
        const struct tp_rma_hello *b = hello_of(w, i);

        if (differ(a, b)) {
            return say(
                err, TELPHER_ERR_INVALID,
                "processes do not launch the same: process 0 %s with %u ranks on "
                "%u devices, %u tags and %u lanes, process %u %s with %u ranks "
                "on %u devices, %u tags and %u lanes",
                a->kernel, a->ranks, a->devices, a->tags, a->lanes, i, b->kernel,
                b->ranks, b->devices, b->tags, b->lanes);
        }
    }
    return TELPHER_OK;
}

static void
forget_last(struct tp_rma_world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        struct tp_rma_process *p = &w->processes[i];

        p->done = false;
        tp_free(p->table);
        p->table = NULL;
    }
}

const void *
tp_rma_remote_address(const struct tp_rma_world *w, uint32_t process, size_t *ret_len)
{
    const struct tp_rma_process *p = &w->processes[process];

    *ret_len = p->address_lens[w->serial % 2];
    return hello_of(w, process) != NULL ? p->addresses[w->serial % 2] : NULL;
}

/* After a launch that lost a process, which others may not have noticed. */
static telpher_status
decline(struct tp_rma_world *w, struct tp_rma_hello *hello, telpher_error *err)
{
    uint32_t lost = who_is_lost(w);
    char name[32] = "a process";

    if (lost < w->count) {
        snprintf(name, sizeof(name), "process %u", lost);
    }
    hello->status = (uint32_t)TELPHER_ERR_PEER_LOST;
    snprintf(hello->text, sizeof(hello->text),
             "%s is lost since an earlier launch: start the job again", name);
    say_hello(w, hello, NULL, 0);
    return say(err, TELPHER_ERR_PEER_LOST, "%s", hello->text);
}

telpher_status
tp_rma_remote_begin(struct tp_rma_world *w, struct tp_rma_run *run,
                    const telpher_rma_job *job, const telpher_rma_kernel *kernel,
                    const struct tp_rma_coming *coming, telpher_error *err)
{
    struct tp_rma_hello hello;
    const telpher_rma_command done = {.op = TP_RMA_CONTROL_DONE};
    telpher_error reason = {0};
    telpher_status status;

    w->serial++;
    forget_last(w);
    w->run = w->broken ? NULL : run;
    hello = make_hello(w, job, kernel, coming->own);
    snprintf(hello.text, sizeof(hello.text), "%.*s", (int)sizeof(hello.text) - 1,
             coming->text != NULL ? coming->text : "");
    if (w->broken) {
        return decline(w, &hello, err);
    }
    say_hello(w, &hello, coming->address, coming->address_len);
    status = wait_for_hellos(w, job, hello.kernel, &reason);
    if (status != TELPHER_OK) {
        step_back(w, &hello, status, reason.text);
    } else {
        status = compare_hellos(w, coming->own, &reason);
    }
    if (status != TELPHER_OK) {
        /* processes that found all hellos good run, and wait for this one */
        tp_rma_control_broadcast(w, &done, NULL, 0);
        telpher_progress(w->ctx);
        w->run = NULL;
    }
    if (reason.code != TELPHER_OK) {
        *err = reason;
    }
    return status;
}

/* ---- end ---- */

/* Its ranks run, or an operation of this launch with it is in progress. */
static bool
is_unfinished(const struct tp_rma_world *w, uint32_t process)
{
    const struct tp_rma_process *p = &w->processes[process];

    return (process != w->process && !p->done && !p->lost) || p->under_way != 0 ||
           p->incoming != 0;
}

static bool
all_are_done(const struct tp_rma_world *w)
{
    uint32_t i = 0;

    while (i < w->count && !is_unfinished(w, i)) {
        i++;
    }
    return i == w->count;
}

/* After a failure, with this process's table of that moment. */
static void
tell_done(struct tp_rma_run *run)
{
    const telpher_rma_command c = {.op = TP_RMA_CONTROL_DONE};
    const char *report = run->report != NULL ? run->report : "";
    const char *table = strchr(report, '\n');

    table = table != NULL ? table + 1 : "";
    tp_rma_control_broadcast(run->remote->world, &c, table,
                             table[0] != '\0' ? strlen(table) : 0);
}

/* Appends the tables of the other processes to this one's. */
static void
add_tables(struct tp_rma_run *run)
{
    const struct tp_rma_world *w = run->remote->world;

    for (uint32_t i = 0; i < w->count; i++) {
        const struct tp_rma_process *p = &w->processes[i];

        if (p->table != NULL) {
            tp_rma_report_append(run, "process %u:\n%s", i, p->table);
        } else if (p->lost) {
            tp_rma_report_append(run, "process %u: lost\n", i);
        }
    }
}

/* Declares dead a process that does not end; it can no longer access memory here. */
static void
leave_behind(struct tp_rma_remote *r)
{
    struct tp_rma_world *w = r->world;
    tp_ns deadline = tp_clock_deadline(PARTING);

    w->broken = true;
    for (uint32_t i = 0; i < w->count; i++) {
        if (i != w->process && is_unfinished(w, i)) {
            tp_error("rma", "%s: process %u has not ended; it is left behind",
                     r->run->kernel->name, i);
            telpher_peer_disconnect(w->ctx, i);
        }
    }
    tp_rma_remote_look_for_lost(r);
    while (!all_are_done(w) && !tp_clock_passed(deadline)) {
        telpher_progress_wait(w->ctx, NAP);
    }
}

/* Bounded after a failure. */
static void
wait_for_others(struct tp_rma_run *run)
{
    struct tp_rma_remote *r = run->remote;
    tp_ns deadline = TP_CLOCK_FOREVER;

    while (!all_are_done(r->world)) {
        (void)tp_rma_remote_serve(r);
        if (atomic_load(&run->status) != TELPHER_OK && deadline == TP_CLOCK_FOREVER) {
            deadline = patience(run->params.timeout_ns);
        }
        if (tp_clock_passed(deadline)) {
            leave_behind(r);
            return;
        }
        if (!all_are_done(r->world)) {
            if (telpher_progress_wait(r->world->ctx, NAP) != TELPHER_OK) {
                tp_rma_deadlock_look(r);
            }
            tp_rma_remote_look_for_lost(r);
        }
    }
}

static void
log_room(const struct tp_rma_remote *r)
{
    uint64_t waits = atomic_load(&r->room_waits);

    if (waits != 0) {
        tp_info("rma",
                "%s: ranks waited %llu times, %.3f ms together, for room among %u "
                "commands to other processes",
                r->run->kernel->name, (unsigned long long)waits,
                (double)atomic_load(&r->room_ns) * 1e-6, (unsigned)TP_RMA_RING);
    }
}

void
tp_rma_remote_end(struct tp_rma_run *run)
{
    struct tp_rma_remote *r = run->remote;

    if (atomic_load(&r->world->forked)) {
        /* the parent's connections are not the child's to use */
        r->world->run = NULL;
        return;
    }
    log_room(r);
    tp_mutex_lock(&r->role);
    while (atomic_load(&r->head) != atomic_load(&r->tail)) {
        (void)tp_rma_remote_serve(r);
        if (atomic_load(&r->stalled)) { /* for room in another process */
            telpher_progress_wait(r->world->ctx, NAP);
            tp_rma_remote_look_for_lost(r);
        }
    }
    tell_done(run);
    wait_for_others(run);
    if (atomic_load(&run->status) != TELPHER_OK) {
        add_tables(run);
    }
    r->world->run = NULL;
    tp_mutex_unlock(&r->role);
}

/* ---- after the end ---- */

/* True if the process may have opened memory of this one: not if it reported a
 * failure or has no GPU. */
static bool
may_have_opened(const struct tp_rma_world *w, uint32_t process)
{
    const struct tp_rma_process *p = &w->processes[process];
    const struct tp_rma_hello *hello = hello_of(w, process);

    return process != w->process && !p->lost && p->left != w->serial &&
           (hello == NULL || (!says_no(w, hello) && hello->elsewhere != 0));
}

static bool
all_have_left(const struct tp_rma_world *w)
{
    uint32_t i = 0;

    while (i < w->count && !may_have_opened(w, i)) {
        i++;
    }
    return i == w->count;
}

void
tp_rma_remote_leave(struct tp_rma_world *w, tp_ns timeout_ns)
{
    const telpher_rma_command c = {.op = TP_RMA_CONTROL_LEFT, .tag = w->serial};
    tp_ns deadline = tp_clock_deadline(timeout_ns);

    tp_rma_control_broadcast(w, &c, NULL, 0);
    while (!all_have_left(w) && !tp_clock_passed(deadline)) {
        (void)progress(w);
    }
}
