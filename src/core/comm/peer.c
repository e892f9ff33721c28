/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers, created at their first use. The address of a rank names its machine and its
 * transports in their order of preference. The preference of the lower of two ranks
 * decides, so that both choose the same transport: the first that both have and that
 * reaches the other.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "core/comm/comm_int.h"
#include "core/comm/last_error.h"

/** One transport's part of a rank's address. */
struct entry {
    const char *name;
    size_t name_len;
    const uint8_t *data;
    size_t len;
};

/* An address: the machine, the name of the revocation table, then for each transport
 * {name length, name, length (2), data}. */
size_t
tp_comm_peer_write_address(telpher_context *ctx, uint8_t *address)
{
    uint8_t *end = address + TP_COMM_ADDRESS_HEAD;

    for (size_t i = 0; i < ctx->net_count; i++) {
        struct tp_net *net = ctx->nets[i].net;
        size_t name_len = strlen(net->ops->name), len;

        *end++ = (uint8_t)name_len;
        memcpy(end, net->ops->name, name_len);
        end += name_len;
        len = net->ops->address(net, end + 2);
        *end++ = (uint8_t)len;
        *end++ = (uint8_t)(len >> 8);
        end += len;
    }
    *end++ = 0;
    return (size_t)(end - address);
}

/* Reads the entry at *src and advances. @return false at the end, or if it is
 * malformed. */
static bool
next_entry(const uint8_t **src, const uint8_t *end, struct entry *ret_entry)
{
    const uint8_t *at = *src;

    if (at == end || *at == 0 || (size_t)(end - at) < 1 + (size_t)*at + 2) {
        return false;
    }
    ret_entry->name_len = *at;
    ret_entry->name = (const char *)at + 1;
    at += 1 + ret_entry->name_len;
    ret_entry->len = at[0] | (size_t)at[1] << 8;
    ret_entry->data = at + 2;
    if ((size_t)(end - ret_entry->data) < ret_entry->len) {
        return false;
    }
    *src = ret_entry->data + ret_entry->len;
    return true;
}

/* The first entry of a rank's address, and the end of the address. */
static const uint8_t *
first_entry(const telpher_context *ctx, uint32_t rank, const uint8_t **ret_end)
{
    const uint8_t *address = ctx->addresses + rank * ctx->address_bytes;

    *ret_end = address + ctx->address_bytes;
    return address + TP_COMM_ADDRESS_HEAD;
}

static bool
is_named(const struct entry *entry, const char *name)
{
    return entry->name_len == strlen(name) &&
           memcmp(entry->name, name, entry->name_len) == 0;
}

static bool
find_entry(const telpher_context *ctx, uint32_t rank, const char *name,
           struct entry *ret_entry)
{
    const uint8_t *end, *at = first_entry(ctx, rank, &end);

    while (next_entry(&at, end, ret_entry)) {
        if (is_named(ret_entry, name)) {
            return true;
        }
    }
    return false;
}

void
tp_comm_peers_count_local(telpher_context *ctx)
{
    const uint8_t *mine = ctx->addresses + ctx->rank * ctx->address_bytes;

    for (uint32_t r = 0; r < ctx->size; r++) {
        if (memcmp(ctx->addresses + r * ctx->address_bytes, mine,
                   TP_COMM_MACHINE_BYTES) == 0) {
            ctx->local_rank += r < ctx->rank;
            ctx->local_size++;
        }
    }
}

/* Our transport of that name. */
static struct tp_net *
find_net(const telpher_context *ctx, const struct entry *entry)
{
    for (size_t i = 0; i < ctx->net_count; i++) {
        struct tp_net *net = ctx->nets[i].net;

        if (net != NULL && is_named(entry, net->ops->name)) {
            return net;
        }
    }
    return NULL;
}

struct tp_net *
tp_comm_peer_choose(const telpher_context *ctx, uint32_t rank)
{
    const uint8_t *end, *at = first_entry(ctx, TP_MIN(ctx->rank, rank), &end);
    struct entry wanted, entry;

    while (next_entry(&at, end, &wanted)) {
        struct tp_net *net = find_net(ctx, &wanted);

        if (net != NULL && find_entry(ctx, rank, net->ops->name, &entry) &&
            net->ops->reaches(net, entry.data, entry.len)) {
            return net;
        }
    }
    return NULL;
}

void
tp_comm_peer_list_nets(const telpher_context *ctx, uint32_t rank, char *dst,
                       size_t size)
{
    const uint8_t *end, *at = first_entry(ctx, rank, &end);
    struct entry entry;
    size_t len = 0;

    dst[0] = 0;
    while (next_entry(&at, end, &entry) && len < size) {
        if (!is_named(&entry, "loop")) {
            int got = snprintf(dst + len, size - len, "%s%.*s", len != 0 ? "," : "",
                               (int)entry.name_len, entry.name);

            len += got > 0 ? (size_t)got : 0;
        }
    }
}

static telpher_status
connect_peer(struct tp_comm_peer *peer)
{
    struct entry entry;

    peer->net = tp_comm_peer_choose(peer->ctx, peer->rank);
    if (peer->net == NULL ||
        !find_entry(peer->ctx, peer->rank, peer->net->ops->name, &entry)) {
        return TELPHER_ERR_UNREACHABLE;
    }
    if (peer->net == peer->ctx->unused) {
        peer->ctx->unused = NULL;
    }
    return peer->net->ops->connect(peer->net, peer->rank, entry.data, entry.len);
}

/* Any transport of this rank; it always has one, by which it reaches itself. */
static struct tp_net *
any_net(const telpher_context *ctx)
{
    size_t i = 0;

    while (ctx->nets[i].net == NULL) {
        i++;
    }
    return ctx->nets[i].net;
}

/* Records a peer that was gone before its first use. Its later messages are refused
 * (unexpected.c). */
static void
note_absence(struct tp_comm_peer *peer, const char *words)
{
    tp_info("comm", "rank %u is lost: %s", peer->rank, words);
    peer->absent = true;
    peer->status = TELPHER_ERR_PEER_LOST;
    peer->lost_why = words;
    peer->net = any_net(peer->ctx); /* a placeholder: nothing is sent by it */
    peer->ctx->lost++;
}

static struct tp_comm_peer *
peer_alloc(telpher_context *ctx, uint32_t rank)
{
    struct tp_comm_peer *peer = tp_zalloc(sizeof(*peer), "peer");

    if (peer == NULL) {
        return NULL;
    }
    peer->rank = rank;
    peer->ctx = ctx;
    peer->local = memcmp(ctx->addresses + rank * ctx->address_bytes,
                         ctx->addresses + ctx->rank * ctx->address_bytes,
                         TP_COMM_MACHINE_BYTES) == 0;
    tp_list_init(&peer->pending);
    tp_list_init(&peer->deliveries);
    tp_list_init(&peer->messages);
    tp_list_init(&peer->waiting);
    return peer;
}

struct tp_comm_peer *
tp_comm_peer_get(telpher_context *ctx, uint32_t rank, telpher_status *ret_status)
{
    struct tp_comm_peer *peer;

    if (rank >= ctx->size) {
        *ret_status = TELPHER_ERR_RANGE;
        return NULL;
    }
    if (tp_likely(ctx->peers[rank] != NULL)) {
        return ctx->peers[rank];
    }
    peer = peer_alloc(ctx, rank);
    if (peer == NULL) {
        *ret_status = TELPHER_ERR_NO_MEMORY;
        return NULL;
    }
    *ret_status = connect_peer(peer);
    if (*ret_status == TELPHER_ERR_UNREACHABLE) {
        /* the peer was reachable when the job started */
        note_absence(peer, "it cannot be reached any more");
    } else if (*ret_status != TELPHER_OK) {
        tp_free(peer);
        return NULL;
    }
    ctx->peers[rank] = peer;
    return peer;
}

unsigned
tp_comm_peers_flush(telpher_context *ctx)
{
    unsigned count = 0;

    tp_list_for_each_safe(link, &ctx->waiting) {
        count += tp_comm_flush(tp_list_entry(link, struct tp_comm_peer, waiting));
    }
    return count;
}

bool
tp_comm_peers_waiting(const telpher_context *ctx, uint32_t *ret_peer)
{
    if (tp_list_is_empty(&ctx->waiting)) {
        return false;
    }
    *ret_peer = tp_list_entry(ctx->waiting.next, struct tp_comm_peer, waiting)->rank;
    return true;
}

void
tp_comm_peer_fail(struct tp_comm_peer *peer, telpher_status why)
{
    if (peer->status != TELPHER_OK) {
        return;
    }
    tp_warn("comm", "connection to rank %u closed: %s", peer->rank,
            telpher_status_text(why));
    peer->status = TELPHER_ERR_PEER_LOST;
    peer->lost_why = telpher_status_text(why);
    tp_comm_revocation_post(peer->ctx, peer->rank, TP_COMM_REVOCATION_REVOKED);
    peer->net->ops->close_peer(peer->net, peer->rank);
}

void
tp_comm_peer_lost(struct tp_comm_peer *peer, telpher_status why)
{
    telpher_context *ctx = peer->ctx;

    tp_info("comm", "rank %u %s: %s", peer->rank,
            why == TELPHER_OK ? "has left" : "is lost", telpher_status_text(why));
    peer->status = TELPHER_ERR_PEER_LOST;
    if (peer->lost_why == NULL) {
        peer->lost_why =
            why == TELPHER_OK ? "it has left the job" : telpher_status_text(why);
    }
    ctx->lost++;
    tp_comm_revocation_post(ctx, peer->rank, TP_COMM_REVOCATION_REVOKED);
    (void)tp_comm_flush(peer); /* completes the queued sends */
    tp_comm_channel_lose_peer(ctx,
                              /* first, so that callbacks do not find void offers */
                              peer);
    tp_comm_gather_lose_peer(peer);
    /* data that arrived before the peer's end counts */
    tp_comm_request_run_completed(ctx);
    tp_comm_request_lose_peer(ctx, peer);
    tp_comm_delivery_lose(peer);
    tp_comm_message_lose_peer(peer);
    tp_mems_forget(ctx->mems, peer->rank);
}

void
tp_comm_peers_close(telpher_context *ctx)
{
    for (uint32_t r = 0; ctx->peers != NULL && r < ctx->size; r++) {
        if (ctx->peers[r] != NULL) {
            ctx->peers[r]->status = TELPHER_ERR_PEER_LOST;
        }
    }
}

void
tp_comm_peers_fini(telpher_context *ctx)
{
    for (uint32_t r = 0; ctx->peers != NULL && r < ctx->size; r++) {
        if (ctx->peers[r] != NULL) {
            tp_comm_delivery_lose(ctx->peers[r]);
            tp_comm_revocation_close(ctx->peers[r]);
            tp_free(ctx->peers[r]);
        }
    }
    tp_free(ctx->peers);
}

telpher_status
telpher_peer_status(const telpher_context *ctx, uint32_t rank)
{
    const struct tp_comm_peer *peer = rank < ctx->size ? ctx->peers[rank] : NULL;
    telpher_status status = rank < ctx->size ? TELPHER_OK : TELPHER_ERR_RANGE;

    status = peer != NULL ? peer->status : status;
    return tp_comm_failed(ctx, status, rank, "state of rank %u", rank);
}

telpher_status
telpher_peer_disconnect(telpher_context *ctx, uint32_t rank)
{
    struct tp_net *net;

    if (rank >= ctx->size || rank == ctx->rank) {
        return rank == ctx->rank
                   ? tp_comm_error(ctx, TELPHER_ERR_RANGE,
                                   "rank %u cannot disconnect itself", rank)
                   : tp_comm_failed(ctx, TELPHER_ERR_RANGE, rank,
                                    "disconnecting rank %u of %u", rank, ctx->size);
    }
    if (ctx->peers[rank] != NULL) {
        tp_comm_peer_fail(ctx->peers[rank], TELPHER_ERR_CANCELED);
        return TELPHER_OK;
    }
    ctx->peers[rank] = peer_alloc(ctx, rank);
    if (ctx->peers[rank] == NULL) {
        return tp_comm_failed(ctx, TELPHER_ERR_NO_MEMORY, rank, "disconnecting rank %u",
                              rank);
    }
    note_absence(ctx->peers[rank], "it was disconnected");
    net = tp_comm_peer_choose(ctx, rank);
    if (net != NULL) {
        net->ops->close_peer(net, rank); /* the peer may have connected to this rank */
    }
    return TELPHER_OK;
}

const char *
telpher_context_transport(const telpher_context *ctx, uint32_t rank)
{
    struct tp_net *net = rank < ctx->size ? tp_comm_peer_choose(ctx, rank) : NULL;

    return net != NULL ? net->ops->name : "";
}
