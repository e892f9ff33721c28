/* SPDX-License-Identifier: Apache-2.0 */
/* Sends messages and data. */
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

/* @return true if it is sent, or cannot be */
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
                          /* a peer that has left receives nothing more */
                          prefix->kind != MPI_CLOSE,
                      &slot->op);
    if (status != TELPHER_OK) {
        give_slot(slot);
        tp_mpi_end(link, TELPHER_ERR_PEER_LOST);
        return TELPHER_ERR_PEER_LOST;
    }
    tp_list_push_back(&n->sending, &slot->link);
    (void)has_left(slot); /* most sends complete at once */
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

telpher_status
tp_mpi_control(struct tp_net *net, uint32_t peer, const void *frame, size_t len,
               const void *data, size_t data_len)
{
    struct mpi_link *link = mpi_net(net)->links[peer];
    const struct mpi_prefix prefix = {.kind = MPI_CONTROL, .header_len = (uint32_t)len};
    telpher_status status;

    (void)data_len; /* is 0, because first_max is */
    if (link == NULL || link->ending) {
        return TELPHER_ERR_PEER_LOST;
    }
    status = tp_mpi_post(link, &prefix, frame, NULL, 0, false);
    return status == TELPHER_ERR_NO_MEMORY ? TELPHER_ERR_AGAIN : status;
}

/* ---- data ---- */

struct mpi_data *
tp_mpi_data(struct mpi_link *peer, size_t len)
{
    struct mpi_data *d = tp_zalloc(sizeof(*d), "mpi data");

    if (d != NULL) {
        tp_list_init(&d->link);
        d->peer = peer;
        d->len = (size_t)TP_MIN(MPI_PART, len);
    }
    return d;
}

size_t
tp_mpi_write_data(struct tp_net *net, uint32_t peer, uint32_t id, const void *src,
                  size_t len, void *arg)
{
    struct mpi_net *n = mpi_net(net);
    struct mpi_link *link = n->links[peer];
    struct mpi_data *d = link->ending ? NULL : tp_mpi_data(link, len);

    if (d == NULL) {
        return 0;
    }
    d->arg = arg;
    if (n->calls.send(n->calls.user, src, d->len, peer, id, 0, &d->op) != TELPHER_OK) {
        tp_free(d);
        tp_mpi_end(link, TELPHER_ERR_PEER_LOST);
        return 0;
    }
    tp_list_push_back(&n->going, &d->link);
    return d->len;
}

static bool
data_has_left(struct mpi_data *d)
{
    struct mpi_net *n = d->peer->net;
    telpher_status status = n->calls.test(n->calls.user, &d->op, NULL, NULL);
    size_t len = d->len;
    void *arg = d->arg;

    if (status == TELPHER_IN_PROGRESS) {
        return false;
    }
    if (status != TELPHER_OK) {
        tp_mpi_end(d->peer, TELPHER_ERR_PEER_LOST);
    }
    tp_list_remove(&d->link);
    tp_free(d);
    if (status == TELPHER_OK) {
        n->params.events->data_sent(n->params.user, arg, len);
    }
    return true;
}

/* ---- progress, loss ---- */

unsigned
tp_mpi_progress_out(struct mpi_net *n)
{
    unsigned count = 0;

    tp_list_for_each_safe(at, &n->sending) {
        count += has_left(tp_list_entry(at, struct mpi_slot, link));
    }
    /* callbacks append entries and remove none */
    tp_list_for_each_safe(data, &n->going) {
        count += data_has_left(tp_list_entry(data, struct mpi_data, link));
    }
    return count;
}

/* MPI may still use the memory of a send and cannot cancel it. But only the
 * receiver, which is gone, would make it read the memory. */
void
tp_mpi_stop_going(struct mpi_link *peer)
{
    struct mpi_net *n = peer->net;

    tp_list_for_each_entry_safe(struct mpi_data, d, &n->going, link) {
        if (d->peer == peer) {
            n->calls.forget(n->calls.user, &d->op);
            n->unclean = true;
            tp_list_remove(&d->link);
            tp_free(d);
        }
    }
}
