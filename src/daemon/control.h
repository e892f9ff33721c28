/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a broker and its executors tell each other over a pair of SOCK_SEQPACKET sockets.
 * Both are of one build, so the messages are plain structs.
 */
#ifndef TELPHER_DAEMON_CONTROL_H
#define TELPHER_DAEMON_CONTROL_H

#include <stdint.h>
#include <telpher/status.h>

#include <sys/uio.h>

#include "core/session/session.h"
#include "transport/tls/tls.h"
#include "wire/frame.h"

enum {
    TP_CONTROL_FD = 3, /**< the executor's end of the pair */
    TP_CONTROL_TEXT_BYTES = 240,
    TP_CONTROL_BULK_MAX = 4, /**< bulk streams of one session */
};

enum tp_control_type {
    TP_CONTROL_SESSION = 1, /**< to the executor: serve this session; with the socket */
    TP_CONTROL_BULK = 2, /**< to the executor: a bulk stream of it; with the socket */
    TP_CONTROL_TEXTS = 3, /**< to the broker: text = how this session ends */
    TP_CONTROL_OVER =
        4, /**< to the broker: the client has gone; the executor only tidies
                              up, and may be ended at any time */
};

struct tp_control {
    uint32_t type;
    uint32_t platform; /**< SESSION: index in the facts */
    uint32_t device_count; /**< SESSION: of the whole server, when it was probed */
    uint32_t index; /**< BULK: number of the stream */
    struct tp_session_numbers numbers; /**< SESSION, BULK */
    uint8_t session[TP_WIRE_SESSION_BYTES];
    struct tp_tls_state tls; /**< SESSION, BULK: the connection's; suite 0 = plain */
    uint32_t
        rest_len; /**< SESSION, BULK: [bytes] received already, behind the message */
    char text[TP_CONTROL_TEXT_BYTES]; /**< WORDS; SESSION: room of the cache */
};

/** A message of any kind, in pieces. Statuses as below. */
telpher_status tp_control_send_pieces(int fd, const struct iovec *iov, size_t count,
                                      int fd_sent);
/** @param ret_len gives [bytes] of the message; one that does not fit is PEER_LOST. */
telpher_status tp_control_receive_pieces(int fd, const struct iovec *iov, size_t count,
                                         size_t *ret_len, int *ret_fd);

/**
 * Sends one message without blocking. @param fd_sent descriptor that goes along; -1 = none
 * @return OK, AGAIN (the pair is full), PEER_LOST
 */
telpher_status tp_control_send(int fd, const struct tp_control *msg, int fd_sent);
/** The same with msg->rest_len bytes behind it. */
telpher_status tp_control_send_rest(int fd, const struct tp_control *msg,
                                    const void *rest, int fd_sent);
/**
 * Receives one message without blocking; bytes behind it are lost.
 * @param ret_fd gives the descriptor that came along (close-on-exec), or -1
 * @return OK, AGAIN, PEER_LOST (also for what is no message)
 */
telpher_status tp_control_receive(int fd, struct tp_control *ret_msg, int *ret_fd);
/** The same, with the bytes behind the message. */
telpher_status tp_control_receive_rest(int fd, struct tp_control *ret_msg,
                                       uint8_t ret_rest[TP_TLS_PLAIN_MAX], int *ret_fd);

#endif
