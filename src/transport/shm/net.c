/* SPDX-License-Identifier: Apache-2.0 */
/* Transport shm: the table of operations, progress, and sleep. */
#include "transport/shm/net.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/trace/log.h"
#include "transport/shm/net_int.h"

enum {
    LOOK_EVERY = 64, /* rounds of progress between checks of rarely changing state */
    RNDV_MIN = 64 << 10, /* [bytes]; docs/lab/measurements.md */
    EVENTS = 32,
};

/* ---- create ---- */

static void
net_free(struct shm_net *n)
{
    if (n->listener != NULL) {
        (void)munmap(n->listener, tp_shm_listener_bytes(n->params.size));
    }
    for (int *fd = (int[]){n->listener_fd, n->wakeup[0], n->wakeup[1], n->epoll_fd, -2};
         *fd != -2; fd++) {
        tp_descriptor_close(*fd);
    }
    tp_free(n->links);
    tp_free(n->active);
    tp_free(n);
}

static telpher_status
shm_create(const struct tp_net_params *params, struct tp_net **ret_net,
           struct tp_error *err)
{
    struct shm_net *n = tp_zalloc(sizeof(*n), "shm net");
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (n == NULL) {
        return status;
    }
    n->base = (struct tp_net){
        .ops = &tp_shm_net, .eager_max = TP_SHM_EAGER, .rndv_min = RNDV_MIN};
    n->params = *params;
    n->params.lost_after = params->lost_after != 0 ? params->lost_after : TP_CLOCK_S;
    n->listener_fd = n->wakeup[0] = n->wakeup[1] = n->epoll_fd = -1;
    n->may_get = !params->copies;
    n->links = tp_alloc_array(params->size, sizeof(struct shm_link *), "shm links");
    n->active = tp_alloc_array(params->size, sizeof(struct shm_link *), "shm active");
    if (n->links != NULL && n->active != NULL) {
        status = tp_shm_describe(n, err);
    }
    if (status == TELPHER_OK) {
        status = tp_shm_make_listener(n, err);
    }
    if (status != TELPHER_OK) {
        net_free(n);
        return status;
    }
    *ret_net = &n->base;
    return TELPHER_OK;
}

static size_t
shm_address(struct tp_net *net, uint8_t *dst)
{
    _Static_assert(sizeof(struct tp_shm_address) <= TP_NET_ADDRESS_MAX, "fits");
    memcpy(dst, &shm_net(net)->address, sizeof(struct tp_shm_address));
    return sizeof(struct tp_shm_address);
}

static bool
check_address(struct shm_net *n, const uint8_t *src, size_t len,
              struct tp_shm_address *ret)
{
    return tp_shm_address_check(src, len, n->params.job, n->params.size, ret) &&
           tp_shm_is_near(n, ret);
}

static bool
shm_reaches(struct tp_net *net, const uint8_t *address, size_t len)
{
    struct tp_shm_address checked;

    return check_address(shm_net(net), address, len, &checked);
}

static telpher_status
shm_connect(struct tp_net *net, uint32_t peer, const uint8_t *address, size_t len)
{
    struct tp_shm_address checked;

    return check_address(shm_net(net), address, len, &checked) && checked.rank == peer
               ? tp_shm_connect(shm_net(net), &checked)
               : TELPHER_ERR_INVALID;
}

static void
shm_close_peer(struct tp_net *net, uint32_t peer)
{
    struct shm_link *link = shm_net(net)->links[peer];

    if (link != NULL && !link->gone) {
        tp_shm_cut(link, TELPHER_ERR_PROTO);
    }
}

/* ---- checks for lost peers ---- */

static bool
is_closed(const struct shm_link *link)
{
    return (link->in != NULL && atomic_load(&link->in->closed) != 0) ||
           (link->out.ring != NULL && atomic_load(&link->out.ring->closed) != 0);
}

bool
tp_shm_check_listener(struct shm_link *link)
{
    if (!link->ending && is_closed(link)) {
        tp_shm_cut(link, TELPHER_ERR_PEER_LOST);
    } else if (!link->ending && atomic_load(&link->listener->left) != 0) {
        tp_shm_end(link, TELPHER_OK);
    }
    return link->ending;
}

/* Reads the peer's last cells before reporting its end. */
static unsigned
check_listeners(struct shm_net *n)
{
    uint32_t before = n->ending_count;

    for (uint32_t i = 0; i < n->active_count; i++) {
        (void)tp_shm_check_listener(n->active[i]);
    }
    return n->ending_count - before;
}

/* Ends links whose process exited or called exec. */
static void
look_at_processes(struct shm_net *n)
{
    struct epoll_event events[EVENTS];
    int got = epoll_wait(n->epoll_fd, events, EVENTS, 0);

    for (int i = 0; i < got; i++) {
        uint32_t rank = events[i].data.u32;

        if (rank != SHM_NONE) {
            tp_shm_end_process(n->links[rank]);
        }
    }
    for (uint32_t i = 0; i < n->active_count; i++) {
        if (!n->active[i]->ending && tp_shm_has_forgotten(n->active[i])) {
            tp_shm_end_process(n->active[i]);
        }
    }
    n->looked_at = tp_clock_ns();
    n->look_at = n->looked_at + n->params.lost_after / 4;
}

static unsigned
look(struct shm_net *n)
{
    unsigned count = check_listeners(n);

    if (tp_clock_ns() >= n->look_at) {
        look_at_processes(n);
    }
    return count;
}

/* ---- sleep ---- */

static void
disarm(struct shm_net *n)
{
    n->armed = false;
    atomic_store(&n->listener->sleeping, 0);
}

static void
wake_up(struct shm_net *n)
{
    uint8_t dings[64];

    disarm(n);
    while (read(n->wakeup[0], dings, sizeof(dings)) == sizeof(dings)) {
        /* several wake-ups in the pipe count as one */
    }
    n->look_at = 0;
    n->rounds = 0;
}

static bool
link_has_work(struct shm_link *link)
{
    return tp_shm_has_cell(link) || link->ending ||
           (link->out.fd >= 0 && tp_shm_check_slot(link) != 0) ||
           (link->out.starved && tp_shm_has_room(link)) || is_closed(link) ||
           atomic_load(&link->listener->left) != 0;
}

static bool
has_work(struct shm_net *n)
{
    if (atomic_load(&n->listener->requests) != n->requests) {
        return true;
    }
    for (uint32_t i = 0; i < n->active_count; i++) {
        if (link_has_work(n->active[i])) {
            n->active[i]->out.starved = false; /* reported once */
            return true;
        }
    }
    return false;
}

/* After it, peers that have not seen this rank armed have stored what it reads next. */
static bool
fence(const struct shm_net *n)
{
    if (n->address.fences) {
        return tp_process_fence_all();
    }
    atomic_thread_fence(memory_order_seq_cst);
    return true;
}

static telpher_status
shm_arm(struct tp_net *net)
{
    struct shm_net *n = shm_net(net);

    for (uint32_t i = 0; i < n->active_count; i++) {
        tp_shm_publish_tail(n->active[i]);
        if (n->active[i]->out.starved) {
            atomic_store(&n->active[i]->out.ring->starved, 1);
        }
    }
    n->armed = true;
    atomic_store(&n->listener->sleeping, 1);
    if (fence(n) && !has_work(n)) {
        return TELPHER_OK;
    }
    disarm(n);
    n->rounds = 0;
    return TELPHER_ERR_AGAIN;
}

static int
shm_fd(struct tp_net *net)
{
    return shm_net(net)->epoll_fd;
}

/* ---- progress ---- */

static unsigned
run_link(struct shm_link *link)
{
    unsigned count = tp_shm_receive(link);

    if (tp_unlikely(link->out.fd >= 0)) {
        count += tp_shm_check_slot(link);
    }
    return count;
}

static unsigned
shm_progress(struct tp_net *net)
{
    struct shm_net *n = shm_net(net);
    unsigned count = 0;

    if (tp_unlikely(n->armed)) {
        wake_up(n);
    }
    if (tp_unlikely(atomic_load_explicit(&n->listener->requests,
                                         memory_order_acquire) != n->requests)) {
        count += tp_shm_accept(n);
    }
    if (n->rounds++ % LOOK_EVERY == 0) {
        count += look(n);
    }
    for (uint32_t i = 0; i < n->active_count; i++) {
        count += run_link(n->active[i]);
    }
    return tp_unlikely(n->ending_count != 0) ? count + tp_shm_bury(n) : count;
}

/* True if the peer has mapped our ring: only then does its data outlive this
 * process. */
static bool
shm_busy(struct tp_net *net, uint32_t *ret_peer)
{
    struct shm_net *n = shm_net(net);

    for (uint32_t i = 0; i < n->active_count; i++) {
        const struct shm_link *link = n->active[i];

        if (!link->ending && link->out.fd >= 0 && link->out.head != 0) {
            *ret_peer = link->rank;
            return true;
        }
    }
    return false;
}

/* ---- leave ---- */

/* Accepts pending connection requests, so that those peers see this rank leave. */
static void
shm_destroy(struct tp_net *net)
{
    struct shm_net *n = shm_net(net);

    (void)tp_shm_accept(n);
    atomic_store(&n->listener->left, 1);
    for (uint32_t i = 0; i < n->active_count; i++) {
        tp_shm_wake(n->active[i]);
    }
    for (uint32_t r = 0; r < n->params.size; r++) {
        if (n->links[r] != NULL) {
            tp_shm_free_link(n->links[r]);
        }
    }
    net_free(n);
}

const struct tp_net_ops tp_shm_net = {
    .name = "shm",
    .create = shm_create,
    .address = shm_address,
    .reaches = shm_reaches,
    .connect = shm_connect,
    .send = tp_shm_send,
    .control = tp_shm_control,
    .write_data = tp_shm_write_data,
    .can_get = tp_shm_can_get,
    .get = tp_shm_get,
    .close_peer = shm_close_peer,
    .progress = shm_progress,
    .arm = shm_arm,
    .fd = shm_fd,
    .busy = shm_busy,
    .destroy = shm_destroy,
};
