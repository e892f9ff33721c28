/* SPDX-License-Identifier: Apache-2.0 */
/* Computes element sizes of image formats. */
#include "wire/image.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    FIRST_ORDER = 0x10b0, /* CL_R */
    FIRST_TYPE = 0x10d0, /* CL_SNORM_INT8 */
    ORDER_RGB = 0x10b4,
    ORDER_RGBA = 0x10b5,
    ORDER_RGBX = 0x10bc,
    TYPE_565 = 0x10d4,
    TYPE_555 = 0x10d5,
    TYPE_101010 = 0x10d6,
    TYPE_101010_2 = 0x10e0,
};

/* Channels of an element; 0 where it depends on the type, or is not transferred. */
static const uint8_t channels[] = {
    1, 1, 2, 2, /* R A RG RA */
    0, 4, 4, 4, /* RGB RGBA BGRA ARGB */
    1, 1, 1, 2, /* INTENSITY LUMINANCE Rx RGx */
    0, 1, 0, 0, /* RGBx DEPTH DEPTH_STENCIL sRGB */
    4, 4, 4, 4, /* sRGBx sRGBA sBGRA ABGR */
};

/* [bytes] of a channel; 0 for types that pack several, and for 24 bits. */
static const uint8_t bytes[] = {
    1, 2, 1, 2, /* SNORM 8 16, UNORM 8 16 */
    0, 0, 0, /* UNORM 565 555 101010 */
    1, 2, 4, 1, 2, 4, /* SIGNED 8 16 32, UNSIGNED 8 16 32 */
    2, 4, 0, 0, /* HALF_FLOAT FLOAT UNORM_INT24 101010_2 */
};

uint32_t
tp_wire_image_element(uint32_t channel_order, uint32_t channel_type)
{
    uint32_t order = channel_order - FIRST_ORDER, type = channel_type - FIRST_TYPE;
    bool is_rgb = channel_order == ORDER_RGB || channel_order == ORDER_RGBX;

    switch (channel_type) {
    case TYPE_565:
    case TYPE_555:
        return is_rgb ? 2 : 0;
    case TYPE_101010:
        return is_rgb ? 4 : 0;
    case TYPE_101010_2:
        return channel_order == ORDER_RGBA ? 4 : 0;
    default:
        return order < sizeof(channels) && type < sizeof(bytes)
                   ? (uint32_t)channels[order] * bytes[type]
                   : 0;
    }
}
