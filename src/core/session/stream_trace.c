/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace records of frames: "send launch", "recv done". A record has the stream's number in
 * this process, the frame's number, its acknowledgement, its length and its first id (event,
 * request, object, transfer). A frame depends on nothing newer than the frame that it
 * acknowledges. A DONE belongs to the command of the same event.
 */
#include "base/trace/trace.h"
#include "core/session/stream_int.h"

struct names {
    const char *send, *recv;
    const char *id; /* name of the first field if it is a 64-bit one, else NULL */
};

/* Name of a message's first field, or NULL. */
#define FIRST(first, ...) first
#define U8(f) NULL,
#define U16(f) NULL,
#define U32(f) NULL,
#define I32(f) NULL,
#define U64(f) #f,
#define U64S(f) NULL,
#define BYTES(f) NULL,
#define FEW(f) NULL,
#define FIRST_OF(...) FIRST(__VA_ARGS__)

static const struct names names[256] = {
#define MSG(NAME, name, type, ...)                                                     \
    [type] = {"send " #name, "recv " #name, FIRST_OF(__VA_ARGS__ NULL)},
#include "wire/messages.def"
};

void
tp_stream_trace(const struct tp_stream *s, bool sent,
                const struct tp_wire_header *header, const uint8_t *body,
                size_t body_len)
{
    const struct names *n;
    const char *name;
    uint64_t id = 0;

    if (!tp_trace_enabled()) {
        return;
    }
    n = &names[header->type & 0xff];
    name = sent ? n->send : n->recv;
    if (header->type > 0xff || name == NULL) {
        n = &names[0];
        name = sent ? "send unknown" : "recv unknown";
    }
    if (n->id != NULL && body_len >= sizeof(id)) {
        memcpy(&id, body, sizeof(id));
    }
    tp_trace_frame(name, TP_ARG("stream", s->id), TP_ARG("seq", header->seq),
                   TP_ARG("ack", header->ack), TP_ARG("len", header->len),
                   TP_ARG(n->id, id));
}

void
tp_stream_trace_session(const struct tp_stream *s,
                        const uint8_t session[TP_WIRE_SESSION_BYTES])
{
    uint64_t half; /* not all of it: who knows the id may join the session */

    memcpy(&half, session, sizeof(half));
    if (tp_trace_enabled()) {
        tp_trace_stream(s->id, half);
    }
}
