/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks by UCX, for networks that sockets do not use well. */
#ifndef TELPHER_TRANSPORT_UCX_NET_H
#define TELPHER_TRANSPORT_UCX_NET_H

#include "waist/net.h"

#ifdef TP_UCX_MODULE
__attribute__((visibility("default"))) /* load.c looks for it */
#endif
extern const struct tp_net_ops tp_ucx_net;

#endif
