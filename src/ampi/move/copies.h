/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a checkpoint, a file for each rank, on several hosts. All processes call these. */
#ifndef TELPHER_AMPI_MOVE_COPIES_H
#define TELPHER_AMPI_MOVE_COPIES_H

#include "ampi/move/move.h"
#include "mdr/checkpoint/parts.h"

/** Uses a folder until the next call; borrowed. Before copies_survey(). */
void tp_ampi_copies_begin(const char *folder);
/** Asks all processes what their folders have of the newest checkpoint before @p below.
 *  @return by process; valid until the next call */
const struct tp_mdr_found *tp_ampi_copies_survey(uint64_t below);
/** Copies each process's parts to the folder of another host. @return false: one was not written */
bool tp_ampi_copies_keep(uint64_t generation);
/** Copies to each process the parts of its ranks that its folder lacks. @return as above */
bool tp_ampi_copies_fetch(uint64_t generation);

/** Handle FOUND, and COPY. */
void tp_ampi_copies_found(uint32_t process, const void *data);
void tp_ampi_copies_receive(uint32_t process, const struct tp_ampi_envelope *env,
                            const void *data);

#endif
