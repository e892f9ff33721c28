/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueue calls of the test driver on buffers, and its markers and barriers. */
#include "td.h"

#include <stdlib.h>
#include <string.h>

/** A box of bytes copied from one layout to another; a line is a box of one row. */
struct box_copy {
    uint8_t *dst;
    const uint8_t *src;
    size_t dst_row, dst_slice, src_row, src_slice;
    size_t region[3];
};

struct fill {
    uint8_t *dst;
    size_t len;
    size_t pattern_len;
    uint8_t pattern[128];
};

static cl_int
run_box_copy(struct td_cmd *cmd)
{
    struct box_copy *c = (struct box_copy *)cmd->data;

    for (size_t z = 0; z < c->region[2]; z++) {
        for (size_t y = 0; y < c->region[1]; y++) {
            memmove(c->dst + z * c->dst_slice + y * c->dst_row,
                    c->src + z * c->src_slice + y * c->src_row, c->region[0]);
        }
    }
    return CL_COMPLETE;
}

static cl_int
run_fill(struct td_cmd *cmd)
{
    struct fill *f = (struct fill *)cmd->data;

    for (size_t i = 0; i < f->len; i += f->pattern_len) {
        memcpy(f->dst + i, f->pattern, f->pattern_len);
    }
    return CL_COMPLETE;
}

/* Checks common to all calls on a buffer. */
static cl_int
check(cl_command_queue queue, cl_mem mem, const struct td_wait *wait)
{
    if (!td_is(queue, TD_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (!td_is(mem, TD_MEM)) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (mem->context != queue->context) {
        return CL_INVALID_CONTEXT;
    }
    return td_check_wait(queue->context, wait->count, wait->list);
}

static cl_int
submit_copy(cl_command_queue queue, cl_command_type type, const char *function,
            const struct box_copy *copy, cl_mem mem1, cl_mem mem2,
            const struct td_wait *wait)
{
    struct td_cmd *cmd = td_cmd_create(queue, type, function, sizeof(*copy));

    if (cmd == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    memcpy(cmd->data, copy, sizeof(*copy));
    cmd->run = run_box_copy;
    td_cmd_hold(cmd, mem1);
    td_cmd_hold(cmd, mem2);
    return td_cmd_submit(cmd, wait);
}

#define NO_HOST_READ (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS)
#define NO_HOST_WRITE (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

/* Checks of a read or write between a buffer and the program's memory. */
static cl_int
check_transfer(cl_command_queue queue, cl_mem mem, size_t off, size_t len,
               const void *ptr, cl_mem_flags forbidden, const struct td_wait *wait)
{
    cl_int err = check(queue, mem, wait);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (ptr == NULL || len == 0 || !td_mem_in_range(mem, off, len)) {
        return CL_INVALID_VALUE;
    }
    return (mem->flags & forbidden) != 0 ? CL_INVALID_OPERATION : CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueReadBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t off,
                       size_t len, void *ptr, cl_uint count, const cl_event *list,
                       cl_event *event)
{
    const struct td_wait wait = {count, list, event, blocking};
    cl_int err = td_enter("clEnqueueReadBuffer",
                          "queue=%u mem=%u blocking=%u offset=%zu size=%zu wait=%u",
                          td_id(queue), td_id(mem), blocking, off, len, count);

    if (err == CL_SUCCESS) {
        err = check_transfer(queue, mem, off, len, ptr, NO_HOST_READ, &wait);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    return submit_copy(
        queue, CL_COMMAND_READ_BUFFER, "clEnqueueReadBuffer",
        &(struct box_copy){.dst = ptr, .src = mem->data + off, .region = {len, 1, 1}},
        mem, NULL, &wait);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                        size_t off, size_t len, const void *ptr, cl_uint count,
                        const cl_event *list, cl_event *event)
{
    const struct td_wait wait = {count, list, event, blocking};
    cl_int err = td_enter("clEnqueueWriteBuffer",
                          "queue=%u mem=%u blocking=%u offset=%zu size=%zu wait=%u",
                          td_id(queue), td_id(mem), blocking, off, len, count);

    if (err == CL_SUCCESS) {
        err = check_transfer(queue, mem, off, len, ptr, NO_HOST_WRITE, &wait);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    return submit_copy(
        queue, CL_COMMAND_WRITE_BUFFER, "clEnqueueWriteBuffer",
        &(struct box_copy){.dst = mem->data + off, .src = ptr, .region = {len, 1, 1}},
        mem, NULL, &wait);
}

static bool
overlap(const uint8_t *a, const uint8_t *b, size_t len)
{
    return a < b + len && b < a + len;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem src, cl_mem dst, size_t src_off,
                       size_t dst_off, size_t len, cl_uint count, const cl_event *list,
                       cl_event *event)
{
    const struct td_wait wait = {count, list, event, CL_FALSE};
    cl_int err =
        td_enter("clEnqueueCopyBuffer",
                 "queue=%u src=%u dst=%u src_offset=%zu dst_offset=%zu size=%zu "
                 "wait=%u",
                 td_id(queue), td_id(src), td_id(dst), src_off, dst_off, len, count);

    if (err == CL_SUCCESS) {
        err = check(queue, src, &wait);
    }
    if (err == CL_SUCCESS) {
        err = check(queue, dst, &wait);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    if (len == 0 || !td_mem_in_range(src, src_off, len) ||
        !td_mem_in_range(dst, dst_off, len)) {
        return CL_INVALID_VALUE;
    }
    if (overlap(src->data + src_off, dst->data + dst_off, len)) {
        return CL_MEM_COPY_OVERLAP;
    }
    return submit_copy(queue, CL_COMMAND_COPY_BUFFER, "clEnqueueCopyBuffer",
                       &(struct box_copy){.dst = dst->data + dst_off,
                                          .src = src->data + src_off,
                                          .region = {len, 1, 1}},
                       src, dst, &wait);
}

/** One side of a rect copy: where the box begins and how its rows lie. */
struct rect_side {
    size_t origin[3];
    size_t row, slice;
};

/* Resolves pitches of 0 and checks the others. @return false if they are too small. */
static bool
resolve_pitches(struct rect_side *side, const size_t region[3])
{
    if (side->row == 0) {
        side->row = region[0];
    }
    if (side->row < region[0] || region[1] > SIZE_MAX / side->row) {
        return false;
    }
    if (side->slice == 0) {
        side->slice = region[1] * side->row;
    }
    return side->slice >= region[1] * side->row;
}

static size_t
rect_start(const struct rect_side *s)
{
    return s->origin[2] * s->slice + s->origin[1] * s->row + s->origin[0];
}

/* Last byte of the box plus one; products that overflow give a value out of range. */
static size_t
rect_end(const struct rect_side *s, const size_t region[3])
{
    size_t rows;
    size_t slices;
    size_t end;

    if (__builtin_mul_overflow(s->origin[2] + region[2] - 1, s->slice, &slices) ||
        __builtin_mul_overflow(s->origin[1] + region[1] - 1, s->row, &rows) ||
        __builtin_add_overflow(slices, rows, &end) ||
        __builtin_add_overflow(end, s->origin[0] + region[0], &end)) {
        return SIZE_MAX;
    }
    return end;
}

static struct rect_side
make_side(const size_t *origin, size_t row, size_t slice)
{
    struct rect_side side = {.row = row, .slice = slice};

    memcpy(side.origin, origin, sizeof(side.origin));
    return side;
}

/* Turns a checked rect into a copy. @p mem is the buffer of the side, NULL: host. */
static cl_int
check_rect(struct rect_side *side, const size_t region[3], cl_mem mem)
{
    if (region[0] == 0 || region[1] == 0 || region[2] == 0 ||
        !resolve_pitches(side, region)) {
        return CL_INVALID_VALUE;
    }
    if (mem != NULL && rect_end(side, region) > mem->size) {
        return CL_INVALID_VALUE;
    }
    return CL_SUCCESS;
}

static struct box_copy
make_rect_copy(uint8_t *dst, const struct rect_side *d, const uint8_t *src,
               const struct rect_side *s, const size_t region[3])
{
    return (struct box_copy){.dst = dst + rect_start(d),
                             .src = src + rect_start(s),
                             .dst_row = d->row,
                             .dst_slice = d->slice,
                             .src_row = s->row,
                             .src_slice = s->slice,
                             .region = {region[0], region[1], region[2]}};
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueReadBufferRect(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                           const size_t *mem_origin, const size_t *host_origin,
                           const size_t *region, size_t mem_row, size_t mem_slice,
                           size_t host_row, size_t host_slice, void *ptr, cl_uint count,
                           const cl_event *list, cl_event *event)
{
    const struct td_wait wait = {count, list, event, blocking};
    struct rect_side m = make_side(mem_origin, mem_row, mem_slice);
    struct rect_side h = make_side(host_origin, host_row, host_slice);
    struct box_copy copy;
    cl_int err =
        td_enter("clEnqueueReadBufferRect",
                 "queue=%u mem=%u blocking=%u region=%zu,%zu,%zu wait=%u", td_id(queue),
                 td_id(mem), blocking, region[0], region[1], region[2], count);

    if (err == CL_SUCCESS) {
        err = check_transfer(queue, mem, 0, 1, ptr, NO_HOST_READ, &wait);
    }
    if (err == CL_SUCCESS) {
        err = check_rect(&m, region, mem);
    }
    if (err == CL_SUCCESS) {
        err = check_rect(&h, region, NULL);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    copy = make_rect_copy(ptr, &h, mem->data, &m, region);
    return submit_copy(queue, CL_COMMAND_READ_BUFFER_RECT, "clEnqueueReadBufferRect",
                       &copy, mem, NULL, &wait);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueWriteBufferRect(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                            const size_t *mem_origin, const size_t *host_origin,
                            const size_t *region, size_t mem_row, size_t mem_slice,
                            size_t host_row, size_t host_slice, const void *ptr,
                            cl_uint count, const cl_event *list, cl_event *event)
{
    const struct td_wait wait = {count, list, event, blocking};
    struct rect_side m = make_side(mem_origin, mem_row, mem_slice);
    struct rect_side h = make_side(host_origin, host_row, host_slice);
    struct box_copy copy;
    cl_int err =
        td_enter("clEnqueueWriteBufferRect",
                 "queue=%u mem=%u blocking=%u region=%zu,%zu,%zu wait=%u", td_id(queue),
                 td_id(mem), blocking, region[0], region[1], region[2], count);

    if (err == CL_SUCCESS) {
        err = check_transfer(queue, mem, 0, 1, ptr, NO_HOST_WRITE, &wait);
    }
    if (err == CL_SUCCESS) {
        err = check_rect(&m, region, mem);
    }
    if (err == CL_SUCCESS) {
        err = check_rect(&h, region, NULL);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    copy = make_rect_copy(mem->data, &m, ptr, &h, region);
    return submit_copy(queue, CL_COMMAND_WRITE_BUFFER_RECT, "clEnqueueWriteBufferRect",
                       &copy, mem, NULL, &wait);
}

/* Rows of two boxes in the same memory: any two rows that share a byte overlap. */
static bool
boxes_overlap(const struct box_copy *c)
{
    size_t rows = c->region[1] * c->region[2];

    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < rows; k++) {
            const uint8_t *s = c->src + i / c->region[1] * c->src_slice +
                               i % c->region[1] * c->src_row;
            const uint8_t *d = c->dst + k / c->region[1] * c->dst_slice +
                               k % c->region[1] * c->dst_row;

            if (overlap(s, d, c->region[0])) {
                return true;
            }
        }
    }
    return false;
}

static cl_mem
root_of(cl_mem mem)
{
    return mem->parent != NULL ? mem->parent : mem;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem src, cl_mem dst,
                           const size_t *src_origin, const size_t *dst_origin,
                           const size_t *region, size_t src_row, size_t src_slice,
                           size_t dst_row, size_t dst_slice, cl_uint count,
                           const cl_event *list, cl_event *event)
{
    const struct td_wait wait = {count, list, event, CL_FALSE};
    struct rect_side s = make_side(src_origin, src_row, src_slice);
    struct rect_side d = make_side(dst_origin, dst_row, dst_slice);
    struct box_copy copy;
    cl_int err = td_enter(
        "clEnqueueCopyBufferRect", "queue=%u src=%u dst=%u region=%zu,%zu,%zu wait=%u",
        td_id(queue), td_id(src), td_id(dst), region[0], region[1], region[2], count);

    if (err == CL_SUCCESS) {
        err = check(queue, src, &wait);
    }
    if (err == CL_SUCCESS) {
        err = check(queue, dst, &wait);
    }
    if (err == CL_SUCCESS) {
        err = check_rect(&s, region, src);
    }
    if (err == CL_SUCCESS) {
        err = check_rect(&d, region, dst);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    copy = make_rect_copy(dst->data, &d, src->data, &s, region);
    if (root_of(src) == root_of(dst) && boxes_overlap(&copy)) {
        return CL_MEM_COPY_OVERLAP;
    }
    return submit_copy(queue, CL_COMMAND_COPY_BUFFER_RECT, "clEnqueueCopyBufferRect",
                       &copy, src, dst, &wait);
}

static bool
is_pattern_size(size_t size)
{
    return size > 0 && size <= 128 && (size & (size - 1)) == 0;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem, const void *pattern,
                       size_t pattern_len, size_t off, size_t len, cl_uint count,
                       const cl_event *list, cl_event *event)
{
    const struct td_wait wait = {count, list, event, CL_FALSE};
    struct td_cmd *cmd;
    struct fill *f;
    cl_int err =
        td_enter("clEnqueueFillBuffer",
                 "queue=%u mem=%u pattern_size=%zu offset=%zu size=%zu wait=%u",
                 td_id(queue), td_id(mem), pattern_len, off, len, count);

    if (err == CL_SUCCESS) {
        err = check(queue, mem, &wait);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    if (pattern == NULL || !is_pattern_size(pattern_len) || off % pattern_len != 0 ||
        len % pattern_len != 0 || len == 0 || !td_mem_in_range(mem, off, len)) {
        return CL_INVALID_VALUE;
    }
    cmd =
        td_cmd_create(queue, CL_COMMAND_FILL_BUFFER, "clEnqueueFillBuffer", sizeof(*f));
    if (cmd == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    f = (struct fill *)cmd->data;
    f->dst = mem->data + off;
    f->len = len;
    f->pattern_len = pattern_len;
    memcpy(f->pattern, pattern, pattern_len);
    cmd->run = run_fill;
    td_cmd_hold(cmd, mem);
    return td_cmd_submit(cmd, &wait);
}

static cl_int
check_map(cl_command_queue queue, cl_mem mem, cl_map_flags flags, size_t off,
          size_t len, const struct td_wait *wait)
{
    const cl_map_flags writes = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
    cl_mem_flags forbidden = ((flags & CL_MAP_READ) != 0 ? NO_HOST_READ : 0) |
                             ((flags & writes) != 0 ? NO_HOST_WRITE : 0);

    if ((flags & ~(CL_MAP_READ | writes)) != 0) {
        return CL_INVALID_VALUE;
    }
    return check_transfer(queue, mem, off, len, mem, forbidden, wait);
}

CL_API_ENTRY void *CL_API_CALL
td_clEnqueueMapBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                      cl_map_flags flags, size_t off, size_t len, cl_uint count,
                      const cl_event *list, cl_event *event, cl_int *errcode_ret)
{
    const struct td_wait wait = {count, list, event, blocking};
    struct td_cmd *cmd = NULL;
    void *ptr = NULL;
    cl_int err = td_enter(
        "clEnqueueMapBuffer",
        "queue=%u mem=%u blocking=%u flags=%#llx offset=%zu size=%zu wait=%u",
        td_id(queue), td_id(mem), blocking, (unsigned long long)flags, off, len, count);

    if (err == CL_SUCCESS) {
        err = check_map(queue, mem, flags, off, len, &wait);
    }
    if (err == CL_SUCCESS) {
        ptr = mem->data + off;
        cmd = td_cmd_create(queue, CL_COMMAND_MAP_BUFFER, "clEnqueueMapBuffer", 0);
        if (cmd == NULL || !td_mem_map_add(mem, ptr)) {
            err = CL_OUT_OF_HOST_MEMORY;
        }
    }
    if (err == CL_SUCCESS) {
        td_cmd_hold(cmd, mem);
        err = td_cmd_submit(cmd, &wait);
    } else if (cmd != NULL) {
        td_cmd_destroy(cmd);
    }
    td_set_error(errcode_ret, err);
    return err == CL_SUCCESS ? ptr : NULL;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem mem, void *ptr, cl_uint count,
                           const cl_event *list, cl_event *event)
{
    const struct td_wait wait = {count, list, event, CL_FALSE};
    struct td_cmd *cmd;
    cl_int err = td_enter("clEnqueueUnmapMemObject", "queue=%u mem=%u wait=%u",
                          td_id(queue), td_id(mem), count);

    if (err == CL_SUCCESS) {
        err = check(queue, mem, &wait);
    }
    if (err == CL_SUCCESS && !td_mem_map_remove(mem, ptr)) {
        err = CL_INVALID_VALUE;
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    cmd =
        td_cmd_create(queue, CL_COMMAND_UNMAP_MEM_OBJECT, "clEnqueueUnmapMemObject", 0);
    if (cmd == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    td_cmd_hold(cmd, mem);
    return td_cmd_submit(cmd, &wait);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint num_mems,
                              const cl_mem *mems, cl_mem_migration_flags flags,
                              cl_uint count, const cl_event *list, cl_event *event)
{
    const struct td_wait wait = {count, list, event, CL_FALSE};
    struct td_cmd *cmd;
    cl_int err =
        td_enter("clEnqueueMigrateMemObjects", "queue=%u mems=%u flags=%#llx wait=%u",
                 td_id(queue), num_mems, (unsigned long long)flags, count);

    if (err == CL_SUCCESS && (num_mems == 0 || mems == NULL)) {
        err = CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; err == CL_SUCCESS && i < num_mems; i++) {
        err = check(queue, mems[i], &wait);
    }
    if (err == CL_SUCCESS &&
        (flags & ~(cl_mem_migration_flags)(CL_MIGRATE_MEM_OBJECT_HOST |
                                           CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED)) !=
            0) {
        err = CL_INVALID_VALUE;
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    cmd = td_cmd_create(queue, CL_COMMAND_MIGRATE_MEM_OBJECTS,
                        "clEnqueueMigrateMemObjects", 0);
    return cmd != NULL ? td_cmd_submit(cmd, &wait) : CL_OUT_OF_HOST_MEMORY;
}

/* The body of the four calls for markers and barriers. */
static cl_int
enqueue_marker(cl_command_queue queue, bool barrier, const char *function,
               const struct td_wait *wait)
{
    cl_int err = td_enter(function, "queue=%u wait=%u", td_id(queue), wait->count);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(queue, TD_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    err = td_check_wait(queue->context, wait->count, wait->list);
    return err != CL_SUCCESS ? err : td_marker(queue, barrier, function, wait);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count,
                               const cl_event *list, cl_event *event)
{
    return enqueue_marker(queue, false, "clEnqueueMarkerWithWaitList",
                          &(struct td_wait){count, list, event, CL_FALSE});
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint count,
                                const cl_event *list, cl_event *event)
{
    return enqueue_marker(queue, true, "clEnqueueBarrierWithWaitList",
                          &(struct td_wait){count, list, event, CL_FALSE});
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueMarker(cl_command_queue queue, cl_event *event)
{
    if (event == NULL) {
        return CL_INVALID_VALUE;
    }
    return enqueue_marker(queue, false, "clEnqueueMarker",
                          &(struct td_wait){.ret_event = event});
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueBarrier(cl_command_queue queue)
{
    return enqueue_marker(queue, true, "clEnqueueBarrier", &(struct td_wait){0});
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueWaitForEvents(cl_command_queue queue, cl_uint count, const cl_event *list)
{
    if (count == 0 || list == NULL) {
        return CL_INVALID_VALUE;
    }
    return enqueue_marker(queue, true, "clEnqueueWaitForEvents",
                          &(struct td_wait){.count = count, .list = list});
}
