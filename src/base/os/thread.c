/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, mutexes and conditions over pthreads. */
#include "base/os/thread.h"
#include "base/os/effort.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* A fault is delivered to the thread that made it, blocked or not, so leave those be. */
static void
fill_blocked_signals(sigset_t *set)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                 SIGTRAP, SIGSYS, SIGABRT};

    sigfillset(set);
    for (size_t i = 0; i < TP_ARRAY_LEN(faults); i++) {
        sigdelset(set, faults[i]);
    }
}

telpher_status
tp_thread_create(pthread_t *ret_thread, const char *name, void *(*run)(void *arg),
                 void *arg)
{
    char short_name[16];
    pthread_t thread;
    sigset_t blocked;
    sigset_t before;
    int rc;

    fill_blocked_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    rc = pthread_create(&thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        return TELPHER_ERR_LIMIT;
    }
    snprintf(short_name, sizeof(short_name), "%s", name);
    pthread_setname_np(thread, short_name);
    *ret_thread = thread;
    return TELPHER_OK;
}

void
tp_thread_join(pthread_t thread)
{
    tp_assert(pthread_join(thread, NULL) == 0);
}

static _Thread_local int cached_id;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* The thread that comes out of fork() in the child has a new id. */
static void
forget_id(void)
{
    cached_id = 0;
}

static void
watch_fork(void)
{
    pthread_atfork(NULL, NULL, forget_id);
}

int
tp_thread_id(void)
{
    if (tp_unlikely(cached_id == 0)) {
        pthread_once(&fork_once, watch_fork);
        cached_id = (int)gettid();
    }
    return cached_id;
}

void
tp_mutex_init(struct tp_mutex *mutex)
{
    tp_assert(pthread_mutex_init(&mutex->mutex, NULL) == 0);
    atomic_init(&mutex->owner, 0);
}

void
tp_mutex_fini(struct tp_mutex *mutex)
{
    tp_assert(pthread_mutex_destroy(&mutex->mutex) == 0);
}

static void
own(struct tp_mutex *mutex)
{
    tp_effort_count(held);
    atomic_store_explicit(&mutex->owner, (uintptr_t)pthread_self(),
                          memory_order_relaxed);
}

static void
disown(struct tp_mutex *mutex)
{
    tp_assert(tp_mutex_held(mutex));
    tp_effort_uncount(held);
    atomic_store_explicit(&mutex->owner, 0, memory_order_relaxed);
}

static void
lock(pthread_mutex_t *mutex)
{
    tp_effort_count(locks);
#if TP_EFFORT_COUNTED
    if (pthread_mutex_trylock(mutex) == 0) {
        return;
    }
    tp_effort_count(contended);
#endif
    tp_assert(pthread_mutex_lock(mutex) == 0);
}

void
tp_mutex_lock(struct tp_mutex *mutex)
{
    tp_assert(!tp_mutex_held(mutex)); /* otherwise this thread would wait for itself
                                       * forever */
    lock(&mutex->mutex);
    own(mutex);
}

bool
tp_mutex_trylock(struct tp_mutex *mutex)
{
    int rc = pthread_mutex_trylock(&mutex->mutex);

    tp_assert(rc == 0 || rc == EBUSY);
    if (rc == 0) {
        own(mutex);
    }
    return rc == 0;
}

void
tp_mutex_unlock(struct tp_mutex *mutex)
{
    disown(mutex);
    tp_assert(pthread_mutex_unlock(&mutex->mutex) == 0);
}

bool
tp_mutex_held(const struct tp_mutex *mutex)
{
    return atomic_load_explicit(&mutex->owner, memory_order_relaxed) ==
           (uintptr_t)pthread_self();
}

void
tp_cond_init(struct tp_cond *cond)
{
    pthread_condattr_t attr;

    tp_assert(pthread_condattr_init(&attr) == 0);
    tp_assert(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    tp_assert(pthread_cond_init(&cond->cond, &attr) == 0);
    pthread_condattr_destroy(&attr);
}

void
tp_cond_fini(struct tp_cond *cond)
{
    tp_assert(pthread_cond_destroy(&cond->cond) == 0);
}

void
tp_cond_signal(struct tp_cond *cond)
{
    pthread_cond_signal(&cond->cond);
}

void
tp_cond_broadcast(struct tp_cond *cond)
{
    pthread_cond_broadcast(&cond->cond);
}

telpher_status
tp_cond_wait(struct tp_cond *cond, struct tp_mutex *mutex, tp_ns deadline)
{
    struct timespec until = tp_clock_timespec(deadline);
    int rc;

    disown(mutex);
    if (deadline == TP_CLOCK_FOREVER) {
        rc = pthread_cond_wait(&cond->cond, &mutex->mutex);
    } else {
        rc = pthread_cond_timedwait(&cond->cond, &mutex->mutex, &until);
    }
    own(mutex);
    tp_assert(rc == 0 || rc == ETIMEDOUT);
    return rc == 0 ? TELPHER_OK : TELPHER_ERR_TIMEOUT;
}
