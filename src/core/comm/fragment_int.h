/* SPDX-License-Identifier: Apache-2.0 */
/* What fragment.c and fragment_receive.c, which move data in pieces, share with each other and with
 * export.c, which does within a machine. */
#ifndef TELPHER_CORE_COMM_FRAGMENT_INT_H
#define TELPHER_CORE_COMM_FRAGMENT_INT_H

#include "core/comm/comm_int.h"

/** One piece under way. */
struct tp_comm_fragment {
    struct tp_list
        link; /* of ctx->pieces when not used, else of ctx->ready, ctx->lent or
                            nothing */
    struct tp_list all; /* of ctx->all_pieces, until the end */
    telpher_request *req;
    uint64_t offset;
    size_t len;
    void *host; /* the chunk, or the user's memory */
    bool chunk; /* it is ours */
    bool borrowed; /* it is the sender's, in `from` */
    struct tp_mem_place from;
    struct tp_net_rndv *bulk; /* came, and waits for a chunk */
    struct tp_net_op op;
    struct tp_device_copy copy;
};

/** Takes one for the next bytes of a request. @return NULL without memory */
struct tp_comm_fragment *tp_comm_fragment_take(telpher_request *req, uint64_t offset,
                                               size_t len);
/** Frees a piece and its chunk; then the request's next piece, or its end. */
void tp_comm_fragment_end(struct tp_comm_fragment *p, telpher_status status);
/** A piece of this request ended, one way or the other: the end of it, or the next. */
void tp_comm_fragment_step(telpher_request *req, uint64_t moved, telpher_status status);
/** Brings a piece that came to a chunk, or to its place. @return false if there is no chunk */
bool tp_comm_fragment_fetch(struct tp_comm_fragment *p);
/** Announces a piece that was lent and cannot be reached: its bytes travel. */
void tp_comm_fragment_send(struct tp_comm_fragment *p);
/** Starts the copy from p->host into the device. @return false if it could not be */
bool tp_comm_fragment_write(struct tp_comm_fragment *p);

/**
 * Announces a piece where it lies. @return OK: it is in ctx->lent; AGAIN, PEER_LOST;
 * UNSUPPORTED: others cannot map it
 */
telpher_status tp_comm_export_announce(struct tp_comm_fragment *p);
/** True if what this peer lends can perhaps be reached: then it is asked to. */
bool tp_comm_export_is_welcome(struct tp_comm_peer *peer);
/** Takes what the sender lends. Its header is in range. @return OK, NO_MEMORY */
telpher_status tp_comm_export_borrow(telpher_request *req,
                                     struct tp_comm_unexpected *parcel);
/** Closes the sender's memory and says so. */
void tp_comm_export_give_back(struct tp_comm_fragment *p);

#endif
