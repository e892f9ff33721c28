/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of the network transports of a job of ranks. A transport fills one
 * table. The rendezvous engine of core/comm (rndv.h) calls through it; users of
 * messages call the engine.
 *
 * An eager message carries its data and is copied by send(). A rendezvous moves data
 * that stays in the sender's memory until the receiver has named a destination, so
 * nothing large is buffered. The engine owns that protocol: its frames (RTS, CTS,
 * reject, done) travel by control(). A transport only moves the data, by write_data()
 * or get() or both. A transport with a rendezvous of its own (UCX) supplies rndv_send,
 * rndv_recv and rndv_reject; control, write_data, is_idle, expect_data, can_get and get
 * are then NULL.
 *
 * Messages and frames of one pair of ranks arrive in the order they were sent. The data
 * of different rendezvous may finish in any order.
 *
 * Threads: one thread at a time per tp_net. Events are called from progress();
 * data_sent() also from write_data(). An event may call everything but progress and
 * destroy. No function blocks. Once a peer is connected, the eager path does not
 * allocate, lock or make a system call that it can avoid.
 */
#ifndef TELPHER_WAIST_NET_H
#define TELPHER_WAIST_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/status.h>

#include "base/error.h"
#include "base/os/clock.h"

enum {
    TP_NET_HEADER_MAX = 128, /**< [bytes] of a message's header */
    TP_NET_CONTROL_MAX = 160, /**< [bytes] of a frame of the engine */
    TP_NET_ADDRESS_MAX = 1024, /**< [bytes] of a transport's address */
};

struct tp_net;
struct tp_rndv;
/** A rendezvous that a peer offers: of the engine, or of a transport with its own. */
struct tp_net_rndv;

/** An operation in progress. The caller owns it; the transport borrows it until
 *  done(). */
struct tp_net_op {
    /** Called exactly once, from progress(). OK, PEER_LOST, CANCELED (rejected), IO. */
    void (*done)(struct tp_net_op *op, telpher_status status);
    /** enum telpher_mem_kind of the memory: host memory (0), or a kind that the
     *  transport moves itself (tp_net.kinds). */
    uint32_t kind;
};

/**
 * For transports: clears *@p op and completes that operation, if any, with PEER_LOST.
 * @return true if there was one. Its done() may have started another operation
 */
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
    TP_NET_GET_NOW, /**< the peer sleeps, so writing would wait for it */
};

/** Events of a transport. The engine passes the first three on to its user. */
struct tp_net_events {
    /** An eager message. All arguments are borrowed until return; @p data has any
     *  alignment. */
    void (*on_message)(void *user, uint32_t from, const void *header, size_t header_len,
                       const void *data, size_t len);
    /** A peer offers @p len bytes by rendezvous. Receive or reject it, now or later. */
    void (*on_rndv)(void *user, uint32_t from, const void *header, size_t header_len,
                    uint64_t len, struct tp_net_rndv *rndv);
    /**
     * The peer died or disconnected; called once per peer. @p why is OK if the
     * transport can see that the peer disconnected in order, PEER_LOST if it died, and
     * PROTO if it broke the protocol (also after close_peer()). If this rank could not
     * connect or closed the connection itself, @p why is the cause: UNREACHABLE,
     * REFUSED, AUTH, NO_MEMORY or IO. The transport no longer uses the memory of its
     * operations. For the engine's user: all operations that need the peer completed
     * with PEER_LOST before this call. Offers not yet received are void and must not be
     * rejected. Later sends return PEER_LOST.
     */
    void (*on_lost)(void *user, uint32_t peer, telpher_status why);

    /* The remaining events are between transports and the engine. */

    /** A frame sent by control(). @p data_len bytes of data with id 0 follow it. */
    void (*on_control)(void *user, uint32_t from, const void *frame, size_t len,
                       size_t data_len);
    /**
     * Asks for the destination of data of which @p left bytes, more than 0, are still
     * to come in this part.
     * @param ret_room  [bytes] wanted, at most @p left; the transport skips the rest
     * @return false: the peer broke the protocol. The engine closed
     *         the connection.
     */
    bool (*data_at)(void *user, uint32_t from, uint32_t id, size_t left,
                    uint8_t **ret_dst, size_t *ret_room);
    /** The next @p len bytes of the data were stored or skipped. */
    void (*data_received)(void *user, uint32_t from, uint32_t id, size_t len);
    /** write_data() no longer borrows the next @p len bytes that it took with @p arg. */
    void (*data_sent)(void *user, void *arg, size_t len);
};

/** Parameters of tp_net_ops.create(). */
struct tp_net_params {
    uint32_t rank, size; /**< of this process in the job */
    uint64_t job; /**< the same in all ranks of the job, different in every other job */
    const struct tp_net_events *events; /**< the transport keeps the pointer */
    void *user; /**< passed to the events */
    tp_ns lost_after; /**< a dead peer is detected within this time; 0 = 1 s */
    bool copies; /**< data is never copied directly from another process's memory */
    /** Borrowed until create() returns; NULL = the bootstrap has no collective. */
    const struct telpher_two_sided *two_sided;
};

/** Table of one transport. */
struct tp_net_ops {
    const char *name; /**< "shm"; at most 13 characters */
    bool only_if_named; /**< used only if TELPHER_TRANSPORTS names it */
    bool blind; /**< has no wake-up: a waiting thread must poll at short intervals */
    /** @return OK; UNSUPPORTED (cannot work here; err says why), NO_MEMORY, IO. */
    telpher_status (*create)(const struct tp_net_params *params,
                             struct tp_net **ret_net, struct tp_error *err);
    /**
     * Writes the address by which other ranks reach this one, at most TP_NET_ADDRESS_MAX
     * bytes.
     * @return its length
     */
    size_t (*address)(struct tp_net *net, uint8_t *dst);
    /** True if this transport reaches the rank with this address (of the same
     *  transport). Addresses come from peers: check them. */
    bool (*reaches)(struct tp_net *net, const uint8_t *address, size_t len);
    /**
     * Begins to connect, before the first send to @p peer. Never blocks: sends made
     * before the connection is established are queued. Both sides may connect at the
     * same time.
     * @return OK; INVALID (address), NO_MEMORY (also: no descriptors; the caller may
     *         retry), UNREACHABLE (also: on_lost() was called for the peer).
     */
    telpher_status (*connect)(struct tp_net *net, uint32_t peer, const uint8_t *address,
                              size_t len);
    /**
     * Sends an eager message. Both buffers may be reused on return.
     * @param len  at most eager_max - header_len.
     * @return OK; AGAIN (no room: progress, try again), PEER_LOST.
     */
    telpher_status (*send)(struct tp_net *net, uint32_t peer, const void *header,
                           size_t header_len, const void *data, size_t len);
    /* ---- for the engine's rendezvous; NULL if the transport has its own ---- */

    /**
     * Sends a frame of the engine, in order with messages. @p data, of id 0, follows it
     * as by write_data(), but is copied if it cannot be sent at once.
     * @param len  at most TP_NET_CONTROL_MAX. @param data_len  at most first_max.
     * @return OK, AGAIN, PEER_LOST
     */
    telpher_status (*control)(struct tp_net *net, uint32_t peer, const void *frame,
                              size_t len, const void *data, size_t data_len);
    /**
     * Sends data to the destination that the peer's engine has for @p id. NULL: get()
     * moves all data. Accepted bytes stay borrowed until events->data_sent() reports them.
     * @return [bytes] accepted, 0: no room now, or the peer is lost
     */
    size_t (*write_data)(struct tp_net *net, uint32_t peer, uint32_t id,
                         const void *src, size_t len, void *arg);
    /** True if data passed to control() now would be sent at once. NULL: first_max is
     *  0. */
    bool (*is_idle)(struct tp_net *net, uint32_t peer);
    /**
     * Posts @p dst for data of @p id; the transport chooses the parts, and data_received()
     * reports each. NULL: the transport calls data_at() when data arrives.
     * @return [bytes] posted now; 0: the peer is lost
     */
    size_t (*expect_data)(struct tp_net *net, uint32_t peer, uint32_t id, void *dst,
                          size_t len);
    /** Says whether get() may move data of @p peer now. Not called, so may be NULL, if
     *  write_data or get is NULL. */
    enum tp_net_get (*can_get)(struct tp_net *net, uint32_t peer);
    /**
     * Copies out of the peer's memory. NULL: write_data() moves all data.
     * @return OK; UNSUPPORTED (no longer allowed), IO (the memory cannot be read),
     *         PEER_LOST (on_lost follows)
     */
    telpher_status (*get)(struct tp_net *net, uint32_t peer, uint64_t address,
                          void *dst, size_t len);

    /* ---- a rendezvous of the transport's own; NULL if the engine's is used ---- */

    /**
     * Offers @p len > 0 bytes at @p src, borrowed until @p op is done. The header may
     * be reused on return.
     * @return OK (op->done will be called); AGAIN, PEER_LOST, NO_MEMORY (it will not be
     *         called).
     */
    telpher_status (*rndv_send)(struct tp_net *net, uint32_t peer, const void *header,
                                size_t header_len, const void *src, size_t len,
                                struct tp_net_op *op);
    /**
     * Receives the first @p len bytes, from 1 to the length offered, into @p dst,
     * borrowed until @p op is done. The sender's op completes as well. Consumes @p
     * rndv.
     */
    void (*rndv_recv)(struct tp_net *net, struct tp_net_rndv *rndv, void *dst,
                      size_t len, struct tp_net_op *op);
    /** Rejects the offer: the sender's op completes with CANCELED. Consumes @p rndv. */
    void (*rndv_reject)(struct tp_net *net, struct tp_net_rndv *rndv);

    /* ---- */

    /** Closes the connection to a peer that broke the protocol. Its operations end as
     *  if it had died, on_lost() included, at the next progress. */
    void (*close_peer)(struct tp_net *net, uint32_t peer);
    /** Makes progress. @return number of events handled, 0 if none. */
    unsigned (*progress)(struct tp_net *net);
    /**
     * Before sleeping: requests that fd() becomes readable when an event arrives.
     * @return OK, or AGAIN: an event is already there, call progress instead.
     */
    telpher_status (*arm)(struct tp_net *net);
    /** A descriptor for poll(2), borrowed. -1 is allowed if the table is `blind`, or if
     *  no event can arrive while this rank sleeps, once arm() has returned OK (loop). */
    int (*fd)(struct tp_net *net);
    /** True while sent data would be lost if this process ended: progress before
     *  exit. @param ret_peer  a rank that has not received its data; UINT32_MAX: not
     *  known */
    bool (*busy)(struct tp_net *net, uint32_t *ret_peer);
    /** Disconnects in order, so that no peer takes it for a death, and frees the
     *  object. Callbacks of unfinished operations are not called. */
    void (*destroy)(struct tp_net *net);
};

/** First member of every transport's object. */
struct tp_net {
    const struct tp_net_ops *ops;
    struct tp_rndv *rndv; /**< owned and set by the engine */
    size_t eager_max; /**< [bytes] of header and data of one eager message, >= 1024 */
    /** [bytes] from which a rendezvous is faster than eager, <= eager_max */
    size_t rndv_min;
    size_t first_max; /**< [bytes] of data that may follow an RTS before its CTS */
    uint32_t id_max; /**< of rendezvous data, 0 = any 32 bits */
    /** Device memory that rendezvous data may be sent from and received into: a bit
     *  per enum telpher_mem_kind. Host is implied. */
    uint32_t kinds;
    size_t device_min; /**< [bytes] minimum of a rendezvous with device memory */
    bool whole; /**< rndv_recv() receives the whole length offered, or nothing */
    /** The receiver may read rendezvous data from the sender's memory without the
     *  sender's participation, also after the sender declared the receiver dead. */
    bool reads;
};

/** Transports in the order they are tried for a peer, NULL-terminated. Each library
 *  defines the list (src/builtin_net.c). */
extern const struct tp_net_ops *const tp_builtin_nets[];

#endif
