/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where content is and how it moves, with two places that only write down what is put:
 * which frames, in which order, waiting for what.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "icd/commands/enqueue.h"
#include "icd/commands/read_write.h"
#include "icd/copies/copies.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/objects/svm.h"
#include "icd/session/peers.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"
#include "icd/session/shared_memory.h"

enum { FRAMES = 64, WAITS = 17, SMALL = 4096, LARGE = 1 << 20 };

/** A frame that was put. */
struct frame {
    struct tp_icd_session *session;
    uint16_t type;
    uint64_t event, mem, transfer, offset, size;
    uint64_t wait[WAITS];
    uint16_t wait_count;
};

static struct frame frames[FRAMES];
static unsigned frame_count;
static struct tp_icd_source *sources[FRAMES];
static struct tp_icd_sink *sinks[FRAMES];
static unsigned source_count, sink_count, abort_count;

/* ---- places that only write down ------------------------------------------------------ */

struct tp_icd_state tp_icd = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};

uint64_t
tp_icd_new_id(enum tp_wire_kind kind)
{
    return tp_wire_id(kind, tp_icd.next_id++);
}

bool
tp_icd_forked(void)
{
    return false;
}

bool
tp_icd_device_has_pipes(const struct _cl_device_id *dev)
{
    (void)dev;
    return false;
}

struct _cl_mem *
tp_icd_svm_find(const struct _cl_context *ctx, const void *ptr, size_t size,
                size_t *ret_offset)
{
    (void)ctx, (void)ptr, (void)size, (void)ret_offset;
    return NULL;
}

bool
tp_icd_device_fact(const struct _cl_device_id *dev, uint32_t param,
                   struct tp_wire_fact *ret_fact)
{
    (void)dev, (void)param, (void)ret_fact;
    return false;
}

void
tp_icd_ping_all(struct _cl_context *ctx)
{
    (void)ctx;
}

uint32_t
tp_icd_context_session(const struct _cl_context *ctx,
                       const struct tp_icd_session *session)
{
    return session == ctx->sessions[0] ? 0 : 1;
}

int
tp_icd_context_device_session(const struct _cl_context *ctx,
                              const struct _cl_device_id *dev)
{
    return dev == ctx->devices[0] ? 0 : 1;
}

bool
tp_icd_queue_in_order(const struct _cl_command_queue *q)
{
    return (q->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
}

static void
take_wait(struct frame *f, const struct tp_wire_u64s *wait)
{
    f->wait_count = wait->count;
    for (uint16_t i = 0; i < wait->count && i < WAITS; i++) {
        f->wait[i] = tp_wire_u64_at(wait, i);
    }
}

#define TAKE(constant, name, id)                                                       \
    case constant:                                                                     \
        f->event = ((const struct tp_wire_##name *)msg)->event;                        \
        f->mem = ((const struct tp_wire_##name *)msg)->id;                             \
        take_wait(f, &((const struct tp_wire_##name *)msg)->wait);                     \
        break;

void
tp_icd_put(struct tp_icd_session *session, uint16_t type, const void *msg)
{
    struct frame *f = &frames[frame_count++];

    assert_true(frame_count < FRAMES);
    *f = (struct frame){.session = session, .type = type};
    switch (type) {
        TAKE(TP_WIRE_READ, read, mem)
        TAKE(TP_WIRE_WRITE, write, mem)
        TAKE(TP_WIRE_FILL, fill, mem)
        TAKE(TP_WIRE_READ_IMAGE, read_image, mem)
        TAKE(TP_WIRE_WRITE_IMAGE, write_image, mem)
        TAKE(TP_WIRE_COPY, copy, src)
        TAKE(TP_WIRE_PUSH, push, mem)
        TAKE(TP_WIRE_PULL, pull, mem)
        TAKE(TP_WIRE_MARKER, marker, queue)
    default:
        frame_count--; /* objects are of no interest here */
        return;
    }
    if (type == TP_WIRE_PUSH) {
        f->transfer = ((const struct tp_wire_push *)msg)->transfer;
        f->offset = ((const struct tp_wire_push *)msg)->offset;
        f->size = ((const struct tp_wire_push *)msg)->size;
    } else if (type == TP_WIRE_PULL) {
        f->transfer = ((const struct tp_wire_pull *)msg)->transfer;
    } else if (type == TP_WIRE_WRITE) {
        f->transfer = ((const struct tp_wire_write *)msg)->transfer;
    }
}

void
tp_icd_put_release(struct tp_icd_session *session, uint64_t id)
{
    (void)session, (void)id;
}

/* Nothing is recorded here. */
cl_int
tp_icd_op_init_record(struct tp_icd_op *op, struct _cl_command_buffer_khr *commands,
                      cl_command_queue queue, cl_command_type type,
                      const struct tp_icd_sync *sync, void *mutable_handle)
{
    (void)op, (void)commands, (void)queue, (void)type, (void)sync, (void)mutable_handle;
    fail();
    return CL_INVALID_OPERATION;
}

cl_int
tp_icd_op_record(struct tp_icd_op *op, tp_icd_op_put put, void *arg)
{
    (void)op, (void)put, (void)arg;
    fail();
    return CL_INVALID_OPERATION;
}

cl_int
tp_icd_record_put(struct tp_icd_op *op, uint16_t type, const void *msg)
{
    (void)op, (void)type, (void)msg;
    fail();
    return CL_INVALID_OPERATION;
}

void
tp_icd_flush(struct tp_icd_session *session)
{
    (void)session;
}

void
tp_icd_flush_if_full(struct tp_icd_session *session)
{
    (void)session;
}

void
tp_icd_flush_dirty(void)
{
}

bool
tp_icd_session_lost(const struct tp_icd_session *session)
{
    return session->lost;
}

void
tp_icd_expect(struct tp_icd_session *session)
{
    (void)session;
}

void
tp_icd_unexpect(struct tp_icd_session *session)
{
    (void)session;
}

void
tp_icd_poll(struct tp_icd_session *session)
{
    (void)session;
}

telpher_status
tp_icd_wait(struct tp_icd_session *session, const bool *flag)
{
    (void)session, (void)flag;
    fail_msg("nothing here may wait");
    return TELPHER_ERR_PEER_LOST;
}

void
tp_icd_session_wake(struct tp_icd_session *session)
{
    (void)session;
}

void
tp_icd_session_set_dirty(struct tp_icd_session *session)
{
    (void)session;
}

void
tp_icd_session_count_subscribed(struct tp_icd_session *session, int by)
{
    (void)session, (void)by;
}

telpher_status
tp_icd_session_add_event(struct tp_icd_session *session, struct _cl_event *ev)
{
    return tp_map_put(&session->events, ev->obj.id, ev);
}

void
tp_icd_session_remove_event(struct tp_icd_session *session, struct _cl_event *ev)
{
    tp_map_remove(&session->events, ev->obj.id);
}

telpher_status
tp_icd_sink_add(struct tp_icd_session *session, struct tp_icd_sink *sink)
{
    (void)session;
    sinks[sink_count++] = sink;
    return TELPHER_OK;
}

telpher_status
tp_icd_source_add(struct tp_icd_session *session, struct tp_icd_source *source)
{
    (void)session;
    sources[source_count++] = source;
    return TELPHER_OK;
}

void
tp_icd_source_ready(struct tp_icd_session *session, struct tp_icd_source *source,
                    uint64_t ready)
{
    (void)session;
    source->ready = ready;
}

void
tp_icd_source_abort(struct tp_icd_session *session, struct tp_icd_source *source,
                    cl_int cl_status)
{
    (void)session, (void)source, (void)cl_status;
    abort_count++;
}

void
tp_icd_bulk_cancel(struct tp_icd_session *session, uint64_t transfer,
                   telpher_status status)
{
    (void)session, (void)transfer, (void)status;
}

/* ---- copies on a second server: none ---- */

struct tp_icd_session *
tp_icd_session_current(struct tp_icd_session *session)
{
    return session;
}

bool
tp_icd_copies_are_kept(const struct tp_icd_session *session)
{
    (void)session;
    return false;
}

void
tp_icd_copies_describe(struct tp_icd_session *session, const struct tp_icd_use *uses,
                       size_t count)
{
    (void)session, (void)uses, (void)count;
}

/* ---- streams between places ------------------------------------------------------------ */

static uint32_t peer; /* number of the stream; 0: the places do not reach each other */

uint32_t
tp_icd_peer_number(const struct tp_icd_session *a, const struct tp_icd_session *b)
{
    assert_ptr_not_equal(a, b);
    return peer;
}

bool
tp_icd_peer_tried(const struct tp_icd_session *a, const struct tp_icd_session *b)
{
    (void)a, (void)b;
    return true;
}

void
tp_icd_peer_arrange(struct tp_icd_session *a, struct tp_icd_session *b)
{
    (void)a, (void)b;
    fail_msg("the stream has been tried");
}

void
tp_icd_session_count_content(struct tp_icd_session *session, int by)
{
    session->contents += (unsigned)by;
}

bool
tp_icd_session_has_content(const struct tp_icd_session *session)
{
    return session->contents != 0;
}

unsigned
tp_icd_session_unread(const struct tp_icd_session *session)
{
    return session->subscribed;
}

/* ---- places that share no memory ---------------------------------------------------------- */

bool
tp_icd_share_has_slots(const struct tp_icd_session *session)
{
    (void)session;
    return false;
}

bool
tp_icd_share_find(struct tp_icd_session *session, const void *ptr, uint64_t size,
                  struct tp_icd_piece *ret_piece)
{
    (void)session, (void)ptr, (void)size, (void)ret_piece;
    return false;
}

bool
tp_icd_slots_take(struct tp_icd_session *session, uint64_t offset, uint64_t want,
                  uint64_t size, struct tp_icd_piece *ret_piece)
{
    (void)session, (void)offset, (void)want, (void)size, (void)ret_piece;
    return false;
}

void
tp_icd_slots_give(struct tp_icd_session *session, const struct tp_icd_piece *piece)
{
    (void)session;
    assert_false(piece->in_slots);
}

void
tp_icd_pieces_destroy(struct tp_icd_session *session, struct tp_icd_pieces *pieces)
{
    (void)session;
    assert_null(pieces);
}

bool
tp_icd_share_free(struct tp_icd_session *session, uint8_t *memory)
{
    (void)session, (void)memory;
    fail_msg("no memory is shared");
    return false;
}

struct tp_icd_pieces *
tp_icd_pieces_create(struct tp_icd_session *session, uint64_t size)
{
    (void)session, (void)size;
    return NULL;
}

void
tp_icd_pieces_put(struct tp_icd_session *session, const struct tp_icd_sink *sink)
{
    (void)session, (void)sink;
    fail_msg("no memory is shared");
}

void
tp_icd_piece_put(struct tp_icd_session *session, uint64_t transfer,
                 const struct tp_icd_piece *piece)
{
    (void)session, (void)transfer, (void)piece;
    fail_msg("no memory is shared");
}

uint8_t *
tp_icd_piece_memory(const struct tp_icd_piece *piece)
{
    (void)piece;
    fail_msg("no memory is shared");
    return NULL;
}

void
tp_icd_pieces_push(struct tp_icd_session *session)
{
    (void)session;
    fail_msg("no memory is shared");
}

void
tp_icd_bulk_push(struct tp_icd_session *session, uint64_t transfer)
{
    (void)session, (void)transfer;
}

/* ---- a context over two places ---------------------------------------------------------- */

static struct tp_icd_session sessions[2];
static struct _cl_device_id devices[2];
static struct _cl_device_id *device_list[2] = {&devices[0], &devices[1]};
static struct _cl_context ctx;
static struct _cl_command_queue queues[2];

static void
stay(struct tp_icd_object *obj)
{
    (void)obj;
}

static int
set_up(void **state)
{
    (void)state;
    memset(&ctx, 0, sizeof(ctx));
    tp_icd_object_init(&ctx.obj, TP_ICD_CONTEXT, 1, stay);
    ctx.devices = device_list;
    tp_list_init(&ctx.queues);
    ctx.device_count = ctx.session_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        struct _cl_command_queue *q = &queues[i];

        memset(&sessions[i], 0, sizeof(sessions[i]));
        memset(q, 0, sizeof(*q));
        ctx.sessions[i] = &sessions[i];
        devices[i].max_alloc_bytes = 1 << 30;
        tp_icd_object_init(&q->obj, TP_ICD_QUEUE, 100 + i, stay);
        q->ctx = &ctx;
        q->dev = &devices[i];
        q->session = &sessions[i];
        q->session_index = i;
        tp_list_init(&q->open);
    }
    peer = 0;
    frame_count = source_count = sink_count = abort_count = 0;
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    tp_icd_movers_free(&ctx);
    for (uint32_t i = 0; i < 2; i++) {
        tp_map_fini(&sessions[i].events);
    }
    return 0;
}

/** An image without a device that would have to know its format. */
static cl_mem
image(size_t width, size_t height)
{
    struct _cl_mem *mem =
        tp_icd_mem_create(&ctx, CL_MEM_READ_WRITE, width * height * 4);

    assert_non_null(mem);
    mem->image = tp_zalloc(sizeof(*mem->image), "image");
    assert_non_null(mem->image);
    *mem->image = (struct tp_icd_image){.type = CL_MEM_OBJECT_IMAGE2D,
                                        .element = 4,
                                        .width = width,
                                        .height = height,
                                        .dims = {width, height, 1},
                                        .row_pitch = width * 4,
                                        .host_bytes = width * height * 4};
    assert_int_equal(tp_icd_mem_fill(mem, NULL, NULL, NULL), CL_SUCCESS);
    return mem;
}

static cl_mem
buffer(size_t size, const void *content)
{
    cl_int err = 1;
    cl_mem mem = tp_clCreateBuffer(&ctx, content != NULL ? CL_MEM_COPY_HOST_PTR : 0,
                                   size, (void *)(uintptr_t)content, &err);

    assert_int_equal(err, CL_SUCCESS);
    return mem;
}

/** A command that changes a part of a buffer. */
static void
change(cl_mem mem, int where)
{
    assert_int_equal(
        tp_clEnqueueFillBuffer(&queues[where], mem, "x", 1, 8, 8, 0, NULL, NULL),
        CL_SUCCESS);
}

enum { CHANGED = 8 }; /* [bytes] of that part */

/** A command that changes all of a buffer. */
static void
change_all(cl_mem mem, int where)
{
    assert_int_equal(tp_clEnqueueFillBuffer(&queues[where], mem, "x", 1, 0, mem->size,
                                            0, NULL, NULL),
                     CL_SUCCESS);
}

/** A command that only reads a buffer. */
static cl_int
look(cl_mem mem, cl_mem other, int where)
{
    return tp_clEnqueueCopyBuffer(&queues[where], mem, other, 0, 0, 16, 0, NULL, NULL);
}

static cl_int
look_at_all(cl_mem mem, cl_mem other, int where)
{
    return tp_clEnqueueCopyBuffer(&queues[where], mem, other, 0, 0, mem->size, 0, NULL,
                                  NULL);
}

/** Completes a command of @p f as its server would. */
static void
done(const struct frame *f, cl_int status, const void *data, uint32_t len)
{
    struct tp_wire_done msg = {
        .event = f->event, .status = status, .data = {len, data}};
    struct _cl_event *ev = tp_map_get(&f->session->events, f->event);

    assert_non_null(ev);
    tp_icd_lock();
    tp_icd_event_on_done(ev, &msg);
    tp_icd_unlock();
}

/** Sends what is left of a source, or not. */
static void
source_over(unsigned i, telpher_status status)
{
    sources[i]->done(sources[i], status);
}

static void
expect_frame(unsigned i, int where, uint16_t type, const struct _cl_mem *mem)
{
    assert_true(i < frame_count);
    assert_ptr_equal(frames[i].session, &sessions[where]);
    assert_int_equal(frames[i].type, type);
    if (mem != NULL) {
        assert_int_equal(frames[i].mem, mem->obj.id);
    }
}

static bool
waits(unsigned i, uint64_t event)
{
    for (uint16_t k = 0; k < frames[i].wait_count; k++) {
        if (frames[i].wait[k] == event) {
            return true;
        }
    }
    return false;
}

static void
release(cl_mem mem)
{
    assert_int_equal(tp_clReleaseMemObject(mem), CL_SUCCESS);
}

/* ---- tests ------------------------------------------------------------------------------ */

static void
no_content_moves_nothing(void **state)
{
    cl_mem a = buffer(SMALL, NULL), b = buffer(SMALL, NULL), c = buffer(SMALL, NULL);

    (void)state;
    assert_int_equal(look(a, b, 0), CL_SUCCESS);
    assert_int_equal(look(a, c, 1), CL_SUCCESS);
    assert_int_equal(frame_count, 2);
    expect_frame(0, 0, TP_WIRE_COPY, a);
    expect_frame(1, 1, TP_WIRE_COPY, a);
    release(a);
    release(b);
    release(c);
}

static void
first_content_goes_where_it_is_used(void **state)
{
    uint8_t content[SMALL] = {1};
    cl_mem a = buffer(SMALL, content), b = buffer(SMALL, NULL), c = buffer(SMALL, NULL);

    (void)state;
    assert_int_equal(frame_count, 0);
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    expect_frame(0, 1, TP_WIRE_WRITE, a);
    assert_int_equal(frames[0].transfer, 0);
    expect_frame(1, 1, TP_WIRE_COPY, a);
    assert_true(waits(1, frames[0].event));
    done(&frames[0], CL_COMPLETE, NULL, 0);
    assert_int_equal(look(a, b, 1), CL_SUCCESS); /* it is there: no wait, no move */
    assert_int_equal(frames[2].wait_count, 0);
    assert_int_equal(look(a, c, 0), CL_SUCCESS); /* from here, nothing is read back */
    expect_frame(3, 0, TP_WIRE_WRITE, a);
    expect_frame(4, 0, TP_WIRE_COPY, a);
    assert_int_equal(frame_count, 5);
    done(&frames[3], CL_COMPLETE, NULL, 0);
    release(a);
    release(b);
    release(c);
}

/** Where the places reach each other, content goes past this process, in the same order. */
static void
servers_push_to_each_other(void **state)
{
    cl_mem a = buffer(LARGE, NULL), b = buffer(LARGE, NULL);

    (void)state;
    peer = 7;
    change(a, 0);
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    assert_int_equal(frame_count, 4);
    expect_frame(1, 0, TP_WIRE_PUSH, a);
    assert_true(waits(1, frames[0].event)); /* after the writer */
    expect_frame(2, 1, TP_WIRE_PULL, a);
    assert_int_equal(frames[1].transfer, frames[2].transfer);
    expect_frame(3, 1, TP_WIRE_COPY, a);
    assert_true(waits(3, frames[2].event));
    change(a, 0);
    assert_int_equal(frame_count, 5);
    assert_true(waits(4, frames[1].event)); /* the next writer waits for the push */
    done(&frames[2], CL_OUT_OF_RESOURCES, NULL, 0);
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    assert_int_equal(frame_count, 8);
    expect_frame(5, 0, TP_WIRE_PUSH, a);
    expect_frame(6, 1, TP_WIRE_PULL, a);
    assert_int_equal(sink_count + source_count, 0); /* nothing passes here */
    done(&frames[6], CL_COMPLETE, NULL, 0);
    done(&frames[4], CL_COMPLETE, NULL, 0);
    done(&frames[7], CL_COMPLETE, NULL, 0);
    release(a);
    release(b);
}

/** Parts of a buffer that are current at several places: only stale ranges move. */
static void
only_stale_ranges_move(void **state)
{
    const uint64_t quarter = LARGE / 4;
    cl_mem a = buffer(LARGE, NULL), b = buffer(LARGE, NULL);

    (void)state;
    peer = 7;
    for (unsigned i = 0; i < 4; i++) { /* quarters 0 and 2 here, 1 and 3 there */
        assert_int_equal(tp_clEnqueueFillBuffer(&queues[i % 2], a, "x", 1, i * quarter,
                                                quarter, 0, NULL, NULL),
                         CL_SUCCESS);
    }
    assert_int_equal(frame_count, 4); /* nothing moves */
    assert_int_equal(look_at_all(a, b, 1), CL_SUCCESS);
    assert_int_equal(frame_count, 9);
    for (unsigned i = 0; i < 2; i++) {
        expect_frame(4 + 2 * i, 0, TP_WIRE_PUSH, a);
        assert_int_equal(frames[4 + 2 * i].offset, 2 * i * quarter);
        assert_int_equal(frames[4 + 2 * i].size, quarter);
        expect_frame(5 + 2 * i, 1, TP_WIRE_PULL, a);
    }
    assert_true(waits(8, frames[7].event)); /* the last of an in-order queue */
    assert_int_equal(look_at_all(a, b, 0), CL_SUCCESS); /* the other two, and no more */
    assert_int_equal(frame_count, 14);
    expect_frame(9, 1, TP_WIRE_PUSH, a);
    assert_int_equal(frames[9].offset, quarter);
    expect_frame(11, 1, TP_WIRE_PUSH, a);
    assert_int_equal(frames[11].offset, 3 * quarter);
    assert_int_equal(look_at_all(a, b, 1), CL_SUCCESS); /* all is current at both */
    assert_int_equal(frame_count, 15);
    for (unsigned i = 0; i < 15; i++) {
        if (tp_map_get(&frames[i].session->events, frames[i].event) != NULL) {
            done(&frames[i], CL_COMPLETE, NULL, 0);
        }
    }
    release(a);
    release(b);
}

/** The order rules of move.c, in one story. */
static void
a_move_waits_for_the_writer_and_writers_for_the_move(void **state)
{
    static uint8_t content[SMALL];
    cl_mem a = buffer(SMALL, NULL), b = buffer(SMALL, NULL);

    (void)state;
    change(a, 0);
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    assert_int_equal(frame_count, 4);
    expect_frame(1, 0, TP_WIRE_READ, a);
    assert_true(waits(1, frames[0].event));
    expect_frame(2, 1, TP_WIRE_WRITE, a);
    assert_true(frames[2].transfer != 0);
    expect_frame(3, 1, TP_WIRE_COPY, a);
    assert_true(waits(3, frames[2].event));
    assert_int_equal(sources[0]->ready, 0);

    change(a, 0); /* a later writer there */
    assert_true(waits(4, frames[1].event));
    done(&frames[1], CL_COMPLETE, content, CHANGED);
    assert_int_equal(sources[0]->ready, CHANGED);
    change(a, 0);
    assert_int_equal(frames[5].wait_count, 0);
    source_over(0, TELPHER_OK);
    done(&frames[2], CL_COMPLETE, NULL, 0);

    assert_int_equal(look(a, b, 1), CL_SUCCESS); /* stale again: a second move */
    expect_frame(6, 0, TP_WIRE_READ, a);
    assert_true(waits(6, frames[5].event)); /* the last of an in-order queue */
    expect_frame(7, 1, TP_WIRE_WRITE, a);
    done(&frames[6], CL_COMPLETE, content, CHANGED);
    source_over(1, TELPHER_OK);
    done(&frames[7], CL_COMPLETE, NULL, 0);
    release(a);
    release(b);
}

static void
readers_keep_copies_and_whole_writes_need_none(void **state)
{
    static uint8_t content[SMALL];
    cl_mem a = buffer(SMALL, NULL), b = buffer(SMALL, NULL), c = buffer(SMALL, NULL);
    unsigned before;

    (void)state;
    change(a, 0);
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    done(&frames[1], CL_COMPLETE, content, CHANGED);
    source_over(0, TELPHER_OK);
    done(&frames[2], CL_COMPLETE, NULL, 0);
    before = frame_count;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(look(a, c, 0), CL_SUCCESS);
        assert_int_equal(look(a, b, 1), CL_SUCCESS);
    }
    assert_int_equal(frame_count, before + 6); /* both copies stay good */
    before = frame_count;
    assert_int_equal(tp_clEnqueueWriteBuffer(&queues[1], c, CL_FALSE, 0, SMALL, content,
                                             0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(frame_count,
                     before + 1); /* what was at the other place is not wanted */
    release(a);
    release(b);
    release(c);
}

static void
large_content_is_passed_on_as_it_comes(void **state)
{
    cl_mem a = buffer(LARGE, NULL), b = buffer(LARGE, NULL);

    (void)state;
    change_all(a, 0);
    assert_int_equal(look_at_all(a, b, 1), CL_SUCCESS);
    assert_int_equal(sink_count, 1);
    sinks[0]->piece(sinks[0], 0, LARGE / 4);
    assert_int_equal(sources[0]->ready, LARGE / 4);
    assert_ptr_equal(sources[0]->src, sinks[0]->dst);
    sinks[0]->piece(sinks[0], LARGE / 4, LARGE / 4 * 3);
    assert_int_equal(sources[0]->ready, LARGE);
    sinks[0]->done(sinks[0], TELPHER_OK);
    done(&frames[1], CL_COMPLETE, NULL, 0);
    source_over(0, TELPHER_OK);
    done(&frames[2], CL_COMPLETE, NULL, 0);
    release(a);
    release(b);
}

static void
a_failed_move_is_tried_again(void **state)
{
    static uint8_t content[SMALL];
    cl_mem a = buffer(SMALL, NULL), b = buffer(SMALL, NULL);

    (void)state;
    change(a, 0);
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    done(&frames[1], CL_OUT_OF_RESOURCES, NULL, 0);
    assert_int_equal(abort_count, 1);
    source_over(0, TELPHER_ERR_CANCELED);
    done(&frames[2], CL_OUT_OF_RESOURCES, NULL, 0);
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    expect_frame(4, 0, TP_WIRE_READ, a);
    expect_frame(5, 1, TP_WIRE_WRITE, a);
    done(&frames[4], CL_COMPLETE, content, SMALL);
    source_over(1, TELPHER_OK);
    done(&frames[5], CL_COMPLETE, NULL, 0);
    release(a);
    release(b);
}

static void
the_only_copy_is_lost_with_its_session(void **state)
{
    static uint8_t content[SMALL];
    cl_mem a = buffer(SMALL, NULL), b = buffer(SMALL, NULL),
           kept = buffer(SMALL, content);

    (void)state;
    change(a, 0);
    assert_int_equal(look(kept, b, 1), CL_SUCCESS);
    sessions[0].lost = true;
    assert_int_equal(look(a, b, 1), CL_DEVICE_NOT_AVAILABLE);
    assert_int_equal(look(a, b, 0), CL_DEVICE_NOT_AVAILABLE);
    assert_int_equal(look(kept, b, 1), CL_SUCCESS);
    assert_int_equal(tp_clEnqueueWriteBuffer(&queues[1], a, CL_FALSE, 0, SMALL, content,
                                             0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    done(&frames[1], CL_COMPLETE, NULL, 0);
    release(a);
    release(b);
    release(kept);
}

/** Many writers of an out-of-order queue become one event before a move waits for them. */
static void
many_writers_are_joined(void **state)
{
    cl_mem a = buffer(SMALL, NULL), b = buffer(SMALL, NULL);
    static uint8_t content[SMALL];
    unsigned markers = 0, read = 0;

    (void)state;
    queues[0].properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    for (int i = 0; i < 40; i++) {
        change(a, 0);
    }
    assert_int_equal(look(a, b, 1), CL_SUCCESS);
    for (unsigned i = 0; i < frame_count; i++) {
        markers += frames[i].type == TP_WIRE_MARKER;
        read = frames[i].type == TP_WIRE_READ ? i : read;
    }
    assert_int_equal(markers, 2);
    assert_in_range(frames[read].wait_count, 1, WAITS);
    for (unsigned i = 0; i < frame_count; i++) {
        if (frames[i].type == TP_WIRE_MARKER) {
            done(&frames[i], CL_COMPLETE, NULL, 0);
        }
    }
    done(&frames[read], CL_COMPLETE, content, CHANGED);
    source_over(0, TELPHER_OK);
    done(&frames[read + 1], CL_COMPLETE, NULL, 0);
    release(a);
    release(b);
}

/** Everything under way ends well. */
static void
end_all(void)
{
    static uint8_t content[SMALL];

    for (unsigned i = 0; i < frame_count; i++) {
        struct frame *f = &frames[i];

        if (f->event != 0 && tp_map_get(&f->session->events, f->event) != NULL) {
            done(f, CL_COMPLETE, content, f->type == TP_WIRE_READ ? SMALL : 0);
        }
    }
    for (unsigned i = 0; i < source_count; i++) {
        source_over(i, TELPHER_OK);
    }
}

static bool
well_or_no_memory(cl_int err)
{
    assert_true(err == CL_SUCCESS || err == CL_OUT_OF_HOST_MEMORY);
    return err == CL_SUCCESS;
}

/** A life of two buffers; each step may fail for want of memory, and leaves no trace then. */
static void
live_with_little_memory(void)
{
    static uint8_t content[SMALL];
    struct _cl_mem *mem[2] = {NULL, NULL};
    cl_event event;
    cl_int err[2];

    for (int i = 0; i < 2; i++) {
        mem[i] = tp_clCreateBuffer(&ctx, CL_MEM_COPY_HOST_PTR, SMALL, content, &err[i]);
        assert_int_equal(mem[i] != NULL, well_or_no_memory(err[i]));
    }
    for (int i = 0; i < 4 && mem[0] != NULL && mem[1] != NULL; i++) {
        (void)well_or_no_memory(tp_clEnqueueFillBuffer(&queues[i % 2], mem[0], "x", 1,
                                                       8, 8, 0, NULL, NULL));
        if (well_or_no_memory(tp_clEnqueueCopyBuffer(&queues[1 - i % 2], mem[0], mem[1],
                                                     0, 0, 16, 0, NULL, &event))) {
            assert_int_equal(tp_clReleaseEvent(event), CL_SUCCESS);
        }
    }
    end_all();
    for (int i = 0; i < 2; i++) {
        if (mem[i] != NULL) {
            release(mem[i]);
        }
    }
}

static void
little_memory(void **state)
{
    uint64_t nth = 0;
    uint64_t live = tp_alloc_live();

    do {
        set_up(state);
        tp_alloc_fail_nth(++nth);
        live_with_little_memory();
        tear_down(state);
        assert_int_equal(tp_alloc_live(), live);
    } while (tp_alloc_failed());
    assert_in_range(nth, 20, 1000);
    set_up(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/** Content of an image moves as that of a buffer, whole, with commands for images. */
static void
images_move_whole(void **state)
{
    const size_t zero[3] = {0, 0, 0}, some[3] = {4, 4, 1}, all[3] = {32, 16, 1};
    struct tp_icd_content content;
    struct tp_icd_op op;
    uint8_t memory[2048] = {0};
    cl_mem mem = image(32, 16);

    (void)state;
    for (int where = 0; where < 2; where++) { /* a part is written here, then there */
        assert_int_equal(
            tp_icd_op_init(&op, &queues[where], CL_COMMAND_WRITE_IMAGE, 0, NULL, NULL),
            CL_SUCCESS);
        tp_icd_content_set_image(&content, mem, zero, some, 16, 0, memory);
        assert_int_equal(tp_icd_run_write(&op, false, &content, false), CL_SUCCESS);
    }
    assert_int_equal(frame_count, 4);
    expect_frame(0, 0, TP_WIRE_WRITE_IMAGE, mem); /* the program's */
    expect_frame(1, 0, TP_WIRE_READ_IMAGE, mem); /* ours, out */
    expect_frame(2, 1, TP_WIRE_WRITE_IMAGE, mem); /* ours, in */
    expect_frame(3, 1, TP_WIRE_WRITE_IMAGE, mem);
    assert_true(waits(1, frames[0].event));
    assert_true(waits(3, frames[2].event));
    done(&frames[0], CL_COMPLETE, NULL, 0);
    done(&frames[1], CL_COMPLETE, memory, sizeof(memory));
    source_over(0, TELPHER_OK);
    done(&frames[2], CL_COMPLETE, NULL, 0);
    done(&frames[3], CL_COMPLETE, NULL, 0);
    assert_int_equal(
        tp_icd_op_init(&op, &queues[0], CL_COMMAND_WRITE_IMAGE, 0, NULL, NULL),
        CL_SUCCESS);
    tp_icd_content_set_image(&content, mem, zero, all, 128, 0, memory);
    assert_int_equal(tp_icd_run_write(&op, false, &content, true), CL_SUCCESS);
    assert_int_equal(frame_count, 5); /* all of it is new: nothing moves */
    expect_frame(4, 0, TP_WIRE_WRITE_IMAGE, mem);
    done(&frames[4], CL_COMPLETE, NULL, 0);
    assert_int_equal(tp_clReleaseMemObject(mem), CL_SUCCESS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_content_moves_nothing),
        TEST(first_content_goes_where_it_is_used),
        TEST(a_move_waits_for_the_writer_and_writers_for_the_move),
        TEST(servers_push_to_each_other),
        TEST(only_stale_ranges_move),
        TEST(readers_keep_copies_and_whole_writes_need_none),
        TEST(large_content_is_passed_on_as_it_comes),
        TEST(a_failed_move_is_tried_again),
        TEST(the_only_copy_is_lost_with_its_session),
        TEST(many_writers_are_joined),
        TEST(images_move_whole),
        TEST(little_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
