/* SPDX-License-Identifier: Apache-2.0 */
/* For files with MPI calls: when MPI's own call does. */
#ifndef TP_MPIDEV_CALLS_H
#define TP_MPIDEV_CALLS_H

#include "mpidev/mpidev_int.h"

/** Whether a call that blocks may go to MPI: host memory, and nothing else to progress. */
static inline bool
tp_mpidev_is_plain(const void *buffer)
{
    return tp_mpidev_context == NULL ||
           (!tp_mpidev_is_busy() && !tp_mpidev_is_device(buffer));
}

#endif
