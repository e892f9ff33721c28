/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the engine share.
 *
 *   rndv.c          create, destroy, progress, peers that are lost
 *   rndv_send.c     RTS out, the answers to it, data out
 *   rndv_receive.c  RTS in, the answers to it, data in
 *   rndv_choice.c   by which way data comes
 */
#ifndef TELPHER_CORE_COMM_RNDV_INT_H
#define TELPHER_CORE_COMM_RNDV_INT_H

#include "base/container/list.h"
#include "core/comm/rndv/rndv.h"

#define TP_RNDV_TOPIC "rndv"

enum {
    TP_RNDV_FIRSTS = 4, /* RTS with data that a peer has not answered, at most */
    TP_RNDV_CLASSES = 12, /* of sizes: 4 KiB, 8 KiB, ... and more */
};

enum tp_rndv_kind {
    TP_RNDV_RTS = 1, /* id: the sender's; len, at: its memory; then the user's header */
    TP_RNDV_CTS, /* id: the sender's; len: wanted; at: the id that the data is to carry */
    TP_RNDV_REJECT, /* id: the sender's */
    TP_RNDV_DONE, /* id: the sender's; the receiver has copied the data itself */
    TP_RNDV_FAILED, /* id: the sender's; the sender's memory cannot be read */
};

/** What a frame of the engine begins with. */
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
    TP_RNDV_WRITING, /* out: the data goes; of peer->writing until the transport has all */
    TP_RNDV_UNTAKEN, /* in: the user's */
    TP_RNDV_ANSWERING, /* in: the answer waits for room; of r->work */
    TP_RNDV_GETTING, /* in: copied by us; of r->work */
    TP_RNDV_COMING, /* in: CTS sent */
    TP_RNDV_HERE, /* in: complete before it was wanted; of r->work */
    TP_RNDV_SKIPPING, /* in: rejected while its first data comes */
};

/** A rendezvous, of either direction. */
struct tp_net_rndv {
    struct tp_list of_peer; /* of peer->out or peer->in */
    struct tp_list work; /* of the list that the state names */
    struct tp_rndv_peer *peer;
    enum tp_rndv_state state;
    enum tp_rndv_kind answer; /* ANSWERING */
    uint32_t id, peer_id;
    bool first; /* data went with the RTS, which has no answer yet */
    bool in_write; /* write_data() runs */
    uint8_t *memory; /* in: NULL until it is wanted */
    uint8_t *kept; /* in: first data that came before it was wanted */
    size_t len; /* offered, then wanted */
    size_t moved; /* out: taken by the transport; in: came, or was copied */
    size_t left; /* out: no longer borrowed by the transport */
    size_t turn; /* out: taken since others had their turn */
    size_t first_left; /* in: of the first data, still to come */
    uint64_t address; /* in: of the sender's memory */
    tp_ns since; /* in: when it was wanted; 0 = is not measured */
    bool got; /* in: by get() */
    struct tp_net_op *op; /* NULL: in, not wanted yet */
};

/** How long data of about one size takes from a peer. */
struct tp_rndv_ways {
    uint32_t ns[2]; /* typical, by tp_net_rndv.got; 0: not known */
    uint32_t turns; /* of choices */
};

struct tp_rndv_peer {
    struct tp_list out, in; /* of all, in the order of their RTS */
    struct tp_list writing;
    struct tp_list pushing; /* of r->pushing, while something is in `writing` */
    struct tp_rndv *r;
    uint32_t rank;
    bool broken; /* given up by us: on_lost() will come */
    bool gone; /* on_lost() came */
    bool rejects; /* it had no use for the last first data */
    unsigned firsts_out, firsts_in; /* not answered, by it and by us */
    struct tp_net_rndv *arriving; /* its first data is coming */
    struct tp_rndv_ways ways[TP_RNDV_CLASSES];
};

struct tp_rndv {
    struct tp_net *net;
    const struct tp_net_events *user_events;
    void *user;
    uint32_t size;
    struct tp_rndv_peer **peers; /* by rank, NULL: none yet */
    struct tp_net_rndv **all; /* by id - 1; their memory is reused, never freed */
    uint32_t count, room;
    struct tp_list idle; /* by work */
    struct tp_list work; /* to be gone on with in progress */
    struct tp_list pushing; /* peers */
};

/* ---- rndv.c ---- */
/** The peer of a rank, made if there is none; NULL: no memory. */
struct tp_rndv_peer *tp_rndv_peer(struct tp_rndv *r, uint32_t rank);
/** The peer broke the protocol. */
void tp_rndv_break_off(struct tp_rndv_peer *p, const char *what);
/** Takes one from the idle. @return OK, NO_MEMORY, AGAIN (there is no id left) */
telpher_status tp_rndv_take(struct tp_rndv_peer *p, struct tp_list *list,
                            struct tp_net_rndv **ret_bulk);
void tp_rndv_give(struct tp_net_rndv *b);
/** The peer's one of that id and state; NULL if there is none. */
struct tp_net_rndv *tp_rndv_find(const struct tp_rndv_peer *p, uint64_t id,
                                 enum tp_rndv_state state);
/** Gives it back and calls its op. */
void tp_rndv_complete(struct tp_net_rndv *b, telpher_status status);

/* ---- rndv_send.c ---- */
/** Takes the answer to an RTS. @return false: the peer broke the protocol */
bool tp_rndv_answered(struct tp_rndv_peer *p, const struct tp_rndv_frame *f);
/** Gives the transport as much data as it takes. @return parts */
unsigned tp_rndv_push(struct tp_rndv_peer *p);
void tp_rndv_data_left(void *user, void *arg, size_t len);

/* ---- rndv_receive.c ---- */
/** Takes an RTS. @return false: the peer broke the protocol */
bool tp_rndv_offered(struct tp_rndv_peer *p, const struct tp_rndv_frame *f,
                     const void *header, size_t header_len, size_t data_len);
/** Goes on with one of r->work. @return steps */
unsigned tp_rndv_step(struct tp_net_rndv *b);
bool tp_rndv_data_at(void *user, uint32_t from, uint32_t id, size_t left,
                     uint8_t **ret_dst, size_t *ret_room);
void tp_rndv_data_came(void *user, uint32_t from, uint32_t id, size_t len);

/* ---- rndv_choice.c ---- */
/** True if the data that is wanted now should be copied by get(). */
bool tp_rndv_chooses_get(struct tp_net_rndv *b);
/** Its data is here: notes how long that took. */
void tp_rndv_measure(const struct tp_net_rndv *b);

#endif
