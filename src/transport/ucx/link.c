/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: created at first use, closed when UCX, the kernel or the peer says that it ended. */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/ucx/net_int.h"

enum {
    DRAIN_ROUNDS = 1000
}; /* of progress, for messages to leave or memory to be released */
#define RELEASE_TIME                                                                   \
    (2 * TP_CLOCK_S) /* for a device or adapter in the middle of a copy */

struct ucx_link *
tp_ucx_link(struct ucx_net *n, uint32_t rank)
{
    struct ucx_link *link = n->links[rank];

    if (link != NULL) {
        return link;
    }
    link = tp_zalloc(sizeof(*link), "ucx link");
    if (link != NULL) {
        link->net = n;
        link->rank = rank;
        link->pid_fd = -1;
        tp_list_init(&link->rndvs);
        tp_list_init(&link->early);
        n->links[rank] = link;
    }
    return link;
}

/* ---- connecting ---- */

static void
on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx_link *link = arg;

    if (ep == link->ep) {
        tp_debug(UCX_TOPIC, "rank %u: %s", link->rank, ucs_status_string(status));
        tp_ucx_end(link, TELPHER_ERR_PEER_LOST);
    }
}

bool
tp_ucx_address_check(const struct ucx_net *n, const void *src, size_t len)
{
    struct ucx_address address;

    if (len <= sizeof(address) || len > TP_NET_ADDRESS_MAX) {
        return false;
    }
    memcpy(&address, src, sizeof(address));
    return address.magic == UCX_ADDRESS_MAGIC && address.job == n->params.job &&
           address.version == n->address.version;
}

void
tp_ucx_address_write(const struct ucx_net *n, uint8_t *dst)
{
    memcpy(dst, &n->address, sizeof(n->address));
    memcpy(dst + sizeof(n->address), n->worker_address, n->worker_address_len);
}

/* UCX sees late, or never, that a process of this machine has ended. */
static void
watch_process(struct ucx_link *link, const struct tp_process *process)
{
    struct ucx_net *n = link->net;
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = link->rank};

    if (process->pid > 0 && process->pid != n->address.process.pid &&
        tp_process_is_near(process, &n->address.process) &&
        tp_process_open(process, &link->pid_fd) == TELPHER_OK &&
        epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, link->pid_fd, &e) != 0) {
        tp_debug(UCX_TOPIC, "cannot watch the process of rank %u: %m", link->rank);
    }
}

static void
unwatch_process(struct ucx_link *link)
{
    if (link->pid_fd >= 0) {
        (void)epoll_ctl(link->net->epoll_fd, EPOLL_CTL_DEL, link->pid_fd, NULL);
        close(link->pid_fd);
        link->pid_fd = -1;
    }
}

static telpher_status
send_hello(struct ucx_link *link)
{
    const struct ucx_prefix hello = {.kind = UCX_HELLO};
    uint8_t address[TP_NET_ADDRESS_MAX];

    tp_ucx_address_write(link->net, address);
    return tp_ucx_post(link, hello, NULL, 0, address,
                       sizeof(struct ucx_address) + link->net->worker_address_len,
                       true);
}

telpher_status
tp_ucx_connect(struct ucx_link *link, const void *address)
{
    struct ucx_net *n = link->net;
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)((const uint8_t *)address +
                                           sizeof(struct ucx_address)),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {on_error, link},
    };
    struct ucx_address head;
    ucs_status_t status = ucp_ep_create(n->worker, &params, &link->ep);

    if (status != UCS_OK) {
        link->ep = NULL;
        return status == UCS_ERR_NO_MEMORY ? TELPHER_ERR_NO_MEMORY
                                           : TELPHER_ERR_UNREACHABLE;
    }
    memcpy(&head, address, sizeof(head)); /* addresses have any alignment */
    watch_process(link, &head.process);
    return send_hello(link);
}

unsigned
tp_ucx_connect_back(struct ucx_net *n)
{
    unsigned count = 0;

    for (uint32_t r = 0; n->to_connect != 0 && r < n->params.size; r++) {
        struct ucx_link *link = n->links[r];

        if (link != NULL && link->address != NULL) {
            /* even if the link is ending, so that the peer learns of it */
            if (link->ep == NULL && !link->closed &&
                tp_ucx_connect(link, link->address) != TELPHER_OK) {
                tp_ucx_end(link, TELPHER_ERR_UNREACHABLE);
            }
            tp_free(link->address);
            link->address = NULL;
            n->to_connect--;
            count++;
        }
    }
    return count;
}

/* ---- closing ---- */

void
tp_ucx_end(struct ucx_link *link, telpher_status why)
{
    if (!link->ending) {
        link->ending = true;
        link->why = why;
        link->net->ending++;
    }
}

void
tp_ucx_end_by_error(struct ucx_link *link, const char *what)
{
    tp_warn(UCX_TOPIC, "connection to rank %u closed: %s", link->rank, what);
    tp_ucx_end(link, TELPHER_ERR_PROTO);
}

void
tp_ucx_drain(struct ucx_link *link)
{
    for (unsigned i = 0; link->buffers != 0 && i < DRAIN_ROUNDS; i++) {
        (void)ucp_worker_progress(link->net->worker);
    }
}

static void
close_by_force(struct ucx_link *link)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request;

    unwatch_process(link);
    link->closed = true;
    if (link->ep == NULL) {
        return;
    }
    request = ucp_ep_close_nbx(link->ep, &param);
    link->ep = NULL;
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request); /* UCX frees it when the endpoint is closed */
    }
}

/* From here on UCX is to release the memory that it has. */
static void
close_ending(struct ucx_link *link)
{
    const struct ucx_prefix closing = {.kind = UCX_CLOSE, .len = 1};

    if (link->why == TELPHER_ERR_PROTO && link->ep != NULL) {
        (void)tp_ucx_post(link, closing, NULL, 0, NULL, 0, true);
        tp_ucx_drain(link);
    }
    close_by_force(link);
    link->release_by = tp_clock_deadline(RELEASE_TIME);
}

/* core/comm uses its memory again once done() was called: not while UCX still writes to it, or
 * reads it. */
static bool
has_released(const struct ucx_link *link)
{
    for (unsigned i = 0; link->transfers != 0 && i < DRAIN_ROUNDS; i++) {
        (void)ucp_worker_progress(link->net->worker);
    }
    return link->transfers == 0 || tp_clock_passed(link->release_by);
}

static void
report_loss(struct ucx_link *link)
{
    struct ucx_net *n = link->net;

    (void)tp_ucx_complete_ended(n);
    link->gone = true;
    tp_ucx_rndv_lose_all(link);
    tp_debug(UCX_TOPIC, "rank %u %s", link->rank,
             link->why == TELPHER_OK ? "has left" : "is lost");
    n->params.events->on_lost(n->params.user, link->rank, link->why);
    tp_ucx_rndv_free_all(link);
    tp_ucx_free_early(link);
}

unsigned
tp_ucx_close_lost(struct ucx_net *n)
{
    unsigned count = 0;

    for (uint32_t r = 0; n->ending != 0 && r < n->params.size; r++) {
        struct ucx_link *link = n->links[r];

        if (link == NULL || !link->ending || link->gone) {
            continue;
        }
        if (!link->closed) {
            close_ending(link);
        }
        if (has_released(link)) {
            report_loss(link);
            n->ending--;
            count++;
        }
    }
    return count;
}

void
tp_ucx_close_link(struct ucx_link *link)
{
    link->ending = link->gone = true;
    close_by_force(link);
    tp_ucx_rndv_free_all(link);
    tp_ucx_free_early(link);
}
