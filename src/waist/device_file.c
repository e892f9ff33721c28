/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files as blobs, and chunks of plain memory. */
#include "waist/device_file.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/os/memfd.h"

enum { PAGE = 4096 };

_Static_assert(sizeof(struct tp_memfd_name) <= TP_DEVICE_BLOB_MAX, "fits a blob");

telpher_status
tp_device_file_create(const char *name, uint64_t size, struct tp_device_file *ret_file)
{
    telpher_status status = tp_memfd_create(name, size, &ret_file->fd);

    if (status != TELPHER_OK) {
        return status == TELPHER_ERR_IO ? TELPHER_ERR_NO_MEMORY : status;
    }
    ret_file->size = size;
    status = tp_memfd_map(ret_file->fd, size, &ret_file->base);
    if (status != TELPHER_OK) {
        close(ret_file->fd);
    }
    return status;
}

void
tp_device_file_close(struct tp_device_file *file)
{
    munmap(file->base, file->size);
    tp_descriptor_close(file->fd);
}

telpher_status
tp_device_file_export(const struct tp_device_file *file,
                      uint8_t blob[TP_DEVICE_BLOB_MAX], size_t *ret_len)
{
    struct tp_memfd_name name;

    if (file->fd < 0 || tp_memfd_describe(file->fd, &name) != TELPHER_OK) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    memcpy(blob, &name, sizeof(name));
    *ret_len = sizeof(name);
    return TELPHER_OK;
}

telpher_status
tp_device_file_import(const uint8_t *blob, size_t len, struct tp_device_file *ret_file)
{
    struct tp_memfd_name name;
    telpher_status status;
    int fd;

    if (len != sizeof(name)) {
        return TELPHER_ERR_INVALID;
    }
    memcpy(&name, blob, sizeof(name));
    if (name.size == 0) {
        return TELPHER_ERR_INVALID;
    }
    status = tp_memfd_open(&name, &fd);
    if (status != TELPHER_OK) {
        return status == TELPHER_ERR_INVALID ? status : TELPHER_ERR_UNSUPPORTED;
    }
    *ret_file = (struct tp_device_file){.size = name.size, .fd = -1};
    status = tp_memfd_map(fd, name.size, &ret_file->base);
    close(fd); /* the mapping keeps the file */
    return status;
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
}
