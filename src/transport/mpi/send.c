/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and bulks out. */
#include <string.h>

#include "base/alloc.h"
#include "transport/mpi/net_int.h"

/* ---- messages ---- */

static struct mpi_slot *
take_slot(struct mpi_link *link)
{
    struct tp_list *idle = tp_list_pop_front(&link->net->idle);
    struct mpi_slot *slot = idle != NULL ? tp_list_entry(idle, struct mpi_slot, link)
                                         : tp_malloc(sizeof(*slot), "mpi slot");

    if (slot != NULL) {
        tp_list_init(&slot->link);
        slot->to = link;
        link->slots++;
    }
    return slot;
}

static void
give_slot(struct mpi_slot *slot)
{
    slot->to->slots--;
    tp_list_push_front(&slot->to->net->idle, &slot->link);
}

static size_t
write_message(const struct mpi_net *n, uint8_t *dst, const struct mpi_prefix *prefix,
              const void *header, const void *data, size_t len)
{
    struct mpi_prefix own = *prefix;

    own.job = n->params.job;
    memcpy(dst, &own, sizeof(own));
    if (own.header_len != 0) {
        memcpy(dst + sizeof(own), header, own.header_len);
    }
    if (len != 0) {
        memcpy(dst + sizeof(own) + own.header_len, data, len);
    }
    return sizeof(own) + own.header_len + len;
}

/* @return true if it has left, or cannot */
static bool
has_left(struct mpi_slot *slot)
{
    const telpher_two_sided *calls = &slot->to->net->calls;
    telpher_status status = calls->test(calls->user, &slot->op, NULL, NULL);

    if (status == TELPHER_IN_PROGRESS) {
        return false;
    }
    if (status != TELPHER_OK) {
        tp_mpi_end(slot->to, TELPHER_ERR_PEER_LOST);
    }
    tp_list_remove(&slot->link);
    give_slot(slot);
    return true;
}

telpher_status
tp_mpi_post(struct mpi_link *link, const struct mpi_prefix *prefix, const void *header,
            const void *data, size_t len, bool must)
{
    struct mpi_net *n = link->net;
    struct mpi_slot *slot;
    telpher_status status;
    size_t bytes;

    if (link->gone) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (link->slots >= MPI_SLOTS && !must) {
        return TELPHER_ERR_AGAIN;
    }
    slot = take_slot(link);
    if (slot == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    bytes = write_message(n, slot->bytes, prefix, header, data, len);
    status =
        n->calls.send(n->calls.user, slot->bytes, bytes, link->rank, MPI_TAG_MESSAGES,
                      ++link->sent % MPI_MATCHED_EVERY == 0 &&
                          prefix->kind != MPI_BYE, /* who left takes no more */
                      &slot->op);
    if (status != TELPHER_OK) {
        give_slot(slot);
        tp_mpi_end(link, TELPHER_ERR_PEER_LOST);
        return TELPHER_ERR_PEER_LOST;
    }
    tp_list_push_back(&n->sending, &slot->link);
    (void)has_left(slot); /* most have */
    return TELPHER_OK;
}

telpher_status
tp_mpi_send(struct tp_net *net, uint32_t peer, const void *header, size_t header_len,
            const void *data, size_t len)
{
    struct mpi_link *link = mpi_net(net)->links[peer];
    const struct mpi_prefix prefix = {
        .kind = MPI_MESSAGE, .header_len = (uint32_t)header_len, .len = len};
    telpher_status status;

    if (link->ending) {
        return TELPHER_ERR_PEER_LOST;
    }
    status = tp_mpi_post(link, &prefix, header, data, len, false);
    return status == TELPHER_ERR_NO_MEMORY ? TELPHER_ERR_AGAIN : status;
}

/* ---- bulks ---- */

static uint32_t
next_id(struct mpi_link *link)
{
    uint32_t max = link->net->calls.tag_max;

    do {
        link->next_id = link->next_id >= max ? 1 : link->next_id + 1;
    } while (tp_map_get(&link->outs, link->next_id) != NULL);
    return link->next_id;
}

telpher_status
tp_mpi_send_bulk(struct tp_net *net, uint32_t peer, const void *header,
                 size_t header_len, const void *src, size_t len, struct tp_net_op *op)
{
    struct mpi_net *n = mpi_net(net);
    struct mpi_link *link = n->links[peer];
    struct mpi_prefix prefix = {
        .kind = MPI_BULK, .header_len = (uint32_t)header_len, .len = len};
    struct mpi_out *out;
    telpher_status status;

    if (link->ending) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (tp_map_count(&link->outs) >= n->calls.tag_max) {
        return TELPHER_ERR_AGAIN; /* every tag has one */
    }
    out = tp_zalloc(sizeof(*out), "mpi bulk out");
    if (out == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    prefix.id = next_id(link);
    tp_list_init(&out->link);
    out->to = link;
    out->id = prefix.id;
    out->src = src;
    out->len = len;
    out->told = op;
    status = tp_map_put(&link->outs, out->id, out);
    if (status == TELPHER_OK) {
        status = tp_mpi_post(link, &prefix, header, NULL, 0, false);
    }
    if (status != TELPHER_OK) {
        tp_map_remove(&link->outs, out->id);
        tp_free(out);
    }
    return status;
}

static void
send_part(struct mpi_out *out)
{
    const telpher_two_sided *calls = &out->to->net->calls;
    size_t len = (size_t)TP_MIN(MPI_PART, out->len - out->done);

    if (calls->send(calls->user, out->src + out->done, len, out->to->rank, out->id, 0,
                    &out->op) == TELPHER_OK) {
        tp_list_push_back(&out->to->net->going, &out->link);
    } else {
        tp_mpi_end(out->to, TELPHER_ERR_PEER_LOST); /* which tells the op */
    }
}

bool
tp_mpi_go(struct mpi_link *link, uint32_t id, uint64_t len)
{
    struct mpi_out *out = tp_map_get(&link->outs, id);

    if (out == NULL || tp_list_is_linked(&out->link) || len == 0 || len > out->len) {
        return false;
    }
    out->len = len;
    send_part(out);
    return true;
}

static void
tell_out(struct mpi_out *out, telpher_status status)
{
    struct tp_net_op *op = out->told;

    tp_map_remove(&out->to->outs, out->id);
    tp_free(out);
    op->done(op, status);
}

bool
tp_mpi_dropped(struct mpi_link *link, uint32_t id)
{
    struct mpi_out *out = tp_map_get(&link->outs, id);

    if (out == NULL || tp_list_is_linked(&out->link)) {
        return false;
    }
    tell_out(out, TELPHER_ERR_CANCELED);
    return true;
}

static bool
part_has_left(struct mpi_out *out)
{
    const telpher_two_sided *calls = &out->to->net->calls;
    telpher_status status = calls->test(calls->user, &out->op, NULL, NULL);

    if (status == TELPHER_IN_PROGRESS) {
        return false;
    }
    tp_list_remove(&out->link);
    out->done += TP_MIN(MPI_PART, out->len - out->done);
    if (status != TELPHER_OK) {
        tp_mpi_end(out->to, TELPHER_ERR_PEER_LOST); /* which tells the op */
    } else if (out->done < out->len) {
        send_part(out);
    } else {
        tell_out(out, TELPHER_OK);
    }
    return true;
}

/* ---- progress, losing ---- */

unsigned
tp_mpi_progress_out(struct mpi_net *n)
{
    unsigned count = 0;

    tp_list_for_each_safe(at, &n->sending)
    {
        count += has_left(tp_list_entry(at, struct mpi_slot, link));
    }
    /* callbacks put more behind the last, and take none away */
    tp_list_for_each_safe(bulk, &n->going)
    {
        count += part_has_left(tp_list_entry(bulk, struct mpi_out, link));
    }
    return count;
}

/* The other library may still have the memory of what it was given, and cannot be told to
 * let go of it; but the receiver, who is gone, is the only one who would make it look. */
void
tp_mpi_lose_outs(struct mpi_link *link, bool tell)
{
    const telpher_two_sided *calls = &link->net->calls;
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&link->outs, &cursor, NULL, &value)) {
        struct mpi_out *out = value;
        struct tp_net_op *op = out->told;

        if (tp_list_is_linked(&out->link)) {
            tp_list_remove(&out->link);
            calls->forget(calls->user, &out->op);
            link->net->unclean = true;
        }
        tp_free(out);
        if (tell) {
            op->done(op, TELPHER_ERR_PEER_LOST);
        }
    }
    tp_map_fini(&link->outs);
    tp_map_init(&link->outs);
}
