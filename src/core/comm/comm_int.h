/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core/comm offer each other. */
#ifndef TELPHER_CORE_COMM_INT_H
#define TELPHER_CORE_COMM_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/channel.h>
#include <telpher/msg.h>
#include <telpher/win.h>

#include "base/container/list.h"
#include "base/container/map.h"
#include "base/os/clock.h"
#include "base/os/process.h"
#include "core/comm/comm.h"
#include "core/comm/credit.h"
#include "core/comm/mem/mem.h"
#include "core/comm/rndv.h"
#include "core/net.h"
#include "wire/comm.h"

enum {
    TP_COMM_NETS = 6, /* transports of one context, at most */
    TP_COMM_MACHINE_BYTES = TP_PROCESS_MACHINE_BYTES,
    TP_COMM_BOARD_BYTES = 32, /* tells how to open a rank's board */
    TP_COMM_CARD_HEAD = TP_COMM_MACHINE_BYTES + TP_COMM_BOARD_BYTES,
    TP_COMM_CARD_MAX = TP_COMM_CARD_HEAD + TP_COMM_NETS * (16 + TP_NET_CARD_MAX) + 1,
    TP_COMM_PARCELS_MAX = 8192, /* kept of one peer for what is not there yet */
    TP_COMM_PIECES = 8, /* pieces of one transfer under way at a time */
};

struct tp_comm_peer;

/* ---- memory between two steps ---- */

/** Takes @p bytes, not initialised, aligned to 16; small ones seldom from the heap. Those
 *  not given back live as long as the context. @return NULL without memory */
void *tp_comm_block_take(telpher_context *ctx, size_t bytes, const char *what);
/** NULL is fine. */
void tp_comm_block_give(telpher_context *ctx, void *bytes);
void tp_comm_block_fini(telpher_context *ctx);

/* ---- requests ---- */

/** Where a request stands. */
enum tp_comm_request_state {
    TP_COMM_REQUEST_FREE,
    TP_COMM_REQUEST_QUEUED, /**< to be announced, behind others of its peer */
    TP_COMM_REQUEST_READING, /**< the same, while its data comes out of a device */
    TP_COMM_REQUEST_RNDV, /**< announced, the transport has it */
    TP_COMM_REQUEST_OFFERED, /**< announced; a PULL or a FINISH is to come */
    TP_COMM_REQUEST_POSTED, /**< receives; nothing has come for it */
    TP_COMM_REQUEST_DELIVERING, /**< receives; the transport or a device has it */
    TP_COMM_REQUEST_FRAGMENTS, /**< sends or receives in pieces */
    TP_COMM_REQUEST_DONE, /**< complete; in ctx->completed, or waits to be tested */
};

/** What the peer asked for with PULL, or what became of a FINISH. */
struct tp_comm_request_pull {
    uint32_t number; /* of the receiver's request */
    uint32_t piece; /* [bytes] */
    uint64_t len; /* [bytes] wanted */
};

struct telpher_request {
    struct tp_list link; /* of peer->pending, channel->posted or ctx->completed */
    telpher_context *ctx;
    struct tp_comm_peer *peer;
    telpher_done_fn on_done;
    void *user;
    uint32_t number; /* what peers call it; changes with every use */
    uint8_t state; /* enum tp_comm_request_state */
    bool held; /* by the user, until tested */
    bool pulled,
        finished; /* came while the transport had it; finished, of pieces that come: no more will */
    bool sends; /* its pieces go out */
    bool lends; /* and the receiver takes them where they are */
    bool heap; /* its chunk is from the heap */
    bool cut; /* more was announced than is wanted */
    telpher_status status; /* IN_PROGRESS until complete; then also what failed first */
    struct tp_comm_header header; /* of a send */
    struct tp_mem_place place; /* of the user's memory */
    struct tp_mem_place from; /* the sender's memory, while we copy out of it */
    uint8_t blob[TP_MEMS_BLOB_MAX]; /* lets the receiver reach a staged one's memory */
    size_t blob_len;
    size_t len; /* [bytes] of it that are to be moved */
    void *chunk; /* a small one's data beside a device; the mems' */
    struct tp_comm_request_pull pull;
    uint64_t next; /* [bytes] for which a piece was begun */
    uint64_t moved; /* [bytes] of finished pieces */
    uint32_t pieces; /* under way */
    struct tp_list starved; /* of ctx->starved */
    struct tp_net_op op;
    struct tp_device_copy copy;
};

/** Who is told of the end: from a user's params, or our own. */
struct tp_comm_done {
    telpher_done_fn fn; /* NULL: a request is held by the user */
    void *user;
    void *queue;
};

/** Checks a caller's params. @return OK, INVALID with text: no callback and no request, or
 *  struct_size */
telpher_status tp_comm_done_init(telpher_context *ctx, struct tp_comm_done *done,
                                 const telpher_xfer_params *params,
                                 telpher_request **ret_req);

/** Takes a request from the pool. @return NULL without memory. */
telpher_request *tp_comm_request_take(telpher_context *ctx, struct tp_comm_peer *peer,
                                      const struct tp_comm_done *done);
/** Gives one back to the pool whose end nobody is to hear of. */
void tp_comm_request_give(telpher_request *req);
/** The request that @p peer calls so, in one of the states of @p mask; NULL if none. */
telpher_request *tp_comm_request_find(telpher_context *ctx,
                                      const struct tp_comm_peer *peer, uint32_t number,
                                      unsigned mask);
/** Ends it; its callback runs later in progress. */
void tp_comm_request_complete(telpher_request *req, telpher_status status, size_t len);
/** What a call returns for a request that it just began: IN_PROGRESS and *ret_req, or the
 *  result if it is complete already. */
telpher_status tp_comm_request_begun(telpher_request *req, telpher_request **ret_req,
                                     size_t *ret_len);
/** Runs the callbacks of what is complete. */
unsigned tp_comm_request_run_completed(telpher_context *ctx);
/** Ends all that need @p peer and that nobody else will end. */
void tp_comm_request_lose_peer(telpher_context *ctx, const struct tp_comm_peer *peer);
/** True if memory of ours is being sent to @p peer, which may be reading it. */
bool tp_comm_request_is_sending(const telpher_context *ctx,
                                const struct tp_comm_peer *peer);
void tp_comm_request_fini(telpher_context *ctx);

/* ---- peers ---- */

struct tp_comm_peer {
    uint32_t rank;
    bool local; /* on this machine */
    bool unreached; /* but what it lends cannot be mapped here */
    bool boardless; /* nor its board */
    uint32_t
        pulls; /* kinds of memory, a bit each, that it does not copy from directly */
    bool absent; /* was gone when it was turned to for the first time */
    telpher_status status; /* OK, or what befell it */
    const char *lost_why; /* static text; NULL while status is OK */
    telpher_context *ctx;
    struct tp_net *net;
    struct tp_list pending; /* requests in the order of their announcements */
    struct tp_list landings; /* what must happen in order: delivery.c */
    struct tp_list messages; /* whose buffers are on their way */
    struct tp_list waiting; /* of ctx->waiting, while something is pending */
    struct telpher_channel *channel; /* used last; all live as long as ctx */
    _Atomic uint8_t *board; /* its, a byte a rank; NULL: not opened */
    uint32_t next_message;
    uint64_t flushes, flushed; /* asked for, answered */
    size_t parcels; /* kept until somebody wants them */
    size_t heads; /* messages whose buffers are on their way */
};

/** The peer of a rank, connected; NULL: *ret_status says why. */
struct tp_comm_peer *tp_comm_peer_get(telpher_context *ctx, uint32_t rank,
                                      telpher_status *ret_status);
/** The same, shorter where it is known already: see below. */
static inline struct tp_comm_peer *
tp_comm_peer_find(telpher_context *ctx, uint32_t rank, telpher_status *ret_status);
/** Gives a peer up that broke the protocol, or that we cannot serve any more. */
void tp_comm_peer_fail(struct tp_comm_peer *peer, telpher_status why);
/** Ends what needs a peer that is gone. */
void tp_comm_peer_lost(struct tp_comm_peer *peer, telpher_status why);
/** The transport for a rank, the same from both sides; NULL if none reaches it. */
struct tp_net *tp_comm_peer_choose(const telpher_context *ctx, uint32_t rank);
/** Writes the names of a rank's transports in its order, for words. */
void tp_comm_peer_list_nets(const telpher_context *ctx, uint32_t rank, char *dst,
                            size_t size);
/** Writes this rank's card behind its head, which is there. @return [bytes] of all */
size_t tp_comm_peer_write_card(telpher_context *ctx, uint8_t *card);
/** The transports are gone: whatever still ends finds no peer. */
void tp_comm_peers_close(telpher_context *ctx);
/** Announces what waits at all peers. */
unsigned tp_comm_peers_flush(telpher_context *ctx);
/** True if something waits for room at some peer, *ret_peer. */
bool tp_comm_peers_waiting(const telpher_context *ctx, uint32_t *ret_peer);
/** Sets local_rank and local_size from the cards. */
void tp_comm_peers_count_local(telpher_context *ctx);
void tp_comm_peers_fini(telpher_context *ctx);

/* ---- sending ---- */

/** True if @p len bytes at @p place would travel inside their announcement. */
bool tp_comm_is_small(const struct tp_comm_peer *peer, size_t len);

/** For who counts announcements. */
struct tp_comm_fate {
    bool inside; /**< may it travel inside its announcement? Then: does it? */
    bool announced; /**< it was, or will be, even if the call returns an error */
};

/**
 * Announces and sends. The header's how, len and xfer are filled in here.
 * @param fate  what may become of it and what became; NULL = as it comes.
 * @return OK, or as the public calls
 */
telpher_status tp_comm_send(struct tp_comm_peer *peer,
                            const struct tp_comm_header *header, const void *src,
                            size_t len, struct tp_comm_fate *fate,
                            const struct tp_comm_done *done, telpher_request **ret_req);
/** A callback for transfers whose end matters to nobody. */
void tp_comm_ignore(void *user, telpher_status status, size_t len);
/** Sends a header alone; gives the peer up without memory. */
void tp_comm_post(struct tp_comm_peer *peer, const struct tp_comm_header *header);
/** Announces what could not be announced before. */
unsigned tp_comm_flush(struct tp_comm_peer *peer);

/**
 * Takes a chunk for data that goes out. Half of a device's chunks stay for what comes in:
 * if all ranks held theirs to send, none could receive.
 * @return NULL if there is none now
 */
void *tp_comm_take_out_chunk(telpher_context *ctx, const struct tp_mem_place *place);
void tp_comm_give_out_chunk(telpher_context *ctx, const struct tp_mem_place *place,
                            void *chunk);

/* ---- what came ---- */

/** An announcement. In a callback of a transport it lies on the stack, `data` is borrowed. */
struct tp_comm_unexpected {
    struct tp_list link;
    struct tp_comm_peer *peer;
    struct tp_comm_header header;
    const void *data; /* how INSIDE; how STAGED: a blob of the memory */
    size_t data_len;
    struct tp_net_rndv *bulk; /* how BULK */
};

extern const struct tp_net_events tp_comm_events;

/** True, with words, if @p count announcements of a rank are all that is kept. */
bool tp_comm_is_too_much(const struct tp_comm_peer *peer, size_t count);

/** Copies it, with its data, at the end of @p list. No memory, or more than TELPHER_KEPT_MAX,
 *  fails the peer.
 *  @return the copy, or NULL */
struct tp_comm_unexpected *
tp_comm_unexpected_keep(const struct tp_comm_unexpected *parcel, struct tp_list *list);
/** Takes it out of its list and frees it; its data must have been accepted or refused. */
void tp_comm_unexpected_free(struct tp_comm_unexpected *parcel);
/** Has the transport bring a bulk; its end goes through tp_comm_revocation_bulk_ended. */
void tp_comm_unexpected_fetch(struct tp_comm_peer *peer, struct tp_net_rndv *bulk,
                              void *dst, size_t len, struct tp_net_op *op);
/** Nobody wants the data. */
void tp_comm_unexpected_refuse(struct tp_comm_unexpected *parcel);
/**
 * Brings the data to @p dst, which has room for @p cap bytes, by a request.
 * @return OK, TRUNCATED: it is there, *ret_len bytes of it; IN_PROGRESS: @p req will be
 *         complete; or an error, with which the data is refused.
 */
telpher_status tp_comm_unexpected_accept(struct tp_comm_unexpected *parcel, void *dst,
                                         size_t cap, telpher_request *req,
                                         size_t *ret_len);

/** The kinds' own: take @p parcel, or keep it. PROTO is for what cannot be. */
telpher_status tp_comm_channel_on_data(telpher_context *ctx,
                                       struct tp_comm_unexpected *parcel);
telpher_status tp_comm_channel_on_credit(telpher_context *ctx,
                                         struct tp_comm_unexpected *parcel);
telpher_status tp_comm_message_on_message(telpher_context *ctx,
                                          struct tp_comm_unexpected *parcel);
telpher_status tp_comm_message_on_buffer(telpher_context *ctx,
                                         struct tp_comm_unexpected *parcel);
telpher_status tp_message_on_credit(telpher_context *ctx,
                                    struct tp_comm_unexpected *parcel);
telpher_status tp_comm_window_on_put(telpher_context *ctx,
                                     struct tp_comm_unexpected *parcel);
telpher_status tp_comm_window_on_get(telpher_context *ctx,
                                     struct tp_comm_unexpected *parcel);
telpher_status tp_comm_window_on_got(telpher_context *ctx,
                                     struct tp_comm_unexpected *parcel);
telpher_status tp_comm_delivery_on_flush(telpher_context *ctx,
                                         struct tp_comm_unexpected *parcel);
telpher_status tp_comm_delivery_on_flushed(telpher_context *ctx,
                                           struct tp_comm_unexpected *parcel);
telpher_status tp_comm_gather_on_step(telpher_context *ctx,
                                      struct tp_comm_unexpected *parcel);
telpher_status tp_comm_fragment_on_pull(telpher_context *ctx,
                                        struct tp_comm_unexpected *parcel);
telpher_status tp_comm_fragment_on_piece(telpher_context *ctx,
                                         struct tp_comm_unexpected *parcel);
telpher_status tp_comm_export_on_taken(telpher_context *ctx,
                                       struct tp_comm_unexpected *parcel);
telpher_status tp_comm_fragment_on_finish(telpher_context *ctx,
                                          struct tp_comm_unexpected *parcel);

/* ---- memory of another process of this machine ---- */

/** Makes this rank's board, and the name by which others open it; without one nothing is lent. */
void tp_comm_revocation_create(telpher_context *ctx,
                               uint8_t ret_name[TP_COMM_BOARD_BYTES]);
void tp_comm_revocation_destroy(telpher_context *ctx);
/** What a board says to a rank. */
enum tp_comm_revocation_word {
    TP_COMM_REVOCATION_LENT, /**< all that was lent to it still is */
    TP_COMM_REVOCATION_LEFT, /**< nothing is lent any more; all bulks to it had ended */
    TP_COMM_REVOCATION_REVOKED, /**< in the middle of bulks, perhaps */
};
/** What was lent to @p rank is used again from here on. */
void tp_comm_revocation_post(telpher_context *ctx, uint32_t rank,
                             enum tp_comm_revocation_word word);
/** Can the peer's board be looked at? Opens it. Without it nothing it lends may be read. */
bool tp_comm_revocation_reach(struct tp_comm_peer *peer);
/** Was what has been read of the peer's memory up to now still lent? */
bool tp_comm_revocation_still_lent(const struct tp_comm_peer *peer);
/** The end of a bulk from @p peer, whose board was tried before it began.
 *  @return @p status, or PEER_LOST: the data may be what the peer wrote there since */
telpher_status tp_comm_revocation_bulk_ended(const struct tp_comm_peer *peer,
                                             telpher_status status);
void tp_comm_revocation_close(struct tp_comm_peer *peer);

/** Fills the request's blob if the receiver may copy out of its memory by itself. */
void tp_comm_direct_offer(telpher_request *req);
/** The same for data that would fit into its announcement, where that is the shorter way.
 *  @return true if it was done: the data is not to be read */
bool tp_comm_direct_offer_small(telpher_request *req);
/** Copies out of the sender's memory, if that can be reached. @return false if not */
bool tp_comm_direct_take(struct tp_comm_unexpected *parcel, telpher_request *req);
/** True if the peer's transport moves the request's device memory itself, as a bulk. */
bool tp_comm_direct_by_net(const telpher_request *req);
/** What its transport is told of a bulk's memory. @return its address */
void *tp_comm_direct_bulk(telpher_request *req);

/* ---- pieces ---- */

/** The transport is done with a send's bulk: to the end, or to what the peer asked for. */
void tp_comm_fragment_after_bulk(telpher_request *req, telpher_status status);
/** Asks the sender of @p parcel to send in pieces to @p req. */
void tp_comm_fragment_pull(struct tp_comm_unexpected *parcel, telpher_request *req);
/** Begins what waited for a chunk. */
unsigned tp_comm_fragment_run_starved(telpher_context *ctx);
/** Stops a request's pieces. @return true if none is under way: complete it now */
bool tp_comm_fragment_stop(telpher_request *req, telpher_status why);
void tp_comm_fragment_fini(telpher_context *ctx);

/* ---- in order ---- */

/** Something that must not be seen before what the same peer sent earlier has landed. */
struct tp_comm_delivery {
    struct tp_list link;
    bool landed; /* may be run when it is the first */
    /* Both free it; drop, where the peer is lost and it was landed. */
    void (*run)(struct tp_comm_peer *peer, struct tp_comm_delivery *landing);
    void (*drop)(struct tp_comm_peer *peer, struct tp_comm_delivery *landing);
};

/** Runs from the front what has landed. */
void tp_comm_delivery_run(struct tp_comm_peer *peer);
/** Runs at once if nothing is before it; else queues. */
void tp_comm_delivery_add(struct tp_comm_peer *peer, struct tp_comm_delivery *landing);
void tp_comm_delivery_lose(struct tp_comm_peer *peer);

void tp_comm_message_lose_peer(struct tp_comm_peer *peer);
/** Gives messages to handlers that came after them. */
unsigned tp_comm_message_run_unhandled(telpher_context *ctx);
/** Frees messages whose buffers never came. */
void tp_comm_message_fini(telpher_context *ctx);
void tp_comm_channel_lose_peer(telpher_context *ctx, const struct tp_comm_peer *peer);
void tp_comm_channel_fini(telpher_context *ctx);

/* ---- collectives ---- */

/**
 * Gives every rank what every rank gave: by Bruck's algorithm, in log2(size) rounds.
 * @param mine  @p len bytes, also 0. @param all  size * len bytes.
 */
telpher_status tp_comm_gather(telpher_context *ctx, const void *mine, size_t len,
                              void *all, tp_ns deadline);

/** Frees steps that still lie with a peer that is gone. */
void tp_comm_gather_lose_peer(const struct tp_comm_peer *peer);
void tp_comm_gather_fini(telpher_context *ctx);

/* ---- finding each other ---- */

/** Who we are and how to reach the others; everything is filled by tp_bootstrap_open. */
struct tp_bootstrap {
    uint32_t rank, size;
    telpher_status (*gather)(struct tp_bootstrap *boot, const void *mine, size_t len,
                             void *all, struct tp_error *err);
    void (*close)(struct tp_bootstrap *boot);
    const telpher_bootstrap *user;
    const telpher_two_sided *two_sided; /* the caller's, or NULL */
    struct tp_conn *conn; /* to the root */
    struct telpher_root *root; /* ours, if we are it */
    tp_ns deadline;
};

struct tp_comm_settings;
telpher_status tp_bootstrap_open(const telpher_context_params *params,
                                 const struct tp_comm_settings *settings,
                                 struct tp_bootstrap *boot, struct tp_error *err);

/* ---- the context ---- */

/** What a transport's events come with. */
struct tp_comm_link {
    telpher_context *ctx;
    struct tp_net *net; /* NULL: joins us to nobody */
    bool needed;
};

struct tp_comm_handler {
    telpher_msg_fn post, entry;
    void *user;
    bool ordered; /* its messages are delivered in the order of their sends */
    uint32_t credits; /* 0 = no limit */
    struct tp_credits *flows; /* by rank; NULL: it never had a limit */
};

/** A message came from @p rank. @return false: it was sent without a credit */
bool tp_message_receive_credit(const struct tp_comm_handler *h, uint32_t rank);
/** One was consumed; the sender hears of it in batches. */
void tp_message_return_credit(struct tp_comm_peer *peer, uint32_t handler);
/** NULL is fine. */
void tp_message_free_handlers(struct tp_comm_handler *handlers);

enum { TP_COMM_AT_END = 8 };

struct telpher_context {
    uint32_t rank, size, local_rank, local_size; /* never change */
    bool running; /* progress is under way */
    uint64_t happened; /* things, in all calls of progress */
    size_t net_count;
    struct tp_comm_link nets[TP_COMM_NETS];
    const struct tp_net *unused; /* to this rank itself: not turned to yet */
    uint8_t *cards; /* of all ranks, card_bytes each: peer.c */
    size_t card_bytes;
    _Atomic uint8_t *board; /* revocation.c; NULL: nothing is lent */
    int board_fd;
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
    struct tp_list lent; /* pieces whose receivers have not taken them yet */
    /* channels by rank and id; windows by number; handlers */
    struct tp_map channels;
    struct telpher_win **windows;
    uint32_t window_count;
    struct tp_comm_handler *handlers;
    bool handlers_changed;
    struct tp_list unhandled; /* parcels of messages without a handler */
    uint8_t *scratch; /* for messages whose buffers travel inside */
    /* collectives */
    uint32_t gathers;
    telpher_status collectives; /* OK, or why there are no more */
    struct tp_list steps; /* parcels */
    tp_ns spin_ns, leave_ns;
    tp_ns
        alone_ns; /* a wait without a result yields after this; 0 at first: progress.c */
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
    bool lend; /* TELPHER_LEND */
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
