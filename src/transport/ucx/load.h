/* SPDX-License-Identifier: Apache-2.0 */
/* Transport ucx as a module that is loaded when a job names it: UCX brings memory hooks and
 * signal handlers that other programs of libtelpher do not want. */
#ifndef TELPHER_TRANSPORT_UCX_LOAD_H
#define TELPHER_TRANSPORT_UCX_LOAD_H

#include "waist/net.h"

extern const struct tp_net_ops tp_ucx_loader;

#endif
