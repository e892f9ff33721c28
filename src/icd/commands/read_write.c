/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes of buffers and images. Small content is inline in the command frames.
 * Large content uses the bulk stream, directly from or into the program's memory, or memory
 * shared with the server. Only a box with gaps is packed into a copy first.
 */
#include "icd/commands/read_write.h"
#include "icd/commands/enqueue.h"
#include "icd/commands/geometry.h"
#include "icd/commands/hazard.h"
#include "icd/events/callback.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"
#include "icd/session/shared_memory.h"

#include <string.h>

#include "base/alloc.h"

/** A transfer in progress, or an inline READ: lives until its event and its transfer end. */
struct io {
    unsigned refs; /**< of the event and of the sink or source; under the lock */
    struct tp_icd_session *session;
    struct _cl_event *ev; /**< held */
    struct _cl_mem *mem; /**< held; NULL: the memory is the program's */
    uint8_t *ptr; /**< first byte in host memory */
    struct tp_icd_box box;
    uint8_t *packed; /**< contiguous copy of the content; NULL: it is at ptr */
    struct tp_icd_piece whole; /**< all content in shared memory, if in_slots ours */
    struct tp_icd_pieces *pieces; /**< or in pieces; NULL: not that way */
    struct tp_icd_read_range range;
    struct tp_icd_gate gate;
    union {
        struct tp_icd_sink sink;
        struct tp_icd_source source;
    };
};

void
tp_icd_content_set(struct tp_icd_content *content, struct _cl_mem *mem, size_t offset,
                   size_t size, const void *ptr)
{
    memset(content, 0, sizeof(*content));
    content->mem = mem;
    content->offset = offset;
    content->size = size;
    content->ptr = (uint8_t *)(uintptr_t)ptr;
    content->extent = size;
    content->box.region[0] = size;
    content->box.region[1] = content->box.region[2] = 1;
}

void
tp_icd_content_set_image(struct tp_icd_content *content, struct _cl_mem *mem,
                         const size_t origin[3], const size_t region[3],
                         size_t row_pitch, size_t slice_pitch, const void *ptr)
{
    const size_t row = region[0] * mem->image->element;

    tp_icd_content_set(content, mem, 0, row * region[1] * region[2], ptr);
    content->is_image = true;
    memcpy(content->origin, origin, sizeof(content->origin));
    memcpy(content->region, region, sizeof(content->region));
    content->box.region[0] = row;
    content->box.region[1] = region[1];
    content->box.region[2] = region[2];
    content->box.row_pitch = row_pitch;
    content->box.slice_pitch = slice_pitch;
    content->extent = row + (region[1] - 1) * row_pitch + (region[2] - 1) * slice_pitch;
}

/** The region field of READ_IMAGE and WRITE_IMAGE; @p values is borrowed by the result. */
static struct tp_wire_u64s
wire_region(const struct tp_icd_content *content, uint64_t values[8])
{
    for (int i = 0; i < 3; i++) {
        values[i] = content->origin[i];
        values[3 + i] = content->region[i];
    }
    return (struct tp_wire_u64s){6, values};
}

/** The rect field of READ and WRITE; @p values is borrowed by the result. */
static struct tp_wire_u64s
wire_rect(const struct tp_icd_content *content, uint64_t values[8])
{
    const struct tp_icd_rect *rect = &content->rect;

    if (!content->is_rect) {
        return (struct tp_wire_u64s){0, NULL};
    }
    for (int i = 0; i < 3; i++) {
        values[i] = rect->origin[i];
        values[3 + i] = rect->region[i];
    }
    values[6] = rect->row_pitch;
    values[7] = rect->slice_pitch;
    return (struct tp_wire_u64s){8, values};
}

/** @param packs the content needs memory of its own. */
static struct io *
io_create(const struct tp_icd_op *op, const struct tp_icd_content *content, bool packs)
{
    struct io *io = tp_zalloc(sizeof(*io), "transfer");

    if (io == NULL) {
        return NULL;
    }
    io->session = op->q->session;
    io->ptr = content->ptr;
    io->box = content->box;
    tp_list_init(&io->range.link);
    tp_list_init(&io->gate.link);
    if (packs) {
        io->packed = tp_malloc(content->size, "transfer");
        if (io->packed == NULL) {
            tp_free(io);
            return NULL;
        }
    }
    io->ev = op->ev;
    tp_icd_hold(&io->ev->obj);
    if (content->hold_mem) {
        io->mem = content->mem;
        tp_icd_hold(&io->mem->obj);
    }
    return io;
}

static void
io_free(struct io *io)
{
    tp_icd_drop_locked(&io->ev->obj);
    if (io->mem != NULL) {
        tp_icd_drop_locked(&io->mem->obj);
    }
    tp_icd_slots_give(io->session, &io->whole);
    tp_icd_pieces_destroy(io->session, io->pieces);
    tp_free(io->packed);
    tp_free(io);
}

static void
io_unref(struct io *io)
{
    if (--io->refs == 0) {
        io_free(io);
    }
}

/** Records that the event has a transfer besides DONE. */
static void
add_part(struct io *io, uint64_t transfer)
{
    io->refs++;
    io->ev->parts = 1;
    io->ev->transfer = transfer;
}

/** Completes a sink or a source. Not under the lock. */
static void
part_done(struct io *io, telpher_status status)
{
    tp_icd_lock();
    tp_icd_gate_fini(&io->gate);
    tp_free(io->packed); /* now, because the command itself may run much longer */
    io->packed = NULL;
    tp_icd_event_part_done(io->ev, status);
    io_unref(io);
    tp_icd_unlock();
}

/* ---- reading ------------------------------------------------------------------------ */

static void
read_ended(struct _cl_event *ev)
{
    struct io *io = ev->on_end_user;

    tp_icd_read_range_end(&io->range);
    io_unref(io);
}

static void
read_piece(struct tp_icd_sink *sink, uint64_t offset, uint32_t len)
{
    struct io *io = sink->user;

    tp_icd_box_unpack(io->ptr, &io->box, io->packed + offset, offset, len);
}

static void
read_done(struct tp_icd_sink *sink, telpher_status status)
{
    part_done(sink->user, status);
}

static cl_int
add_sink(struct io *io, uint64_t size, uint64_t *ret_transfer)
{
    telpher_status status;

    io->sink.transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER);
    io->sink.dst = io->packed != NULL ? io->packed : io->ptr;
    io->sink.size = size;
    io->sink.piece = io->packed != NULL ? read_piece : NULL;
    io->sink.done = read_done;
    io->sink.user = io;
    io->sink.pieces = io->pieces = tp_icd_pieces_create(io->session, size);
    status = tp_icd_sink_add(io->session, &io->sink);
    if (status != TELPHER_OK) {
        return tp_icd_cl_error(status);
    }
    add_part(io, io->sink.transfer);
    *ret_transfer = io->sink.transfer;
    return CL_SUCCESS;
}

/** Prepares to receive the content. */
static cl_int
expect_content(struct io *io, const struct tp_icd_content *content,
               uint64_t *ret_transfer)
{
    if (content->size > TP_WIRE_INLINE_MAX) {
        if (io->packed == NULL &&
            tp_icd_share_find(io->session, io->ptr, content->size, &io->whole)) {
            *ret_transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER);
            return CL_SUCCESS; /* it lies where it belongs when the command is done */
        }
        return add_sink(io, content->size, ret_transfer);
    }
    io->ev->inline_dst = io->ptr;
    io->ev->inline_len = content->size;
    io->ev->inline_box = tp_icd_box_is_packed(&io->box) ? NULL : &io->box;
    *ret_transfer = 0;
    return CL_SUCCESS;
}

static void
put_read_frame(struct tp_icd_op *op, const struct tp_icd_content *content,
               uint64_t transfer, uint8_t flags)
{
    uint64_t values[8];

    if (content->is_image) {
        tp_icd_put(op->q->session, TP_WIRE_READ_IMAGE,
                   &(struct tp_wire_read_image){.event = op->ev->obj.id,
                                                .queue = op->q->obj.id,
                                                .mem = content->mem->obj.id,
                                                .flags = op->flags | flags,
                                                .size = content->size,
                                                .transfer = transfer,
                                                .region = wire_region(content, values),
                                                .wait = tp_icd_op_ids(op)});
        return;
    }
    tp_icd_put(op->q->session, TP_WIRE_READ,
               &(struct tp_wire_read){.event = op->ev->obj.id,
                                      .queue = op->q->obj.id,
                                      .mem = content->mem->obj.id,
                                      .flags = op->flags | flags,
                                      .offset = content->offset,
                                      .size = content->size,
                                      .transfer = transfer,
                                      .rect = wire_rect(content, values),
                                      .wait = tp_icd_op_ids(op)});
}

/** Appends READ: after a piece for all content, or before the first of several pieces. */
static void
put_read_frames(struct tp_icd_op *op, const struct tp_icd_content *content,
                const struct io *io, uint64_t transfer)
{
    if (io->whole.region != NULL) {
        tp_icd_piece_put(io->session, transfer, &io->whole);
        put_read_frame(op, content, transfer, TP_WIRE_SHARED);
    } else if (io->pieces == NULL) {
        put_read_frame(op, content, transfer, 0);
    } else if (io->pieces->count == 1 && io->pieces->assigned == content->size) {
        tp_icd_pieces_put(io->session, &io->sink);
        put_read_frame(op, content, transfer, TP_WIRE_SHARED);
    } else {
        put_read_frame(op, content, transfer, TP_WIRE_SHARED);
        tp_icd_pieces_put(io->session, &io->sink);
    }
}

cl_int
tp_icd_put_read(struct tp_icd_op *op, void *arg)
{
    const struct tp_icd_content *content = arg;
    bool bulk = content->size > TP_WIRE_INLINE_MAX;
    uint64_t transfer = 0;
    struct io *io;
    cl_int err;

    if (content->size == 0) {
        return tp_icd_op_put_nothing(op, NULL);
    }
    err = tp_icd_read_range_order(op, content->ptr, content->extent, bulk);
    if (err != CL_SUCCESS) {
        return err;
    }
    io = io_create(op, content, bulk && !tp_icd_box_is_packed(&content->box));
    if (io == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    err = expect_content(io, content, &transfer);
    if (err != CL_SUCCESS) {
        io_free(io);
        return err;
    }
    io->refs++;
    op->ev->on_end = read_ended;
    op->ev->on_end_user = io;
    tp_icd_read_range_add(&io->range, op->ev, content->ptr, content->extent, bulk);
    op->flags |= TP_WIRE_NOTIFY;
    op->q->read_seq = op->ev->seq;
    put_read_frames(op, content, io, transfer);
    return CL_SUCCESS;
}

/* ---- writing ------------------------------------------------------------------------ */

static void
put_write_frame(struct tp_icd_op *op, const struct tp_icd_content *content,
                uint64_t transfer, uint8_t flags, struct tp_wire_bytes data)
{
    uint64_t values[8];

    if (content->is_image) {
        tp_icd_put(op->q->session, TP_WIRE_WRITE_IMAGE,
                   &(struct tp_wire_write_image){.event = tp_icd_op_event_id(op),
                                                 .queue = op->q->obj.id,
                                                 .mem = content->mem->obj.id,
                                                 .flags = op->flags | flags,
                                                 .size = content->size,
                                                 .transfer = transfer,
                                                 .region = wire_region(content, values),
                                                 .wait = tp_icd_op_ids(op),
                                                 .data = data});
        return;
    }
    tp_icd_put(op->q->session, TP_WIRE_WRITE,
               &(struct tp_wire_write){.event = tp_icd_op_event_id(op),
                                       .queue = op->q->obj.id,
                                       .mem = content->mem->obj.id,
                                       .flags = op->flags | flags,
                                       .offset = content->offset,
                                       .size = content->size,
                                       .transfer = transfer,
                                       .rect = wire_rect(content, values),
                                       .wait = tp_icd_op_ids(op),
                                       .data = data});
}

static cl_int
write_inline(struct tp_icd_op *op, const struct tp_icd_content *content)
{
    static uint8_t scratch[TP_WIRE_INLINE_MAX]; /* under tp_icd.lock */
    struct tp_wire_bytes data = {.len = (uint32_t)content->size, .data = content->ptr};

    if (!tp_icd_box_is_packed(&content->box)) {
        tp_icd_box_pack(scratch, &content->box, content->ptr, 0, content->size);
        data.data = scratch;
    }
    put_write_frame(op, content, 0, 0, data);
    return CL_SUCCESS;
}

static void
write_ended(struct _cl_event *ev)
{
    io_unref(ev->on_end_user);
}

static void
write_done(struct tp_icd_source *source, telpher_status status)
{
    part_done(source->user, status);
}

/** Reads the content of a WRITE from host memory, once it is valid. */
static void
take_content(struct io *io)
{
    if (io->packed != NULL) {
        tp_icd_box_pack(io->packed, &io->box, io->ptr, 0, io->source.size);
    }
}

static void
gate_opened(struct tp_icd_gate *gate)
{
    struct io *io = tp_container_of(gate, struct io, gate);

    take_content(io);
    tp_icd_source_ready(io->session, &io->source, io->source.size);
}

/** Starts to send the content, at once or when the gate opens. */
static cl_int
add_source(struct io *io, struct tp_icd_op *op, const struct tp_icd_content *content)
{
    telpher_status status;
    cl_int err = tp_icd_gate_init(&io->gate, op, content->ptr, content->extent);

    if (err != CL_SUCCESS) {
        return err;
    }
    io->gate.open = gate_opened;
    io->source.transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER);
    io->source.src = io->packed != NULL ? io->packed : io->ptr;
    io->source.size = content->size;
    io->source.done = write_done;
    io->source.user = io;
    io->source.pieces = io->pieces = tp_icd_pieces_create(io->session, content->size);
    if (io->gate.count == 0) {
        take_content(io);
        io->source.ready = content->size;
        io->source.by_caller = op->blocking && io->pieces == NULL;
    }
    status = tp_icd_source_add(io->session, &io->source);
    if (status != TELPHER_OK) {
        tp_icd_gate_fini(&io->gate);
        return tp_icd_cl_error(status);
    }
    add_part(io, io->source.transfer);
    return CL_SUCCESS;
}

/** @return the flags for the way in which a write sends its content. */
static uint8_t
way_flags(struct io *io)
{
    if (io->pieces != NULL) {
        return TP_WIRE_SHARED;
    }
    if (tp_icd_early_window(io->ev, io->source.size)) {
        return 0;
    }
    io->source.credit = 0;
    return TP_WIRE_CREDIT_FIRST;
}

static cl_int
write_bulk(struct tp_icd_op *op, const struct tp_icd_content *content)
{
    uint8_t way;
    struct io *io = io_create(op, content, !tp_icd_box_is_packed(&content->box));
    cl_int err;

    if (io == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    err = add_source(io, op, content);
    if (err != CL_SUCCESS) {
        io_free(io);
        return err;
    }
    io->refs++;
    op->ev->on_end = write_ended;
    op->ev->on_end_user = io;
    op->flush = true; /* credit comes only for what was assigned */
    op->flags |= TP_WIRE_NOTIFY;
    op->push = io->pieces != NULL;
    op->push_bulk = io->source.by_caller ? io->source.transfer : 0;
    way = way_flags(io);
    put_write_frame(op, content, io->source.transfer, way,
                    (struct tp_wire_bytes){0, NULL});
    /* A thread must receive CREDIT or the completion of pieces. */
    op->expect = !op->blocking && (way != 0 || content->size > TP_WIRE_WINDOW);
    return CL_SUCCESS;
}

/**
 * Places all content in shared memory if it is there already or fits a slot. Copies the
 * content of a call that may return after the copy.
 */
static bool
share_whole(const struct tp_icd_op *op, const struct tp_icd_content *content,
            struct tp_icd_piece *ret_piece)
{
    struct tp_icd_session *session = op->q->session;

    if (!op->copies && tp_icd_box_is_packed(&content->box) &&
        tp_icd_share_find(session, content->ptr, content->size, ret_piece)) {
        return true;
    }
    if (content->size > TP_ICD_SLOT_BYTES ||
        !tp_icd_slots_take(session, 0, content->size, content->size, ret_piece)) {
        return false;
    }
    tp_icd_box_pack(tp_icd_piece_memory(ret_piece), &content->box, content->ptr, 0,
                    content->size);
    return true;
}

static cl_int
write_whole(struct tp_icd_op *op, const struct tp_icd_content *content,
            const struct tp_icd_piece *piece)
{
    uint64_t transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER);
    struct io *io = io_create(op, content, false);

    if (io == NULL) {
        tp_icd_slots_give(op->q->session, piece);
        return CL_OUT_OF_HOST_MEMORY;
    }
    io->whole = *piece;
    io->refs = 1;
    op->ev->on_end = write_ended;
    op->ev->on_end_user = io;
    op->flush = true;
    op->flags |= TP_WIRE_NOTIFY;
    tp_icd_piece_put(op->q->session, transfer, piece);
    put_write_frame(op, content, transfer, TP_WIRE_SHARED,
                    (struct tp_wire_bytes){0, NULL});
    return CL_SUCCESS;
}

/** Requests an event if the content is not inline in the command. */
static cl_int
prepare_event(struct tp_icd_op *op)
{
    if (op->ev == NULL) {
        op->ev = tp_icd_event_create(op->q, op->type);
    }
    return op->ev != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

/** Makes a write wait whose content could not be copied. */
static void
wait_instead(struct tp_icd_op *op)
{
    if (op->copies) {
        op->blocking = true;
        tp_icd_hold(&op->ev->obj);
    }
}

cl_int
tp_icd_put_write(struct tp_icd_op *op, void *arg)
{
    const struct tp_icd_content *content = arg;
    struct tp_icd_piece piece;
    bool gated;
    cl_int err;

    if (content->size == 0) {
        return tp_icd_op_put_nothing(op, NULL);
    }
    gated = tp_icd_gate_needed(op, content->ptr, content->extent);
    if (content->size <= TP_WIRE_INLINE_MAX && !gated) {
        return write_inline(op, content);
    }
    if (!gated && share_whole(op, content, &piece)) {
        err = prepare_event(op);
        if (err != CL_SUCCESS) {
            tp_icd_slots_give(op->q->session, &piece);
            return err;
        }
        return write_whole(op, content, &piece);
    }
    err = prepare_event(op);
    if (err != CL_SUCCESS) {
        return err;
    }
    wait_instead(op);
    return write_bulk(op, content);
}
