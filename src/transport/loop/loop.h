/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport loop: two connections of one process joined in memory, for tests. Each send
 * and receive can be made as partial as a real network ever makes it.
 */
#ifndef TELPHER_TRANSPORT_LOOP_H
#define TELPHER_TRANSPORT_LOOP_H

#include "core/transport.h"

/** Gives both ends. Bytes sent in one come out of the other. @return OK, NO_MEMORY. */
telpher_status tp_loop_pair(struct tp_conn **ret_a, struct tp_conn **ret_b);

/**
 * From now on one send of this end takes at most @p send_max bytes, and one receive gives
 * at most @p recv_max; 0 = no limit.
 */
void tp_loop_set_split(struct tp_conn *c, size_t send_max, size_t recv_max);

/** [bytes] that may be under way from this end before send says AGAIN; default 256 KiB. */
void tp_loop_set_capacity(struct tp_conn *c, size_t capacity);

#endif
