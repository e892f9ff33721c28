/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: how they end, who is told, and the entry points about them.
 *
 * An event of a command ends when its DONE came and its content is here; on an in-order
 * queue only after all before it, and DONE then also stands for those before it (docs/
 * protocol.md 5.4). Once ended it never changes, save that its profiling stamps may come later.
 */
#include "icd/place.h"

#include <string.h>

#include "base/alloc.h"

/** Woken whenever an event ends that no stream tells of: a user event, or one of a lost
 *  place. With tp_icd.lock. */
static pthread_cond_t ended_unread = PTHREAD_COND_INITIALIZER;

/**
 * READs whose DONE came before their content, which takes another stream. What is done after
 * such a READ may have waited for it, so it must not end before the content is here: the
 * program would look at memory that is not written yet. Both in the order of their DONEs.
 */
static struct tp_list late_reads = {&late_reads, &late_reads};
static struct tp_list held = {&held, &held};
static uint64_t last_late; /**< number of the newest */

/** One registered callback. */
struct callback {
    struct tp_list link;
    struct _cl_event *ev; /* held while on its way to the callback thread */
    cl_int when, status;
    void(CL_CALLBACK *fn)(cl_event, cl_int, void *);
    void *user;
};

/* ---- making and unmaking ------------------------------------------------------------ */

static void
destroy_event(struct tp_icd_object *obj)
{
    struct _cl_event *ev = (struct _cl_event *)obj;

    tp_icd_lock();
    tp_list_remove(&ev->open_link);
    tp_list_remove(&ev->held_link);
    if (ev->place != NULL) {
        tp_icd_place_remove_event(ev->place, ev);
        tp_icd_put_release(ev->place, obj->id);
    }
    for (uint32_t i = 0; i < ev->ctx->place_count; i++) {
        if ((ev->proxies & (1U << i)) != 0) {
            tp_icd_put_release(ev->ctx->places[i], obj->id);
        }
    }
    tp_icd_unlock();
    if (ev->queue != NULL) {
        tp_icd_drop(&ev->queue->obj);
    }
    tp_icd_drop(&ev->ctx->obj);
    tp_free(ev);
}

static struct _cl_event *
event_alloc(struct _cl_context *ctx, cl_command_type type)
{
    struct _cl_event *ev = tp_zalloc(sizeof(*ev), "event");

    if (ev == NULL) {
        return NULL;
    }
    tp_icd_object_init(&ev->obj, TP_ICD_EVENT, tp_icd_new_id(TP_WIRE_KIND_EVENT),
                       destroy_event);
    ev->ctx = ctx;
    ev->type = type;
    ev->status = CL_SUBMITTED;
    tp_list_init(&ev->open_link);
    tp_list_init(&ev->late_link);
    tp_list_init(&ev->held_link);
    tp_list_init(&ev->callbacks);
    tp_icd_hold(&ctx->obj);
    return ev;
}

struct _cl_event *
tp_icd_event_create(struct _cl_command_queue *q, cl_command_type type)
{
    struct _cl_event *ev = event_alloc(q->ctx, type);

    if (ev == NULL) {
        return NULL;
    }
    atomic_store(&ev->obj.refs, 0);
    ev->kept = true; /* the hold that object_init counted */
    ev->queue = q;
    ev->place = q->place;
    ev->seq = ++q->next_seq;
    tp_icd_hold(&q->obj);
    tp_list_push_back(&q->open, &ev->open_link);
    if (tp_icd_place_add_event(ev->place, ev) != TELPHER_OK) {
        tp_icd_drop_locked(&ev->obj);
        return NULL;
    }
    if (tp_icd_place_lost(ev->place)) {
        tp_icd_hold(
            &ev->obj); /* ending lets go of one; tp_icd_event_give of this one */
        tp_icd_event_end(ev, CL_DEVICE_NOT_AVAILABLE);
        ev->kept = true;
    }
    return ev;
}

/** Lets go of the hold that the library has until the end. */
static void
unkeep(struct _cl_event *ev)
{
    if (ev->kept) {
        ev->kept = false;
        tp_icd_drop_locked(&ev->obj);
    }
}

static void
keep(struct _cl_event *ev)
{
    if (!ev->kept) {
        ev->kept = true;
        tp_icd_hold(&ev->obj);
    }
}

/** True while the library itself must see the end of the event. */
static bool
is_needed(const struct _cl_event *ev)
{
    return !ev->ended && (ev->told || ev->parts != 0 || ev->on_end != NULL ||
                          ev->proxies != 0 || !tp_list_is_empty(&ev->callbacks));
}

void
tp_icd_event_give(struct _cl_event *ev, cl_event *ret_event)
{
    if (ret_event != NULL) {
        atomic_store(&ev->obj.refs, 1);
        tp_icd_hold(&ev->obj);
        *ret_event = ev;
        if ((ev->queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0 && !ev->told) {
            tp_icd_event_subscribe(
                ev); /* who profiles will ask: the stamps come along */
        }
    }
    if (!is_needed(ev)) {
        unkeep(ev);
    }
}

/* ---- the end of an event ------------------------------------------------------------- */

static void
run_callback(void *arg)
{
    struct callback *cb = arg;

    cb->fn(cb->ev, cb->status, cb->user);
    tp_icd_drop(&cb->ev->obj);
    tp_free(cb);
}

static void
fire(struct callback *cb)
{
    tp_icd_hold(&cb->ev->obj);
    cb->status = cb->ev->status < 0 ? cb->ev->status : cb->when;
    if (tp_icd_callback(run_callback, cb) != TELPHER_OK) {
        tp_icd_drop_locked(&cb->ev->obj);
        tp_free(cb);
    }
}

static void
fire_all(struct _cl_event *ev)
{
    struct tp_list *link;

    while ((link = tp_list_pop_front(&ev->callbacks)) != NULL) {
        fire(tp_list_entry(link, struct callback, link));
    }
}

/** Passes the end on to the places that have a user event of this id. */
static void
set_proxies(struct _cl_event *ev)
{
    struct tp_wire_user_event_set msg = {.event = ev->obj.id,
                                         .status = ev->status < 0 ? ev->status : 0};

    for (uint32_t i = 0; i < ev->ctx->place_count; i++) {
        if ((ev->proxies & (1U << i)) != 0) {
            tp_icd_put(ev->ctx->places[i], TP_WIRE_USER_EVENT_SET, &msg);
            tp_icd_place_set_dirty(ev->ctx->places[i]);
        }
    }
}

static void
stop_expecting(struct _cl_event *ev)
{
    if (ev->expecting) {
        ev->expecting = false;
        tp_icd_unexpect(ev->place);
    }
}

void
tp_icd_event_end(struct _cl_event *ev, cl_int status)
{
    if (ev->ended) {
        return;
    }
    ev->status = status;
    ev->ended = true;
    tp_list_remove(&ev->open_link);
    tp_list_remove(&ev->held_link);
    if (ev->place != NULL) {
        if (!ev->told || ev->server_done) {
            tp_icd_place_remove_event(ev->place, ev);
        }
        tp_icd_place_wake(ev->place);
    }
    if (ev->place == NULL || tp_icd_place_lost(ev->place)) {
        pthread_cond_broadcast(&ended_unread);
    }
    stop_expecting(ev);
    set_proxies(ev);
    fire_all(ev);
    if (ev->on_end != NULL) {
        ev->on_end(ev);
    }
    unkeep(ev);
}

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
        if (read->place == ev->place) { /* others were waited for on this side */
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
        tp_icd_bulk_cancel(ev->place, ev->transfer, TELPHER_ERR_CANCELED);
    }
}

void
tp_icd_event_on_done(struct _cl_event *ev, const struct tp_wire_done *msg)
{
    if (ev->server_done) {
        return; /* said twice: the first word counts */
    }
    if (ev->told) {
        tp_icd_place_count_told(ev->place, -1);
    }
    take_stamps(ev, &msg->stamps);
    if (ev->ended) { /* only the stamps were missing */
        ev->server_done = true;
        tp_icd_place_remove_event(ev->place, ev);
        stop_expecting(ev);
        tp_icd_place_wake(ev->place);
        unkeep(ev);
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
    if (tp_icd_place_lost(ev->place) && ev->server_done && ev->parts == 0) {
        tp_icd_event_end(ev, ev->server_status); /* there is no order any more */
    } else {
        settle(ev);
    }
}

void
tp_icd_event_lose(struct _cl_event *ev)
{
    if (ev->ended) { /* only the stamps were awaited */
        stop_expecting(ev);
        unkeep(ev);
    } else if (ev->parts == 0) {
        tp_icd_event_end(ev, CL_DEVICE_NOT_AVAILABLE);
    } else { /* bulk.c gives its content up, and then says so */
        ev->server_done = true;
        ev->server_status = CL_DEVICE_NOT_AVAILABLE;
    }
}

/* ---- asking for the end ------------------------------------------------------------------ */

void
tp_icd_event_set_told(struct _cl_event *ev)
{
    if (!ev->told) {
        ev->told = true;
        tp_icd_place_count_told(ev->place, 1);
    }
}

/** Puts SUBSCRIBE unless the server knows already. */
static void
put_subscribe(struct _cl_event *ev)
{
    struct tp_wire_subscribe msg = {.events = {.count = 1, .data = &ev->obj.id}};

    if (ev->place != NULL && !ev->told) {
        tp_icd_put(ev->place, TP_WIRE_SUBSCRIBE, &msg);
        tp_icd_event_set_told(ev);
        keep(ev);
    }
}

void
tp_icd_event_subscribe(struct _cl_event *ev)
{
    if (ev->ended || ev->place == NULL) {
        return;
    }
    put_subscribe(ev);
    if (!ev->expecting) {
        ev->expecting = true;
        tp_icd_expect(ev->place);
    }
}

/** Waits for an event that ends without a message. */
static cl_int
wait_unread(struct _cl_event *ev)
{
    tp_icd_lock();
    while (!ev->ended) {
        pthread_cond_wait(&ended_unread, &tp_icd.lock);
    }
    tp_icd_unlock();
    return ev->status;
}

cl_int
tp_icd_event_wait(struct _cl_event *ev)
{
    bool ended;

    if (ev->place == NULL) {
        return wait_unread(ev);
    }
    tp_icd_lock();
    ended = ev->ended;
    if (!ended) {
        put_subscribe(ev);
    }
    tp_icd_unlock();
    if (!ended && tp_icd_wait(ev->place, &ev->ended) != TELPHER_OK) {
        return wait_unread(ev); /* a lost place lets go of the program's memory first */
    }
    return ev->status;
}

/* ---- wait lists ------------------------------------------------------------------------------ */

cl_int
tp_icd_check_wait_list(const struct _cl_context *ctx, cl_uint count,
                       const cl_event *list)
{
    if ((count == 0) != (list == NULL) || count > UINT16_MAX - 64) {
        return CL_INVALID_EVENT_WAIT_LIST;
    }
    for (cl_uint i = 0; i < count; i++) {
        struct _cl_event *ev = tp_icd_check(list[i], TP_ICD_EVENT);

        if (ev == NULL) {
            return CL_INVALID_EVENT_WAIT_LIST;
        }
        if (ev->ctx != ctx) {
            return CL_INVALID_CONTEXT;
        }
    }
    return CL_SUCCESS;
}

/** Makes a user event of the same id at a place, set when the event itself ends. */
static void
make_proxy(struct tp_icd_place *place, struct _cl_context *ctx, struct _cl_event *ev)
{
    uint32_t bit = 1U << tp_icd_context_place(ctx, place);
    struct tp_wire_user_event_create msg = {.event = ev->obj.id,
                                            .context = ctx->obj.id};

    if ((ev->proxies & bit) != 0) {
        return;
    }
    tp_icd_put(place, TP_WIRE_USER_EVENT_CREATE, &msg);
    ev->proxies |= bit;
    if (ev->ended) {
        struct tp_wire_user_event_set set = {.event = ev->obj.id, .status = ev->status};

        tp_icd_put(place, TP_WIRE_USER_EVENT_SET, &set);
    } else if (ev->place != NULL) {
        tp_icd_event_subscribe(ev);
        tp_icd_place_set_dirty(ev->place);
    } else {
        keep(ev); /* until it is set, or let go unset with the context */
    }
}

void
tp_icd_wait_id(struct tp_icd_place *place, struct _cl_context *ctx,
               struct _cl_event *ev, uint64_t *ids, uint16_t *count)
{
    if (ev->ended && ev->status == CL_COMPLETE) {
        return;
    }
    if (ev->place != place) {
        make_proxy(place, ctx, ev);
    }
    ids[(*count)++] = ev->obj.id;
}

cl_int
tp_icd_wait_ids(struct tp_icd_place *place, struct _cl_context *ctx, cl_uint count,
                const cl_event *list, uint64_t *ids, uint16_t *ret_count)
{
    uint16_t used = 0;

    for (cl_uint i = 0; i < count; i++) {
        tp_icd_wait_id(place, ctx, list[i], ids, &used);
    }
    *ret_count = used;
    return CL_SUCCESS;
}

/* ---- entry points ------------------------------------------------------------------------------ */

/** Asks for the ends of all events of a list at once, so that waiting costs one round trip. */
static void
subscribe_all(cl_uint count, const cl_event *list)
{
    tp_icd_lock();
    for (cl_uint i = 0; i < count; i++) {
        if (!list[i]->ended) {
            put_subscribe(list[i]);
            if (list[i]->place != NULL) {
                tp_icd_place_set_dirty(list[i]->place);
            }
        }
    }
    tp_icd_unlock();
    tp_icd_flush_dirty();
}

cl_int CL_API_CALL
tp_clWaitForEvents(cl_uint count, const cl_event *list)
{
    struct _cl_event *first =
        count == 0 || list == NULL ? NULL : tp_icd_check(list[0], TP_ICD_EVENT);
    cl_int result = CL_SUCCESS;

    if (count == 0 || list == NULL) {
        return CL_INVALID_VALUE;
    }
    if (first == NULL) {
        return CL_INVALID_EVENT;
    }
    result = tp_icd_check_wait_list(first->ctx, count, list);
    if (result != CL_SUCCESS) {
        return result == CL_INVALID_CONTEXT ? result : CL_INVALID_EVENT;
    }
    if (count > 1) {
        subscribe_all(count, list);
    }
    for (cl_uint i = 0; i < count; i++) {
        if (tp_icd_event_wait(list[i]) < 0) {
            result = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        }
    }
    return result;
}

/** A program that polls: asks for the end once, then looks at what has come. */
static cl_int
poll_status(struct _cl_event *ev)
{
    bool ended;
    cl_int status;

    tp_icd_lock();
    ended = ev->ended;
    if (!ended) {
        put_subscribe(ev);
    }
    tp_icd_unlock();
    if (!ended && ev->place != NULL) {
        tp_icd_flush(ev->place);
        tp_icd_poll(ev->place);
    }
    tp_icd_lock();
    status = ev->status;
    tp_icd_unlock();
    return status;
}

cl_int CL_API_CALL
tp_clGetEventInfo(cl_event event, cl_event_info name, size_t value_size, void *value,
                  size_t *size_ret)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);

    if (ev == NULL) {
        return CL_INVALID_EVENT;
    }
    switch (name) {
    case CL_EVENT_COMMAND_QUEUE:
        return TP_ICD_ANSWER(cl_command_queue, ev->queue);
    case CL_EVENT_CONTEXT:
        return TP_ICD_ANSWER(cl_context, ev->ctx);
    case CL_EVENT_COMMAND_TYPE:
        return TP_ICD_ANSWER(cl_command_type, ev->type);
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        return TP_ICD_ANSWER(cl_int, poll_status(ev));
    case CL_EVENT_REFERENCE_COUNT:
        return TP_ICD_ANSWER(cl_uint, atomic_load(&ev->obj.refs));
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int CL_API_CALL
tp_clRetainEvent(cl_event event)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);

    if (ev == NULL) {
        return CL_INVALID_EVENT;
    }
    tp_icd_retain(&ev->obj);
    return CL_SUCCESS;
}

cl_int CL_API_CALL
tp_clReleaseEvent(cl_event event)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);

    if (ev == NULL) {
        return CL_INVALID_EVENT;
    }
    tp_icd_release(&ev->obj);
    return CL_SUCCESS;
}

/** Fetches the stamps of an event that ended by the word of a later one. */
static void
fetch_stamps(struct _cl_event *ev)
{
    struct tp_wire_subscribe msg = {.events = {.count = 1, .data = &ev->obj.id}};
    bool asked = true;

    tp_icd_lock();
    if (!ev->has_stamps && !ev->told) {
        asked = tp_icd_place_add_event(ev->place, ev) == TELPHER_OK;
        if (asked) {
            tp_icd_put(ev->place, TP_WIRE_SUBSCRIBE, &msg);
            ev->told = true;
            keep(ev);
        }
    }
    tp_icd_unlock();
    if (asked) {
        (void)tp_icd_wait(ev->place, &ev->server_done); /* DONE has them, or none has */
    }
}

cl_int CL_API_CALL
tp_clGetEventProfilingInfo(cl_event event, cl_profiling_info name, size_t value_size,
                           void *value, size_t *size_ret)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);

    if (ev == NULL) {
        return CL_INVALID_EVENT;
    }
    if (name < CL_PROFILING_COMMAND_QUEUED || name > CL_PROFILING_COMMAND_COMPLETE) {
        return CL_INVALID_VALUE;
    }
    if (ev->queue == NULL || (ev->queue->properties & CL_QUEUE_PROFILING_ENABLE) == 0 ||
        poll_status(ev) != CL_COMPLETE) {
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    }
    fetch_stamps(ev);
    if (!ev->has_stamps) {
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    }
    return TP_ICD_ANSWER(cl_ulong, ev->stamps[name - CL_PROFILING_COMMAND_QUEUED]);
}

cl_event CL_API_CALL
tp_clCreateUserEvent(cl_context context, cl_int *errcode_ret)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct _cl_event *ev = ctx == NULL ? NULL : event_alloc(ctx, CL_COMMAND_USER);

    if (errcode_ret != NULL) {
        *errcode_ret = ctx == NULL  ? CL_INVALID_CONTEXT
                       : ev == NULL ? CL_OUT_OF_HOST_MEMORY
                                    : CL_SUCCESS;
    }
    return ev;
}

cl_int CL_API_CALL
tp_clSetUserEventStatus(cl_event event, cl_int status)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);
    cl_int result = CL_SUCCESS;

    if (ev == NULL || ev->queue != NULL) {
        return CL_INVALID_EVENT;
    }
    if (status > CL_COMPLETE) {
        return CL_INVALID_VALUE;
    }
    tp_icd_hold(&ev->obj);
    tp_icd_lock();
    if (ev->ended) {
        result = CL_INVALID_OPERATION;
    } else {
        tp_icd_event_end(ev, status);
    }
    tp_icd_unlock();
    tp_icd_flush_dirty();
    tp_icd_drop(&ev->obj);
    return result;
}

/** Adds a callback, or fires it at once when its moment has passed. Lock held. */
static void
add_callback(struct _cl_event *ev, struct callback *cb)
{
    if (ev->ended || cb->when >= ev->status) {
        fire(cb);
        return;
    }
    tp_list_push_back(&ev->callbacks, &cb->link);
    keep(ev);
    tp_icd_event_subscribe(ev);
}

cl_int CL_API_CALL
tp_clSetEventCallback(cl_event event, cl_int when,
                      void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *user)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);
    struct tp_icd_place *place;
    struct callback *cb;

    if (ev == NULL) {
        return CL_INVALID_EVENT;
    }
    if (fn == NULL || when < CL_COMPLETE || when > CL_SUBMITTED) {
        return CL_INVALID_VALUE;
    }
    cb = tp_zalloc(sizeof(*cb), "callback");
    if (cb == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    cb->ev = ev;
    cb->when = when;
    cb->fn = fn;
    cb->user = user;
    place = ev->place;
    tp_icd_lock();
    add_callback(ev, cb);
    tp_icd_unlock();
    if (place != NULL) { /* the callback may have released the event already */
        tp_icd_flush(place);
    }
    return CL_SUCCESS;
}
