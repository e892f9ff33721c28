/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active messages: a handler number, a few parameters and any number of buffers, in host or
 * device memory. When a message arrives, its *post* handler names the destination of each
 * buffer. When all buffers have arrived, its *entry* handler runs. No metadata message and no
 * matching receive is needed. Messages of an *ordered* handler are delivered in the order of
 * their sends, and credits bound the number in flight.
 *
 * Source: the Messaging API of "Accelerating Communication for Parallel Programming Models on
 * GPU Systems", without its metadata message.
 */
#ifndef TELPHER_MSG_H
#define TELPHER_MSG_H

#include <telpher/context.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TELPHER_HANDLERS 1024 /**< handlers are 0 .. TELPHER_HANDLERS - 1 */
#define TELPHER_MSG_BUFFERS 8 /**< buffers of one message, at most */

/** One buffer of a message. */
typedef struct telpher_msg_buffer {
    void *data; /**< host or device memory */
    size_t len; /**< [bytes] */
} telpher_msg_buffer;

/** A message as its handlers see it; borrowed until the handler returns. */
typedef struct telpher_msg {
    uint32_t struct_size;
    uint32_t from; /**< rank that sent it */
    uint32_t handler;
    uint32_t buffer_count;
    const void *params; /**< as they were sent; aligned to 16 */
    size_t params_len; /**< [bytes] */
    /** post: len is set; the handler sets data to memory with room for len bytes, which is
     *  borrowed until entry, or to NULL to drop the buffer. entry: both are set. */
    telpher_msg_buffer *buffers;
    void *cookie; /**< set by post, passed on to entry */
    telpher_status status; /**< entry: OK, or the error of the buffers */
} telpher_msg;

/** @p msg is borrowed until return. May send; must not wait or progress. */
typedef void (*telpher_msg_fn)(telpher_context *ctx, telpher_msg *msg, void *user);

/**
 * Registers the handlers of messages to @p handler. Messages that arrived before are delivered
 * then. Messages are delivered as their buffers arrive, in any order.
 *
 * @param post   names the destinations of buffers. NULL: entry finds eager buffers where they
 *               arrived, with any alignment, and other buffers are dropped. Eager are buffers in
 *               host memory that have with the parameters at most telpher_msg_params_max() bytes.
 * @param entry  runs when all buffers have arrived; NULL removes both handlers.
 * @return TELPHER_OK, TELPHER_ERR_RANGE (no such handler). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_msg_handler(telpher_context *ctx, uint32_t handler,
                                                telpher_msg_fn post,
                                                telpher_msg_fn entry, void *user);

/**
 * Registers handlers whose messages are delivered in order. An entry handler runs after the
 * message's buffers have arrived and all earlier operations of the same rank are delivered: its
 * messages to this and other ordered handlers, its puts and its notifications (win.h). Such a
 * message is a put with a command attached. Post handlers run when messages arrive. All ranks
 * that use the handler register it in the same way, once. A notification may pass a message that
 * arrives before the registration; a barrier between registration and first message prevents it.
 * Otherwise as telpher_msg_handler().
 *
 * @param credits  limit of messages that one rank has sent to another and whose entry handler
 *                 has not run; one more telpher_msg_send() returns TELPHER_ERR_AGAIN.
 *                 0 = no limit: for answers, whose number the requests bound.
 * @return TELPHER_OK, TELPHER_ERR_RANGE (no such handler), TELPHER_ERR_NO_MEMORY (nothing has
 *         changed). Since: 0.1.
 */
TELPHER_CALL telpher_status
telpher_msg_handler_ordered(telpher_context *ctx, uint32_t handler, uint32_t credits,
                            telpher_msg_fn post, telpher_msg_fn entry, void *user);

/**
 * Number of messages that may be sent to @p handler of @p rank now. Progress receives returned
 * credits, in batches of a quarter of the limit.
 * @return UINT32_MAX if there is no limit, or if telpher_msg_send() returns an error
 *         other than TELPHER_ERR_AGAIN. Threads: the context's. Since: 0.1.
 */
TELPHER_CALL uint32_t telpher_msg_credits(const telpher_context *ctx, uint32_t rank,
                                          uint32_t handler);

/**
 * Sends a message.
 *
 * @param params       [params_len bytes] host memory; may be reused on return.
 * @param params_len   at most telpher_msg_params_max().
 * @param buffers      the array is borrowed until return, the memory until complete.
 * @param buffer_count 0 .. TELPHER_MSG_BUFFERS.
 * @param xfer, ret_req  as in telpher_channel_send().
 *
 * @return TELPHER_OK             complete; on_done is NOT called
 *         TELPHER_IN_PROGRESS    started; on_done is called exactly once, for all buffers
 *         TELPHER_ERR_AGAIN      the handler's credits are used up; nothing was sent
 *         TELPHER_ERR_RANGE      no such rank or handler, too many parameters or buffers
 *         TELPHER_ERR_PEER_LOST, TELPHER_ERR_NO_MEMORY   nothing was sent
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_msg_send(
    telpher_context *ctx, uint32_t rank, uint32_t handler, const void *params,
    size_t params_len, const telpher_msg_buffer *buffers, size_t buffer_count,
    const telpher_xfer_params *xfer, telpher_request **ret_req);

/** [bytes] limit of the parameters of a message to @p rank, at least 512. Since: 0.1. */
TELPHER_CALL size_t telpher_msg_params_max(const telpher_context *ctx, uint32_t rank);

#ifdef __cplusplus
}
#endif

#endif
