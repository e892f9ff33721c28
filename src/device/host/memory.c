/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory of telpher_mem_alloc(): a memory file that is mapped, so that another process
 * of the machine can map it as well.
 */
#include "device/host/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/os/memfd.h"
#include "waist/device_file.h"

struct memory {
    void *base;
    uint64_t size;
    int fd; /* -1: another process's, imported */
};

static telpher_status
map(int fd, uint64_t size, struct memory **ret_memory)
{
    struct memory *m = tp_malloc(sizeof(*m), "host memory");
    telpher_status status;

    if (m == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    *m = (struct memory){.size = size, .fd = fd};
    status = tp_memfd_map(fd, size, &m->base);
    if (status != TELPHER_OK) {
        tp_free(m);
        return status;
    }
    *ret_memory = m;
    return TELPHER_OK;
}

static void
tell(struct memory *m, struct tp_device_memory *ret)
{
    *ret = (struct tp_device_memory){
        .mem = m,
        .base = m->base,
        .size = m->size,
        .host = m->base,
        .kind = TELPHER_MEM_HOST,
    };
}

static telpher_status
host_alloc(struct tp_device *d, uint64_t bytes, struct tp_device_memory *ret)
{
    struct memory *m;
    telpher_status status;
    int fd;

    status = tp_memfd_create("telpher-memory", bytes, &fd);
    if (status != TELPHER_OK) {
        return status == TELPHER_ERR_IO ? TELPHER_ERR_NO_MEMORY : status;
    }
    status = map(fd, bytes, &m);
    if (status != TELPHER_OK) {
        close(fd);
        return status;
    }
    tell(m, ret);
    return TELPHER_OK;
}

static void
host_free(struct tp_device *d, void *mem)
{
    struct memory *m = mem;

    munmap(m->base, m->size);
    tp_descriptor_close(m->fd);
    tp_free(m);
}

static telpher_status
host_export(struct tp_device *d, void *mem, uint8_t blob[TP_DEVICE_BLOB_MAX],
            size_t *ret_len)
{
    struct memory *m = mem;

    return tp_device_file_export(m->fd, blob, ret_len);
}

static telpher_status
host_import(struct tp_device *d, const uint8_t *blob, size_t len,
            struct tp_device_memory *ret)
{
    struct memory *m;
    telpher_status status;
    uint64_t size;
    int fd;

    status = tp_device_file_import(blob, len, &fd, &size);
    if (status != TELPHER_OK) {
        return status;
    }
    status = map(fd, size, &m);
    close(fd); /* the mapping keeps the file */
    if (status == TELPHER_OK) {
        m->fd = -1;
        tell(m, ret);
    }
    return status;
}

static void
host_destroy(struct tp_device *d)
{
    tp_free(d);
}

static const struct tp_device_ops ops = {
    .name = "host",
    .kind = TELPHER_MEM_HOST,
    .destroy = host_destroy,
    .alloc = host_alloc,
    .free = host_free,
    .export_mem = host_export,
    .import_mem = host_import,
    .close_mem = host_free,
    .chunk_alloc = tp_device_plain_chunk_alloc,
    .chunk_free = tp_device_plain_chunk_free,
    .pin = tp_device_plain_pin,
    .unpin = tp_device_plain_unpin,
};

static telpher_status
create(const struct tp_device_params *params, struct tp_device **ret_device,
       struct tp_error *err)
{
    struct tp_device *d = tp_zalloc(sizeof(*d), "host domain");

    if (d == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the table of host memory");
    }
    d->ops = &ops;
    *ret_device = d;
    return TELPHER_OK;
}

const struct tp_device_maker tp_host_maker = {
    .name = "host",
    .kind = TELPHER_MEM_HOST,
    .create = create,
};
