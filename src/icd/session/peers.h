/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams between servers: content and ends of events that one session needs of another go
 * past this process. A stream is arranged at the first need of a pair.
 */
#ifndef TELPHER_ICD_SESSION_PEERS_H
#define TELPHER_ICD_SESSION_PEERS_H

#include "core/session/buffer_token.h"
#include "icd/session/session.h"

/** Choice of TELPHER_PEER. */
enum tp_icd_peer_choice {
    TP_ICD_PEER_AUTO, /**< whatever reaches the other server */
    TP_ICD_PEER_OFF, /**< everything passes through this process */
    TP_ICD_PEER_TCP, /**< TCP alone */
};

/** @return the number of the stream between two sessions, in frames to both; 0: none. Under
 *  the lock. */
uint32_t tp_icd_peer_number(const struct tp_icd_session *a,
                            const struct tp_icd_session *b);
/** True once a stream between two sessions has been tried, or never will be. Under the
 *  lock. */
bool tp_icd_peer_tried(const struct tp_icd_session *a, const struct tp_icd_session *b);
/** Arranges a stream, unless that was tried; waits for both servers. Not under the lock. */
void tp_icd_peer_arrange(struct tp_icd_session *a, struct tp_icd_session *b);
/** Writes how content passes between two sessions' servers, once that was tried. Under the
 *  lock. */
void tp_icd_peer_route(const struct tp_icd_session *a, const struct tp_icd_session *b,
                       char *dst, size_t cap);
/** Sends a request whose answer is PEER_REPLY, and waits for it. Not under the lock.
 *  @param ret_text gives an address, or why not */
telpher_status tp_icd_peer_request(struct tp_icd_session *session, uint16_t type,
                                   uint64_t id, const void *msg, char ret_text[256]);
/** Writes the address at which another server reaches this one: @p own if the server named
 *  one (--peer-address), else the address that this process uses. @param from the server that connects; NULL: not known */
void tp_icd_peer_address(const struct tp_icd_session *session,
                         const struct tp_icd_session *from, const char *own, char *dst,
                         size_t cap);
/** Opens the gateways before a server for one stream of another server; waits for them.
 *  @param own     what the server named (--peer-address), as tp_icd_peer_address() has it.
 *  @param address what that wrote.
 *  @return OK, also without gateways; else why not in @p text, which may be @p own */
telpher_status tp_icd_peer_open_route(const struct tp_icd_session *to, const char *own,
                                      const char *address,
                                      const uint8_t name[TP_WIRE_SESSION_BYTES],
                                      const uint8_t key[TP_WIRE_PEER_KEY_BYTES],
                                      char text[256]);
/** Connects a session's server to a buffer that was exported, unless it is; waits for it.
 *  Not under the lock. @return the number of the stream; 0: the server is not reached */
uint32_t tp_icd_peer_import(struct tp_icd_session *session,
                            const struct tp_buffer_token *token);
/** Handles PEER_LOST. Lock held. */
void tp_icd_peer_on_lost(struct tp_icd_session *session, uint32_t number);
/** Tells other servers that this session is lost, so that they do not wait for its streams. Lock
 *  held. */
void tp_icd_peer_tell_lost(struct tp_icd_session *lost);

#endif
