/* SPDX-License-Identifier: Apache-2.0 */
/* Transport tcp: messages between ranks. */
#ifndef TELPHER_TRANSPORT_TCP_NET_H
#define TELPHER_TRANSPORT_TCP_NET_H

#include "waist/net.h"

extern const struct tp_net_ops tp_tcp_net;

#endif
