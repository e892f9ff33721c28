/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to handlers. Buffers that are small and in host memory travel inside, behind
 * their lengths and before the parameters; others follow as transfers of their own, sent in
 * the same breath: the receiver's post handler has named their places when they come.
 */
#include "base/alloc.h"
#include "core/comm/comm_int.h"

enum {
    SCRATCH = 16 << 10, /* [bytes] of a message with its buffers inside */
    LENS = TELPHER_MSG_BUFFERS * sizeof(uint64_t),
};

/* ---- sending ---- */

/** A message whose buffers are under way. */
struct outgoing {
    telpher_request *req; /* of the whole */
    unsigned left;
    telpher_status status;
    size_t len;
};

static size_t
params_max(const struct tp_peer *peer)
{
    size_t most = TP_MIN(peer->net->eager_max - sizeof(struct tp_comm_header),
                         peer->net->bulk_min - 1); /* it must never be bulk */

    return TP_MIN(most, (size_t)SCRATCH) - LENS;
}

size_t
telpher_msg_params_max(const telpher_context *ctx, uint32_t rank)
{
    struct tp_net *net = rank < ctx->size ? tp_peer_choose(ctx, rank) : NULL;
    const struct tp_peer peer = {.net = net};

    return net != NULL ? params_max(&peer) : 0;
}

static void
buffer_sent(void *user, telpher_status status, size_t len)
{
    struct outgoing *out = user;

    out->len += len;
    if (status != TELPHER_OK) {
        out->status = status;
    }
    if (--out->left == 0) {
        tp_request_complete(out->req, out->status, out->len);
        tp_block_give(out->req->ctx, out);
    }
}

/* True if all buffers, with the rest, fit into one announcement. */
static bool
fits_inside(struct tp_peer *peer, size_t params_len, const telpher_msg_buffer *buffers,
            size_t count)
{
    size_t total = params_len + count * sizeof(uint64_t);

    for (size_t i = 0; i < count; i++) {
        struct tp_mem_place place;

        if (buffers[i].len > SCRATCH || (total += buffers[i].len) > SCRATCH ||
            tp_mems_find(peer->ctx->mems, buffers[i].data, buffers[i].len, &place) !=
                TELPHER_OK ||
            (place.host == NULL && buffers[i].len != 0)) {
            return false;
        }
    }
    return tp_comm_is_small(peer, total);
}

/* Lays lengths, buffers if they are inside, and parameters one behind the other. */
static size_t
pack(telpher_context *ctx, const void *params, size_t params_len,
     const telpher_msg_buffer *buffers, size_t count, bool inside)
{
    uint8_t *end = ctx->scratch;

    for (size_t i = 0; i < count; i++, end += sizeof(uint64_t)) {
        uint64_t len = buffers[i].len;

        memcpy(end, &len, sizeof(len));
    }
    for (size_t i = 0; inside && i < count; i++) {
        if (buffers[i].len != 0) {
            memcpy(end, buffers[i].data, buffers[i].len);
        }
        end += buffers[i].len;
    }
    if (params_len != 0) {
        memcpy(end, params, params_len);
    }
    return (size_t)(end - ctx->scratch) + params_len;
}

/** What could not leave at once. */
struct kept_head {
    telpher_context *ctx;
    _Alignas(16) uint8_t bytes[];
};

static void
free_head(void *user, telpher_status status, size_t len)
{
    struct kept_head *kept = user;

    (void)status;
    (void)len;
    tp_block_give(kept->ctx, kept);
}

/* The scratch memory is used again at once: what cannot leave now is copied. */
static telpher_status
send_head(struct tp_peer *peer, const struct tp_comm_header *header, const void *data,
          size_t len)
{
    struct tp_comm_done done = {.fn = free_head};
    struct tp_net *net = peer->net;
    struct tp_comm_header h = *header;
    telpher_status status = TELPHER_ERR_AGAIN;
    struct kept_head *kept;

    h.len = len;
    if (tp_list_is_empty(&peer->pending)) {
        status = net->ops->send(net, peer->rank, &h, sizeof(h), data, len);
    }
    if (status != TELPHER_ERR_AGAIN) {
        return status;
    }
    kept = tp_block_take(peer->ctx, sizeof(*kept) + len, "message");
    if (kept == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    kept->ctx = peer->ctx;
    if (len != 0) {
        memcpy(kept->bytes, data, len);
    }
    done.user = kept;
    status = tp_comm_send(peer, &h, kept->bytes, len, NULL, &done, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        tp_block_give(peer->ctx, kept);
    }
    return status < 0 ? status : TELPHER_OK;
}

static telpher_status
send_buffers(struct tp_peer *peer, uint32_t number, const telpher_msg_buffer *buffers,
             size_t count, struct outgoing *out)
{
    const struct tp_comm_done done = {.fn = buffer_sent, .user = out};
    telpher_status status = TELPHER_OK;

    out->left = 1; /* ours, until all are begun */
    for (size_t i = 0; i < count && status >= 0; i++) {
        const struct tp_comm_header h = {.kind = TP_COMM_BUFFER, .a = number, .b = i};

        status =
            tp_comm_send(peer, &h, buffers[i].data, buffers[i].len, NULL, &done, NULL);
        out->left += status == TELPHER_IN_PROGRESS;
        out->len += status == TELPHER_OK ? buffers[i].len : 0;
    }
    if (status < 0) {
        tp_peer_fail(peer, status); /* it waits for buffers that do not come */
        out->status = status;
    }
    buffer_sent(out, out->status, 0);
    return status;
}

static telpher_status
send_long(struct tp_peer *peer, struct tp_comm_header *h, const void *params,
          size_t params_len, const telpher_msg_buffer *buffers, size_t count,
          const struct tp_comm_done *done, telpher_request **ret_req)
{
    telpher_context *ctx = peer->ctx;
    struct outgoing *out = tp_block_take(ctx, sizeof(*out), "message");
    telpher_request *req = out != NULL ? tp_request_take(ctx, peer, done) : NULL;
    telpher_status status;

    if (req == NULL) {
        tp_block_give(ctx, out);
        return TELPHER_ERR_NO_MEMORY;
    }
    *out = (struct outgoing){.req = req};
    req->state = TP_REQUEST_LANDING; /* ended by its buffers */
    status = send_head(peer, h, ctx->scratch,
                       pack(ctx, params, params_len, buffers, count, false));
    if (status != TELPHER_OK) {
        tp_block_give(ctx, out);
        tp_request_give(req);
        return status;
    }
    send_buffers(peer, (uint32_t)h->a, buffers, count, out);
    return tp_request_begun(req, ret_req, NULL);
}

telpher_status
telpher_msg_send(telpher_context *ctx, uint32_t rank, uint32_t handler,
                 const void *params, size_t params_len,
                 const telpher_msg_buffer *buffers, size_t buffer_count,
                 const telpher_xfer_params *xfer, telpher_request **ret_req)
{
    struct tp_comm_header h = {.kind = TP_COMM_MESSAGE, .small = (uint16_t)handler};
    struct tp_comm_done done;
    telpher_status status = TELPHER_ERR_RANGE;
    struct tp_peer *peer =
        handler < TELPHER_HANDLERS ? tp_peer_get(ctx, rank, &status) : NULL;
    bool inside;

    if (peer == NULL || peer->status != TELPHER_OK) {
        return peer == NULL ? status : TELPHER_ERR_PEER_LOST;
    }
    if (params_len > params_max(peer) || buffer_count > TELPHER_MSG_BUFFERS) {
        return TELPHER_ERR_RANGE;
    }
    if (buffer_count == 0) {
        return send_head(peer, &h, params, params_len);
    }
    status = tp_comm_done_init(&done, xfer, ret_req);
    if (status != TELPHER_OK) {
        return status;
    }
    inside = fits_inside(peer, params_len, buffers, buffer_count);
    h.a = peer->next_message++;
    h.b = tp_comm_buffers((uint32_t)buffer_count, inside);
    if (!inside) {
        return send_long(peer, &h, params, params_len, buffers, buffer_count, &done,
                         ret_req);
    }
    return send_head(peer, &h, ctx->scratch,
                     pack(ctx, params, params_len, buffers, buffer_count, true));
}

/* ---- what came ---- */

/** A message that has not been given to its entry handler. */
struct incoming {
    struct tp_list link; /* of peer->messages */
    struct tp_peer *peer;
    uint64_t number;
    unsigned left; /* buffers that are not there */
    unsigned under_way; /* transfers that use what post named */
    telpher_msg msg;
    telpher_msg_buffer buffers[TELPHER_MSG_BUFFERS];
    bool came[TELPHER_MSG_BUFFERS];
    _Alignas(16) uint8_t params[];
};

static void
call(telpher_context *ctx, telpher_msg_fn fn, telpher_msg *msg)
{
    if (fn != NULL) {
        fn(ctx, msg, ctx->handlers[msg->handler].user);
    }
}

/* All is there, or will never be. */
static void
enter(struct incoming *in)
{
    telpher_context *ctx = in->peer->ctx;

    tp_list_remove(&in->link);
    in->peer->heads--;
    call(ctx, ctx->handlers[in->msg.handler].entry, &in->msg);
    tp_block_give(ctx, in);
}

/* One use of it less; enters when it was the last and nothing more is to come. */
static void
let_go(struct incoming *in)
{
    in->under_way--;
    if (in->under_way == 0 && (in->left == 0 || in->peer->status != TELPHER_OK)) {
        enter(in);
    }
}

static void
buffer_came(void *user, telpher_status status, size_t len)
{
    struct incoming *in = user;

    (void)len;
    if (status != TELPHER_OK) {
        in->msg.status = status;
    }
    in->left--;
    let_go(in);
}

static struct incoming *
incoming_create(const struct tp_parcel *parcel, size_t params_len)
{
    struct incoming *in =
        tp_block_take(parcel->peer->ctx, sizeof(*in) + params_len, "message");

    if (in != NULL) {
        memset(in, 0, sizeof(*in));
        tp_list_init(&in->link);
        in->peer = parcel->peer;
        in->peer->heads++;
        in->number = parcel->header.a;
        in->msg = (telpher_msg){.struct_size = sizeof(in->msg),
                                .from = parcel->peer->rank,
                                .handler = parcel->header.small,
                                .buffer_count = (uint32_t)parcel->header.b,
                                .params = in->params,
                                .params_len = params_len,
                                .buffers = in->buffers};
        in->left = in->msg.buffer_count;
    }
    return in;
}

/* Reads the lengths. @return [bytes] of the buffers that are inside, or SIZE_MAX if what the
 * header says is not what came. */
static size_t
read_lens(const struct tp_parcel *parcel, uint64_t lens[TELPHER_MSG_BUFFERS])
{
    uint32_t count = (uint32_t)parcel->header.b;
    bool inside = parcel->header.b >> 32 != 0;
    size_t lens_len = count * sizeof(uint64_t), left = (size_t)parcel->header.len,
           total = 0;

    if (count > TELPHER_MSG_BUFFERS || parcel->header.how != TP_COMM_INSIDE ||
        parcel->header.small >= TELPHER_HANDLERS || parcel->header.b >> 33 != 0 ||
        lens_len > left) {
        return SIZE_MAX;
    }
    memcpy(lens, parcel->data, lens_len);
    left -= lens_len;
    for (uint32_t i = 0; inside && i < count; i++) {
        if (lens[i] > left) {
            return SIZE_MAX;
        }
        left -= (size_t)lens[i];
        total += (size_t)lens[i];
    }
    return total;
}

/* Brings a buffer that is here to the place that post named. */
static telpher_status
take_buffer(struct incoming *in, uint64_t i, struct tp_parcel *parcel)
{
    const struct tp_comm_done done = {.fn = buffer_came, .user = in};
    telpher_request *req;
    telpher_status status;

    in->came[i] = true;
    in->under_way++;
    if (in->buffers[i].data == NULL) {
        tp_parcel_refuse(parcel);
        buffer_came(in, TELPHER_OK, 0);
        return TELPHER_OK;
    }
    req = tp_request_take(parcel->peer->ctx, parcel->peer, &done);
    if (req == NULL) {
        tp_parcel_refuse(parcel);
        in->under_way--;
        return TELPHER_ERR_NO_MEMORY;
    }
    status =
        tp_parcel_accept(parcel, in->buffers[i].data, in->buffers[i].len, req, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        tp_request_complete(req, status, in->buffers[i].len);
    }
    return TELPHER_OK;
}

/* What is for host memory is there at once and needs no request. */
static bool
copy_inside(struct incoming *in, uint32_t i, const uint8_t *data, size_t len)
{
    const telpher_msg_buffer *buffer = &in->buffers[i];
    struct tp_mem_place place;

    if (buffer->data == NULL || len > buffer->len ||
        tp_mems_find(in->peer->ctx->mems, buffer->data, len, &place) != TELPHER_OK ||
        place.host == NULL) {
        return false;
    }
    memcpy(place.host, data, len);
    in->came[i] = true;
    in->left--;
    return true;
}

/* Lengths are those of the message, whatever the post handler wrote over them. */
static telpher_status
take_inside(struct incoming *in, const uint8_t *data, const uint64_t *lens)
{
    telpher_status status = TELPHER_OK;

    in->under_way++; /* the last buffer must not free it under us */
    for (uint32_t i = 0; i < in->msg.buffer_count && status == TELPHER_OK; i++) {
        size_t len = (size_t)lens[i];
        struct tp_parcel part = {.peer = in->peer,
                                 .header = {.how = TP_COMM_INSIDE, .len = len},
                                 .data = data,
                                 .data_len = len};

        if (!copy_inside(in, i, data, len)) {
            status = take_buffer(in, i, &part);
        }
        data += len;
    }
    let_go(in);
    return status;
}

static telpher_status
begin(telpher_context *ctx, const struct tp_parcel *parcel, const uint64_t *lens,
      size_t inside_len)
{
    const uint8_t *data = parcel->data;
    uint32_t count = (uint32_t)parcel->header.b;
    size_t head = count * sizeof(uint64_t) + inside_len;
    struct incoming *in = incoming_create(parcel, (size_t)parcel->header.len - head);

    if (in == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memcpy(in->params, data + head, in->msg.params_len);
    for (uint32_t i = 0; i < count; i++) {
        in->buffers[i].len = (size_t)lens[i];
    }
    tp_list_push_back(&in->peer->messages, &in->link);
    call(ctx, ctx->handlers[in->msg.handler].post, &in->msg);
    return parcel->header.b >> 32 != 0
               ? take_inside(in, data + count * sizeof(uint64_t), lens)
               : TELPHER_OK;
}

/* Without buffers nothing is kept: parameters are seen where they came. */
static void
enter_now(telpher_context *ctx, const struct tp_parcel *parcel)
{
    _Alignas(16) uint8_t aligned[1024];
    telpher_msg msg = {.struct_size = sizeof(msg),
                       .from = parcel->peer->rank,
                       .handler = parcel->header.small,
                       .params = parcel->data,
                       .params_len = (size_t)parcel->header.len};

    if ((uintptr_t)msg.params % 16 != 0) {
        memcpy(aligned, parcel->data, msg.params_len);
        msg.params = aligned;
    }
    call(ctx, ctx->handlers[msg.handler].entry, &msg);
}

telpher_status
tp_message_on_message(telpher_context *ctx, struct tp_parcel *parcel)
{
    uint64_t lens[TELPHER_MSG_BUFFERS];
    size_t inside_len = read_lens(parcel, lens);

    if (inside_len == SIZE_MAX) {
        tp_parcel_refuse(parcel);
        return TELPHER_ERR_PROTO;
    }
    if (ctx->handlers[parcel->header.small].entry == NULL ||
        (ctx->handlers_changed && !tp_list_is_empty(&ctx->unhandled))) {
        if (parcel->peer->parcels >= TP_COMM_PARCELS_MAX) {
            return TELPHER_ERR_LIMIT;
        }
        return tp_parcel_keep(parcel, &ctx->unhandled) != NULL ? TELPHER_OK
                                                               : TELPHER_ERR_NO_MEMORY;
    }
    if ((uint32_t)parcel->header.b == 0 && parcel->header.len <= 1024) {
        enter_now(ctx, parcel);
        return TELPHER_OK;
    }
    if ((uint32_t)parcel->header.b == 0) {
        struct incoming *in = incoming_create(parcel, (size_t)parcel->header.len);

        if (in == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        memcpy(in->params, parcel->data, in->msg.params_len);
        enter(in);
        return TELPHER_OK;
    }
    if (tp_comm_is_too_much(parcel->peer, parcel->peer->heads)) {
        return TELPHER_ERR_LIMIT;
    }
    return begin(ctx, parcel, lens, inside_len);
}

static struct incoming *
find_incoming(const struct tp_peer *peer, uint64_t number)
{
    tp_list_for_each(link, &peer->messages)
    {
        struct incoming *in = tp_list_entry(link, struct incoming, link);

        if (in->number == number) {
            return in;
        }
    }
    return NULL;
}

/* True if a message with this number waits for its handler: its buffers wait with it. */
static bool
is_unhandled(const telpher_context *ctx, const struct tp_parcel *buffer)
{
    tp_list_for_each(link, &ctx->unhandled)
    {
        const struct tp_parcel *kept = tp_list_entry(link, struct tp_parcel, link);

        if (kept->peer == buffer->peer && kept->header.kind == TP_COMM_MESSAGE &&
            (uint32_t)kept->header.b != 0 && kept->header.a == buffer->header.a) {
            return true;
        }
    }
    return false;
}

telpher_status
tp_message_on_buffer(telpher_context *ctx, struct tp_parcel *parcel)
{
    struct incoming *in = find_incoming(parcel->peer, parcel->header.a);
    uint64_t i = parcel->header.b;

    if (in == NULL && is_unhandled(ctx, parcel)) {
        if (parcel->peer->parcels >= TP_COMM_PARCELS_MAX) {
            tp_parcel_refuse(parcel);
            return TELPHER_ERR_LIMIT;
        }
        return tp_parcel_keep(parcel, &ctx->unhandled) != NULL ? TELPHER_OK
                                                               : TELPHER_ERR_NO_MEMORY;
    }
    if (in == NULL || i >= in->msg.buffer_count || in->came[i] ||
        parcel->header.len != in->buffers[i].len) {
        tp_parcel_refuse(parcel);
        return TELPHER_ERR_PROTO;
    }
    return take_buffer(in, i, parcel);
}

void
tp_message_lose_peer(struct tp_peer *peer)
{
    tp_list_for_each_safe(link, &peer->messages)
    {
        struct incoming *in = tp_list_entry(link, struct incoming, link);

        in->msg.status = TELPHER_ERR_PEER_LOST;
        if (in->under_way == 0) {
            enter(in);
        }
    }
}

/* ---- handlers ---- */

/* True if a message of a rank that is lost is here all the same. */
static bool
is_all_here(const struct tp_parcel *parcel)
{
    return parcel->header.kind == TP_COMM_MESSAGE &&
           ((uint32_t)parcel->header.b == 0 || parcel->header.b >> 32 != 0);
}

/* Messages that came before their handler, in their order. */
static void
run_unhandled(telpher_context *ctx)
{
    struct tp_list kept, *link;

    tp_list_init(&kept);
    tp_list_splice_back(&kept, &ctx->unhandled);
    while ((link = tp_list_first(&kept)) != NULL) {
        struct tp_parcel *parcel = tp_list_entry(link, struct tp_parcel, link);
        telpher_status status = TELPHER_OK;

        if (parcel->peer->status == TELPHER_OK || is_all_here(parcel)) {
            status = parcel->header.kind == TP_COMM_MESSAGE
                         ? tp_message_on_message(ctx, parcel)
                         : tp_message_on_buffer(ctx, parcel);
        }
        if (status != TELPHER_OK) {
            tp_peer_fail(parcel->peer, status);
        }
        tp_parcel_free(parcel);
    }
}

telpher_status
telpher_msg_handler(telpher_context *ctx, uint32_t handler, telpher_msg_fn post,
                    telpher_msg_fn entry, void *user)
{
    if (handler >= TELPHER_HANDLERS) {
        return TELPHER_ERR_RANGE;
    }
    ctx->handlers[handler] = (struct tp_comm_handler){post, entry, user};
    ctx->handlers_changed = true; /* progress gives it what came before */
    return TELPHER_OK;
}

unsigned
tp_message_run_unhandled(telpher_context *ctx)
{
    bool changed = ctx->handlers_changed;

    ctx->handlers_changed = false;
    if (changed && !tp_list_is_empty(&ctx->unhandled)) {
        run_unhandled(ctx);
        return 1;
    }
    return 0;
}

void
tp_message_fini(telpher_context *ctx)
{
    struct tp_list *link;

    while ((link = tp_list_first(&ctx->unhandled)) != NULL) {
        tp_parcel_free(tp_list_entry(link, struct tp_parcel, link));
    }
    for (uint32_t r = 0; r < ctx->size; r++) {
        while (ctx->peers[r] != NULL &&
               (link = tp_list_pop_front(&ctx->peers[r]->messages)) != NULL) {
            tp_block_give(ctx, tp_list_entry(link, struct incoming, link));
        }
    }
}
