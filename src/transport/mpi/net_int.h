/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport mpi: messages between ranks by two-sided messages (telpher/two_sided.h).
 * Everything except rendezvous data is one message with tag 0. A ring of receives from
 * any rank is posted for it and tested in order, so messages of a pair stay in order.
 * Rendezvous data has its id as the tag, and its receive is posted before the CTS is
 * sent, so no large message is unexpected to MPI.
 *
 *   net.c      the table; progress, loss, leave
 *   send.c     sends messages and data
 *   receive.c  receives messages and data
 */
#ifndef TELPHER_TRANSPORT_MPI_NET_INT_H
#define TELPHER_TRANSPORT_MPI_NET_INT_H

#include <telpher/two_sided.h>

#include "base/container/list.h"
#include "transport/mpi/net.h"

#define MPI_TOPIC "mpi"

enum {
    /*
     * [bytes] header and data. With our prefix and MPI's less than 4 KiB, which every
     * MPI sends eagerly (Open MPI within a machine no more). A larger message would be
     * a rendezvous of MPI, which waits for a call of the sender and holds up messages
     * of other ranks.
     */
    MPI_EAGER = 4000,
    MPI_RECEIVES = 32, /* receives posted for messages */
    MPI_SLOTS = 32, /* unfinished messages to a peer */
    /*
     * Every so many messages, one is sent synchronously and holds its slot until it is
     * received. So a slow peer has a bounded number of unexpected messages in MPI's
     * memory.
     */
    MPI_MATCHED_EVERY = 8,
    MPI_TAG_MESSAGES = 0, /* larger tags are ids of rendezvous data */
};
#define MPI_PART ((uint64_t)1 << 30) /* [bytes] of rendezvous data in one message */

enum mpi_kind {
    MPI_MESSAGE = 1, /* header, data */
    MPI_CONTROL, /* a frame of the engine, as a header */
    MPI_CLOSE, /* len: 0 = leaves, 1 = closes the connection with an error */
    MPI_KINDS
};

/** Head of each message. */
struct mpi_prefix {
    uint64_t job; /* rejects messages of another job */
    uint64_t len;
    uint32_t kind; /* enum mpi_kind */
    uint32_t header_len;
};
_Static_assert(sizeof(struct mpi_prefix) == 24, "frozen wire layout");

enum { MPI_MESSAGE_BYTES = sizeof(struct mpi_prefix) + MPI_EAGER };

struct mpi_link;

/** Memory of a message being sent. */
struct mpi_slot {
    struct tp_list link; /* of net->sending or net->idle */
    struct mpi_link *to;
    telpher_two_sided_op op;
    uint8_t bytes[MPI_MESSAGE_BYTES];
};

/** A posted receive. */
struct mpi_receive {
    telpher_two_sided_op op;
    uint8_t bytes[MPI_MESSAGE_BYTES];
};

/** A part of rendezvous data in transfer; memory of the engine. */
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
    uint32_t sent; /* messages, to choose those sent synchronously */
    bool ending, gone;
    telpher_status why;
};

struct mpi_net {
    struct tp_net base;
    struct tp_net_params params;
    telpher_two_sided calls;
    struct mpi_receive *receives; /* a ring */
    uint32_t next; /* next receive to test */
    uint32_t ready; /* number of posted receives: all, unless MPI fails */
    struct mpi_link **links; /* by rank, NULL: not used yet */
    uint32_t ending; /* links to be reported as lost */
    struct tp_list sending, idle; /* slots */
    struct tp_list going, coming; /* mpi_data */
    bool leaving; /* events are no longer called */
    bool unclean; /* messages of ours may be left in MPI */
};

static inline struct mpi_net *
mpi_net(struct tp_net *net)
{
    return tp_container_of(net, struct mpi_net, base);
}

/* ---- net.c ---- */
/** The link to a rank, created at its first use; NULL: no memory. */
struct mpi_link *tp_mpi_link(struct mpi_net *n, uint32_t rank);
/** The peer has left (OK) or is declared dead; reported in progress. */
void tp_mpi_end(struct mpi_link *link, telpher_status why);
/** MPI failed: declares all peers dead. */
void tp_mpi_end_all(struct mpi_net *n, telpher_status why);
/**
 * Cancels a receive and waits until its memory is free.
 * @return CANCELED, IN_PROGRESS (not free yet), or the result of the receive
 */
telpher_status tp_mpi_cancel(struct mpi_net *n, telpher_two_sided_op *op);

/* ---- send.c ---- */
/**
 * Sends a message, copied. @param must  true: ignores the limit of messages to the peer
 * @return OK, AGAIN, PEER_LOST, NO_MEMORY
 */
telpher_status tp_mpi_post(struct mpi_link *link, const struct mpi_prefix *prefix,
                           const void *header, const void *data, size_t len, bool must);
telpher_status tp_mpi_send(struct tp_net *net, uint32_t peer, const void *header,
                           size_t header_len, const void *data, size_t len);
telpher_status tp_mpi_control(struct tp_net *net, uint32_t peer, const void *frame,
                              size_t len, const void *data, size_t data_len);
size_t tp_mpi_write_data(struct tp_net *net, uint32_t peer, uint32_t id,
                         const void *src, size_t len, void *arg);
/** Progresses sends of messages and data. @return how many completed */
unsigned tp_mpi_progress_out(struct mpi_net *n);
/** A part of data of a peer; NULL without memory. */
struct mpi_data *tp_mpi_data(struct mpi_link *peer, size_t len);
/** Releases the data being sent to a peer. */
void tp_mpi_stop_going(struct mpi_link *peer);

/* ---- receive.c ---- */
/** Posts the ring of receives. */
telpher_status tp_mpi_receives_open(struct mpi_net *n);
/** Cancels the receives that are still posted. */
void tp_mpi_receives_close(struct mpi_net *n);
size_t tp_mpi_expect_data(struct tp_net *net, uint32_t peer, uint32_t id, void *dst,
                          size_t len);
/** Handles received messages and data. @return how many */
unsigned tp_mpi_progress_in(struct mpi_net *n);
/** Cancels the data being received from a peer. */
void tp_mpi_stop_coming(struct mpi_link *peer);

#endif
