/* SPDX-License-Identifier: Apache-2.0 */
/* TELPHER_MAPPING: which device each rank, or worker, of a machine takes. */
#ifndef TELPHER_BASE_OS_MAPPING_H
#define TELPHER_BASE_OS_MAPPING_H

#include <stdint.h>

#include "base/error.h"

/**
 * Reads the number for @p local_rank from @p mapping, "2:0:3" for example: from the front again
 * when there are more ranks. NULL or "" says nothing: UINT32_MAX.
 * @return OK; INVALID with words
 */
telpher_status tp_mapping_read(const char *mapping, uint32_t local_rank,
                               uint32_t *ret_number, struct tp_error *err);

#endif
