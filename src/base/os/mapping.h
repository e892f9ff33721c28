/* SPDX-License-Identifier: Apache-2.0 */
/* TELPHER_MAPPING: which device each rank, or worker, of a machine takes. */
#ifndef TELPHER_BASE_OS_MAPPING_H
#define TELPHER_BASE_OS_MAPPING_H

#include <stdint.h>

#include "base/error.h"

/**
 * Parses a mapping such as "2:0:3" and returns the number for @p local_rank, starting
 * over if there are more ranks than numbers. NULL or "": UINT32_MAX.
 * @return OK; INVALID with an error text
 */
telpher_status tp_mapping_read(const char *mapping, uint32_t local_rank,
                               uint32_t *ret_number, struct tp_error *err);

#endif
