/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map and unmap. A map returns a pointer into the object's shadow, or into the program's own
 * memory (CL_MEM_USE_HOST_PTR). The shadow is memory of this process, as large as the object
 * and never moved. Map reads the region; unmap writes back regions mapped for writing. The
 * root's list has all maps of a buffer and its parts.
 */
#include "icd/commands/map.h"
#include "icd/commands/enqueue.h"
#include "icd/commands/entry.h"
#include "icd/commands/geometry.h"
#include "icd/commands/read_write.h"
#include "icd/icd.h"
#include "icd/objects/image.h"
#include "icd/objects/memory.h"
#include "icd/session/shared_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

static const cl_map_flags writing = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;

/** Arguments of a map or an unmap for its put function. */
struct request {
    struct tp_icd_map want; /**< map: the request; unmap: the region to write back */
    bool writes; /**< unmap: there is a region to write back */
    struct tp_icd_map *map; /**< the map created or ended */
};

/* ---- the list of maps; under the lock --------------------------------------------------- */

/** @return the memory for all maps of a root object; NULL: no memory. */
static uint8_t *
shadow_of(struct _cl_mem *root)
{
    void *memory;

    if (root->shadow == NULL && root->host_ptr != NULL) {
        root->shadow = root->host_ptr;
    }
    if (root->shadow == NULL && root->ctx->session_count == 1) {
        root->shadow =
            tp_icd_share_alloc(root->ctx->sessions[0], tp_icd_mem_host_bytes(root));
        root->shares_shadow = root->shadow != NULL;
    }
    if (root->shadow == NULL) {
        memory = mmap(NULL, tp_icd_mem_host_bytes(root), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        root->shadow = memory == MAP_FAILED ? NULL : memory;
    }
    return root->shadow;
}

/** True if two regions of one image share an element. */
static bool
regions_meet(const struct tp_icd_map *a, const struct tp_icd_map *b)
{
    for (int i = 0; i < 3; i++) {
        if (!tp_icd_ranges_meet(a->origin[i], a->region[i], b->origin[i],
                                b->region[i])) {
            return false;
        }
    }
    return true;
}

/** True if two maps of one root have a byte in common. */
static bool
maps_meet(const struct tp_icd_map *a, const struct tp_icd_map *b)
{
    return tp_icd_ranges_meet(a->offset, a->size, b->offset, b->size) &&
           (a->mem != b->mem || a->mem->image == NULL || regions_meet(a, b));
}

static bool
meets_writer(const struct _cl_mem *root, const struct tp_icd_map *want)
{
    tp_list_for_each_entry(const struct tp_icd_map, map, &root->maps, link) {
        if ((map->flags & writing) != 0 && maps_meet(map, want)) {
            return true;
        }
    }
    return false;
}

static cl_int
add_map(struct request *req)
{
    struct _cl_mem *root = tp_icd_mem_root(req->want.mem);
    uint8_t *shadow = shadow_of(root);
    struct tp_icd_map *map;

    if (shadow == NULL) {
        return CL_MAP_FAILURE;
    }
    if (root->svm == NULL && (req->want.flags & writing) != 0 &&
        meets_writer(root, &req->want)) {
        return CL_INVALID_OPERATION;
    }
    map = tp_zalloc(sizeof(*map), "map");
    if (map == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    *map = req->want;
    map->ptr = shadow + map->offset;
    tp_list_push_back(&root->maps, &map->link);
    map->mem->map_count++;
    req->map = map;
    return CL_SUCCESS;
}

/** Sets the content to transfer between a map's memory and the object. */
static void
content_of(const struct tp_icd_map *map, struct tp_icd_content *content)
{
    const struct tp_icd_image *image = map->mem->image;

    if (image == NULL) {
        tp_icd_content_set(content, map->mem, map->offset - map->mem->origin, map->size,
                           map->ptr);
    } else {
        tp_icd_content_set_image(
            content, map->mem, map->origin, map->region,
            tp_icd_image_row_step(image, image->row_pitch, image->slice_pitch),
            image->slice_pitch, map->ptr);
    }
    content->hold_mem = true;
}

static void
remove_map(struct tp_icd_map *map)
{
    map->mem->map_count--;
    tp_list_remove(&map->link);
}

/**
 * Finds the map that an unmap of this pointer ends. Of several maps with the same pointer,
 * those for writing end last, so that later writes of the program are not lost.
 */
static struct tp_icd_map *
find_map(struct _cl_mem *mem, const void *ptr)
{
    struct tp_icd_map *found = NULL;

    tp_list_for_each_entry(struct tp_icd_map, map, &tp_icd_mem_root(mem)->maps, link) {
        if (map->mem == mem && map->ptr == ptr &&
            (found == NULL || (found->flags & writing) != 0)) {
            found = map;
        }
    }
    return found;
}

/** @return the region to write back when this pointer is unmapped; NULL: none. */
static const struct tp_icd_map *
find_written(struct _cl_mem *mem, const void *ptr)
{
    tp_list_for_each_entry(const struct tp_icd_map, map, &tp_icd_mem_root(mem)->maps,
                           link) {
        if (map->mem == mem && map->ptr == ptr && (map->flags & writing) != 0) {
            return map;
        }
    }
    return NULL;
}

/* ---- map ------------------------------------------------------------------------------------ */

cl_int
tp_icd_map_flags_check(const struct _cl_mem *mem, cl_map_flags flags)
{
    if ((flags & ~(CL_MAP_READ | writing)) != 0 ||
        ((flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0 &&
         (flags & (CL_MAP_READ | CL_MAP_WRITE)) != 0)) {
        return CL_INVALID_VALUE;
    }
    return tp_icd_mem_host_may(mem, flags) ? CL_SUCCESS : CL_INVALID_OPERATION;
}

static cl_int
check_map(const struct tp_icd_op *op, cl_mem buffer, cl_map_flags flags, size_t offset,
          size_t size)
{
    cl_int err = tp_icd_buffer_check(op->q, buffer);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (size == 0 || !tp_icd_range_fits(offset, size, buffer->size)) {
        return CL_INVALID_VALUE;
    }
    return tp_icd_map_flags_check(buffer, flags);
}

/** False if the content is not wanted, or is where the host sees it. */
static bool
reads_content(const struct tp_icd_map *want)
{
    return (want->flags & CL_MAP_WRITE_INVALIDATE_REGION) == 0 &&
           !tp_icd_mem_root(want->mem)->coherent;
}

static cl_int
put_map(struct tp_icd_op *op, void *arg)
{
    struct request *req = arg;
    struct tp_icd_content content;
    cl_int err = add_map(req);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!reads_content(&req->want)) {
        err = tp_icd_op_put_nothing(op, NULL);
    } else {
        content_of(req->map, &content);
        err = tp_icd_put_read(op, &content);
    }
    if (err != CL_SUCCESS) {
        remove_map(req->map);
        tp_free(req->map);
        req->map = NULL;
    }
    return err;
}

/** Removes the map of a failed blocking call. */
static void
cancel_map(struct request *req)
{
    tp_icd_lock();
    remove_map(req->map);
    tp_icd_unlock();
    tp_free(req->map);
}

/** The use of what is mapped. */
static struct tp_icd_use
map_use(const struct tp_icd_map *map, unsigned how)
{
    struct tp_icd_use use = {.mem = map->mem, .how = how};

    if (map->mem->image == NULL) {
        use.offset = map->offset - map->mem->origin;
        use.size = map->size;
    }
    return use;
}

cl_int
tp_icd_map_run(struct tp_icd_op *op, const struct tp_icd_map *want, void **ret_ptr)
{
    bool reads = reads_content(want);
    struct tp_icd_use use = map_use(want, TP_ICD_USE_READ);
    struct request req = {.want = *want};
    cl_int err;

    op->strict = true;
    op->need_event = reads;
    op->uses = &use;
    op->use_count = reads ? 1 : 0;
    err = tp_icd_op_run(op, put_map, &req);
    if (err == CL_SUCCESS) {
        *ret_ptr = req.map->ptr;
    } else if (req.map != NULL) {
        cancel_map(&req);
    }
    return err;
}

void *CL_API_CALL
tp_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                      cl_map_flags flags, size_t offset, size_t size,
                      cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                      cl_int *errcode_ret)
{
    struct tp_icd_op op;
    void *ptr = NULL;
    cl_int err =
        tp_icd_op_init(&op, queue, CL_COMMAND_MAP_BUFFER, wait_count, wait_list, event);

    if (err == CL_SUCCESS) {
        op.blocking = blocking != CL_FALSE;
        err = check_map(&op, buffer, flags, offset, size);
    }
    if (err == CL_SUCCESS) {
        const struct tp_icd_map want = {.mem = buffer,
                                        .offset = buffer->origin + offset,
                                        .size = size,
                                        .flags = flags};

        err = tp_icd_map_run(&op, &want, &ptr);
    }
    tp_icd_set_error(errcode_ret, err);
    return ptr;
}

/* ---- unmap ---------------------------------------------------------------------------------- */

static cl_int
put_unmap(struct tp_icd_op *op, void *arg)
{
    struct request *req = arg;
    struct tp_icd_content content;

    if (!req->writes) {
        return tp_icd_op_put_nothing(op, NULL);
    }
    content_of(&req->want, &content);
    return tp_icd_put_write(op, &content);
}

/** Removes the map from the list; gives the region to write back. */
static bool
take_map(struct request *req, struct _cl_mem *mem, const void *ptr)
{
    const struct tp_icd_map *written;

    tp_icd_lock();
    req->map = find_map(mem, ptr);
    written = find_written(mem, ptr);
    if (written != NULL) {
        req->want = *written;
        req->writes = !tp_icd_mem_root(mem)->coherent;
    }
    if (req->map != NULL) {
        remove_map(req->map);
    }
    tp_icd_unlock();
    return req->map != NULL;
}

static bool
is_whole(const struct tp_icd_map *map)
{
    const struct _cl_mem *mem = map->mem;

    if (mem->image != NULL) {
        return tp_icd_image_region_is_whole(mem, map->region);
    }
    return true; /* of its range */
}

static void
put_back_map(struct request *req)
{
    tp_icd_lock();
    tp_list_push_back(&tp_icd_mem_root(req->map->mem)->maps, &req->map->link);
    req->map->mem->map_count++;
    tp_icd_unlock();
}

cl_int
tp_icd_unmap_run(struct tp_icd_op *op, struct _cl_mem *mem, const void *ptr)
{
    struct request req = {.writes = false};
    struct tp_icd_use use = {.mem = mem};
    cl_int err;

    if (!take_map(&req, mem, ptr)) {
        return CL_INVALID_VALUE;
    }
    if (req.writes) {
        use = map_use(&req.want, TP_ICD_USE_WRITE);
    }
    op->uses = &use;
    op->use_count = req.writes;
    if (req.writes && is_whole(&req.want)) {
        use.how |= TP_ICD_USE_WHOLE;
    }
    err = tp_icd_op_run(op, put_unmap, &req);
    if (err == CL_SUCCESS) {
        tp_free(req.map);
    } else {
        put_back_map(&req);
    }
    return err;
}

static cl_int
start_unmap(struct tp_icd_op *op, cl_mem memobj, void *ptr)
{
    cl_int err = tp_icd_mem_check(op->q, memobj);

    return err == CL_SUCCESS ? tp_icd_unmap_run(op, memobj, ptr) : err;
}

TP_ICD_ENQUEUE(UnmapMemObject, UNMAP_MEM_OBJECT, (cl_mem memobj, void *ptr),
               start_unmap(op, memobj, ptr))
