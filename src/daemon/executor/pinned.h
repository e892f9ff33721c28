/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that drivers of discrete devices are told of (pinned.c). */
#ifndef TELPHER_DAEMON_EXECUTOR_PINNED_H
#define TELPHER_DAEMON_EXECUTOR_PINNED_H

#include "base/container/budget.h"
#include "base/container/list.h"
#include "base/os/thread.h"
#include "daemon/executor/objects/objects.h"

struct tp_exec;
struct tp_exec_context;
struct tp_exec_region;

/** What a session has pinned. */
struct tp_exec_pins {
    struct tp_list contexts; /**< those with a discrete device; reader only */
    struct tp_budget shared; /**< [bytes] of the client's memory */
    struct tp_mutex lock; /**< a leaf; not held during calls of the driver */
    struct tp_list all; /**< pins; lock */
    struct tp_list dead; /**< regions that nothing uses, for the reader; lock */
};

void tp_exec_pins_init(struct tp_exec *x);
/** A context was made: pins for it, if a device of it is discrete. Reader only. */
void tp_exec_pin_context(struct tp_exec_context *c);
/** No more is pinned for a context. Reader only. */
void tp_exec_pin_no_more(struct tp_exec_context *c);
/** Ends the pins of a context of which nothing is under way. Any thread, not under locks. */
void tp_exec_unpin_context(struct tp_exec_context *c);
/** The client shares memory: pins it for all contexts. Reader only. */
void tp_exec_pin_region(struct tp_exec *x, struct tp_exec_region *r);
/** Ends the pins of memory that is in no copy. Reader only, not under locks. */
void tp_exec_unpin_region(struct tp_exec *x, const struct tp_exec_region *r);

#endif
