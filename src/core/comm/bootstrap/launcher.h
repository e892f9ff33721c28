/* SPDX-License-Identifier: Apache-2.0 */
/* Detects the launcher that started this process, from its environment. */
#ifndef TELPHER_CORE_COMM_BOOTSTRAP_LAUNCHER_H
#define TELPHER_CORE_COMM_BOOTSTRAP_LAUNCHER_H

#include "core/comm/comm_int.h"

/**
 * Joins the job by PMIx or PMI-1 if the launcher serves one of them. A process without
 * a launcher becomes a job of one rank. @return as tp_bootstrap_open(); UNSUPPORTED if
 * a launcher started several processes and offers no way to join them
 */
telpher_status tp_launcher_open(struct tp_bootstrap *boot, struct tp_error *err);

#endif
