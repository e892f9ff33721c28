/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How events of commands end by the server's word.
 *
 * An event of a command ends when its DONE came and its content is here; on an in-order
 * queue only after all before it, and DONE then also stands for those before it (docs/
 * protocol.md 5.4).
 */
#include "icd/objects/callback.h"
#include "icd/objects/context.h"
#include "icd/objects/event.h"
#include "icd/objects/event_int.h"
#include "icd/session/session.h"

#include <string.h>

/**
 * READs whose DONE came before their content, which takes another stream. What is done after
 * such a READ may have waited for it, so it must not end before the content is here: the
 * program would look at memory that is not written yet. Both in the order of their DONEs.
 */
static struct tp_list late_reads = {&late_reads, &late_reads};
static struct tp_list held = {&held, &held};
static uint64_t last_late; /**< number of the newest */

/** True while content of the event has yet to come from the server. */
static bool
content_pending(const struct _cl_event *ev)
{
    return ev->parts != 0 || (ev->inline_dst != NULL && !ev->server_done);
}

/** True while content is under way that the program may take for here once @p ev ends. */
static bool
is_held(const struct _cl_event *ev)
{
    if (!tp_list_is_linked(&ev->held_link)) {
        return false;
    }
    tp_list_for_each(pos, &late_reads)
    {
        const struct _cl_event *read = tp_list_entry(pos, struct _cl_event, late_link);

        if (read->late > ev->after) {
            return false;
        }
        if (read->session == ev->session) { /* others were waited for on this side */
            return true;
        }
    }
    return false;
}

/** The oldest event of the queue that a DONE has named: it speaks for those before it. */
static struct _cl_event *
first_done(const struct _cl_command_queue *q)
{
    tp_list_for_each(pos, &q->open)
    {
        struct _cl_event *ev = tp_list_entry(pos, struct _cl_event, open_link);

        if (ev->server_done) {
            return ev;
        }
    }
    return NULL;
}

/** Ends, in order, what DONE messages and content have made ready. */
static void
settle_in_order(struct _cl_command_queue *q)
{
    struct _cl_event *speaker = NULL;
    struct tp_list *link;

    while ((link = tp_list_first(&q->open)) != NULL) {
        struct _cl_event *ev = tp_list_entry(link, struct _cl_event, open_link);

        if (ev->seq > q->done_seq || content_pending(ev)) {
            return;
        }
        speaker = speaker != NULL ? speaker : first_done(q);
        if (speaker != NULL && is_held(speaker)) {
            return;
        }
        speaker = speaker != ev ? speaker : NULL;
        tp_icd_event_end(ev, ev->server_done ? ev->server_status : CL_COMPLETE);
    }
}

static void
settle(struct _cl_event *ev)
{
    if (tp_icd_queue_in_order(ev->queue)) {
        settle_in_order(ev->queue);
    } else if (ev->server_done && ev->parts == 0 && !is_held(ev)) {
        tp_icd_event_end(ev, ev->server_status);
    }
}

/** A DONE came: notes which READs it comes after, and whether it is one itself. */
static void
note_order(struct _cl_event *ev)
{
    if (!tp_list_is_empty(&late_reads)) {
        ev->after = last_late;
        tp_list_push_back(&held, &ev->held_link);
    }
    if (ev->parts != 0) {
        ev->late = ++last_late;
        tp_list_push_back(&late_reads, &ev->late_link);
    }
}

/** The first event that nothing holds any more; NULL if there is none. */
static struct _cl_event *
first_free(void)
{
    tp_list_for_each(pos, &held)
    {
        struct _cl_event *ev = tp_list_entry(pos, struct _cl_event, held_link);

        if (!is_held(ev)) {
            return ev;
        }
    }
    return NULL;
}

/** The content of a READ is here, or will not come: lets go of what it held. */
static void
release_held(struct _cl_event *read)
{
    struct _cl_event *ev;

    if (!tp_list_is_linked(&read->late_link)) {
        return;
    }
    tp_list_remove(&read->late_link);
    while ((ev = first_free()) != NULL) {
        tp_list_remove(&ev->held_link);
        settle(ev);
    }
}

/** Copies packed content to where the program wants it. */
static void
unpack_inline(const struct _cl_event *ev, const struct tp_wire_bytes *data)
{
    const struct tp_icd_box *box = ev->inline_box;
    const uint8_t *src = data->data;
    uint8_t *dst = ev->inline_dst;

    if (box == NULL) {
        memcpy(dst, src, data->len);
        return;
    }
    for (size_t z = 0; z < box->region[2]; z++) {
        for (size_t y = 0; y < box->region[1]; y++) {
            memcpy(dst + z * box->slice_pitch + y * box->row_pitch, src,
                   box->region[0]);
            src += box->region[0];
        }
    }
}

static void
take_stamps(struct _cl_event *ev, const struct tp_wire_u64s *stamps)
{
    enum { COUNT = sizeof(ev->stamps) / sizeof(ev->stamps[0]) };

    if (stamps->count != COUNT) {
        return;
    }
    for (size_t i = 0; i < COUNT; i++) {
        ev->stamps[i] = tp_wire_u64_at(stamps, i);
    }
    ev->has_stamps = true;
}

/** What a first DONE says about status and content. */
static void
take_result(struct _cl_event *ev, const struct tp_wire_done *msg)
{
    ev->server_done = true;
    ev->server_status = msg->status > 0 ? CL_OUT_OF_RESOURCES : msg->status;
    if (ev->inline_dst != NULL && ev->server_status == CL_COMPLETE) {
        if (msg->data.len == ev->inline_len) {
            unpack_inline(ev, &msg->data);
        } else {
            ev->server_status = CL_OUT_OF_RESOURCES; /* the server broke its word */
        }
    }
    if (ev->server_status < 0 && ev->transfer != 0 && ev->parts != 0) {
        tp_icd_bulk_cancel(ev->session, ev->transfer, TELPHER_ERR_CANCELED);
    }
}

void
tp_icd_event_on_done(struct _cl_event *ev, const struct tp_wire_done *msg)
{
    if (ev->server_done) {
        return; /* said twice: the first word counts */
    }
    if (ev->told) {
        tp_icd_session_count_told(ev->session, -1);
    }
    take_stamps(ev, &msg->stamps);
    if (ev->ended) { /* only the stamps were missing */
        ev->server_done = true;
        tp_icd_session_remove_event(ev->session, ev);
        tp_icd_event_stop_expecting(ev);
        tp_icd_session_wake(ev->session);
        tp_icd_event_unkeep(ev);
        return;
    }
    take_result(ev, msg);
    note_order(ev);
    if (ev->queue->done_seq < ev->seq) {
        ev->queue->done_seq = ev->seq;
    }
    settle(ev);
}

void
tp_icd_event_part_done(struct _cl_event *ev, telpher_status status)
{
    ev->parts--;
    if (status != TELPHER_OK && ev->server_status == CL_COMPLETE) {
        ev->server_status = tp_icd_cl_error(status);
    }
    release_held(ev);
    if (ev->ended) {
        return;
    }
    if (tp_icd_session_lost(ev->session) && ev->server_done && ev->parts == 0) {
        tp_icd_event_end(ev, ev->server_status); /* there is no order any more */
    } else {
        settle(ev);
    }
}

void
tp_icd_event_lose(struct _cl_event *ev)
{
    if (ev->ended) { /* only the stamps were awaited */
        tp_icd_event_stop_expecting(ev);
        tp_icd_event_unkeep(ev);
    } else if (ev->parts == 0) {
        tp_icd_event_end(ev, CL_DEVICE_NOT_AVAILABLE);
    } else { /* bulk.c gives its content up, and then says so */
        ev->server_done = true;
        ev->server_status = CL_DEVICE_NOT_AVAILABLE;
    }
}
