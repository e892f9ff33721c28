/* SPDX-License-Identifier: Apache-2.0 */
/* Copies bytes between two connections: see relay.c. */
#ifndef TELPHER_DAEMON_RELAY_RELAY_H
#define TELPHER_DAEMON_RELAY_RELAY_H

#include "waist/transport.h"

/** Copies bytes in both directions until a side closes or no longer answers. */
void tp_relay_run(struct tp_conn *a, struct tp_conn *b);

#endif
