/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands from a rank to its process's progress thread for targets in other processes:
 * 64 bytes in a ring that ranks write and the progress thread reads (docs/rma.md
 * section 9). One format for all backends; it is part of TELPHER_RMA_ABI.
 *
 * A writer takes a slot of the ring, fills in all but the turn, and stores the turn
 * last, with release order. Slot i of a ring of n is free if its turn is i + n * k, and
 * full if it is one more.
 */
#ifndef TELPHER_RMA_DETAIL_COMMAND_H
#define TELPHER_RMA_DETAIL_COMMAND_H

#include <telpher/rma/types.h>

/** Operations. Numbers from 32 on are used between progress threads only. */
enum telpher_rma_command_op {
    TELPHER_RMA_COMMAND_PUT =
        1, /**< len bytes from `local` to `off` of the target's part */
    TELPHER_RMA_COMMAND_VALUE = 2, /**< the 8 bytes in `local` to the same place */
    TELPHER_RMA_COMMAND_NOTIFY = 3, /**< a notification without data */
    TELPHER_RMA_COMMAND_GET = 4, /**< len bytes from `off` of the target's part to
                                  *  `local` */
    TELPHER_RMA_COMMAND_FLUSH =
        5, /**< flush: answered after all earlier puts to that process */
    TELPHER_RMA_COMMAND_RETURNED = 6, /**< this rank's kernel has returned; to all
                                       *  processes */
    TELPHER_RMA_COMMAND_MEET =
        7, /**< all ranks of this process's part of a group have arrived: `number` */
    TELPHER_RMA_COMMAND_CONTROL = 32
};

/** Flags. */
#define TELPHER_RMA_COMMAND_NOTIFIES                                                   \
    1u /**< one notification of `tag` after the data has arrived */
/** The other address is not in a window: the target's input of a reduction, or its
 *  result. */
#define TELPHER_RMA_COMMAND_SOURCE 2u
#define TELPHER_RMA_COMMAND_RESULT 4u

/** One command. Ranks are those of the world. */
typedef struct telpher_rma_command {
    uint16_t op, flags;
    uint32_t tag;
    uint32_t from, to; /**< the origin; the target */
    int32_t where; /**< the window; with SOURCE and RESULT the group */
    uint32_t launch; /**< 0; between progress threads the launch */
    uint64_t off, len; /**< [bytes] */
    uint64_t local; /**< address at the origin; of VALUE the value */
    uint64_t number; /**< for progress threads */
    uint64_t turn; /**< written last */
} telpher_rma_command;

/** Fails to compile if the layout differs. */
typedef char
    telpher_rma_command_is_64_bytes_[sizeof(telpher_rma_command) == 64 ? 1 : -1];

#endif
