/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank asks of its process's agent when the target lies in another process: 64 bytes
 * in a ring that ranks write and the agent reads (docs/rma.md section 9). One format for all
 * backends; it is part of TELPHER_RMA_ABI.
 *
 * A writer takes a place in the ring, fills in all but the turn, and stores the turn last,
 * with release: place i of a ring of n is free when its turn is i + n * k, and full when it
 * is one more.
 */
#ifndef TELPHER_RMA_DETAIL_COMMAND_H
#define TELPHER_RMA_DETAIL_COMMAND_H

#include <telpher/rma/types.h>

/** What is asked for. Numbers from 32 on are for agents among themselves. */
enum telpher_rma_command_op {
    TELPHER_RMA_COMMAND_PUT =
        1, /**< len bytes from `local` to `off` of the target's part */
    TELPHER_RMA_COMMAND_VALUE = 2, /**< the 8 bytes `local` itself to there */
    TELPHER_RMA_COMMAND_NOTIFY = 3, /**< a notification alone */
    TELPHER_RMA_COMMAND_GET = 4, /**< len bytes from there to `local` */
    TELPHER_RMA_COMMAND_FLUSH =
        5, /**< an answer, behind all that was put to that process */
    TELPHER_RMA_COMMAND_RETURNED = 6, /**< this rank's kernel has; for all processes */
    TELPHER_RMA_COMMAND_MEET =
        7, /**< this process's part of a group has come: `number` */
    TELPHER_RMA_COMMAND_AGENTS = 32
};

/** Flags. */
#define TELPHER_RMA_COMMAND_NOTIFIES                                                   \
    1u /**< one notification of `tag` when it is there */
/** Not a window's part: what the target brought to a reduction, or where its result goes. */
#define TELPHER_RMA_COMMAND_SOURCE 2u
#define TELPHER_RMA_COMMAND_RESULT 4u

/** One command. Ranks are those of the world. */
typedef struct telpher_rma_command {
    uint16_t op, flags;
    uint32_t tag;
    uint32_t from, to; /**< who asks; the target */
    int32_t where; /**< the window; with SOURCE and RESULT the group */
    uint32_t launch; /**< 0; among agents the launch that it is of */
    uint64_t off, len; /**< [bytes] */
    uint64_t local; /**< address with the one who asks; of VALUE the value */
    uint64_t number; /**< the agents' own */
    uint64_t turn; /**< written last */
} telpher_rma_command;

/** Fails to compile where the layout is another. */
typedef char
    telpher_rma_command_is_64_bytes_[sizeof(telpher_rma_command) == 64 ? 1 : -1];

#endif
