/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active messages, the receiving side. The post handler names the destinations of
 * buffers, the entry handler runs when all data has arrived. The entry handler of an
 * ordered message waits for what the same peer sent before (delivery.c). Messages that
 * arrive before their handler is registered are kept. message_send.c has the sending
 * side.
 */
#include "base/alloc.h"
#include "core/comm/comm_int.h"
#include "core/comm/last_error.h"

/* [bytes] of parameters that are copied to the stack if the receive buffer does not align
 * them. */
enum { ALIGNED_MAX = 1024 };

/** A message in its receive buffer. */
struct parts {
    const uint8_t *params;
    size_t params_len;
    const uint8_t *eager; /* inline buffers, one after the other */
    size_t eager_len;
    uint64_t lens[TELPHER_MSG_BUFFERS];
};

/* ---- receiving ---- */

/** A message that was not passed to its entry handler yet. */
struct incoming {
    struct tp_list link; /* of peer->messages */
    /* linked: the message is ordered and waits for its turn */
    struct tp_comm_delivery base;
    struct tp_comm_peer *peer;
    uint64_t number;
    unsigned left; /* buffers that have not arrived */
    unsigned under_way; /* transfers into destinations that the post handler named */
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

/* Ends a message whose buffers have all arrived, or never will. */
static void
enter(struct incoming *in)
{
    struct tp_comm_peer *peer = in->peer;
    telpher_context *ctx = peer->ctx;

    tp_list_remove(&in->link);
    peer->heads--;
    call(ctx, ctx->handlers[in->msg.handler].entry, &in->msg);
    tp_message_return_credit(peer, in->msg.handler);
    tp_comm_block_give(ctx, in);
}

static void
run_ordered(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    enter(tp_container_of(delivery, struct incoming, base));
}

/* The peer is lost: tp_comm_message_lose_peer() calls the entry handler. */
static void
discard_ordered(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
}

/* Drops one use of the message; calls the entry handler after the last use if no
 * buffer is missing. */
static void
drop_use(struct incoming *in)
{
    in->under_way--;
    if (in->under_way != 0) {
        return;
    }
    if (tp_list_is_linked(&in->base.link)) {
        in->base.arrived = in->left == 0; /* otherwise the loss of its peer ends it */
        tp_comm_delivery_run(in->peer);
    } else if (in->left == 0 || in->peer->status != TELPHER_OK) {
        enter(in);
    }
}

static void
buffer_came(void *user, telpher_status status, size_t len)
{
    struct incoming *in = user;

    if (status != TELPHER_OK) {
        in->msg.status = status;
    }
    in->left--;
    drop_use(in);
}

static struct incoming *
incoming_create(const struct tp_comm_unexpected *msg, size_t params_len)
{
    struct incoming *in =
        tp_comm_block_take(msg->peer->ctx, sizeof(*in) + params_len, "message");

    if (in != NULL) {
        memset(in, 0, sizeof(*in));
        tp_list_init(&in->link);
        tp_list_init(&in->base.link);
        in->base.run = run_ordered;
        in->base.discard = discard_ordered;
        in->peer = msg->peer;
        in->peer->heads++;
        in->number = msg->header.a;
        in->msg = (telpher_msg){.struct_size = sizeof(in->msg),
                                .from = msg->peer->rank,
                                .handler = msg->header.small,
                                .buffer_count = (uint32_t)msg->header.b,
                                .params = in->params,
                                .params_len = params_len,
                                .buffers = in->buffers};
        in->left = in->msg.buffer_count;
    }
    return in;
}

/* A message without buffers, whose fields are valid. */
static inline bool
is_plain(const struct tp_comm_header *header)
{
    return header->b == 0 && header->how == TP_COMM_EAGER &&
           header->small < TELPHER_HANDLERS;
}

static inline bool
is_inline(const struct tp_comm_header *header)
{
    return header->b >> 32 != 0;
}

/* Data of a message with buffers: their lengths, inline buffers, parameters. @return false if
 * the header contradicts the received length */
static bool
read_lens(const struct tp_comm_unexpected *msg, struct parts *ret)
{
    uint32_t count = (uint32_t)msg->header.b;
    size_t lens_len = count * sizeof(uint64_t), left = (size_t)msg->header.len;

    if (count > TELPHER_MSG_BUFFERS || msg->header.how != TP_COMM_EAGER ||
        msg->header.small >= TELPHER_HANDLERS || msg->header.b >> 33 != 0 ||
        lens_len > left) {
        return false;
    }
    memcpy(ret->lens, msg->data, lens_len);
    left -= lens_len;
    ret->eager = (const uint8_t *)msg->data + lens_len;
    ret->eager_len = 0;
    for (uint32_t i = 0; is_inline(&msg->header) && i < count; i++) {
        if (ret->lens[i] > left) {
            return false;
        }
        left -= (size_t)ret->lens[i];
        ret->eager_len += (size_t)ret->lens[i];
    }
    ret->params = ret->eager + ret->eager_len;
    ret->params_len = left;
    return true;
}

/* @return false if the message breaks the protocol */
static inline bool
split(const struct tp_comm_unexpected *msg, struct parts *ret)
{
    if (tp_likely(is_plain(&msg->header))) {
        ret->params = msg->data;
        ret->params_len = (size_t)msg->header.len;
        ret->eager = NULL;
        ret->eager_len = 0;
        return true;
    }
    if (msg->params_len == 0) {
        return read_lens(msg, ret);
    }
    ret->params = msg->params;
    ret->params_len = msg->params_len;
    ret->eager = msg->data;
    ret->eager_len = ret->lens[0] = (size_t)msg->header.len;
    return msg->header.small < TELPHER_HANDLERS;
}

/* Receives a buffer that has arrived into the destination that the post handler
 * named. */
static telpher_status
take_buffer(struct incoming *in, uint64_t i, struct tp_comm_unexpected *msg)
{
    const struct tp_comm_done done = {.fn = buffer_came, .user = in};
    telpher_request *req;
    telpher_status status;

    in->came[i] = true;
    in->under_way++;
    if (in->buffers[i].data == NULL) {
        tp_comm_unexpected_refuse(msg);
        buffer_came(in, TELPHER_OK, 0);
        return TELPHER_OK;
    }
    req = tp_comm_request_take(msg->peer->ctx, msg->peer, &done);
    if (req == NULL) {
        tp_comm_unexpected_refuse(msg);
        in->under_way--;
        return TELPHER_ERR_NO_MEMORY;
    }
    status = tp_comm_unexpected_accept(msg, in->buffers[i].data, in->buffers[i].len,
                                       req, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        tp_comm_request_complete(req, status, in->buffers[i].len);
    }
    return TELPHER_OK;
}

/* Data for host memory is copied at once and needs no request. */
static bool
copy_eager(struct incoming *in, uint32_t i, const uint8_t *data, size_t len)
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

/* The lengths are those of the message, even if the post handler changed them. */
static telpher_status
take_eager(struct incoming *in, const uint8_t *data, const uint64_t *lens)
{
    telpher_status status = TELPHER_OK;

    in->under_way++; /* the last buffer must not free it during the loop */
    for (uint32_t i = 0; i < in->msg.buffer_count && status == TELPHER_OK; i++) {
        size_t len = (size_t)lens[i];
        struct tp_comm_unexpected part = {.peer = in->peer,
                                          .header = {.how = TP_COMM_EAGER, .len = len},
                                          .data = data,
                                          .data_len = len};

        if (!copy_eager(in, i, data, len)) {
            status = take_buffer(in, i, &part);
        }
        data += len;
    }
    drop_use(in);
    return status;
}

/* Calls the post handler and receives inline buffers into the destinations that it names. */
static telpher_status
begin(telpher_context *ctx, const struct tp_comm_unexpected *msg,
      const struct parts *parts)
{
    struct incoming *in = incoming_create(msg, parts->params_len);

    if (in == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memcpy(in->params, parts->params, parts->params_len);
    for (uint32_t i = 0; i < in->msg.buffer_count; i++) {
        in->buffers[i].len = (size_t)parts->lens[i];
    }
    tp_list_push_back(&in->peer->messages, &in->link);
    if (ctx->handlers[in->msg.handler].ordered) {
        tp_comm_delivery_add(in->peer, &in->base);
    }
    call(ctx, ctx->handlers[in->msg.handler].post, &in->msg);
    return is_inline(&msg->header) ? take_eager(in, parts->eager, parts->lens)
                                   : TELPHER_OK;
}

static bool
is_aligned(const uint8_t *params)
{
    return (uintptr_t)params % 16 == 0;
}

/* Names the places of inline buffers that lie one after the other. */
static void
set_buffers(telpher_msg *msg, telpher_msg_buffer *buffers, const uint8_t *eager,
            const uint64_t *lens)
{
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        buffers[i] = (telpher_msg_buffer){(void *)(uintptr_t)eager, (size_t)lens[i]};
        eager += lens[i];
    }
    msg->buffers = buffers;
}

/* A message whose post handler is not needed is not kept: the entry handler reads parameters
 * and inline buffers in the receive buffer. */
static void
enter_now(telpher_context *ctx, const struct tp_comm_unexpected *msg,
          const struct parts *parts)
{
    _Alignas(16) uint8_t aligned[ALIGNED_MAX];
    telpher_msg_buffer buffers[TELPHER_MSG_BUFFERS];
    telpher_msg arg = {.struct_size = sizeof(arg),
                       .from = msg->peer->rank,
                       .handler = msg->header.small,
                       .buffer_count = (uint32_t)msg->header.b,
                       .params = parts->params,
                       .params_len = parts->params_len};

    if (tp_unlikely(!is_aligned(parts->params))) {
        arg.params = memcpy(aligned, parts->params, arg.params_len);
    }
    set_buffers(&arg, buffers, parts->eager, parts->lens);
    call(ctx, ctx->handlers[arg.handler].entry, &arg);
    tp_message_return_credit(msg->peer, arg.handler);
}

/* Keeps such a message if its handler cannot run on the receive buffer: its parameters are long
 * and not aligned there, or it waits for its turn. */
static telpher_status
enter_copy(const struct tp_comm_unexpected *msg, const struct parts *parts,
           bool ordered)
{
    struct incoming *in = incoming_create(msg, parts->params_len + parts->eager_len);
    uint8_t *eager;

    if (in == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    eager = in->params + parts->params_len;
    in->msg.params_len = parts->params_len;
    in->left = 0;
    if (parts->params_len != 0) {
        memcpy(in->params, parts->params, parts->params_len);
    }
    if (parts->eager_len != 0) {
        memcpy(eager, parts->eager, parts->eager_len);
    }
    set_buffers(&in->msg, in->buffers, eager, parts->lens);
    if (ordered) {
        tp_list_push_back(&in->peer->messages, &in->link);
        in->base.arrived = true;
        tp_comm_delivery_add(in->peer, &in->base);
    } else {
        enter(in);
    }
    return TELPHER_OK;
}

telpher_status
tp_comm_message_on_message(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    struct parts parts;
    const struct tp_comm_handler *h;
    bool waits, in_place;

    if (tp_unlikely(!split(msg, &parts))) {
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_PROTO;
    }
    h = &ctx->handlers[msg->header.small];
    if (h->entry == NULL ||
        (ctx->handlers_changed && !tp_list_is_empty(&ctx->unhandled))) {
        if (msg->peer->unexpected >= TP_COMM_UNEXPECTED_MAX) {
            return TELPHER_ERR_LIMIT;
        }
        return tp_comm_unexpected_keep(msg, &ctx->unhandled) != NULL
                   ? TELPHER_OK
                   : TELPHER_ERR_NO_MEMORY;
    }
    if (!tp_message_receive_credit(h, msg->peer->rank)) {
        return TELPHER_ERR_PROTO;
    }
    waits = h->ordered && !tp_list_is_empty(&msg->peer->deliveries);
    in_place =
        (uint32_t)msg->header.b == 0 || (h->post == NULL && is_inline(&msg->header));
    if (in_place && !waits &&
        (parts.params_len <= ALIGNED_MAX || is_aligned(parts.params))) {
        enter_now(ctx, msg, &parts);
        return TELPHER_OK;
    }
    if (tp_comm_is_too_much(msg->peer, msg->peer->heads)) {
        return TELPHER_ERR_LIMIT;
    }
    return in_place ? enter_copy(msg, &parts, waits) : begin(ctx, msg, &parts);
}

static struct incoming *
find_incoming(const struct tp_comm_peer *peer, uint64_t number)
{
    tp_list_for_each_entry(struct incoming, in, &peer->messages, link) {
        if (in->number == number) {
            return in;
        }
    }
    return NULL;
}

/* True if a message with this number waits for its handler; its buffers then wait
 * with it. */
static bool
is_unhandled(const telpher_context *ctx, const struct tp_comm_unexpected *buffer)
{
    tp_list_for_each_entry(const struct tp_comm_unexpected, kept, &ctx->unhandled,
                           link) {
        if (kept->peer == buffer->peer && kept->header.kind == TP_COMM_MESSAGE &&
            (uint32_t)kept->header.b != 0 && kept->header.a == buffer->header.a) {
            return true;
        }
    }
    return false;
}

telpher_status
tp_comm_message_on_buffer(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    struct incoming *in = find_incoming(msg->peer, msg->header.a);
    uint64_t i = msg->header.b;

    if (in == NULL && is_unhandled(ctx, msg)) {
        if (msg->peer->unexpected >= TP_COMM_UNEXPECTED_MAX) {
            tp_comm_unexpected_refuse(msg);
            return TELPHER_ERR_LIMIT;
        }
        return tp_comm_unexpected_keep(msg, &ctx->unhandled) != NULL
                   ? TELPHER_OK
                   : TELPHER_ERR_NO_MEMORY;
    }
    if (in == NULL || i >= in->msg.buffer_count || in->came[i] ||
        msg->header.len != in->buffers[i].len) {
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_PROTO;
    }
    return take_buffer(in, i, msg);
}

void
tp_comm_message_lose_peer(struct tp_comm_peer *peer)
{
    tp_list_for_each_entry_safe(struct incoming, in, &peer->messages, link) {
        in->msg.status = TELPHER_ERR_PEER_LOST;
        if (in->under_way == 0) {
            enter(in);
        }
    }
}

/* ---- handlers ---- */

/* True if a complete message of a lost rank is kept. */
static bool
is_all_here(const struct tp_comm_unexpected *msg)
{
    return msg->header.kind == TP_COMM_MESSAGE &&
           ((uint32_t)msg->header.b == 0 || msg->header.b >> 32 != 0);
}

/* Delivers messages that arrived before their handler, in order. */
static void
run_unhandled(telpher_context *ctx)
{
    struct tp_list kept, *link;

    tp_list_init(&kept);
    tp_list_splice_back(&kept, &ctx->unhandled);
    while ((link = tp_list_first(&kept)) != NULL) {
        struct tp_comm_unexpected *msg =
            tp_list_entry(link, struct tp_comm_unexpected, link);
        telpher_status status = TELPHER_OK;

        if (msg->peer->status == TELPHER_OK || is_all_here(msg)) {
            status = msg->header.kind == TP_COMM_MESSAGE
                         ? tp_comm_message_on_message(ctx, msg)
                         : tp_comm_message_on_buffer(ctx, msg);
        }
        if (status != TELPHER_OK) {
            tp_comm_peer_fail(msg->peer, status);
        }
        tp_comm_unexpected_free(msg);
    }
}

telpher_status
telpher_msg_handler(telpher_context *ctx, uint32_t handler, telpher_msg_fn post,
                    telpher_msg_fn entry, void *user)
{
    if (handler >= TELPHER_HANDLERS) {
        return tp_comm_error(ctx, TELPHER_ERR_RANGE,
                             "there is no handler %u: numbers are below %d", handler,
                             TELPHER_HANDLERS);
    }
    ctx->handlers[handler] =
        (struct tp_comm_handler){.post = post,
                                 .entry = entry,
                                 .user = user,
                                 .flows = ctx->handlers[handler].flows};
    /* progress delivers the messages that arrived before */
    ctx->handlers_changed = true;
    return TELPHER_OK;
}

unsigned
tp_comm_message_run_unhandled(telpher_context *ctx)
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
tp_comm_message_fini(telpher_context *ctx)
{
    struct tp_list *link;

    while ((link = tp_list_first(&ctx->unhandled)) != NULL) {
        tp_comm_unexpected_free(tp_list_entry(link, struct tp_comm_unexpected, link));
    }
    for (uint32_t r = 0; r < ctx->size; r++) {
        while (ctx->peers[r] != NULL &&
               (link = tp_list_pop_front(&ctx->peers[r]->messages)) != NULL) {
            struct incoming *in = tp_list_entry(link, struct incoming, link);

            tp_list_remove(&in->base.link);
            tp_comm_block_give(ctx, in);
        }
    }
}
