/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by fragment.c and fragment_receive.c, which move data in fragments, and
 * export.c, which does so within a machine. */
#ifndef TELPHER_CORE_COMM_FRAGMENT_INT_H
#define TELPHER_CORE_COMM_FRAGMENT_INT_H

#include "core/comm/comm_int.h"

/** A fragment in progress. */
struct tp_comm_fragment {
    struct tp_list
        link; /* of ctx->pieces if not used, else of ctx->ready, ctx->exported or no list */
    struct tp_list all; /* of ctx->all_pieces, until the end */
    telpher_request *req;
    uint64_t offset;
    size_t len;
    void *host; /* the chunk, or the user's memory */
    bool chunk; /* `host` is a chunk that this rank owns */
    bool borrowed; /* `host` is the sender's memory, described by `from` */
    struct tp_mem_place from;
    struct tp_net_rndv *rndv; /* arrived, and waits for a chunk */
    struct tp_net_op op;
    struct tp_device_copy copy;
};

/** Takes a fragment for the next bytes of a request. @return NULL without memory */
struct tp_comm_fragment *tp_comm_fragment_take(telpher_request *req, uint64_t offset,
                                               size_t len);
/** Frees a fragment and its chunk, then begins the request's next fragment or ends
 *  the request. */
void tp_comm_fragment_end(struct tp_comm_fragment *p, telpher_status status);
/** A fragment of this request ended: begins the next one or ends the request. */
void tp_comm_fragment_step(telpher_request *req, uint64_t moved, telpher_status status);
/** Receives a fragment into a chunk or its destination. @return false if there is no
 *  chunk */
bool tp_comm_fragment_fetch(struct tp_comm_fragment *p);
/** Sends a fragment by value after the receiver could not map its export. */
void tp_comm_fragment_send(struct tp_comm_fragment *p);
/** Starts the copy from p->host into the device. @return false if it failed to start */
bool tp_comm_fragment_write(struct tp_comm_fragment *p);

/**
 * Exports a fragment in its chunk.
 * @return OK: it is in ctx->exported; AGAIN, PEER_LOST; UNSUPPORTED: others cannot map it
 */
telpher_status tp_comm_export_send(struct tp_comm_fragment *p);
/** True if this peer's exports may be mappable here, so that it is asked to export. */
bool tp_comm_export_is_welcome(struct tp_comm_peer *peer);
/** Copies from a fragment that the sender exported. Its header is in range. @return
 *  OK, NO_MEMORY */
telpher_status tp_comm_export_borrow(telpher_request *req,
                                     struct tp_comm_unexpected *msg);
/** Closes the sender's memory and returns the fragment (TAKEN). */
void tp_comm_export_give_back(struct tp_comm_fragment *p);

#endif
