/* SPDX-License-Identifier: Apache-2.0 */
/* Small macros for all modules, and the assertion for broken invariants. */
#ifndef TELPHER_BASE_COMPILER_H
#define TELPHER_BASE_COMPILER_H

#include <stddef.h>

#define tp_likely(x) __builtin_expect(!!(x), 1)
#define tp_unlikely(x) __builtin_expect(!!(x), 0)

/** Lets the compiler check format string @p fmt_arg against arguments from @p first. */
#define TP_PRINTF(fmt_arg, first) __attribute__((format(printf, fmt_arg, first)))
#define TP_MUST_CHECK __attribute__((warn_unused_result))

#define TP_ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))
#define TP_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TP_MAX(a, b) ((a) > (b) ? (a) : (b))

/** Requests the cache line at @p ptr for writing. Without its option for prefetchw, which is a
 *  no-op on processors that lack it, the compiler would request the line for reading. */
static inline void
tp_prefetch_write(const void *ptr)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)ptr));
#else
    __builtin_prefetch(ptr, 1);
#endif
}

/** The object of @p type that holds @p member at address @p ptr. */
#define tp_container_of(ptr, type, member)                                             \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/**
 * Aborts with one line on stderr if an internal invariant is broken. Present in every
 * build. Never for input of a peer, a file or a user: that is an error, not a bug.
 */
#define tp_assert(cond)                                                                \
    (tp_likely(cond) ? (void)0 : tp_assert_failed(#cond, __FILE__, __LINE__, __func__))

_Noreturn void tp_assert_failed(const char *cond, const char *file, int line,
                                const char *func);

#endif
