/* SPDX-License-Identifier: Apache-2.0 */
/* Reads TELPHER_MAPPING. base/mapping.h */
#include "base/os/mapping.h"

#include <string.h>

#include "base/compiler.h"

telpher_status
tp_mapping_read(const char *mapping, uint32_t local_rank, uint32_t *ret_number,
                struct tp_error *err)
{
    uint32_t numbers[256], count = 0;
    const char *at = mapping;

    if (mapping == NULL || mapping[0] == '\0') {
        *ret_number = UINT32_MAX;
        return TELPHER_OK;
    }
    for (;; at++) {
        size_t digits = strspn(at, "0123456789");

        if (digits == 0 || digits > 4 || count == TP_ARRAY_LEN(numbers)) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "TELPHER_MAPPING: expected numbers of devices like "
                                "2:0:3, found \"%.60s\"",
                                mapping);
        }
        numbers[count] = 0;
        for (; digits > 0; digits--) {
            numbers[count] = numbers[count] * 10 + (uint32_t)(*at++ - '0');
        }
        count++;
        if (*at != ':') {
            break;
        }
    }
    if (*at != '\0') {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "TELPHER_MAPPING: expected \":\" before \"%.60s\"", at);
    }
    *ret_number = numbers[local_rank % count];
    return TELPHER_OK;
}
