/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preface, frame header, ids and limits: docs/protocol.md sections 2 to 4.
 * Formats only: no I/O, no allocation, no clock.
 */
#ifndef TELPHER_WIRE_FRAME_H
#define TELPHER_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/status.h>

#define TP_WIRE_MAGIC "TELPHER\n"
#define TP_WIRE_MAGIC_CHALLENGE "TELPHER?"
#define TP_WIRE_VERSION 1 /**< the only version so far; min and max of the range */

enum {
    TP_WIRE_PREFACE_BYTES = 64,
    TP_WIRE_PREFACE_REPLY_BYTES = 128,
    TP_WIRE_AUTH_MAX = 256, /**< [bytes] credentials that follow a preface */
    TP_WIRE_ROUTE_MAX = 200, /**< [bytes] address that follows them */
    TP_WIRE_COOKIE_BYTES = 32, /**< secret of loopback TCP, never sent */
    TP_WIRE_NONCE_BYTES = 32,
    TP_WIRE_PROOF_BYTES = 32, /**< HMAC-SHA256: section 2.2 */
    TP_WIRE_CHALLENGE_BYTES = 72,
    TP_WIRE_SESSION_BYTES = 16, /**< random session id */
    TP_WIRE_PEER_KEY_BYTES = 32, /**< key of a pair of servers */
    TP_WIRE_HEADER_BYTES = 24,
    TP_WIRE_SHORT_BYTES = 4, /**< short header */
    TP_WIRE_SHORT_MAX = UINT16_MAX, /**< [bytes] body after a short header */
    TP_WIRE_TEXT_BYTES = 64,
    TP_WIRE_FRAME_MAX = 1 << 20, /**< [bytes] a frame, header included */
    TP_WIRE_INLINE_MAX =
        16 << 10, /**< [bytes] READ and WRITE content in a command frame */
    TP_WIRE_BLOB_MAX = 512 << 10, /**< [bytes] source, binaries, facts in one frame */
    TP_WIRE_CHUNK_MAX = 256 << 10, /**< [bytes] content of one DATA frame */
    TP_WIRE_LAUNCH_MAX = 128, /**< [bytes] LAUNCH with three dimensions, no wait list */
};

/** Bits of `features` in prefaces. */
#define TP_WIRE_FEATURE_SHARED ((uint64_t)1 << 12) /**< content in shared memory */
#define TP_WIRE_FEATURE_SVM ((uint64_t)1 << 13) /**< shared virtual memory */
#define TP_WIRE_FEATURE_TLS ((uint64_t)1 << 18) /**< TLS follows the clear preface */
#define TP_WIRE_FEATURE_PEER ((uint64_t)1 << 19) /**< streams between servers */
#define TP_WIRE_FEATURE_COMPACT ((uint64_t)1 << 20) /**< short headers, LAUNCH_AGAIN */
#define TP_WIRE_FEATURE_RESUME ((uint64_t)1 << 21) /**< streams outlive connections */
#define TP_WIRE_FEATURE_EXPORT ((uint64_t)1 << 22) /**< EXPORT, ENDPOINT */
#define TP_WIRE_FEATURE_CHECKSUM                                                       \
    ((uint64_t)1 << 23) /**< records with checksums follow */
#define TP_WIRE_FEATURE_DRAIN ((uint64_t)1 << 24) /**< DRAIN */
#define TP_WIRE_FEATURE_SUGGEST ((uint64_t)1 << 25) /**< SUGGESTED_SIZE */
#define TP_WIRE_FEATURE_PIPE ((uint64_t)1 << 26) /**< PIPE_CREATE */
#define TP_WIRE_FEATURE_ROUTE ((uint64_t)1 << 27) /**< ROUTE_ACCEPT */

/** Largest region of shared memory. */
#define TP_WIRE_REGION_MAX ((uint64_t)1 << 40)
/** Bytes of one transfer that may be sent before the first CREDIT. */
#define TP_WIRE_WINDOW ((uint64_t)16 << 20)
/** A server that works for a client sends it a frame at least that often [s]. */
#define TP_WIRE_SIGN_S 5
/** Largest transfer: sizes that do not fit a signed 48-bit number are rejected. */
#define TP_WIRE_TRANSFER_MAX ((uint64_t)1 << 47)

/** Bits of ids of transfers that are 0 in the frames of the holder of a token. */
#define TP_WIRE_ENDPOINT_NAMES ((uint64_t)0xffffff << 32)

/** First number of a sub-device; the server's devices have lower numbers. */
#define TP_WIRE_SUB_DEVICE_FIRST ((uint32_t)1 << 16)
/** Maximum of sub-devices that one SUB_DEVICES creates. */
#define TP_WIRE_SUB_DEVICES_MAX 4096
/** Numbers in a SUB_GROUP_INFO and in its reply. */
#define TP_WIRE_SUB_GROUP_SIZES 3
/** [bytes] of the largest value of a specialization constant. */
#define TP_WIRE_SPEC_MAX 8

/** Kind of a connection, given in its preface. */
enum tp_wire_stream {
    TP_WIRE_STREAM_COMMAND = 1, /**< opens a session (or, later, resumes one) */
    TP_WIRE_STREAM_BULK = 2, /**< joins the session named in the preface */
    TP_WIRE_STREAM_PEER = 3, /**< from another server; `session` names the pair */
};

/** Kind of an object: the top 8 bits of its id. */
enum tp_wire_kind {
    TP_WIRE_KIND_CONTEXT = 1,
    TP_WIRE_KIND_QUEUE = 2,
    TP_WIRE_KIND_MEM = 3,
    TP_WIRE_KIND_PROGRAM = 4,
    TP_WIRE_KIND_KERNEL = 5,
    TP_WIRE_KIND_EVENT = 6,
    TP_WIRE_KIND_SAMPLER = 7,
    TP_WIRE_KIND_TRANSFER = 8, /**< top bit of the counter: chosen by the server */
    TP_WIRE_KIND_REQUEST = 9,
    TP_WIRE_KIND_DEVICE = 10, /**< a sub-device; the counter is its number */
    TP_WIRE_KIND_COMMANDS = 11, /**< a command buffer */
    TP_WIRE_KIND_EXPORT = 12, /**< a part of a buffer that others may use */
};

/** Flags of commands (field `flags`). */
enum {
    TP_WIRE_NOTIFY = 1 << 0, /**< send DONE when complete, as if SUBSCRIBE followed */
    TP_WIRE_FLAGS_ALL = TP_WIRE_NOTIFY,
    TP_WIRE_SHARED = 1 << 1, /**< READ, WRITE: the transfer's content is in PIECEs */
    TP_WIRE_CREDIT_FIRST =
        1 << 2, /**< WRITE: the client sends no content before a CREDIT */
    TP_WIRE_AFTER_LAST =
        1 << 3, /**< LAUNCH_AGAIN: waits for the event of the launch before */
};

/** Flag of PEER_READY: the sender sends a frame at least every 5 s. */
enum { TP_WIRE_PEER_SIGNS = 1 << 0 };

/** Rights of an EXPORT; one of them is the access of an ENDPOINT. */
enum {
    TP_WIRE_EXPORT_READ = 1 << 0,
    TP_WIRE_EXPORT_WRITE = 1 << 1,
};

/** Kind of value in a KERNEL_ARG (field `kind`). */
enum tp_wire_arg {
    TP_WIRE_ARG_VALUE = 0, /**< `value` holds `size` bytes */
    TP_WIRE_ARG_MEM = 1, /**< `value` is empty (NULL) or one u64 id of a mem object */
    TP_WIRE_ARG_LOCAL = 2, /**< `value` is empty, `size` bytes of local memory */
    TP_WIRE_ARG_SAMPLER = 3, /**< `value` is one u64 id of a sampler */
    TP_WIRE_ARG_SVM =
        4, /**< `value` is empty (NULL), or u64 id and u64 offset [bytes] */
};

static inline uint64_t
tp_wire_id(enum tp_wire_kind kind, uint64_t counter)
{
    return ((uint64_t)kind << 56) | (counter & 0x00ffffffffffffffULL);
}

static inline enum tp_wire_kind
tp_wire_id_kind(uint64_t id)
{
    return (enum tp_wire_kind)(id >> 56);
}

/** First message of the client; `auth_len` bytes of credentials follow. */
struct tp_wire_preface {
    uint16_t version_min, version_max;
    uint32_t stream; /**< enum tp_wire_stream */
    uint64_t features;
    uint8_t session[TP_WIRE_SESSION_BYTES]; /**< all zero opens a new session */
    uint64_t route; /**< [bytes] address of the server to pass the connection to, which
                         follows the credentials; 0: this server */
    uint32_t index; /**< of the bulk stream, from 0 */
    uint32_t auth_len; /**< [bytes] <= TP_WIRE_AUTH_MAX */
    uint64_t received; /**< last frame number seen; 0 if new */
};

/** The answer to a preface. Status other than OK: the connection closes after it. */
struct tp_wire_preface_reply {
    uint16_t version;
    telpher_status status;
    uint64_t features;
    uint8_t session[TP_WIRE_SESSION_BYTES];
    uint64_t received;
    uint64_t window; /**< [bytes] of a transfer before its first CREDIT */
    uint32_t bulk_max; /**< bulk streams this session may open */
    uint32_t frame_max; /**< [bytes] largest frame the server accepts */
    char text
        [TP_WIRE_TEXT_BYTES]; /**< NUL-terminated; reason of a status other than OK */
};

/** The server's answer to a client's nonce: proof that it knows the cookie. */
struct tp_wire_challenge {
    uint8_t nonce[TP_WIRE_NONCE_BYTES]; /**< random, of the server */
    uint8_t proof[TP_WIRE_PROOF_BYTES];
};

/** Header before every message. */
struct tp_wire_header {
    uint32_t len; /**< [bytes] whole frame, TP_WIRE_HEADER_BYTES .. TP_WIRE_FRAME_MAX */
    uint16_t type; /**< a message type */
    uint16_t flags; /**< must be 0 */
    uint64_t seq; /**< number of this frame on this stream, from 1 */
    uint64_t ack; /**< highest number received from the other side */
};

void tp_wire_put_preface(uint8_t dst[TP_WIRE_PREFACE_BYTES],
                         const struct tp_wire_preface *p);
/** @return OK; PROTO if the magic or a field is wrong; VERSION if the ranges miss. */
telpher_status tp_wire_get_preface(const uint8_t src[TP_WIRE_PREFACE_BYTES],
                                   struct tp_wire_preface *ret_p);
void tp_wire_put_preface_reply(uint8_t dst[TP_WIRE_PREFACE_REPLY_BYTES],
                               const struct tp_wire_preface_reply *r);
telpher_status tp_wire_get_preface_reply(const uint8_t src[TP_WIRE_PREFACE_REPLY_BYTES],
                                         struct tp_wire_preface_reply *ret_r);
void tp_wire_put_challenge(uint8_t dst[TP_WIRE_CHALLENGE_BYTES],
                           const struct tp_wire_challenge *c);
/** @return OK, or PROTO: not a challenge. */
telpher_status tp_wire_get_challenge(const uint8_t src[TP_WIRE_CHALLENGE_BYTES],
                                     struct tp_wire_challenge *ret_c);
void tp_wire_put_header(uint8_t dst[TP_WIRE_HEADER_BYTES],
                        const struct tp_wire_header *h);
/** @return OK, or PROTO when the length is out of range or a flag is set. */
telpher_status tp_wire_get_header(const uint8_t src[TP_WIRE_HEADER_BYTES],
                                  struct tp_wire_header *ret_h);

/** Short header: the frame has the next number, and acknowledges what the one before did. */
void tp_wire_put_short(uint8_t dst[TP_WIRE_SHORT_BYTES], uint8_t type,
                       uint16_t body_len);
/** @return true if a short header begins here; a long one never looks like it. Outputs are
 *          set only then. */
bool tp_wire_get_short(const uint8_t src[TP_WIRE_SHORT_BYTES], uint8_t *ret_type,
                       uint16_t *ret_body_len);

#endif
