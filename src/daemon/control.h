/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the broker and its executors, over a pair of SOCK_SEQPACKET sockets.
 * Both programs come from one build, so the messages are plain structs.
 */
#ifndef TELPHER_DAEMON_CONTROL_H
#define TELPHER_DAEMON_CONTROL_H

#include <stdbool.h>
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
    TP_CONTROL_SESSION =
        1, /**< to the executor: serve this session; carries the socket */
    TP_CONTROL_BULK = 2, /**< to the executor: add a bulk stream; carries the socket */
    TP_CONTROL_TEXTS = 3, /**< to the broker: text = how this session ends */
    TP_CONTROL_OVER =
        4, /**< to the broker: the client has disconnected; the executor only cleans
                              up, and may be killed at any time */
    TP_CONTROL_AWAY = 6, /**< to the broker: the connection was lost (index 1), or the
                              client is back (0); while it is away, the executor may be
                              killed if other sessions need room */
    TP_CONTROL_RESUME = 7, /**< to the executor: another connection for the command
                              stream, bulk stream `index` or pair `session`; `reply` is to be sent */
    TP_CONTROL_PEER =
        5, /**< to the broker: a stream of the pair `session` with `key` may
                              come; to the executor: here it is, with the socket */
    TP_CONTROL_PEER_OVER = 8, /**< to the broker: no more streams of pair `session` */
    TP_CONTROL_ROUTE = 9, /**< to telpher-relay: pass the connection on to the server
                              whose address is `text`; carries the socket */
    TP_CONTROL_DRAIN = 10, /**< to the executor: the daemon ends within `time_ns` */
};

struct tp_control {
    uint32_t type;
    uint32_t platform; /**< SESSION: index in the facts */
    uint32_t device_count; /**< SESSION: devices of the whole server, as probed */
    uint32_t index; /**< BULK, RESUME: number of the stream */
    uint32_t stream; /**< RESUME: enum tp_wire_stream */
    bool resumes; /**< SESSION, PEER: the streams may resume on a new connection */
    bool drains; /**< SESSION: the client knows DRAIN */
    uint64_t time_ns; /**< DRAIN */
    uint64_t received; /**< RESUME: last frame number that the client received */
    uint8_t reply[TP_WIRE_PREFACE_REPLY_BYTES]; /**< RESUME: without `received` */
    struct tp_session_numbers numbers; /**< SESSION, BULK, PEER */
    uint8_t session[TP_WIRE_SESSION_BYTES]; /**< PEER, RESUME: of its preface */
    uint8_t key[TP_WIRE_PEER_KEY_BYTES]; /**< PEER, to the broker */
    struct tp_tls_state tls; /**< SESSION, BULK: of the connection; suite 0 = plain */
    uint32_t
        rest_len; /**< SESSION, BULK: [bytes] received already; they follow the message */
    char text[TP_CONTROL_TEXT_BYTES]; /**< TEXTS; SESSION: folder of the cache;
                                            ROUTE: address */
};

/** Sends a message of any kind, gathered from @p iov. Statuses as tp_control_send(). */
telpher_status tp_control_send_pieces(int fd, const struct iovec *iov, size_t count,
                                      int fd_sent);
/**
 * Receives a message of any kind into @p iov. Statuses as tp_control_receive(); a message
 * that does not fit is PEER_LOST.
 * @param ret_len gives [bytes] of the message
 */
telpher_status tp_control_receive_pieces(int fd, const struct iovec *iov, size_t count,
                                         size_t *ret_len, int *ret_fd);

/**
 * Sends one message without blocking. @param fd_sent descriptor to pass; -1 = none
 * @return OK, AGAIN (the pair is full), PEER_LOST
 */
telpher_status tp_control_send(int fd, const struct tp_control *msg, int fd_sent);
/** Sends one message followed by msg->rest_len bytes of @p rest. */
telpher_status tp_control_send_rest(int fd, const struct tp_control *msg,
                                    const void *rest, int fd_sent);
/**
 * Receives one message without blocking; discards bytes after the struct.
 * @param ret_fd gives the descriptor that was passed (close-on-exec), or -1
 * @return OK, AGAIN, PEER_LOST (also for a malformed message)
 */
telpher_status tp_control_receive(int fd, struct tp_control *ret_msg, int *ret_fd);
/** Receives one message and the msg->rest_len bytes after it. */
telpher_status tp_control_receive_rest(int fd, struct tp_control *ret_msg,
                                       uint8_t ret_rest[TP_TLS_PLAIN_MAX], int *ret_fd);

/**
 * Makes a connection from a message with a socket, and the bytes received before it.
 * Takes @p fd, also if it fails.
 */
telpher_status tp_control_adopt(const struct tp_control *msg, const uint8_t *rest,
                                int fd, struct tp_conn **ret_conn);

#endif
