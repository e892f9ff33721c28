/* SPDX-License-Identifier: Apache-2.0 */
/* Seals and opens records of TLS 1.3, or with a checksum: see record.h. */
#include "transport/tls/record.h"

#include <string.h>

#include "base/text/crc32c.h"

/* HKDF-Expand-Label (RFC 8446 section 7.1) with an empty context; len <= one hash. */
static telpher_status
expand_label(const struct tp_openssl *o, const uint8_t secret[TP_TLS_SECRET_BYTES],
             const char *label, uint8_t *dst, size_t len)
{
    uint8_t info[64], out[TP_TLS_SECRET_BYTES];
    size_t label_len = strlen(label), n = 0, out_len = 0;

    info[n++] = 0;
    info[n++] = (uint8_t)len;
    info[n++] = (uint8_t)(6 + label_len);
    memcpy(info + n, "tls13 ", 6);
    memcpy(info + n + 6, label, label_len);
    n += 6 + label_len;
    info[n++] = 0; /* length of the context */
    info[n++] = 1; /* number of the block of HKDF-Expand */
    if (o->EVP_Q_mac(o->lib, "HMAC", NULL, "SHA256", NULL, secret, TP_TLS_SECRET_BYTES,
                     info, n, out, sizeof(out), &out_len) == NULL ||
        out_len < len) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    memcpy(dst, out, len);
    explicit_bzero(out, sizeof(out));
    return TELPHER_OK;
}

/* Derives the key and the IV from the secret. */
static telpher_status
derive_keys(struct tp_tls_half *h)
{
    uint8_t key[TP_TLS_SECRET_BYTES];
    size_t key_len = h->suite == TP_TLS_AES128 ? 16 : 32;
    telpher_status status = expand_label(h->o, h->d.secret, "key", key, key_len);

    if (status == TELPHER_OK) {
        status = expand_label(h->o, h->d.secret, "iv", h->iv, sizeof(h->iv));
    }
    if (status == TELPHER_OK &&
        h->o->EVP_CipherInit_ex(h->ctx,
                                h->suite == TP_TLS_AES128 ? h->o->aes128 : h->o->chacha,
                                NULL, key, NULL, h->sealing) != 1) {
        status = TELPHER_ERR_UNSUPPORTED;
    }
    explicit_bzero(key, sizeof(key));
    return status;
}

telpher_status
tp_tls_half_init(struct tp_tls_half *h, const struct tp_openssl *o, uint16_t suite,
                 const struct tp_tls_direction *d, bool sealing)
{
    telpher_status status;

    *h = (struct tp_tls_half){.o = o, .suite = suite, .sealing = sealing, .d = *d};
    if (suite == TP_TLS_CHECKSUM) {
        return TELPHER_OK;
    }
    if (suite != TP_TLS_AES128 && suite != TP_TLS_CHACHA) {
        return TELPHER_ERR_PROTO;
    }
    h->ctx = o->EVP_CIPHER_CTX_new();
    if (h->ctx == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = derive_keys(h);
    if (status != TELPHER_OK) {
        tp_tls_half_fini(h);
    }
    return status;
}

void
tp_tls_half_fini(struct tp_tls_half *h)
{
    if (h->ctx != NULL) {
        h->o->EVP_CIPHER_CTX_free(h->ctx);
    }
    explicit_bzero(h, sizeof(*h));
}

telpher_status
tp_tls_half_rekey(struct tp_tls_half *h)
{
    telpher_status status = TELPHER_OK;

    if (h->suite == TP_TLS_CHECKSUM) {
        h->d.seq = 0;
        return status;
    }
    status = expand_label(h->o, h->d.secret, "traffic upd", h->d.secret,
                          sizeof(h->d.secret));
    if (status != TELPHER_OK) {
        return status;
    }
    h->d.seq = 0;
    return derive_keys(h);
}

/* Sets the nonce of the next record, and its header as additional data. */
static bool
begin_record(struct tp_tls_half *h, const uint8_t header[TP_TLS_HEADER_BYTES])
{
    uint8_t nonce[TP_TLS_IV_BYTES];
    int n;

    memcpy(nonce, h->iv, sizeof(nonce));
    for (int i = 0; i < 8; i++) {
        nonce[TP_TLS_IV_BYTES - 1 - i] ^= (uint8_t)(h->d.seq >> (8 * i));
    }
    return h->o->EVP_CipherInit_ex(h->ctx, NULL, NULL, NULL, nonce, -1) == 1 &&
           h->o->EVP_CipherUpdate(h->ctx, NULL, &n, header, TP_TLS_HEADER_BYTES) == 1;
}

/* Encrypts or decrypts. @return false if OpenSSL fails or holds bytes back */
static bool
crypt_bytes(struct tp_tls_half *h, uint8_t *dst, const uint8_t *src, size_t len)
{
    int n = 0;

    return len == 0 || (h->o->EVP_CipherUpdate(h->ctx, dst, &n, src, (int)len) == 1 &&
                        (size_t)n == len);
}

/* The same for bytes [skip, skip + len) of the list. */
static bool
crypt_list(struct tp_tls_half *h, const struct iovec *iov, size_t skip, size_t len,
           uint8_t *dst)
{
    while (skip >= iov->iov_len && len > 0) {
        skip -= iov->iov_len;
        iov++;
    }
    for (; len > 0; iov++, skip = 0) {
        size_t part = iov->iov_len - skip < len ? iov->iov_len - skip : len;

        if (!crypt_bytes(h, dst, (const uint8_t *)iov->iov_base + skip, part)) {
            return false;
        }
        dst += part;
        len -= part;
    }
    return true;
}

/* The checksum of a record without its tag: its number, its header, content and type. */
static void
make_sum(const struct tp_tls_half *h, const uint8_t *record, size_t len,
         uint8_t ret_tag[TP_TLS_TAG_BYTES])
{
    uint8_t number[8];
    uint32_t sum;

    for (int i = 0; i < 8; i++) {
        number[i] = (uint8_t)(h->d.seq >> (8 * i));
    }
    sum = tp_crc32c(0, number, sizeof(number));
    sum ^= tp_crc32c_by_three(record, TP_TLS_HEADER_BYTES + len + 1);
    memset(ret_tag, 0, TP_TLS_TAG_BYTES);
    for (int i = 0; i < 4; i++) {
        ret_tag[i] = (uint8_t)(sum >> (8 * i));
    }
}

static void
copy_list(const struct iovec *iov, size_t skip, size_t len, uint8_t *dst)
{
    while (skip >= iov->iov_len && len > 0) {
        skip -= iov->iov_len;
        iov++;
    }
    for (; len > 0; iov++, skip = 0) {
        size_t part = iov->iov_len - skip < len ? iov->iov_len - skip : len;

        memcpy(dst, (const uint8_t *)iov->iov_base + skip, part);
        dst += part;
        len -= part;
    }
}

/* Encrypts bytes [skip, skip + len) of the list after the header, then the type. */
static bool
encrypt_record(struct tp_tls_half *h, const struct iovec *iov, size_t skip, size_t len,
               uint8_t type, uint8_t *dst)
{
    uint8_t *body = dst + TP_TLS_HEADER_BYTES;
    int n;

    return begin_record(h, dst) && crypt_list(h, iov, skip, len, body) &&
           crypt_bytes(h, body + len, &type, 1) &&
           h->o->EVP_CipherFinal_ex(h->ctx, body + len + 1, &n) == 1 &&
           h->o->EVP_CIPHER_CTX_ctrl(h->ctx, EVP_CTRL_AEAD_GET_TAG, TP_TLS_TAG_BYTES,
                                     body + len + 1) == 1;
}

telpher_status
tp_tls_seal(struct tp_tls_half *h, enum tp_tls_type type, const struct iovec *iov,
            size_t skip, size_t len, uint8_t *dst)
{
    size_t body_len = len + TP_TLS_EXTRA_BYTES;
    uint8_t *body = dst + TP_TLS_HEADER_BYTES;

    dst[0] = TP_TLS_APPLICATION;
    dst[1] = dst[2] = 3;
    dst[3] = (uint8_t)(body_len >> 8);
    dst[4] = (uint8_t)body_len;
    if (h->suite == TP_TLS_CHECKSUM) {
        copy_list(iov, skip, len, body);
        body[len] = (uint8_t)type;
        make_sum(h, dst, len, body + len + 1);
    } else if (!encrypt_record(h, iov, skip, len, (uint8_t)type, dst)) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    h->d.seq++;
    return TELPHER_OK;
}

enum tp_tls_alert
tp_tls_read_header(const uint8_t header[TP_TLS_HEADER_BYTES], size_t *ret_len)
{
    size_t len = (size_t)header[3] << 8 | header[4];

    if (header[0] != TP_TLS_APPLICATION) {
        return TP_TLS_UNEXPECTED_MESSAGE;
    }
    if (len > TP_TLS_BODY_MAX) {
        return TP_TLS_RECORD_OVERFLOW;
    }
    *ret_len = len;
    return len < TP_TLS_EXTRA_BYTES ? TP_TLS_BAD_RECORD_MAC : TP_TLS_NO_ALERT;
}

/* Compares the checksum, then copies the content. */
static bool
check_record(struct tp_tls_half *h, const uint8_t *record, size_t len, uint8_t *dst,
             uint8_t *ret_type)
{
    const uint8_t *body = record + TP_TLS_HEADER_BYTES;
    uint8_t tag[TP_TLS_TAG_BYTES];

    make_sum(h, record, len, tag);
    if (memcmp(tag, body + len + 1, sizeof(tag)) != 0) {
        return false;
    }
    *ret_type = body[len];
    if (dst != body) {
        memcpy(dst, body, len);
    }
    return true;
}

static bool
decrypt_record(struct tp_tls_half *h, const uint8_t *record, size_t len, uint8_t *dst,
               uint8_t *ret_type)
{
    const uint8_t *body = record + TP_TLS_HEADER_BYTES;
    uint8_t tag[TP_TLS_TAG_BYTES];
    int n;

    memcpy(tag, body + len + 1, sizeof(tag));
    return begin_record(h, record) && crypt_bytes(h, dst, body, len) &&
           crypt_bytes(h, ret_type, body + len, 1) &&
           h->o->EVP_CIPHER_CTX_ctrl(h->ctx, EVP_CTRL_AEAD_SET_TAG, TP_TLS_TAG_BYTES,
                                     tag) == 1 &&
           h->o->EVP_CipherFinal_ex(h->ctx, tag, &n) == 1;
}

telpher_status
tp_tls_open(struct tp_tls_half *h, uint8_t *record, size_t body_len, uint8_t *dst,
            uint8_t *ret_type, size_t *ret_len)
{
    size_t len = body_len - TP_TLS_EXTRA_BYTES;
    uint8_t type;

    if (!(h->suite == TP_TLS_CHECKSUM ? check_record(h, record, len, dst, &type)
                                      : decrypt_record(h, record, len, dst, &type))) {
        return TELPHER_ERR_PROTO;
    }
    h->d.seq++;
    while (type == 0 && len > 0) { /* padding comes after the type */
        type = dst[--len];
    }
    *ret_type = type;
    *ret_len = len;
    return TELPHER_OK;
}
