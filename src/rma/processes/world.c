/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of processes: joining it, and a launch's part of it. Between launches no
 * thread progresses the context; messages that arrive then wait in it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <telpher/server.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/os/thread.h"
#include "rma/processes/remote.h"

enum { WORLDS_MAX = 64 };

/* Worlds of this process, by context. */
static struct tp_mutex lock = TP_MUTEX_INIT;
static struct tp_rma_world *worlds[WORLDS_MAX];
static struct telpher_context *own_context; /* of the launcher's job, until exit */
static pid_t own_pid;

/* ---- children ---- */

/*
 * Handles fork() in a kernel. The child has one thread and shares its parent's
 * connections, which it must not use: in the child the launch has failed, and no lock
 * is held.
 */
static void
in_child(void)
{
    for (size_t i = 0; i < WORLDS_MAX; i++) {
        struct tp_rma_world *w = worlds[i];

        if (w != NULL) {
            atomic_store(&w->forked, true);
            if (w->run != NULL) {
                tp_rma_run_forked(w->run);
            }
        }
    }
    tp_mutex_init(&lock);
}

static void
watch_for_children(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

/* ---- joining ---- */

static bool
has_launcher(void)
{
    const char *root = telpher_config_get("ROOT"), *size = telpher_config_get("SIZE");

    if (root != NULL && root[0] != '\0' && size != NULL && strcmp(size, "1") == 0) {
        return false; /* a job of one process needs no context */
    }
    return telpher_is_launched() != 0;
}

/* The launcher's job: a process joins it once, and leaves it at exit. */
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

/* Handles exit() in a kernel: other processes see a death, and no thread here may
 * use what the libraries' destructors free. */
static bool
is_in_use(void)
{
    bool used = false;

    for (size_t i = 0; i < WORLDS_MAX; i++) {
        const struct tp_rma_world *w = worlds[i];

        if (w != NULL && w->run != NULL && !atomic_load(&w->forked)) {
            tp_rma_remote_seize(w->run->remote);
            used = used || w->ctx == own_context;
        }
    }
    return used;
}

static void leave(void) __attribute__((destructor));

static void
leave(void)
{
    if (!is_in_use() && own_context != NULL && own_pid == getpid()) {
        telpher_context_destroy(own_context);
        own_context = NULL;
    }
}

static void
world_free(struct tp_rma_world *w)
{
    for (uint32_t i = 0; w->processes != NULL && i < w->count; i++) {
        tp_free(w->processes[i].table);
        tp_free(w->processes[i].addresses[0]);
        tp_free(w->processes[i].addresses[1]);
    }
    tp_free(w->processes);
    tp_free(w);
}

/* Ends with its context: hellos of the next launch are kept between jobs. */
static void
world_end(void *user)
{
    struct tp_rma_world *w = user;

    tp_mutex_lock(&lock);
    for (size_t i = 0; i < WORLDS_MAX; i++) {
        worlds[i] = worlds[i] == w ? NULL : worlds[i];
    }
    tp_mutex_unlock(&lock);
    world_free(w);
}

static struct tp_rma_world *
world_make(telpher_context *ctx)
{
    struct tp_rma_world *w = tp_zalloc(sizeof(*w), "processes");

    if (w == NULL) {
        return NULL;
    }
    w->ctx = ctx;
    w->process = telpher_context_rank(ctx);
    w->count = telpher_context_size(ctx);
    w->processes = tp_alloc_array(w->count, sizeof(*w->processes), "processes");
    if (w->processes == NULL || tp_rma_receive_start(w) != TELPHER_OK ||
        telpher_context_at_end(ctx, world_end, w) != TELPHER_OK) {
        world_free(w);
        return NULL;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        size_t most = telpher_msg_params_max(ctx, i) - sizeof(telpher_rma_command);

        w->processes[i].inline_max = TP_MIN(most, (size_t)TP_RMA_INLINE_MAX);
    }
    return w;
}

/* The lock is held. */
static telpher_status
find_world(telpher_context *ctx, struct tp_rma_world **ret_world)
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

/* The lock is held. *ret_world is NULL if this process is alone. */
static telpher_status
open_locked(telpher_context *ctx, struct tp_rma_world **ret_world, telpher_error *err)
{
    telpher_status status;

    *ret_world = NULL;
    if (ctx == NULL && has_launcher()) {
        status = join(&ctx, err);
        if (status != TELPHER_OK) {
            return status;
        }
    }
    if (ctx == NULL || telpher_context_size(ctx) == 1) {
        return TELPHER_OK;
    }
    status = find_world(ctx, ret_world);
    return status == TELPHER_OK
               ? status
               : tp_rma_error_set(err, status, "cannot join the job of processes: %s",
                                  telpher_status_text(status));
}

telpher_status
tp_rma_world_open(telpher_context *ctx, struct tp_rma_world **ret_world,
                  telpher_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    telpher_status status;

    pthread_once(&once, watch_for_children);
    tp_mutex_lock(&lock);
    status = open_locked(ctx, ret_world, err);
    tp_mutex_unlock(&lock);
    return status;
}

/* ---- state of a launch ---- */

telpher_status
tp_rma_remote_create(struct tp_rma_run *run, struct tp_rma_world *w)
{
    struct tp_rma_remote *r = tp_zalloc(sizeof(*r), "processes");

    if (r == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    run->remote = r;
    r->run = run;
    r->world = w;
    r->next_group = run->device_count / w->count + 1;
    tp_mutex_init(&r->role);
    tp_list_init(&r->arrivals);
    r->ring = tp_alloc_aligned(64, TP_RMA_RING * sizeof(*r->ring), "commands");
    if (r->ring == NULL || tp_rma_deadlock_create(r) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memset(r->ring, 0, TP_RMA_RING * sizeof(*r->ring));
    for (uint64_t i = 0; i < TP_RMA_RING; i++) {
        r->ring[i].turn = i;
    }
    return TELPHER_OK;
}

void
tp_rma_remote_destroy(struct tp_rma_run *run)
{
    struct tp_rma_remote *r = run->remote;

    if (r == NULL) {
        return;
    }
    if (r->world->run == run) {
        r->world->run = NULL;
    }
    tp_rma_spread_forget(r);
    tp_free(r->ring);
    tp_free(r->gets);
    tp_free(r->quiet);
    tp_free(r);
    run->remote = NULL;
}
