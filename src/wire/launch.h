/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAUNCH_AGAIN: a launch like the one before it on its queue, docs/protocol.md 5.3. Client
 * and server each remember the last launch of a queue; one makes the difference, the other
 * makes a LAUNCH of it again.
 */
#ifndef TELPHER_WIRE_LAUNCH_H
#define TELPHER_WIRE_LAUNCH_H

#include "wire/messages.h"

enum {
    TP_WIRE_LAUNCH_SIZES = 9, /**< offset, global and local size, three of each */
    TP_WIRE_AGAIN_ARGS_MAX = 255, /**< [bytes] of the arguments of a LAUNCH_AGAIN */
    TP_WIRE_AGAIN_VALUE_MAX = 31, /**< [bytes] of the value of one of them */
};

/** The last launch of a queue. Zeroed: there was none. */
struct tp_wire_last_launch {
    uint64_t kernel, event;
    uint64_t sizes[TP_WIRE_LAUNCH_SIZES];
    uint16_t size_count;
    uint8_t dims;
};

/**
 * Remembers a launch that is sent next, and says whether a LAUNCH_AGAIN can replace it.
 * @param ret_again  all but `args`, which the caller adds. Set only if true is returned.
 */
bool tp_wire_launch_shrink(struct tp_wire_last_launch *last,
                           const struct tp_wire_launch *m,
                           struct tp_wire_launch_again *ret_again);
/** Remembers a received launch, whose dims and sizes have been checked. */
void tp_wire_launch_remember(struct tp_wire_last_launch *last,
                             const struct tp_wire_launch *m);
/**
 * Makes the LAUNCH that a LAUNCH_AGAIN stands for, and remembers it.
 * @param event_room  where the wait list of the launch lies.
 * @param ret_m       borrows @p last and @p event_room.
 * @return false: malformed, or there was no launch before
 */
bool tp_wire_launch_expand(struct tp_wire_last_launch *last,
                           const struct tp_wire_launch_again *again,
                           uint64_t *event_room, struct tp_wire_launch *ret_m);

/** Appends an argument. @return the address after it; NULL: it has no room, or is of a kind
 *  that needs a KERNEL_ARG. */
uint8_t *tp_wire_put_again_arg(uint8_t *dst, const uint8_t *end,
                               const struct tp_wire_kernel_arg *m);
/** Takes the next argument from the front of @p args. `kernel` is 0. @return false:
 *  malformed */
bool tp_wire_take_again_arg(struct tp_wire_bytes *args,
                            struct tp_wire_kernel_arg *ret_m);

#endif
