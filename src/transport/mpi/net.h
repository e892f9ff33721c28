/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks by somebody else's two-sided ones: MPI's. */
#ifndef TELPHER_TRANSPORT_MPI_NET_H
#define TELPHER_TRANSPORT_MPI_NET_H

#include "core/net.h"

extern const struct tp_net_ops tp_mpi_net;

#endif
