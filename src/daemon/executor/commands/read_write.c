/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes READ and WRITE of buffers and images. Small content is in the frame, content of
 * up to a chunk goes directly to the queue, and large_transfer.c moves the rest. Content may
 * also be in shared memory of the client.
 */
#include <poll.h>

#include "daemon/control.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/peer/peer.h"
#include "daemon/executor/transfer/shared_memory.h"
#include "device/opencl/watch.h"

int32_t
tp_exec_make_rect(const uint64_t v[8], uint64_t size, struct tp_device_box *ret_box)
{
    uint64_t rows, last;

    for (int i = 0; i < 8; i++) {
        if (v[i] >= TP_WIRE_TRANSFER_MAX) {
            return CL_INVALID_VALUE;
        }
    }
    *ret_box = (struct tp_device_box){.origin = {v[0], v[1], v[2]},
                                      .region = {v[3], v[4], v[5]},
                                      .row_pitch = v[6] != 0 ? v[6] : v[3]};
    if (__builtin_mul_overflow(ret_box->row_pitch, v[4], &rows)) {
        return CL_INVALID_VALUE;
    }
    ret_box->slice_pitch = v[7] != 0 ? v[7] : rows;
    if (v[3] == 0 || v[4] == 0 || v[5] == 0 || ret_box->row_pitch < v[3] ||
        ret_box->slice_pitch < rows) {
        return CL_INVALID_VALUE;
    }
    /* the end offset, with overflow checks at every step */
    if (__builtin_mul_overflow(v[2] + v[5] - 1, ret_box->slice_pitch, &last) ||
        __builtin_mul_overflow(v[1] + v[4] - 1, ret_box->row_pitch, &rows) ||
        __builtin_add_overflow(last, rows, &last) ||
        __builtin_add_overflow(last, v[0] + v[3], &last) || last > size) {
        return CL_INVALID_VALUE;
    }
    return 0;
}

/*
 * Finds the buffer of a READ or WRITE and makes its box. @return 0; CL_INVALID_VALUE when
 * the box exceeds the buffer or its size is not that of the content
 */
static int32_t
find_box(struct tp_exec *x, const struct tp_exec_content *content,
         struct tp_exec_mem **ret_mem, struct tp_device_box *ret_box)
{
    uint64_t v[8], offset = content->offset, size = content->size;
    int32_t error = tp_exec_find_buffer(x, content->mem, ret_mem);
    uint64_t limit = error == 0 ? (*ret_mem)->size : 0;

    if (error != 0) {
        return error;
    }
    if (content->region.count == 0) {
        *ret_box = tp_device_range(offset, size);
        return size > 0 && size <= limit && offset <= limit - size ? 0
                                                                   : CL_INVALID_VALUE;
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(v); i++) {
        v[i] = tp_wire_u64_at(&content->region, i);
    }
    error = tp_exec_make_rect(v, limit, ret_box);
    if (error == 0 && tp_device_box_size(ret_box) != size) {
        error = CL_INVALID_VALUE;
    }
    return error;
}

/* True if memory may come free while the reader waits: commands that hold some run, and none
 * of them waits for a frame that the reader has not read, or for the end of the session. */
static bool
may_wait_for_memory(struct tp_exec *x)
{
    struct pollfd broker = {.fd = TP_CONTROL_FD};

    return atomic_load(&x->user_events_open) == 0 &&
           tp_host_staging_used(x->page) + tp_host_staging_used(x->staging) > 0 &&
           poll(&broker, 1, 0) == 0;
}

/*
 * Takes a chunk for content. If the limit of host memory is reached, the reader waits for
 * commands to end: the client's calls then block because it is not read.
 */
static void *
take_chunk(struct tp_exec *x, struct tp_host_staging *from)
{
    void *chunk = tp_host_staging_get(from);

    if (chunk != NULL || !may_wait_for_memory(x)) {
        return chunk;
    }
    tp_exec_watchdog_leave(x);
    tp_exec_flush_queues(x);
    tp_exec_flush(x);
    while ((chunk = tp_host_staging_get(from)) == NULL && may_wait_for_memory(x)) {
        tp_opencl_watch_leave();
        tp_clock_sleep(TP_CLOCK_MS);
        tp_exec_sweep_completed(x);
    }
    tp_exec_watchdog_enter(x);
    return chunk;
}

/*
 * Allocates memory for a READ or WRITE that goes directly to the queue: pinned if the
 * context has pinned memory, else ordinary. A driver copies to ordinary memory through its
 * own staging, on an H200 in 12 us instead of 6.
 */
static int32_t
reserve_content(struct tp_exec_event *ev, uint64_t size, bool pinned)
{
    struct tp_exec *x = ev->obj.x;

    if (size <= sizeof(ev->small) &&
        !(pinned && tp_exec_is_pinned(ev->queue->context))) {
        ev->content = ev->small;
        return 0;
    }
    ev->content_from = size <= TP_EXEC_PAGE         ? x->page
                       : size <= TP_WIRE_INLINE_MAX ? x->staging
                                                    : x->middle;
    ev->content = take_chunk(x, ev->content_from);
    if (ev->content == NULL) {
        ev->content_from = NULL;
        ev->call = "more than telpherd --max-host-memory allows";
        return CL_OUT_OF_HOST_MEMORY;
    }
    return 0;
}

static int32_t
enqueue_image(struct tp_exec_command *c, cl_mem mem, const struct tp_device_box *box,
              bool to_client)
{
    const size_t origin[3] = {box->origin[0] / box->element, box->origin[1],
                              box->origin[2]};
    const size_t region[3] = {box->region[0] / box->element, box->region[1],
                              box->region[2]};

    return to_client
               ? c->x->cl.EnqueueReadImage(c->queue->native, mem, CL_FALSE, origin,
                                           region, 0, 0, c->ev->content, c->wait_count,
                                           c->waits, &c->ev->native)
               : c->x->cl.EnqueueWriteImage(c->queue->native, mem, CL_FALSE, origin,
                                            region, 0, 0, c->ev->content, c->wait_count,
                                            c->waits, &c->ev->native);
}

static int32_t
enqueue_rect(struct tp_exec_command *c, cl_mem mem, const struct tp_device_box *box,
             bool to_client)
{
    const size_t zero[3] = {0, 0, 0};
    const size_t origin[3] = {box->origin[0], box->origin[1], box->origin[2]};
    const size_t region[3] = {box->region[0], box->region[1], box->region[2]};

    return to_client
               ? c->x->cl.EnqueueReadBufferRect(c->queue->native, mem, CL_FALSE, origin,
                                                zero, region, box->row_pitch,
                                                box->slice_pitch, 0, 0, c->ev->content,
                                                c->wait_count, c->waits, &c->ev->native)
               : c->x->cl.EnqueueWriteBufferRect(
                     c->queue->native, mem, CL_FALSE, origin, zero, region,
                     box->row_pitch, box->slice_pitch, 0, 0, c->ev->content,
                     c->wait_count, c->waits, &c->ev->native);
}

static int32_t
enqueue_box(struct tp_exec_command *c, cl_mem mem, const struct tp_device_box *box,
            bool to_client)
{
    if (box->element != 0) {
        return enqueue_image(c, mem, box, to_client);
    }
    if (box->row_pitch != 0) {
        return enqueue_rect(c, mem, box, to_client);
    }
    return to_client ? c->x->cl.EnqueueReadBuffer(c->queue->native, mem, CL_FALSE,
                                                  box->origin[0], box->region[0],
                                                  c->ev->content, c->wait_count,
                                                  c->waits, &c->ev->native)
                     : c->x->cl.EnqueueWriteBuffer(c->queue->native, mem, CL_FALSE,
                                                   box->origin[0], box->region[0],
                                                   c->ev->content, c->wait_count,
                                                   c->waits, &c->ev->native);
}

/* The content of a READ has been sent to the client. */
static void
content_sent(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct tp_exec_event *ev = arg;

    tp_exec_unref(&ev->obj); /* frees the content */
}

/* Enqueues a READ of up to a chunk directly; its content is sent at completion. */
static telpher_status
start_direct(struct tp_exec_command *c, uint64_t transfer, uint64_t size)
{
    const struct tp_exec_transfer_params params = {.id = transfer,
                                                   .size = size,
                                                   .to_client = true,
                                                   .gated = true,
                                                   .peer = c->peer,
                                                   .memory = c->ev->content,
                                                   .finished = content_sent,
                                                   .arg = c->ev};
    telpher_status status;

    c->ev->transfer = transfer;
    tp_exec_ref(&c->ev->obj);
    status = tp_exec_transfers_start(c->x->transfers, &params);
    if (status != TELPHER_OK) {
        c->ev->transfer = 0; /* it belongs to another command */
        tp_exec_unref(&c->ev->obj);
    }
    return status;
}

/* True for a READ that needs no chunks. */
static bool
is_direct(const struct tp_exec *x, uint64_t size, uint64_t transfer)
{
    return transfer == 0 || (size <= TP_EXEC_DIRECT_MAX &&
                             tp_host_staging_used(x->middle) < TP_EXEC_DIRECT_COUNT);
}

static bool
is_shared(uint8_t flags)
{
    return (flags & TP_WIRE_SHARED) != 0;
}

/* A READ into shared memory: directly if one piece holds all, else piece by piece. */
static telpher_status
read_shared(struct tp_exec_command *c, struct tp_exec_mem *mem,
            const struct tp_device_box *box, const struct tp_exec_content *content)
{
    bool whole = tp_exec_take_piece(c->x, content->transfer, content->size, c->ev);

    if (c->error == 0 && !whole) {
        return tp_exec_move(c, mem, box, content->transfer, true, content->flags);
    }
    if (c->error == 0) {
        c->ev->is_read = true;
        c->error = enqueue_box(c, mem->native, box, true);
    }
    return tp_exec_end(c);
}

/* A WRITE from shared memory, likewise. */
static telpher_status
write_shared(struct tp_exec_command *c, struct tp_exec_mem *mem,
             const struct tp_device_box *box, const struct tp_exec_content *content)
{
    bool whole = tp_exec_take_piece(c->x, content->transfer, content->size, c->ev);
    telpher_status status = TELPHER_OK;

    if (c->error == 0 && !whole) {
        return tp_exec_move(c, mem, box, content->transfer, false, content->flags);
    }
    if (!whole) {
        status = tp_exec_transfers_discard(c->x->transfers, content->transfer,
                                           content->size, true, NULL);
    } else if (c->error == 0) {
        c->error = enqueue_box(c, mem->native, box, false);
    }
    (void)tp_exec_end(c);
    return status;
}

static bool
read_is_proper(const struct tp_exec_content *content)
{
    if ((content->flags & TP_WIRE_NOTIFY) == 0 && !content->has_peer) {
        return false;
    }
    return content->transfer == 0
               ? content->size <= TP_WIRE_INLINE_MAX && !is_shared(content->flags)
               : tp_wire_id_kind(content->transfer) == TP_WIRE_KIND_TRANSFER &&
                     content->size > 0;
}

/* Enqueues a READ of a checked box and ends the command, also after an error. */
static telpher_status
read_box(struct tp_exec_command *c, struct tp_exec_mem *mem,
         const struct tp_device_box *box, const struct tp_exec_content *content)
{
    uint64_t size = content->size, transfer = content->transfer;
    telpher_status status = TELPHER_OK;

    if (is_shared(content->flags)) {
        return read_shared(c, mem, box, content);
    }
    if (c->error == 0 &&
        (!is_direct(c->x, size, transfer) || tp_exec_moves_memory(c, mem, box, true))) {
        return tp_exec_move(c, mem, box, transfer, true, content->flags);
    }
    if (c->error == 0) {
        c->error = reserve_content(c->ev, size, true);
    }
    if (c->error == 0) {
        c->ev->content_len = (uint32_t)size;
        c->ev->is_read = true;
        c->error = enqueue_box(c, mem->native, box, true);
    }
    if (c->error == 0 && transfer != 0) {
        status = start_direct(c, transfer, size);
    } else if (c->peer != NULL) {
        tp_exec_peer_abort(c->peer, transfer, c->error);
    }
    (void)tp_exec_end(c);
    return status;
}

static bool
write_is_proper(const struct tp_exec_content *content)
{
    bool plain = (content->flags & TP_WIRE_CREDIT_FIRST) == 0;

    if (content->transfer == 0) {
        return content->size <= TP_WIRE_INLINE_MAX && plain &&
               content->size == content->data.len && !is_shared(content->flags);
    }
    if (!plain && is_shared(content->flags)) {
        return false;
    }
    return tp_wire_id_kind(content->transfer) == TP_WIRE_KIND_TRANSFER &&
           content->data.len == 0 && content->size > 0 &&
           content->size < TP_WIRE_TRANSFER_MAX;
}

/* Enqueues a WRITE, likewise. */
static telpher_status
write_box(struct tp_exec_command *c, struct tp_exec_mem *mem,
          const struct tp_device_box *box, const struct tp_exec_content *content)
{
    uint64_t size = content->size, transfer = content->transfer;
    telpher_status status = TELPHER_OK;

    if (is_shared(content->flags)) {
        return write_shared(c, mem, box, content);
    }
    if (transfer != 0 && c->error == 0) {
        return tp_exec_move(c, mem, box, transfer, false, content->flags);
    }
    if (transfer != 0) {
        status =
            tp_exec_transfers_discard(c->x->transfers, transfer, size, false, c->peer);
    } else if (c->error == 0) {
        c->error = reserve_content(c->ev, size, false);
    }
    if (c->error == 0) {
        memcpy(c->ev->content, content->data.data, size);
        c->error = enqueue_box(c, mem->native, box, false);
    }
    (void)tp_exec_end(c);
    return status;
}

static bool
region_is_proper(const struct tp_exec_content *content)
{
    return content->is_image ? content->region.count == 6
                             : content->region.count == 0 || content->region.count == 8;
}

telpher_status
tp_exec_transfer(struct tp_exec *x, const char *call, const struct tp_exec_head *head,
                 bool to_client, const struct tp_exec_content *content)
{
    const uint8_t ours =
        to_client ? TP_WIRE_SHARED : TP_WIRE_SHARED | TP_WIRE_CREDIT_FIRST;
    struct tp_exec_head plain = *head;
    struct tp_exec_command c;
    struct tp_exec_mem *mem = NULL;
    struct tp_device_box box;
    telpher_status status;

    if (!region_is_proper(content) ||
        !(to_client ? read_is_proper(content) : write_is_proper(content))) {
        return TELPHER_ERR_PROTO;
    }
    plain.flags &= (uint8_t)~ours;
    status = tp_exec_begin(x, &c, call, &plain);
    if (status != TELPHER_OK) {
        return status;
    }
    c.peer = content->peer;
    if (content->has_peer && c.peer == NULL) {
        c.error = c.error != 0 ? c.error : CL_DEVICE_NOT_AVAILABLE;
        return tp_exec_end(&c);
    }
    if (c.error == 0 && content->is_image) {
        c.error = tp_exec_find_box(x, content, &mem, &box);
    } else if (c.error == 0) {
        c.error = find_box(x, content, &mem, &box);
    }
    if (c.error == 0 && x->share.slot != NULL) {
        atomic_fetch_add_explicit(to_client ? &x->share.slot->read
                                            : &x->share.slot->written,
                                  content->size, memory_order_relaxed);
    }
    return to_client ? read_box(&c, mem, &box, content)
                     : write_box(&c, mem, &box, content);
}

telpher_status
tp_exec_on_read(struct tp_exec *x, const struct tp_wire_read *m)
{
    const struct tp_exec_content content = {.flags = m->flags,
                                            .size = m->size,
                                            .transfer = m->transfer,
                                            .mem = m->mem,
                                            .offset = m->offset,
                                            .region = m->rect};

    return tp_exec_transfer(x, "clEnqueueReadBuffer", &TP_EXEC_HEAD(m), true, &content);
}

telpher_status
tp_exec_on_write(struct tp_exec *x, const struct tp_wire_write *m)
{
    const struct tp_exec_content content = {.flags = m->flags,
                                            .size = m->size,
                                            .transfer = m->transfer,
                                            .data = m->data,
                                            .mem = m->mem,
                                            .offset = m->offset,
                                            .region = m->rect};

    return tp_exec_transfer(x, "clEnqueueWriteBuffer", &TP_EXEC_HEAD(m), false,
                            &content);
}
