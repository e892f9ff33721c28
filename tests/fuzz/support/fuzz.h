/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of the fuzz targets. A target aborts when a property does not hold, so that the
 * fuzzer keeps the input; sanitizers see the rest.
 */
#ifndef TELPHER_TESTS_FUZZ_H
#define TELPHER_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static _Noreturn inline void
fuzz_broken(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

/** A property that must hold for every input. */
#define require(condition)                                                             \
    ((condition) ? (void)0 : fuzz_broken(#condition, __FILE__, __LINE__))

/** Copy in a heap block of just that size: a sanitizer sees any byte read beyond. */
static inline void *
exact_copy(const void *data, size_t len)
{
    void *copy = malloc(len != 0 ? len : 1);

    require(copy != NULL);
    if (len != 0) {
        memcpy(copy, data, len);
    }
    return copy;
}

/** Copy with a 0 byte behind: for parsers of strings. */
static inline char *
string_copy(const uint8_t *data, size_t len)
{
    char *copy = malloc(len + 1);

    require(copy != NULL);
    memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}

/** Reads every byte, so that a sanitizer sees a pointer or length that is wrong. */
static inline void
touch(const void *data, size_t len)
{
    const volatile uint8_t *p = data;

    for (size_t i = 0; i < len; i++) {
        (void)p[i];
    }
}

#endif
