/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An input as a list of steps, for targets that drive something with a state. What is
 * missing at its end reads as zero, so that every input is a valid list.
 */
#ifndef TELPHER_TESTS_FUZZ_INPUT_H
#define TELPHER_TESTS_FUZZ_INPUT_H

#include "fuzz.h"

struct input {
    const uint8_t *at, *end;
};

static inline size_t
input_left(const struct input *in)
{
    return (size_t)(in->end - in->at);
}

static inline uint8_t
input_u8(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static inline uint16_t
input_u16(struct input *in)
{
    uint16_t low = input_u8(in);

    return (uint16_t)(low | input_u8(in) << 8);
}

/** Gives up to @p len bytes, borrowed. @return how many there are */
static inline size_t
input_bytes(struct input *in, size_t len, const uint8_t **ret_bytes)
{
    len = len < input_left(in) ? len : input_left(in);
    *ret_bytes = in->at;
    in->at += len;
    return len;
}

/**
 * The body of a DATA frame: bytes that its length promises and the input lacks are zeros,
 * up to a limit, so that much content is a short input. @return a block to be freed
 */
static inline uint8_t *
input_data_body(const uint8_t *body, size_t len, size_t *ret_len)
{
    enum { HEAD = 20, CONTENT_MAX = 65536 }; /* transfer, offset, length */
    uint32_t content = 0;
    uint8_t *full;

    if (len >= HEAD) {
        memcpy(&content, body + HEAD - sizeof(content), sizeof(content));
    }
    *ret_len = content <= CONTENT_MAX && len >= HEAD && len < HEAD + content
                   ? HEAD + content
                   : len;
    full = calloc(1, *ret_len + 1);
    require(full != NULL);
    memcpy(full, body, len);
    return full;
}

#endif
