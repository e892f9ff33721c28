/* SPDX-License-Identifier: Apache-2.0 */
/* What window.c and notify.c share. */
#ifndef TELPHER_CORE_COMM_WINDOW_INT_H
#define TELPHER_CORE_COMM_WINDOW_INT_H

#include "core/comm/comm_int.h"

struct telpher_win {
    telpher_context *ctx;
    uint32_t number;
    uint8_t *base;
    uint8_t *host; /* where the processor may write it; NULL: nowhere */
    uint64_t *sizes; /* of all ranks' parts */
    uint32_t *counts; /* of notifications, by tag */
};

/** @return OK, or RANGE: there is no such rank, range of its part, or tag */
telpher_status tp_comm_window_check(const telpher_win *win, uint32_t rank, uint64_t off,
                                    size_t len, uint32_t tag);
/** Counts @p times notifications that a header's b names, if there is one and its window. */
void tp_comm_window_count(telpher_context *ctx, uint64_t b, uint32_t times);
/**
 * The same, once, behind all that the peer put before. What this keeps grows with the
 * different tags that wait behind the same put, not with the notifications.
 * @return OK, NO_MEMORY
 */
telpher_status tp_comm_window_count_later(struct tp_comm_peer *peer, uint64_t b);

#endif
