/* SPDX-License-Identifier: Apache-2.0 */
/* Transport loop: messages of a rank to itself. */
#ifndef TELPHER_TRANSPORT_LOOP_NET_H
#define TELPHER_TRANSPORT_LOOP_NET_H

#include "waist/net.h"

extern const struct tp_net_ops tp_loop_net;

#endif
