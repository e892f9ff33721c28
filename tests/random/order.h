/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order of the commands of a plan: which commands a command comes after in every execution,
 * and what must be added before conflicting commands.
 */
#ifndef TELPHER_TESTS_RANDOM_ORDER_H
#define TELPHER_TESTS_RANDOM_ORDER_H

#include "plan.h"

/** A set of commands, by their index. */
struct op_set {
    uint64_t words[PLAN_OPS / 64];
};

static inline bool
set_has(const struct op_set *set, int i)
{
    return (set->words[i / 64] >> i % 64 & 1) != 0;
}

static inline void
set_add(struct op_set *set, int i)
{
    set->words[i / 64] |= UINT64_C(1) << i % 64;
}

static inline void
set_unite(struct op_set *set, const struct op_set *other)
{
    for (int i = 0; i < PLAN_OPS / 64; i++) {
        set->words[i] |= other->words[i];
    }
}

/** State of a command while planning. */
struct known {
    struct op_set before; /**< have ended with success before it starts, if it starts */
    struct op_set behind; /**< everything that it waits for, directly or not */
    struct op_set direct; /**< what it waits for itself, implicitly or by wait list */
    bool poisoned; /**< a user event that it waits for fails */
};

/** State of planning. */
struct planner {
    struct plan *plan;
    struct plan_options options;
    uint64_t rng; /**< of the present intent */
    int intent;
    struct known known[PLAN_OPS];
    struct op_set done; /**< have ended when the next command is enqueued */
    struct op_set set; /**< user events that have their status */
    int last
        [PLAN_QUEUES]; /**< last command of an in-order queue; else its last barrier */
    int map[PLAN_MEMS]; /**< OP_MAP that is still mapped; -1: none */
    bool full; /**< no room for more commands */
    bool wants_object; /**< of memory: pointers alone will not do */
};

/** A memory object that a command uses. */
struct access {
    int mem;
    bool writes;
};

/** The host's use of a command. */
enum host_use {
    HOST_NOTHING,
    HOST_BLOCKS, /**< the call returns when the command has ended */
    HOST_READS, /**< it uses the result, so the command must not fail; may block as well */
};

/**
 * Makes room in the order for a command of queue @p queue: adds what must come before it, and
 * gives it a wait list.
 * @return the command, zeroed but for intent, queue, wait list and event; NULL: no room.
 *         order_enter() enters it when its kind is known.
 */
struct op *order_command(struct planner *p, unsigned queue,
                         const struct access *accesses, unsigned count,
                         enum host_use use);
/** A marker or barrier that waits for all of its queue. @return its index; -1: no room */
int order_whole_queue(struct planner *p, enum op_kind kind, unsigned queue);
/** Enters a complete command into the order. */
void order_enter(struct planner *p, struct op *op);
/** Adds a host call that is not a command. @return NULL: no room */
struct op *order_host_op(struct planner *p, enum op_kind kind, unsigned context);
/** The host waits for a command. */
void order_wait_for(struct planner *p, int index);
/** Sets a user event, after what could make a driver stumble over its failure has ended. */
void order_set_user_event(struct planner *p, int index);
/** The host waits for all commands of a queue. */
void order_finish(struct planner *p, unsigned queue);
/** Ends a map of a memory object. */
void order_unmap(struct planner *p, int mem, unsigned queue);

#endif
