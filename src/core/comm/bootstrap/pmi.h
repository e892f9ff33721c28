/* SPDX-License-Identifier: Apache-2.0 */
/* Bootstrap of ranks started by a PMI-1 launcher, such as MPICH's mpiexec. */
#ifndef TELPHER_CORE_COMM_BOOTSTRAP_PMI_H
#define TELPHER_CORE_COMM_BOOTSTRAP_PMI_H

#include "core/comm/comm_int.h"

/** True if the launcher of this process serves PMI-1 on a descriptor (PMI_FD). */
bool tp_pmi_is_there(void);
/** @return OK; BUSY (this process's MPI uses PMI), IO, PROTO, TIMEOUT */
telpher_status tp_pmi_open(struct tp_bootstrap *boot, struct tp_error *err);

#endif
