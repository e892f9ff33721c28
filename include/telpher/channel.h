/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: ordered data between two ranks, in both directions, under a number that both know.
 * There is no tag to match: the nth send of one end meets the nth receive of the other, in any
 * order of the calls. Either side may use memory of any domain.
 *
 * Source: the Channel API of "Accelerating Communication for Parallel Programming Models on GPU
 * Systems".
 */
#ifndef TELPHER_CHANNEL_H
#define TELPHER_CHANNEL_H

#include <telpher/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One end of a channel. */
typedef struct telpher_channel telpher_channel;

/** [bits] of a channel's number: ids are 0 .. 2^28 - 1. Set when Telpher is built. */
#define TELPHER_CHANNEL_ID_BITS 28

/**
 * Opens this rank's end of channel @p id with @p rank. The other end may be opened, and send,
 * before or after. A channel of a rank with itself needs two ids.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_RANGE      no such rank, or the id has too many bits
 *         TELPHER_ERR_EXISTS     this end is open already
 *         TELPHER_ERR_PEER_LOST, TELPHER_ERR_NO_MEMORY
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_channel_open(telpher_context *ctx, uint32_t rank,
                                                 uint32_t id,
                                                 telpher_channel **ret_channel);

/** Closes this end. Its incomplete requests complete with TELPHER_ERR_CANCELED at the next
 *  progress; data that was not received is discarded. NULL is allowed. Since: 0.1. */
TELPHER_CALL void telpher_channel_close(telpher_channel *channel);

/**
 * Sends @p len bytes to the other end.
 *
 * @param src      host or device memory, readable; borrowed until complete.
 * @param len      [bytes], 0 and more.
 * @param params   NULL = defaults; read before return, never kept.
 * @param ret_req  receives a request if and only if TELPHER_IN_PROGRESS is returned and no
 *                 params->on_done is set; may be NULL if it is set.
 *
 * @return TELPHER_OK             complete: @p src may be reused; on_done is NOT called
 *         TELPHER_IN_PROGRESS    started; on_done is called exactly once
 *         TELPHER_ERR_PEER_LOST  the other rank is lost; nothing was sent
 *         TELPHER_ERR_RANGE      the end of @p src lies outside its memory; nothing was sent
 *         TELPHER_ERR_NO_MEMORY  nothing was sent
 *
 * Completion is local: @p src may be reused. Threads: the context's. Cost: a small send does not
 * allocate, and makes no system call while the other rank is awake. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_channel_send(telpher_channel *channel,
                                                 const void *src, size_t len,
                                                 const telpher_xfer_params *params,
                                                 telpher_request **ret_req);

/**
 * Receives the next data of the other end.
 *
 * @param dst  host or device memory, writable; borrowed until complete.
 * @param cap  [bytes]; longer data is truncated: TELPHER_ERR_TRUNCATED.
 *
 * @return as telpher_channel_send(). TELPHER_OK if the data had arrived already: then
 *         @p ret_len, which may be NULL, receives its length
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_channel_recv(telpher_channel *channel, void *dst,
                                                 size_t cap,
                                                 const telpher_xfer_params *params,
                                                 telpher_request **ret_req,
                                                 size_t *ret_len);

#ifdef __cplusplus
}
#endif

#endif
