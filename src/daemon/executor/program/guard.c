/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines compilers: a thread of the executor gets their calls that name files, by seccomp
 * user notification, and answers them. It allocates nothing, since the compiler's thread
 * may hold the allocator's lock in such a call.
 */
#include "daemon/executor/program/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/container/list.h"
#include "base/os/thread.h"
#include "base/text/include.h"
#include "base/trace/log.h"
#include "daemon/executor/program/guard_int.h"

/* A confined thread, and those that it started, which may outlive the build. */
struct watch {
    struct tp_list link; /* of the guard */
    struct tp_exec_guard *guard;
    int listener; /* -1: not confined */
    struct tp_exec_files *files; /* NULL: the build is over */
    bool gone; /* no thread is left */
    bool over; /* the build no longer looks at it */
    /* for the build's two threads, under the guard's lock */
    bool begun;
    void (*fn)(void *arg);
    void *arg;
};

struct tp_exec_guard {
    struct tp_exec_paths *paths;
    int epoll;
    struct tp_mutex lock; /* of all that follows */
    struct tp_cond changed;
    struct tp_list watches;
    pthread_t thread;
    struct tp_exec_call call; /* the answering thread's */
};

/* ---- the answering thread ---- */

/* Makes names in the present folder, as compilers spell it, relative. */
static void
drop_present_folder(char *name)
{
    const size_t len = strlen(TP_EXEC_PRESENT_FOLDER);

    if (strncmp(name, TP_EXEC_PRESENT_FOLDER, len) == 0 && name[len] == '\0') {
        strcpy(name, ".");
    } else if (strncmp(name, TP_EXEC_PRESENT_FOLDER "/", len + 1) == 0) {
        memmove(name, name + len + 1, strlen(name + len + 1) + 1);
    }
}

static void
handle(struct watch *w)
{
    struct tp_exec_call *call = &w->guard->call;
    enum tp_exec_seen seen = TP_EXEC_SEEN_FOREIGN;
    struct seccomp_notif req;
    int fd = -1;

    memset(&req, 0, sizeof(req));
    if (ioctl(w->listener, SECCOMP_IOCTL_NOTIF_RECV, &req) != 0) {
        return;
    }
    if (!tp_exec_call_read(&req, call)) {
        tp_exec_call_continue(w->listener, &req);
        return;
    }
    if (call->kind == TP_EXEC_CALL_GETCWD) {
        tp_exec_call_tell_folder(w->listener, &req, call);
        return;
    }
    if (call->name[0] == '\0') {
        tp_exec_call_continue(w->listener, &req);
        return;
    }
    if (w->files != NULL && !tp_exec_paths_own(w->guard->paths, call->name) &&
        (call->name[0] == '/' || call->folder < 0)) {
        char spelled[sizeof(call->name)];

        strcpy(spelled, call->name);
        tp_include_clean(call->name);
        drop_present_folder(call->name);
        seen = tp_exec_files_find(w->files, call->name, &fd);
        if (seen == TP_EXEC_SEEN_FOREIGN) {
            strcpy(call->name, spelled);
        }
    }
    if (seen == TP_EXEC_SEEN_FOREIGN && tp_exec_paths_allow(w->guard->paths, call)) {
        tp_exec_call_continue(w->listener, &req);
    } else {
        tp_exec_call_answer(w->listener, &req, call, seen, fd);
    }
}

static void
on_event(struct tp_exec_guard *g, const struct epoll_event *event)
{
    struct watch *w = event->data.ptr;

    if ((event->events & EPOLLIN) != 0) {
        handle(w);
    } else if ((event->events & EPOLLHUP) != 0) {
        (void)epoll_ctl(g->epoll, EPOLL_CTL_DEL, w->listener, NULL);
        w->gone = true; /* freed by the next build */
    }
}

static void *
answer_calls(void *arg)
{
    struct tp_exec_guard *g = arg;
    struct epoll_event event;

    for (;;) {
        int n = epoll_wait(g->epoll, &event, 1, -1);

        if (n < 0 && errno != EINTR) {
            return NULL;
        }
        tp_mutex_lock(&g->lock);
        if (n > 0) {
            on_event(g, &event);
        }
        tp_mutex_unlock(&g->lock);
    }
}

/* ---- builds ---- */

static void *
run_confined(void *arg)
{
    struct watch *w = arg;
    struct tp_exec_guard *g = w->guard;
    int listener = tp_exec_call_confine();

    tp_mutex_lock(&g->lock);
    w->listener = listener;
    w->begun = true;
    tp_cond_broadcast(&g->changed);
    tp_mutex_unlock(&g->lock);
    if (listener >= 0) {
        w->fn(w->arg);
    }
    return NULL;
}

static void
free_gone(struct tp_exec_guard *g)
{
    struct tp_list gone, *first;

    tp_list_init(&gone);
    tp_mutex_lock(&g->lock);
    tp_list_for_each_safe(pos, &g->watches) {
        const struct watch *w = tp_list_entry(pos, struct watch, link);

        if (w->gone && w->over) {
            tp_list_remove(pos);
            tp_list_push_back(&gone, pos);
        }
    }
    tp_mutex_unlock(&g->lock);
    while ((first = tp_list_pop_front(&gone)) != NULL) {
        struct watch *w = tp_list_entry(first, struct watch, link);

        if (w->listener >= 0) {
            (void)close(w->listener);
        }
        tp_free(w);
    }
}

/* Has the calls answered until the confined thread is done. Under the lock. */
static void
attend(struct watch *w)
{
    struct tp_exec_guard *g = w->guard;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = w};

    while (!w->begun) {
        (void)tp_cond_wait(&g->changed, &g->lock, TP_CLOCK_FOREVER);
    }
    if (w->listener >= 0) {
        (void)epoll_ctl(g->epoll, EPOLL_CTL_ADD, w->listener, &event);
    }
}

bool
tp_exec_guard_run(struct tp_exec_guard *g, struct tp_exec_files *files,
                  void (*fn)(void *arg), void *arg)
{
    struct watch *w;
    pthread_t thread;
    bool confined;

    free_gone(g);
    w = tp_zalloc(sizeof(*w), "guard");
    if (w == NULL) {
        return false;
    }
    *w = (struct watch){
        .guard = g, .listener = -1, .files = files, .fn = fn, .arg = arg};
    tp_mutex_lock(&g->lock);
    tp_list_push_back(&g->watches, &w->link);
    if (tp_thread_create(&thread, "compile", run_confined, w) == TELPHER_OK) {
        attend(w);
        tp_mutex_unlock(&g->lock);
        tp_thread_join(thread);
        tp_mutex_lock(&g->lock);
    }
    confined = w->listener >= 0;
    w->files = NULL;
    w->gone = w->gone || !confined;
    w->over = true;
    tp_mutex_unlock(&g->lock);
    return confined;
}

/* ---- life cycle ---- */

static void
do_nothing(void *arg)
{
}

static bool
works(struct tp_exec_guard *g)
{
    struct tp_exec_files *none = tp_exec_files_create(NULL, "", 0, "");
    bool confined = none != NULL && tp_exec_guard_run(g, none, do_nothing, NULL);

    tp_exec_files_unref(none);
    return confined;
}

struct tp_exec_guard *
tp_exec_guard_create(void)
{
    struct tp_exec_guard *g = tp_zalloc(sizeof(*g), "guard");

    if (g == NULL) {
        return NULL;
    }
    tp_mutex_init(&g->lock);
    tp_cond_init(&g->changed);
    tp_list_init(&g->watches);
    g->paths = tp_exec_paths_create();
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    /* the thread ends with the process: drivers' threads may be confined until then */
    if (g->paths == NULL || g->epoll < 0 ||
        tp_thread_create(&g->thread, "guard", answer_calls, g) != TELPHER_OK ||
        !works(g)) {
        return NULL; /* with its thread, if that runs: once in a process */
    }
    return g;
}
