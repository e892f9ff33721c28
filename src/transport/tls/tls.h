/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 around a connection of another transport (docs/protocol.md section 2.1,
 * docs/decisions): OpenSSL does the handshake, the records after it are ours. So one
 * thread sends while another receives, a connection is handed from process to process as
 * a few numbers, and content is decrypted to where it belongs.
 *
 *   openssl.c    the library, loaded at first use   record.c  one record, sealed or opened
 *   conn.c       the connection                     shake.c   driving a handshake
 *   settings.c   files to a TLS context             client.c, server.c  the two sides
 *   psk.c        files of shared keys               explain.c, words.c  errors with a remedy
 *   none.c       in the place of all but psk.c where OpenSSL's headers are missing
 */
#ifndef TELPHER_TRANSPORT_TLS_H
#define TELPHER_TRANSPORT_TLS_H

#include "core/transport.h"

enum {
    TP_TLS_SECRET_BYTES = 32,
    TP_TLS_PLAIN_MAX = 16384, /**< content of one record */
    TP_TLS_NAME_MAX = 63, /**< characters in the name of a shared key */
    TP_TLS_WHO_BYTES = 128,
};

/** For src/builtin.c. */
extern const struct tp_secure tp_tls_secure;

/** One direction of a connection. */
struct tp_tls_direction {
    uint8_t secret[TP_TLS_SECRET_BYTES]; /**< traffic secret; the keys follow from it */
    uint64_t seq; /**< number of the next record */
};

/** All there is to know of a connection between two records. A secret: wipe copies. */
struct tp_tls_state {
    uint16_t suite; /**< number of the cipher suite; 0 = no TLS */
    bool owes_update; /**< the peer has asked for new keys */
    struct tp_tls_direction rx, tx;
    uint8_t session_key[TP_CONN_KEY_BYTES];
};

/**
 * Makes a connection of a socket and the state that a handshake or an export left.
 * @param plain  takes it, if it succeeds.
 * @param rest   [rest_len] bytes received already, at most TP_TLS_PLAIN_MAX; copied.
 * @param frugal holds no buffer while nothing is under way and reads record by record, so
 *               that it can be exported at any time.
 * @return OK, UNSUPPORTED (no OpenSSL here), PROTO (state is none), NO_MEMORY
 */
telpher_status tp_tls_wrap(struct tp_conn *plain, const struct tp_tls_state *state,
                           const void *rest, size_t rest_len, bool frugal,
                           struct tp_conn **ret_conn);

/**
 * Gives the state of a frugal connection away: from now on it may only be destroyed.
 * Nothing may wait unsent. @param ret_rest  gives bytes received and not yet taken, until
 * the connection is destroyed. @return how many
 */
size_t tp_tls_export(struct tp_conn *conn, struct tp_tls_state *ret_state,
                     const void **ret_rest);

/** True if bytes can be received that poll(2) on the descriptor knows nothing of. */
bool tp_tls_has_more(struct tp_conn *conn);

/** The accepting side of one handshake. */
struct tp_tls_shake;

/**
 * Reads all files that the handshake needs.
 * @param session_key who has this key is let in, and nobody else; NULL = by @p files.
 * @return as tp_tls_check_files
 */
telpher_status tp_tls_acceptor_create(const struct tp_secure_files *files,
                                      const uint8_t *session_key,
                                      struct tp_tls_shake **ret_acceptor,
                                      struct tp_error *err);
/**
 * Does the handshake on a connection whose preface has been read; opens no file.
 * @param conn    borrowed; nothing is read from it behind the handshake.
 * @param ret_who gives the name of the peer's key or the subject of its certificate.
 * @return OK, AUTH, PROTO, TIMEOUT, PEER_LOST, NO_MEMORY; @p err says why
 */
telpher_status tp_tls_acceptor_run(struct tp_tls_shake *acceptor, struct tp_conn *conn,
                                   uint64_t deadline_ns, struct tp_tls_state *ret_state,
                                   char ret_who[TP_TLS_WHO_BYTES],
                                   struct tp_error *err);
void tp_tls_acceptor_destroy(struct tp_tls_shake *acceptor);

/**
 * Sees whether a server could work with these files.
 * @return OK; UNSUPPORTED (no OpenSSL here), NOT_FOUND, PERMISSION, INVALID: why in @p err
 */
telpher_status tp_tls_check_files(const struct tp_secure_files *files,
                                  struct tp_error *err);

/** A shared key. Wipe copies. */
struct tp_tls_psk {
    char name[TP_TLS_NAME_MAX + 1];
    uint8_t key[TP_TLS_SECRET_BYTES];
};

/**
 * Reads a file of shared keys: lines "NAME HEX", comments after #.
 * @param ret_list gives *ret_count of them, at least one; wipe, then free with tp_free.
 * @return OK; NOT_FOUND, PERMISSION (others can read it), INVALID, NO_MEMORY
 */
telpher_status tp_tls_psk_load(const char *path, struct tp_tls_psk **ret_list,
                               size_t *ret_count, struct tp_error *err);
/**
 * Makes a file with one new key that only this user can read.
 * @param name letters, digits, dot, dash, underscore, @; NULL = a random one.
 * @return OK; EXISTS, INVALID (name), or the system's
 */
telpher_status tp_tls_psk_create(const char *path, const char *name,
                                 struct tp_error *err);
/** OK if the secret file @p path can be read by this user and by no stranger. */
telpher_status tp_tls_check_private(const char *path, struct tp_error *err);

#endif
