/* SPDX-License-Identifier: Apache-2.0 */
/* Transport mpi: messages between ranks by two-sided messages of MPI. */
#ifndef TELPHER_TRANSPORT_MPI_NET_H
#define TELPHER_TRANSPORT_MPI_NET_H

#include "waist/net.h"

extern const struct tp_net_ops tp_mpi_net;

#endif
