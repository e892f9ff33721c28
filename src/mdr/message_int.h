/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of libtelpher-mdr: what is sent, and what waits in a process. */
#ifndef TELPHER_MDR_MESSAGE_INT_H
#define TELPHER_MDR_MESSAGE_INT_H

#include <stdbool.h>

#include <telpher/mdr_dynamic.h>

#include "base/compiler.h"
#include "base/container/list.h"

/** Kind of a message. The first ones are work, the others control. */
enum tp_mdr_kind {
    TP_MDR_INVOKE = 1,
    TP_MDR_BROADCAST,
    TP_MDR_CREATE, /**< parameters: struct tp_mdr_create, then the program's */
    TP_MDR_REDUCE, /**< parameters: struct tp_mdr_part, then data */
    TP_MDR_FUTURE,
    TP_MDR_CHANNEL, /**< parameters: struct tp_mdr_sent, then the program's */
    TP_MDR_MIGRATE, /**< parameters: struct tp_mdr_migrant; a buffer: the packed element */
    TP_MDR_LOADS, /**< to process 0; a buffer: the loads of elements that wait */
    TP_MDR_SPREAD, /**< its answer: where they shall be */
    TP_MDR_LOCATED, /**< to the home: root has the element */
    TP_MDR_INSERT, /**< parameters: struct tp_mdr_newborn, then the program's */
    TP_MDR_GONE, /**< to the home: the element ended */
    TP_MDR_SAVE, /**< parameters: struct tp_mdr_save */
    TP_MDR_SECTION, /**< a broadcast; parameters: indices of members */
    TP_MDR_EXIT, /**< index.at[0] is the status */
    TP_MDR_POLL, /**< id is the wave */
    TP_MDR_COUNTS, /**< id is the wave; parameters: three u64 */
    TP_MDR_QUIESCENCE, /**< parameters: the future */
    TP_MDR_PLACE, /**< to the sender of a forwarded message: root has the element */
    TP_MDR_ARRIVED, /**< a migrated element is unpacked */
    TP_MDR_HEARD, /**< to process 0: at[0], at[1] are the number of a broadcast */
    TP_MDR_FORGET, /**< all processes have heard that broadcast */
    TP_MDR_KINDS
};

/** Flags of a message. */
enum {
    TP_MDR_FORWARDED = 1,
    TP_MDR_UNNUMBERED = 2,
    TP_MDR_HERE = 4,
    TP_MDR_MEMBERS = 8, /**< a broadcast to a section */
    TP_MDR_SHORT = 16, /**< the message begins with a struct tp_mdr_short */
};

/** First bytes of every message. Processes of a job have the same architecture. */
struct tp_mdr_header {
    uint8_t kind; /**< enum tp_mdr_kind */
    uint8_t flags;
    uint16_t entry; /**< its number; INVOKE: and 256 * its priority */
    uint32_t root; /**< of the tree that forwards it; to an element: the sender */
    uint64_t id; /**< of the array; FUTURE: the generation */
    int32_t at[3]; /**< index; FUTURE: at[0] is the slot; broadcasts: number, section */
    uint32_t
        moves; /**< of the element, as the sender knows its place; SPREAD: its number;
                     broadcasts: the other half of the section's number */
};
_Static_assert(sizeof(struct tp_mdr_header) == 32, "parameters are aligned to 16");

/** The same of most invocations: with few parameters they fit into one cache line of the
 *  transport. The sender is the root. */
struct tp_mdr_short {
    uint8_t kind, flags; /**< INVOKE; TP_MDR_SHORT */
    uint16_t entry;
    uint32_t array; /**< its id: creator + 1 and counter, 16 bits each */
    int32_t at; /**< first index, the others are 0 */
    uint32_t moves;
};
_Static_assert(sizeof(struct tp_mdr_short) == 16, "parameters are aligned to 16");

/** The number of an array in a short header; 0: it has none. */
static inline uint32_t
tp_mdr_short_array(uint64_t id)
{
    uint64_t creator = id >> 40, counter = id & (((uint64_t)1 << 40) - 1);

    return creator <= UINT16_MAX && counter <= UINT16_MAX
               ? (uint32_t)(creator << 16 | counter)
               : 0;
}

static inline uint64_t
tp_mdr_long_array(uint32_t number)
{
    return (uint64_t)(number >> 16) << 40 | (number & UINT16_MAX);
}

static inline struct tp_mdr_header
tp_mdr_lengthen(const struct tp_mdr_short *s, uint32_t from)
{
    return (struct tp_mdr_header){.kind = s->kind,
                                  .entry = s->entry,
                                  .root = from,
                                  .id = tp_mdr_long_array(s->array),
                                  .at = {s->at, 0, 0},
                                  .moves = s->moves};
}

/** A message that waits: for its array, a light thread, credits, or its turn. Parameters follow. */
struct tp_mdr_message {
    struct tp_list link;
    struct tp_mdr_header header;
    size_t params_len;
    uint64_t *kept_bytes,
        bytes; /**< mdr->kept_bytes, and what this message adds to it */
    telpher_msg_buffer buffers[TELPHER_MSG_BUFFERS];
    uint32_t buffer_count;
    bool owns_buffers; /**< of malloc(), received before the object was known */
    bool landed; /**< of a channel: the buffers are where its receive wants them */
    telpher_status status; /**< of the buffers */
    telpher_done_fn on_done; /**< local and queued invocations with buffers */
    void *user, *queue;
    struct tp_mdr_element *element; /**< that its light thread uses, or NULL */
    bool due; /**< it runs now: its priority is the first */
};

/** Counts @p bytes more as memory of a message, until it is destroyed. */
static inline void
tp_mdr_message_charge(struct tp_mdr_message *m, size_t bytes)
{
    m->bytes += bytes;
    *m->kept_bytes += bytes;
}

static inline void *
tp_mdr_message_params(struct tp_mdr_message *m)
{
    return (uint8_t *)m + ((sizeof(*m) + 15) & ~(size_t)15);
}
/** A message to send: parameters in two parts, and buffers. */
struct tp_mdr_outgoing {
    const struct tp_mdr_header *h;
    const void *head, *params;
    size_t head_len, params_len;
    const telpher_msg_buffer *buffers;
    size_t buffer_count;
    const telpher_xfer_params *xfer;
};

#endif
