/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks by active messages of UCX. Every message has our prefix; bulk data
 * is announced, asked for (GO) and then sent to where the receiver wants it, so that UCX is
 * never left with a receive that nobody will complete.
 *
 *   net.c      the table; progress, leaving
 *   link.c     endpoints: made, lost
 *   send.c     messages out
 *   receive.c  messages in, put in order
 *
 * Only this folder knows a type of UCX.
 */
#ifndef TELPHER_TRANSPORT_UCX_NET_INT_H
#define TELPHER_TRANSPORT_UCX_NET_INT_H

#include <telpher/mem.h>
#include <ucp/api/ucp.h>

#include "base/container/list.h"
#include "base/container/map.h"
#include "base/os/process.h"
#include "transport/ucx/net.h"

#define UCX_TOPIC "ucx"

enum {
    UCX_EAGER = 7936, /* [bytes] header and data: one fragment of every transport */
    UCX_SLOTS = 64, /* messages of a link that UCX may have kept */
    UCX_DIRECT =
        16384, /* [bytes] of bulk data from which no copy is made on the way, and
                         * that may be a device's */
    UCX_AM = 0, /* the id of all our messages */
};

enum ucx_kind {
    UCX_HELLO = 1, /* data: the sender's address */
    UCX_MESSAGE,
    UCX_BULK, /* id, len: announced */
    UCX_GO, /* id, len: wanted */
    UCX_DROP, /* id: not wanted */
    UCX_DATA, /* id, len: what was wanted */
    UCX_BYE, /* len: 0 = leaves, 1 = gives us up */
    UCX_KINDS
};

/** What each message begins with. */
struct ucx_prefix {
    uint64_t job; /* who does not know it is a stranger */
    uint32_t from;
    uint32_t number; /* MESSAGE, BULK: of those, from 0 */
    uint32_t kind; /* enum ucx_kind */
    uint32_t id; /* of the bulk, the sender's */
    uint64_t len;
};
_Static_assert(sizeof(struct ucx_prefix) == 32, "frozen wire layout");

/** How a rank is reached: this, then the worker's address. A hello has both as its data. */
struct ucx_card {
    uint64_t magic, job;
    struct tp_process process; /* all 0 if it is not known */
    uint64_t version; /* of the UCX: 1.13 and 1.22 break each other down */
};
#define UCX_CARD_MAGIC UINT64_C(0x3258435550544c54) /* "TLTPUCX2" */

static inline uint64_t
ucx_version(unsigned major, unsigned minor)
{
    return (uint64_t)major << 32 | minor;
}

struct ucx_net;
struct ucx_link;

/** Memory of a message under way. */
struct ucx_slot {
    struct tp_list link; /* of net->idle_slots */
    struct ucx_link *to;
    struct ucx_prefix prefix;
    uint8_t header[TP_NET_HEADER_MAX]; /* right behind the prefix */
    uint8_t data[UCX_EAGER];
};

/** A bulk that we announced. */
struct ucx_out {
    struct tp_list all; /* of net->orphans, once told while UCX still has it */
    struct ucx_link *link;
    const uint8_t *src;
    size_t len;
    struct tp_net_op *op; /* NULL once told */
    struct ucx_prefix prefix; /* of DATA */
    bool going; /* UCX has it */
};

/** A bulk that was announced to us. */
struct tp_net_bulk {
    struct tp_list all; /* of net->orphans */
    struct ucx_link *link;
    uint32_t id;
    uint64_t len; /* announced */
    uint8_t *dst;
    size_t want;
    struct tp_net_op *op; /* NULL: not wanted yet, or told */
    bool coming; /* UCX writes it */
};

/** A message that came before one that was sent earlier. */
struct ucx_held {
    struct tp_list link; /* of ucx_link.held */
    struct ucx_prefix prefix;
    size_t header_len, len;
    uint8_t bytes[]; /* header, data */
};

struct ucx_link {
    struct ucx_net *net;
    uint32_t rank;
    ucp_ep_h ep; /* NULL: none yet, or lost */
    int pid_fd; /* -1: on another machine, or ours */
    void *card; /* to be connected to, in progress */
    uint32_t sent, seen; /* numbers */
    uint32_t slots; /* in use */
    uint32_t next_id;
    struct tp_map outs, bulks; /* ucx_out, tp_net_bulk, by id */
    struct tp_list held;
    uint32_t held_count; /* of those, also with a number that came already */
    bool ending, closed, gone; /* is to end; has no endpoint any more; was told */
    tp_ns let_go_by; /* when it is told whatever UCX does, once closed */
    telpher_status why;
};

struct ucx_net {
    struct tp_net base;
    struct tp_net_params params;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_len;
    struct ucx_card card;
    int epoll_fd; /* the worker's, and processes of this machine */
    tp_ns look_at; /* when to look for those that ended */
    unsigned rounds; /* of progress */
    struct ucx_link **links; /* by rank */
    uint32_t ending, wanted; /* links to be buried, to be connected */
    uint32_t under_way; /* slots, bulk data */
    struct tp_list idle_slots, orphans_out, orphans_in;
    bool armed; /* it may have slept */
    bool told; /* that others have another UCX */
    bool leaving; /* nothing is told any more */
};

static inline struct ucx_net *
ucx_net(struct tp_net *net)
{
    return tp_container_of(net, struct ucx_net, base);
}

/** What UCX is told of an operation on the memory of @p op. It asks the driver what memory of
 *  a GPU is, and trusts whoever says that something is the host's. */
static inline uint32_t
tp_ucx_attributes(const struct tp_net_op *op)
{
    return UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
           (op->kind != TELPHER_MEM_CUDA ? (uint32_t)UCP_OP_ATTR_FIELD_MEMORY_TYPE : 0);
}

/* ---- link.c ---- */
/** The link to a rank, made if there is none; NULL: no memory. */
struct ucx_link *tp_ucx_link(struct ucx_net *n, uint32_t rank);
/** Checks the form of a card. */
bool tp_ucx_card_check(const struct ucx_net *n, const void *src, size_t len);
/** Writes our card, of n->address_len more bytes than struct ucx_card. */
void tp_ucx_card_write(const struct ucx_net *n, uint8_t *dst);
/** Makes the endpoint and says hello. @return OK, NO_MEMORY, UNREACHABLE */
telpher_status tp_ucx_connect(struct ucx_link *link, const void *card);
/** Keeps the card of who said hello. */
void tp_ucx_want(struct ucx_link *link, const void *card, size_t len);
/** Connects to those kept. @return how many */
unsigned tp_ucx_connect_wanted(struct ucx_net *n);
/** The peer has left (OK), died, or is given up; told in progress. */
void tp_ucx_end(struct ucx_link *link, telpher_status why);
/** True while UCX has memory of this link that is the user's. */
bool tp_ucx_is_under_way(const struct ucx_link *link);
/** Lets messages that were posted leave, if they can, before the link is closed. */
void tp_ucx_send_last(struct ucx_link *link);
/** Tells of those that are over. @return how many */
unsigned tp_ucx_bury(struct ucx_net *n);
/** At the end of the net: nothing is told any more. What UCX still has it may call back
 *  for, until its worker is gone. */
void tp_ucx_close_link(struct ucx_link *link);
/** After that. */
void tp_ucx_free_link(struct ucx_link *link);

/* ---- send.c ---- */
/**
 * Sends a message, copied.
 * @param must  also if there is no room for more
 * @return OK, AGAIN, PEER_LOST, NO_MEMORY
 */
telpher_status tp_ucx_post(struct ucx_link *link, const struct ucx_prefix *prefix,
                           const void *header, size_t header_len, const void *data,
                           size_t len, bool must);
telpher_status tp_ucx_send(struct tp_net *net, uint32_t peer, const void *header,
                           size_t header_len, const void *data, size_t len);
telpher_status tp_ucx_send_bulk(struct tp_net *net, uint32_t peer, const void *header,
                                size_t header_len, const void *src, size_t len,
                                struct tp_net_op *op);
void tp_ucx_recv_bulk(struct tp_net *net, struct tp_net_bulk *bulk, void *dst,
                      size_t len, struct tp_net_op *op);
void tp_ucx_drop_bulk(struct tp_net *net, struct tp_net_bulk *bulk);
/** The receiver wants the first bytes of an announced bulk. @return false: nonsense */
bool tp_ucx_go(struct ucx_link *link, uint32_t id, uint64_t len);
/** The receiver does not want it. @return false: nonsense */
bool tp_ucx_dropped(struct ucx_link *link, uint32_t id);

/* ---- receive.c ---- */
ucs_status_t tp_ucx_on_message(void *arg, const void *header, size_t header_len,
                               void *data, size_t len,
                               const ucp_am_recv_param_t *param);

#endif
