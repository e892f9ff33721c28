/* SPDX-License-Identifier: Apache-2.0 */
/* Says which frames are commands, requests or creations, and which cannot be repeated. */
#include "icd/copies/frames.h"
#include "wire/messages.h"

#define COMMAND_ROW(NAME, name, writes)                                                \
    {                                                                                  \
        TP_WIRE_##NAME, writes, offsetof(struct tp_wire_##name, flags),                \
            offsetof(struct tp_wire_##name, wait)                                      \
    }
static const struct tp_copies_command_row command_rows[] = {
    COMMAND_ROW(LAUNCH, launch, true),
    COMMAND_ROW(READ, read, false),
    COMMAND_ROW(WRITE, write, true),
    COMMAND_ROW(COPY, copy, true),
    COMMAND_ROW(FILL, fill, true),
    COMMAND_ROW(MARKER, marker, false),
    COMMAND_ROW(BARRIER, barrier, false),
    COMMAND_ROW(MIGRATE, migrate, true),
    COMMAND_ROW(READ_IMAGE, read_image, false),
    COMMAND_ROW(WRITE_IMAGE, write_image, true),
    COMMAND_ROW(COPY_IMAGE, copy_image, true),
    COMMAND_ROW(COPY_IMAGE_TO_BUFFER, copy_image_to_buffer, true),
    COMMAND_ROW(COPY_BUFFER_TO_IMAGE, copy_buffer_to_image, true),
    COMMAND_ROW(FILL_IMAGE, fill_image, true),
};

const struct tp_copies_command_row *
tp_copies_find_command(uint16_t type)
{
    for (size_t i = 0; i < sizeof(command_rows) / sizeof(command_rows[0]); i++) {
        if (command_rows[i].type == type) {
            return &command_rows[i];
        }
    }
    return NULL;
}

enum tp_copies_frame_kind
tp_copies_kind_of(uint16_t type)
{
    switch (type) {
    case TP_WIRE_CONTEXT_CREATE:
    case TP_WIRE_QUEUE_CREATE:
    case TP_WIRE_BUFFER_CREATE:
    case TP_WIRE_SUB_BUFFER_CREATE:
    case TP_WIRE_IMAGE_CREATE:
    case TP_WIRE_SAMPLER_CREATE:
        return TP_COPIES_FRAME_CREATE;
    case TP_WIRE_PROGRAM_SOURCE:
    case TP_WIRE_PROGRAM_FILES:
    case TP_WIRE_KERNEL_CREATE:
    case TP_WIRE_KERNEL_ARG:
    case TP_WIRE_USER_EVENT_CREATE:
    case TP_WIRE_USER_EVENT_SET:
    case TP_WIRE_RELEASE:
    case TP_WIRE_SPEC_CONSTANT:
    case TP_WIRE_PROGRAM_IL:
    case TP_WIRE_ABORT:
        return TP_COPIES_FRAME_PLAIN;
    case TP_WIRE_PROGRAM_BUILD:
    case TP_WIRE_PROGRAM_COMPILE:
    case TP_WIRE_PROGRAM_LINK:
    case TP_WIRE_PROGRAM_BINARY:
    case TP_WIRE_PROGRAM_BUILT_IN:
        return TP_COPIES_FRAME_REQUEST;
    case TP_WIRE_START:
    case TP_WIRE_PING:
    case TP_WIRE_SUBSCRIBE:
    case TP_WIRE_PROGRAM_BINARIES:
    case TP_WIRE_SUB_GROUP_INFO:
    case TP_WIRE_SUGGESTED_SIZE:
    case TP_WIRE_DEVICE_TIMER:
    case TP_WIRE_PEER_ACCEPT:
    case TP_WIRE_PEER_CONNECT:
    case TP_WIRE_PEER_LOST:
        return TP_COPIES_FRAME_DIRECT;
    default:
        return tp_copies_find_command(type) != NULL ? TP_COPIES_FRAME_COMMAND
                                                    : TP_COPIES_FRAME_REFUSED;
    }
}

bool
tp_copies_is_creation(uint16_t type)
{
    return tp_copies_kind_of(type) == TP_COPIES_FRAME_CREATE;
}

bool
tp_copies_is_request(uint16_t type)
{
    return tp_copies_kind_of(type) == TP_COPIES_FRAME_REQUEST;
}
