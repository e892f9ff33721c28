/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: cooperative threads with their own stacks. A thread runs one of them at a
 * time, and each stays with the thread that ran it first.
 *
 * Address and thread sanitizer and valgrind are notified of every switch.
 */
#ifndef TELPHER_BASE_OS_FIBER_H
#define TELPHER_BASE_OS_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include <telpher/status.h>

struct tp_fiber {
    void *sp; /* saved stack pointer; with ucontext, its ucontext_t */
    void (*run)(void *arg);
    void *arg;
    struct tp_fiber *back; /* the thread's own, to which run() returns */
    char *stack; /* lowest address; NULL = a thread's own */
    size_t stack_bytes;
    void *asan_fake, *tsan;
    unsigned valgrind;
};

/** Memory for the stacks of many fibers, each with a guard of inaccessible pages;
 *  with very many fibers several share one. */
struct tp_stacks {
    char *base;
    size_t count, each; /* [bytes] including the guard */
};

/** @return TELPHER_OK, TELPHER_ERR_NO_MEMORY (also: the limit of mappings is reached) */
telpher_status tp_stacks_init(struct tp_stacks *stacks, size_t count, size_t bytes);
void tp_stacks_fini(struct tp_stacks *stacks);

/** Makes @p self represent the calling thread. */
void tp_fiber_init_thread(struct tp_fiber *self);

/** Prepares @p fiber to run on stack @p index; does not start it. */
void tp_fiber_init(struct tp_fiber *fiber, const struct tp_stacks *stacks, size_t index,
                   void (*run)(void *arg), void *arg);

/** Frees the tools' state of a fiber that is not running. */
void tp_fiber_fini(struct tp_fiber *fiber);

/** Switches from @p from, which runs, to @p to. */
void tp_fiber_switch(struct tp_fiber *from, struct tp_fiber *to);

/** True if @p at lies on the fiber's stack. */
bool tp_fiber_owns(const struct tp_fiber *fiber, const void *at);
/** True if @p at lies in the guard of the fiber's stack: it overflowed. */
bool tp_fiber_guards(const struct tp_fiber *fiber, const void *at);

#endif
