/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 on top of a connection of another transport (docs/protocol.md section 2.1).
 * OpenSSL does the handshake; the record layer after it is ours (docs/decisions/0022): one
 * thread sends while another receives, a connection moves between processes as a struct,
 * and content is decrypted into the caller's memory.
 *
 *   openssl.c    loads the library at first use   record.c   seals and opens one record
 *   conn.c       the connection                   shake.c    drives a handshake
 *   settings.c   key files to an OpenSSL context  client.c, server.c  the two sides
 *   psk.c        files of shared keys             explain.c  errors and what to do
 *   none.c       replaces all but psk.c in builds without OpenSSL's headers
 */
#ifndef TELPHER_TRANSPORT_TLS_TLS_H
#define TELPHER_TRANSPORT_TLS_TLS_H

#include "waist/transport.h"

enum {
    TP_TLS_SECRET_BYTES = 32,
    TP_TLS_PLAIN_MAX = 16384, /**< content of one record */
    TP_TLS_NAME_MAX = 63, /**< characters in the name of a shared key */
    TP_TLS_HOST_MAX = 255, /**< characters of a host in a file of keys */
    TP_TLS_WHO_BYTES = 128,
    /** In place of a cipher suite: records with a checksum, without encryption or keys. For
     *  plain TCP between machines, docs/protocol.md section 2.3. No TLS. */
    TP_TLS_CHECKSUM = 0xfffc,
};

/** For src/builtin.c. */
extern const struct tp_secure tp_tls_secure;

/** One direction of a connection. */
struct tp_tls_direction {
    uint8_t secret[TP_TLS_SECRET_BYTES]; /**< traffic secret: gives key and IV */
    uint64_t seq; /**< number of the next record */
};

/** State of a connection between two records. Holds secrets: wipe copies. */
struct tp_tls_state {
    uint16_t suite; /**< number of the cipher suite; 0 = no records; TP_TLS_CHECKSUM */
    bool owes_update; /**< the peer has requested a KeyUpdate */
    struct tp_tls_direction rx, tx;
    uint8_t session_key[TP_CONN_KEY_BYTES];
};

/**
 * Makes a TLS connection from a plain one and the state of a handshake or an export.
 * @param plain  takes it, if it succeeds.
 * @param rest   [rest_len] content received before, at most TP_TLS_PLAIN_MAX; copied.
 * @param frugal frees its buffers when idle and reads record by record, so that
 *               tp_tls_export() is possible.
 * @return OK, UNSUPPORTED (no OpenSSL), PROTO (invalid state), NO_MEMORY
 */
telpher_status tp_tls_wrap(struct tp_conn *plain, const struct tp_tls_state *state,
                           const void *rest, size_t rest_len, bool frugal,
                           struct tp_conn **ret_conn);

/**
 * Exports the state of a frugal connection, which may only be destroyed afterwards.
 * The last send must have completed.
 * @param ret_rest gives content received and not yet read; valid until destroy.
 * @return length of that content [bytes]
 */
size_t tp_tls_export(struct tp_conn *conn, struct tp_tls_state *ret_state,
                     const void **ret_rest);

/** True if recv would return content although poll(2) on the descriptor would block. */
bool tp_tls_has_more(struct tp_conn *conn);

/** The server's side of one handshake. */
struct tp_tls_shake;

/**
 * Reads all files that the handshake needs.
 * @param session_key accepts clients with this key only; NULL = the keys of @p files.
 * @return as tp_tls_check_files
 */
telpher_status tp_tls_acceptor_create(const struct tp_secure_files *files,
                                      const uint8_t *session_key,
                                      struct tp_tls_shake **ret_acceptor,
                                      struct tp_error *err);
/**
 * Does the handshake on a connection whose preface has been read; opens no file.
 * @param conn    borrowed; bytes after the handshake are not read.
 * @param ret_who gives the name of the peer's key or the subject of its certificate.
 * @return OK, AUTH, PROTO, TIMEOUT, PEER_LOST, NO_MEMORY; @p err says why
 */
telpher_status tp_tls_acceptor_run(struct tp_tls_shake *acceptor, struct tp_conn *conn,
                                   uint64_t deadline_ns, struct tp_tls_state *ret_state,
                                   char ret_who[TP_TLS_WHO_BYTES],
                                   struct tp_error *err);
void tp_tls_acceptor_destroy(struct tp_tls_shake *acceptor);

/**
 * Checks that a server can use these files.
 * @return OK; UNSUPPORTED (no OpenSSL), NOT_FOUND, PERMISSION, INVALID: why in @p err
 */
telpher_status tp_tls_check_files(const struct tp_secure_files *files,
                                  struct tp_error *err);

/** A shared key. Wipe copies. */
struct tp_tls_psk {
    char name[TP_TLS_NAME_MAX + 1];
    char host[TP_TLS_HOST_MAX + 1]; /**< a client uses it for this server; "" = any */
    uint8_t key[TP_TLS_SECRET_BYTES];
};

/**
 * Reads a file of shared keys: lines "NAME HEX [HOST]", comments after #.
 * @param ret_list gives *ret_count of them, at least one; wipe, then free with tp_free.
 * @return OK; NOT_FOUND, PERMISSION (others can read it), INVALID, NO_MEMORY
 */
telpher_status tp_tls_psk_load(const char *path, struct tp_tls_psk **ret_list,
                               size_t *ret_count, struct tp_error *err);
/**
 * Makes a file with one new key that only this user can read.
 * @param name letters, digits, dot, dash, underscore, @; NULL = a random one.
 * @return OK; EXISTS, INVALID (name), or an error of the system
 */
telpher_status tp_tls_psk_create(const char *path, const char *name,
                                 struct tp_error *err);
/** @return OK if this user can read @p path and other users cannot; else why in @p err */
telpher_status tp_tls_check_private(const char *path, struct tp_error *err);

#endif
