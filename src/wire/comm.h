/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of messages between ranks: docs/comm.md. One layout for all kinds, so that there
 * is one decoder; what `a`, `b` and `small` mean depends on the kind.
 */
#ifndef TELPHER_WIRE_COMM_H
#define TELPHER_WIRE_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** What a message is. */
enum tp_comm_kind {
    TP_COMM_CHANNEL = 1, /**< data of a channel. a: tag */
    TP_COMM_CREDIT, /**< messages of a channel were consumed. a: tag, b: how many */
    TP_COMM_MESSAGE, /**< small: handler, a: number, b: of buffers, see below */
    TP_COMM_BUFFER, /**< a buffer of a message. a: number, b: index */
    TP_COMM_PUT, /**< a: offset, b: window and notification; len 0 is a notification */
    TP_COMM_GET, /**< xfer: the requester's number, len: [bytes] wanted; a, b as of put */
    TP_COMM_GOT, /**< what a get asked for. a: the requester's number */
    TP_COMM_FLUSH, /**< tell when all before has landed. a: number */
    TP_COMM_FLUSHED, /**< a: number of the flush */
    TP_COMM_GATHER, /**< step of a collective. a: its number, b: round */
    TP_COMM_PULL, /**< send the data in pieces. a: the sender's number, b: the receiver's,
                       len: [bytes] wanted, xfer: [bytes] of a piece, small: flags */
    TP_COMM_PIECE, /**< bulk, lent or broken. a: the receiver's number, b: offset */
    TP_COMM_TAKEN, /**< a lent piece is not needed any more. a: the sender's number, b: offset,
                        small: how */
    TP_COMM_FINISH, /**< the data is not needed any more. a: the sender's number, small: how */
    TP_COMM_MESSAGE_CREDIT, /**< messages were consumed. small: handler, b: how many */
    TP_COMM_KINDS
};

/** Where the data of a message is. */
enum tp_comm_how {
    TP_COMM_INSIDE, /**< len bytes behind the header */
    TP_COMM_BULK, /**< announced by the transport */
    TP_COMM_STAGED, /**< with the sender, until it is pulled */
    TP_COMM_BROKEN, /**< nowhere: the sender's device failed, or it had no memory */
    TP_COMM_LENT, /**< in memory of the sender's that the receiver may map, until TAKEN */
    TP_COMM_HOWS
};

/** Why a FINISH or a TAKEN was sent, in small. */
enum tp_comm_end {
    TP_COMM_END_DONE, /**< the receiver has all it wants */
    TP_COMM_END_REFUSED, /**< nobody wants it; TAKEN: it cannot be reached, send it */
    TP_COMM_ENDS
};

/** Flags of a PULL, in small. */
enum {
    TP_COMM_PULL_LEND = 1, /**< the receiver can map memory of the sender's */
};

/** Little-endian, as it lies in memory. */
struct tp_comm_header {
    uint8_t kind; /**< enum tp_comm_kind */
    uint8_t how; /**< enum tp_comm_how */
    uint16_t small;
    uint32_t xfer; /**< the sender's number of this transfer; 0 with data inside */
    uint64_t len; /**< [bytes] of data */
    uint64_t a, b;
};
_Static_assert(sizeof(struct tp_comm_header) == 32, "frozen wire layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "copied as it lies in memory");

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

/** b of MESSAGE: how many buffers, and whether they are inside, before the parameters. */
static inline uint64_t
tp_comm_buffers(uint32_t count, bool inside)
{
    return count | (uint64_t)inside << 32;
}

/** Reads a header that came. @return false if it is none of ours. */
static inline bool
tp_comm_decode(const void *src, size_t len, struct tp_comm_header *ret_header)
{
    if (len != sizeof(*ret_header)) {
        return false;
    }
    memcpy(ret_header, src, sizeof(*ret_header));
    return ret_header->kind >= TP_COMM_CHANNEL && ret_header->kind < TP_COMM_KINDS &&
           ret_header->how < TP_COMM_HOWS;
}

#endif
