/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of TLS 1.3 (RFC 8446 section 5): sealing and opening one, new keys. No I/O, no
 * allocation but in init. Cipher suites: TLS_AES_128_GCM_SHA256 and
 * TLS_CHACHA20_POLY1305_SHA256, so that every secret has 32 bytes.
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
    TP_TLS_EXTRA_BYTES = TP_TLS_TAG_BYTES + 1, /**< what sealing adds to the content */
    TP_TLS_BODY_MAX =
        TP_TLS_PLAIN_MAX + 256, /**< what a peer may send after a header */
    TP_TLS_RECORD_MAX = TP_TLS_HEADER_BYTES + TP_TLS_BODY_MAX,
    TP_TLS_REKEY_RECORDS = 1 << 24, /**< of one key: RFC 8446 section 5.5 */
};

enum tp_tls_type {
    TP_TLS_CHANGE_CIPHER = 20,
    TP_TLS_ALERT = 21,
    TP_TLS_HANDSHAKE = 22,
    TP_TLS_APPLICATION = 23,
};

enum tp_tls_suite {
    TP_TLS_AES128 = 0x1301,
    TP_TLS_CHACHA = 0x1303,
};

/** One direction, with its keys ready. */
struct tp_tls_half {
    const struct tp_openssl *o;
    EVP_CIPHER_CTX *ctx;
    uint16_t suite;
    bool sealing;
    struct tp_tls_direction d;
    uint8_t iv[TP_TLS_IV_BYTES];
};

/** @return OK, PROTO (no suite of ours), NO_MEMORY, UNSUPPORTED (OpenSSL refuses) */
telpher_status tp_tls_half_init(struct tp_tls_half *h, const struct tp_openssl *o,
                                uint16_t suite, const struct tp_tls_direction *d,
                                bool sealing);
/** Wipes. Fine after an init that failed, and twice. */
void tp_tls_half_fini(struct tp_tls_half *h);
/** Goes on to the next secret: the records after a KeyUpdate. */
telpher_status tp_tls_half_rekey(struct tp_tls_half *h);

/**
 * Seals bytes [skip, skip + len) of @p iov as one record.
 * @param len [bytes] at most TP_TLS_PLAIN_MAX, all there.
 * @param dst room for TP_TLS_HEADER_BYTES + len + TP_TLS_EXTRA_BYTES, all written.
 */
telpher_status tp_tls_seal(struct tp_tls_half *h, enum tp_tls_type type,
                           const struct iovec *iov, size_t skip, size_t len,
                           uint8_t *dst);

/** Length of the body of a record from its header; 0: not a header of a sealed record. */
size_t tp_tls_body_len(const uint8_t header[TP_TLS_HEADER_BYTES]);

/**
 * Opens a whole record.
 * @param record header and body; the body has tp_tls_body_len() bytes.
 * @param dst    room for the body less TP_TLS_EXTRA_BYTES; may be the body's own place.
 *               Holds rubbish if the record is forged.
 * @return OK, PROTO (forged, cut, or no content type in it)
 */
telpher_status tp_tls_open(struct tp_tls_half *h, const uint8_t *record, uint8_t *dst,
                           uint8_t *ret_type, size_t *ret_len);

#endif
