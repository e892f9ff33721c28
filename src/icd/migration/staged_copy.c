/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging copy of a range of a buffer in this process. A READ from one session (a fetch) or the
 * program fills it; WRITEs to other sessions (feeds) send it, also while it still fills.
 */
#include "icd/commands/geometry.h"
#include "icd/copies/copies.h"
#include "icd/events/callback.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/migration/migration.h"
#include "icd/objects/context.h"
#include "icd/objects/image.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"

struct tp_icd_stage {
    unsigned refs;
    uint8_t *data;
    uint64_t from; /**< [bytes] where it lies in the buffer */
    size_t size;
    uint64_t ready; /**< [bytes] received */
    cl_int failed; /**< error after which no more content arrives */
    struct tp_list feeds; /**< those whose source is not done */
};

/** One internal READ or WRITE. Lives until its event and its transfer have ended. */
struct carry {
    unsigned refs;
    struct tp_list link; /**< a feed: in stage->feeds */
    struct tp_icd_stage *stage;
    struct _cl_mem *root; /**< held */
    struct _cl_event *ev; /**< held */
    struct tp_icd_session *session;
    uint32_t session_index;
    uint64_t skip; /**< a feed: [bytes] of the stage before its content */
    size_t size; /**< [bytes] of it */
    tp_icd_move_end ended;
    union {
        struct tp_icd_sink sink;
        struct tp_icd_source source;
    };
};

/* ---- the stage ---------------------------------------------------------------------- */

struct tp_icd_stage *
tp_icd_stage_create(uint64_t from, size_t size)
{
    struct tp_icd_stage *stage = tp_zalloc(sizeof(*stage), "stage");

    if (stage == NULL) {
        return NULL;
    }
    stage->data = tp_malloc(size, "stage");
    if (stage->data == NULL) {
        tp_free(stage);
        return NULL;
    }
    stage->from = from;
    stage->size = size;
    stage->refs = 1;
    tp_list_init(&stage->feeds);
    return stage;
}

void
tp_icd_stage_fill(struct tp_icd_stage *stage, const void *src,
                  const struct tp_icd_box *box)
{
    if (box != NULL) {
        tp_icd_box_pack(stage->data, box, src, 0, stage->size);
    } else {
        memcpy(stage->data, src, stage->size);
    }
    stage->ready = stage->size;
}

void
tp_icd_stage_ref(struct tp_icd_stage *stage)
{
    stage->refs++;
}

void
tp_icd_stage_unref(struct tp_icd_stage *stage)
{
    if (stage != NULL && --stage->refs == 0) {
        tp_free(stage->data);
        tp_free(stage);
    }
}

/** [bytes] of a feed's content that the stage has. */
static uint64_t
feed_ready(const struct carry *feed)
{
    uint64_t ready = feed->stage->ready;

    return ready <= feed->skip ? 0 : TP_MIN(ready - feed->skip, (uint64_t)feed->size);
}

/** Passes newly received content to the feeds. */
static void
stage_ready(struct tp_icd_stage *stage, uint64_t ready)
{
    stage->ready = ready;
    tp_list_for_each(pos, &stage->feeds) {
        struct carry *feed = tp_list_entry(pos, struct carry, link);

        tp_icd_source_ready(feed->session, &feed->source, feed_ready(feed));
    }
}

/** Fails the stage and the commands that wait for the rest of its content. */
static void
stage_fail(struct tp_icd_stage *stage, cl_int why)
{
    stage->failed = why;
    tp_list_for_each_safe(pos, &stage->feeds) {
        struct carry *feed = tp_list_entry(pos, struct carry, link);

        tp_list_remove(&feed->link);
        tp_icd_source_abort(feed->session, &feed->source, why);
    }
}

/* ---- what fetches and feeds share ------------------------------------------------------ */

/** Creates a carry, and its event on the queue that this session keeps for internal transfers. */
static struct carry *
carry_create(struct tp_icd_stage *stage, struct _cl_mem *root, uint32_t session_index,
             cl_command_type type)
{
    struct _cl_command_queue *mover = tp_icd_mover(root->ctx, session_index);
    struct carry *carry = mover == NULL ? NULL : tp_zalloc(sizeof(*carry), "move");

    if (carry == NULL) {
        return NULL;
    }
    carry->ev = tp_icd_event_create(mover, type);
    if (carry->ev == NULL) {
        tp_free(carry);
        return NULL;
    }
    tp_icd_hold(&carry->ev->obj);
    tp_icd_hold(&root->obj);
    tp_icd_stage_ref(stage);
    tp_list_init(&carry->link);
    carry->refs = 1;
    carry->stage = stage;
    carry->root = root;
    carry->session = mover->session;
    carry->session_index = session_index;
    return carry;
}

static void
carry_unref(struct carry *carry)
{
    if (--carry->refs == 0) {
        tp_icd_stage_unref(carry->stage);
        tp_icd_drop_locked(&carry->ev->obj);
        tp_icd_drop_locked(&carry->root->obj);
        tp_free(carry);
    }
}

/** Frees a carry whose frame could not be created. */
static void
carry_undo(struct carry *carry)
{
    tp_icd_event_give(carry->ev, NULL);
    carry_unref(carry);
}

static void
add_part(struct carry *carry, uint64_t transfer)
{
    carry->refs++;
    carry->ev->parts = 1;
    carry->ev->transfer = transfer;
}

/** Completes a carry once its frame, with NOTIFY, has been appended. @return its event, which the
 *  caller must release */
static struct _cl_event *
carry_off(struct carry *carry, void (*on_end)(struct _cl_event *ev), bool expect)
{
    struct _cl_event *ev = carry->ev;

    ev->on_end = on_end;
    ev->on_end_user = carry;
    tp_icd_hold(&ev->obj);
    tp_icd_event_set_told(ev);
    if (expect) {
        tp_icd_event_subscribe(ev);
    }
    tp_icd_event_give(ev, NULL);
    return ev;
}

/* ---- fetches: a session's content is read into the stage --------------------------------- */

static void
fetch_ended(struct _cl_event *ev)
{
    struct carry *fetch = ev->on_end_user;

    if (ev->status < 0) {
        stage_fail(fetch->stage, ev->status);
    } else {
        stage_ready(fetch->stage, fetch->stage->size);
    }
    carry_unref(fetch);
}

static void
fetch_piece(struct tp_icd_sink *sink, uint64_t offset, uint32_t len)
{
    struct carry *fetch = sink->user;

    tp_icd_lock();
    if (!sink->moves &&
        !tp_icd_copies_are_kept(tp_icd_session_current(fetch->session))) {
        stage_ready(fetch->stage, offset + len);
    } /* else the content counts once the copies on the second server are committed */
    tp_icd_unlock();
}

static void
fetch_done(struct tp_icd_sink *sink, telpher_status status)
{
    struct carry *fetch = sink->user;

    tp_icd_lock();
    tp_icd_event_part_done(fetch->ev, status);
    carry_unref(fetch);
    tp_icd_unlock();
}

/** Prepares to receive the content. @return the transfer; 0 = inline in DONE */
static telpher_status
expect_content(struct carry *fetch, uint64_t *ret_transfer)
{
    struct tp_icd_stage *stage = fetch->stage;
    telpher_status status;

    *ret_transfer = 0;
    if (stage->size <= TP_WIRE_INLINE_MAX) {
        fetch->ev->inline_dst = stage->data;
        fetch->ev->inline_len = stage->size;
        return TELPHER_OK;
    }
    fetch->sink.transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER);
    fetch->sink.dst = stage->data;
    fetch->sink.size = stage->size;
    fetch->sink.piece = fetch_piece;
    fetch->sink.done = fetch_done;
    fetch->sink.user = fetch;
    status = tp_icd_sink_add(fetch->session, &fetch->sink);
    if (status == TELPHER_OK) {
        add_part(fetch, fetch->sink.transfer);
        *ret_transfer = fetch->sink.transfer;
    }
    return status;
}

struct tp_wire_u64s
tp_icd_whole_image(const struct _cl_mem *root, uint64_t values[6])
{
    size_t origin[3], region[3];

    tp_icd_image_whole(root, origin, region);
    for (int i = 0; i < 3; i++) {
        values[i] = origin[i];
        values[3 + i] = region[i];
    }
    return (struct tp_wire_u64s){6, values};
}

static void
put_fetch(struct carry *fetch, uint64_t transfer, const struct tp_wire_u64s *wait)
{
    const struct _cl_mem *root = fetch->root;
    struct tp_wire_read msg = {.event = fetch->ev->obj.id,
                               .queue = fetch->ev->queue->obj.id,
                               .mem = root->obj.id,
                               .flags = TP_WIRE_NOTIFY,
                               .offset = fetch->stage->from,
                               .size = fetch->stage->size,
                               .transfer = transfer,
                               .wait = *wait};
    uint64_t values[6];

    if (root->image == NULL) {
        tp_icd_put(fetch->session, TP_WIRE_READ, &msg);
        return;
    }
    tp_icd_put(fetch->session, TP_WIRE_READ_IMAGE,
               &(struct tp_wire_read_image){.event = msg.event,
                                            .queue = msg.queue,
                                            .mem = msg.mem,
                                            .flags = msg.flags,
                                            .size = msg.size,
                                            .transfer = transfer,
                                            .region = tp_icd_whole_image(root, values),
                                            .wait = *wait});
}

struct _cl_event *
tp_icd_stage_fetch(struct tp_icd_stage *stage, struct _cl_mem *root,
                   uint32_t session_index, const struct tp_wire_u64s *wait,
                   cl_int *ret_err)
{
    struct carry *fetch =
        carry_create(stage, root, session_index, CL_COMMAND_READ_BUFFER);
    telpher_status status;
    uint64_t transfer;

    if (fetch == NULL) {
        *ret_err = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    status = expect_content(fetch, &transfer);
    if (status != TELPHER_OK) {
        carry_undo(fetch);
        *ret_err = tp_icd_cl_error(status);
        return NULL;
    }
    put_fetch(fetch, transfer, wait);
    return carry_off(fetch, fetch_ended, true);
}

/* ---- feeds: the stage's content is written to a session ---------------------------------- */

static void
feed_ended(struct _cl_event *ev)
{
    struct carry *feed = ev->on_end_user;

    feed->ended(feed->root, feed->session_index, ev);
    carry_unref(feed);
}

static void
feed_done(struct tp_icd_source *source, telpher_status status)
{
    struct carry *feed = source->user;

    tp_icd_lock();
    tp_list_remove(&feed->link);
    tp_icd_event_part_done(feed->ev, status);
    carry_unref(feed);
    tp_icd_unlock();
}

static telpher_status
offer_content(struct carry *feed)
{
    struct tp_icd_stage *stage = feed->stage;
    telpher_status status;

    feed->source.transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER);
    feed->source.src = stage->data + feed->skip;
    feed->source.size = feed->size;
    feed->source.ready = feed_ready(feed);
    feed->source.done = feed_done;
    feed->source.user = feed;
    status = tp_icd_source_add(feed->session, &feed->source);
    if (status == TELPHER_OK) {
        tp_list_push_back(&stage->feeds, &feed->link);
        add_part(feed, feed->source.transfer);
    }
    return status;
}

static void
put_feed(struct carry *feed, bool small, const struct tp_wire_u64s *wait)
{
    const struct tp_icd_stage *stage = feed->stage;
    struct tp_wire_write msg = {.event = feed->ev->obj.id,
                                .queue = feed->ev->queue->obj.id,
                                .mem = feed->root->obj.id,
                                .flags = TP_WIRE_NOTIFY,
                                .offset = stage->from + feed->skip,
                                .size = feed->size,
                                .wait = *wait};
    const struct tp_icd_use use = {.mem = feed->root,
                                   .how = TP_ICD_USE_WRITE,
                                   .offset = msg.offset,
                                   .size = feed->size};
    uint64_t values[6];

    if (small) {
        msg.data =
            (struct tp_wire_bytes){(uint32_t)feed->size, stage->data + feed->skip};
    } else {
        msg.transfer = feed->source.transfer;
    }
    tp_icd_copies_describe(feed->session, &use, 1);
    if (feed->root->image == NULL) {
        tp_icd_put(feed->session, TP_WIRE_WRITE, &msg);
        tp_icd_copies_describe(feed->session, NULL, 0);
        return;
    }
    tp_icd_put(
        feed->session, TP_WIRE_WRITE_IMAGE,
        &(struct tp_wire_write_image){.event = msg.event,
                                      .queue = msg.queue,
                                      .mem = msg.mem,
                                      .flags = msg.flags,
                                      .size = msg.size,
                                      .transfer = msg.transfer,
                                      .region = tp_icd_whole_image(feed->root, values),
                                      .wait = *wait,
                                      .data = msg.data});
    tp_icd_copies_describe(feed->session, NULL, 0);
}

struct _cl_event *
tp_icd_stage_feed(struct tp_icd_stage *stage, struct _cl_mem *root,
                  uint32_t session_index, uint64_t from, size_t size,
                  const struct tp_wire_u64s *wait, tp_icd_move_end ended,
                  cl_int *ret_err)
{
    struct carry *feed =
        carry_create(stage, root, session_index, CL_COMMAND_WRITE_BUFFER);
    bool small = size <= TP_WIRE_INLINE_MAX && stage->ready == stage->size;
    telpher_status status = TELPHER_OK;

    if (feed == NULL) {
        *ret_err = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    feed->ended = ended;
    feed->skip = from - stage->from;
    feed->size = size;
    if (!small) {
        status = offer_content(feed);
    }
    if (status != TELPHER_OK) {
        carry_undo(feed);
        *ret_err = tp_icd_cl_error(status);
        return NULL;
    }
    put_feed(feed, small, wait);
    return carry_off(feed, feed_ended, !small);
}
