/* SPDX-License-Identifier: Apache-2.0 */
/* Bootstrap of ranks started by mpirun, prterun or srun through PMIx. */
#ifndef TELPHER_CORE_COMM_BOOTSTRAP_PMIX_H
#define TELPHER_CORE_COMM_BOOTSTRAP_PMIX_H

#include "core/comm/comm_int.h"

/** True if a PMIx launcher started this process. */
bool tp_pmix_is_there(void);
/** @return OK; UNSUPPORTED (built without PMIx, or the library is missing), IO */
telpher_status tp_pmix_open(struct tp_bootstrap *boot, struct tp_error *err);

#endif
