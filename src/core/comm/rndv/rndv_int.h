/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the rendezvous engine.
 *
 *   rndv.c          create, destroy, progress, loss of a peer
 *   rndv_send.c     sends RTS and data, receives the answers
 *   rndv_receive.c  receives RTS and data, sends the answers
 *   rndv_choice.c   chooses the path of the data
 */
#ifndef TELPHER_CORE_COMM_RNDV_RNDV_INT_H
#define TELPHER_CORE_COMM_RNDV_RNDV_INT_H

#include "base/container/list.h"
#include "core/comm/rndv/rndv.h"

#define TP_RNDV_TOPIC "rndv"

enum {
    TP_RNDV_FIRSTS = 4, /* limit of RTS with data that a peer has not answered */
    TP_RNDV_CLASSES = 12, /* size classes: 4 KiB, 8 KiB, ... and larger */
};

enum tp_rndv_kind {
    TP_RNDV_RTS = 1, /* id: the sender's; len, at: its memory; then the user's header */
    TP_RNDV_CTS, /* id: the sender's; len: wanted; at: the id for the data */
    TP_RNDV_REJECT, /* id: the sender's */
    TP_RNDV_DONE, /* id: the sender's; the receiver has copied the data itself */
    TP_RNDV_FAILED, /* id: the sender's; the sender's memory cannot be read */
};

/** Head of a frame of the engine. */
struct tp_rndv_frame {
    uint32_t kind; /**< enum tp_rndv_kind */
    uint32_t id; /**< never 0 */
    uint64_t len; /**< [bytes] */
    uint64_t at;
};
_Static_assert(sizeof(struct tp_rndv_frame) == 24, "frozen wire layout");

enum tp_rndv_state {
    TP_RNDV_FREE, /* of r->idle */
    TP_RNDV_OFFERED, /* out: no answer yet */
    TP_RNDV_WRITING, /* out: data moves; in peer->writing until the transport has all */
    TP_RNDV_UNTAKEN, /* in: belongs to the user */
    TP_RNDV_ANSWERING, /* in: the answer waits for room; of r->work */
    TP_RNDV_GETTING, /* in: copied by get(); of r->work */
    TP_RNDV_COMING, /* in: CTS sent */
    TP_RNDV_HERE, /* in: complete before it was received; of r->work */
    TP_RNDV_SKIPPING, /* in: rejected while its first data arrives */
};

/** A rendezvous, of either direction. */
struct tp_net_rndv {
    struct tp_list of_peer; /* of peer->out or peer->in */
    struct tp_list work; /* of the list that the state names */
    struct tp_rndv_peer *peer;
    enum tp_rndv_state state;
    enum tp_rndv_kind answer; /* ANSWERING */
    uint32_t id, peer_id;
    bool first; /* data was sent with the RTS, which has no answer yet */
    bool in_write; /* write_data() runs */
    uint8_t *memory; /* in: NULL until received */
    uint8_t *kept; /* in: first data that arrived before it was received */
    size_t len; /* offered, then wanted */
    size_t moved; /* out: accepted by the transport; in: arrived or copied */
    size_t left; /* out: no longer borrowed by the transport */
    size_t turn; /* out: bytes accepted since other rendezvous had their turn */
    size_t first_left; /* in: first data still to come */
    uint64_t address; /* in: of the sender's memory */
    tp_ns since; /* in: time at which it was received; 0 = not measured */
    bool got; /* in: by get() */
    struct tp_net_op *op; /* NULL: in, not received yet */
};

/** Time that data of one size class takes from a peer. */
struct tp_rndv_ways {
    uint32_t ns[2]; /* typical, indexed by tp_net_rndv.got; 0: not known */
    uint32_t turns; /* number of choices */
};

struct tp_rndv_peer {
    struct tp_list out, in; /* all rendezvous, in the order of their RTS */
    struct tp_list writing;
    struct tp_list pushing; /* of r->pushing, while `writing` is not empty */
    struct tp_rndv *r;
    uint32_t rank;
    bool broken; /* broke the protocol: on_lost() will be called */
    bool gone; /* on_lost() was called */
    bool rejects; /* it rejected the last first data */
    /* RTS with data that it, or this rank, has not answered */
    unsigned firsts_out, firsts_in;
    struct tp_net_rndv *arriving; /* its first data is arriving */
    struct tp_rndv_ways ways[TP_RNDV_CLASSES];
};

struct tp_rndv {
    struct tp_net *net;
    const struct tp_net_events *user_events;
    void *user;
    uint32_t size;
    struct tp_rndv_peer **peers; /* by rank, NULL: not created yet */
    struct tp_net_rndv **all; /* by id - 1; their memory is reused, never freed */
    uint32_t count, room;
    struct tp_list idle; /* by work */
    struct tp_list work; /* needs a step in progress */
    struct tp_list pushing; /* peers */
};

/* ---- rndv.c ---- */
/** The peer of a rank, created at its first use; NULL: no memory. */
struct tp_rndv_peer *tp_rndv_peer(struct tp_rndv *r, uint32_t rank);
/** Closes the connection to a peer that broke the protocol, or for lack of memory. */
void tp_rndv_break_off(struct tp_rndv_peer *p, const char *why);
/** Takes a free rendezvous. @return OK, NO_MEMORY, AGAIN (no id is free) */
telpher_status tp_rndv_take(struct tp_rndv_peer *p, struct tp_list *list,
                            struct tp_net_rndv **ret_rndv);
void tp_rndv_give(struct tp_net_rndv *b);
/** The peer's rendezvous of that id and state; NULL if there is none. */
struct tp_net_rndv *tp_rndv_find(const struct tp_rndv_peer *p, uint64_t id,
                                 enum tp_rndv_state state);
/** Frees it and completes its op. */
void tp_rndv_complete(struct tp_net_rndv *b, telpher_status status);

/* ---- rndv_send.c ---- */
/** Handles the answer to an RTS. @return false: the peer broke the protocol */
bool tp_rndv_answered(struct tp_rndv_peer *p, const struct tp_rndv_frame *f);
/** Passes as much data to the transport as it accepts. @return number of parts */
unsigned tp_rndv_push(struct tp_rndv_peer *p);
void tp_rndv_data_sent(void *user, void *arg, size_t len);

/* ---- rndv_receive.c ---- */
/** Handles an RTS. @return false: the peer broke the protocol */
bool tp_rndv_offered(struct tp_rndv_peer *p, const struct tp_rndv_frame *f,
                     const void *header, size_t header_len, size_t data_len);
/** Continues a rendezvous of r->work. @return number of steps */
unsigned tp_rndv_step(struct tp_net_rndv *b);
bool tp_rndv_data_at(void *user, uint32_t from, uint32_t id, size_t left,
                     uint8_t **ret_dst, size_t *ret_room);
void tp_rndv_data_received(void *user, uint32_t from, uint32_t id, size_t len);

/* ---- rndv_choice.c ---- */
/** True if get() should copy the data that is received now. */
bool tp_rndv_chooses_get(struct tp_net_rndv *b);
/** Records how long the data took that has arrived. */
void tp_rndv_measure(const struct tp_net_rndv *b);

#endif
