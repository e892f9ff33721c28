/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of frames, and where a command has the members that copies need. */
#ifndef TELPHER_ICD_COPIES_FRAMES_H
#define TELPHER_ICD_COPIES_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** How frames of a type are handled. */
enum tp_copies_frame_kind {
    TP_COPIES_FRAME_PLAIN, /**< goes to the second server in order */
    TP_COPIES_FRAME_COMMAND,
    TP_COPIES_FRAME_REQUEST, /**< has an answer without which later frames fail */
    TP_COPIES_FRAME_CREATE, /**< goes to both servers at once: copies need it */
    TP_COPIES_FRAME_DIRECT, /**< concerns the first server alone */
    TP_COPIES_FRAME_REFUSED, /**< its effects cannot be copied or repeated */
};

/** Where a command has what all commands have, besides event and queue. */
struct tp_copies_command_row {
    uint16_t type;
    bool writes; /**< its description says what */
    uint16_t flags_at, wait_at;
};

/** Every command begins so. */
struct tp_copies_command_head {
    uint64_t event, queue;
};

/** @return NULL: it is no command */
const struct tp_copies_command_row *tp_copies_find_command(uint16_t type);
enum tp_copies_frame_kind tp_copies_kind_of(uint16_t type);
/** True for frames that create objects without an answer, and not of programs. */
bool tp_copies_is_creation(uint16_t type);
/** True for frames that are answered. */
bool tp_copies_is_request(uint16_t type);

static inline const void *
tp_copies_member(const void *msg, size_t at)
{
    return (const uint8_t *)msg + at;
}

/** Every TP_COPIES_FRAME_REQUEST begins with its id, as every creation does. */
static inline uint64_t
tp_copies_id_of(const void *msg)
{
    uint64_t id;

    memcpy(&id, msg, sizeof(id));
    return id;
}

#endif
