/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects to a server: from an address to a stream. Used by the ICD, by libtelpher and by
 * tests.
 */
#ifndef TELPHER_CORE_SESSION_CLIENT_H
#define TELPHER_CORE_SESSION_CLIENT_H

#include "core/session/stream.h"
#include "waist/address.h"

/** System-wide path of the shared key, tried after ~/.telpher/key. */
#define TP_CLIENT_SYSTEM_KEY "/etc/telpher/key"

enum { TP_CLIENT_PORT = 7717 }; /**< default TCP port of telpherd */

/** Security of connections to servers on other machines. */
struct tp_client_security {
    struct tp_secure_files files;
    bool insecure; /**< connect without TLS */
    bool no_checksum; /**< off loopback without TLS, add no checksums */
};

enum tp_client_resume {
    TP_CLIENT_RESUMES_NEVER,
    TP_CLIENT_RESUMES,
    TP_CLIENT_RESUMES_OFF_LOOPBACK, /**< there a connection ends with its server */
};

/** Parameters of tp_client_connect. Zero means default. */
struct tp_client_params {
    const char *address; /**< "[tls://|tcp://]host[:port]", "[v6]:port", "unix:/path",
                            "/path"; hosts also after gateways, "gateway/host" */
    const char *cookie_path; /**< NULL: TELPHER_COOKIE, then the default paths */
    const char
        *route; /**< the server that follows a gateway, "host[:port]"; NULL: none.
                          Set by tp_client_dial(), as is the next one */
    bool routed; /**< the socket is that of a gateway */
    uint32_t stream; /**< enum tp_wire_stream; 0 = command */
    uint32_t index; /**< of a bulk stream */
    uint8_t session[TP_WIRE_SESSION_BYTES]; /**< zero = new session */
    enum tp_client_resume resumes; /**< its streams, if the server can */
    uint64_t received; /**< to resume a stream: last frame number received */
    const uint8_t
        *peer_key; /**< of a pair of servers, instead of a cookie and for TLS; also
                                  for keys of gateways; NULL: a client */
    struct tp_stream *parent; /**< bulk: the command stream of its session; borrowed */
    const struct tp_client_security *security; /**< NULL: from TELPHER_TLS_… */
    uint64_t deadline_ns; /**< monotonic; 0 = 2 s from now */
};

/**
 * Connects, exchanges prefaces and creates a stream.
 * @param ret_stream gives the stream.
 * @param ret_reply  gives the server's reply; may be NULL.
 * @param err        gives what failed and what to do, and the server's text; may be NULL.
 * @return OK; INVALID, UNREACHABLE, REFUSED, TIMEOUT, PERMISSION (of the socket file), AUTH,
 *         VERSION, PROTO, PEER_LOST, NO_MEMORY, or the status the server refused with.
 */
telpher_status tp_client_connect(const struct tp_client_params *params,
                                 struct tp_stream **ret_stream,
                                 struct tp_wire_preface_reply *ret_reply,
                                 struct tp_error *err);

/** As tp_client_connect(), without a stream: to resume one. @param ret_conn gives it. */
telpher_status tp_client_dial(const struct tp_client_params *params,
                              struct tp_conn **ret_conn,
                              struct tp_wire_preface_reply *ret_reply,
                              struct tp_error *err);

/**
 * Finds what a gateway connects to: the first host of @p rest, the address that follows it.
 * @return "host[:port]" in @p rest or in @p next; NULL: none, or it is too long for a preface
 */
const char *tp_client_next_hop(const char *rest, char next[TP_ADDRESS_HOP_BYTES]);

/**
 * Writes the default path of the daemon's Unix socket for this user: in /run/telpher for
 * root, else in $XDG_RUNTIME_DIR/telpher, else in /tmp/telpher-UID. Writes "" if another
 * user owns the directory in /tmp or can write into it: no path is safe then.
 */
void tp_client_default_socket(char *dst, size_t cap);
/** Writes the default path of the shared key: ~/.telpher/key, or the system-wide one.
 *  @return false if neither exists */
bool tp_client_default_key(char *dst, size_t cap);
/** Writes the default path of this user's cookie file, in the directory of the socket. */
void tp_client_default_cookie(char *dst, size_t cap);
/**
 * Splits a server list ("a,b:1,unix:/x,local") into addresses; spaces are skipped, empty
 * items are an error. "local" becomes the Unix socket of this user's own daemon, or of the
 * system's daemon if that file does not exist.
 * @param ret_list gives an array of *ret_count strings, one block: free with tp_free.
 */
telpher_status tp_client_parse_servers(const char *text, char ***ret_list,
                                       size_t *ret_count, struct tp_error *err);

#endif
