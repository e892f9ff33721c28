/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows and notified access: a rank writes into the memory of another and notifies it in one
 * call. Notifications are counted by tag, so there is no queue to search. Puts and
 * notifications of one rank to one window of another arrive in order.
 *
 * Source: notified access as in "dCUDA: Hardware Supported Overlap of Computation and
 * Communication".
 */
#ifndef TELPHER_WIN_H
#define TELPHER_WIN_H

#include <telpher/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A part of every rank's memory that all ranks may put into. */
typedef struct telpher_win telpher_win;

/** Tags are 0 .. TELPHER_TAGS - 1, for each window and rank. */
#define TELPHER_TAGS 65536

/**
 * Creates a window. Collective: all ranks call it, in the same order as other windows.
 *
 * @param base  this rank's part: host or device memory, kept until destroy; parts of several
 *              windows may overlap.
 * @param len   [bytes], 0 and more; may differ between ranks.
 * @param timeout_ns  limit of the wait for the other ranks.
 *
 * @return TELPHER_OK, TELPHER_ERR_TIMEOUT, TELPHER_ERR_PEER_LOST, TELPHER_ERR_NO_MEMORY,
 *         TELPHER_ERR_RANGE (the end lies outside the memory of @p base). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_win_create(telpher_context *ctx, void *base,
                                               size_t len, uint64_t timeout_ns,
                                               telpher_win **ret_win);

/** Destroys a window. Not collective, but no rank may use the window after the first has
 *  destroyed it: call telpher_barrier() before. NULL is allowed. Since: 0.1. */
TELPHER_CALL void telpher_win_destroy(telpher_win *win);

/** [bytes] of @p rank's part; 0 if there is no such rank. Since: 0.1. */
TELPHER_CALL uint64_t telpher_win_size(const telpher_win *win, uint32_t rank);

/**
 * Writes src[0 .. len) to bytes [dst_off .. dst_off + len) of @p rank's part.
 *
 * Completion is local: @p src may be reused. telpher_win_flush() waits for remote completion.
 *
 * @return TELPHER_OK             complete; on_done is NOT called
 *         TELPHER_IN_PROGRESS    started; on_done is called exactly once
 *         TELPHER_ERR_RANGE      outside @p rank's part, or no such rank; nothing was sent
 *         TELPHER_ERR_PEER_LOST, TELPHER_ERR_NO_MEMORY  nothing was sent
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_put(telpher_win *win, uint32_t rank,
                                        uint64_t dst_off, const void *src, size_t len,
                                        const telpher_xfer_params *params,
                                        telpher_request **ret_req);

/**
 * As telpher_put(), and counts one notification of @p tag at @p rank after the bytes have
 * arrived. @return as telpher_put(); also TELPHER_ERR_RANGE if there is no such tag. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_put_notify(telpher_win *win, uint32_t rank,
                                               uint64_t dst_off, const void *src,
                                               size_t len, uint32_t tag,
                                               const telpher_xfer_params *params,
                                               telpher_request **ret_req);

/**
 * Counts one notification of @p tag at @p rank, after all that this rank put there before.
 * @return TELPHER_OK (it was sent), TELPHER_ERR_RANGE, TELPHER_ERR_PEER_LOST,
 *         TELPHER_ERR_NO_MEMORY. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_notify(telpher_win *win, uint32_t rank,
                                           uint32_t tag);

/**
 * Consumes @p count notifications of @p tag if that many have arrived. Does not progress.
 * @return TELPHER_OK (consumed), TELPHER_ERR_AGAIN (not yet; none consumed), TELPHER_ERR_RANGE.
 * Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_notify_test(telpher_win *win, uint32_t tag,
                                                uint32_t count);

/**
 * Progresses until @p count notifications of @p tag have arrived, and consumes them.
 *
 * @param from  the rank that sends them, if the caller knows: if it is lost, the wait fails.
 *              TELPHER_ANY_RANK: only the loss of all others ends the wait.
 * @return TELPHER_OK, TELPHER_ERR_TIMEOUT (none consumed), TELPHER_ERR_PEER_LOST (none
 *         consumed),
 *         TELPHER_ERR_RANGE. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_notify_wait(telpher_win *win, uint32_t from,
                                                uint32_t tag, uint32_t count,
                                                uint64_t timeout_ns);

/**
 * Progresses until one of @p tags has a notification, and consumes one.
 * @param ret_tag  receives the tag; with several, the first of @p tags.
 * @return as telpher_notify_wait(). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_notify_wait_any(telpher_win *win, uint32_t from,
                                                    const uint32_t *tags,
                                                    size_t tag_count,
                                                    uint64_t timeout_ns,
                                                    uint32_t *ret_tag);

/**
 * Progresses until all that this rank put into @p rank's part has arrived.
 * @param rank  TELPHER_ANY_RANK: at all ranks.
 * @return TELPHER_OK, TELPHER_ERR_TIMEOUT, TELPHER_ERR_PEER_LOST, TELPHER_ERR_RANGE,
 *         TELPHER_ERR_NO_MEMORY. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_win_flush(telpher_win *win, uint32_t rank,
                                              uint64_t timeout_ns);

/**
 * Reads bytes [src_off .. src_off + len) of @p rank's part into @p dst, after all that this rank
 * put there before. @return as telpher_put(). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_get(telpher_win *win, uint32_t rank,
                                        uint64_t src_off, void *dst, size_t len,
                                        const telpher_xfer_params *params,
                                        telpher_request **ret_req);

#ifdef __cplusplus
}
#endif

#endif
