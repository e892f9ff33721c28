/* SPDX-License-Identifier: Apache-2.0 */
/* Transport shm: messages between ranks of one machine, through memory that both
 * map. */
#ifndef TELPHER_TRANSPORT_SHM_NET_H
#define TELPHER_TRANSPORT_SHM_NET_H

#include "waist/net.h"

extern const struct tp_net_ops tp_shm_net;

#endif
