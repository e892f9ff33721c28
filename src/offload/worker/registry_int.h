/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of the registry. */
#ifndef TELPHER_OFFLOAD_WORKER_REGISTRY_INT_H
#define TELPHER_OFFLOAD_WORKER_REGISTRY_INT_H

#include "offload/worker/registry.h"

/** Number of kernels registered so far, without derived ones. */
uint32_t tp_offload_registered(void);

/** Kernels that register from now on belong to plugins. */
void tp_offload_plugins_begin(void);

#endif
