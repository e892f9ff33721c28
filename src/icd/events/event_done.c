/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends events of commands when the server's DONE and their content have arrived.
 *
 * An event of a command ends when both its DONE and its content have arrived. On an in-order
 * queue it also waits for all earlier events, and one DONE covers all earlier commands
 * (docs/protocol.md 5.4). So does, on an out-of-order queue, the DONE of a marker or barrier
 * without wait list.
 */
#include "icd/events/callback.h"
#include "icd/events/event.h"
#include "icd/events/event_int.h"
#include "icd/objects/context.h"
#include "icd/session/session.h"

#include <string.h>

/**
 * READs whose DONE arrived before their content, which uses another stream. A command that
 * is done after such a READ may depend on it. So its event must not end before the content
 * has arrived: the program would read memory that is not written yet. Both lists are in the
 * order of the DONEs.
 */
static struct tp_list late_reads = {&late_reads, &late_reads};
static struct tp_list held = {&held, &held};
static uint64_t last_late; /**< number of the newest */

/** True while content of the event has not fully arrived from the server. */
static bool
content_pending(const struct _cl_event *ev)
{
    return ev->parts != 0 || (ev->inline_dst != NULL && !ev->server_done);
}

/** True while content is missing that the program may expect once @p ev ends. */
static bool
is_held(const struct _cl_event *ev)
{
    if (!tp_list_is_linked(&ev->held_link)) {
        return false;
    }
    tp_list_for_each_entry(const struct _cl_event, read, &late_reads, late_link) {
        if (read->late > ev->after) {
            return false;
        }
        if (read->session == ev->session) { /* the client waits for those of others */
            return true;
        }
    }
    return false;
}

/** @return the oldest event of the queue with a DONE, which covers all earlier events. */
static struct _cl_event *
first_done(const struct _cl_command_queue *q)
{
    tp_list_for_each_entry(struct _cl_event, ev, &q->open, open_link) {
        if (ev->server_done) {
            return ev;
        }
    }
    return NULL;
}

/** Ends, in order, the events that are ready. */
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

/** Ends the events that a complete marker or barrier covers. Others have DONEs of their own. */
static void
end_covered(struct _cl_event *last)
{
    tp_list_for_each_entry_safe(struct _cl_event, ev, &last->queue->open, open_link) {
        if (ev->seq < last->seq && !ev->subscribed && !ev->server_done &&
            !content_pending(ev)) {
            tp_icd_event_end(ev, CL_COMPLETE);
        }
    }
}

static void
settle(struct _cl_event *ev)
{
    if (tp_icd_queue_in_order(ev->queue)) {
        settle_in_order(ev->queue);
    } else if (ev->server_done && ev->parts == 0 && !is_held(ev)) {
        if (ev->is_whole && ev->server_status == CL_COMPLETE) {
            end_covered(ev);
        }
        tp_icd_event_end(ev, ev->server_status);
    }
}

/** Records, at DONE, after which READs the event ends, and whether it is one itself. */
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

/** @return the first event that no READ delays any more; NULL: none. */
static struct _cl_event *
first_free(void)
{
    tp_list_for_each_entry(struct _cl_event, ev, &held, held_link) {
        if (!is_held(ev)) {
            return ev;
        }
    }
    return NULL;
}

/** Releases the events delayed by a READ whose content has arrived or failed. */
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

/** Copies packed content to the program's memory. */
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

/** Handles status and inline content of the first DONE. */
static void
take_result(struct _cl_event *ev, const struct tp_wire_done *msg)
{
    ev->server_done = true;
    ev->server_status = msg->status > 0 ? CL_OUT_OF_RESOURCES : msg->status;
    if (ev->inline_dst != NULL && ev->server_status == CL_COMPLETE) {
        if (msg->data.len == ev->inline_len) {
            unpack_inline(ev, &msg->data);
        } else {
            ev->server_status = CL_OUT_OF_RESOURCES; /* protocol error of the server */
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
        return; /* a duplicate: the first DONE is valid */
    }
    if (ev->subscribed) {
        tp_icd_session_count_subscribed(ev->session, -1);
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
        tp_icd_event_end(ev, ev->server_status); /* order no longer matters */
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
    } else if (!ev->server_done) { /* bulk.c aborts the content, then reports its end */
        ev->server_done = true;
        ev->server_status = CL_DEVICE_NOT_AVAILABLE;
    }
}
