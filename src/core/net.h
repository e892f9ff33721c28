/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message side of the transport waist: what a job of ranks asks of a network. A
 * transport fills one table. The engine of core/comm (rndv.h) calls through it; users of
 * messages call the engine.
 *
 * An eager message carries its data and is copied by send(). A rendezvous moves data that
 * stays in the sender's memory until the receiver has named a destination, so nothing large
 * is buffered. The engine owns that protocol: its frames (RTS, CTS, reject, done) travel by
 * control(); a transport only moves the data, by write_data() or get() or both. A transport
 * with a rendezvous of its own (UCX) supplies rndv_send, rndv_recv and rndv_reject instead.
 *
 * Messages and frames of one pair of ranks arrive in the order they were sent. The data of
 * rendezvous may finish in any order.
 *
 * Threads: one thread at a time per tp_net. Events come from progress(); data_left() also
 * from write_data(). They may call everything but progress and destroy. Nothing blocks, and
 * once a peer is connected nothing on the eager path allocates, locks or makes a system
 * call that it could avoid.
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
    TP_NET_CONTROL_MAX = 160, /**< [bytes] of a frame of the engine */
    TP_NET_CARD_MAX = 1024, /**< [bytes] of what a rank tells the others of itself */
};

struct tp_net;
struct tp_rndv;
/** A rendezvous that a peer offers: of the engine, or of a transport with its own. */
struct tp_net_rndv;

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

/** Whether the engine may copy out of a peer's memory. */
enum tp_net_get {
    TP_NET_GET_NEVER,
    TP_NET_GET_MAYBE, /**< the engine chooses what is faster */
    TP_NET_GET_NOW, /**< the peer sleeps: writing would wait for it */
};

/** What a transport reports. The engine passes the first three on to its user. */
struct tp_net_events {
    /** An eager message; everything is borrowed until return, @p data has any alignment. */
    void (*on_message)(void *user, uint32_t from, const void *header, size_t header_len,
                       const void *data, size_t len);
    /** A peer offers @p len bytes by rendezvous: receive or reject it, now or later. */
    void (*on_rndv)(void *user, uint32_t from, const void *header, size_t header_len,
                    uint64_t len, struct tp_net_rndv *bulk);
    /**
     * The peer is gone, once per peer: it died, or said goodbye (@p why is OK where that can
     * be told). A transport uses no memory of its operations any more. To the engine's user:
     * all operations that need the peer are done with PEER_LOST before this call; offers
     * not taken yet are void, and are not to be rejected. Later sends return PEER_LOST.
     */
    void (*on_lost)(void *user, uint32_t peer, telpher_status why);

    /* The rest is between transports and the engine. */

    /** A frame sent by control(). @p data_len bytes of data with id 0 follow it. */
    void (*on_control)(void *user, uint32_t from, const void *frame, size_t len,
                       size_t data_len);
    /**
     * Where data goes of which @p left bytes, more than 0, are still to come in this part.
     * @param ret_room  [bytes] wanted, at most @p left; the rest is skipped
     * @return false: the peer broke the protocol. The engine has given it up.
     */
    bool (*data_at)(void *user, uint32_t from, uint32_t id, size_t left,
                    uint8_t **ret_dst, size_t *ret_room);
    /** The next @p len bytes of the data are in place, or were skipped. */
    void (*data_came)(void *user, uint32_t from, uint32_t id, size_t len);
    /** write_data() no longer borrows the next @p len bytes that it took with @p arg. */
    void (*data_left)(void *user, void *arg, size_t len);
};

/** What a transport is made with. */
struct tp_net_params {
    uint32_t rank, size; /**< of this process in the job */
    uint64_t job; /**< the same number in all ranks, another in every other job */
    const struct tp_net_events *events; /**< kept by a transport */
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
    /* ---- for the engine's rendezvous: NULL where the transport has its own ---- */

    /**
     * Sends a frame of the engine, in order with messages; @p data, of id 0, is sent after
     * it as by write_data(), but copied where it cannot leave at once.
     * @param len  at most TP_NET_CONTROL_MAX. @param data_len  at most first_max.
     * @return OK, AGAIN, PEER_LOST
     */
    telpher_status (*control)(struct tp_net *net, uint32_t peer, const void *frame,
                              size_t len, const void *data, size_t data_len);
    /**
     * Sends data to where the peer's engine wants that of @p id. NULL: get() serves all.
     * What was taken stays borrowed until events->data_left() was called for it.
     * @return [bytes] taken, 0: no room now, or the peer is lost
     */
    size_t (*write_data)(struct tp_net *net, uint32_t peer, uint32_t id,
                         const void *src, size_t len, void *arg);
    /** True if data given now to control() would leave at once. NULL: first_max is 0. */
    bool (*is_idle)(struct tp_net *net, uint32_t peer);
    /**
     * Expects data of @p id at @p dst, in parts of its choice; data_came() reports one.
     * NULL: data_at() is asked when data comes.
     * @return [bytes] expected now; 0: the peer is lost
     */
    size_t (*expect_data)(struct tp_net *net, uint32_t peer, uint32_t id, void *dst,
                          size_t len);
    /** May get() serve now? Where there is no write_data() it always does. */
    enum tp_net_get (*can_get)(struct tp_net *net, uint32_t peer);
    /**
     * Copies out of the peer's memory.
     * @return OK; UNSUPPORTED (no longer allowed), IO (the memory cannot be read),
     *         PEER_LOST (on_lost follows)
     */
    telpher_status (*get)(struct tp_net *net, uint32_t peer, uint64_t address,
                          void *dst, size_t len);

    /* ---- a rendezvous of the transport's own: NULL where the engine has it ---- */

    /**
     * Offers @p len > 0 bytes at @p src, borrowed until @p op is done; the header may be
     * reused at once.
     * @return OK (op->done will be called), AGAIN, PEER_LOST, NO_MEMORY: not called.
     */
    telpher_status (*rndv_send)(struct tp_net *net, uint32_t peer, const void *header,
                                size_t header_len, const void *src, size_t len,
                                struct tp_net_op *op);
    /** Brings the first @p len bytes, 1 up to what was offered, to @p dst, borrowed until
     *  @p op is done; the sender's op is then done as well. @p bulk is used up. */
    void (*rndv_recv)(struct tp_net *net, struct tp_net_rndv *bulk, void *dst,
                      size_t len, struct tp_net_op *op);
    /** The data is not wanted: the sender's op is done with CANCELED. */
    void (*rndv_reject)(struct tp_net *net, struct tp_net_rndv *bulk);

    /* ---- */

    /** Gives up a peer that broke the protocol: all that is under way with it ends as if it
     *  had died, on_lost included, at the next progress. */
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
    struct tp_rndv *rndv; /**< the engine's, set by it */
    size_t eager_max; /**< [bytes] of header and data of one eager message, >= 1024 */
    /** [bytes] from which bulk is better than eager, <= eager_max */
    size_t rndv_min;
    size_t first_max; /**< [bytes] of data that may follow an RTS before its CTS */
    uint32_t id_max; /**< of rendezvous data, 0 = any 32 bits */
    /** Device memory that bulks may come from and go to: a bit per enum telpher_mem_kind.
     *  Host is implied. */
    uint32_t kinds;
    size_t device_min; /**< [bytes] of such a bulk at least */
    bool whole; /**< rndv_recv() receives all that was announced, or nothing */
    /** Who receives a bulk may read it out of the sender's memory, without a word of the sender,
     *  which may have given it up meanwhile. */
    bool reads;
};

/** Transports in the order they are tried for a peer, NULL behind the last: defined by the
 *  artefact (src/builtin_net.c). */
extern const struct tp_net_ops *const tp_builtin_nets[];

#endif
