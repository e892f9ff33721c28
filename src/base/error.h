/* SPDX-License-Identifier: Apache-2.0 */
/* An error with its text, which control-path calls fill in beside their status. */
#ifndef TELPHER_BASE_ERROR_H
#define TELPHER_BASE_ERROR_H

#include <stdarg.h>
#include <telpher/status.h>

#include "base/compiler.h"

#define TP_ERROR_TEXT_SIZE 256

/** Initialise with {0}, which is "no error". A text that is too long is cut, ending
 *  in "...". */
struct tp_error {
    telpher_status code;
    char text[TP_ERROR_TEXT_SIZE];
};

/** Sets "no error" without clearing the text, for fast paths. */
static inline void
tp_error_init(struct tp_error *err)
{
    err->code = TELPHER_OK;
    err->text[0] = '\0';
}

/**
 * Fills @p err (NULL is allowed) with @p code and a formatted text. Returns @p code,
 * for `return tp_error_set(err, TELPHER_ERR_INVALID, "port %d", port);`. The arguments
 * may point into err->text itself.
 */
telpher_status tp_error_set(struct tp_error *err, telpher_status code, const char *fmt,
                            ...) TP_PRINTF(3, 4);

telpher_status tp_error_setv(struct tp_error *err, telpher_status code, const char *fmt,
                             va_list args) TP_PRINTF(3, 0);

/** As tp_error_set() with the code of @p saved_errno; ": " and the system's text follow, and
 *  what to do where a process has too many descriptors. */
telpher_status tp_error_set_errno(struct tp_error *err, int saved_errno,
                                  const char *fmt, ...) TP_PRINTF(3, 4);

/** Puts "text: " before the existing text, or before the code's; keeps and returns
 *  the code. */
telpher_status tp_error_prefix(struct tp_error *err, const char *fmt, ...)
    TP_PRINTF(2, 3);

/**
 * The one mapping from errno to status codes. 0 gives TELPHER_OK; an errno that is not
 * in the list gives TELPHER_ERR_IO.
 */
telpher_status tp_error_from_errno(int saved_errno);

/** err->text if there is one, else the general text of err->code. */
const char *tp_error_text(const struct tp_error *err);

#endif
