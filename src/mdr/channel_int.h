/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of channels between elements, for the files channel*.c. */
#ifndef TELPHER_MDR_CHANNEL_INT_H
#define TELPHER_MDR_CHANNEL_INT_H

#include "mdr/object_int.h"

/** First parameters of CHANNEL. */
struct tp_mdr_sent {
    uint64_t array; /**< of the sender */
    telpher_mdr_index from;
    uint32_t number; /**< of the channel */
    uint64_t sequence;
};
_Static_assert(sizeof(struct tp_mdr_sent) == 32, "parameters are aligned to 16");

/** A light thread that waits for a message. */
struct tp_mdr_taker {
    struct tp_light *light;
    void *params;
    size_t cap, len;
    telpher_msg_buffer *buffers;
    size_t buffer_count;
    telpher_status status; /**< IN_PROGRESS: none yet */
};

/** A receive without a message. */
struct tp_mdr_wanted {
    struct tp_list link; /**< end->wanted */
    uint32_t entry;
    struct tp_mdr_taker *taker; /**< or NULL */
};

/** One end of a channel. */
struct tp_mdr_end {
    struct tp_list link; /**< element->channels */
    uint64_t array; /**< of the other end */
    telpher_mdr_index peer;
    uint32_t number;
    uint64_t sent, received; /**< messages */
    uint32_t
        posted; /**< messages from number `received` on that go to where receives want them */
    struct tp_list arrived; /**< messages from number `received` on, in order */
    struct tp_list wanted;
};

/** The end of @p e; made if there is none. NULL: no memory */
struct tp_mdr_end *tp_mdr_end_of(struct tp_mdr_element *e, uint64_t array,
                                 telpher_mdr_index peer, uint32_t number);
struct tp_mdr_end *tp_mdr_add_end(struct tp_mdr_element *e);
/** Adds a receive. @return OK, NO_MEMORY */
telpher_status tp_mdr_want(struct tp_mdr_end *end, uint32_t entry,
                           struct tp_mdr_taker *taker);
/** A message that arrived and is wanted goes to the local queue, which delivers it. */
void tp_mdr_match(telpher_mdr *mdr, struct tp_mdr_end *end);

#endif
