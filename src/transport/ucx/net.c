/* SPDX-License-Identifier: Apache-2.0 */
/* Transport ucx: its table of functions; creation, progress, leaving. */
#include "transport/ucx/net.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config/settings.h"
#include "base/os/descriptor.h"
#include "base/trace/log.h"
#include "transport/ucx/net_int.h"

enum { WAKE_ROUNDS = 64, LOOK_ROUNDS = 16, EVENTS = 32 };
#define CLOSE_TIME (100 * TP_CLOCK_MS)

/* ---- creation ---- */

/*
 * MM_ERROR_HANDLING: by default UCX does not use shared memory for endpoints that report the
 * peer's death. Large data within a machine is nevertheless copied twice, since one copy needs
 * UCX_CMA_MEMORY_INVALIDATE=y, which ucp_config_modify() does not reach. Setting the environment
 * is left to the user; transport shm copies once.
 *
 * ZCOPY_THRESH: UCX's TCP (1.13 to 1.22) completes an eager message sent without a copy twice
 * when the connection breaks in the middle of it, and aborts the process.
 */
static ucs_status_t
modify_config(ucp_config_t *config, tp_ns lost_after)
{
    char interval[32];
    const char *const settings[][2] = {
        {"MM_ERROR_HANDLING", "y"},
        {"KEEPALIVE_INTERVAL", interval},
        {"ZCOPY_THRESH", "inf"},
    };
    ucs_status_t status = UCS_OK;

    (void)snprintf(interval, sizeof(interval), "%uus",
                   (unsigned)TP_MIN(lost_after / 3 / TP_CLOCK_US, (tp_ns)UINT32_MAX));
    for (size_t i = 0; i < TP_ARRAY_LEN(settings) && status == UCS_OK; i++) {
        status = ucp_config_modify(config, settings[i][0], settings[i][1]);
    }
    return status;
}

static ucs_status_t
create_context(struct ucx_net *n)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = n->params.size,
    };
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK) {
        return status;
    }
    status = modify_config(config, n->params.lost_after);
    if (status == UCS_OK) {
        status = ucp_init(&params, config, &n->context);
    }
    ucp_config_release(config);
    return status;
}

static ucs_status_t
create_worker(struct ucx_net *n)
{
    const ucp_worker_params_t params = {.field_mask =
                                            UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = UCX_AM,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = tp_ucx_on_message,
        .arg = n,
    };
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    int fd = -1;
    ucs_status_t status = ucp_worker_create(n->context, &params, &n->worker);

    if (status == UCS_OK) {
        status = ucp_worker_set_am_recv_handler(n->worker, &handler);
    }
    if (status == UCS_OK) {
        status = ucp_worker_get_address(n->worker, &n->worker_address,
                                        &n->worker_address_len);
    }
    if (status == UCS_OK) {
        status = ucp_worker_get_efd(n->worker, &fd);
    }
    if (status == UCS_OK) {
        n->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (n->epoll_fd < 0 || epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
            status = UCS_ERR_IO_ERROR;
        }
    }
    return status;
}

static void
free_list(struct tp_list *list)
{
    for (struct tp_list *at; (at = tp_list_pop_front(list)) != NULL;) {
        tp_free(tp_list_entry(at, struct tp_net_rndv, list));
    }
}

static void
close_links(struct ucx_net *n)
{
    for (uint32_t r = 0; n->links != NULL && r < n->params.size; r++) {
        if (n->links[r] != NULL) {
            tp_ucx_close_link(n->links[r]);
        }
    }
}

/* Links are freed after the worker, whose destruction calls back for what was under way. */
static void
free_net(struct ucx_net *n)
{
    close_links(n);
    if (n->worker_address != NULL) {
        ucp_worker_release_address(n->worker, n->worker_address);
    }
    if (n->worker != NULL) {
        ucp_worker_destroy(n->worker);
    }
    if (n->context != NULL) {
        ucp_cleanup(n->context);
    }
    tp_descriptor_close(n->epoll_fd);
    for (uint32_t r = 0; n->links != NULL && r < n->params.size; r++) {
        if (n->links[r] != NULL) {
            tp_free(n->links[r]->address);
            tp_free(n->links[r]);
        }
    }
    free_list(&n->ended);
    free_list(&n->orphans);
    tp_ucx_free_buffers(n);
    tp_free(n->links);
    tp_free(n);
}

static telpher_status
init_ucx(struct ucx_net *n, struct tp_error *err)
{
    unsigned major, minor, patch;
    ucs_status_t status;

    ucp_get_version(&major, &minor, &patch);
    n->address.version = ucx_version(major, minor);
    n->links = tp_alloc_array(n->params.size, sizeof(struct ucx_link *), "ucx links");
    if (n->links == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = create_context(n);
    if (status == UCS_OK) {
        status = create_worker(n);
    }
    if (status != UCS_OK) {
        return tp_error_set(
            err, TELPHER_ERR_UNSUPPORTED,
            "transport ucx: UCX cannot create its %s: %s; UCX_LOG_LEVEL=info says more",
            n->context == NULL ? "context" : "worker", ucs_status_string(status));
    }
    if (n->worker_address_len > TP_NET_ADDRESS_MAX - sizeof(struct ucx_address)) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "UCX's worker address has %zu bytes; name fewer devices in "
                            "UCX_NET_DEVICES or UCX_TLS",
                            n->worker_address_len);
    }
    return TELPHER_OK;
}

/* Before 1.19 UCX relied on the caller's current CUDA context, and here there is none. Emulated
 * device memory is host memory. */
static uint32_t
find_kinds(const struct ucx_net *n)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    uint32_t kinds = 1u << TELPHER_MEM_SIM;

    if (n->address.version >= ucx_version(1, 19) &&
        ucp_context_query(n->context, &attr) == UCS_OK &&
        (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0) {
        kinds |= 1u << TELPHER_MEM_CUDA;
    }
    tp_debug(UCX_TOPIC, "%s, which %s CUDA memory", ucp_get_version_string(),
             (kinds & 1u << TELPHER_MEM_CUDA) != 0 ? "supports" : "does not support");
    return kinds;
}

static telpher_status
net_create(const struct tp_net_params *params, struct tp_net **ret_net,
           struct tp_error *err)
{
    struct ucx_net *n = tp_zalloc(sizeof(*n), "ucx net");
    telpher_status status;

    if (n == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
#ifdef TP_UCX_MODULE
    tp_settings_configure_log(); /* a module has a log of its own */
#endif
    n->base = (struct tp_net){.ops = &tp_ucx_net,
                              .eager_max = UCX_EAGER_MAX,
                              .rndv_min = UCX_EAGER_MAX,
                              .device_min = UCX_EAGER_MAX,
                              .whole = true,
                              .reads = true};
    n->params = *params;
    n->params.lost_after = params->lost_after != 0 ? params->lost_after : TP_CLOCK_S;
    n->epoll_fd = -1;
    n->address = (struct ucx_address){.magic = UCX_ADDRESS_MAGIC, .job = params->job};
    (void)tp_process_self(&n->address.process);
    tp_list_init(&n->idle_buffers);
    tp_list_init(&n->ended);
    tp_list_init(&n->orphans);
    status = init_ucx(n, err);
    if (status != TELPHER_OK) {
        free_net(n);
        return status;
    }
    n->base.kinds = find_kinds(n);
    *ret_net = &n->base;
    return TELPHER_OK;
}

/* ---- addresses ---- */

static size_t
net_address(struct tp_net *net, uint8_t *dst)
{
    struct ucx_net *n = ucx_net(net);

    tp_ucx_address_write(n, dst);
    return sizeof(struct ucx_address) + n->worker_address_len;
}

/* Explains, once, why ranks that all have ucx do not reach each other by it. */
static void
warn_of_version(struct ucx_net *n, const uint8_t *src, size_t len)
{
    struct ucx_address address;

    if (n->warned || len < sizeof(address)) {
        return;
    }
    memcpy(&address, src, sizeof(address));
    if (address.magic == UCX_ADDRESS_MAGIC && address.version != n->address.version) {
        n->warned = true;
        tp_warn(
            UCX_TOPIC,
            "a rank has UCX %u.%u, this one %u.%u: UCX does not connect them; install "
            "the same version",
            (unsigned)(address.version >> 32), (unsigned)address.version,
            (unsigned)(n->address.version >> 32), (unsigned)n->address.version);
    }
}

static bool
net_reaches(struct tp_net *net, const uint8_t *src, size_t len)
{
    struct ucx_net *n = ucx_net(net);
    size_t head = sizeof(struct ucx_address);

    warn_of_version(n, src, len);
    return tp_ucx_address_check(n, src, len) &&
           (len != head + n->worker_address_len ||
            memcmp(src + head, n->worker_address, n->worker_address_len) != 0);
}

static telpher_status
net_connect(struct tp_net *net, uint32_t peer, const uint8_t *address, size_t len)
{
    struct ucx_link *link;

    if (!net_reaches(net, address, len)) {
        return TELPHER_ERR_INVALID;
    }
    link = tp_ucx_link(ucx_net(net), peer);
    if (link == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (link->gone) {
        return TELPHER_ERR_UNREACHABLE;
    }
    return link->ep != NULL || link->ending ? TELPHER_OK /* the peer connected first */
                                            : tp_ucx_connect(link, address);
}

static void
net_close_peer(struct tp_net *net, uint32_t peer)
{
    struct ucx_link *link = ucx_net(net)->links[peer];

    if (link != NULL) {
        tp_ucx_end(link, TELPHER_ERR_PROTO);
    }
}

/* ---- progress ---- */

/* Finds processes of this machine that have ended; the worker's event is ignored. */
static void
look_for_deaths(struct ucx_net *n)
{
    struct epoll_event events[EVENTS];
    int got;

    if (!n->armed && tp_clock_ns() < n->look_at) {
        return;
    }
    got = epoll_wait(n->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < got; i++) {
        if (events[i].data.u32 != UINT32_MAX) {
            tp_ucx_end(n->links[events[i].data.u32], TELPHER_ERR_PEER_LOST);
        }
    }
    n->look_at = tp_clock_ns() + n->params.lost_after / 4;
}

static unsigned
net_progress(struct tp_net *net)
{
    struct ucx_net *n = ucx_net(net);
    unsigned count = 0;

    /* UCX checks its peers once in many rounds, which a process that sleeps would not reach. */
    for (unsigned i = n->armed ? WAKE_ROUNDS : 1; i > 0; i--) {
        count += ucp_worker_progress(n->worker);
    }
    if (n->armed || n->rounds++ % LOOK_ROUNDS == 0) {
        look_for_deaths(n);
    }
    n->armed = false;
    if (tp_unlikely(n->to_connect != 0)) {
        count += tp_ucx_connect_back(n);
    }
    count += tp_ucx_complete_ended(n);
    return tp_unlikely(n->ending != 0) ? count + tp_ucx_close_lost(n) : count;
}

static telpher_status
net_arm(struct tp_net *net)
{
    struct ucx_net *n = ucx_net(net);

    n->armed = true;
    return n->ending == 0 && n->to_connect == 0 && tp_list_is_empty(&n->ended) &&
                   ucp_worker_arm(n->worker) == UCS_OK
               ? TELPHER_OK
               : TELPHER_ERR_AGAIN;
}

static int
net_fd(struct tp_net *net)
{
    return ucx_net(net)->epoll_fd;
}

static bool
net_busy(struct tp_net *net, uint32_t *ret_peer)
{
    const struct ucx_net *n = ucx_net(net);

    for (uint32_t r = 0; r < n->params.size; r++) {
        if (n->links[r] != NULL && n->links[r]->buffers != 0 && !n->links[r]->gone) {
            *ret_peer = r;
            return true;
        }
    }
    return false;
}

/* ---- leaving ---- */

/* Sends UCX_CLOSE, after what was sent before, and closes. By force if a rendezvous is under way:
 * UCX aborts a process that destroys a worker whose endpoint has one.
 * @return the request, or NULL */
static void *
leave(struct ucx_link *link)
{
    const struct ucx_prefix closing = {.kind = UCX_CLOSE};
    bool force = link->transfers != 0;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = force ? (uint32_t)UCP_EP_CLOSE_FLAG_FORCE : 0};
    ucs_status_ptr_t request;

    if (link->ep == NULL || link->ending) {
        return NULL;
    }
    (void)tp_ucx_post(link, closing, NULL, 0, NULL, 0, true);
    if (force) {
        tp_ucx_drain(link);
    }
    request = ucp_ep_close_nbx(link->ep, &param);
    link->ep = NULL;
    return UCS_PTR_IS_PTR(request) ? request : NULL;
}

static void
wait_for(struct ucx_net *n, void *request, tp_ns deadline)
{
    while (ucp_request_check_status(request) == UCS_INPROGRESS &&
           !tp_clock_passed(deadline)) {
        (void)ucp_worker_progress(n->worker);
    }
    ucp_request_free(request);
}

/* UCX aborts a process that destroys a worker while it still reads or sends for an endpoint that
 * was closed by force. */
static void
wait_for_worker(struct ucx_net *n, tp_ns deadline)
{
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t request;

    close_links(n);
    /* Past the deadline the flush would not end, and keep the endpoints that it waits for. */
    request =
        !tp_clock_passed(deadline) ? ucp_worker_flush_nbx(n->worker, &param) : NULL;
    if (UCS_PTR_IS_PTR(request)) {
        wait_for(n, request, deadline);
    }
    while (n->under_way != 0 && !tp_clock_passed(deadline)) {
        (void)ucp_worker_progress(n->worker);
    }
}

static void
net_destroy(struct tp_net *net)
{
    struct ucx_net *n = ucx_net(net);
    tp_ns deadline = tp_clock_deadline(CLOSE_TIME);
    void **requests = tp_alloc_array(n->params.size, sizeof(void *), "ucx requests");

    n->leaving = true;
    for (uint32_t r = 0; requests != NULL && r < n->params.size; r++) {
        requests[r] = n->links[r] != NULL ? leave(n->links[r]) : NULL;
    }
    for (uint32_t r = 0; requests != NULL && r < n->params.size; r++) {
        if (requests[r] != NULL) {
            wait_for(n, requests[r], deadline);
        }
    }
    tp_free(requests);
    wait_for_worker(n, deadline);
    free_net(n);
}

const struct tp_net_ops tp_ucx_net = {
    .name = "ucx",
    .only_if_named = true, /* its start costs time and memory that few jobs need */
    .create = net_create,
    .address = net_address,
    .reaches = net_reaches,
    .connect = net_connect,
    .send = tp_ucx_send,
    .rndv_send = tp_ucx_rndv_send,
    .rndv_recv = tp_ucx_rndv_recv,
    .rndv_reject = tp_ucx_rndv_reject,
    .close_peer = net_close_peer,
    .progress = net_progress,
    .arm = net_arm,
    .fd = net_fd,
    .busy = net_busy,
    .destroy = net_destroy,
};
