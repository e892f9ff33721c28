/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map and unmap. A map returns a pointer into the shadow of the buffer, memory of this
 * process as large as the buffer and never moved, or into the program's own memory
 * (CL_MEM_USE_HOST_PTR). Mapping reads the region, unmapping writes back what was mapped
 * for writing. All maps of a buffer and its sub-buffers are in the list of the root.
 */
#include "icd/memory.h"
#include "icd/share.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

static const cl_map_flags writing = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;

/** What a map or an unmap hands over to its put function. */
struct request {
    struct _cl_mem *mem;
    size_t offset, size; /* [bytes] in mem */
    cl_map_flags flags;
    struct tp_icd_map *map;
};

/* ---- the list of maps; under the lock --------------------------------------------------- */

/** Memory for all maps of a root buffer. NULL: none left. */
static uint8_t *
shadow_of(struct _cl_mem *root)
{
    void *memory;

    if (root->shadow == NULL && root->host_ptr != NULL) {
        root->shadow = root->host_ptr;
    }
    if (root->shadow == NULL && root->ctx->place_count == 1) {
        root->shadow = tp_icd_share_alloc(root->ctx->places[0], root->size);
        root->shares_shadow = root->shadow != NULL;
    }
    if (root->shadow == NULL) {
        memory = mmap(NULL, root->size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        root->shadow = memory == MAP_FAILED ? NULL : memory;
    }
    return root->shadow;
}

static bool
meets_writer(const struct _cl_mem *root, size_t start, size_t size)
{
    tp_list_for_each(pos, &root->maps)
    {
        const struct tp_icd_map *map = tp_list_entry(pos, struct tp_icd_map, link);

        if ((map->flags & writing) != 0 &&
            tp_icd_ranges_meet(map->mem->origin + map->offset, map->size, start,
                               size)) {
            return true;
        }
    }
    return false;
}

static cl_int
add_map(struct request *req)
{
    struct _cl_mem *root = tp_icd_mem_root(req->mem);
    uint8_t *shadow = shadow_of(root);
    struct tp_icd_map *map;

    if (shadow == NULL) {
        return CL_MAP_FAILURE;
    }
    if ((req->flags & writing) != 0 &&
        meets_writer(root, req->mem->origin + req->offset, req->size)) {
        return CL_INVALID_OPERATION;
    }
    map = tp_zalloc(sizeof(*map), "map");
    if (map == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    *map = (struct tp_icd_map){.mem = req->mem,
                               .ptr = shadow + req->mem->origin + req->offset,
                               .offset = req->offset,
                               .size = req->size,
                               .flags = req->flags};
    tp_list_push_back(&root->maps, &map->link);
    req->mem->map_count++;
    req->map = map;
    return CL_SUCCESS;
}

static void
remove_map(struct tp_icd_map *map)
{
    map->mem->map_count--;
    tp_list_remove(&map->link);
}

/**
 * Finds the map that an unmap of this pointer ends. Of several with one pointer, those that
 * write stay until last, so that what the program still writes is not lost.
 */
static struct tp_icd_map *
find_map(struct _cl_mem *mem, const void *ptr)
{
    struct tp_icd_map *found = NULL;

    tp_list_for_each(pos, &tp_icd_mem_root(mem)->maps)
    {
        struct tp_icd_map *map = tp_list_entry(pos, struct tp_icd_map, link);

        if (map->mem == mem && map->ptr == ptr &&
            (found == NULL || (found->flags & writing) != 0)) {
            found = map;
        }
    }
    return found;
}

/** The region to write back when this pointer is unmapped; NULL: none. */
static const struct tp_icd_map *
find_written(struct _cl_mem *mem, const void *ptr)
{
    tp_list_for_each(pos, &tp_icd_mem_root(mem)->maps)
    {
        const struct tp_icd_map *map = tp_list_entry(pos, struct tp_icd_map, link);

        if (map->mem == mem && map->ptr == ptr && (map->flags & writing) != 0) {
            return map;
        }
    }
    return NULL;
}

/* ---- map ------------------------------------------------------------------------------------ */

static cl_int
check_map(const struct tp_icd_op *op, cl_mem buffer, cl_map_flags flags, size_t offset,
          size_t size)
{
    const struct _cl_mem *mem = buffer;
    cl_int err = tp_icd_mem_check(op->q, buffer);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (size == 0 || !tp_icd_range_fits(offset, size, mem->size) ||
        (flags & ~(CL_MAP_READ | writing)) != 0 ||
        ((flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0 &&
         (flags & (CL_MAP_READ | CL_MAP_WRITE)) != 0)) {
        return CL_INVALID_VALUE;
    }
    return tp_icd_mem_host_may(mem, flags) ? CL_SUCCESS : CL_INVALID_OPERATION;
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
    if ((req->flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0) {
        err = tp_icd_op_put_nothing(op, NULL);
    } else {
        tp_icd_content_set(&content, req->mem, req->offset, req->size, req->map->ptr);
        content.hold_mem = true;
        err = tp_icd_put_read(op, &content);
    }
    if (err != CL_SUCCESS) {
        remove_map(req->map);
        tp_free(req->map);
        req->map = NULL;
    }
    return err;
}

/** A blocking map has failed: it never was. */
static void
cancel_map(struct request *req)
{
    tp_icd_lock();
    remove_map(req->map);
    tp_icd_unlock();
    tp_free(req->map);
}

static cl_int
map_buffer(struct tp_icd_op *op, cl_mem buffer, cl_map_flags flags, size_t offset,
           size_t size, void **ret_ptr)
{
    bool reads = (flags & CL_MAP_WRITE_INVALIDATE_REGION) == 0;
    struct tp_icd_use use = {.mem = buffer, .how = TP_ICD_USE_READ};
    struct request req = {
        .mem = buffer, .offset = offset, .size = size, .flags = flags};
    cl_int err = check_map(op, buffer, flags, offset, size);

    if (err != CL_SUCCESS) {
        return err;
    }
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
        err = map_buffer(&op, buffer, flags, offset, size, &ptr);
    }
    if (errcode_ret != NULL) {
        *errcode_ret = err;
    }
    return ptr;
}

/* ---- unmap ---------------------------------------------------------------------------------- */

static cl_int
put_unmap(struct tp_icd_op *op, void *arg)
{
    struct request *req = arg;
    struct tp_icd_content content;

    if (req->size == 0) {
        return tp_icd_op_put_nothing(op, NULL);
    }
    tp_icd_content_set(&content, req->mem, req->offset, req->size, req->map->ptr);
    content.hold_mem = true;
    return tp_icd_put_write(op, &content);
}

/** Takes the map out of the list; gives what must be written back. */
static bool
take_map(struct request *req, const void *ptr)
{
    const struct tp_icd_map *written;

    tp_icd_lock();
    req->map = find_map(req->mem, ptr);
    written = find_written(req->mem, ptr);
    if (written != NULL) {
        req->offset = written->offset;
        req->size = written->size;
    }
    if (req->map != NULL) {
        remove_map(req->map);
    }
    tp_icd_unlock();
    return req->map != NULL;
}

static void
put_back_map(struct request *req)
{
    tp_icd_lock();
    tp_list_push_back(&tp_icd_mem_root(req->mem)->maps, &req->map->link);
    req->mem->map_count++;
    tp_icd_unlock();
}

cl_int CL_API_CALL
tp_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem memobj, void *ptr,
                           cl_uint wait_count, const cl_event *wait_list,
                           cl_event *event)
{
    struct tp_icd_op op;
    struct request req = {.mem = memobj};
    struct tp_icd_use use = {.mem = memobj, .how = TP_ICD_USE_WRITE};
    cl_int err = tp_icd_op_init(&op, queue, CL_COMMAND_UNMAP_MEM_OBJECT, wait_count,
                                wait_list, event);

    if (err == CL_SUCCESS) {
        err = tp_icd_mem_check(op.q, memobj);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    if (!take_map(&req, ptr)) {
        return CL_INVALID_VALUE;
    }
    op.uses = &use;
    op.use_count = req.size != 0;
    if (memobj->parent == NULL && req.size == memobj->size) {
        use.how |= TP_ICD_USE_WHOLE;
    }
    err = tp_icd_op_run(&op, put_unmap, &req);
    if (err == CL_SUCCESS) {
        tp_free(req.map);
    } else {
        put_back_map(&req);
    }
    return err;
}
