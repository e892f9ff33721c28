/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of core/comm. */
#ifndef TELPHER_CORE_COMM_COMM_INT_H
#define TELPHER_CORE_COMM_COMM_INT_H

#include <telpher/channel.h>
#include <telpher/msg.h>
#include <telpher/win.h>

#include "core/comm/bootstrap/bootstrap.h"
#include "core/comm/comm.h"
#include "core/comm/credit.h"
#include "core/comm/direct.h"
#include "core/comm/receive/delivery.h"
#include "core/comm/receive/revocation.h"
#include "core/comm/receive/unexpected.h"
#include "core/comm/send.h"

/* ---- the context ---- */

/** Passed as `user` to the events of one transport: context and transport. */
struct tp_comm_link {
    telpher_context *ctx;
    struct tp_net *net; /* NULL: this transport reaches no rank */
    bool needed;
};

struct tp_comm_handler {
    telpher_msg_fn post, entry;
    void *user;
    bool ordered; /* its messages are delivered in the order of their sends */
    uint32_t credits; /* 0 = no limit */
    struct tp_credits *flows; /* by rank; NULL: it never had a limit */
};

/** Counts a message received from @p rank. @return false: it was sent without a credit */
bool tp_message_receive_credit(const struct tp_comm_handler *h, uint32_t rank);
/** Counts a consumed message; credits return to the sender in batches. */
void tp_message_return_credit(struct tp_comm_peer *peer, uint32_t handler);
/** NULL is fine. */
void tp_message_free_handlers(struct tp_comm_handler *handlers);

enum { TP_COMM_AT_END = 8 };

struct telpher_context {
    uint32_t rank, size, local_rank, local_size; /* never change */
    uint64_t job; /* never changes; the same in all ranks */
    bool running; /* progress is under way */
    uint64_t happened; /* things, in all calls of progress */
    size_t net_count;
    struct tp_comm_link nets[TP_COMM_NETS];
    const struct tp_net *unused; /* to this rank itself: not turned to yet */
    uint8_t *addresses; /* of all ranks, address_bytes each: peer.c */
    size_t address_bytes;
    _Atomic uint8_t *revocations; /* revocation.c; NULL: this rank exports nothing */
    int revocations_fd;
    struct tp_comm_peer **peers; /* NULL until used */
    uint32_t lost; /* peers */
    struct tp_list waiting; /* peers with something pending */
    struct tp_mems *mems;
    /* requests */
    telpher_request **slabs;
    size_t slab_count;
    struct tp_list free, completed;
    struct tp_list starved; /* requests that wait for a chunk */
    struct tp_list pieces; /* not in use: fragment.c */
    struct tp_list all_pieces;
    struct tp_list blocks, spare; /* in use, and not: pool_block.c */
    unsigned out_chunks[TELPHER_MEM_KINDS]; /* taken to send, by kind of memory */
    struct tp_list ready; /* pieces that wait for room or for a chunk */
    struct tp_list exported; /* pieces whose receivers have not taken them yet */
    /* channels by rank and id; windows by number; handlers */
    struct tp_map channels;
    struct telpher_win **windows;
    uint32_t window_count;
    struct tp_comm_handler *handlers;
    bool handlers_changed;
    struct tp_list unhandled; /* unexpected messages without a handler */
    uint8_t *scratch; /* for messages whose buffers are sent eager */
    /* collectives */
    uint32_t gathers;
    telpher_status collectives; /* OK, or why there are no more */
    struct tp_list steps; /* unexpected messages of collectives */
    tp_ns spin_ns, leave_ns;
    tp_ns
        alone_ns; /* a wait without a result yields after this; 0 at first: progress.c */
    bool crowded; /* this machine has more ranks of the job than processors */
    int wake_fd; /* telpher_wake() */
    struct tp_error error; /* telpher_last_error() */
    struct {
        void (*fn)(void *user);
        void *user;
    } at_end[TP_COMM_AT_END];
    bool direct; /* TELPHER_DIRECT */
    uint64_t direct_min; /* [bytes] TELPHER_DIRECT_MIN; 0 = measured */
    uint64_t net_direct_min; /* [bytes] TELPHER_NET_DIRECT_MIN; 0 = never */
    uint64_t kept_max; /* TELPHER_KEPT_MAX */
    bool export_chunks; /* TELPHER_EXPORT_CHUNKS */
};

static inline struct tp_comm_peer *
tp_comm_peer_find(telpher_context *ctx, uint32_t rank, telpher_status *ret_status)
{
    struct tp_comm_peer *peer = rank < ctx->size ? ctx->peers[rank] : NULL;

    return tp_likely(peer != NULL) ? peer : tp_comm_peer_get(ctx, rank, ret_status);
}

/** Progresses until done(arg) or the deadline. @return OK, TIMEOUT, INVALID (in a callback) */
telpher_status tp_comm_wait(telpher_context *ctx, bool (*done)(void *arg), void *arg,
                            tp_ns deadline);

#endif
