/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of commands on buffers, and of markers, barriers and migrations: their
 * argument checks and frames. enqueue.c and read_write.c have the common steps, entry.h the
 * form of an entry point.
 */
#include "icd/commands/entry.h"
#include "icd/commands/geometry.h"
#include "icd/commands/read_write.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/migration/host_view.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"

/* ---- read and write ------------------------------------------------------------------ */

/** The use of [offset, offset + size) of a buffer, which may be empty. */
static struct tp_icd_use
linear_use(struct _cl_mem *mem, unsigned how, size_t offset, size_t size)
{
    return (struct tp_icd_use){mem, size != 0 ? how : 0, offset, size};
}

/** The use of a rectangle of a buffer that fits: from its first byte to its last. */
static struct tp_icd_use
rect_use(struct _cl_mem *mem, unsigned how, const struct tp_icd_rect *rect)
{
    size_t first = 0, end = 0;

    (void)tp_icd_rect_extent(rect, &first, &end);
    return (struct tp_icd_use){mem, how, first, end - first};
}

/** The use of the content of a read or a write. */
static struct tp_icd_use
content_use(const struct tp_icd_content *content, unsigned how)
{
    if (content->is_image) {
        return (struct tp_icd_use){.mem = content->mem, .how = how};
    }
    return content->is_rect
               ? rect_use(content->mem, how, &content->rect)
               : linear_use(content->mem, how, content->offset, content->size);
}

static cl_int
check_host_access(const struct tp_icd_op *op, cl_mem buffer, cl_map_flags what)
{
    cl_int err = tp_icd_buffer_check(op->q, buffer);

    if (err != CL_SUCCESS) {
        return err;
    }
    return tp_icd_mem_host_may(buffer, what) ? CL_SUCCESS : CL_INVALID_OPERATION;
}

cl_int
tp_icd_run_read(struct tp_icd_op *op, bool blocking, struct tp_icd_content *content)
{
    struct tp_icd_use use = content_use(content, TP_ICD_USE_READ);

    tp_icd_view_touch(content->ptr);
    op->blocking = blocking;
    op->need_event = true;
    op->uses = &use;
    op->use_count = 1;
    return tp_icd_op_run(op, tp_icd_put_read, content);
}

/**
 * A blocking write returns when its memory may be reused: at once if its content is copied,
 * else when this thread has sent it. It waits for completion if the wait list may fail,
 * because the call must report that; if the program gets its event; if host or other servers
 * may use the content next without a command that says so; and in the cases of
 * blocking_write.c.
 */
cl_int
tp_icd_run_write(struct tp_icd_op *op, bool blocking, struct tp_icd_content *content,
                 bool whole)
{
    struct tp_icd_use use = content_use(
        content, whole ? TP_ICD_USE_WRITE | TP_ICD_USE_WHOLE : TP_ICD_USE_WRITE);

    bool may_be_early = op->wait_count == 0 && op->ret_event == NULL &&
                        !tp_icd_mem_root(content->mem)->coherent;

    tp_icd_view_touch(content->ptr);
    op->blocking = blocking;
    op->early_size = blocking && may_be_early ? content->size : 0;
    op->need_event = content->size > TP_WIRE_INLINE_MAX;
    op->uses = &use;
    op->use_count = 1;
    return tp_icd_op_run(op, tp_icd_put_write, content);
}

static cl_int
check_linear(const struct tp_icd_op *op, cl_mem buffer, size_t offset, size_t size,
             const void *ptr, cl_map_flags what)
{
    cl_int err = check_host_access(op, buffer, what);

    if (err != CL_SUCCESS) {
        return err;
    }
    return ptr != NULL && tp_icd_range_fits(offset, size, buffer->size)
               ? CL_SUCCESS
               : CL_INVALID_VALUE;
}

static cl_int
run_linear(struct tp_icd_op *op, cl_mem buffer, cl_bool blocking, size_t offset,
           size_t size, const void *ptr, cl_map_flags what)
{
    struct tp_icd_content content;
    cl_int err = check_linear(op, buffer, offset, size, ptr, what);

    if (err != CL_SUCCESS) {
        return err;
    }
    tp_icd_content_set(&content, buffer, offset, size, ptr);
    if (what == CL_MAP_READ && blocking != CL_FALSE) {
        tp_icd_content_cut(op, &content);
    }
    return what == CL_MAP_READ
               ? tp_icd_run_read(op, blocking != CL_FALSE, &content)
               : tp_icd_run_write(op, blocking != CL_FALSE, &content, true);
}

TP_ICD_ENQUEUE(ReadBuffer, READ_BUFFER,
               (cl_mem buffer, cl_bool blocking, size_t offset, size_t size, void *ptr),
               run_linear(op, buffer, blocking, offset, size, ptr, CL_MAP_READ))
TP_ICD_ENQUEUE(WriteBuffer, WRITE_BUFFER,
               (cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                const void *ptr),
               run_linear(op, buffer, blocking, offset, size, ptr, CL_MAP_WRITE))

/** Arguments of a rect command, except the queue and events. */
struct rect_args {
    cl_mem buffer;
    const size_t *buffer_origin, *host_origin, *region;
    size_t buffer_row_pitch, buffer_slice_pitch, host_row_pitch, host_slice_pitch;
    const void *ptr;
};

/** Checks the arguments and fills in the content to transfer. */
static cl_int
check_rect(const struct tp_icd_op *op, const struct rect_args *args, cl_map_flags what,
           struct tp_icd_content *ret_content)
{
    struct tp_icd_rect host;
    size_t first, end;
    cl_int err = check_host_access(op, args->buffer, what);

    if (err != CL_SUCCESS) {
        return err;
    }
    memset(ret_content, 0, sizeof(*ret_content));
    if (args->ptr == NULL ||
        !tp_icd_rect_set(&ret_content->rect, args->buffer_origin, args->region,
                         args->buffer_row_pitch, args->buffer_slice_pitch) ||
        !tp_icd_rect_set(&host, args->host_origin, args->region, args->host_row_pitch,
                         args->host_slice_pitch) ||
        !tp_icd_rect_extent(&ret_content->rect, &first, &end) ||
        end > args->buffer->size || !tp_icd_rect_extent(&host, &first, &end)) {
        return CL_INVALID_VALUE;
    }
    ret_content->mem = args->buffer;
    ret_content->size = tp_icd_rect_bytes(&host);
    ret_content->is_rect = true;
    ret_content->ptr = (uint8_t *)(uintptr_t)args->ptr + first;
    ret_content->extent = end - first;
    memcpy(ret_content->box.region, host.region, sizeof(host.region));
    ret_content->box.row_pitch = host.row_pitch;
    ret_content->box.slice_pitch = host.slice_pitch;
    return CL_SUCCESS;
}

static cl_int
run_rect(struct tp_icd_op *op, cl_bool blocking, const struct rect_args *args,
         cl_map_flags what)
{
    struct tp_icd_content content;
    cl_int err = check_rect(op, args, what, &content);

    if (err != CL_SUCCESS) {
        return err;
    }
    return what == CL_MAP_READ
               ? tp_icd_run_read(op, blocking != CL_FALSE, &content)
               : tp_icd_run_write(op, blocking != CL_FALSE, &content, false);
}

TP_ICD_ENQUEUE(ReadBufferRect, READ_BUFFER_RECT,
               (cl_mem buffer, cl_bool blocking, const size_t *buffer_origin,
                const size_t *host_origin, const size_t *region,
                size_t buffer_row_pitch, size_t buffer_slice_pitch,
                size_t host_row_pitch, size_t host_slice_pitch, void *ptr),
               run_rect(op, blocking,
                        &(struct rect_args){buffer, buffer_origin, host_origin, region,
                                            buffer_row_pitch, buffer_slice_pitch,
                                            host_row_pitch, host_slice_pitch, ptr},
                        CL_MAP_READ))
TP_ICD_ENQUEUE(WriteBufferRect, WRITE_BUFFER_RECT,
               (cl_mem buffer, cl_bool blocking, const size_t *buffer_origin,
                const size_t *host_origin, const size_t *region,
                size_t buffer_row_pitch, size_t buffer_slice_pitch,
                size_t host_row_pitch, size_t host_slice_pitch, const void *ptr),
               run_rect(op, blocking,
                        &(struct rect_args){buffer, buffer_origin, host_origin, region,
                                            buffer_row_pitch, buffer_slice_pitch,
                                            host_row_pitch, host_slice_pitch, ptr},
                        CL_MAP_WRITE))

/* ---- copy -------------------------------------------------------------------------------- */

/** Arguments of a copy for its put function. */
struct copy_args {
    struct _cl_mem *src, *dst;
    size_t src_offset, dst_offset, size;
    bool is_rect;
    struct tp_icd_rect src_rect, dst_rect;
};

static cl_int
put_copy(struct tp_icd_op *op, void *arg)
{
    const struct copy_args *args = arg;
    struct tp_wire_copy msg = {.event = tp_icd_op_event_id(op),
                               .queue = op->q->obj.id,
                               .src = args->src->obj.id,
                               .dst = args->dst->obj.id,
                               .flags = op->flags,
                               .src_offset = args->src_offset,
                               .dst_offset = args->dst_offset,
                               .size = args->size,
                               .wait = tp_icd_op_ids(op)};
    uint64_t rect[13];

    if (args->is_rect) {
        for (int i = 0; i < 3; i++) {
            rect[i] = args->src_rect.origin[i];
            rect[3 + i] = args->dst_rect.origin[i];
            rect[6 + i] = args->src_rect.region[i];
        }
        rect[9] = args->src_rect.row_pitch;
        rect[10] = args->src_rect.slice_pitch;
        rect[11] = args->dst_rect.row_pitch;
        rect[12] = args->dst_rect.slice_pitch;
        msg.rect = (struct tp_wire_u64s){13, rect};
    }
    return tp_icd_op_send(op, TP_WIRE_COPY, &msg);
}

static cl_int
run_copy(struct tp_icd_op *op, struct copy_args *args)
{
    const unsigned fills = TP_ICD_USE_WRITE | TP_ICD_USE_WHOLE;
    struct tp_icd_use uses[2];

    if (args->is_rect) {
        uses[0] = rect_use(args->src, TP_ICD_USE_READ, &args->src_rect);
        uses[1] = rect_use(args->dst, TP_ICD_USE_WRITE, &args->dst_rect);
    } else {
        uses[0] = linear_use(args->src, TP_ICD_USE_READ, args->src_offset, args->size);
        uses[1] = linear_use(args->dst, fills, args->dst_offset, args->size);
    }
    op->uses = uses;
    op->use_count = 2;
    return tp_icd_op_run(op, put_copy, args);
}

static cl_int
check_both(const struct tp_icd_op *op, cl_mem src, cl_mem dst)
{
    cl_int err = tp_icd_buffer_check(op->q, src);

    return err == CL_SUCCESS ? tp_icd_buffer_check(op->q, dst) : err;
}

static cl_int
check_copy(const struct tp_icd_op *op, const struct copy_args *args)
{
    cl_int err = check_both(op, args->src, args->dst);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (args->size == 0 ||
        !tp_icd_range_fits(args->src_offset, args->size, args->src->size) ||
        !tp_icd_range_fits(args->dst_offset, args->size, args->dst->size)) {
        return CL_INVALID_VALUE;
    }
    if (tp_icd_mem_root(args->src) == tp_icd_mem_root(args->dst) &&
        tp_icd_ranges_meet(args->src->origin + args->src_offset, args->size,
                           args->dst->origin + args->dst_offset, args->size)) {
        return CL_MEM_COPY_OVERLAP;
    }
    return CL_SUCCESS;
}

cl_int
tp_icd_run_copy(struct tp_icd_op *op, cl_mem src, cl_mem dst, size_t src_offset,
                size_t dst_offset, size_t size)
{
    struct copy_args args = {.src = src,
                             .dst = dst,
                             .src_offset = src_offset,
                             .dst_offset = dst_offset,
                             .size = size};
    cl_int err = check_copy(op, &args);

    return err == CL_SUCCESS ? run_copy(op, &args) : err;
}

TP_ICD_COMMAND(CopyBuffer, COPY_BUFFER,
               (cl_mem src, cl_mem dst, size_t src_offset, size_t dst_offset,
                size_t size),
               tp_icd_run_copy(op, src, dst, src_offset, dst_offset, size))

static cl_int
check_copy_rect(const struct copy_args *args)
{
    const struct tp_icd_rect *src = &args->src_rect, *dst = &args->dst_rect;
    size_t first, src_end, dst_end;

    if (!tp_icd_rect_extent(src, &first, &src_end) || src_end > args->src->size ||
        !tp_icd_rect_extent(dst, &first, &dst_end) || dst_end > args->dst->size ||
        (args->src == args->dst &&
         (src->row_pitch != dst->row_pitch || src->slice_pitch != dst->slice_pitch))) {
        return CL_INVALID_VALUE;
    }
    if (tp_icd_mem_root(args->src) == tp_icd_mem_root(args->dst) &&
        tp_icd_rects_meet(src, args->src->origin, dst, args->dst->origin)) {
        return CL_MEM_COPY_OVERLAP;
    }
    return CL_SUCCESS;
}

/** Arguments of clEnqueueCopyBufferRect. */
struct copy_rect {
    const size_t *src_origin, *dst_origin, *region;
    size_t src_row_pitch, src_slice_pitch, dst_row_pitch, dst_slice_pitch;
};

static cl_int
start_copy_rect(struct tp_icd_op *op, cl_mem src, cl_mem dst,
                const struct copy_rect *rect)
{
    struct copy_args args = {.src = src, .dst = dst, .is_rect = true};
    cl_int err = check_both(op, src, dst);

    if (err == CL_SUCCESS &&
        (!tp_icd_rect_set(&args.src_rect, rect->src_origin, rect->region,
                          rect->src_row_pitch, rect->src_slice_pitch) ||
         !tp_icd_rect_set(&args.dst_rect, rect->dst_origin, rect->region,
                          rect->dst_row_pitch, rect->dst_slice_pitch))) {
        err = CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS) {
        err = check_copy_rect(&args);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    args.size = tp_icd_rect_bytes(&args.src_rect);
    return run_copy(op, &args);
}

TP_ICD_COMMAND(CopyBufferRect, COPY_BUFFER_RECT,
               (cl_mem src, cl_mem dst, const size_t *src_origin,
                const size_t *dst_origin, const size_t *region, size_t src_row_pitch,
                size_t src_slice_pitch, size_t dst_row_pitch, size_t dst_slice_pitch),
               start_copy_rect(op, src, dst,
                               &(struct copy_rect){src_origin, dst_origin, region,
                                                   src_row_pitch, src_slice_pitch,
                                                   dst_row_pitch, dst_slice_pitch}))

/* ---- fill ----------------------------------------------------------------------------------- */

struct fill_args {
    struct _cl_mem *mem;
    const void *pattern;
    size_t pattern_size, offset, size;
};

static cl_int
put_fill(struct tp_icd_op *op, void *arg)
{
    const struct fill_args *args = arg;

    if (args->size == 0) {
        return tp_icd_op_put_nothing(op, NULL);
    }
    return tp_icd_op_send(
        op, TP_WIRE_FILL,
        &(struct tp_wire_fill){
            .event = tp_icd_op_event_id(op),
            .queue = op->q->obj.id,
            .mem = args->mem->obj.id,
            .flags = op->flags,
            .offset = args->offset,
            .size = args->size,
            .wait = tp_icd_op_ids(op),
            .pattern = {(uint32_t)args->pattern_size, args->pattern}});
}

static cl_int
check_fill(const struct tp_icd_op *op, const struct fill_args *args)
{
    cl_int err = tp_icd_buffer_check(op->q, args->mem);
    size_t unit = args->pattern_size;

    if (err != CL_SUCCESS) {
        return err;
    }
    if (args->pattern == NULL || unit == 0 || unit > 128 || (unit & (unit - 1)) != 0 ||
        args->offset % unit != 0 || args->size % unit != 0 ||
        !tp_icd_range_fits(args->offset, args->size, args->mem->size)) {
        return CL_INVALID_VALUE;
    }
    return CL_SUCCESS;
}

cl_int
tp_icd_run_fill(struct tp_icd_op *op, cl_mem buffer, const void *pattern,
                size_t pattern_size, size_t offset, size_t size)
{
    struct fill_args args = {buffer, pattern, pattern_size, offset, size};
    struct tp_icd_use use;
    cl_int err = check_fill(op, &args);

    if (err != CL_SUCCESS) {
        return err;
    }
    use = linear_use(buffer, TP_ICD_USE_WRITE | TP_ICD_USE_WHOLE, offset, size);
    op->uses = &use;
    op->use_count = 1;
    return tp_icd_op_run(op, put_fill, &args);
}

TP_ICD_COMMAND(FillBuffer, FILL_BUFFER,
               (cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset,
                size_t size),
               tp_icd_run_fill(op, buffer, pattern, pattern_size, offset, size))

/* ---- migrate ----------------------------------------------------------------------------------- */

struct migrate_args {
    const cl_mem *mems;
    cl_uint count;
    cl_mem_migration_flags flags;
    uint64_t *ids;
};

static cl_int
put_migrate(struct tp_icd_op *op, void *arg)
{
    struct migrate_args *args = arg;

    for (cl_uint i = 0; i < args->count; i++) {
        args->ids[i] = args->mems[i]->obj.id;
    }
    tp_icd_put(op->q->session, TP_WIRE_MIGRATE,
               &(struct tp_wire_migrate){.event = tp_icd_op_event_id(op),
                                         .queue = op->q->obj.id,
                                         .flags = op->flags,
                                         .migration_flags = args->flags,
                                         .mems = {(uint16_t)args->count, args->ids},
                                         .wait = tp_icd_op_ids(op)});
    return CL_SUCCESS;
}

static cl_int
check_migrate(const struct tp_icd_op *op, const struct migrate_args *args)
{
    const cl_mem_migration_flags known =
        CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;

    if (args->count == 0 || args->count > UINT16_MAX || args->mems == NULL ||
        (args->flags & ~known) != 0) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < args->count; i++) {
        cl_int err = tp_icd_mem_check(op->q, args->mems[i]);

        /* A migration does not address the sub-buffer, so alignment does not matter. */
        if (err != CL_SUCCESS && err != CL_MISALIGNED_SUB_BUFFER_OFFSET) {
            return err;
        }
    }
    return CL_SUCCESS;
}

/** @return how a migration uses the object: reads it, unless the target is the host or the
 *  content may be undefined. */
static unsigned
migrate_use(const struct migrate_args *args, const struct _cl_mem *mem)
{
    if ((args->flags & CL_MIGRATE_MEM_OBJECT_HOST) != 0) {
        return 0; /* the host gets the content when it reads it */
    }
    if ((args->flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED) != 0) {
        return mem->image == NULL || mem->parent == NULL
                   ? TP_ICD_USE_WRITE | TP_ICD_USE_WHOLE
                   : TP_ICD_USE_WRITE;
    }
    return TP_ICD_USE_READ;
}

static cl_int
run_migrate(struct tp_icd_op *op, struct migrate_args *args)
{
    struct tp_icd_use *uses;
    cl_int err = check_migrate(op, args);

    if (err != CL_SUCCESS) {
        return err;
    }
    err = CL_OUT_OF_HOST_MEMORY;
    uses = tp_alloc_array(args->count, sizeof(*uses), "migration");
    args->ids = tp_alloc_array(args->count, sizeof(*args->ids), "migration");
    if (uses != NULL && args->ids != NULL) {
        for (cl_uint i = 0; i < args->count; i++) {
            uses[i] = (struct tp_icd_use){.mem = args->mems[i],
                                          .how = migrate_use(args, args->mems[i])};
        }
        op->uses = uses;
        op->use_count = args->count;
        err = tp_icd_op_run(op, put_migrate, args);
        err = err == CL_INVALID_KERNEL_ARGS ? CL_INVALID_MEM_OBJECT : err; /* a pipe */
    }
    tp_free(args->ids);
    tp_free(uses);
    return err;
}

cl_int
tp_icd_run_migrate(struct tp_icd_op *op, cl_uint mem_count, const cl_mem *mems,
                   cl_mem_migration_flags flags)
{
    return run_migrate(op, &(struct migrate_args){mems, mem_count, flags, NULL});
}

TP_ICD_ENQUEUE(MigrateMemObjects, MIGRATE_MEM_OBJECTS,
               (cl_uint mem_count, const cl_mem *mems, cl_mem_migration_flags flags),
               tp_icd_run_migrate(op, mem_count, mems, flags))

/* ---- markers and barriers ------------------------------------------------------------------------- */

static cl_int
put_marker(struct tp_icd_op *op, void *arg)
{
    const cl_command_type *type = arg;
    struct tp_wire_barrier barrier = {.event = tp_icd_op_event_id(op),
                                      .queue = op->q->obj.id,
                                      .flags = op->flags,
                                      .wait = tp_icd_op_ids(op)};
    struct tp_wire_marker marker = {.event = barrier.event,
                                    .queue = barrier.queue,
                                    .flags = barrier.flags,
                                    .wait = barrier.wait};

    if (op->wait_count != 0 && op->id_count == 0) {
        return tp_icd_op_put_nothing(op, NULL); /* all it waits for has been */
    }
    if (op->ev != NULL) {
        op->ev->is_whole = op->id_count == 0;
    }
    if (*type != CL_COMMAND_BARRIER) {
        return tp_icd_op_send(op, TP_WIRE_MARKER, &marker);
    }
    if (op->record == NULL && !tp_icd_queue_in_order(op->q)) {
        tp_icd_event_set_barrier(op->ev);
    }
    return tp_icd_op_send(op, TP_WIRE_BARRIER, &barrier);
}

cl_int
tp_icd_run_marker(struct tp_icd_op *op)
{
    return tp_icd_op_run(op, put_marker, &op->type);
}

static cl_int
enqueue_marker(cl_command_queue queue, cl_command_type type, cl_uint wait_count,
               const cl_event *wait_list, cl_event *event)
{
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init(&op, queue, type, wait_count, wait_list, event);

    return err == CL_SUCCESS ? tp_icd_run_marker(&op) : err;
}

cl_int CL_API_CALL
tp_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint wait_count,
                               const cl_event *wait_list, cl_event *event)
{
    return enqueue_marker(queue, CL_COMMAND_MARKER, wait_count, wait_list, event);
}

cl_int CL_API_CALL
tp_clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint wait_count,
                                const cl_event *wait_list, cl_event *event)
{
    return enqueue_marker(queue, CL_COMMAND_BARRIER, wait_count, wait_list, event);
}

cl_int CL_API_CALL
tp_clEnqueueMarker(cl_command_queue queue, cl_event *event)
{
    if (tp_icd_check(queue, TP_ICD_QUEUE) != NULL && event == NULL) {
        return CL_INVALID_VALUE;
    }
    return enqueue_marker(queue, CL_COMMAND_MARKER, 0, NULL, event);
}

cl_int CL_API_CALL
tp_clEnqueueBarrier(cl_command_queue queue)
{
    return enqueue_marker(queue, CL_COMMAND_BARRIER, 0, NULL, NULL);
}

cl_int CL_API_CALL
tp_clEnqueueWaitForEvents(cl_command_queue queue, cl_uint count, const cl_event *list)
{
    cl_int err;

    if (tp_icd_check(queue, TP_ICD_QUEUE) == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (count == 0 || list == NULL) {
        return CL_INVALID_VALUE;
    }
    err = enqueue_marker(queue, CL_COMMAND_BARRIER, count, list, NULL);
    return err == CL_INVALID_EVENT_WAIT_LIST ? CL_INVALID_EVENT : err;
}

cl_int CL_API_CALL
tp_clCommandBarrierWithWaitListKHR(cl_command_buffer_khr commands,
                                   cl_command_queue queue, cl_uint sync_count,
                                   const cl_sync_point_khr *sync_list,
                                   cl_sync_point_khr *point,
                                   cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    struct tp_icd_op op;
    cl_int err =
        tp_icd_op_init_record(&op, commands, queue, CL_COMMAND_BARRIER, &sync, handle);

    return err == CL_SUCCESS ? tp_icd_run_marker(&op) : err;
}
