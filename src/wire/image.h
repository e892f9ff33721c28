/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element sizes of image formats, on which client and server must agree. Channel orders
 * and types are the numbers of the OpenCL headers. docs/protocol.md section 5.7.
 */
#ifndef TELPHER_WIRE_IMAGE_H
#define TELPHER_WIRE_IMAGE_H

#include <stdint.h>

/** One entry of a TP_WIRE_FACT_IMAGE_FORMATS. */
struct tp_wire_image_format {
    uint32_t channel_order, channel_type;
    /** CL_MEM_ flags with which the driver lists it: READ_WRITE, WRITE_ONLY, READ_ONLY,
     *  KERNEL_READ_AND_WRITE. */
    uint32_t uses;
};
_Static_assert(sizeof(struct tp_wire_image_format) == 12, "frozen wire layout");

/**
 * @return [bytes] of an element, 1 to 16 and a power of two; 0 for a format that the
 *         protocol cannot transfer: invalid, unknown, or with elements of another size
 */
uint32_t tp_wire_image_element(uint32_t channel_order, uint32_t channel_type);

#endif
