/* SPDX-License-Identifier: Apache-2.0 */
/* Receives messages and data: checks them and passes them on. */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/mpi/net_int.h"

static void
break_off(struct mpi_link *link, const char *what)
{
    tp_warn(MPI_TOPIC, "connection to rank %u closed: it sent a malformed message: %s",
            link->rank, what);
    tp_mpi_end(link, TELPHER_ERR_PROTO);
}

/* ---- the ring ---- */

static telpher_status
post(struct mpi_net *n, struct mpi_receive *r)
{
    return n->calls.recv(n->calls.user, r->bytes, sizeof(r->bytes), UINT32_MAX,
                         MPI_TAG_MESSAGES, &r->op);
}

telpher_status
tp_mpi_receives_open(struct mpi_net *n)
{
    telpher_status status = TELPHER_OK;

    n->receives = tp_alloc_array(MPI_RECEIVES, sizeof(*n->receives), "mpi receives");
    if (n->receives == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    while (n->ready < MPI_RECEIVES && status == TELPHER_OK) {
        status = post(n, &n->receives[n->ready]);
        n->ready += status == TELPHER_OK;
    }
    return status;
}

void
tp_mpi_receives_close(struct mpi_net *n)
{
    bool free_now = true;

    for (uint32_t i = 0; i < n->ready; i++) {
        uint32_t at = (n->next + i) % MPI_RECEIVES;

        if (tp_mpi_cancel(n, &n->receives[at].op) == TELPHER_IN_PROGRESS) {
            free_now = false;
            n->unclean = true;
        }
    }
    if (free_now) { /* otherwise MPI may still write there: not freed */
        tp_free(n->receives);
    }
}

/* ---- messages ---- */

static bool
take_kind(struct mpi_link *link, const struct mpi_prefix *p, const uint8_t *header,
          size_t len)
{
    const struct tp_net_params *params = &link->net->params;

    switch (p->kind) {
    case MPI_MESSAGE:
        if (p->len != len || p->header_len > TP_NET_HEADER_MAX) {
            return false;
        }
        params->events->on_message(params->user, link->rank, header, p->header_len,
                                   header + p->header_len, len);
        return true;
    case MPI_CONTROL:
        if (len != 0 || p->header_len > TP_NET_CONTROL_MAX) {
            return false;
        }
        params->events->on_control(params->user, link->rank, header, p->header_len, 0);
        return true;
    case MPI_CLOSE:
        tp_mpi_end(link, p->len == 0 ? TELPHER_OK : TELPHER_ERR_PEER_LOST);
        return true;
    default:
        return false;
    }
}

static void
take(struct mpi_net *n, uint32_t from, const uint8_t *src, size_t len)
{
    struct mpi_prefix p;
    struct mpi_link *link;

    if (len < sizeof(p) || from >= n->params.size || from == n->params.rank) {
        return;
    }
    memcpy(&p, src, sizeof(p));
    link = p.job == n->params.job ? tp_mpi_link(n, from) : NULL;
    if (link == NULL || link->ending) {
        return;
    }
    if (n->leaving) {
        if (p.kind == MPI_CLOSE) {
            tp_mpi_end(link, TELPHER_OK);
        }
        return;
    }
    if (p.header_len > len - sizeof(p) ||
        !take_kind(link, &p, src + sizeof(p), len - sizeof(p) - p.header_len)) {
        break_off(link, "a message");
    }
}

static unsigned
take_messages(struct mpi_net *n)
{
    unsigned count = 0;

    while (n->ready == MPI_RECEIVES && count < MPI_RECEIVES) {
        struct mpi_receive *r = &n->receives[n->next];
        uint32_t from = UINT32_MAX;
        size_t len = 0;
        telpher_status status = n->calls.test(n->calls.user, &r->op, &from, &len);

        if (status == TELPHER_IN_PROGRESS) {
            break;
        }
        if (status == TELPHER_OK) {
            take(n, from, r->bytes, TP_MIN(len, sizeof(r->bytes)));
        } else if (status != TELPHER_ERR_TRUNCATED) { /* from another job */
            tp_mpi_end_all(n, status);
        }
        n->next = (n->next + 1) % MPI_RECEIVES;
        if (post(n, r) != TELPHER_OK) {
            n->ready--; /* all but this one */
            tp_mpi_end_all(n, TELPHER_ERR_IO);
        }
        count++;
    }
    return count;
}

/* ---- data ---- */

size_t
tp_mpi_expect_data(struct tp_net *net, uint32_t peer, uint32_t id, void *dst,
                   size_t len)
{
    struct mpi_net *n = mpi_net(net);
    struct mpi_link *link = n->links[peer];
    struct mpi_data *d;

    if (link == NULL || link->ending) {
        return 0;
    }
    d = tp_mpi_data(link, len);
    if (d == NULL) {
        tp_mpi_end(link, TELPHER_ERR_NO_MEMORY);
        return 0;
    }
    d->id = id;
    if (n->calls.recv(n->calls.user, dst, d->len, peer, id, &d->op) != TELPHER_OK) {
        tp_free(d);
        tp_mpi_end(link, TELPHER_ERR_PEER_LOST);
        return 0;
    }
    tp_list_push_back(&n->coming, &d->link);
    return d->len;
}

static bool
data_has_come(struct mpi_data *d)
{
    const struct mpi_data was = *d;
    struct mpi_net *n = d->peer->net;
    size_t len = 0;
    telpher_status status = n->calls.test(n->calls.user, &d->op, NULL, &len);

    if (status == TELPHER_IN_PROGRESS) {
        return false;
    }
    tp_list_remove(&d->link);
    tp_free(d);
    if (status != TELPHER_OK || len != was.len) {
        break_off(was.peer, "rendezvous data");
    } else {
        n->params.events->data_received(n->params.user, was.peer->rank, was.id, len);
    }
    return true;
}

unsigned
tp_mpi_progress_in(struct mpi_net *n)
{
    unsigned count = take_messages(n);

    /* callbacks append entries and remove none */
    tp_list_for_each_safe(at, &n->coming) {
        count += data_has_come(tp_list_entry(at, struct mpi_data, link));
    }
    return count;
}

/* ---- loss ---- */

void
tp_mpi_stop_coming(struct mpi_link *peer)
{
    struct mpi_net *n = peer->net;

    tp_list_for_each_entry_safe(struct mpi_data, d, &n->coming, link) {
        if (d->peer == peer) {
            tp_list_remove(&d->link);
            (void)tp_mpi_cancel(n, &d->op);
            n->unclean = true; /* its data may still arrive */
            tp_free(d);
        }
    }
}
