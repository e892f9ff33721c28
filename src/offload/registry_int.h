/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the registry share. */
#ifndef TP_OFFLOAD_REGISTRY_INT_H
#define TP_OFFLOAD_REGISTRY_INT_H

#include "offload/registry.h"

/** Kernels registered so far, derived ones not counted. */
uint32_t tp_offload_registered(void);

/** Kernels that are registered from now on belong to plugins. */
void tp_offload_plugins_begin(void);

#endif
