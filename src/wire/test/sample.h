/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests and corpus generators: fills the struct of any message with sample values, and
 * compares two structs field by field. Generated from messages.def, as the codec is.
 */
#ifndef TELPHER_WIRE_SAMPLE_H
#define TELPHER_WIRE_SAMPLE_H

#include "wire/messages.h"

enum tp_sample {
    TP_SAMPLE_ZERO, /**< zeros, empty arrays */
    TP_SAMPLE_ONES, /**< all bits set, one element in each array */
    TP_SAMPLE_PATTERN, /**< every field different, arrays of a few elements */
    TP_SAMPLE_LARGE, /**< as PATTERN, arrays as long as their count allows or 64 KiB */
    TP_SAMPLE_COUNT
};

/** Memory for the arrays of a struct while it is in use. */
struct tp_sample_room {
    uint8_t bytes[65535 * 8 + 1]; /* arrays start at an odd address on purpose */
};

struct tp_sample_source {
    enum tp_sample kind;
    uint64_t next;
    const struct tp_sample_room *room;
};

static inline void
tp_sample_room_init(struct tp_sample_room *room)
{
    for (size_t i = 0; i < sizeof(room->bytes); i++) {
        room->bytes[i] = (uint8_t)(i * 131 + i / 251);
    }
}

static inline uint64_t
tp_sample_integer(struct tp_sample_source *f)
{
    if (f->kind == TP_SAMPLE_ZERO) {
        return 0;
    }
    if (f->kind == TP_SAMPLE_ONES) {
        return UINT64_MAX;
    }
    f->next += 0x0123456789abcdefULL;
    return f->next;
}

static inline struct tp_wire_u64s
tp_sample_u64s(struct tp_sample_source *f)
{
    static const uint16_t counts[TP_SAMPLE_COUNT] = {0, 1, 3, 65535};
    struct tp_wire_u64s a = {.count = counts[f->kind], .data = f->room->bytes + 1};

    return a;
}

static inline struct tp_wire_bytes
tp_sample_bytes(struct tp_sample_source *f)
{
    static const uint32_t lens[TP_SAMPLE_COUNT] = {0, 1, 37, 65536};
    struct tp_wire_bytes b = {.len = lens[f->kind], .data = f->room->bytes + 1};

    return b;
}

static inline struct tp_wire_bytes
tp_sample_few(struct tp_sample_source *f)
{
    struct tp_wire_bytes b = tp_sample_bytes(f);

    b.len = b.len <= UINT8_MAX ? b.len : UINT8_MAX;
    return b;
}

#define U8(f) m->f = (uint8_t)tp_sample_integer(source);
#define U16(f) m->f = (uint16_t)tp_sample_integer(source);
#define U32(f) m->f = (uint32_t)tp_sample_integer(source);
#define I32(f) m->f = (int32_t)tp_sample_integer(source);
#define U64(f) m->f = tp_sample_integer(source);
#define U64S(f) m->f = tp_sample_u64s(source);
#define BYTES(f) m->f = tp_sample_bytes(source);
#define FEW(f) m->f = tp_sample_few(source);
#define MSG(NAME, name, type, ...)                                                     \
    static inline void tp_sample_##name(struct tp_sample_source *source,               \
                                        struct tp_wire_##name *m)                      \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }
#include "wire/messages.def"

#define INTEGER_EQUAL(f) &&a->f == b->f
#define U8(f) INTEGER_EQUAL(f)
#define U16(f) INTEGER_EQUAL(f)
#define U32(f) INTEGER_EQUAL(f)
#define I32(f) INTEGER_EQUAL(f)
#define U64(f) INTEGER_EQUAL(f)
#define U64S(f)                                                                        \
    &&a->f.count ==                                                                    \
        b->f.count &&memcmp(a->f.data, b->f.data,                                      \
                            (size_t)a->f.count * sizeof(uint64_t)) == 0
#define BYTES(f) &&a->f.len == b->f.len &&memcmp(a->f.data, b->f.data, a->f.len) == 0
#define FEW(f) BYTES(f)
#define MSG(NAME, name, type, ...)                                                     \
    static inline bool tp_sample_equal_##name(const struct tp_wire_##name *a,          \
                                              const struct tp_wire_##name *b)          \
    {                                                                                  \
        return true __VA_ARGS__;                                                       \
    }
#include "wire/messages.def"
#undef INTEGER_EQUAL

/** Fills the struct of @p type at @p m. */
static inline void
tp_sample(uint16_t type, enum tp_sample kind, const struct tp_sample_room *room,
          void *m)
{
    struct tp_sample_source source = {.kind = kind, .room = room};

    switch (type) {
#define MSG(NAME, name, type, ...)                                                     \
    case type:                                                                         \
        tp_sample_##name(&source, m);                                                  \
        break;
#include "wire/messages.def"
    default:
        break;
    }
}

/** Compares two structs of @p type, contents of arrays included. */
static inline bool
tp_sample_equal(uint16_t type, const void *a, const void *b)
{
    switch (type) {
#define MSG(NAME, name, type, ...)                                                     \
    case type:                                                                         \
        return tp_sample_equal_##name(a, b);
#include "wire/messages.def"
    default:
        return false;
    }
}

#endif
