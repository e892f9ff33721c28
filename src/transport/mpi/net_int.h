/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks by two-sided ones (telpher/two_sided.h). All but bulk data is one
 * message with tag 0 for which a ring of receives from anybody stands ready, looked at in
 * the order they were posted: so messages of a pair stay in order. Bulk data is announced,
 * asked for (GO) once its receive is posted, and travels under a tag of its own, the bulk's
 * id: so nothing large comes unexpected.
 *
 *   net.c      the table; progress, losing, leaving
 *   send.c     messages and bulks out
 *   receive.c  messages and bulks in
 */
#ifndef TELPHER_TRANSPORT_MPI_NET_INT_H
#define TELPHER_TRANSPORT_MPI_NET_INT_H

#include <telpher/two_sided.h>

#include "base/container/list.h"
#include "base/container/map.h"
#include "transport/mpi/net.h"

#define MPI_TOPIC "mpi"

enum {
    /* [bytes] header and data. With our prefix and MPI's less than 4 KiB, which every MPI
     * sends at once (Open MPI within a machine no more): of what it only announces the data
     * waits for a call of the sender's, and meanwhile stands before what others sent. */
    MPI_EAGER = 4000,
    MPI_RECEIVES = 32, /* ready for messages */
    MPI_SLOTS = 32, /* messages to a peer that have not left */
    /* Every so many, one that holds its slot until it is received: a peer that is late has
     * a bounded number of messages, and its MPI memory for no more. */
    MPI_MATCHED_EVERY = 8,
    MPI_TAG_MESSAGES = 0, /* ids of bulks are the others */
};
#define MPI_PART ((uint64_t)1 << 30) /* [bytes] of bulk data in one of its messages */

enum mpi_kind {
    MPI_MESSAGE = 1, /* header, data */
    MPI_BULK, /* id, len, header: announced */
    MPI_GO, /* id, len: the receives are posted */
    MPI_DROP, /* id: not wanted */
    MPI_BYE, /* len: 0 = leaves, 1 = gives us up */
    MPI_KINDS
};

/** What each message begins with. */
struct mpi_prefix {
    uint64_t job; /* who does not know it is a stranger */
    uint64_t len;
    uint32_t kind; /* enum mpi_kind */
    uint32_t id; /* of the bulk, the sender's: 1 .. tag_max */
    uint32_t header_len;
    uint32_t unused;
};
_Static_assert(sizeof(struct mpi_prefix) == 32, "frozen wire layout");

enum { MPI_MESSAGE_BYTES = sizeof(struct mpi_prefix) + MPI_EAGER };

struct mpi_link;

/** Memory of a message under way. */
struct mpi_slot {
    struct tp_list link; /* of net->sending or net->idle */
    struct mpi_link *to;
    telpher_two_sided_op op;
    uint8_t bytes[MPI_MESSAGE_BYTES];
};

/** A receive that stands ready. */
struct mpi_receive {
    telpher_two_sided_op op;
    uint8_t bytes[MPI_MESSAGE_BYTES];
};

/** A bulk that we announced. */
struct mpi_out {
    struct tp_list link; /* of net->going, once asked for */
    struct mpi_link *to;
    uint32_t id;
    const uint8_t *src;
    uint64_t len, done; /* len: announced, then asked for */
    struct tp_net_op *told; /* NULL: told already */
    telpher_two_sided_op op;
};

/** A bulk that was announced to us. */
struct tp_net_bulk {
    struct tp_list link; /* of net->coming, once asked for */
    struct mpi_link *from;
    uint32_t id;
    uint8_t *dst;
    uint64_t len, done;
    struct tp_net_op *told; /* NULL: told already */
    telpher_two_sided_op op;
};

struct mpi_link {
    struct mpi_net *net;
    uint32_t rank;
    uint32_t slots; /* in use */
    uint32_t sent; /* messages, to choose those that wait to be matched */
    uint32_t next_id;
    struct tp_map outs, bulks; /* mpi_out, tp_net_bulk, by id */
    bool ending, gone;
    telpher_status why;
};

struct mpi_net {
    struct tp_net base;
    struct tp_net_params params;
    telpher_two_sided calls;
    struct mpi_receive *receives; /* a ring */
    uint32_t next; /* receive to be looked at, of those */
    uint32_t ready; /* that are posted: all, unless the other library refuses */
    struct mpi_link **links; /* by rank, NULL: not used yet */
    uint32_t ending; /* links to be told as lost */
    struct tp_list sending, idle; /* slots */
    struct tp_list going, coming; /* mpi_out, tp_net_bulk under way */
    bool leaving; /* nothing is told any more */
    bool unclean; /* something of ours may be left in the other library */
};

static inline struct mpi_net *
mpi_net(struct tp_net *net)
{
    return tp_container_of(net, struct mpi_net, base);
}

/* ---- net.c ---- */
/** The link to a rank, made if there is none; NULL: no memory. */
struct mpi_link *tp_mpi_link(struct mpi_net *n, uint32_t rank);
/** The peer has left (OK) or is given up; told in progress. */
void tp_mpi_end(struct mpi_link *link, telpher_status why);
/** The other library refuses: there is nobody left. */
void tp_mpi_end_all(struct mpi_net *n, telpher_status why);
/** Takes a receive back and waits until its memory is free.
 *  @return CANCELED, IN_PROGRESS (not free yet), or what came of it */
telpher_status tp_mpi_cancel(struct mpi_net *n, telpher_two_sided_op *op);

/* ---- send.c ---- */
/** Sends a message, copied. @param must  also if the peer has enough already
 *  @return OK, AGAIN, PEER_LOST, NO_MEMORY */
telpher_status tp_mpi_post(struct mpi_link *link, const struct mpi_prefix *prefix,
                           const void *header, const void *data, size_t len, bool must);
telpher_status tp_mpi_send(struct tp_net *net, uint32_t peer, const void *header,
                           size_t header_len, const void *data, size_t len);
telpher_status tp_mpi_send_bulk(struct tp_net *net, uint32_t peer, const void *header,
                                size_t header_len, const void *src, size_t len,
                                struct tp_net_op *op);
/** The receiver wants the first bytes of a bulk, or drops it. @return false: nonsense */
bool tp_mpi_go(struct mpi_link *link, uint32_t id, uint64_t len);
bool tp_mpi_dropped(struct mpi_link *link, uint32_t id);
/** Moves slots and bulks out on. @return how many ended */
unsigned tp_mpi_progress_out(struct mpi_net *n);
/** Ends the bulks to a peer. @param tell  their ops are done with PEER_LOST */
void tp_mpi_lose_outs(struct mpi_link *link, bool tell);

/* ---- receive.c ---- */
/** Makes the ring of receives ready. */
telpher_status tp_mpi_receives_open(struct mpi_net *n);
/** Takes back those that nothing came for. */
void tp_mpi_receives_close(struct mpi_net *n);
void tp_mpi_recv_bulk(struct tp_net *net, struct tp_net_bulk *bulk, void *dst,
                      size_t len, struct tp_net_op *op);
void tp_mpi_drop_bulk(struct tp_net *net, struct tp_net_bulk *bulk);
/** Takes what has come. @return how much */
unsigned tp_mpi_progress_in(struct mpi_net *n);
/** Ends the receives of bulks of a peer. @param tell  their ops are done with PEER_LOST */
void tp_mpi_lose_bulks(struct mpi_link *link, bool tell);
/** Frees what was announced by a peer that has been told as lost. */
void tp_mpi_forget_bulks(struct mpi_link *link);

#endif
