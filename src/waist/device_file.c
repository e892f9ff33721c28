/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files as blobs, and chunks of plain memory. */
#include "waist/device_file.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/memfd.h"

enum { PAGE = 4096 };

_Static_assert(sizeof(struct tp_memfd_name) <= TP_DEVICE_BLOB_MAX, "fits a blob");

telpher_status
tp_device_file_export(int fd, uint8_t blob[TP_DEVICE_BLOB_MAX], size_t *ret_len)
{
    struct tp_memfd_name name;

    if (fd < 0 || tp_memfd_describe(fd, &name) != TELPHER_OK) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    memcpy(blob, &name, sizeof(name));
    *ret_len = sizeof(name);
    return TELPHER_OK;
}

telpher_status
tp_device_file_import(const uint8_t *blob, size_t len, int *ret_fd, uint64_t *ret_size)
{
    struct tp_memfd_name name;
    telpher_status status;

    if (len != sizeof(name)) {
        return TELPHER_ERR_INVALID;
    }
    memcpy(&name, blob, sizeof(name));
    if (name.size == 0) {
        return TELPHER_ERR_INVALID;
    }
    status = tp_memfd_open(&name, ret_fd);
    if (status == TELPHER_OK) {
        *ret_size = name.size;
    }
    return status == TELPHER_OK || status == TELPHER_ERR_INVALID
               ? status
               : TELPHER_ERR_UNSUPPORTED;
}

void *
tp_device_plain_chunk_alloc(struct tp_device *d, size_t bytes)
{
    return tp_alloc_aligned(PAGE, bytes, "staging chunks");
}

void
tp_device_plain_chunk_free(struct tp_device *d, void *chunk, size_t bytes)
{
    tp_free(chunk);
}

telpher_status
tp_device_plain_pin(struct tp_device *d, void *memory, size_t bytes)
{
    return TELPHER_OK;
}

void
tp_device_plain_unpin(struct tp_device *d, void *memory, size_t bytes)
{
    (void)bytes;
}
