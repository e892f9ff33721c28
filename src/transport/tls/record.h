/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals and opens single records of TLS 1.3 (RFC 8446 section 5) and derives their keys.
 * No I/O; only init allocates. Cipher suites: TLS_AES_128_GCM_SHA256 and
 * TLS_CHACHA20_POLY1305_SHA256, so every secret has 32 bytes. docs/decisions/0022 compares
 * this file and conn.c with the RFC clause by clause. TP_TLS_CHECKSUM has the same records
 * with a CRC-32C for a tag, and no keys.
 *
 * Threads: one at a time for each direction.
 */
#ifndef TELPHER_TRANSPORT_TLS_RECORD_H
#define TELPHER_TRANSPORT_TLS_RECORD_H

#include "transport/tls/openssl.h"
#include "transport/tls/tls.h"

enum {
    TP_TLS_HEADER_BYTES = 5,
    TP_TLS_TAG_BYTES = 16,
    TP_TLS_IV_BYTES = 12,
    TP_TLS_EXTRA_BYTES = TP_TLS_TAG_BYTES + 1, /**< sealing adds a tag and a type */
    TP_TLS_BODY_MAX = TP_TLS_PLAIN_MAX + TP_TLS_EXTRA_BYTES, /**< padding included */
    TP_TLS_RECORD_MAX = TP_TLS_HEADER_BYTES + TP_TLS_BODY_MAX,
    TP_TLS_REKEY_RECORDS = 1 << 24, /**< records of one key: RFC 8446 section 5.5 */
};

enum tp_tls_type {
    TP_TLS_CHANGE_CIPHER = 20,
    TP_TLS_ALERT = 21,
    TP_TLS_HANDSHAKE = 22,
    TP_TLS_APPLICATION = 23,
};

enum tp_tls_alert {
    TP_TLS_CLOSE_NOTIFY = 0,
    TP_TLS_UNEXPECTED_MESSAGE = 10,
    TP_TLS_BAD_RECORD_MAC = 20,
    TP_TLS_RECORD_OVERFLOW = 22,
    TP_TLS_ILLEGAL_PARAMETER = 47,
    TP_TLS_NO_ALERT = 255, /**< never sent */
};

enum tp_tls_suite {
    TP_TLS_AES128 = 0x1301,
    TP_TLS_CHACHA = 0x1303,
};

/** One direction of a connection, with its keys ready. */
struct tp_tls_half {
    const struct tp_openssl *o;
    EVP_CIPHER_CTX *ctx;
    uint16_t suite;
    bool sealing;
    struct tp_tls_direction d;
    uint8_t iv[TP_TLS_IV_BYTES];
};

/** @return OK, PROTO (unknown suite), NO_MEMORY, UNSUPPORTED (OpenSSL refuses) */
telpher_status tp_tls_half_init(struct tp_tls_half *h, const struct tp_openssl *o,
                                uint16_t suite, const struct tp_tls_direction *d,
                                bool sealing);
/** Wipes the keys. May follow a failed init or another fini. */
void tp_tls_half_fini(struct tp_tls_half *h);
/**
 * Changes to the next secret: the records after a KeyUpdate.
 * @return OK, UNSUPPORTED (OpenSSL refuses): this direction must not be used again
 */
telpher_status tp_tls_half_rekey(struct tp_tls_half *h);

/**
 * Seals bytes [skip, skip + len) of @p iov as one record.
 * @param len [bytes] at most TP_TLS_PLAIN_MAX; @p iov has at least skip + len.
 * @param dst gives TP_TLS_HEADER_BYTES + len + TP_TLS_EXTRA_BYTES.
 * @return OK, UNSUPPORTED (OpenSSL refuses): this direction must not be used again
 */
telpher_status tp_tls_seal(struct tp_tls_half *h, enum tp_tls_type type,
                           const struct iovec *iov, size_t skip, size_t len,
                           uint8_t *dst);

/** Advice to a client's user about an alert of the server. Static text. */
const char *tp_tls_alert_text(uint8_t alert);

/**
 * Reads the header of a record.
 * @param ret_len gives the length of the body [bytes].
 * @return TP_TLS_NO_ALERT, or why this cannot be a sealed record
 */
enum tp_tls_alert tp_tls_read_header(const uint8_t header[TP_TLS_HEADER_BYTES],
                                     size_t *ret_len);

/**
 * Opens a whole record.
 * @param body_len as tp_tls_read_header() gave it.
 * @param dst      room for body_len - TP_TLS_EXTRA_BYTES; may be the start of the body.
 *                 Undefined if the record is forged.
 * @param ret_type gives the content type; 0 if the record consists of padding.
 * @return OK, PROTO (forged or damaged)
 */
telpher_status tp_tls_open(struct tp_tls_half *h, uint8_t *record, size_t body_len,
                           uint8_t *dst, uint8_t *ret_type, size_t *ret_len);

#endif
