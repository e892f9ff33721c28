/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: their states, completion, and memory between two steps of a transfer. */
#ifndef TELPHER_CORE_COMM_REQUEST_H
#define TELPHER_CORE_COMM_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/msg.h>

#include "base/container/list.h"
#include "base/os/clock.h"
#include "core/comm/mem/mem.h"
#include "core/comm/rndv/rndv.h"
#include "waist/net.h"
#include "wire/comm.h"

struct tp_comm_peer;
struct tp_comm_unexpected;

enum {
    TP_COMM_NETS = 6, /* transports of one context, at most */
    TP_COMM_MACHINE_BYTES = TP_PROCESS_MACHINE_BYTES,
    TP_COMM_REVOCATION_BYTES = 32, /* names a rank's revocation table */
    TP_COMM_ADDRESS_HEAD = TP_COMM_MACHINE_BYTES + TP_COMM_REVOCATION_BYTES,
    TP_COMM_ADDRESS_MAX =
        TP_COMM_ADDRESS_HEAD + TP_COMM_NETS * (16 + TP_NET_ADDRESS_MAX) + 1,
    TP_COMM_UNEXPECTED_MAX = 8192, /* unexpected messages of one peer, at most */
    TP_COMM_PIECES = 8, /* pieces of one transfer under way at a time */
};

struct tp_comm_peer;

/* ---- memory between two steps ---- */

/** Takes @p bytes, not initialised, aligned to 16; small ones seldom from the heap. Those
 *  not given back live as long as the context. @return NULL without memory */
void *tp_comm_block_take(telpher_context *ctx, size_t bytes, const char *what);
/** NULL is fine. */
void tp_comm_block_give(telpher_context *ctx, void *bytes);
void tp_comm_block_fini(telpher_context *ctx);

/* ---- requests ---- */

/** Where a request stands. */
enum tp_comm_request_state {
    TP_COMM_REQUEST_FREE,
    TP_COMM_REQUEST_QUEUED, /**< its header waits for earlier ones to the same peer */
    TP_COMM_REQUEST_READING, /**< the same, while its data comes out of a device */
    TP_COMM_REQUEST_RNDV, /**< RTS sent; the transport moves the data */
    TP_COMM_REQUEST_OFFERED, /**< RTS sent; waits for a fragment request or the result */
    TP_COMM_REQUEST_POSTED, /**< receive without a matching message */
    TP_COMM_REQUEST_DELIVERING, /**< receive; the transport or a device moves the data */
    TP_COMM_REQUEST_FRAGMENTS, /**< sends or receives in fragments */
    TP_COMM_REQUEST_DONE, /**< complete; in ctx->completed, or waits to be tested */
};

/** The peer's request for fragments of the data, or its result of the transfer. */
struct tp_comm_request_pull {
    uint32_t number; /* of the receiver's request */
    uint32_t piece; /* [bytes] */
    uint64_t len; /* [bytes] wanted */
};

struct telpher_request {
    struct tp_list link; /* of peer->pending, channel->posted or ctx->completed */
    telpher_context *ctx;
    struct tp_comm_peer *peer;
    telpher_done_fn on_done;
    void *user;
    uint32_t number; /* what peers call it; changes with every use */
    uint8_t state; /* enum tp_comm_request_state */
    bool held; /* by the user, until tested */
    bool pulled,
        finished; /* arrived while the transport had it; with fragments, finished: no more arrive */
    bool sends; /* sends its fragments */
    bool exports; /* with sends: the receiver copies them out of exported chunks */
    bool heap; /* its chunk is from the heap */
    bool cut; /* the message is larger than the receive buffer */
    telpher_status status; /* IN_PROGRESS until complete; then also what failed first */
    struct tp_comm_header header; /* of a send */
    struct tp_mem_place place; /* of the user's memory */
    struct tp_mem_place from; /* the sender's memory, while we copy out of it */
    uint8_t blob[TP_MEMS_BLOB_MAX]; /* lets the receiver reach a staged one's memory */
    size_t blob_len;
    size_t len; /* [bytes] of it that are to be moved */
    void *chunk; /* a small one's data beside a device; the mems' */
    struct tp_comm_request_pull pull;
    uint64_t next; /* [bytes] for which a piece was begun */
    uint64_t moved; /* [bytes] of finished pieces */
    uint32_t pieces; /* under way */
    struct tp_list starved; /* of ctx->starved */
    struct tp_net_op op;
    struct tp_device_copy copy;
};

/** The completion callback: from a user's params, or internal. */
struct tp_comm_done {
    telpher_done_fn fn; /* NULL: a request is held by the user */
    void *user;
    void *queue;
};

/** Checks a caller's params. @return OK, INVALID with text: no callback and no request, or
 *  struct_size */
telpher_status tp_comm_done_init(telpher_context *ctx, struct tp_comm_done *done,
                                 const telpher_xfer_params *params,
                                 telpher_request **ret_req);

/** Takes a request from the pool. @return NULL without memory. */
telpher_request *tp_comm_request_take(telpher_context *ctx, struct tp_comm_peer *peer,
                                      const struct tp_comm_done *done);
/** Returns a request to the pool without a completion callback. */
void tp_comm_request_give(telpher_request *req);
/** The request that @p peer calls so, in one of the states of @p mask; NULL if none. */
telpher_request *tp_comm_request_find(telpher_context *ctx,
                                      const struct tp_comm_peer *peer, uint32_t number,
                                      unsigned mask);
/** Completes a request; its callback runs later, from progress. */
void tp_comm_request_complete(telpher_request *req, telpher_status status, size_t len);
/** Result of a call that began @p req: IN_PROGRESS and *ret_req, or the request's own result
 *  if it is complete already. */
telpher_status tp_comm_request_begun(telpher_request *req, telpher_request **ret_req,
                                     size_t *ret_len);
/** Runs the callbacks of what is complete. */
unsigned tp_comm_request_run_completed(telpher_context *ctx);
/** Completes all requests that depend on @p peer and have no other completion. */
void tp_comm_request_lose_peer(telpher_context *ctx, const struct tp_comm_peer *peer);
/** True if memory of ours is being sent to @p peer, which may be reading it. */
bool tp_comm_request_is_sending(const telpher_context *ctx,
                                const struct tp_comm_peer *peer);
void tp_comm_request_fini(telpher_context *ctx);

#endif
