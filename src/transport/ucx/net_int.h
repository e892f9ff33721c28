/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks by active messages of UCX: small ones by its eager protocol, large
 * ones by its rendezvous, whose receive core/comm starts when it likes.
 *
 *   net.c      the table of functions; progress, leaving
 *   link.c     endpoints: created, lost, closed
 *   send.c     eager messages, sent
 *   receive.c  messages received, delivered in order
 *   rndv.c     rendezvous messages of both directions
 *
 * Only this folder includes headers of UCX.
 */
#ifndef TELPHER_TRANSPORT_UCX_NET_INT_H
#define TELPHER_TRANSPORT_UCX_NET_INT_H

#include <telpher/mem.h>
#include <ucp/api/ucp.h>

#include "base/container/list.h"
#include "base/os/process.h"
#include "transport/ucx/net.h"

#define UCX_TOPIC "ucx"

enum {
    UCX_EAGER_MAX =
        7936, /* [bytes] header and data: one fragment of every UCX transport */
    UCX_BUFFERS = 64, /* eager messages of a link that UCX has not sent yet, at most */
    UCX_AM = 0, /* the active message id of all our messages */
};

enum ucx_kind {
    UCX_HELLO = 1, /* data: the sender's address */
    UCX_EAGER,
    UCX_RNDV, /* data: by UCX's rendezvous */
    UCX_REJECT, /* number: of a UCX_RNDV message that the receiver does not want */
    UCX_CLOSE, /* len: 0 = the sender leaves; 1 = it closes the connection for an error */
    UCX_KINDS
};

/** The first bytes of every active message's header; core/comm's header follows. */
struct ucx_prefix {
    uint64_t job; /* messages of other jobs are ignored */
    uint32_t from;
    uint32_t number; /* UCX_EAGER, UCX_RNDV: counts both, from 0 */
    uint32_t kind; /* enum ucx_kind */
    uint32_t reserved;
    uint64_t len;
};
_Static_assert(sizeof(struct ucx_prefix) == 32, "frozen wire layout");

/** Begins a rank's address; UCX's worker address follows. Also the data of UCX_HELLO. */
struct ucx_address {
    uint64_t magic, job;
    struct tp_process process; /* all 0 if it is not known */
    uint64_t version; /* of UCX: ranks with 1.13 and 1.22 crash each other */
};
#define UCX_ADDRESS_MAGIC UINT64_C(0x3358435550544c54) /* "TLTPUCX3" */

static inline uint64_t
ucx_version(unsigned major, unsigned minor)
{
    return (uint64_t)major << 32 | minor;
}

struct ucx_net;

/** One rank. Kept until the transport is destroyed: UCX may call back for it until then. */
struct ucx_link {
    struct ucx_net *net;
    uint32_t rank;
    ucp_ep_h ep; /* NULL: not connected yet, or closed */
    void *address; /* of a peer that connected first, until this side connects */
    int pid_fd; /* -1: a process of another machine, or this one */
    uint32_t sent, delivered; /* the next ucx_prefix.number of either direction */
    uint32_t buffers; /* eager messages that UCX has not sent yet */
    uint32_t transfers; /* struct tp_net_rndv whose memory UCX has */
    struct tp_list rndvs; /* struct tp_net_rndv: all, also those not received yet */
    struct tp_list early; /* messages that overtook an earlier one */
    uint32_t early_count;
    bool ending; /* lost or left; core/comm does not know yet */
    bool closed; /* the endpoint is closed; UCX may still have memory of core/comm */
    bool gone; /* on_lost() was called */
    tp_ns release_by; /* once closed: the end of waiting for UCX to release memory */
    telpher_status why;
};

/** A message that UCX moves by its rendezvous, in either direction. */
struct tp_net_rndv {
    struct tp_list list; /* of link->rndvs, net->ended or net->orphans */
    struct ucx_link *link;
    uint32_t number;
    void *desc; /* UCX's descriptor of a message that is not received yet; else NULL */
    struct tp_net_op *op; /* NULL: no receive yet, or done() was called */
    bool rejected; /* by the receiver: of a message that we send */
    ucs_status_t status; /* once in net->ended */
    /* Of a message that we send, until UCX has sent it: */
    struct ucx_prefix prefix;
    uint8_t header[]; /* core/comm's, sent together with the prefix */
};

struct ucx_net {
    struct tp_net base;
    struct tp_net_params params;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *worker_address;
    size_t worker_address_len;
    struct ucx_address address;
    int epoll_fd; /* the worker's, and processes of this machine */
    tp_ns look_at; /* when to look for processes that ended */
    unsigned rounds; /* of progress */
    struct ucx_link **links; /* by rank */
    uint32_t to_connect; /* links that have an address */
    uint32_t ending; /* links that are ending and not gone */
    uint32_t under_way; /* eager buffers and transfers of all links */
    struct tp_list idle_buffers;
    struct tp_list
        ended; /* struct tp_net_rndv: UCX is done, done() is not called yet */
    struct tp_list orphans; /* struct tp_net_rndv of lost links that UCX still has */
    void *arriving; /* the descriptor whose callback is running, until it is rejected */
    bool armed; /* this process may have slept */
    bool warned; /* that other ranks have another UCX */
    bool leaving; /* no callback of core/comm any more */
};

static inline struct ucx_net *
ucx_net(struct tp_net *net)
{
    return tp_container_of(net, struct ucx_net, base);
}

/* ---- link.c ---- */
/** The link to a rank, created if there is none; NULL: no memory. */
struct ucx_link *tp_ucx_link(struct ucx_net *n, uint32_t rank);
/** Checks the form of an address. */
bool tp_ucx_address_check(const struct ucx_net *n, const void *src, size_t len);
/** Writes our address: struct ucx_address and n->worker_address_len bytes. */
void tp_ucx_address_write(const struct ucx_net *n, uint8_t *dst);
/** Creates the endpoint and sends UCX_HELLO. @return OK, NO_MEMORY, UNREACHABLE */
telpher_status tp_ucx_connect(struct ucx_link *link, const void *address);
/** Connects to peers that connected first. @return how many */
unsigned tp_ucx_connect_back(struct ucx_net *n);
/** Marks a link as lost, or left (OK): progress closes it and tells core/comm. */
void tp_ucx_end(struct ucx_link *link, telpher_status why);
/** The same, with a warning, for a peer that broke the protocol. */
void tp_ucx_end_by_error(struct ucx_link *link, const char *what);
/** Progresses until eager messages of a link have left, as far as they can. */
void tp_ucx_drain(struct ucx_link *link);
/** Closes ending links and tells core/comm once UCX has released its memory. @return how many */
unsigned tp_ucx_close_lost(struct ucx_net *n);
/** When the transport is destroyed. UCX may call back until its worker is destroyed. */
void tp_ucx_close_link(struct ucx_link *link);

/* ---- send.c ---- */
/**
 * Sends an eager message, copied; fills in the prefix's job and from.
 * @param must  also if UCX_BUFFERS are in use, or the link is ending
 * @return OK, AGAIN, PEER_LOST, NO_MEMORY
 */
telpher_status tp_ucx_post(struct ucx_link *link, struct ucx_prefix prefix,
                           const void *header, size_t header_len, const void *data,
                           size_t len, bool must);
telpher_status tp_ucx_send(struct tp_net *net, uint32_t peer, const void *header,
                           size_t header_len, const void *data, size_t len);
void tp_ucx_free_buffers(struct ucx_net *n);

/* ---- receive.c ---- */
ucs_status_t tp_ucx_on_message(void *arg, const void *header, size_t header_len,
                               void *data, size_t len,
                               const ucp_am_recv_param_t *param);
void tp_ucx_free_early(struct ucx_link *link);

/* ---- rndv.c ---- */
telpher_status tp_ucx_rndv_send(struct tp_net *net, uint32_t peer, const void *header,
                                size_t header_len, const void *src, size_t len,
                                struct tp_net_op *op);
void tp_ucx_rndv_recv(struct tp_net *net, struct tp_net_rndv *rndv, void *dst,
                      size_t len, struct tp_net_op *op);
void tp_ucx_rndv_reject(struct tp_net *net, struct tp_net_rndv *rndv);
/** A message that arrives: @p desc may be received from now on. @return NULL: no memory */
struct tp_net_rndv *tp_ucx_rndv_add(struct ucx_link *link, uint32_t number, void *desc);
/** The receiver does not want a message of ours. @return false: there is none */
bool tp_ucx_take_reject(struct ucx_link *link, uint32_t number);
/** Calls done() of all that UCX has finished. @return how many */
unsigned tp_ucx_complete_ended(struct ucx_net *n);
/** Calls done() of all that a lost link has. */
void tp_ucx_rndv_lose_all(struct ucx_link *link);
/** Frees all that a closed link has; what UCX still uses becomes an orphan. */
void tp_ucx_rndv_free_all(struct ucx_link *link);

#endif
