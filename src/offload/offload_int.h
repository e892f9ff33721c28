/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations shared by the files of offload that use MPI. They call PMPI_ names only,
 * because the program's MPI_ names are wrapped (pmpi.py).
 */
#ifndef TELPHER_OFFLOAD_OFFLOAD_INT_H
#define TELPHER_OFFLOAD_OFFLOAD_INT_H

#include "offload/parent/launch.h"

#endif
