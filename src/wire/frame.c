/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the preface, its reply and the frame header: docs/protocol.md
 * sections 2 and 3. The server checks the fields session, route, index and features.
 */
#include "wire/frame.h"

#include "wire/bytes.h"

#define MAGIC_BYTES (sizeof(TP_WIRE_MAGIC) - 1)
_Static_assert(MAGIC_BYTES == 8, "frozen wire layout");

/* Only for fields that are known to lie inside a buffer of fixed size. */
static const uint8_t *
load_raw(void *dst, const uint8_t *src, size_t len)
{
    memcpy(dst, src, len);
    return src + len;
}

void
tp_wire_put_preface(uint8_t dst[TP_WIRE_PREFACE_BYTES], const struct tp_wire_preface *p)
{
    dst = put_raw(dst, TP_WIRE_MAGIC, MAGIC_BYTES);
    dst = put_u16(dst, p->version_min);
    dst = put_u16(dst, p->version_max);
    dst = put_u32(dst, p->stream);
    dst = put_u64(dst, p->features);
    dst = put_raw(dst, p->session, sizeof(p->session));
    dst = put_u64(dst, p->route);
    dst = put_u32(dst, p->index);
    dst = put_u32(dst, p->auth_len);
    (void)put_u64(dst, p->received);
}

telpher_status
tp_wire_get_preface(const uint8_t src[TP_WIRE_PREFACE_BYTES],
                    struct tp_wire_preface *ret_p)
{
    struct tp_wire_preface p = {
        .version_min = load_u16(src + 8),
        .version_max = load_u16(src + 10),
        .stream = load_u32(src + 12),
        .features = load_u64(src + 16),
        .route = load_u64(src + 40),
        .index = load_u32(src + 48),
        .auth_len = load_u32(src + 52),
        .received = load_u64(src + 56),
    };

    (void)load_raw(p.session, src + 24, sizeof(p.session));
    if (memcmp(src, TP_WIRE_MAGIC, MAGIC_BYTES) != 0 || p.version_min > p.version_max) {
        return TELPHER_ERR_PROTO;
    }
    /* first: in another version the other fields may have another meaning */
    if (p.version_min > TP_WIRE_VERSION || p.version_max < TP_WIRE_VERSION) {
        return TELPHER_ERR_VERSION;
    }
    if (p.stream < TP_WIRE_STREAM_COMMAND || p.stream > TP_WIRE_STREAM_PEER ||
        p.auth_len > TP_WIRE_AUTH_MAX) {
        return TELPHER_ERR_PROTO;
    }
    *ret_p = p;
    return TELPHER_OK;
}

void
tp_wire_put_preface_reply(uint8_t dst[TP_WIRE_PREFACE_REPLY_BYTES],
                          const struct tp_wire_preface_reply *r)
{
    dst = put_raw(dst, TP_WIRE_MAGIC, MAGIC_BYTES);
    dst = put_u16(dst, r->version);
    dst = put_u16(dst, 0);
    dst = put_i32(dst, r->status);
    dst = put_u64(dst, r->features);
    dst = put_raw(dst, r->session, sizeof(r->session));
    dst = put_u64(dst, r->received);
    dst = put_u64(dst, r->window);
    dst = put_u32(dst, r->bulk_max);
    dst = put_u32(dst, r->frame_max);
    memset(dst, 0, sizeof(r->text));
    (void)put_raw(dst, r->text, strnlen(r->text, sizeof(r->text) - 1));
}

telpher_status
tp_wire_get_preface_reply(const uint8_t src[TP_WIRE_PREFACE_REPLY_BYTES],
                          struct tp_wire_preface_reply *ret_r)
{
    struct tp_wire_preface_reply r = {
        .version = load_u16(src + 8),
        .status = load_i32(src + 12),
        .features = load_u64(src + 16),
        .received = load_u64(src + 40),
        .window = load_u64(src + 48),
        .bulk_max = load_u32(src + 56),
        .frame_max = load_u32(src + 60),
    };

    (void)load_raw(r.session, src + 24, sizeof(r.session));
    (void)load_raw(r.text, src + 64, sizeof(r.text));
    if (memcmp(src, TP_WIRE_MAGIC, MAGIC_BYTES) != 0 ||
        memchr(r.text, '\0', sizeof(r.text)) == NULL || r.status > TELPHER_OK) {
        return TELPHER_ERR_PROTO;
    }
    if (r.status == TELPHER_OK &&
        (r.version != TP_WIRE_VERSION || load_u16(src + 10) != 0 ||
         r.frame_max < TP_WIRE_HEADER_BYTES)) {
        return TELPHER_ERR_PROTO;
    }
    *ret_r = r;
    return TELPHER_OK;
}

void
tp_wire_put_challenge(uint8_t dst[TP_WIRE_CHALLENGE_BYTES],
                      const struct tp_wire_challenge *c)
{
    dst = put_raw(dst, TP_WIRE_MAGIC_CHALLENGE, MAGIC_BYTES);
    dst = put_raw(dst, c->nonce, sizeof(c->nonce));
    (void)put_raw(dst, c->proof, sizeof(c->proof));
}

telpher_status
tp_wire_get_challenge(const uint8_t src[TP_WIRE_CHALLENGE_BYTES],
                      struct tp_wire_challenge *ret_c)
{
    if (memcmp(src, TP_WIRE_MAGIC_CHALLENGE, MAGIC_BYTES) != 0) {
        return TELPHER_ERR_PROTO;
    }
    src = load_raw(ret_c->nonce, src + MAGIC_BYTES, sizeof(ret_c->nonce));
    (void)load_raw(ret_c->proof, src, sizeof(ret_c->proof));
    return TELPHER_OK;
}

void
tp_wire_put_header(uint8_t dst[TP_WIRE_HEADER_BYTES], const struct tp_wire_header *h)
{
    dst = put_u32(dst, h->len);
    dst = put_u16(dst, h->type);
    dst = put_u16(dst, h->flags);
    dst = put_u64(dst, h->seq);
    (void)put_u64(dst, h->ack);
}

telpher_status
tp_wire_get_header(const uint8_t src[TP_WIRE_HEADER_BYTES],
                   struct tp_wire_header *ret_h)
{
    struct tp_wire_header h = {
        .len = load_u32(src),
        .type = load_u16(src + 4),
        .flags = load_u16(src + 6),
        .seq = load_u64(src + 8),
        .ack = load_u64(src + 16),
    };

    if (h.len < TP_WIRE_HEADER_BYTES || h.len > TP_WIRE_FRAME_MAX || h.flags != 0) {
        return TELPHER_ERR_PROTO;
    }
    *ret_h = h;
    return TELPHER_OK;
}

/* The top byte of a length is 0, that of a short header is this. */
enum { SHORT_MARK = 0x80 };
_Static_assert(TP_WIRE_FRAME_MAX < 1 << 24, "the top byte of a length is 0");

void
tp_wire_put_short(uint8_t dst[TP_WIRE_SHORT_BYTES], uint8_t type, uint16_t body_len)
{
    dst = put_u16(dst, body_len);
    dst = put_u8(dst, type);
    (void)put_u8(dst, SHORT_MARK);
}

bool
tp_wire_get_short(const uint8_t src[TP_WIRE_SHORT_BYTES], uint8_t *ret_type,
                  uint16_t *ret_body_len)
{
    if (src[3] != SHORT_MARK) {
        return false;
    }
    *ret_body_len = load_u16(src);
    *ret_type = src[2];
    return true;
}
