/* SPDX-License-Identifier: Apache-2.0 */
/* Handles frames from a server session: one function for each type of frame. */
#include "icd/copies/copies.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/session/peers.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"

static telpher_status
on_done(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_done msg;
    struct _cl_event *ev;
    uint64_t transfer = 0; /* READ whose content is now complete in shared memory */

    if (!tp_wire_get_done(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    ev = tp_map_get(&session->events, msg.event);
    if (!tp_icd_copies_on_done(session, &msg, body, end) && ev != NULL) {
        transfer = ev->parts != 0 && msg.status == CL_COMPLETE ? ev->transfer : 0;
        tp_icd_event_on_done(ev, &msg);
    }
    tp_icd_unlock();
    if (transfer != 0) {
        tp_icd_pieces_land(session, transfer, 0, 0);
    }
    return TELPHER_OK;
}

static telpher_status
on_share_reply(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_share_reply msg;

    if (!tp_wire_get_share_reply(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    tp_icd_share_on_reply(session, &msg);
    tp_icd_unlock();
    return TELPHER_OK;
}

/** Handles PIECE_DONE: a piece of a READ is ready, or one of a WRITE has been read. */
static telpher_status
on_piece_done(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_piece_done msg;

    if (!tp_wire_get_piece_done(body, end, &msg) || msg.len == 0) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    tp_icd_pieces_taken(session, msg.transfer, msg.offset);
    tp_icd_unlock();
    tp_icd_pieces_land(session, msg.transfer, msg.offset, msg.len);
    return TELPHER_OK;
}

static telpher_status
on_failed(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_failed msg;
    struct _cl_command_queue *q;

    if (!tp_wire_get_failed(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    if (msg.id == 0 && msg.status == 0) {
        tp_warn("icd", "%s: %.*s", session->server->address, (int)msg.text.len,
                (const char *)msg.text.data);
        return TELPHER_OK;
    }
    /* The program gets the error from uses of the object, from finish, by its callback. */
    tp_info("icd", "%s: error %d: %.*s", session->server->address, msg.status,
            (int)msg.text.len, (const char *)msg.text.data);
    msg.status = msg.status < 0 ? msg.status : CL_OUT_OF_RESOURCES;
    tp_icd_lock();
    tp_icd_copies_on_failed(session);
    q = tp_map_get(&session->queues, msg.id);
    if (q != NULL) {
        char text[256];

        snprintf(text, sizeof(text), "%.*s", (int)msg.text.len,
                 (const char *)msg.text.data);
        q->async_error = q->async_error == CL_SUCCESS ? msg.status : q->async_error;
        tp_icd_context_notify(q->ctx, text);
    }
    tp_icd_unlock();
    return TELPHER_OK;
}

/** The status that follows the request's id, if the reply has one. */
static int32_t
status_of(uint16_t type, const uint8_t *body, const uint8_t *end)
{
    int32_t status = 0;

    if (type != TP_WIRE_PONG && end - body >= (ptrdiff_t)(8 + sizeof(status))) {
        memcpy(&status, body + 8, sizeof(status));
    }
    return status;
}

static void
free_content(struct tp_icd_incoming *in)
{
    tp_icd_blob_fini(in);
    tp_free(in);
}

/** Receives content of a reply that no call waits for. */
static telpher_status
discard_content(struct tp_icd_session *session, uint16_t type, const uint8_t *body,
                const uint8_t *end)
{
    struct tp_wire_build_reply msg;
    struct tp_icd_incoming *in;

    if (type != TP_WIRE_BUILD_REPLY) {
        return TELPHER_OK;
    }
    if (!tp_wire_get_build_reply(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    in = msg.transfer == 0 ? NULL : tp_zalloc(sizeof(*in), "reply");
    if (in != NULL) {
        in->then = free_content;
        tp_icd_blob_receive(in, session, &msg.facts, msg.transfer, msg.size);
    }
    return msg.transfer == 0 || in != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
}

static telpher_status
on_reply(struct tp_icd_session *session, uint16_t type, const uint8_t *body,
         const uint8_t *end)
{
    struct tp_icd_request *req;
    uint64_t id;
    bool kept;

    if (end - body < (ptrdiff_t)sizeof(id)) {
        return TELPHER_ERR_PROTO;
    }
    memcpy(&id, body, sizeof(id)); /* every reply begins with the request's id */
    tp_icd_lock();
    req = tp_map_remove(&session->requests, id);
    kept = tp_icd_copies_on_reply(session, id, status_of(type, body, end));
    tp_icd_unlock();
    if (req == NULL && kept) {
        return discard_content(session, type, body, end);
    }
    if (req == NULL) {
        return TELPHER_ERR_PROTO;
    }
    req->reply(req, type, body, end);
    tp_icd_lock();
    tp_icd_unexpect(session);
    tp_icd_unlock();
    return TELPHER_OK;
}

static telpher_status
on_files_wanted(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_files_wanted msg;
    struct tp_icd_request *req;

    if (!tp_wire_get_files_wanted(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    req = tp_map_get(&session->requests, msg.request);
    tp_icd_unlock();
    /* replies come on this thread, too: the request stays */
    return req == NULL || req->wanted == NULL
               ? TELPHER_ERR_PROTO
               : req->wanted(req, msg.names.data, msg.names.len);
}

static telpher_status
on_printf(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_printf msg;

    if (!tp_wire_get_printf(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    tp_icd_copies_on_printf(session);
    tp_icd_unlock();
    (void)fwrite(msg.text.data, 1, msg.text.len, stdout);
    (void)fflush(stdout);
    return TELPHER_OK;
}

static telpher_status
on_started(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_started msg;
    char text[256];

    if (!tp_wire_get_started(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    if (msg.status == TELPHER_OK) {
        session->started = true;
        return TELPHER_OK;
    }
    (void)snprintf(text, sizeof(text), "no executor: %.*s", (int)msg.text.len,
                   (const char *)msg.text.data);
    tp_icd_session_lose(session, msg.status < 0 ? msg.status : TELPHER_ERR_REFUSED,
                        text);
    return TELPHER_ERR_PEER_LOST;
}

static telpher_status
on_close(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_close msg;
    char text[256];

    if (!tp_wire_get_close(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    snprintf(text, sizeof(text), "%.*s", (int)msg.text.len,
             (const char *)msg.text.data);
    tp_icd_session_lose(session, TELPHER_ERR_PEER_LOST, text);
    return TELPHER_ERR_PEER_LOST;
}

static telpher_status
on_credit(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_credit msg;

    if (!tp_wire_get_credit(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    tp_icd_bulk_credit(session, &msg);
    tp_icd_unlock();
    return TELPHER_OK;
}

static telpher_status
on_peer_lost(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_peer_lost msg;

    if (!tp_wire_get_peer_lost(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    tp_icd_peer_on_lost(session, msg.peer);
    tp_icd_unlock();
    return TELPHER_OK;
}

static telpher_status
on_drain(struct tp_icd_session *session, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_drain msg;

    if (!tp_wire_get_drain(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_session_drain(session, msg.time_ns);
    return TELPHER_OK;
}

telpher_status
tp_icd_session_on_frame(void *arg, uint16_t type, const uint8_t *body,
                        const uint8_t *end)
{
    struct tp_icd_session *session = arg;

    switch (type) {
    case TP_WIRE_DONE:
        return on_done(session, body, end);
    case TP_WIRE_FILES_WANTED:
        return on_files_wanted(session, body, end);
    case TP_WIRE_PRINTF:
        return on_printf(session, body, end);
    case TP_WIRE_CREDIT:
        return on_credit(session, body, end);
    case TP_WIRE_SHARE_REPLY:
        return on_share_reply(session, body, end);
    case TP_WIRE_PIECE_DONE:
        return on_piece_done(session, body, end);
    case TP_WIRE_FAILED:
        return on_failed(session, body, end);
    case TP_WIRE_BUILD_REPLY:
    case TP_WIRE_BINARY_REPLY:
    case TP_WIRE_BINARIES_REPLY:
    case TP_WIRE_SUB_DEVICES_REPLY:
    case TP_WIRE_DEVICE_TIMER_REPLY:
    case TP_WIRE_SVM_ALLOC_REPLY:
    case TP_WIRE_SUB_GROUP_INFO_REPLY:
    case TP_WIRE_PEER_REPLY:
    case TP_WIRE_PONG:
        return on_reply(session, type, body, end);
    case TP_WIRE_PEER_LOST:
        return on_peer_lost(session, body, end);
    case TP_WIRE_DRAIN:
        return on_drain(session, body, end);
    case TP_WIRE_STARTED:
        return on_started(session, body, end);
    case TP_WIRE_CLOSE:
        return on_close(session, body, end);
    case TP_WIRE_ACK:
        return TELPHER_OK;
    default:
        return TELPHER_ERR_PROTO;
    }
}
