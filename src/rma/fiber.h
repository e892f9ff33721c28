/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Light threads: a stack and a place in the code. A thread runs one of them at a time, and
 * each stays with the thread that ran it first.
 *
 * Address and thread sanitizer and valgrind are told of every switch.
 */
#ifndef TP_RMA_FIBER_H
#define TP_RMA_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include <telpher/status.h>

struct tp_rma_fiber {
    void *sp; /* where it goes on; with ucontext, its ucontext_t */
    void (*run)(void *arg);
    void *arg;
    struct tp_rma_fiber *back; /* the thread's own, to which run() returns */
    char *stack; /* lowest address; NULL = a thread's own */
    size_t stack_bytes;
    void *asan_fake, *tsan;
    unsigned valgrind;
};

/** Memory for the stacks of many fibers, each behind pages that nobody may touch; of very many,
 *  one in several. */
struct tp_rma_stacks {
    char *base;
    size_t count, each; /* [bytes] with the guard */
};

/** @return TELPHER_OK, TELPHER_ERR_NO_MEMORY (the system gives no more mappings either) */
telpher_status tp_rma_stacks_init(struct tp_rma_stacks *stacks, size_t count,
                                  size_t bytes);
void tp_rma_stacks_fini(struct tp_rma_stacks *stacks);

/** Makes @p self stand for the thread that calls. */
void tp_rma_fiber_init_thread(struct tp_rma_fiber *self);

/** Prepares @p fiber to run on stack @p index; nothing runs yet. */
void tp_rma_fiber_init(struct tp_rma_fiber *fiber, const struct tp_rma_stacks *stacks,
                       size_t index, void (*run)(void *arg), void *arg);

/** Frees what the tools hold of a fiber; not of the one that runs. */
void tp_rma_fiber_fini(struct tp_rma_fiber *fiber);

/** Goes on in @p to, from @p from, which runs. */
void tp_rma_fiber_switch(struct tp_rma_fiber *from, struct tp_rma_fiber *to);

/** True if @p at lies on the fiber's stack. */
bool tp_rma_fiber_owns(const struct tp_rma_fiber *fiber, const void *at);
/** True if @p at lies where the fiber's stack was used up. */
bool tp_rma_fiber_guards(const struct tp_rma_fiber *fiber, const void *at);

#endif
