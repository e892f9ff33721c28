/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that never take the program's signals, mutexes that know their owner, and
 * conditions on the monotonic clock.
 */
#ifndef TELPHER_BASE_OS_THREAD_H
#define TELPHER_BASE_OS_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/compiler.h"
#include "base/os/clock.h"

/**
 * Starts a thread with all signals blocked except synchronous faults (SIGSEGV and the
 * like). @p name (15 characters are used) is shown by debuggers and traces. @p arg is
 * passed to the thread; join it with tp_thread_join().
 *
 * @return TELPHER_OK, or TELPHER_ERR_LIMIT if the system has no thread left.
 */
telpher_status tp_thread_create(pthread_t *ret_thread, const char *name,
                                void *(*run)(void *arg), void *arg);

/** Waits for the end of @p thread, which must be neither self nor joined already. */
void tp_thread_join(pthread_t thread);

/** Kernel id of the calling thread; cached. */
int tp_thread_id(void);

/** Non-recursive mutex. */
struct tp_mutex {
    pthread_mutex_t mutex;
    _Atomic uintptr_t owner; /* pthread_self(), 0 = free; holds true for oneself only */
};

#define TP_MUTEX_INIT                                                                  \
    {                                                                                  \
        PTHREAD_MUTEX_INITIALIZER, 0                                                   \
    }

void tp_mutex_init(struct tp_mutex *mutex);
void tp_mutex_fini(struct tp_mutex *mutex);
void tp_mutex_lock(struct tp_mutex *mutex);
bool tp_mutex_trylock(struct tp_mutex *mutex);
void tp_mutex_unlock(struct tp_mutex *mutex);

/** True if the calling thread holds @p mutex. */
bool tp_mutex_held(const struct tp_mutex *mutex);

/** First line of a function that needs the lock; nothing in release builds. */
#ifdef NDEBUG
#define tp_assert_locked(mutex) ((void)(mutex))
#else
#define tp_assert_locked(mutex) tp_assert(tp_mutex_held(mutex))
#endif

/** Condition; waits are measured on the monotonic clock. */
struct tp_cond {
    pthread_cond_t cond;
};

void tp_cond_init(struct tp_cond *cond);
void tp_cond_fini(struct tp_cond *cond);
void tp_cond_signal(struct tp_cond *cond);
void tp_cond_broadcast(struct tp_cond *cond);

/**
 * Waits with @p mutex held, which is free meanwhile. May wake for no reason: test the
 * state in a loop.
 *
 * @return TELPHER_OK, or TELPHER_ERR_TIMEOUT once @p deadline has passed
 *         (TP_CLOCK_FOREVER: never).
 */
telpher_status tp_cond_wait(struct tp_cond *cond, struct tp_mutex *mutex,
                            tp_ns deadline);

#endif
