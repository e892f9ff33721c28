/* SPDX-License-Identifier: Apache-2.0 */
/* Pins host memory for the drivers of discrete devices. */
#ifndef TELPHER_DAEMON_EXECUTOR_PINNED_H
#define TELPHER_DAEMON_EXECUTOR_PINNED_H

#include "base/container/budget.h"
#include "base/container/list.h"
#include "base/os/thread.h"
#include "daemon/executor/objects/objects.h"

struct tp_exec;
struct tp_exec_context;
struct tp_exec_region;

/** Pinned memory of a session. */
struct tp_exec_pins {
    struct tp_list contexts; /**< those with a discrete device; reader only */
    struct tp_budget shared; /**< [bytes] of the client's memory */
    struct tp_mutex lock; /**< a leaf; not held during driver calls */
    struct tp_list all; /**< pins; lock */
    struct tp_list dead; /**< unused regions for the reader to free; lock */
};

void tp_exec_pins_init(struct tp_exec *x);
/** Pins memory for a new context if one of its devices is discrete. Reader only. */
void tp_exec_pin_context(struct tp_exec_context *c);
/** Stops further pins for a context. Reader only. */
void tp_exec_pin_no_more(struct tp_exec_context *c);
/** Unpins all memory of an idle context. Any thread, without locks. */
void tp_exec_unpin_context(struct tp_exec_context *c);
/** Pins a new shared region for all contexts. Reader only. */
void tp_exec_pin_region(struct tp_exec *x, struct tp_exec_region *r);
/** Unpins a region that no copy uses. Reader only, without locks. */
void tp_exec_unpin_region(struct tp_exec *x, const struct tp_exec_region *r);

#endif
