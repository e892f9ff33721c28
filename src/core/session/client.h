/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connecting side of a preface: from an address to a stream. Used by the ICD, by
 * libtelpher and by tests.
 */
#ifndef TELPHER_CORE_SESSION_CLIENT_H
#define TELPHER_CORE_SESSION_CLIENT_H

#include "core/session/stream.h"

/** Where a machine's shared key is looked for, behind ~/.telpher/key. */
#define TP_CLIENT_SYSTEM_KEY "/etc/telpher/key"

enum { TP_CLIENT_PORT = 7717 }; /**< default TCP port of telpherd */

/** How servers that are not on this machine are reached. */
struct tp_client_security {
    struct tp_secure_files files;
    bool insecure; /**< not even with TLS */
};

/** What tp_client_connect needs to know. Zero means default. */
struct tp_client_params {
    const char *address; /**< "[tls://|tcp://]host[:port]", "[v6]:port", "unix:/path",
                            "/path" */
    const char *cookie_path; /**< NULL: TELPHER_COOKIE, then the default places */
    uint32_t stream; /**< enum tp_wire_stream; 0 = command */
    uint32_t index; /**< of a bulk stream */
    uint8_t session[TP_WIRE_SESSION_BYTES]; /**< zero = new session */
    struct tp_stream *parent; /**< bulk: the command stream of its session; borrowed */
    const struct tp_client_security *security; /**< NULL: TELPHER_TLS_… say it */
    uint64_t deadline_ns; /**< monotonic; 0 = 2 s from now */
};

/**
 * Connects, exchanges prefaces and makes a stream.
 * @param ret_stream gives the stream.
 * @param ret_reply  gives what the server answered; may be NULL.
 * @param err        says what was wrong and what to do, also the server's own words; may
 *                   be NULL.
 * @return OK; INVALID, UNREACHABLE, REFUSED, TIMEOUT, PERMISSION (of the socket file), AUTH,
 *         VERSION, PROTO, PEER_LOST, NO_MEMORY, or the status the server refused with.
 */
telpher_status tp_client_connect(const struct tp_client_params *params,
                                 struct tp_stream **ret_stream,
                                 struct tp_wire_preface_reply *ret_reply,
                                 struct tp_error *err);

/**
 * Writes the default path of the daemon's Unix socket for this user: in /run/telpher for
 * root, else in $XDG_RUNTIME_DIR/telpher, else in /tmp/telpher-UID. Writes "" if another
 * user made the last one or can write into it: no place is safe then.
 */
void tp_client_default_socket(char *dst, size_t cap);
/** Writes the path of the shared key that is used when none is named: ~/.telpher/key, or
 *  the system's. @return false if there is none */
bool tp_client_default_key(char *dst, size_t cap);
/** Writes the default path of the cookie file for this user: beside the socket. */
void tp_client_default_cookie(char *dst, size_t cap);
/**
 * Splits a server list ("a,b:1,unix:/x,local") into addresses; spaces are skipped, empty
 * items are an error, "local" becomes the Unix socket of this user's own daemon, or of the
 * system's if there is no such file.
 * @param ret_list gives an array of *ret_count strings, one block: free with tp_free.
 */
telpher_status tp_client_parse_servers(const char *text, char ***ret_list,
                                       size_t *ret_count, struct tp_error *err);

#endif
