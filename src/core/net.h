/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message side of the transport waist: what a job of ranks asks of a network. A
 * transport fills one table; core/comm calls through it. There are two kinds of message.
 * An *eager* one carries its data inside and is copied by send(). A *bulk* one announces
 * data that stays where it is until the receiver has named a place for it: so nothing large
 * is ever buffered, and a receiver that is late holds up nobody but its own sender.
 *
 * Messages of one pair of ranks, eager and bulk together, are announced in the order they
 * were sent. The data of bulk messages may finish in any order.
 *
 * Threads: one thread at a time per tp_net. Callbacks come from progress() and from no other
 * call; they may call send, send_bulk, recv_bulk, drop_bulk and give_up, not progress or destroy.
 * Nothing blocks, and once a peer is connected nothing on the eager path allocates, locks
 * or makes a system call that it could avoid.
 */
#ifndef TELPHER_CORE_NET_H
#define TELPHER_CORE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/status.h>

#include "base/error.h"
#include "base/os/clock.h"

enum {
    TP_NET_HEADER_MAX = 128, /**< [bytes] of a message's header */
    TP_NET_CARD_MAX = 1024, /**< [bytes] of what a rank tells the others of itself */
};

struct tp_net;
/** An announced bulk message, the transport's, until recv_bulk's end or drop_bulk. */
struct tp_net_bulk;

/** Something under way; the caller's, borrowed until done. */
struct tp_net_op {
    /** Called exactly once, from progress(). OK, PEER_LOST, CANCELED (dropped there), IO. */
    void (*done)(struct tp_net_op *op, telpher_status status);
    /** enum telpher_mem_kind of the memory: the host's (0), or one that the transport moves
     *  itself (tp_net.kinds). */
    uint32_t kind;
};

/** For transports: takes *@p op, if there is one, and tells it that its peer is lost.
 *  @return true if there was one: what it was told may have begun another */
static inline bool
tp_net_op_lose(struct tp_net_op **op)
{
    struct tp_net_op *lost = *op;

    *op = NULL;
    if (lost != NULL) {
        lost->done(lost, TELPHER_ERR_PEER_LOST);
    }
    return lost != NULL;
}

/** What a transport tells. All are called from progress(). */
struct tp_net_events {
    /** An eager message; everything is borrowed until return, @p data has any alignment. */
    void (*on_message)(void *user, uint32_t from, const void *header, size_t header_len,
                       const void *data, size_t len);
    /** A bulk message of @p len bytes was announced: recv_bulk or drop_bulk, now or later. */
    void (*on_bulk)(void *user, uint32_t from, const void *header, size_t header_len,
                    uint64_t len, struct tp_net_bulk *bulk);
    /**
     * The peer is gone, once per peer: it died, or said goodbye (@p why is OK where that can
     * be told). All operations that need it are done with PEER_LOST
     * before this call; its announced bulks not taken yet are void, and are not to be
     * dropped. Later sends return PEER_LOST.
     */
    void (*on_lost)(void *user, uint32_t peer, telpher_status why);
};

/** What a transport is made with. */
struct tp_net_params {
    uint32_t rank, size; /**< of this process in the job */
    uint64_t job; /**< the same number in all ranks, another in every other job */
    const struct tp_net_events *events; /**< kept */
    void *user; /**< for the events */
    tp_ns lost_after; /**< a peer that is dead is noticed within this time; 0 = 1 s */
    bool copies; /**< data never goes straight from another process's memory */
    /** Borrowed until create() returns; NULL = the bootstrap has none. */
    const struct telpher_two_sided *two_sided;
};

/** Table of one transport. */
struct tp_net_ops {
    const char *name; /**< "shm" */
    bool only_if_named; /**< used only where TELPHER_TRANSPORTS names it */
    bool blind; /**< nothing wakes who sleeps: sleep shortly */
    /** @return OK; UNSUPPORTED (cannot work here; err says why), NO_MEMORY, IO. */
    telpher_status (*create)(const struct tp_net_params *params,
                             struct tp_net **ret_net, struct tp_error *err);
    /** Writes the card that lets others reach this rank; at most TP_NET_CARD_MAX.
     *  @return its length */
    size_t (*card)(struct tp_net *net, uint8_t *dst);
    /** True if the rank with this card (of the same transport) can be reached this way.
     *  Cards come from peers: check them. */
    bool (*reaches)(struct tp_net *net, const uint8_t *card, size_t len);
    /**
     * Begins to connect, before the first send to @p peer. Never blocks: what is sent before
     * the connection stands waits. Both sides may do it at the same time.
     * @return OK; INVALID (card), NO_MEMORY (also: no descriptors; may be tried again),
     *         UNREACHABLE (also: on_lost() was called for it).
     */
    telpher_status (*connect)(struct tp_net *net, uint32_t peer, const uint8_t *card,
                              size_t len);
    /**
     * Sends an eager message; both parts may be reused at once.
     * @param len  at most eager_max - header_len.
     * @return OK; AGAIN (no room: progress, try again), PEER_LOST.
     */
    telpher_status (*send)(struct tp_net *net, uint32_t peer, const void *header,
                           size_t header_len, const void *data, size_t len);
    /**
     * Announces @p len > 0 bytes at @p src, borrowed until @p op is done; the header may be
     * reused at once.
     * @return OK (op->done will be called), AGAIN, PEER_LOST, NO_MEMORY: not called.
     */
    telpher_status (*send_bulk)(struct tp_net *net, uint32_t peer, const void *header,
                                size_t header_len, const void *src, size_t len,
                                struct tp_net_op *op);
    /** Brings the first @p len bytes, 1 up to what was announced, to @p dst, borrowed until
     *  @p op is done; the sender's op is then done as well. @p bulk is used up. */
    void (*recv_bulk)(struct tp_net *net, struct tp_net_bulk *bulk, void *dst,
                      size_t len, struct tp_net_op *op);
    /** The data is not wanted: the sender's op is done with CANCELED. */
    void (*drop_bulk)(struct tp_net *net, struct tp_net_bulk *bulk);
    /** Gives a peer up that broke its word: all that is under way with it ends as if it had
     *  died, on_lost included, at the next progress. */
    void (*give_up)(struct tp_net *net, uint32_t peer);
    /** Moves things on. @return how many things happened, 0 if none. */
    unsigned (*progress)(struct tp_net *net);
    /**
     * Before sleeping: asks that fd() becomes readable when something comes.
     * @return OK, or AGAIN: something is there already, progress instead.
     */
    telpher_status (*arm)(struct tp_net *net);
    /** A descriptor for poll(2), borrowed; -1 if there is none. */
    int (*fd)(struct tp_net *net);
    /** True while something sent would be lost if this process ended: progress before
     *  leaving. @param ret_peer  a rank that has not taken it; UINT32_MAX: not known */
    bool (*busy)(struct tp_net *net, uint32_t *ret_peer);
    /** Says goodbye, so that no peer takes it for a death, and frees. Ops not done: no
     *  callback comes any more. */
    void (*destroy)(struct tp_net *net);
};

/** First member of every transport's object. */
struct tp_net {
    const struct tp_net_ops *ops;
    size_t eager_max; /**< [bytes] of header and data of one eager message, >= 1024 */
    /** [bytes] from which bulk is better than eager, <= eager_max */
    size_t bulk_min;
    /** Device memory that bulks may come from and go to: a bit per enum telpher_mem_kind.
     *  Host is implied. */
    uint32_t kinds;
    size_t device_min; /**< [bytes] of such a bulk at least */
    bool whole; /**< recv_bulk() receives all that was announced, or nothing */
    /** Who receives a bulk may read it out of the sender's memory, without a word of the sender,
     *  which may have given it up meanwhile. */
    bool reads;
};

/** Transports in the order they are tried for a peer, NULL behind the last: defined by the
 *  artefact (src/builtin_net.c). */
extern const struct tp_net_ops *const tp_builtin_nets[];

#endif
