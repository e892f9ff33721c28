/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtelpher-rma-check.a: the functions that compilers call in kernels compiled with
 * -fsanitize=thread. They pass every access to telpher_rma_seen(). Programs that use it
 * are linked without that option, because the thread sanitizer's own library defines
 * the same names.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <telpher/rma/host.h>

/* Defines a function under the C name hook##name and the symbol `name`: compilers declare
 * these symbols as built-in functions, with types of their own. */
#define HOOK(result, name, ...)                                                        \
    result hook##name(__VA_ARGS__) __asm__(#name)                                      \
        __attribute__((visibility("default")));                                        \
    result hook##name(__VA_ARGS__)
#define CODE __builtin_return_address(0)

/* Called by every instrumented source before main(). */
HOOK(void, __tsan_init, void) { telpher_rma_seen(NULL, 0, 0, 0, NULL); }

HOOK(void, __tsan_func_entry, void *caller) { (void)caller; }

HOOK(void, __tsan_func_exit, void) {}

#define PLAIN(name, len, write)                                                        \
    HOOK(void, name, void *at) { telpher_rma_seen(at, len, write, 0, CODE); }
#define SIZED(len)                                                                     \
    PLAIN(__tsan_read##len, len, 0)                                                    \
    PLAIN(__tsan_write##len, len, 1)                                                   \
    PLAIN(__tsan_volatile_read##len, len, 0)                                           \
    PLAIN(__tsan_volatile_write##len, len, 1)
#define UNALIGNED(len)                                                                 \
    PLAIN(__tsan_unaligned_read##len, len, 0)                                          \
    PLAIN(__tsan_unaligned_write##len, len, 1)
SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

HOOK(void, __tsan_read_range, void *at, size_t len)
{
    telpher_rma_seen(at, len, 0, 0, CODE);
}

HOOK(void, __tsan_write_range, void *at, size_t len)
{
    telpher_rma_seen(at, len, 1, 0, CODE);
}

/* Compilers with names of their own for these: clang 15 and later. */
HOOK(void *, __tsan_memcpy, void *dst, const void *src, size_t len)
{
    telpher_rma_seen(src, len, 0, 0, CODE);
    telpher_rma_seen(dst, len, 1, 0, CODE);
    return memcpy(dst, src, len);
}

HOOK(void *, __tsan_memmove, void *dst, const void *src, size_t len)
{
    telpher_rma_seen(src, len, 0, 0, CODE);
    telpher_rma_seen(dst, len, 1, 0, CODE);
    return memmove(dst, src, len);
}

HOOK(void *, __tsan_memset, void *dst, int value, size_t len)
{
    telpher_rma_seen(dst, len, 1, 0, CODE);
    return memset(dst, value, len);
}

/* Pointers to tables of C++ objects, which do not change. */
HOOK(void, __tsan_vptr_read, void **at) { (void)at; }

HOOK(void, __tsan_vptr_update, void **at, void *value) { (void)value; }

HOOK(void, __tsan_atomic_thread_fence, int order)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

HOOK(void, __tsan_atomic_signal_fence, int order)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* All in one order, as strong as any that was asked for. */
#define FETCH(bits, type, what)                                                        \
    HOOK(type, __tsan_atomic##bits##_fetch_##what, volatile type *at, type value,      \
         int order)                                                                    \
    {                                                                                  \
        (void)order;                                                                   \
        telpher_rma_seen((const void *)(uintptr_t)at, sizeof(type), 1, 1, CODE);       \
        return __atomic_fetch_##what(at, value, __ATOMIC_SEQ_CST);                     \
    }
#define COMPARE(bits, type, which)                                                     \
    HOOK(int, __tsan_atomic##bits##_compare_exchange_##which, volatile type *at,       \
         type *expected, type value, int order, int order_else)                        \
    {                                                                                  \
        (void)order;                                                                   \
        (void)order_else;                                                              \
        telpher_rma_seen((const void *)(uintptr_t)at, sizeof(type), 1, 1, CODE);       \
        return __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_SEQ_CST,   \
                                           __ATOMIC_SEQ_CST);                          \
    }
#define ATOMIC(bits, type)                                                             \
    HOOK(type, __tsan_atomic##bits##_load, const volatile type *at, int order)         \
    {                                                                                  \
        (void)order;                                                                   \
        telpher_rma_seen((const void *)(uintptr_t)at, sizeof(type), 0, 1, CODE);       \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                  \
    }                                                                                  \
    HOOK(void, __tsan_atomic##bits##_store, volatile type *at, type value, int order)  \
    {                                                                                  \
        (void)order;                                                                   \
        telpher_rma_seen((const void *)(uintptr_t)at, sizeof(type), 1, 1, CODE);       \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                 \
    }                                                                                  \
    HOOK(type, __tsan_atomic##bits##_exchange, volatile type *at, type value,          \
         int order)                                                                    \
    {                                                                                  \
        (void)order;                                                                   \
        telpher_rma_seen((const void *)(uintptr_t)at, sizeof(type), 1, 1, CODE);       \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                       \
    }                                                                                  \
    HOOK(type, __tsan_atomic##bits##_compare_exchange_val, volatile type *at,          \
         type expected, type value, int order, int order_else)                         \
    {                                                                                  \
        (void)order;                                                                   \
        (void)order_else;                                                              \
        telpher_rma_seen((const void *)(uintptr_t)at, sizeof(type), 1, 1, CODE);       \
        __atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_SEQ_CST,         \
                                    __ATOMIC_SEQ_CST);                                 \
        return expected;                                                               \
    }                                                                                  \
    COMPARE(bits, type, strong)                                                        \
    COMPARE(bits, type, weak)                                                          \
    FETCH(bits, type, add)                                                             \
    FETCH(bits, type, sub)                                                             \
    FETCH(bits, type, and)                                                             \
    FETCH(bits, type, or)                                                              \
    FETCH(bits, type, xor)                                                             \
    FETCH(bits, type, nand)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
