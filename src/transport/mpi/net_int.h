/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks by two-sided ones (telpher/two_sided.h). All but rendezvous data is
 * one message with tag 0 for which a ring of receives from any rank stands ready, looked at
 * in the order they were posted: so messages of a pair stay in order. Rendezvous data
 * travels with its id as the tag, to a receive that was posted before the CTS left: so
 * nothing large arrives unexpected.
 *
 *   net.c      the table; progress, losing, leaving
 *   send.c     messages and data out
 *   receive.c  messages and data in
 */
#ifndef TELPHER_TRANSPORT_MPI_NET_INT_H
#define TELPHER_TRANSPORT_MPI_NET_INT_H

#include <telpher/two_sided.h>

#include "base/container/list.h"
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
    MPI_TAG_MESSAGES = 0, /* ids of rendezvous data are the others */
};
#define MPI_PART ((uint64_t)1 << 30) /* [bytes] of data in one of its messages */

enum mpi_kind {
    MPI_MESSAGE = 1, /* header, data */
    MPI_CONTROL, /* a frame of the engine, as a header */
    MPI_BYE, /* len: 0 = leaves, 1 = gives us up */
    MPI_KINDS
};

/** What each message begins with. */
struct mpi_prefix {
    uint64_t job; /* who does not know it is a stranger */
    uint64_t len;
    uint32_t kind; /* enum mpi_kind */
    uint32_t header_len;
};
_Static_assert(sizeof(struct mpi_prefix) == 24, "frozen wire layout");

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

/** A part of rendezvous data under way; the memory is the engine's. */
struct mpi_data {
    struct tp_list link; /* of net->going or net->coming */
    struct mpi_link *peer;
    uint32_t id; /* in */
    size_t len;
    void *arg; /* out: of write_data() */
    telpher_two_sided_op op;
};

struct mpi_link {
    struct mpi_net *net;
    uint32_t rank;
    uint32_t slots; /* in use */
    uint32_t sent; /* messages, to choose those that wait to be matched */
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
    struct tp_list going, coming; /* mpi_data */
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
telpher_status tp_mpi_control(struct tp_net *net, uint32_t peer, const void *frame,
                              size_t len, const void *data, size_t data_len);
size_t tp_mpi_write_data(struct tp_net *net, uint32_t peer, uint32_t id,
                         const void *src, size_t len, void *arg);
/** Moves slots and data out on. @return how many ended */
unsigned tp_mpi_progress_out(struct mpi_net *n);
/** A part of data of a peer; NULL without memory. */
struct mpi_data *tp_mpi_data(struct mpi_link *peer, size_t len);
/** The other library is to let go of the data that goes to a peer. */
void tp_mpi_stop_going(struct mpi_link *peer);

/* ---- receive.c ---- */
/** Makes the ring of receives ready. */
telpher_status tp_mpi_receives_open(struct mpi_net *n);
/** Takes back those that nothing came for. */
void tp_mpi_receives_close(struct mpi_net *n);
size_t tp_mpi_expect_data(struct tp_net *net, uint32_t peer, uint32_t id, void *dst,
                          size_t len);
/** Takes what has come. @return how much */
unsigned tp_mpi_progress_in(struct mpi_net *n);
/** The same of data that comes from it. */
void tp_mpi_stop_coming(struct mpi_link *peer);

#endif
