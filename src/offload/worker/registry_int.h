/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the registry share. */
#ifndef TELPHER_OFFLOAD_WORKER_REGISTRY_INT_H
#define TELPHER_OFFLOAD_WORKER_REGISTRY_INT_H

#include "offload/worker/registry.h"

/** Kernels registered so far, derived ones not counted. */
uint32_t tp_offload_registered(void);

/** Kernels that are registered from now on belong to plugins. */
void tp_offload_plugins_begin(void);

#endif
