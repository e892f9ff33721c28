/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of streams over any transport: a known sequence of frames, a receiver that
 * checks that it gets exactly that, and bulk content with a checked pattern.
 */
#ifndef TELPHER_CORE_SESSION_STREAM_SAMPLE_H
#define TELPHER_CORE_SESSION_STREAM_SAMPLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os/clock.h"
#include "core/session/stream.h"
#include "wire/test/sample.h"

enum { SAMPLE_CONTENT_MAX = 1 << 20 };

/** State of the receiver. */
struct sample_sink {
    uint64_t frames; /**< next frame of the sequence expected */
    uint64_t other; /**< frames that are not of the sequence */
    uint16_t last_type;
    telpher_status answer; /**< what frame() returns */
    uint8_t content[SAMPLE_CONTENT_MAX];
    uint64_t begun, ended; /**< [bytes] of data_begin and data_end calls */
    bool discard;
};

/** Type and size class of frame i of the sequence: every type but ACK and DATA. */
static inline uint16_t
sample_type(uint64_t i)
{
    size_t count = 0;

    while (tp_wire_message_at(count) != NULL) {
        count++;
    }
    for (;; i++) {
        uint16_t type = tp_wire_message_at(i % count)->type;

        if (type != TP_WIRE_ACK && type != TP_WIRE_DATA) {
            return type;
        }
    }
}

static inline enum tp_sample
sample_kind(uint64_t i)
{
    return (enum tp_sample)(i % TP_SAMPLE_LARGE);
}

static inline const struct tp_sample_room *
sample_room(void)
{
    static struct tp_sample_room room;

    if (room.bytes[1] == 0) {
        tp_sample_room_init(&room);
    }
    return &room;
}

static inline telpher_status
sample_put(struct tp_stream *s, uint64_t i)
{
    _Alignas(16) uint8_t m[TP_WIRE_STRUCT_MAX] = {0};
    uint16_t type = sample_type(i);

    tp_sample(type, sample_kind(i), sample_room(), m);
    return tp_stream_put(s, type, m);
}

static inline telpher_status
sample_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct sample_sink *sink = arg;
    _Alignas(16) uint8_t want[TP_WIRE_STRUCT_MAX] = {0}, got[TP_WIRE_STRUCT_MAX];

    sink->last_type = type;
    if (sink->answer != TELPHER_OK) {
        return sink->answer;
    }
    if (type != sample_type(sink->frames)) {
        sink->other++;
        return TELPHER_OK;
    }
    tp_sample(type, sample_kind(sink->frames), sample_room(), want);
    assert_true(tp_wire_message(type)->get(body, end, got));
    assert_true(tp_sample_equal(type, want, got));
    sink->frames++;
    return TELPHER_OK;
}

static inline void *
sample_begin(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct sample_sink *sink = arg;

    assert_int_equal(transfer, tp_wire_id(TP_WIRE_KIND_TRANSFER, 1));
    assert_true(offset + len <= SAMPLE_CONTENT_MAX);
    if (sink->discard) {
        return NULL;
    }
    assert_int_equal(sink->begun, sink->ended);
    sink->begun += len;
    return sink->content + offset;
}

static inline void
sample_end(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct sample_sink *sink = arg;

    (void)transfer;
    (void)offset;
    sink->ended += len;
    assert_int_equal(sink->begun, sink->ended);
}

static const struct tp_stream_handler sample_handler = {
    .frame = sample_frame, .data_begin = sample_begin, .data_end = sample_end};

static inline void
sample_fill_content(uint8_t *dst, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        dst[i] = (uint8_t)(i * 7 + i / 253);
    }
}

/** Receives until @p frames of the sequence are there, or the stream breaks. */
static inline telpher_status
sample_receive(struct tp_stream *s, struct sample_sink *sink, uint64_t frames)
{
    uint64_t deadline = tp_clock_deadline(20 * TP_CLOCK_S);

    while (sink->frames < frames) {
        telpher_status status = tp_stream_receive(s, &sample_handler, sink);

        if (status == TELPHER_ERR_AGAIN) {
            status = tp_stream_wait(s, deadline);
        }
        if (status != TELPHER_OK) {
            return status;
        }
    }
    return TELPHER_OK;
}

#endif
