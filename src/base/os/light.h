/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Light threads: functions that may wait, each on a fiber of its own, all on one thread.
 * tp_lights_run() is called on that thread's own stack; a light thread runs until it waits.
 */
#ifndef TELPHER_BASE_OS_LIGHT_H
#define TELPHER_BASE_OS_LIGHT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/container/list.h"
#include "base/os/fiber.h"

struct tp_light {
    struct tp_list link; /**< lights->free, lights->ready, or none: it waits or runs */
    struct tp_fiber fiber;
    void (*run)(void *arg);
    void *arg;
    void *owner; /**< the caller's */
    bool busy; /**< between start and end */
};

struct tp_lights {
    struct tp_stacks stacks;
    struct tp_light *all;
    size_t count;
    struct tp_list free, ready;
    struct tp_light *current; /**< NULL: the thread's own stack */
    struct tp_fiber scheduler;
};

/** @return OK, NO_MEMORY. tp_lights_fini() may be called after either */
telpher_status tp_lights_init(struct tp_lights *lights, size_t count,
                              size_t stack_bytes);
void tp_lights_fini(struct tp_lights *lights);

/** Prepares a light thread; tp_lights_run() starts it. @return NULL: none is free */
struct tp_light *tp_lights_start(struct tp_lights *lights, void (*run)(void *arg),
                                 void *arg);
/** The same with a light thread and a stack of the caller's, whose guard is included; both stay
 *  valid until it has ended. */
void tp_lights_start_own(struct tp_lights *lights, struct tp_light *light,
                         const struct tp_stacks *stack, void (*run)(void *arg),
                         void *arg);
/** Runs the first light thread that is ready until it waits or ends. @return false: none */
bool tp_lights_run(struct tp_lights *lights);
/** As tp_lights_run(), for a light thread that waits. */
void tp_lights_resume(struct tp_lights *lights, struct tp_light *light);
/** Makes a light thread that waits ready. */
void tp_lights_wake(struct tp_lights *lights, struct tp_light *light);
/** The current light thread waits until tp_lights_wake(). */
void tp_lights_suspend(struct tp_lights *lights);

#endif
