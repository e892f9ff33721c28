/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: made when first used, lost when UCX says so or the peer does. */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/ucx/net_int.h"

enum { LAST_ROUNDS = 1000 }; /* of progress, for messages to leave, and UCX to let go */
#define LET_GO                                                                         \
    (2 * TP_CLOCK_S) /* for a device or an adapter that is in the middle of it */

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
        tp_map_init(&link->outs);
        tp_map_init(&link->bulks);
        tp_list_init(&link->held);
        n->links[rank] = link;
    }
    return link;
}

/* ---- made ---- */

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
tp_ucx_card_check(const struct ucx_net *n, const void *src, size_t len)
{
    struct ucx_card card;

    if (len <= sizeof(card) || len > TP_NET_CARD_MAX) {
        return false;
    }
    memcpy(&card, src, sizeof(card));
    return card.magic == UCX_CARD_MAGIC && card.job == n->params.job &&
           card.version == n->card.version;
}

void
tp_ucx_card_write(const struct ucx_net *n, uint8_t *dst)
{
    memcpy(dst, &n->card, sizeof(n->card));
    memcpy(dst + sizeof(n->card), n->address, n->address_len);
}

/* UCX is slow to see, or never sees, that a process of this machine has ended. */
static void
watch(struct ucx_link *link, const struct tp_process *process)
{
    struct ucx_net *n = link->net;
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = link->rank};

    if (process->pid > 0 && process->pid != n->card.process.pid &&
        tp_process_is_near(process, &n->card.process) &&
        tp_process_open(process, &link->pid_fd) == TELPHER_OK &&
        epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, link->pid_fd, &e) != 0) {
        tp_debug(UCX_TOPIC, "rank %u cannot be watched: %m", link->rank);
    }
}

static void
unwatch(struct ucx_link *link)
{
    if (link->pid_fd >= 0) {
        (void)epoll_ctl(link->net->epoll_fd, EPOLL_CTL_DEL, link->pid_fd, NULL);
        close(link->pid_fd);
        link->pid_fd = -1;
    }
}

static telpher_status
say_hello(struct ucx_link *link)
{
    const struct ucx_prefix hello = {.kind = UCX_HELLO};
    uint8_t card[TP_NET_CARD_MAX];

    tp_ucx_card_write(link->net, card);
    return tp_ucx_post(link, &hello, NULL, 0, card,
                       sizeof(struct ucx_card) + link->net->address_len, true);
}

telpher_status
tp_ucx_connect(struct ucx_link *link, const void *card)
{
    struct ucx_net *n = link->net;
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address =
            (const ucp_address_t *)((const uint8_t *)card + sizeof(struct ucx_card)),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {on_error, link},
    };
    struct ucx_card head;
    ucs_status_t status = ucp_ep_create(n->worker, &params, &link->ep);

    if (status != UCS_OK) {
        link->ep = NULL;
        return status == UCS_ERR_NO_MEMORY ? TELPHER_ERR_NO_MEMORY
                                           : TELPHER_ERR_UNREACHABLE;
    }
    memcpy(&head, card, sizeof(head)); /* cards have any alignment */
    watch(link, &head.process);
    return say_hello(link);
}

void
tp_ucx_want(struct ucx_link *link, const void *card, size_t len)
{
    if (link->ep == NULL && link->card == NULL && !link->gone &&
        tp_ucx_card_check(link->net, card, len)) {
        link->card = tp_memdup(card, len, "ucx card");
        link->net->wanted += link->card != NULL;
    }
}

unsigned
tp_ucx_connect_wanted(struct ucx_net *n)
{
    unsigned count = 0;

    for (uint32_t r = 0; n->wanted != 0 && r < n->params.size; r++) {
        struct ucx_link *link = n->links[r];

        if (link != NULL && link->card != NULL) {
            if (link->ep == NULL && !link->gone &&
                tp_ucx_connect(link, link->card) != TELPHER_OK) {
                tp_ucx_end(link, TELPHER_ERR_UNREACHABLE);
            }
            tp_free(link->card);
            link->card = NULL;
            n->wanted--;
            count++;
        }
    }
    return count;
}

/* ---- lost ---- */

void
tp_ucx_end(struct ucx_link *link, telpher_status why)
{
    if (!link->ending) {
        link->ending = true;
        link->why = why;
        link->net->ending++;
    }
}

static void
close_by_force(struct ucx_link *link)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request;

    if (link->ep == NULL) {
        return;
    }
    request = ucp_ep_close_nbx(link->ep, &param);
    link->ep = NULL;
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request); /* when it is done */
    }
}

bool
tp_ucx_is_under_way(const struct ucx_link *link)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&link->outs, &cursor, NULL, &value)) {
        if (((struct ucx_out *)value)->going) {
            return true;
        }
    }
    for (cursor = 0; tp_map_next(&link->bulks, &cursor, NULL, &value);) {
        if (((struct tp_net_bulk *)value)->coming) {
            return true;
        }
    }
    return false;
}

/* Those that UCX never lets go of stay until the end: it may yet call back. */
static void
lose_outs(struct ucx_link *link)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&link->outs, &cursor, NULL, &value)) {
        struct ucx_out *out = value;

        (void)tp_net_op_lose(&out->op);
        if (out->going) {
            tp_list_push_back(&link->net->orphans_out, &out->all);
        } else {
            tp_free(out);
        }
    }
    tp_map_fini(&link->outs);
    tp_map_init(&link->outs);
}

/* @return true if one was told: that may have taken another, so look once more */
static bool
lose_bulks(struct ucx_link *link)
{
    size_t cursor = 0;
    bool told = false;
    void *value;

    while (tp_map_next(&link->bulks, &cursor, NULL, &value)) {
        struct tp_net_bulk *bulk = value;

        told = tp_net_op_lose(&bulk->op) || told;
    }
    return told;
}

static void
forget_bulks(struct ucx_link *link)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&link->bulks, &cursor, NULL, &value)) {
        struct tp_net_bulk *bulk = value;

        if (bulk->coming) {
            tp_list_push_back(&link->net->orphans_in, &bulk->all);
        } else {
            tp_free(bulk);
        }
    }
    tp_map_fini(&link->bulks);
    tp_map_init(&link->bulks);
    link->held_count = 0;
    for (struct tp_list *at; (at = tp_list_pop_front(&link->held)) != NULL;) {
        tp_free(tp_list_entry(at, struct ucx_held, link));
    }
}

void
tp_ucx_send_last(struct ucx_link *link)
{
    for (unsigned i = 0; link->slots != 0 && i < LAST_ROUNDS; i++) {
        (void)ucp_worker_progress(link->net->worker);
    }
}

/* From here on UCX is to let go of what it has. */
static void
close_link(struct ucx_link *link)
{
    const struct ucx_prefix bye = {.kind = UCX_BYE, .len = 1};

    if (link->why == TELPHER_ERR_PROTO && link->ep != NULL) {
        (void)tp_ucx_post(link, &bye, NULL, 0, NULL, 0, true);
        tp_ucx_send_last(link);
    }
    unwatch(link);
    close_by_force(link);
    link->closed = true;
    link->let_go_by = tp_clock_deadline(LET_GO);
}

/* Who is told of a loss uses its memory again: not while UCX still writes it, or reads it. */
static bool
has_let_go(const struct ucx_link *link)
{
    for (unsigned i = 0; tp_ucx_is_under_way(link) && i < LAST_ROUNDS; i++) {
        (void)ucp_worker_progress(link->net->worker);
    }
    return !tp_ucx_is_under_way(link) || tp_clock_passed(link->let_go_by);
}

static void
tell_loss(struct ucx_link *link)
{
    struct ucx_net *n = link->net;

    link->gone = true;
    lose_outs(link);
    while (lose_bulks(link)) {
    }
    tp_debug(UCX_TOPIC, "rank %u %s", link->rank,
             link->why == TELPHER_OK ? "has left" : "is lost");
    n->params.events->on_lost(n->params.user, link->rank, link->why);
    forget_bulks(link);
}

unsigned
tp_ucx_bury(struct ucx_net *n)
{
    unsigned count = 0;

    for (uint32_t r = 0; n->ending != 0 && r < n->params.size; r++) {
        struct ucx_link *link = n->links[r];

        if (link == NULL || !link->ending || link->gone) {
            continue;
        }
        if (!link->closed) {
            close_link(link);
        }
        if (has_let_go(link)) {
            tell_loss(link);
            n->ending--;
            count++;
        }
    }
    return count;
}

void
tp_ucx_close_link(struct ucx_link *link)
{
    size_t cursor = 0;
    void *value;

    unwatch(link);
    link->ending = link->gone = true;
    while (tp_map_next(&link->outs, &cursor, NULL, &value)) {
        ((struct ucx_out *)value)->op = NULL;
    }
    for (cursor = 0; tp_map_next(&link->bulks, &cursor, NULL, &value);) {
        ((struct tp_net_bulk *)value)->op = NULL;
    }
    lose_outs(link);
    forget_bulks(link);
    close_by_force(link);
}

void
tp_ucx_free_link(struct ucx_link *link)
{
    tp_map_fini(&link->outs);
    tp_map_fini(&link->bulks);
    tp_free(link->card);
    tp_free(link);
}
