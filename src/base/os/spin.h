/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to poll for an answer before sleeping. A wake-up costs more than a small
 * command, but a polling thread takes a core that the answering process may need.
 */
#ifndef TELPHER_BASE_OS_SPIN_H
#define TELPHER_BASE_OS_SPIN_H

#include "base/config/config.h"
#include "base/os/clock.h"

#define TP_SPIN_AUTO UINT64_MAX /**< by the number of processors */
#define TP_SPIN_MAX (10 * TP_CLOCK_MS)

/** uint64_t [ns], at most TP_SPIN_MAX, or TP_SPIN_AUTO for "auto". */
extern const struct tp_config_parser tp_config_spin;

/** Processors that the calling thread may run on, at least 1. */
unsigned tp_spin_processors(void);

/** The time of a setting; @p few is that of "auto" where processors are few. */
tp_ns tp_spin_time(uint64_t setting, tp_ns few);

#endif
