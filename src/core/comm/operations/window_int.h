/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by window.c and notify.c. */
#ifndef TELPHER_CORE_COMM_OPERATIONS_WINDOW_INT_H
#define TELPHER_CORE_COMM_OPERATIONS_WINDOW_INT_H

#include "core/comm/comm_int.h"

struct telpher_win {
    telpher_context *ctx;
    uint32_t number;
    uint8_t *base;
    uint8_t *host; /* address for the CPU; NULL: it cannot access the memory */
    uint64_t *sizes; /* of all ranks' parts */
    uint32_t *counts; /* of notifications, by tag */
};

/** @return OK, or RANGE: no such rank, tag, or range of its part */
telpher_status tp_comm_window_check(const telpher_win *win, uint32_t rank, uint64_t off,
                                    size_t len, uint32_t tag);
/** Counts @p times notifications that a header's b names, if it names one and the
 *  window exists. */
void tp_comm_window_count(telpher_context *ctx, uint64_t b, uint32_t times);
/**
 * The same for one notification, after all that the peer put before. Memory grows with
 * the number of different tags that wait after the same put, not with the
 * notifications.
 * @return OK, NO_MEMORY
 */
telpher_status tp_comm_window_count_later(struct tp_comm_peer *peer, uint64_t b);

#endif
