/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for telpher_last_error(): set by public calls that fail. */
#ifndef TELPHER_CORE_COMM_LAST_ERROR_H
#define TELPHER_CORE_COMM_LAST_ERROR_H

#include <telpher/context.h>

#include "base/error.h"

/** Keeps @p err for telpher_last_error(NULL) in this thread. */
void tp_comm_keep_error(const struct tp_error *err);

/** Sets the context's text: what failed, on what, why, what to do. @return @p status */
telpher_status tp_comm_error(const telpher_context *ctx, telpher_status status,
                             const char *fmt, ...) TP_PRINTF(3, 4);

/**
 * The same if only the failed action is known here. The reason and the remedy follow
 * from @p status and from the state of @p rank (TELPHER_ANY_RANK = no specific rank).
 * Success, TELPHER_IN_PROGRESS and TELPHER_ERR_AGAIN leave the text unchanged.
 * @return @p status
 */
telpher_status tp_comm_failed(const telpher_context *ctx, telpher_status status,
                              uint32_t rank, const char *fmt, ...) TP_PRINTF(4, 5);

#endif
