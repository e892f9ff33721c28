/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to handlers: a number, a few parameters and any number of buffers, host or
 * device. When a message comes, its *post* handler names where each buffer shall lie; when
 * all of them are there, its *entry* handler runs. One message does it: there is no
 * metadata sent ahead, and no receive that could be late. Messages of an *ordered* handler are
 * delivered in the order of their sends, and its credits bound how many are on their way.
 *
 * Source: the Messaging API of "Accelerating Communication for Parallel Programming Models
 * on GPU Systems", without its metadata message.
 */
#ifndef TELPHER_MSG_H
#define TELPHER_MSG_H

#include <telpher/context.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TELPHER_HANDLERS 1024 /**< handlers are 0 .. TELPHER_HANDLERS - 1 */
#define TELPHER_MSG_BUFFERS 8 /**< [buffers] of one message, at most */

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
    /** post: len is set, data is to be set, to memory with room for len bytes that is
     *  borrowed until entry; NULL = not wanted. entry: both set. */
    telpher_msg_buffer *buffers;
    void *cookie; /**< what post leaves here, entry finds */
    telpher_status status; /**< entry: OK, or what became of the buffers */
} telpher_msg;

/** @p msg is borrowed until return. May send; must not wait or progress. */
typedef void (*telpher_msg_fn)(telpher_context *ctx, telpher_msg *msg, void *user);

/**
 * Registers what is done with messages to @p handler. Messages that came before wait for it.
 * Messages are entered as their buffers arrive, in any order.
 *
 * @param post   names the places of buffers; NULL: messages with buffers are dropped.
 * @param entry  runs when all is there; NULL takes both handlers away.
 * @return TELPHER_OK, TELPHER_ERR_RANGE (no such handler). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_msg_handler(telpher_context *ctx, uint32_t handler,
                                                telpher_msg_fn post,
                                                telpher_msg_fn entry, void *user);

/**
 * Registers handlers whose messages are delivered in order: an entry handler runs when the
 * message's buffers have arrived and all that the same rank did before is delivered: its
 * messages to ordered handlers, this one or others, its puts and its notifications (win.h).
 * So such a message is a put with a command attached. Post handlers run when messages come.
 * Ranks that use the handler register it in the same way, once; otherwise as
 * telpher_msg_handler().
 *
 * @param credits  messages that one rank may have sent to another and whose entry handler has
 *                 not run; telpher_msg_send() of one more returns TELPHER_ERR_AGAIN.
 *                 0 = no limit: for answers, of which others bound how many there are.
 * @return TELPHER_OK, TELPHER_ERR_RANGE (no such handler), TELPHER_ERR_NO_MEMORY (nothing has
 *         changed). Since: 0.1.
 */
TELPHER_CALL telpher_status
telpher_msg_handler_ordered(telpher_context *ctx, uint32_t handler, uint32_t credits,
                            telpher_msg_fn post, telpher_msg_fn entry, void *user);

/**
 * How many messages may be sent to @p handler of @p rank now. Credits come back in progress, in
 * batches of a quarter of them.
 * @return UINT32_MAX where there is no limit, or where telpher_msg_send() returns an error
 *         other than TELPHER_ERR_AGAIN. Threads: the context's. Since: 0.1.
 */
TELPHER_CALL uint32_t telpher_msg_credits(const telpher_context *ctx, uint32_t rank,
                                          uint32_t handler);

/**
 * Sends a message.
 *
 * @param params       [params_len bytes] host memory; may be reused at once.
 * @param params_len   at most telpher_msg_params_max().
 * @param buffers      borrowed until return, what they point to until complete.
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

/** [bytes] that the parameters of a message to @p rank may have, at least 512. Since: 0.1. */
TELPHER_CALL size_t telpher_msg_params_max(const telpher_context *ctx, uint32_t rank);

#ifdef __cplusplus
}
#endif

#endif
