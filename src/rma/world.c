/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes: joining them, and the beginning and the end of their launches. Between
 * launches the context lies still; what comes then waits in it.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/thread.h"
#include "rma/remote.h"

#define NAP ((tp_ns)20000000) /* [ns] between looks for processes that are lost */
enum { WORLDS_MAX = 64 };

/* All of this process, by context. */
static struct tp_mutex lock = TP_MUTEX_INIT;
static struct tp_world *worlds[WORLDS_MAX];
static struct telpher_context *own_context; /* of the launcher's job, until the end */
static pid_t own_pid;

/* ---- joining ---- */

static bool
has_launcher(void)
{
    const char *root = getenv("TELPHER_ROOT"), *size = getenv("TELPHER_SIZE");

    if (root != NULL && root[0] != '\0') {
        return size == NULL || strcmp(size, "1") != 0;
    }
    return getenv("PMIX_RANK") != NULL && getenv("PMIX_NAMESPACE") != NULL;
}

/* The launcher's job: a process joins it once, and leaves it at its end. */
static telpher_status
join(telpher_context **ret_ctx, telpher_error *err)
{
    telpher_status status = TELPHER_OK;

    if (own_context == NULL || own_pid != getpid()) {
        status = telpher_context_create(NULL, &own_context, err);
        own_pid = getpid();
    }
    *ret_ctx = own_context;
    return status;
}

static void leave(void) __attribute__((destructor));

static void
leave(void)
{
    if (own_context != NULL && own_pid == getpid()) {
        telpher_context_destroy(own_context);
        own_context = NULL;
    }
}

static void
world_free(struct tp_world *w)
{
    for (uint32_t i = 0; w->processes != NULL && i < w->count; i++) {
        tp_free(w->processes[i].table);
    }
    tp_free(w->processes);
    tp_free(w);
}

/* With its context. What came for the next launch is kept until then, also without a job. */
static void
world_end(void *user)
{
    struct tp_world *w = user;

    tp_mutex_lock(&lock);
    for (size_t i = 0; i < WORLDS_MAX; i++) {
        worlds[i] = worlds[i] == w ? NULL : worlds[i];
    }
    tp_mutex_unlock(&lock);
    world_free(w);
}

static struct tp_world *
world_make(telpher_context *ctx)
{
    struct tp_world *w = tp_zalloc(sizeof(*w), "processes");

    if (w == NULL) {
        return NULL;
    }
    w->ctx = ctx;
    w->process = telpher_context_rank(ctx);
    w->count = telpher_context_size(ctx);
    w->processes = tp_alloc_array(w->count, sizeof(*w->processes), "processes");
    if (w->processes == NULL ||
        telpher_context_at_end(ctx, world_end, w) != TELPHER_OK) {
        world_free(w);
        return NULL;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        size_t most = telpher_msg_params_max(ctx, i) - sizeof(telpher_rma_command);

        w->processes[i].inline_max = TP_MIN(most, (size_t)TP_INLINE_MAX);
        tp_list_init(&w->processes[i].landings);
    }
    tp_land_listen(w);
    return w;
}

/* The lock is held. */
static telpher_status
find_world(telpher_context *ctx, struct tp_world **ret_world)
{
    size_t free_place = WORLDS_MAX;

    for (size_t i = 0; i < WORLDS_MAX; i++) {
        if (worlds[i] != NULL && worlds[i]->ctx == ctx) {
            *ret_world = worlds[i];
            return TELPHER_OK;
        }
        free_place = worlds[i] == NULL ? TP_MIN(free_place, i) : free_place;
    }
    if (free_place == WORLDS_MAX) {
        return TELPHER_ERR_LIMIT;
    }
    worlds[free_place] = world_make(ctx);
    if (worlds[free_place] == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    *ret_world = worlds[free_place];
    return TELPHER_OK;
}

telpher_status
tp_world_open(telpher_context *ctx, struct tp_world **ret_world, telpher_error *err)
{
    telpher_status status = TELPHER_OK;

    *ret_world = NULL;
    tp_mutex_lock(&lock);
    if (ctx == NULL && has_launcher()) {
        status = join(&ctx, err);
    }
    if (status == TELPHER_OK && ctx != NULL && telpher_context_size(ctx) > 1) {
        status = find_world(ctx, ret_world);
        if (status != TELPHER_OK && err != NULL) {
            err->code = status;
            snprintf(err->text, sizeof(err->text), "no room for jobs of processes");
        }
    }
    tp_mutex_unlock(&lock);
    return status;
}

/* ---- what a launch has ---- */

telpher_status
tp_remote_create(struct tp_run *run, struct tp_world *w)
{
    struct tp_remote *r = tp_zalloc(sizeof(*r), "processes");

    if (r == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    run->remote = r;
    r->run = run;
    r->world = w;
    r->next_group = run->device_count / w->count + 1;
    tp_mutex_init(&r->role);
    tp_list_init(&r->arrivals);
    r->ring = tp_alloc_aligned(64, TP_RING * sizeof(*r->ring), "commands");
    if (r->ring == NULL || tp_quiet_create(r) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memset(r->ring, 0, TP_RING * sizeof(*r->ring));
    for (uint64_t i = 0; i < TP_RING; i++) {
        r->ring[i].turn = i;
    }
    return TELPHER_OK;
}

/* Meetings that the agent never came to are their lanes'. */
static void
forget_commands(struct tp_remote *r)
{
    for (uint64_t at = atomic_load(&r->tail); at != atomic_load(&r->head); at++) {
        const telpher_rma_command *c = &r->ring[at % TP_RING];

        if (c->op == TELPHER_RMA_COMMAND_MEET) {
            tp_free((void *)(uintptr_t)c->local);
        }
    }
}

void
tp_remote_destroy(struct tp_run *run)
{
    struct tp_remote *r = run->remote;

    if (r == NULL) {
        return;
    }
    if (r->ring != NULL) {
        forget_commands(r);
    }
    if (r->world->run == run) {
        r->world->run = NULL;
    }
    tp_spread_forget(r);
    tp_free(r->ring);
    tp_free(r->gets);
    tp_free(r->quiet);
    tp_free(r);
    run->remote = NULL;
}

/* ---- waiting for others ---- */

/* One look at the context. @return the first process that is not there any more, or the
 *  number of them all */
static uint32_t
progress(struct tp_world *w)
{
    uint32_t lost = w->count;

    telpher_progress_wait(w->ctx, NAP);
    for (uint32_t i = w->count; i-- > 0;) {
        if (i != w->process && telpher_peer_status(w->ctx, i) != TELPHER_OK) {
            w->processes[i].lost = true;
            lost = i;
        }
    }
    return lost;
}

static telpher_status say(telpher_error *err, telpher_status status, const char *words,
                          ...) __attribute__((format(printf, 3, 4)));

static telpher_status
say(telpher_error *err, telpher_status status, const char *words, ...)
{
    char text[TELPHER_ERROR_TEXT_BYTES];
    va_list args;

    va_start(args, words);
    vsnprintf(text, sizeof(text), words, args);
    va_end(args);
    tp_error("rma", "%s", text);
    if (err != NULL) {
        err->code = status;
        memcpy(err->text, text, sizeof(text));
    }
    return status;
}

/* ---- the beginning ---- */

static struct tp_hello
make_hello(const struct tp_world *w, const telpher_rma_job *job,
           const telpher_rma_kernel *kernel, telpher_status own)
{
    const telpher_rma_params *p = &job->params;
    struct tp_hello hello = {.serial = w->serial,
                             .abi = TELPHER_RMA_ABI,
                             .ranks = p->ranks,
                             .devices = p->devices,
                             .tags = p->tags,
                             .status = (uint32_t)own};

    hello.lanes = telpher_rma_job_lanes(job);
    memcpy(hello.block, p->block, sizeof(hello.block));
    snprintf(hello.kernel, sizeof(hello.kernel), "%s",
             kernel != NULL && kernel->name != NULL ? kernel->name : "no kernel");
    return hello;
}

static const struct tp_hello *
hello_of(const struct tp_world *w, uint32_t process)
{
    const struct tp_hello *hello = &w->processes[process].hellos[w->serial % 2];

    return hello->serial == w->serial ? hello : NULL;
}

/* The first whose hello is missing. */
static uint32_t
who_is_missing(const struct tp_world *w)
{
    uint32_t i = 0;

    while (i < w->count && hello_of(w, i) != NULL) {
        i++;
    }
    return i;
}

static telpher_status
wait_for_hellos(struct tp_world *w, const telpher_rma_job *job, const char *kernel,
                telpher_error *err)
{
    tp_ns deadline = tp_clock_deadline(job->params.timeout_ns);
    uint32_t missing, lost = w->count;

    while ((missing = who_is_missing(w)) < w->count) {
        if (lost < w->count) {
            w->broken = true;
            return say(err, TELPHER_ERR_PEER_LOST,
                       "process %u is lost, before it came to the launch of %s", lost,
                       kernel);
        }
        if (tp_clock_passed(deadline)) {
            w->broken = true;
            return say(err, TELPHER_ERR_TIMEOUT,
                       "process %u has not come to the launch of %s in %.3f s", missing,
                       kernel, (double)job->params.timeout_ns * 1e-9);
        }
        lost = progress(w);
    }
    return TELPHER_OK;
}

static bool
differ(const struct tp_hello *a, const struct tp_hello *b)
{
    return a->abi != b->abi || a->ranks != b->ranks || a->devices != b->devices ||
           a->tags != b->tags || memcmp(a->block, b->block, sizeof(a->block)) != 0 ||
           strcmp(a->kernel, b->kernel) != 0;
}

/* All compare the same, and so find the same. */
static telpher_status
compare_hellos(const struct tp_world *w, telpher_status own, telpher_error *err)
{
    const struct tp_hello *a = hello_of(w, 0);

    for (uint32_t i = 0; i < w->count; i++) {
        const struct tp_hello *b = hello_of(w, i);
        int32_t status = (int32_t)b->status;

        if (status < 0) {
            return own != TELPHER_OK
                       ? own /* it has its words */
                       : say(err, status, "process %u cannot launch %s: %s", i,
                             b->kernel, telpher_status_text(status));
        }
    }
    for (uint32_t i = 1; i < w->count; i++) {
        const struct tp_hello *b = hello_of(w, i);

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
forget_last(struct tp_world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        struct tp_process *p = &w->processes[i];

        p->done = false;
        p->sent = p->acked = p->consumed = p->told = 0;
        tp_free(p->table);
        p->table = NULL;
    }
}

telpher_status
tp_remote_begin(struct tp_world *w, struct tp_run *run, const telpher_rma_job *job,
                const telpher_rma_kernel *kernel, telpher_status own,
                telpher_error *err)
{
    const telpher_rma_command c = {.op = TP_AGENT_HELLO};
    struct tp_hello hello;
    telpher_status status;

    if (w->broken) {
        return say(err, TELPHER_ERR_PEER_LOST,
                   "a process was lost in an earlier launch: start the job again");
    }
    w->serial++;
    forget_last(w);
    w->run = run;
    hello = make_hello(w, job, kernel, own);
    w->processes[w->process].hellos[w->serial % 2] = hello;
    tp_agent_tell(w, &c, &hello, sizeof(hello));
    status = wait_for_hellos(w, job, hello.kernel, err);
    status = status == TELPHER_OK ? compare_hellos(w, own, err) : status;
    if (status != TELPHER_OK) {
        w->run = NULL;
    }
    return status;
}

/* ---- the end ---- */

static bool
all_are_done(const struct tp_world *w, uint32_t *ret_missing)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (i != w->process && !w->processes[i].done && !w->processes[i].lost) {
            *ret_missing = i;
            return false;
        }
    }
    return true;
}

/* After a failure, with this process's table as it was then. */
static void
tell_done(struct tp_run *run)
{
    const telpher_rma_command c = {.op = TP_AGENT_DONE};
    const char *report = run->report != NULL ? run->report : "";
    const char *table = strchr(report, '\n');

    table = table != NULL ? table + 1 : "";
    tp_agent_tell(run->remote->world, &c, table, table[0] != '\0' ? strlen(table) : 0);
}

/* The tables of the others come behind one's own. */
static void
add_tables(struct tp_run *run)
{
    const struct tp_world *w = run->remote->world;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return;
    }
    fprintf(out, "%s", run->report != NULL ? run->report : "");
    for (uint32_t i = 0; i < w->count; i++) {
        const struct tp_process *p = &w->processes[i];

        if (p->table != NULL) {
            fprintf(out, "process %u:\n%s", i, p->table);
        } else if (p->lost) {
            fprintf(out, "process %u: lost\n", i);
        }
    }
    fclose(out);
    if (text != NULL) {
        free(run->report);
        run->report = text;
    }
}

/* Others that do not end after a failure are left behind, in time. */
static void
wait_for_others(struct tp_run *run)
{
    struct tp_remote *r = run->remote;
    tp_ns deadline = TP_CLOCK_FOREVER;
    uint32_t missing = 0;

    while (!all_are_done(r->world, &missing) || r->under_way != 0) {
        (void)tp_remote_serve(r);
        if (atomic_load(&run->status) != TELPHER_OK && deadline == TP_CLOCK_FOREVER) {
            deadline = tp_clock_deadline(run->params.timeout_ns);
        }
        if (tp_clock_passed(deadline)) {
            tp_error("rma", "%s: process %u has not ended; it is left behind",
                     run->kernel->name, missing);
            r->world->broken = true;
            return;
        }
        if (!all_are_done(r->world, &missing) || r->under_way != 0) {
            if (telpher_progress_wait(r->world->ctx, NAP) != TELPHER_OK) {
                tp_quiet_look(r);
            }
            tp_remote_look_for_lost(r);
        }
    }
}

void
tp_remote_end(struct tp_run *run)
{
    struct tp_remote *r = run->remote;

    tp_mutex_lock(&r->role);
    while (atomic_load(&r->head) != atomic_load(&r->tail)) {
        (void)tp_remote_serve(r);
        if (atomic_load(&r->stalled)) { /* for room in another process */
            telpher_progress_wait(r->world->ctx, NAP);
            tp_remote_look_for_lost(r);
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
