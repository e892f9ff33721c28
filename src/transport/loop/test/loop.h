/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport loop: two connected ends in one process, for tests. Sends and receives can
 * be made as partial as on a real network.
 */
#ifndef TELPHER_TRANSPORT_LOOP_LOOP_H
#define TELPHER_TRANSPORT_LOOP_LOOP_H

#include "waist/transport.h"

/** Creates both ends. Bytes sent on one are received on the other. @return OK,
 *  NO_MEMORY. */
telpher_status tp_loop_pair(struct tp_conn **ret_a, struct tp_conn **ret_b);

/**
 * Limits one send of this end to @p send_max bytes, and one receive to @p recv_max; 0 =
 * no limit.
 */
void tp_loop_set_split(struct tp_conn *c, size_t send_max, size_t recv_max);

/** [bytes] in flight from this end before send returns AGAIN; default 256 KiB. */
void tp_loop_set_capacity(struct tp_conn *c, size_t capacity);

#endif
