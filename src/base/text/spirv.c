/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over the instructions of a SPIR-V module, once for each question. */
#include "base/text/spirv.h"

#include <string.h>

enum {
    MAGIC = 0x07230203,
    MAGIC_SWAPPED = 0x03022307,
    HEADER_WORDS = 5,
    /* instructions */
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_SPEC_CONSTANT_TRUE = 48,
    OP_SPEC_CONSTANT_FALSE = 49,
    OP_SPEC_CONSTANT = 50,
    OP_DECORATE = 71,
    DECORATION_SPEC_ID = 1,
};

struct walk {
    const uint8_t *module;
    size_t count; /* of words */
    bool swapped;
    size_t next; /* word of the next instruction */
};

/* One instruction; words beyond its count must not be asked for. */
struct instruction {
    const struct walk *walk;
    size_t at;
    uint16_t op, words;
};

static uint32_t
word_at(const struct walk *w, size_t i)
{
    uint32_t word;

    memcpy(&word, w->module + i * sizeof(word), sizeof(word));
    return w->swapped ? __builtin_bswap32(word) : word;
}

static uint32_t
operand(const struct instruction *in, size_t i)
{
    return word_at(in->walk, in->at + i);
}

/* @return false: that is no module */
static bool
begin(struct walk *w, const void *module, size_t len)
{
    uint32_t magic;

    *w = (struct walk){
        .module = module, .count = len / sizeof(magic), .next = HEADER_WORDS};
    if (len % sizeof(magic) != 0 || w->count < HEADER_WORDS) {
        return false;
    }
    memcpy(&magic, module, sizeof(magic));
    w->swapped = magic == MAGIC_SWAPPED;
    return magic == MAGIC || w->swapped;
}

/* @return false at the end, and where something is wrong: w->next is not w->count then */
static bool
step(struct walk *w, struct instruction *ret)
{
    uint32_t first;

    if (w->next >= w->count) {
        return false;
    }
    first = word_at(w, w->next);
    *ret = (struct instruction){w, w->next, (uint16_t)first, (uint16_t)(first >> 16)};
    if (ret->words == 0 || ret->words > w->count - w->next) {
        return false;
    }
    w->next += ret->words;
    return true;
}

bool
tp_spirv_is_module(const void *module, size_t len)
{
    struct instruction in;
    struct walk w;

    if (!begin(&w, module, len)) {
        return false;
    }
    while (step(&w, &in)) {
    }
    return w.next == w.count;
}

/* Finds the id that has this number. @return false: none */
static bool
find_target(struct walk w, uint32_t spec_id, uint32_t *ret_id)
{
    struct instruction in;

    while (step(&w, &in)) {
        if (in.op == OP_DECORATE && in.words == 4 &&
            operand(&in, 2) == DECORATION_SPEC_ID && operand(&in, 3) == spec_id) {
            *ret_id = operand(&in, 1);
            return true;
        }
    }
    return false;
}

/* [bytes] of a number's type, 0: it is none */
static size_t
type_bytes(struct walk w, uint32_t id)
{
    struct instruction in;

    while (step(&w, &in)) {
        if ((in.op == OP_TYPE_INT || in.op == OP_TYPE_FLOAT) && in.words >= 3 &&
            operand(&in, 1) == id) {
            uint32_t bits = operand(&in, 2);

            return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
        }
    }
    return 0;
}

size_t
tp_spirv_constant_bytes(const void *module, size_t len, uint32_t spec_id)
{
    struct instruction in;
    struct walk w, again;
    uint32_t id;

    if (!begin(&w, module, len) || !find_target(w, spec_id, &id)) {
        return 0;
    }
    again = w;
    while (step(&w, &in)) {
        bool truth = in.op == OP_SPEC_CONSTANT_TRUE || in.op == OP_SPEC_CONSTANT_FALSE;

        if ((truth || in.op == OP_SPEC_CONSTANT) && in.words >= 3 &&
            operand(&in, 2) == id) {
            return truth ? 1 : type_bytes(again, operand(&in, 1));
        }
    }
    return 0;
}
