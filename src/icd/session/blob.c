/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers sources, binaries and facts of any size: inline in a message if small, else as
 * a transfer on the bulk stream.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <string.h>

#include "base/alloc.h"
#include "icd/events/callback.h"

/** [bytes] Larger than the log, binaries or facts of any program: more is an error. */
#define INCOMING_MAX ((uint64_t)1 << 30)

/** Content being sent. */
struct outgoing {
    struct tp_icd_source source;
    struct tp_icd_object *keep; /**< held until the end; may be NULL */
    uint8_t *own; /**< freed at the end; may be NULL */
};

/* ---- out ------------------------------------------------------------------------------ */

static void
on_sent(struct tp_icd_source *source, telpher_status status)
{
    struct outgoing *out = source->user;

    (void)status; /* the wait for the reply detects a lost session */
    tp_icd_drop(out->keep);
    tp_free(out->own);
    tp_free(out);
}

telpher_status
tp_icd_blob_send(struct tp_icd_session *session, const uint8_t *data, size_t len,
                 struct tp_icd_object *keep, uint8_t *own, uint64_t *ret_transfer)
{
    struct outgoing *out = tp_zalloc(sizeof(*out), "transfer");
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (out != NULL) {
        out->keep = keep;
        out->own = own;
        out->source = (struct tp_icd_source){
            .transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER),
            .src = data,
            .size = len,
            .ready = len,
            .is_blob = true,
            .done = on_sent,
            .user = out,
        };
        *ret_transfer = out->source.transfer;
        if (keep != NULL) {
            tp_icd_hold(keep);
        }
        status = tp_icd_source_add(session, &out->source);
        if (status == TELPHER_OK) {
            return TELPHER_OK;
        }
        tp_icd_drop_locked(keep);
    }
    tp_free(out);
    tp_free(own);
    return status;
}

/* ---- in ------------------------------------------------------------------------------- */

static void
on_received(struct tp_icd_sink *sink, telpher_status status)
{
    struct tp_icd_incoming *in = sink->user;

    in->status = status;
    in->then(in);
}

static telpher_status
copy_inline(struct tp_icd_incoming *in, const struct tp_wire_bytes *bytes)
{
    in->size = bytes->len;
    in->data = tp_memdup(bytes->data, bytes->len, "reply");
    return in->data == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_OK;
}

static telpher_status
expect_transfer(struct tp_icd_incoming *in, struct tp_icd_session *session,
                uint64_t transfer, uint64_t size)
{
    telpher_status status;

    if (size == 0 || size > INCOMING_MAX || !tp_icd_server_chose(transfer)) {
        return TELPHER_ERR_PROTO;
    }
    in->size = size;
    in->data = tp_malloc(size, "reply");
    if (in->data == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    in->sink = (struct tp_icd_sink){.transfer = transfer,
                                    .dst = in->data,
                                    .size = size,
                                    .done = on_received,
                                    .user = in};
    tp_icd_lock();
    status = tp_icd_sink_add(session, &in->sink);
    tp_icd_unlock();
    return status;
}

void
tp_icd_blob_receive(struct tp_icd_incoming *in, struct tp_icd_session *session,
                    const struct tp_wire_bytes *bytes, uint64_t transfer, uint64_t size)
{
    telpher_status status = transfer == 0
                                ? copy_inline(in, bytes)
                                : expect_transfer(in, session, transfer, size);

    if (transfer != 0 && status == TELPHER_OK) {
        return; /* on_received continues, or has run: @p in may be freed */
    }
    in->status = status;
    in->then(in);
}

void
tp_icd_blob_fini(struct tp_icd_incoming *in)
{
    tp_free(in->data);
    in->data = NULL;
}

/* ---- requests --------------------------------------------------------------------------- */

static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;

void
tp_icd_settle(struct tp_icd_session *session, struct tp_icd_request *req)
{
    tp_icd_lock();
    req->done = true;
    if (session != NULL) {
        tp_icd_session_wake(session);
    }
    pthread_cond_broadcast(&settled);
    tp_icd_unlock();
}

void
tp_icd_await(struct tp_icd_session *session, struct tp_icd_request *req)
{
    if (session != NULL) {
        (void)tp_icd_wait(session, &req->done);
    }
    /* If the session was lost, the request is completed a little later. */
    tp_icd_lock();
    while (!req->done) {
        pthread_cond_wait(&settled, &tp_icd.lock);
    }
    tp_icd_unlock();
}

telpher_status
tp_icd_request_run(struct tp_icd_session *session, struct tp_icd_request *req,
                   uint16_t type, const void *msg, int fd)
{
    telpher_status status;

    tp_icd_lock();
    status = tp_icd_request_add(session, req);
    if (status == TELPHER_OK && fd < 0) {
        tp_icd_put(session, type, msg);
    }
    tp_icd_unlock();
    if (status == TELPHER_OK && fd >= 0) {
        (void)tp_icd_send_fd(session, type, msg, fd); /* a loss settles the request */
    }
    if (status == TELPHER_OK) {
        tp_icd_await(session, req);
    }
    return status;
}

cl_int
tp_icd_reply_get(uint16_t want, uint16_t type, const uint8_t *body, const uint8_t *end,
                 void *ret_msg)
{
    const struct tp_wire_message *row = tp_wire_message(want);
    struct tp_wire_end_reason_reply head; /* begins as all replies do */

    if (type != want || !row->get(body, end, ret_msg)) {
        memset(ret_msg, 0, row->struct_size);
        return tp_icd_cl_error(type == 0 ? TELPHER_ERR_PEER_LOST : TELPHER_ERR_PROTO);
    }
    memcpy(&head, ret_msg, offsetof(struct tp_wire_end_reason_reply, text));
    return head.status <= 0 ? head.status : CL_OUT_OF_RESOURCES;
}

static void
on_reply(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
         const uint8_t *end)
{
    struct tp_icd_ask *ask = req->user;
    _Alignas(16) uint8_t reply[TP_WIRE_STRUCT_MAX];

    ask->result = tp_icd_reply_get(ask->reply_type, type, body, end, reply);
    if (ask->result == CL_SUCCESS) {
        ask->take(ask, reply);
    }
    tp_icd_settle(ask->session, req);
}

cl_int
tp_icd_ask(struct tp_icd_ask *ask, const void *msg, int fd)
{
    telpher_status status;

    ask->req = (struct tp_icd_request){.reply = on_reply, .user = ask};
    memcpy(&ask->req.id, msg, sizeof(ask->req.id));
    status = tp_icd_request_run(ask->session, &ask->req, ask->type, msg, fd);
    return status == TELPHER_OK ? ask->result : tp_icd_cl_error(status);
}

struct ping {
    struct tp_icd_session *session;
    struct tp_icd_request req;
};

static void
on_pong(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
        const uint8_t *end)
{
    struct ping *ping = req->user;

    tp_icd_settle(ping->session, req);
}

static bool
send_ping(struct ping *ping)
{
    struct tp_wire_ping msg = {.request = tp_icd_new_id(TP_WIRE_KIND_REQUEST)};
    bool sent;

    ping->req =
        (struct tp_icd_request){.id = msg.request, .reply = on_pong, .user = ping};
    tp_icd_lock();
    sent = tp_icd_request_add(ping->session, &ping->req) == TELPHER_OK;
    if (sent) {
        tp_icd_put(ping->session, TP_WIRE_PING, &msg);
    }
    tp_icd_unlock();
    if (sent) {
        tp_icd_flush(ping->session);
    }
    return sent;
}

void
tp_icd_ping_all(struct _cl_context *ctx)
{
    struct ping pings[TP_ICD_SESSIONS_MAX];
    uint32_t sent = 0;

    for (uint32_t i = 0; i < ctx->session_count; i++) {
        pings[sent].session = ctx->sessions[i];
        sent += send_ping(&pings[sent]);
    }
    for (uint32_t i = 0; i < sent; i++) {
        tp_icd_await(pings[i].session, &pings[i].req);
    }
}
