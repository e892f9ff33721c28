/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of offload share that know MPI. They call PMPI_ names only: MPI_ names are
 * the program's (pmpi.py).
 */
#ifndef TELPHER_OFFLOAD_OFFLOAD_INT_H
#define TELPHER_OFFLOAD_OFFLOAD_INT_H

#include "offload/parent/launch.h"

#endif
