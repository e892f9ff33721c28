/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap allocation: checked for overflow, named for the log line of a failure, and
 * failing on demand of tests. Free with tp_free() only.
 *
 * Every @p what is a static string ("conn", "frame buffer"). A failure is logged here,
 * so callers return TELPHER_ERR_NO_MEMORY without logging. Size 0 returns a unique
 * pointer.
 */
#ifndef TELPHER_BASE_ALLOC_H
#define TELPHER_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/** Gives @p size bytes, not initialised, or NULL. */
void *tp_malloc(size_t size, const char *what) TP_MUST_CHECK;

/** Gives @p size bytes of 0, or NULL. */
void *tp_zalloc(size_t size, const char *what) TP_MUST_CHECK;

/** Gives an array of 0 bytes; NULL too when count * size overflows. */
void *tp_alloc_array(size_t count, size_t size, const char *what) TP_MUST_CHECK;

/** Resizes; if it returns NULL the old block is unchanged. @p ptr may be NULL. */
void *tp_realloc(void *ptr, size_t size, const char *what) TP_MUST_CHECK;

/** As tp_realloc() for count * size bytes, with the overflow checked. */
void *tp_realloc_array(void *ptr, size_t count, size_t size,
                       const char *what) TP_MUST_CHECK;

/** Gives @p size bytes whose address is a multiple of @p align, a power of two. */
void *tp_alloc_aligned(size_t align, size_t size, const char *what) TP_MUST_CHECK;

/** Gives a copy of @p text. */
char *tp_strdup(const char *text, const char *what) TP_MUST_CHECK;

/** Gives a copy of the @p len bytes at @p src with a 0 byte appended. */
char *tp_strndup(const char *src, size_t len, const char *what) TP_MUST_CHECK;

/** Gives a copy of the @p len bytes at @p src. */
void *tp_memdup(const void *src, size_t len, const char *what) TP_MUST_CHECK;

/** Gives formatted text. */
char *tp_asprintf(const char *what, const char *fmt, ...) TP_PRINTF(2, 3) TP_MUST_CHECK;

/** Frees memory of these functions; NULL is allowed. */
void tp_free(void *ptr);

/**
 * For tests: the @p nth allocation from now on (1 = the next one) of any thread fails,
 * once. 0 switches this off.
 */
void tp_alloc_fail_nth(uint64_t nth);

/** For tests: true after the failure requested by tp_alloc_fail_nth(). */
bool tp_alloc_failed(void);

/** For tests: blocks allocated and not yet freed, process-wide. */
uint64_t tp_alloc_live(void);

#endif
