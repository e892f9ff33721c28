/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport mpi: the table of operations, progress, loss, leave. It cannot detect the
 * death of a peer: MPI then ends the whole job, or its behaviour is undefined.
 */
#include "transport/mpi/net.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/mpi/net_int.h"

#define LEAVE_TIME TP_CLOCK_S

/** The address of a rank: its number in the same job. */
struct mpi_address {
    uint64_t magic, job;
    uint32_t rank, unused;
};
#define MPI_ADDRESS_MAGIC UINT64_C(0x3149504d50544c54) /* "TLTPMPI1" */

/* ---- links ---- */

struct mpi_link *
tp_mpi_link(struct mpi_net *n, uint32_t rank)
{
    struct mpi_link *link = n->links[rank];

    if (link == NULL) {
        link = tp_zalloc(sizeof(*link), "mpi link");
    }
    if (link != NULL && n->links[rank] == NULL) {
        link->net = n;
        link->rank = rank;
        n->links[rank] = link;
    }
    return link;
}

void
tp_mpi_end(struct mpi_link *link, telpher_status why)
{
    if (!link->ending) {
        link->ending = true;
        link->why = why;
        link->net->ending++;
        /* its last messages may still arrive */
        link->net->unclean |= why != TELPHER_OK;
    }
}

void
tp_mpi_end_all(struct mpi_net *n, telpher_status why)
{
    for (uint32_t r = 0; r < n->params.size; r++) {
        if (n->links[r] != NULL) {
            tp_mpi_end(n->links[r], why);
        }
    }
}

telpher_status
tp_mpi_cancel(struct mpi_net *n, telpher_two_sided_op *op)
{
    tp_ns deadline = tp_clock_deadline(LEAVE_TIME);
    telpher_status status;

    n->calls.cancel(n->calls.user, op);
    do {
        status = n->calls.test(n->calls.user, op, NULL, NULL);
    } while (status == TELPHER_IN_PROGRESS && !tp_clock_passed(deadline));
    return status;
}

static void
finish(struct mpi_link *link)
{
    const struct tp_net_params *params = &link->net->params;
    const struct mpi_prefix closing = {.kind = MPI_CLOSE,
                                       .len = link->why != TELPHER_OK};

    if (link->why == TELPHER_OK || link->why == TELPHER_ERR_PROTO) {
        (void)tp_mpi_post(link, &closing, NULL, NULL, 0,
                          true); /* a peer that has left waits for our MPI_CLOSE */
    }
    link->gone = true;
    tp_mpi_stop_going(link);
    tp_mpi_stop_coming(link);
    tp_debug(MPI_TOPIC, "rank %u %s", link->rank,
             link->why == TELPHER_OK ? "has left" : "is lost");
    params->events->on_lost(params->user, link->rank, link->why);
}

static unsigned
bury(struct mpi_net *n)
{
    unsigned count = 0;

    for (uint32_t r = 0; n->ending != 0 && r < n->params.size; r++) {
        struct mpi_link *link = n->links[r];

        if (link != NULL && link->ending && !link->gone) {
            finish(link);
            n->ending--;
            count++;
        }
    }
    return count;
}

/* ---- create, leave ---- */

/* MPI may still read these buffers if a receive is posted later: they are not freed. */
static void
forget_sending(struct mpi_net *n)
{
    struct tp_list *at;

    while ((at = tp_list_pop_front(&n->sending)) != NULL) {
        n->calls.forget(n->calls.user, &tp_list_entry(at, struct mpi_slot, link)->op);
        n->unclean = true;
    }
}

static void
free_slots(struct tp_list *slots)
{
    struct tp_list *at;

    while ((at = tp_list_pop_front(slots)) != NULL) {
        tp_free(tp_list_entry(at, struct mpi_slot, link));
    }
}

static void
net_free(struct mpi_net *n)
{
    for (uint32_t r = 0; n->links != NULL && r < n->params.size; r++) {
        if (n->links[r] != NULL) {
            tp_mpi_stop_going(n->links[r]);
            tp_mpi_stop_coming(n->links[r]);
            tp_free(n->links[r]);
        }
    }
    if (n->receives != NULL) {
        tp_mpi_receives_close(n);
    }
    forget_sending(n);
    free_slots(&n->idle);
    n->calls.release(n->calls.user, !n->unclean);
    tp_free(n->links);
    tp_free(n);
}

static telpher_status
net_create(const struct tp_net_params *params, struct tp_net **ret_net,
           struct tp_error *err)
{
    struct mpi_net *n;
    telpher_status status;

    if (params->two_sided == NULL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "transport mpi: the context must be made from an MPI "
                            "communicator, by telpher_context_create_mpi()");
    }
    n = tp_zalloc(sizeof(*n), "mpi net");
    if (n == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    n->base = (struct tp_net){.ops = &tp_mpi_net,
                              .eager_max = MPI_EAGER,
                              .rndv_min = MPI_EAGER,
                              .id_max = params->two_sided->tag_max,
                              .reads = true};
    n->params = *params;
    n->calls = *params->two_sided;
    n->calls.retain(n->calls.user);
    tp_list_init(&n->sending);
    tp_list_init(&n->idle);
    tp_list_init(&n->going);
    tp_list_init(&n->coming);
    n->links = tp_alloc_array(params->size, sizeof(struct mpi_link *), "mpi links");
    status = n->links != NULL ? tp_mpi_receives_open(n) : TELPHER_ERR_NO_MEMORY;
    if (status != TELPHER_OK) {
        net_free(n);
        return status;
    }
    *ret_net = &n->base;
    return TELPHER_OK;
}

/* True if all connected peers have sent MPI_CLOSE, too. */
static bool
all_left(const struct mpi_net *n)
{
    for (uint32_t r = 0; r < n->params.size; r++) {
        if (n->links[r] != NULL && !n->links[r]->ending) {
            return false;
        }
    }
    return true;
}

/*
 * A message left in MPI when its communicator is freed could be received on a later
 * communicator with the same id. So this rank waits for all MPI_CLOSE, and does not free
 * the communicator without them.
 */
static void
net_destroy(struct tp_net *net)
{
    struct mpi_net *n = mpi_net(net);
    const struct mpi_prefix closing = {.kind = MPI_CLOSE};
    tp_ns deadline = tp_clock_deadline(LEAVE_TIME);

    n->leaving = true;
    for (uint32_t r = 0; r < n->params.size; r++) {
        if (n->links[r] != NULL) {
            (void)tp_mpi_post(n->links[r], &closing, NULL, NULL, 0, true);
            tp_mpi_stop_going(n->links[r]);
            tp_mpi_stop_coming(n->links[r]);
        }
    }
    while ((!all_left(n) || !tp_list_is_empty(&n->sending)) &&
           !tp_clock_passed(deadline)) {
        (void)tp_mpi_progress_in(n);
        (void)tp_mpi_progress_out(n);
    }
    n->unclean = n->unclean || !all_left(n);
    net_free(n);
}

/* ---- the rest of the table ---- */

static size_t
net_address(struct tp_net *net, uint8_t *dst)
{
    const struct mpi_net *n = mpi_net(net);
    const struct mpi_address address = {
        .magic = MPI_ADDRESS_MAGIC, .job = n->params.job, .rank = n->params.rank};

    memcpy(dst, &address, sizeof(address));
    return sizeof(address);
}

static bool
read_address(const struct mpi_net *n, const uint8_t *src, size_t len,
             struct mpi_address *ret_address)
{
    if (len != sizeof(*ret_address)) {
        return false;
    }
    memcpy(ret_address, src, sizeof(*ret_address));
    return ret_address->magic == MPI_ADDRESS_MAGIC &&
           ret_address->job == n->params.job && ret_address->rank < n->params.size &&
           ret_address->rank != n->params.rank;
}

static bool
net_reaches(struct tp_net *net, const uint8_t *src, size_t len)
{
    struct mpi_address address;

    return read_address(mpi_net(net), src, len, &address);
}

static telpher_status
net_connect(struct tp_net *net, uint32_t peer, const uint8_t *src, size_t len)
{
    struct mpi_net *n = mpi_net(net);
    struct mpi_link *link;
    struct mpi_address address;

    if (!read_address(n, src, len, &address) || address.rank != peer) {
        return TELPHER_ERR_INVALID;
    }
    link = tp_mpi_link(n, peer);
    if (link == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    return link->gone ? TELPHER_ERR_UNREACHABLE : TELPHER_OK;
}

static void
net_close_peer(struct tp_net *net, uint32_t peer)
{
    struct mpi_link *link = mpi_net(net)->links[peer];

    if (link != NULL) {
        tp_mpi_end(link, TELPHER_ERR_PROTO);
    }
}

static unsigned
net_progress(struct tp_net *net)
{
    struct mpi_net *n = mpi_net(net);
    unsigned count = tp_mpi_progress_in(n) + tp_mpi_progress_out(n);

    return tp_unlikely(n->ending != 0) ? count + bury(n) : count;
}

static telpher_status
net_arm(struct tp_net *net)
{
    return mpi_net(net)->ending == 0 ? TELPHER_OK : TELPHER_ERR_AGAIN;
}

static int
net_fd(struct tp_net *net)
{
    return -1; /* MPI has none */
}

static bool
net_busy(struct tp_net *net, uint32_t *ret_peer)
{
    const struct mpi_net *n = mpi_net(net);

    if (!tp_list_is_empty(&n->sending)) {
        *ret_peer = tp_list_entry(n->sending.next, struct mpi_slot, link)->to->rank;
    }
    return !tp_list_is_empty(&n->sending) || !tp_list_is_empty(&n->going) ||
           !tp_list_is_empty(&n->coming);
}

const struct tp_net_ops tp_mpi_net = {
    .name = "mpi",
    .only_if_named = true, /* sockets are better if they reach the other ranks */
    .blind = true,
    .create = net_create,
    .address = net_address,
    .reaches = net_reaches,
    .connect = net_connect,
    .send = tp_mpi_send,
    .control = tp_mpi_control,
    .write_data = tp_mpi_write_data,
    .expect_data = tp_mpi_expect_data,
    .close_peer = net_close_peer,
    .progress = net_progress,
    .arm = net_arm,
    .fd = net_fd,
    .busy = net_busy,
    .destroy = net_destroy,
};
