/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports a kernel that crashes, in the check modes: which rank and lane, after which
 * call, and whether its stack was exhausted. The process then ends as it would have
 * without the report.
 *
 * The handler is installed during launches only, if the signal has no other handler. It
 * runs on an alternate stack, because a lane's stack may be full.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "rma/rma_int.h"

enum { ALTERNATE_BYTES = 64 << 10 };

static const int watched[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static struct tp_mutex lock = TP_MUTEX_INIT;
static unsigned launches; /* under way, of those that have a check on */
static bool is_set[TP_ARRAY_LEN(watched)];

/* The kernel's lane has the processor, and locks nothing here: text is formatted as usual. */
static void
say(int number, const void *at)
{
    const struct tp_rma_lane *lane = (struct tp_rma_lane *)(void *)telpher_rma_here();
    const char *last;
    char line[600];
    int len;

    if (lane == NULL) {
        return;
    }
    last = atomic_load_explicit(&lane->rank->last, memory_order_relaxed);
    len = snprintf(line, sizeof(line), "telpher[%d] error rma: %s: rank %u lane %u ",
                   (int)getpid(), lane->rank->run->kernel->name, lane->rank->index,
                   lane->api.lane);
    if (number == SIGABRT) { /* assert(), an exception that leaves the kernel */
        len += snprintf(line + len, sizeof(line) - (size_t)len, "aborts");
    } else if (tp_fiber_guards(&lane->fiber, at)) {
        len += snprintf(line + len, sizeof(line) - (size_t)len,
                        "has used up its stack of %zu bytes (TELPHER_RMA_STACK)",
                        lane->fiber.stack_bytes);
    } else {
        len += snprintf(line + len, sizeof(line) - (size_t)len, "crashes (%s, at %p)",
                        number == SIGFPE   ? "arithmetic"
                        : number == SIGILL ? "no instruction"
                                           : "memory",
                        at);
    }
    len += snprintf(line + len, sizeof(line) - (size_t)len, ", after %.300s\n",
                    last != NULL ? last : "no call");
    if (write(STDERR_FILENO, line, (size_t)len) < 0) {
        return; /* without a file descriptor for the report */
    }
}

static void
handle(int number, siginfo_t *info, void *context)
{
    say(number, info->si_addr);
    signal(number, SIG_DFL); /* it happens again, and ends the process */
}

static void
set_handlers(void)
{
    struct sigaction own = {.sa_sigaction = handle,
                            .sa_flags = SA_SIGINFO | SA_ONSTACK};

    for (size_t i = 0; i < TP_ARRAY_LEN(watched); i++) {
        struct sigaction old;

        is_set[i] = sigaction(watched[i], NULL, &old) == 0 &&
                    (old.sa_flags & SA_SIGINFO) == 0 && old.sa_handler == SIG_DFL &&
                    sigaction(watched[i], &own, NULL) == 0;
    }
}

void
tp_rma_crash_watch(const struct tp_rma_run *run)
{
    if (run->params.check != 0) {
        tp_mutex_lock(&lock);
        if (launches++ == 0) {
            set_handlers();
        }
        tp_mutex_unlock(&lock);
    }
}

void
tp_rma_crash_forget(const struct tp_rma_run *run)
{
    if (run->params.check == 0) {
        return;
    }
    tp_mutex_lock(&lock);
    if (--launches == 0) {
        for (size_t i = 0; i < TP_ARRAY_LEN(watched); i++) {
            struct sigaction now;

            if (is_set[i] && sigaction(watched[i], NULL, &now) == 0 &&
                now.sa_sigaction == handle) { /* otherwise another handler was
                                             * installed since */
                signal(watched[i], SIG_DFL);
            }
        }
    }
    tp_mutex_unlock(&lock);
}

void
tp_rma_crash_enter(const struct tp_rma_run *run, struct tp_rma_crash_stack *stack)
{
    stack_t own = {.ss_size = ALTERNATE_BYTES};

    stack->memory =
        run->params.check != 0 ? tp_malloc(ALTERNATE_BYTES, "signal stack") : NULL;
    own.ss_sp = stack->memory;
    if (stack->memory != NULL && sigaltstack(&own, &stack->before) != 0) {
        tp_free(stack->memory);
        stack->memory = NULL;
    }
}

void
tp_rma_crash_leave(struct tp_rma_crash_stack *stack)
{
    if (stack->memory != NULL) {
        sigaltstack(&stack->before, NULL);
        tp_free(stack->memory);
        stack->memory = NULL;
    }
}
