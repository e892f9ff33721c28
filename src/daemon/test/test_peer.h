/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: another server of the same client, frame by frame. */
#ifndef TELPHER_DAEMON_TEST_TEST_PEER_H
#define TELPHER_DAEMON_TEST_TEST_PEER_H

#include "daemon/test/test_share.h"

extern const uint8_t test_pair_key[TP_WIRE_PEER_KEY_BYTES];

/** Has the executor expect a server. */
void test_peer_accept(struct test_session *s, uint32_t number,
                      uint8_t ret_name[TP_WIRE_SESSION_BYTES]);
/** Connects as another server. */
telpher_status test_peer_connect(const struct test_daemon *d, const uint8_t *name,
                                 const uint8_t *key, struct tp_stream **ret_stream);
/** Accepts, connects, and waits until the executor has the stream. */
struct tp_stream *test_peer_join(struct test_session *s, const struct test_daemon *d,
                                 uint32_t number);
/** Sends a frame to the executor. */
void test_peer_put(struct tp_stream *stream, uint16_t type, const void *msg);
/** Waits for the next frame of @p type; the frame's members that are not numbers are void. */
void test_peer_expect(struct tp_stream *stream, uint16_t type, void *ret_msg);

/** An event of the scene's context that server @p number ends. */
uint64_t test_put_peer_event(struct test_scene *c, uint32_t number);
/** PUSH and PULL of the first bytes of the scene's buffer. @return its event */
uint64_t test_put_push(struct test_scene *c, uint32_t number, uint64_t transfer,
                       uint64_t size);
uint64_t test_put_pull(struct test_scene *c, uint32_t number, uint64_t transfer,
                       uint64_t size);
/** A marker that waits for an event. @return its event */
uint64_t test_put_marker_after(struct test_scene *c, uint64_t wait);
void test_expect_failure(struct test_scene *c, uint64_t event);

#endif
