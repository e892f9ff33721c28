/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incoming messages: checks them, dispatches them by kind, and receives or keeps them.
 * Data is copied to its destination in one step if the CPU can access that; otherwise
 * it is pulled in fragments.
 */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "core/comm/comm_int.h"

static void
refuse(const struct tp_comm_unexpected *msg, enum tp_comm_end end)
{
    const struct tp_comm_header h = {
        .kind = TP_COMM_FINISH, .small = (uint16_t)end, .a = msg->header.xfer};

    if (msg->header.how == TP_COMM_RNDV) {
        struct tp_net *net = msg->peer->net;

        tp_rndv_reject(net, msg->rndv);
    }
    if (msg->header.how == TP_COMM_RNDV || msg->header.how == TP_COMM_STAGED) {
        tp_comm_post(msg->peer, &h);
    }
}

void
tp_comm_unexpected_refuse(struct tp_comm_unexpected *msg)
{
    if (msg->peer->status == TELPHER_OK) {
        refuse(msg, TP_COMM_END_REFUSED);
    }
}

bool
tp_comm_is_too_much(const struct tp_comm_peer *peer, size_t count)
{
    if (count < peer->ctx->kept_max) {
        return false;
    }
    tp_warn("comm",
            "closing connection to rank %u: %zu unexpected messages, the limit of one "
            "rank; post receives earlier or raise TELPHER_KEPT_MAX",
            peer->rank, count);
    return true;
}

struct tp_comm_unexpected *
tp_comm_unexpected_keep(const struct tp_comm_unexpected *msg, struct tp_list *list)
{
    size_t len = msg->data_len, params_len = msg->params_len;
    struct tp_comm_unexpected *copy;

    if (tp_comm_is_too_much(msg->peer, msg->peer->unexpected)) {
        tp_comm_peer_fail(msg->peer, TELPHER_ERR_LIMIT);
        return NULL;
    }
    copy = tp_comm_block_take(msg->peer->ctx, sizeof(*copy) + len + params_len,
                              "unexpected message");
    if (copy == NULL) {
        tp_comm_peer_fail(msg->peer, TELPHER_ERR_NO_MEMORY);
        return NULL;
    }
    *copy = *msg;
    if (len != 0) {
        memcpy(copy + 1, msg->data, len);
    }
    copy->data = copy + 1;
    if (params_len != 0) {
        copy->params = memcpy((uint8_t *)(copy + 1) + len, msg->params, params_len);
    }
    copy->peer->unexpected++;
    tp_list_push_back(list, &copy->link);
    return copy;
}

void
tp_comm_unexpected_free(struct tp_comm_unexpected *msg)
{
    tp_list_remove(&msg->link);
    msg->peer->unexpected--;
    tp_comm_block_give(msg->peer->ctx, msg);
}

static telpher_status
final_status(const telpher_request *req, telpher_status status)
{
    return status == TELPHER_OK && req->cut ? TELPHER_ERR_TRUNCATED : status;
}

void
tp_comm_unexpected_fetch(struct tp_comm_peer *peer, struct tp_net_rndv *rndv, void *dst,
                         size_t len, struct tp_net_op *op)
{
    if (peer->net->reads) {
        (void)tp_comm_revocation_reach(
            peer); /* later the peer's process may have exited with it */
    }
    tp_rndv_recv(peer->net, rndv, dst, len, op);
}

static void
on_fetched(struct tp_net_op *op, telpher_status status)
{
    telpher_request *req = tp_container_of(op, telpher_request, op);

    status = tp_comm_revocation_check_rndv(req->peer, status);
    tp_comm_request_complete(req, final_status(req, status),
                             status == TELPHER_OK ? req->len : 0);
}

static void
give_chunk(telpher_request *req)
{
    if (req->heap) {
        tp_free(req->chunk);
    } else {
        tp_mems_chunk_give(req->ctx->mems, req->place.device, req->chunk);
    }
    req->chunk = NULL;
    req->heap = false;
}

static void
written(struct tp_device_copy *copy, int32_t error)
{
    telpher_request *req = tp_container_of(copy, telpher_request, copy);

    give_chunk(req);
    tp_comm_request_complete(
        req, error == 0 ? final_status(req, TELPHER_OK) : TELPHER_ERR_DEVICE,
        error == 0 ? req->len : 0);
}

/* Copies small data from a message to a device, through a chunk, or heap memory if
 * none is free. */
static telpher_status
write_small(telpher_request *req, const void *data)
{
    struct tp_mems *mems = req->ctx->mems;
    telpher_status status;

    if (req->len <= tp_mems_chunk_bytes(mems, req->place.device)) {
        req->chunk = tp_mems_chunk_take(mems, req->place.device);
    }
    if (req->chunk == NULL) {
        req->chunk = tp_malloc(req->len, "small write");
        req->heap = true;
    }
    if (req->chunk == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memcpy(req->chunk, data, req->len);
    req->copy.done = written;
    req->state = TP_COMM_REQUEST_DELIVERING;
    status = tp_mems_write(mems, &req->place, req->len, req->chunk, &req->copy);
    if (status != TELPHER_OK) {
        give_chunk(req);
        return status;
    }
    return TELPHER_IN_PROGRESS;
}

static telpher_status
accept_eager(struct tp_comm_unexpected *msg, telpher_request *req)
{
    if (req->len == 0) {
        return final_status(req, TELPHER_OK);
    }
    if (req->place.host == NULL) {
        return write_small(req, msg->data);
    }
    memcpy(req->place.host, msg->data, req->len);
    return final_status(req, TELPHER_OK);
}

telpher_status
tp_comm_unexpected_accept(struct tp_comm_unexpected *msg, void *dst, size_t cap,
                          telpher_request *req, size_t *ret_len)
{
    const struct tp_comm_header *h = &msg->header;
    telpher_status status;

    req->peer = msg->peer;
    req->len = h->len < cap ? (size_t)h->len : cap;
    req->cut = h->len > cap;
    status = tp_mems_find(req->ctx->mems, dst, req->len, &req->place);
    if (status == TELPHER_OK && h->how == TP_COMM_BROKEN) {
        status = TELPHER_ERR_DEPENDENCY;
    }
    if (status != TELPHER_OK) {
        refuse(msg, TP_COMM_END_REFUSED);
        return status;
    }
    if (ret_len != NULL) {
        *ret_len = req->len;
    }
    if (h->how == TP_COMM_EAGER) {
        return accept_eager(msg, req);
    }
    if (req->len == 0) {
        refuse(msg, TP_COMM_END_DONE);
        return final_status(req, TELPHER_OK);
    }
    if (h->how == TP_COMM_STAGED && tp_comm_direct_take(msg, req)) {
        return TELPHER_IN_PROGRESS;
    }
    if (h->how == TP_COMM_RNDV && !(req->cut && msg->peer->net->whole) &&
        (req->place.host != NULL || tp_comm_direct_by_net(req))) {
        req->state = TP_COMM_REQUEST_DELIVERING;
        req->op.done = on_fetched;
        tp_comm_unexpected_fetch(msg->peer, msg->rndv, tp_comm_direct_rndv(req),
                                 req->len, &req->op);
    } else {
        tp_comm_fragment_pull(msg, req);
    }
    return TELPHER_IN_PROGRESS;
}

void
tp_comm_ignore(void *user, telpher_status status, size_t len)
{
}

/* ---- the transports' events ---- */

typedef telpher_status (*kind_fn)(telpher_context *ctx, struct tp_comm_unexpected *msg);

static const struct {
    kind_fn take;
    bool has_data; /* len is the length of the data that follows */
} kinds[TP_COMM_KINDS] = {
    [TP_COMM_CHANNEL] = {tp_comm_channel_on_data, true},
    [TP_COMM_CREDIT] = {tp_comm_channel_on_credit, false},
    [TP_COMM_MESSAGE] = {tp_comm_message_on_message, true},
    [TP_COMM_BUFFER] = {tp_comm_message_on_buffer, true},
    [TP_COMM_PUT] = {tp_comm_window_on_put, true},
    [TP_COMM_GET] = {tp_comm_window_on_get, false},
    [TP_COMM_GOT] = {tp_comm_window_on_got, true},
    [TP_COMM_FLUSH] = {tp_comm_delivery_on_flush, false},
    [TP_COMM_FLUSHED] = {tp_comm_delivery_on_flushed, false},
    [TP_COMM_GATHER] = {tp_comm_gather_on_step, true},
    [TP_COMM_PULL] = {tp_comm_fragment_on_pull, false},
    [TP_COMM_PIECE] = {tp_comm_fragment_on_piece, true},
    [TP_COMM_TAKEN] = {tp_comm_export_on_taken, false},
    [TP_COMM_FINISH] = {tp_comm_fragment_on_finish, false},
    [TP_COMM_MESSAGE_CREDIT] = {tp_message_on_credit, false},
};

/* True if the header agrees with the length of the data that arrived. */
static bool
is_whole(const struct tp_comm_header *h, bool rndv, uint64_t len)
{
    if (rndv) {
        return kinds[h->kind].has_data && h->how == TP_COMM_RNDV && h->len == len;
    }
    if (!kinds[h->kind].has_data) {
        return h->how == TP_COMM_EAGER && len == 0;
    }
    switch ((enum tp_comm_how)h->how) {
    case TP_COMM_EAGER:
        return h->len == len;
    case TP_COMM_STAGED:
        return len <= TP_MEMS_BLOB_MAX;
    case TP_COMM_EXPORTED:
        return h->kind == TP_COMM_PIECE && len <= TP_MEMS_BLOB_MAX;
    default:
        return h->how == TP_COMM_BROKEN && len == 0;
    }
}

/*
 * Drops messages of a rank that was declared dead. A rank that cannot be connected to
 * (no memory, no descriptors) is declared dead now; otherwise its message would be lost
 * silently.
 */
static void
ignore(struct tp_comm_link *link, uint32_t from, const struct tp_comm_unexpected *msg,
       telpher_status status)
{
    struct tp_net *net = link->net;
    struct tp_comm_peer *peer = msg->peer;

    if (msg->rndv != NULL) {
        tp_rndv_reject(net, msg->rndv);
    }
    if (peer == NULL || peer->absent) {
        tp_warn("comm", "connection to rank %u closed: %s", from,
                telpher_status_text(peer == NULL ? status : peer->status));
        net->ops->close_peer(net, from);
    } else if (peer->net != net) {
        tp_warn(
            "comm",
            "connection to rank %u closed: it connects by %s, not by %s; do all ranks "
            "have the same TELPHER_TRANSPORTS?",
            from, net->ops->name, peer->net->ops->name);
        net->ops->close_peer(net, from);
        tp_comm_peer_fail(peer, TELPHER_ERR_PROTO);
    }
}

static void
take(struct tp_comm_link *link, uint32_t from, const void *header, size_t header_len,
     struct tp_comm_unexpected *msg, uint64_t len)
{
    telpher_status status = TELPHER_ERR_PROTO;

    msg->peer = tp_comm_peer_find(link->ctx, from, &status);
    if (msg->peer == NULL || msg->peer->status != TELPHER_OK ||
        msg->peer->net != link->net) {
        ignore(link, from, msg, status);
        return;
    }
    status = TELPHER_ERR_PROTO;
    if (msg->rndv == NULL &&
        tp_comm_decode_short(header, header_len, len, &msg->header)) {
        msg->params = (const uint8_t *)header + sizeof(struct tp_comm_short);
        msg->params_len = header_len - sizeof(struct tp_comm_short);
        status = tp_comm_message_on_message(link->ctx, msg);
    } else if (tp_comm_decode(header, header_len, &msg->header) &&
               is_whole(&msg->header, msg->rndv != NULL, len)) {
        status = kinds[msg->header.kind].take(link->ctx, msg);
    }
    if (status != TELPHER_OK) {
        tp_debug("comm", "rank %u: message of kind %u, how %u, %llu bytes of %llu: %s",
                 from, msg->header.kind, msg->header.how, (unsigned long long)len,
                 (unsigned long long)msg->header.len, telpher_status_name(status));
        tp_comm_peer_fail(msg->peer, status);
    }
}

static void
on_message(void *user, uint32_t from, const void *header, size_t header_len,
           const void *data, size_t len)
{
    struct tp_comm_unexpected msg; /* compilers clear so large a struct slowly */

    msg.link = (struct tp_list){NULL, NULL};
    msg.header = (struct tp_comm_header){0};
    msg.data = data;
    msg.data_len = len;
    msg.params = NULL;
    msg.params_len = 0;
    msg.rndv = NULL;
    take(user, from, header, header_len, &msg, len);
}

static void
on_rndv(void *user, uint32_t from, const void *header, size_t header_len, uint64_t len,
        struct tp_net_rndv *rndv)
{
    struct tp_comm_unexpected msg = {.rndv = rndv};

    take(user, from, header, header_len, &msg, len);
}

/* Records the loss also of a rank that sent nothing yet: a later connect must fail. */
static void
on_lost(void *user, uint32_t rank, telpher_status why)
{
    struct tp_comm_link *link = user;
    telpher_status status;
    struct tp_comm_peer *peer = tp_comm_peer_get(link->ctx, rank, &status);

    if (peer != NULL && peer->net == link->net && !peer->absent) {
        tp_comm_peer_lost(peer, why);
    }
}

const struct tp_net_events tp_comm_events = {
    .on_message = on_message, .on_rndv = on_rndv, .on_lost = on_lost};
