/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages as structs, with size, encode and decode functions for each, generated from
 * messages.def. A decoded struct borrows the frame it was decoded from.
 *
 *   struct tp_wire_launch m = { .queue = q, .kernel = k, .dims = 1, … };
 *   tp_stream_put(stream, TP_WIRE_LAUNCH, &m);
 *
 *   struct tp_wire_launch m;
 *   if (!tp_wire_get_launch(body, end, &m)) … malformed
 */
#ifndef TELPHER_WIRE_MESSAGES_H
#define TELPHER_WIRE_MESSAGES_H

#include <string.h>

#include "wire/frame.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays travel as they lie in memory: little-endian machines only");

/** Array of u64 in a message. `data` may be unaligned: read it with tp_wire_u64_at. */
struct tp_wire_u64s {
    uint16_t count;
    const void *data;
};

/** Bytes in a message; at most 255 in a field of kind FEW. */
struct tp_wire_bytes {
    uint32_t len;
    const void *data;
};

static inline uint64_t
tp_wire_u64_at(const struct tp_wire_u64s *a, size_t i)
{
    uint64_t v;

    memcpy(&v, (const uint8_t *)a->data + i * sizeof(v), sizeof(v));
    return v;
}

/** Message types: TP_WIRE_LAUNCH and so on. */
enum tp_wire_type {
#define MSG(NAME, name, type, ...) TP_WIRE_##NAME = type,
#include "wire/messages.def"
};

#define U8(f) uint8_t f;
#define U16(f) uint16_t f;
#define U32(f) uint32_t f;
#define I32(f) int32_t f;
#define U64(f) uint64_t f;
#define U64S(f) struct tp_wire_u64s f;
#define BYTES(f) struct tp_wire_bytes f;
#define FEW(f) struct tp_wire_bytes f;
#define MSG(NAME, name, type, ...)                                                     \
    struct tp_wire_##name {                                                            \
        __VA_ARGS__                                                                    \
    };                                                                                 \
    /** [bytes] of the encoded body. */                                                \
    size_t tp_wire_size_##name(const struct tp_wire_##name *m);                        \
    /** Writes the body to dst, which has room for tp_wire_size_…(m). */             \
    void tp_wire_put_##name(uint8_t *dst, const struct tp_wire_##name *m);             \
    /** Reads a body that fills [src, end) exactly; false if malformed. */             \
    bool tp_wire_get_##name(const uint8_t *src, const uint8_t *end,                    \
                            struct tp_wire_##name *ret_m);
#include "wire/messages.def"

/** One row of the message table: for generic senders, traces, fuzzers and tests. */
struct tp_wire_message {
    uint16_t type;
    uint16_t struct_size; /**< [bytes] of struct tp_wire_<name> */
    const char *name; /**< "launch" */
    size_t (*size)(const void *m);
    void (*put)(uint8_t *dst, const void *m);
    bool (*get)(const uint8_t *src, const uint8_t *end, void *ret_m);
};

/** Largest struct of the table: room for any decoded message. */
#define TP_WIRE_STRUCT_MAX 160

/** @return the row of a type, or NULL if there is no such message. */
const struct tp_wire_message *tp_wire_message(uint16_t type);
/** Walks the table: row i, or NULL past the end. */
const struct tp_wire_message *tp_wire_message_at(size_t i);

#endif
