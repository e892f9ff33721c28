/* SPDX-License-Identifier: Apache-2.0 */
/* Behind the public calls on memory: allocate, free, register, query, copy, combine. */
#include <string.h>

#include "base/alloc.h"
#include "core/comm/mem/mem_int.h"

/* [bytes] of the bounce buffer between two domains without a direct copy */
enum { BOUNCE = 1 << 20 };

/* ---- allocate and register ----------------------------------------------------------- */

telpher_status
tp_mems_alloc(struct tp_mems *mems, uint32_t kind, size_t bytes, void **ret_ptr)
{
    struct tp_device *device = tp_mems_device(mems, kind);
    struct tp_device_memory memory;
    telpher_status status;

    if (kind >= TELPHER_MEM_KINDS || bytes == 0) {
        return TELPHER_ERR_INVALID;
    }
    if (device == NULL || device->ops->alloc == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    status = device->ops->alloc(device, bytes, &memory);
    if (status != TELPHER_OK) {
        return status;
    }
    if (memory.device != NULL) {
        tp_mems_meet(mems, memory.device);
    }
    status = tp_mems_known_add(mems, &memory, true);
    if (status != TELPHER_OK) {
        device->ops->free(device, memory.mem);
        return status;
    }
    *ret_ptr = memory.base;
    return TELPHER_OK;
}

/* Removes known memory that begins at @p ptr and was allocated, or registered. @return OK,
 * NOT_FOUND */
static telpher_status
end(struct tp_mems *mems, void *ptr, bool allocated)
{
    struct tp_mems_known *known;

    if (ptr == NULL) {
        return TELPHER_OK;
    }
    tp_mems_allocated_check(mems);
    known = tp_mems_known_at(mems, ptr);
    if (known != NULL && known->registrations > 0 && !allocated) {
        known->registrations--;
        return TELPHER_OK;
    }
    if (known == NULL || known->memory.base != ptr || known->birth != 0 ||
        known->allocated != allocated) {
        return TELPHER_ERR_NOT_FOUND;
    }
    tp_mems_known_remove(mems, known);
    return TELPHER_OK;
}

telpher_status
tp_mems_free(struct tp_mems *mems, void *ptr)
{
    return end(mems, ptr, true);
}

telpher_status
tp_mems_unregister(struct tp_mems *mems, void *ptr)
{
    return end(mems, ptr, false);
}

static telpher_status
adopt(struct tp_mems *mems, uint32_t kind, void *object, size_t bytes, void *queue,
      struct tp_device_memory *ret)
{
    struct tp_device *device = tp_mems_device(mems, kind);

    if (kind == TELPHER_MEM_HOST) {
        *ret = (struct tp_device_memory){
            .base = object, .size = bytes, .host = object, .kind = kind};
        return bytes > 0 ? TELPHER_OK : TELPHER_ERR_INVALID;
    }
    if (device == NULL || device->ops->adopt == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    return device->ops->adopt(device, object, bytes, queue, ret);
}

/* Memory that the library which allocated it has reported needs no registration: it is counted. */
static bool
is_allocated(struct tp_mems *mems, uint32_t kind, const void *object, size_t bytes)
{
    struct tp_mems_known *known;

    tp_mems_allocated_check(mems);
    known = bytes > 0 ? tp_mems_known_at(mems, object) : NULL;
    if (known == NULL || known->birth == 0 || known->memory.kind != kind ||
        bytes >
            known->memory.size - ((uintptr_t)object - (uintptr_t)known->memory.base)) {
        return false;
    }
    known->registrations++;
    return true;
}

telpher_status
tp_mems_register(struct tp_mems *mems, uint32_t kind, void *object, size_t bytes,
                 void *queue, void **ret_ptr)
{
    struct tp_device_memory memory;
    telpher_status status;

    if (kind >= TELPHER_MEM_KINDS || object == NULL ||
        bytes > UINTPTR_MAX - (uintptr_t)object) {
        return TELPHER_ERR_INVALID;
    }
    if (is_allocated(mems, kind, object, bytes)) {
        return TELPHER_OK;
    }
    status = adopt(mems, kind, object, bytes, queue, &memory);
    if (status != TELPHER_OK) {
        return status;
    }
    if (memory.device != NULL) {
        tp_mems_meet(mems, memory.device);
    }
    status = tp_mems_known_add(mems, &memory, false);
    if (status != TELPHER_OK) {
        if (memory.device != NULL && memory.device->ops->release != NULL) {
            memory.device->ops->release(memory.device, memory.mem);
        }
        return status;
    }
    if (ret_ptr != NULL) {
        *ret_ptr = memory.base;
    }
    return TELPHER_OK;
}

/* ---- query --------------------------------------------------------------------------- */

static telpher_status
query_place(struct tp_mems *mems, const void *ptr, telpher_mem_info *ret_info)
{
    struct tp_mem_place place;
    const struct tp_device_memory *hit;
    telpher_mem_info info = {.base = (void *)(uintptr_t)ptr};

    (void)tp_mems_find(mems, ptr, 0, &place);
    info.kind = place.kind;
    hit = &mems->cache.entries[mems->cache.last];
    if ((uintptr_t)ptr - (uintptr_t)hit->base <
        hit->size) { /* the lookup above found this entry */
        info.base = hit->base;
        info.bytes = hit->size;
    }
    info.struct_size = TP_MIN(ret_info->struct_size, sizeof(info));
    memcpy(ret_info, &info, info.struct_size);
    return TELPHER_OK;
}

telpher_status
tp_mems_query(struct tp_mems *mems, const void *ptr, telpher_mem_info *ret_info)
{
    tp_mems_allocated_check(mems);
    if (tp_unlikely(!tp_mems_is_plain(mems) ||
                    ret_info->struct_size != sizeof(*ret_info))) {
        return query_place(mems, ptr, ret_info);
    }
    mems->stats.lookups++;
    mems->stats.hits++;
    ret_info->kind = TELPHER_MEM_HOST;
    ret_info->base = (void *)(uintptr_t)ptr;
    ret_info->bytes = 0;
    return TELPHER_OK;
}

void
tp_mems_stats(const struct tp_mems *mems, telpher_mem_stats *ret_stats)
{
    telpher_mem_stats stats = mems->stats;

    stats.struct_size = TP_MIN(ret_stats->struct_size, sizeof(stats));
    memcpy(ret_stats, &stats, stats.struct_size);
}

/* ---- copy ---------------------------------------------------------------------------- */

/* A copy whose caller waits for it. */
struct waited {
    struct tp_device_copy copy;
    bool ended;
    telpher_status status;
};

static void
note_end(struct tp_device_copy *copy, int32_t error)
{
    struct waited *w = tp_container_of(copy, struct waited, copy);

    w->ended = true;
    w->status = error;
}

static telpher_status
wait(struct tp_mems *mems, telpher_status started, struct waited *w)
{
    if (started != TELPHER_OK) {
        return started;
    }
    while (!w->ended) {
        (void)tp_mems_progress(mems);
    }
    return w->status;
}

static telpher_status
read_now(struct tp_mems *mems, const struct tp_mem_place *src, void *dst, size_t len)
{
    struct waited w = {.copy.done = note_end};

    return wait(mems, tp_mems_read(mems, src, len, dst, &w.copy), &w);
}

static telpher_status
write_now(struct tp_mems *mems, const struct tp_mem_place *dst, const void *src,
          size_t len)
{
    struct waited w = {.copy.done = note_end};

    return wait(mems, tp_mems_write(mems, dst, len, src, &w.copy), &w);
}

static telpher_status
move_now(struct tp_mems *mems, const struct tp_mem_place *dst,
         const struct tp_mem_place *src, size_t len)
{
    struct waited w = {.copy.done = note_end};

    return wait(mems, tp_mems_move(mems, dst, src, len, &w.copy), &w);
}

/* Copies through host memory, one piece after the other. */
static telpher_status
bounce(struct tp_mems *mems, struct tp_mem_place dst, struct tp_mem_place src,
       size_t len)
{
    void *chunk = tp_malloc(TP_MIN(len, BOUNCE), "copy");
    telpher_status status = TELPHER_OK;

    if (chunk == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    while (len > 0 && status == TELPHER_OK) {
        size_t piece = TP_MIN(len, BOUNCE);

        status = read_now(mems, &src, chunk, piece);
        if (status == TELPHER_OK) {
            status = write_now(mems, &dst, chunk, piece);
        }
        src.offset += piece;
        dst.offset += piece;
        len -= piece;
    }
    tp_free(chunk);
    return status;
}

telpher_status
tp_mems_copy(struct tp_mems *mems, void *dst, const void *src, size_t len)
{
    struct tp_mem_place to, from;
    telpher_status status;

    if (len == 0) {
        return TELPHER_OK;
    }
    status = tp_mems_find(mems, dst, len, &to);
    if (status == TELPHER_OK) {
        status = tp_mems_find(mems, src, len, &from);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    if (to.device == NULL && from.device == NULL) {
        memcpy(dst, src, len);
        return TELPHER_OK;
    }
    if (to.device == NULL) {
        return read_now(mems, &from, dst, len);
    }
    if (from.device == NULL) {
        return write_now(mems, &to, src, len);
    }
    return tp_mems_can_move(&to, &from) ? move_now(mems, &to, &from, len)
                                        : bounce(mems, to, from, len);
}

telpher_status
tp_mems_combine(struct tp_mems *mems, uint32_t op, uint32_t type, const void *lower,
                const void *higher, void *out, size_t count)
{
    static const uint8_t bytes[TELPHER_MEM_TYPES] = {
        [TELPHER_MEM_INT32] = 4,  [TELPHER_MEM_UINT32] = 4, [TELPHER_MEM_INT64] = 8,
        [TELPHER_MEM_UINT64] = 8, [TELPHER_MEM_FLOAT] = 4,  [TELPHER_MEM_DOUBLE] = 8};
    const void *const at[3] = {lower, higher, out};
    struct tp_device_combine work = {.op = op, .type = type, .count = count};
    struct tp_mem_place place[3];

    for (int i = 0; i < 3; i++) {
        telpher_status status =
            count <= SIZE_MAX / bytes[type]
                ? tp_mems_find(mems, at[i], count * bytes[type], &place[i])
                : TELPHER_ERR_RANGE;

        if (status != TELPHER_OK) {
            return status;
        }
        if (place[i].device == NULL || place[i].device != place[0].device ||
            place[i].device->ops->combine == NULL) {
            return TELPHER_ERR_UNSUPPORTED;
        }
        if (place[i].offset % bytes[type] != 0) {
            return TELPHER_ERR_UNSUPPORTED;
        }
        work.mem[i] = place[i].mem;
        work.offset[i] = place[i].offset;
    }
    return place[0].device->ops->combine(place[0].device, &work);
}
