/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory of telpher_mem_alloc(): a memory file that is mapped, so that another process
 * of the machine can map it as well.
 */
#include "device/host/memory.h"

#include "base/alloc.h"
#include "waist/device_file.h"

/* Takes the file. */
static telpher_status
adopt(struct tp_device_file file, struct tp_device_memory *ret)
{
    struct tp_device_file *m = tp_malloc(sizeof(*m), "host memory");

    if (m == NULL) {
        tp_device_file_close(&file);
        return TELPHER_ERR_NO_MEMORY;
    }
    *m = file;
    *ret = (struct tp_device_memory){
        .mem = m,
        .base = m->base,
        .size = m->size,
        .host = m->base,
        .kind = TELPHER_MEM_HOST,
    };
    return TELPHER_OK;
}

static telpher_status
host_alloc(struct tp_device *d, uint64_t bytes, struct tp_device_memory *ret)
{
    struct tp_device_file file;
    telpher_status status = tp_device_file_create("telpher-memory", bytes, &file);

    return status == TELPHER_OK ? adopt(file, ret) : status;
}

static void
host_free(struct tp_device *d, void *mem)
{
    tp_device_file_close(mem);
    tp_free(mem);
}

static telpher_status
host_export(struct tp_device *d, void *mem, uint8_t blob[TP_DEVICE_BLOB_MAX],
            size_t *ret_len)
{
    return tp_device_file_export(mem, blob, ret_len);
}

static telpher_status
host_import(struct tp_device *d, const uint8_t *blob, size_t len,
            struct tp_device_memory *ret)
{
    struct tp_device_file file;
    telpher_status status = tp_device_file_import(blob, len, &file);

    return status == TELPHER_OK ? adopt(file, ret) : status;
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
