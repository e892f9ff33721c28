/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of SPIR-V: the first four bytes are the number of the constant looked for. */
#include "support/fuzz.h"

#include "base/text/spirv.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *module;
    uint32_t id;
    size_t bytes;

    if (len < sizeof(id)) {
        return 0;
    }
    memcpy(&id, data, sizeof(id));
    len -= sizeof(id);
    module = exact_copy(data + sizeof(id), len);
    bytes = tp_spirv_constant_bytes(module, len, id);
    require(bytes == 0 || bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
    require(!tp_spirv_is_module(module, len) || len >= 20);
    free(module);
    return 0;
}
