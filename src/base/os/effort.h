/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts a thread's allocations and waits for locks, so that tests can require that a path
 * has none. Counted in debug builds only.
 */
#ifndef TELPHER_BASE_OS_EFFORT_H
#define TELPHER_BASE_OS_EFFORT_H

#include <stdint.h>

struct tp_effort {
    uint64_t allocations; /**< blocks asked for, moved ones too */
    uint64_t locks; /**< mutexes taken */
    uint64_t contended; /**< of these: had to wait */
    uint64_t held; /**< mutexes that the thread holds now */
};

#ifdef NDEBUG
#define TP_EFFORT_COUNTED 0
#define tp_effort_count(what) ((void)0)
#define tp_effort_uncount(what) ((void)0)
#else
#define TP_EFFORT_COUNTED 1
/** The calling thread's. */
extern _Thread_local struct tp_effort tp_effort;
#define tp_effort_count(what) ((void)tp_effort.what++)
#define tp_effort_uncount(what) ((void)tp_effort.what--)
#endif

#endif
