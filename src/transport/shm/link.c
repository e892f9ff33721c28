/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to peers: connect, accept, lose. */
#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/shm/net_int.h"

/* ---- connect ---- */

static telpher_status
make_link(struct shm_net *n, const struct tp_shm_address *address,
          struct shm_link **ret_link)
{
    struct shm_link *link = tp_alloc_aligned(TP_SHM_LINE, sizeof(*link), "shm link");
    telpher_status status;

    if (link == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    *link = (struct shm_link){.net = n,
                              .rank = address->rank,
                              .address = *address,
                              .fenced = n->address.fences && address->fences,
                              .pid_fd = -1,
                              .wakeup = -1};
    link->out.fd = -1;
    status = tp_shm_open_peer(link);
    if (status != TELPHER_OK) {
        tp_shm_close_peer(link);
        tp_free(link);
        return status;
    }
    n->links[address->rank] = link;
    n->active[n->active_count++] = link;
    *ret_link = link;
    return TELPHER_OK;
}

void
tp_shm_free_link(struct shm_link *link)
{
    tp_shm_close_peer(link);
    tp_free(link);
}

static struct tp_shm_slot *
our_slot(struct shm_link *link)
{
    return tp_shm_listener_slot(link->listener, link->address.size,
                                link->net->params.rank);
}

static telpher_status
request_connection(struct shm_link *link)
{
    uint32_t rank = link->net->params.rank;
    struct tp_shm_slot *place = our_slot(link);
    telpher_status status = tp_memfd_describe(link->out.fd, &place->ring);

    if (status != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    place->address = link->net->address;
    atomic_store_explicit(&place->state, TP_SHM_REQUESTED, memory_order_release);
    atomic_fetch_or(&link->listener->words[rank / 64], UINT64_C(1) << rank % 64);
    atomic_fetch_add(&link->listener->requests, 1);
    tp_shm_wake(link);
    return TELPHER_OK;
}

telpher_status
tp_shm_connect(struct shm_net *n, const struct tp_shm_address *address)
{
    struct shm_link *link = n->links[address->rank];
    telpher_status status = TELPHER_OK;

    if (link == NULL) {
        status = make_link(n, address, &link);
    } else if (memcmp(&link->address, address, sizeof(*address)) != 0) {
        status = TELPHER_ERR_INVALID;
    }
    if (status == TELPHER_OK && link->gone) {
        status = TELPHER_ERR_UNREACHABLE;
    }
    if (status != TELPHER_OK || link->out.ring != NULL) {
        return status;
    }
    status = tp_shm_make_ring(link);
    if (status == TELPHER_OK) {
        status = request_connection(link);
    }
    if (status != TELPHER_OK) { /* so that the caller may retry */
        tp_shm_drop_ring(link);
    }
    return status;
}

/* ---- accept ---- */

static telpher_status
accept_connection(struct shm_net *n, uint32_t rank, struct tp_shm_slot *place)
{
    struct tp_shm_address address;
    struct tp_memfd_name ring = place->ring;
    struct shm_link *link = n->links[rank];
    telpher_status status = TELPHER_OK;

    tp_shm_copied();
    if (!tp_shm_address_check((const uint8_t *)&place->address, sizeof(place->address),
                              n->params.job, n->params.size, &address) ||
        address.rank != rank || !tp_shm_is_near(n, &address)) {
        return TELPHER_ERR_PROTO;
    }
    if (link == NULL) {
        status = make_link(n, &address, &link);
    } else if (link->gone || link->in != NULL ||
               memcmp(&link->address, &address, sizeof(address)) != 0) {
        status = TELPHER_ERR_REFUSED;
    }
    return status == TELPHER_OK ? tp_shm_map_ring(link, &ring) : status;
}

static void
answer_request(struct shm_net *n, uint32_t rank)
{
    struct tp_shm_slot *place = tp_shm_listener_slot(n->listener, n->params.size, rank);
    telpher_status status;

    if (rank >= n->params.size || atomic_load(&place->state) != TP_SHM_REQUESTED) {
        return;
    }
    status = accept_connection(n, rank, place);
    if (status != TELPHER_OK) {
        tp_warn(SHM_TOPIC, "rejected connection from rank %u: %s", rank,
                telpher_status_text(status));
    }
    atomic_store(&place->state,
                 status == TELPHER_OK ? TP_SHM_ACCEPTED : TP_SHM_REFUSED);
    if (n->links[rank] != NULL && !n->links[rank]->gone) {
        tp_shm_wake(n->links[rank]);
    }
}

unsigned
tp_shm_accept(struct shm_net *n)
{
    uint32_t requests =
        atomic_load_explicit(&n->listener->requests, memory_order_acquire);
    unsigned count = 0;

    if (tp_likely(requests == n->requests)) {
        return 0;
    }
    n->requests = requests;
    for (size_t w = 0; w * 64 < n->params.size; w++) {
        uint64_t bits = atomic_exchange(&n->listener->words[w], 0);

        for (; bits != 0; bits &= bits - 1) {
            answer_request(n, (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits));
            count++;
        }
    }
    return count;
}

unsigned
tp_shm_check_slot(struct shm_link *link)
{
    uint32_t state = atomic_load_explicit(&our_slot(link)->state, memory_order_acquire);

    if (state == TP_SHM_ACCEPTED) {
        close(link->out.fd);
        link->out.fd = -1;
        return 1;
    }
    if (state == TP_SHM_REFUSED && !link->ending) {
        tp_shm_cut(link, TELPHER_ERR_REFUSED);
        return 1;
    }
    return 0;
}

/* ---- wake-up ---- */

void
tp_shm_write_wakeup(struct shm_link *link)
{
    static const uint8_t ding = 1;

    /* A full pipe wakes the peer as well. */
    if (atomic_exchange(&link->listener->sleeping, 0) != 0 &&
        write(link->wakeup, &ding, 1) < 0 && errno != EAGAIN) {
        tp_debug(SHM_TOPIC, "rank %u cannot be woken: %m", link->rank);
    }
}

/* ---- loss ---- */

void
tp_shm_end(struct shm_link *link, telpher_status why)
{
    if (!link->ending) {
        link->ending = true;
        link->why = why;
        link->net->ending_count++;
    }
}

/* The peer may have left since the last check of its listener. */
void
tp_shm_end_process(struct shm_link *link)
{
    tp_shm_end(link, atomic_load(&link->listener->left) != 0 ? TELPHER_OK
                                                             : TELPHER_ERR_PEER_LOST);
}

/* Marks both rings, because the peer may have mapped only one. */
void
tp_shm_cut(struct shm_link *link, telpher_status why)
{
    tp_shm_end(link, why);
    link->deaf = true;
    if (link->in != NULL) {
        atomic_store(&link->in->closed, 1);
    }
    if (link->out.ring != NULL) {
        atomic_store(&link->out.ring->closed, 1);
    }
}

static void
remove_active(struct shm_link *link)
{
    struct shm_net *n = link->net;

    for (uint32_t i = 0; i < n->active_count; i++) {
        if (n->active[i] == link) {
            n->active[i] = n->active[--n->active_count];
            return;
        }
    }
}

static void
finish(struct shm_link *link)
{
    struct shm_net *n = link->net;

    link->gone = true;
    n->ending_count--;
    remove_active(link);
    tp_debug(SHM_TOPIC, "rank %u %s", link->rank,
             link->why == TELPHER_OK ? "has left" : "is lost");
    n->params.events->on_lost(n->params.user, link->rank, link->why);
    if (link->deaf) {
        tp_shm_wake(link);
    }
    tp_shm_close_peer(link);
}

unsigned
tp_shm_bury(struct shm_net *n)
{
    unsigned count = 0;

    for (uint32_t i = 0; n->ending_count != 0 && i < n->active_count;) {
        struct shm_link *link = n->active[i];

        if (link->ending && (link->deaf || !tp_shm_has_cell(link))) {
            finish(link); /* another link moves to this index */
            count++;
        } else {
            i++;
        }
    }
    return count;
}
