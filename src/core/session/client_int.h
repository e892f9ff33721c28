/* SPDX-License-Identifier: Apache-2.0 */
/* Internal declarations shared by client.c, client_paths.c and client_security.c. */
#ifndef TELPHER_CORE_SESSION_CLIENT_INT_H
#define TELPHER_CORE_SESSION_CLIENT_INT_H

#include "core/session/client.h"

/** Features that clients have on every connection. */
#define TP_CLIENT_FEATURES                                                             \
    (TP_WIRE_FEATURE_SVM | TP_WIRE_FEATURE_PEER | TP_WIRE_FEATURE_COMPACT |            \
     TP_WIRE_FEATURE_EXPORT | TP_WIRE_FEATURE_DRAIN | TP_WIRE_FEATURE_SUGGEST |        \
     TP_WIRE_FEATURE_PIPE | TP_WIRE_FEATURE_ROUTE)

/**
 * Reads the cookie: from @p path if given, else $TELPHER_COOKIE, else the first default
 * path at which a file exists.
 * @return OK; NOT_FOUND (no file at any default path), AUTH (not a cookie, or a given file
 *         that cannot be read; err gives its path).
 */
telpher_status tp_client_load_cookie(const char *path,
                                     uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                                     struct tp_error *err);

/** Sends the preface, @p auth_len credentials and the route. */
telpher_status tp_client_send_preface(struct tp_conn *conn,
                                      const struct tp_client_params *params,
                                      const uint8_t raw[TP_WIRE_PREFACE_BYTES],
                                      const uint8_t *auth, size_t auth_len,
                                      uint64_t deadline_ns);

/** Location of a connection's peer. */
enum tp_client_where {
    TP_CLIENT_LOCAL, /**< this machine, a socket with an owner */
    TP_CLIENT_LOOPBACK, /**< this machine, a port open to all its users */
    TP_CLIENT_FAR, /**< another machine */
};

enum tp_client_where tp_client_where(const struct tp_client_params *params,
                                     struct tp_conn *conn);

/**
 * Checks the user who listens at a Unix socket: this one, root, or the one whose folder it is in.
 * @return OK, also for other sockets; AUTH: any user may have made it
 */
telpher_status tp_client_check_owner(struct tp_conn *conn, const char *address,
                                     struct tp_error *err);

/** TP_WIRE_FEATURE_RESUME if the streams of this connection shall outlive it, else 0. */
uint64_t tp_client_resume_feature(const struct tp_client_params *params,
                                  struct tp_conn *conn);

/** TP_WIRE_FEATURE_CHECKSUM if this connection in clear shall have checksums, else 0. */
uint64_t tp_client_checksum_feature(const struct tp_client_params *params,
                                    struct tp_conn *conn);

/** True if the user allows connections to servers without proof of their identity. */
bool tp_client_is_insecure(const struct tp_client_params *params);

void tp_client_fill_preface(const struct tp_client_params *params, size_t auth_len,
                            uint64_t features, uint8_t raw[TP_WIRE_PREFACE_BYTES]);
/** Decodes a reply, without control characters in its text. */
telpher_status tp_client_decode_reply(const uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES],
                                      struct tp_wire_preface_reply *ret_reply);
telpher_status tp_client_receive_reply(struct tp_conn *conn, uint64_t deadline_ns,
                                       struct tp_wire_preface_reply *ret_reply);
/** Says why the exchange of prefaces failed with @p status. @return the status for callers */
telpher_status tp_client_handshake_failed(struct tp_conn *conn, const char *address,
                                          telpher_status status, struct tp_error *err);

/**
 * Exchanges prefaces in clear: on this machine, or where insecure connections are allowed.
 * On loopback TCP both sides prove that they know the cookie, the server first.
 */
telpher_status tp_client_greet_plain(struct tp_conn *conn,
                                     const struct tp_client_params *params,
                                     uint64_t deadline_ns,
                                     struct tp_wire_preface_reply *ret_reply,
                                     struct tp_error *err);

/** True if the connection must be secured before credentials are sent on it. */
bool tp_client_wants_tls(const struct tp_client_params *params, struct tp_conn *conn);

/**
 * Secures @p *conn after a preface that requested TLS; replaces it if it succeeds.
 * @param ret_head gives the first 5 bytes of a server that answered in clear, else a 0.
 * @return as tp_secure.connect
 */
telpher_status tp_client_secure(const struct tp_client_params *params,
                                struct tp_conn **conn, uint64_t deadline_ns,
                                uint8_t ret_head[5], struct tp_error *err);

#endif
