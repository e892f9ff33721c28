/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses exported OpenCL buffers: include/telpher/interop/opencl.h. A connection is a stream to
 * the executor of the exporting session, as another server would have it: docs/protocol.md,
 * section 5.9. One operation is under way at a time.
 */
#include <telpher/interop/opencl.h>

#include <string.h>

#include "api/api_int.h"
#include "base/alloc.h"
#include "base/compiler.h"
#include "base/os/clock.h"
#include "core/comm/last_error.h"
#include "core/comm/mem/mem.h"
#include "core/session/buffer_token.h"
#include "core/session/client.h"

#define TIMEOUT_DEFAULT (30 * TP_CLOCK_S)

enum {
    STAGE_BYTES = 1 << 20, /* of device memory that passes host memory at a time */
    CREDIT_STEP = 2 << 20, /* [bytes] received that are worth a CREDIT */
};

struct telpher_opencl_remote {
    telpher_context *ctx; /* NULL: host memory only */
    struct tp_stream *stream;
    uint64_t window, size, timeout_ns;
    uint8_t rights;
    void *stage; /* STAGE_BYTES; NULL: no device memory was used yet */
    telpher_status status; /* that ended the connection; OK: it lives */

    /* The operation under way. */
    uint32_t counter; /* of its ids, 0: waits for PEER_READY */
    uint8_t *dst; /* of a get; NULL: a put */
    uint64_t len, received, limit;
    bool has_status, ended;
    int32_t error; /* CL */
};

/* ---- what arrives ---- */

static uint64_t
transfer_id(const telpher_opencl_remote *r)
{
    return tp_wire_id(TP_WIRE_KIND_TRANSFER, r->counter);
}

/* The content of a get may come after its status. */
static void
note_end(telpher_opencl_remote *r)
{
    r->ended =
        r->has_status && (r->error != 0 || r->dst == NULL || r->received == r->len);
}

static telpher_status
take_status(telpher_opencl_remote *r, const struct tp_wire_user_event_set *m)
{
    if (m->event != tp_wire_id(TP_WIRE_KIND_EVENT, r->counter) || r->counter == 0 ||
        r->has_status || m->status > 0) {
        return TELPHER_ERR_PROTO;
    }
    r->has_status = true;
    r->error = m->status;
    note_end(r);
    return TELPHER_OK;
}

static telpher_status
take_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    telpher_opencl_remote *r = arg;
    struct tp_wire_peer_ready ready;
    struct tp_wire_credit credit;
    struct tp_wire_abort stop;
    struct tp_wire_user_event_set set;

    if (type == TP_WIRE_PEER_READY && tp_wire_get_peer_ready(body, end, &ready)) {
        r->ended = r->counter == 0;
        return r->ended ? TELPHER_OK : TELPHER_ERR_PROTO;
    }
    if (type == TP_WIRE_CREDIT && tp_wire_get_credit(body, end, &credit)) {
        if (credit.transfer == transfer_id(r)) {
            r->limit = TP_MAX(r->limit, TP_MIN(credit.limit, r->len));
        }
        return TELPHER_OK; /* or for an operation that has ended */
    }
    if (type == TP_WIRE_ABORT && tp_wire_get_abort(body, end, &stop)) {
        return TELPHER_OK; /* the event has the same error */
    }
    if (type == TP_WIRE_USER_EVENT_SET && tp_wire_get_user_event_set(body, end, &set)) {
        return take_status(r, &set);
    }
    return TELPHER_ERR_PROTO;
}

static void *
begin_data(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    telpher_opencl_remote *r = arg;

    if (transfer != transfer_id(r)) {
        return NULL; /* the rest of one that has failed */
    }
    if (r->dst == NULL || offset != r->received || len > r->limit - r->received) {
        tp_stream_break(r->stream, TELPHER_ERR_PROTO);
        return NULL;
    }
    return r->dst + offset;
}

static void
end_data(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    telpher_opencl_remote *r = arg;
    uint64_t limit;

    r->received += len;
    note_end(r);
    limit = TP_MIN(r->received + r->window, r->len);
    if (limit > r->limit && (limit - r->limit >= CREDIT_STEP || limit == r->len)) {
        r->limit = limit;
        (void)tp_stream_put(r->stream, TP_WIRE_CREDIT,
                            &(struct tp_wire_credit){transfer, limit});
        tp_stream_kick(r->stream);
    }
}

/* ---- an operation ---- */

/* Receives what has arrived; waits for something if @p until is not 0. */
static telpher_status
receive(telpher_opencl_remote *r, uint64_t until)
{
    static const struct tp_stream_handler handler = {
        .frame = take_frame, .data_begin = begin_data, .data_end = end_data};
    telpher_status status = tp_stream_receive(r->stream, &handler, r);

    if (status == TELPHER_ERR_AGAIN && until != 0) {
        if (tp_stream_pending(r->stream) > 0) {
            (void)tp_stream_flush(r->stream);
        }
        status = tp_stream_wait(r->stream, until);
    }
    return status == TELPHER_ERR_AGAIN ? TELPHER_OK : status;
}

/* Sends as much content of a put as the server takes. @return OK, or a broken stream's */
static telpher_status
send_content(telpher_opencl_remote *r, const uint8_t *src, uint64_t *sent)
{
    telpher_status status = TELPHER_OK;

    while (status == TELPHER_OK && *sent < r->limit && !r->ended) {
        uint32_t len = (uint32_t)TP_MIN(r->limit - *sent, (uint64_t)TP_STREAM_SEND_MAX);

        status =
            tp_stream_send_data(r->stream, transfer_id(r), *sent, src + *sent, len);
        *sent += len;
        if (status == TELPHER_OK) {
            status = receive(r, 0);
        }
    }
    return status;
}

/* Waits for the end of the operation, and sends the content of a put meanwhile. */
static telpher_status
run(telpher_opencl_remote *r, const uint8_t *src)
{
    uint64_t sent = src == NULL ? r->len : 0, seen = UINT64_MAX;
    uint64_t deadline = 0;
    telpher_status status = TELPHER_OK;

    while (!r->ended && status == TELPHER_OK) {
        if (sent < r->limit) {
            status = send_content(r, src, &sent);
        }
        if (seen != sent + r->received) {
            seen = sent + r->received;
            deadline = tp_clock_deadline(r->timeout_ns);
        }
        if (status == TELPHER_OK && !r->ended) {
            status = receive(r, deadline);
        }
        if (status == TELPHER_OK && !r->ended && tp_clock_passed(deadline)) {
            status = TELPHER_ERR_TIMEOUT; /* it sends, but nothing of this operation */
        }
    }
    if (!r->ended) {
        r->status = status;
        return status;
    }
    return TELPHER_OK;
}

static telpher_status
status_of(int32_t error)
{
    switch (error) {
    case 0:
        return TELPHER_OK;
    case -38: /* CL_INVALID_MEM_OBJECT: expired or revoked */
    case -59: /* CL_INVALID_OPERATION: the right */
        return TELPHER_ERR_PERMISSION;
    case -30: /* CL_INVALID_VALUE */
        return TELPHER_ERR_RANGE;
    default:
        return TELPHER_ERR_DEVICE;
    }
}

/* Reads or writes @p len bytes of host memory: one of @p src and @p dst. */
static telpher_status
transfer(telpher_opencl_remote *r, uint64_t offset, const void *src, void *dst,
         uint64_t len)
{
    struct tp_wire_endpoint m;
    telpher_status status;

    r->counter = r->counter == UINT32_MAX ? 1 : r->counter + 1;
    r->dst = dst;
    r->len = len;
    r->received = 0;
    r->limit = TP_MIN(r->window, len);
    r->has_status = r->ended = false;
    m = (struct tp_wire_endpoint){.access = dst != NULL ? TP_WIRE_EXPORT_READ
                                                        : TP_WIRE_EXPORT_WRITE,
                                  .transfer = transfer_id(r),
                                  .event = tp_wire_id(TP_WIRE_KIND_EVENT, r->counter),
                                  .offset = offset,
                                  .size = len};
    status = tp_stream_put(r->stream, TP_WIRE_ENDPOINT, &m);
    if (status == TELPHER_OK && dst != NULL) {
        status = tp_stream_flush_wait(r->stream, tp_clock_deadline(r->timeout_ns));
    }
    if (status != TELPHER_OK) {
        r->status = status;
        return status;
    }
    status = run(r, src);
    return status == TELPHER_OK ? status_of(r->error) : status;
}

/* True if only a driver of the context reaches the memory. */
static bool
needs_stage(const telpher_opencl_remote *r, const void *ptr, size_t len)
{
    struct tp_mem_place place;

    return r->ctx != NULL &&
           tp_mems_find(tp_comm_context_mems(r->ctx), ptr, len, &place) == TELPHER_OK &&
           place.host == NULL;
}

/* Through host memory, piece by piece. */
static telpher_status
transfer_staged(telpher_opencl_remote *r, uint64_t offset, const uint8_t *src,
                uint8_t *dst, size_t len)
{
    telpher_status status = TELPHER_OK;

    if (r->stage == NULL) {
        r->stage = tp_malloc(STAGE_BYTES, "staging of an exported buffer");
    }
    if (r->stage == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (size_t at = 0; at < len && status == TELPHER_OK; at += STAGE_BYTES) {
        size_t part = TP_MIN(len - at, (size_t)STAGE_BYTES);

        if (src != NULL) {
            status = telpher_mem_copy(r->ctx, r->stage, src + at, part);
        }
        if (status == TELPHER_OK) {
            status = transfer(r, offset + at, src != NULL ? r->stage : NULL,
                              src != NULL ? NULL : r->stage, part);
        }
        if (status == TELPHER_OK && dst != NULL) {
            status = telpher_mem_copy(r->ctx, dst + at, r->stage, part);
        }
    }
    return status;
}

static telpher_status
access_remote(telpher_opencl_remote *r, uint8_t right, uint64_t offset, const void *src,
              void *dst, size_t len)
{
    if (r->status != TELPHER_OK) {
        return r->status;
    }
    if (len > r->size || offset > r->size - len) {
        return TELPHER_ERR_RANGE;
    }
    if ((r->rights & right) == 0) {
        return TELPHER_ERR_PERMISSION;
    }
    if (len == 0) {
        return TELPHER_OK;
    }
    return needs_stage(r, src != NULL ? src : dst, len)
               ? transfer_staged(r, offset, src, dst, len)
               : transfer(r, offset, src, dst, len);
}

telpher_status
telpher_opencl_put(telpher_opencl_remote *remote, uint64_t offset, const void *src,
                   size_t len)
{
    return access_remote(remote, TP_WIRE_EXPORT_WRITE, offset, src, NULL, len);
}

telpher_status
telpher_opencl_get(telpher_opencl_remote *remote, uint64_t offset, void *dst,
                   size_t len)
{
    return access_remote(remote, TP_WIRE_EXPORT_READ, offset, NULL, dst, len);
}

uint64_t
telpher_opencl_size(const telpher_opencl_remote *remote)
{
    return remote->size;
}

/* ---- life ---- */

static telpher_status
open_remote(telpher_opencl_remote *r, const struct tp_buffer_token *token,
            struct tp_error *err)
{
    struct tp_client_params params = {.address = token->address,
                                      .stream = TP_WIRE_STREAM_PEER,
                                      .peer_key = token->key,
                                      .deadline_ns = tp_clock_deadline(r->timeout_ns)};
    struct tp_wire_preface_reply reply;
    telpher_status status;

    memcpy(params.session, token->name, sizeof(params.session));
    status = tp_client_connect(&params, &r->stream, &reply, err);
    if (status == TELPHER_ERR_NOT_FOUND || status == TELPHER_ERR_AUTH) {
        return tp_error_set(err, status,
                            "server %s does not know this token: has the program that "
                            "exported the buffer ended?",
                            token->address);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    r->window = reply.window;
    status = run(r, NULL);
    if (status == TELPHER_ERR_PEER_LOST) {
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND,
                            "server %s: the token is not valid any more, or its buffer "
                            "has too many connections",
                            token->address);
    }
    return status == TELPHER_OK
               ? status
               : tp_error_set(err, status, "server %s: %s", token->address,
                              telpher_status_text(status));
}

telpher_status
telpher_opencl_open(telpher_context *ctx, const char *token, uint64_t timeout_ns,
                    telpher_opencl_remote **ret_remote, telpher_error *err)
{
    telpher_opencl_remote *r = tp_zalloc(sizeof(*r), "exported buffer");
    struct tp_buffer_token t;
    struct tp_error words = {0};
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (r != NULL && (token == NULL || !tp_buffer_token_read(token, &t))) {
        status = tp_error_set(&words, TELPHER_ERR_INVALID,
                              "this text is no token of an exported buffer");
    } else if (r != NULL) {
        r->ctx = ctx;
        r->size = t.size;
        r->rights = t.rights;
        r->timeout_ns = timeout_ns != 0 ? timeout_ns : TIMEOUT_DEFAULT;
        status = open_remote(r, &t, &words);
        explicit_bzero(t.key, sizeof(t.key));
    }
    if (status != TELPHER_OK) {
        telpher_opencl_close(r);
        return tp_api_error(err, status, &words);
    }
    *ret_remote = r;
    return TELPHER_OK;
}

void
telpher_opencl_close(telpher_opencl_remote *remote)
{
    if (remote != NULL) {
        tp_stream_destroy(remote->stream);
        tp_free(remote->stage);
        tp_free(remote);
    }
}
