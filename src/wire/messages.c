/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size, encode and decode functions of every message, and the message table, generated
 * from messages.def, which defines each message once.
 */
#include "wire/messages.h"

#include "wire/bytes.h"

/* A u16 count and a u32 length: neither sum below can overflow. */
_Static_assert(sizeof(size_t) >= 8, "sizes of messages are summed without checks");

static uint8_t *
put_u64s(uint8_t *dst, const struct tp_wire_u64s *a)
{
    dst = put_u16(dst, a->count);
    return put_raw(dst, a->data, (size_t)a->count * sizeof(uint64_t));
}

static bool
take_u64s(const uint8_t **src, const uint8_t *end, struct tp_wire_u64s *ret_a)
{
    return take_u16(src, end, &ret_a->count) &&
           take_raw(src, end, (size_t)ret_a->count * sizeof(uint64_t), &ret_a->data);
}

static uint8_t *
put_bytes(uint8_t *dst, const struct tp_wire_bytes *b)
{
    dst = put_u32(dst, b->len);
    return put_raw(dst, b->data, b->len);
}

static bool
take_bytes(const uint8_t **src, const uint8_t *end, struct tp_wire_bytes *ret_b)
{
    return take_u32(src, end, &ret_b->len) &&
           take_raw(src, end, ret_b->len, &ret_b->data);
}

static uint8_t *
put_few(uint8_t *dst, const struct tp_wire_bytes *b)
{
    dst = put_u8(dst, (uint8_t)b->len);
    return put_raw(dst, b->data, (uint8_t)b->len);
}

static bool
take_few(const uint8_t **src, const uint8_t *end, struct tp_wire_bytes *ret_b)
{
    uint8_t len;

    if (!take_u8(src, end, &len)) {
        return false;
    }
    ret_b->len = len;
    return take_raw(src, end, len, &ret_b->data);
}

/* Sizes: one sum. */
#define U8(f) +sizeof(uint8_t)
#define U16(f) +sizeof(uint16_t)
#define U32(f) +sizeof(uint32_t)
#define I32(f) +sizeof(int32_t)
#define U64(f) +sizeof(uint64_t)
#define U64S(f) +sizeof(uint16_t) + (size_t)m->f.count * sizeof(uint64_t)
#define BYTES(f) +sizeof(uint32_t) + m->f.len
#define FEW(f) +sizeof(uint8_t) + (uint8_t)m->f.len
#define MSG(NAME, name, type, ...)                                                     \
    size_t tp_wire_size_##name(const struct tp_wire_##name *m)                         \
    {                                                                                  \
        (void)m; /* of fixed size */                                                   \
        return (size_t)0 __VA_ARGS__;                                                  \
    }
#include "wire/messages.def"

/* Encoders: one put a field. */
#define U8(f) dst = put_u8(dst, m->f);
#define U16(f) dst = put_u16(dst, m->f);
#define U32(f) dst = put_u32(dst, m->f);
#define I32(f) dst = put_i32(dst, m->f);
#define U64(f) dst = put_u64(dst, m->f);
#define U64S(f) dst = put_u64s(dst, &m->f);
#define BYTES(f) dst = put_bytes(dst, &m->f);
#define FEW(f) dst = put_few(dst, &m->f);
#define MSG(NAME, name, type, ...)                                                     \
    void tp_wire_put_##name(uint8_t *dst, const struct tp_wire_##name *m)              \
    {                                                                                  \
        __VA_ARGS__(void) dst;                                                         \
    }
#include "wire/messages.def"

/*
 * Decoders: one take a field, and nothing may be left over. MSG defines tp_wire_get_launch()
 * and so on, one per message of messages.def. Their names exist only after preprocessing, so
 * grep does not find them.
 */
#define U8(f) &&take_u8(&src, end, &m.f)
#define U16(f) &&take_u16(&src, end, &m.f)
#define U32(f) &&take_u32(&src, end, &m.f)
#define I32(f) &&take_i32(&src, end, &m.f)
#define U64(f) &&take_u64(&src, end, &m.f)
#define U64S(f) &&take_u64s(&src, end, &m.f)
#define BYTES(f) &&take_bytes(&src, end, &m.f)
#define FEW(f) &&take_few(&src, end, &m.f)
#define MSG(NAME, name, type, ...)                                                     \
    bool tp_wire_get_##name(const uint8_t *src, const uint8_t *end,                    \
                            struct tp_wire_##name *ret_m)                              \
    {                                                                                  \
        struct tp_wire_##name m;                                                       \
                                                                                       \
        if (!(true __VA_ARGS__) || src != end) {                                       \
            return false;                                                              \
        }                                                                              \
        *ret_m = m;                                                                    \
        return true;                                                                   \
    }
#include "wire/messages.def"

/* The table: the same functions with untyped pointers. */
#define MSG(NAME, name, type, ...)                                                     \
    _Static_assert(sizeof(struct tp_wire_##name) <= TP_WIRE_STRUCT_MAX,                \
                   "TP_WIRE_STRUCT_MAX is too small for " #name);                      \
    static size_t size_##name(const void *m) { return tp_wire_size_##name(m); }        \
    static void row_put_##name(uint8_t *dst, const void *m)                            \
    {                                                                                  \
        tp_wire_put_##name(dst, m);                                                    \
    }                                                                                  \
    static bool row_get_##name(const uint8_t *src, const uint8_t *end, void *ret_m)    \
    {                                                                                  \
        return tp_wire_get_##name(src, end, ret_m);                                    \
    }
#include "wire/messages.def"

enum row {
#define MSG(NAME, name, type, ...) ROW_##NAME,
#include "wire/messages.def"
    ROW_COUNT
};

static const struct tp_wire_message rows[ROW_COUNT] = {
#define MSG(NAME, name, type, ...)                                                     \
    [ROW_##NAME] = {type,           sizeof(struct tp_wire_##name),                     \
                    #name,          size_##name,                                       \
                    row_put_##name, row_get_##name},
#include "wire/messages.def"
};

/* Row of a type plus one, 0 where there is none: the lookup is on every frame's path. */
static const uint8_t row_of_type[256] = {
#define MSG(NAME, name, type, ...) [type] = ROW_##NAME + 1,
#include "wire/messages.def"
};

const struct tp_wire_message *
tp_wire_message(uint16_t type)
{
    if (type >= sizeof(row_of_type) || row_of_type[type] == 0) {
        return NULL;
    }
    return &rows[row_of_type[type] - 1];
}

const struct tp_wire_message *
tp_wire_message_at(size_t i)
{
    return i < ROW_COUNT ? &rows[i] : NULL;
}
