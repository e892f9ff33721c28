/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports memory to other processes of the machine and imports theirs. A blob is a
 * header of ours and the domain's data. Opening is slow, so imports are kept by their
 * blob and stay open for a while after their last use.
 */
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "core/comm/mem/mem_int.h"

enum {
    IDLE_MAX = 32, /* unused imports that are kept open */
    VERSION = 1,
};

struct header {
    uint8_t kind;
    uint8_t version;
    uint8_t reserved[6];
    uint64_t offset; /* [bytes] in the memory */
};
_Static_assert(sizeof(struct header) + TP_DEVICE_BLOB_MAX <= TP_MEMS_BLOB_MAX, "fits");

struct import {
    struct tp_list link; /* in idle_imports while refs is 0 */
    uint64_t key;
    struct tp_device *device;
    struct tp_device_memory memory;
    unsigned refs;
    size_t len;
    uint8_t blob[TP_DEVICE_BLOB_MAX];
    /* devices that copy with it, by their kind */
    struct tp_device *pins[TELPHER_MEM_KINDS];
    uint32_t owner; /* rank it came from; UINT32_MAX: not set */
    bool stale; /* its owner is lost: closed after its last use */
};

telpher_status
tp_mems_export(struct tp_mems *mems, const struct tp_mem_place *place,
               uint8_t blob[TP_MEMS_BLOB_MAX], size_t *ret_len)
{
    struct tp_device *device =
        place->device != NULL ? place->device : mems->domains[TELPHER_MEM_HOST];
    struct header header = {
        .kind = (uint8_t)place->kind, .version = VERSION, .offset = place->offset};
    telpher_status status;

    if (place->mem == NULL || device->ops->export_mem == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    status =
        device->ops->export_mem(device, place->mem, blob + sizeof(header), ret_len);
    if (status == TELPHER_OK) {
        memcpy(blob, &header, sizeof(header));
        *ret_len += sizeof(header);
    }
    return status;
}

void
tp_mems_blob_set_offset(uint8_t *blob, uint64_t offset)
{
    memcpy(blob + offsetof(struct header, offset), &offset, sizeof(offset));
}

/* ---- imports ------------------------------------------------------------------------- */

/* It need not resist attacks: processes of the same user could do other harm. */
static uint64_t
hash(uint8_t kind, const uint8_t *blob, size_t len)
{
    return tp_hash_add(tp_hash_add(TP_HASH_START, &kind, 1), blob, len);
}

static void
destroy(struct tp_mems *mems, struct import *import)
{
    tp_list_remove(&import->link);
    (void)tp_map_remove(&mems->imports, import->key);
    (void)tp_map_remove(&mems->imports_by_mem, (uintptr_t)import->memory.mem);
    for (size_t i = 0; i < TELPHER_MEM_KINDS; i++) {
        struct tp_device *pin = import->pins[i];

        if (pin != NULL) {
            pin->ops->unpin(pin, import->memory.host, import->memory.size);
        }
    }
    import->device->ops->close_mem(import->device, import->memory.mem);
    tp_free(import);
}

static void
limit_idle(struct tp_mems *mems)
{
    while (mems->idle_count > IDLE_MAX && !mems->keeps_open) {
        struct tp_list *oldest = tp_list_first(&mems->idle_imports);

        mems->idle_count--;
        destroy(mems, tp_list_entry(oldest, struct import, link));
    }
}

static telpher_status
add(struct tp_mems *mems, struct import *import)
{
    telpher_status status = tp_map_put(&mems->imports, import->key, import);

    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_map_put(&mems->imports_by_mem, (uintptr_t)import->memory.mem, import);
    if (status != TELPHER_OK) {
        (void)tp_map_remove(&mems->imports, import->key);
    }
    return status;
}

static telpher_status
open_blob(struct tp_mems *mems, struct tp_device *device, uint64_t key,
          const uint8_t *blob, size_t len, struct import **ret_import)
{
    struct import *import = tp_zalloc(sizeof(*import), "imported memory");
    telpher_status status;

    if (import == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_list_init(&import->link);
    import->key = key;
    import->owner = UINT32_MAX;
    import->device = device;
    import->len = len;
    memcpy(import->blob, blob, len);
    status = device->ops->import_mem(device, blob, len, &import->memory);
    if (status != TELPHER_OK) {
        tp_free(import);
        return status;
    }
    status = add(mems, import);
    if (status != TELPHER_OK) {
        /* EXISTS: two blobs with one hash, which only an attacker makes */
        device->ops->close_mem(device, import->memory.mem);
        tp_free(import);
        return status == TELPHER_ERR_EXISTS ? TELPHER_ERR_UNSUPPORTED : status;
    }
    if (import->memory.device != NULL) {
        tp_mems_meet(mems, import->memory.device);
    }
    *ret_import = import;
    return TELPHER_OK;
}

static void
take(struct tp_mems *mems, struct import *import)
{
    if (tp_list_is_linked(&import->link)) {
        tp_list_remove(&import->link);
        mems->idle_count--;
    }
    import->refs++;
}

static void
give(struct tp_mems *mems, struct import *import)
{
    if (--import->refs == 0 && import->stale && !mems->keeps_open) {
        destroy(mems, import);
    } else if (import->refs == 0) {
        tp_list_push_back(&mems->idle_imports, &import->link);
        mems->idle_count++;
        limit_idle(mems);
    }
}

static telpher_status
take_blob(struct tp_mems *mems, uint8_t kind, const uint8_t *blob, size_t len,
          struct import **ret_import)
{
    struct tp_device *device = tp_mems_device(mems, kind);
    uint64_t key = hash(kind, blob, len);
    struct import *import = tp_map_get(&mems->imports, key);
    telpher_status status;

    if (device == NULL || device->ops->import_mem == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    if (import != NULL && (import->device != device || import->len != len ||
                           memcmp(import->blob, blob, len) != 0)) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    if (import == NULL) {
        status = open_blob(mems, device, key, blob, len, &import);
        if (status != TELPHER_OK) {
            return status;
        }
    }
    take(mems, import);
    *ret_import = import;
    return TELPHER_OK;
}

telpher_status
tp_mems_import(struct tp_mems *mems, const uint8_t *blob, size_t blob_len, uint64_t len,
               struct tp_mem_place *ret)
{
    struct header header;
    struct import *import;
    const struct tp_device_memory *memory;
    telpher_status status;

    if (blob_len <= sizeof(header) || blob_len > sizeof(header) + TP_DEVICE_BLOB_MAX) {
        return TELPHER_ERR_INVALID;
    }
    memcpy(&header, blob, sizeof(header));
    if (header.version != VERSION) {
        return TELPHER_ERR_INVALID;
    }
    status = take_blob(mems, header.kind, blob + sizeof(header),
                       blob_len - sizeof(header), &import);
    if (status != TELPHER_OK) {
        return status;
    }
    memory = &import->memory;
    if (header.offset > memory->size || len > memory->size - header.offset) {
        give(mems, import);
        return TELPHER_ERR_RANGE;
    }
    *ret = (struct tp_mem_place){
        .device = memory->device,
        .mem = memory->mem,
        .offset = header.offset,
        .host = memory->host != NULL ? (char *)memory->host + header.offset : NULL,
        .kind = memory->kind,
    };
    return TELPHER_OK;
}

void
tp_mems_close(struct tp_mems *mems, const struct tp_mem_place *place)
{
    struct import *import = tp_map_get(&mems->imports_by_mem, (uintptr_t)place->mem);

    tp_assert(import != NULL && import->refs > 0);
    give(mems, import);
}

telpher_status
tp_mems_pin_import(struct tp_mems *mems, const struct tp_mem_place *place,
                   struct tp_device *device)
{
    struct import *import = tp_map_get(&mems->imports_by_mem, (uintptr_t)place->mem);
    struct tp_device **pin = &import->pins[device->ops->kind];
    telpher_status status;

    if (*pin != NULL) {
        return TELPHER_OK;
    }
    if (import->memory.host == NULL || device->ops->pin == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    status = device->ops->pin(device, import->memory.host, import->memory.size);
    if (status == TELPHER_OK) {
        *pin = device;
    }
    return status;
}

void
tp_mems_set_owner(struct tp_mems *mems, const struct tp_mem_place *place, uint32_t rank)
{
    struct import *import = tp_map_get(&mems->imports_by_mem, (uintptr_t)place->mem);

    import->owner = rank;
}

/* Closes unused imports: all of them, or those whose owner is lost. */
static void
close_idle(struct tp_mems *mems, bool all)
{
    tp_list_for_each_entry_safe(struct import, import, &mems->idle_imports, link) {
        if (all || import->stale) {
            mems->idle_count--;
            destroy(mems, import);
        }
    }
}

void
tp_mems_forget(struct tp_mems *mems, uint32_t rank)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&mems->imports, &cursor, NULL, &value)) {
        struct import *import = value;

        import->stale = import->stale || import->owner == rank;
    }
    if (!mems->keeps_open) {
        close_idle(mems, false);
    }
}

bool
tp_mems_keeps_open(const struct tp_mems *mems)
{
    return mems->keeps_open;
}

void
tp_mems_keep_open(struct tp_mems *mems, bool keep)
{
    mems->keeps_open = keep;
    if (!keep) {
        close_idle(mems, true);
    }
}

void
tp_mems_imports_destroy(struct tp_mems *mems)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&mems->imports, &cursor, NULL, &value)) {
        destroy(mems, value);
    }
    mems->idle_count = 0;
    tp_map_fini(&mems->imports);
    tp_map_fini(&mems->imports_by_mem);
}
