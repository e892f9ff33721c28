/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and bulks in: checked, told. */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/mpi/net_int.h"

static void
break_off(struct mpi_link *link, const char *what)
{
    tp_warn(MPI_TOPIC, "rank %u sent nonsense: %s", link->rank, what);
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
    if (free_now) { /* else the other library may yet write there: leave it */
        tp_free(n->receives);
    }
}

/* ---- messages ---- */

static void
take_announced(struct mpi_link *link, const struct mpi_prefix *p, const void *header)
{
    const struct tp_net_params *params = &link->net->params;
    struct tp_net_bulk *bulk;

    if (p->len == 0 || p->len > SIZE_MAX || p->id == MPI_TAG_MESSAGES ||
        p->id > link->net->calls.tag_max || tp_map_get(&link->bulks, p->id) != NULL) {
        break_off(link, "an announcement");
        return;
    }
    bulk = tp_zalloc(sizeof(*bulk), "mpi bulk in");
    if (bulk == NULL || tp_map_put(&link->bulks, p->id, bulk) != TELPHER_OK) {
        tp_free(bulk);
        tp_mpi_end(link, TELPHER_ERR_NO_MEMORY);
        return;
    }
    tp_list_init(&bulk->link);
    bulk->from = link;
    bulk->id = p->id;
    bulk->len = p->len;
    params->events->on_bulk(params->user, link->rank, header, p->header_len, p->len,
                            bulk);
}

static bool
take_kind(struct mpi_link *link, const struct mpi_prefix *p, const uint8_t *header,
          size_t len)
{
    const struct tp_net_params *params = &link->net->params;

    switch (p->kind) {
    case MPI_MESSAGE:
        if (p->len == len) {
            params->events->on_message(params->user, link->rank, header, p->header_len,
                                       header + p->header_len, len);
        }
        return p->len == len;
    case MPI_BULK:
        take_announced(link, p, header);
        return len == 0;
    case MPI_GO:
        return tp_mpi_go(link, p->id, p->len);
    case MPI_DROP:
        return tp_mpi_dropped(link, p->id);
    case MPI_BYE:
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
        if (p.kind == MPI_BYE) {
            tp_mpi_end(link, TELPHER_OK);
        }
        return;
    }
    if (p.header_len > TP_NET_HEADER_MAX || p.header_len > len - sizeof(p) ||
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
        } else if (status != TELPHER_ERR_TRUNCATED) { /* that is a stranger's */
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

/* ---- bulks ---- */

static void
receive_part(struct tp_net_bulk *bulk)
{
    const telpher_two_sided *calls = &bulk->from->net->calls;
    size_t len = (size_t)TP_MIN(MPI_PART, bulk->len - bulk->done);

    if (calls->recv(calls->user, bulk->dst + bulk->done, len, bulk->from->rank,
                    bulk->id, &bulk->op) == TELPHER_OK) {
        tp_list_push_back(&bulk->from->net->coming, &bulk->link);
    } else {
        tp_mpi_end(bulk->from, TELPHER_ERR_PEER_LOST); /* which tells the op */
    }
}

static void
answer(struct tp_net_bulk *bulk, enum mpi_kind kind, uint64_t len)
{
    const struct mpi_prefix prefix = {.kind = kind, .id = bulk->id, .len = len};

    if (tp_mpi_post(bulk->from, &prefix, NULL, NULL, 0, true) != TELPHER_OK) {
        tp_mpi_end(bulk->from, TELPHER_ERR_PEER_LOST);
    }
}

void
tp_mpi_recv_bulk(struct tp_net *net, struct tp_net_bulk *bulk, void *dst, size_t len,
                 struct tp_net_op *op)
{
    (void)net;
    bulk->dst = dst;
    bulk->len = len;
    bulk->told = op;
    if (!bulk->from->ending) { /* else the link's end tells it */
        receive_part(bulk);
        answer(bulk, MPI_GO, len);
    }
}

void
tp_mpi_drop_bulk(struct tp_net *net, struct tp_net_bulk *bulk)
{
    struct mpi_link *link = bulk->from;

    (void)net;
    if (link->gone) {
        return; /* void, and freed with the link's */
    }
    answer(bulk, MPI_DROP, 0);
    tp_map_remove(&link->bulks, bulk->id);
    tp_free(bulk);
}

static bool
part_has_come(struct tp_net_bulk *bulk)
{
    struct mpi_link *link = bulk->from;
    const telpher_two_sided *calls = &link->net->calls;
    struct tp_net_op *op = bulk->told;
    uint64_t want = TP_MIN(MPI_PART, bulk->len - bulk->done);
    size_t len = 0;
    telpher_status status = calls->test(calls->user, &bulk->op, NULL, &len);

    if (status == TELPHER_IN_PROGRESS) {
        return false;
    }
    tp_list_remove(&bulk->link);
    bulk->done += want;
    if (status != TELPHER_OK || len != want) {
        break_off(link, "bulk data"); /* which tells the op */
    } else if (bulk->done < bulk->len) {
        receive_part(bulk);
    } else {
        tp_map_remove(&link->bulks, bulk->id);
        tp_free(bulk);
        op->done(op, TELPHER_OK);
    }
    return true;
}

unsigned
tp_mpi_progress_in(struct mpi_net *n)
{
    unsigned count = take_messages(n);

    /* callbacks put more behind the last, and take none away */
    tp_list_for_each_safe(at, &n->coming)
    {
        count += part_has_come(tp_list_entry(at, struct tp_net_bulk, link));
    }
    return count;
}

/* ---- losing ---- */

void
tp_mpi_lose_bulks(struct mpi_link *link, bool tell)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&link->bulks, &cursor, NULL, &value)) {
        struct tp_net_bulk *bulk = value;
        struct tp_net_op *op = bulk->told;

        if (tp_list_is_linked(&bulk->link)) {
            tp_list_remove(&bulk->link);
            (void)tp_mpi_cancel(link->net, &bulk->op);
            link->net->unclean = true; /* its data may yet come */
        }
        bulk->told = NULL;
        if (tell && op != NULL) {
            op->done(op, TELPHER_ERR_PEER_LOST);
            cursor = 0; /* it may have taken another one */
        }
    }
}

void
tp_mpi_forget_bulks(struct mpi_link *link)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&link->bulks, &cursor, NULL, &value)) {
        tp_free(value);
    }
    tp_map_fini(&link->bulks);
    tp_map_init(&link->bulks);
}
