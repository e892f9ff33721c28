/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of messages between ranks: docs/comm.md. All kinds share one layout and one
 * decoder. The meaning of `a`, `b` and `small` depends on the kind.
 */
#ifndef TELPHER_WIRE_COMM_H
#define TELPHER_WIRE_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Kind of a message. */
enum tp_comm_kind {
    TP_COMM_CHANNEL = 1, /**< data of a channel. a: tag */
    TP_COMM_CREDIT, /**< returns credits of a channel. a: tag, b: number of messages */
    TP_COMM_MESSAGE, /**< small: handler, a: number, b: buffers, see below */
    TP_COMM_BUFFER, /**< a buffer of a message. a: number, b: index */
    TP_COMM_PUT, /**< a: offset, b: window and notification; len 0 is a notification */
    TP_COMM_GET, /**< xfer: the requester's number, len: [bytes] to read; a, b as of PUT */
    TP_COMM_GOT, /**< data for a GET. a: the requester's number */
    TP_COMM_FLUSH, /**< requests FLUSHED once all earlier data is in memory. a: number */
    TP_COMM_FLUSHED, /**< answers FLUSH. a: number of the flush */
    TP_COMM_GATHER, /**< step of a collective. a: its number, b: round */
    TP_COMM_PULL, /**< requests the data in pieces. a: the sender's number, b: the
                       receiver's, len: [bytes] to send, xfer: [bytes] of a piece, small:
                       flags */
    TP_COMM_PIECE, /**< RNDV, EXPORTED or BROKEN. a: the receiver's number, b: offset */
    TP_COMM_TAKEN, /**< the receiver has finished with an exported piece. a: the sender's
                        number, b: offset, small: enum tp_comm_end */
    TP_COMM_FINISH, /**< the receiver has finished with the data. a: the sender's number,
                         small: enum tp_comm_end */
    TP_COMM_MESSAGE_CREDIT, /**< returns credits. small: handler, b: number of messages */
    TP_COMM_SHORT, /**< a MESSAGE with struct tp_comm_short */
    TP_COMM_KINDS
};

/** Location of a message's data. */
enum tp_comm_how {
    TP_COMM_EAGER, /**< eager: len bytes after the header */
    TP_COMM_RNDV, /**< rendezvous by the transport */
    TP_COMM_STAGED, /**< the sender holds it: the receiver opens it or sends PULL */
    TP_COMM_BROKEN, /**< no data: the sender's device failed, or it had no memory */
    TP_COMM_EXPORTED, /**< in exported memory of the sender, valid until TAKEN */
    TP_COMM_HOWS
};

/** Reason of a FINISH or a TAKEN, in small. */
enum tp_comm_end {
    TP_COMM_END_DONE, /**< the receiver has all the data it needs */
    TP_COMM_END_REFUSED, /**< rejected; in TAKEN: cannot map the piece, send it instead */
    TP_COMM_ENDS
};

/** Flags of a PULL, in small. */
enum {
    TP_COMM_PULL_EXPORTED =
        1, /**< the receiver can map exported memory of the sender */
};

/** Little-endian; sent without conversion. */
struct tp_comm_header {
    uint8_t kind; /**< enum tp_comm_kind */
    uint8_t how; /**< enum tp_comm_how */
    uint16_t small;
    uint32_t xfer; /**< the sender's number of this transfer; 0 for eager data */
    uint64_t len; /**< [bytes] of data */
    uint64_t a, b;
};
_Static_assert(sizeof(struct tp_comm_header) == 32, "frozen wire layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "copied as it lies in memory");

/**
 * Header of an eager message with parameters only, which are the data, or with one buffer, which
 * is the data; the parameters, at least one byte, then follow this header. So 32 bytes of
 * parameters and the header fit into a cache line of transport shm.
 */
struct tp_comm_short {
    uint8_t kind; /**< TP_COMM_SHORT */
    uint8_t reserved;
    uint16_t handler;
    uint32_t reserved2;
};
_Static_assert(sizeof(struct tp_comm_short) == 8, "frozen wire layout");

/** The tag of a channel's message: 4 bits of kind, the id, and a counter that wraps. */
enum { TP_COMM_TAG_KIND = 1, TP_COMM_COUNTER_BITS = 32, TP_COMM_ID_BITS = 28 };

static inline uint64_t
tp_comm_tag(uint32_t id, uint32_t counter)
{
    return (uint64_t)TP_COMM_TAG_KIND << 60 | (uint64_t)id << TP_COMM_COUNTER_BITS |
           counter;
}

/** b of PUT and GET: the window, and a tag + 1 if there is a notification. */
static inline uint64_t
tp_comm_window(uint32_t window, uint32_t notification)
{
    return (uint64_t)window << 32 | notification;
}

/** b of MESSAGE: number of buffers, and whether they are eager, before the parameters. */
static inline uint64_t
tp_comm_buffers(uint32_t count, bool inside)
{
    return count | (uint64_t)inside << 32;
}

/** Decodes a received header. @return false if it is malformed. */
static inline bool
tp_comm_decode(const void *src, size_t len, struct tp_comm_header *ret_header)
{
    if (len != sizeof(*ret_header)) {
        return false;
    }
    memcpy(ret_header, src, sizeof(*ret_header));
    return ret_header->kind >= TP_COMM_CHANNEL && ret_header->kind < TP_COMM_SHORT &&
           ret_header->how < TP_COMM_HOWS;
}

/** Decodes the header of a short message with @p data_len bytes of data into that of the
 *  MESSAGE that it is. @return false if it is none */
static inline bool
tp_comm_decode_short(const void *src, size_t len, size_t data_len,
                     struct tp_comm_header *ret_header)
{
    struct tp_comm_short h;

    if (len < sizeof(h) || *(const uint8_t *)src != TP_COMM_SHORT) {
        return false;
    }
    memcpy(&h, src, sizeof(h));
    *ret_header =
        (struct tp_comm_header){.kind = TP_COMM_MESSAGE,
                                .how = TP_COMM_EAGER,
                                .small = h.handler,
                                .len = data_len,
                                .b = len > sizeof(h) ? tp_comm_buffers(1, true) : 0};
    return true;
}

#endif
