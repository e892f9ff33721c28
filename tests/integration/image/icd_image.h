/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the icd_image test. */
#ifndef TELPHER_TESTS_ICD_IMAGE_H
#define TELPHER_TESTS_ICD_IMAGE_H

#include "world.h"

/** An image, and its content as it should be: packed, elements before rows before slices. */
struct picture {
    cl_mem mem;
    cl_image_format format;
    size_t element; /**< [bytes] */
    size_t dims[3]; /**< elements, rows (or layers), slices (or layers) */
    size_t size; /**< [bytes] of the content */
    uint8_t *model;
};

extern const cl_mem_object_type
    image_types[]; /**< all but CL_MEM_OBJECT_IMAGE1D_BUFFER */
extern const size_t image_type_count;
extern const cl_image_format rgba8, r32;

/** The description of an image of a type that has these sizes, as far as it has them. */
cl_image_desc describe(cl_mem_object_type type, size_t x, size_t y, size_t z);
/** Makes an image with content given at its creation. */
void picture_open(struct picture *p, const struct world *w, cl_image_format format,
                  cl_image_desc desc, uint32_t seed);
void picture_close(struct picture *p);
/** Compares all of an image with its model, read through a queue. */
void picture_check(const struct picture *p, cl_command_queue q);
/** First byte of an element in the model. */
uint8_t *picture_at(const struct picture *p, size_t x, size_t y, size_t z);
/** Copies a region between the model and memory where it lies packed. */
void picture_put(struct picture *p, const size_t origin[3], const size_t region[3],
                 const uint8_t *packed);
void picture_get(const struct picture *p, const size_t origin[3],
                 const size_t region[3], uint8_t *packed);
/** A region that fits. */
void any_region(const struct picture *p, size_t origin[3], size_t region[3]);
/** Runs a set of kernels over images and gives what they made, for free(). */
uint8_t *sample_images(cl_context ctx, cl_command_queue q, size_t *ret_size);
/** File with what the driver made of the same without us; "" if it could not. */
extern char native_samples[64];

extern const struct CMUnitTest image_transfer_tests[], image_map_tests[],
    image_kernel_tests[], image_refusal_tests[];
extern const size_t image_transfer_test_count, image_map_test_count,
    image_kernel_test_count, image_refusal_test_count;

#endif
