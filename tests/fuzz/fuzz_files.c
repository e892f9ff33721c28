/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a build: what is read is written again as it was, and the check is right. */
#include "support/fuzz.h"

#include "wire/files.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *raw = exact_copy(data, len);
    const uint8_t *src = raw, *start = raw;
    uint32_t count = tp_wire_files_check(raw, len), read = 0;
    struct tp_wire_file file;

    while (tp_wire_get_file(&src, raw + len, &file)) {
        size_t size = tp_wire_file_size(&file);
        uint8_t *again = malloc(size);

        require(again != NULL && start + size == src);
        tp_wire_put_file(again, &file);
        require(memcmp(start, again, size) == 0);
        free(again);
        require(memchr(file.name, '\0', file.name_len) == NULL);
        read++;
        start = src;
    }
    require(count == 0 || (src == raw + len && read == count));
    free(raw);
    return 0;
}
