/* SPDX-License-Identifier: Apache-2.0 */
/* icd_image: images and samplers as arguments of kernels. */
#include "icd_image.h"

#include <stdio.h>

static const char *source =
    "kernel void invert(read_only image2d_t in, write_only image2d_t out)\n"
    "{ int2 p = (int2)(get_global_id(0), get_global_id(1));\n"
    "  const sampler_t s = CLK_FILTER_NEAREST | CLK_ADDRESS_CLAMP_TO_EDGE |\n"
    "                      CLK_NORMALIZED_COORDS_FALSE;\n"
    "  write_imageui(out, p, (uint4)(255) - read_imageui(in, s, p)); }\n"
    "kernel void sample(read_only image2d_t in, sampler_t s, float scale,\n"
    "                   global float4 *out)\n"
    "{ float2 p = (float2)(get_global_id(0), get_global_id(1)) * scale - 1.3f;\n"
    "  out[get_global_id(1) * get_global_size(0) + get_global_id(0)] =\n"
    "      read_imagef(in, s, p); }\n"
    "kernel void sum3d(read_only image3d_t in, global uint *out)\n"
    "{ const sampler_t s = CLK_FILTER_NEAREST | CLK_ADDRESS_NONE |\n"
    "                      CLK_NORMALIZED_COORDS_FALSE;\n"
    "  uint sum = 0; int4 d = (int4)(get_image_width(in), get_image_height(in),\n"
    "                                get_image_depth(in), 0);\n"
    "  for (int z = 0; z < d.z; z++) for (int y = 0; y < d.y; y++)\n"
    "    for (int x = 0; x < d.x; x++)\n"
    "      sum = sum * 31 + read_imageui(in, s, (int4)(x, y, z, 0)).x;\n"
    "  out[0] = sum; }\n"
    "kernel void layers(read_only image2d_array_t in, write_only image1d_t out)\n"
    "{ const sampler_t s = CLK_FILTER_NEAREST | CLK_ADDRESS_NONE |\n"
    "                      CLK_NORMALIZED_COORDS_FALSE;\n"
    "  int i = get_global_id(0);\n"
    "  uint4 v = read_imageui(in, s, (int4)(i, 1, get_image_array_size(in) - 1, 0));\n"
    "  write_imageui(out, i, v); }\n";

static cl_program
program_new(cl_context ctx)
{
    cl_int err = 1;
    cl_program program = clCreateProgramWithSource(ctx, 1, &source, NULL, &err);

    ok(err);
    ok(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    return program;
}

static cl_kernel
kernel_new(cl_program program, const char *name)
{
    cl_int err = 1;
    cl_kernel kernel = clCreateKernel(program, name, &err);

    ok(err);
    return kernel;
}

/** In and out change places each round, and so do the servers. */
static void
ping_pong(void **state)
{
    const size_t global[2] = {64, 48};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct world *w = i == 0 ? &one : &both;
        cl_program program = program_new(w->ctx);
        cl_kernel invert = kernel_new(program, "invert");
        struct picture p[2];

        picture_open(&p[0], w, rgba8, describe(CL_MEM_OBJECT_IMAGE2D, 64, 48, 1), 70);
        picture_open(&p[1], w, rgba8, describe(CL_MEM_OBJECT_IMAGE2D, 64, 48, 1), 71);
        for (unsigned round = 0; round < 7; round++) {
            cl_command_queue q = w->queues[round % w->count];
            struct picture *in = &p[round % 2], *out = &p[1 - round % 2];

            ok(clSetKernelArg(invert, 0, sizeof(in->mem), &in->mem));
            ok(clSetKernelArg(invert, 1, sizeof(out->mem), &out->mem));
            ok(clEnqueueNDRangeKernel(q, invert, 2, NULL, global, NULL, 0, NULL, NULL));
            ok(clFinish(q));
            for (size_t k = 0; k < in->size; k++) {
                out->model[k] = (uint8_t)(255 - in->model[k]);
            }
        }
        picture_check(&p[0], w->queues[0]);
        picture_check(&p[1], w->queues[w->count - 1]);
        picture_close(&p[0]);
        picture_close(&p[1]);
        ok(clReleaseKernel(invert));
        ok(clReleaseProgram(program));
    }
}

static void
other_dimensions(void **state)
{
    const size_t single = 1, width = 40, zero[3] = {0, 0, 0}, line[3] = {40, 1, 1};
    uint32_t got = 0, want = 0, row[40];
    cl_program program = program_new(both.ctx);
    cl_kernel sum = kernel_new(program, "sum3d");
    cl_kernel layers = kernel_new(program, "layers");
    cl_mem out = buffer_new(&both, 0, 4, NULL);
    struct picture box, stack, thread;

    (void)state;
    picture_open(&box, &both, r32, describe(CL_MEM_OBJECT_IMAGE3D, 9, 7, 5), 72);
    picture_open(&stack, &both, r32, describe(CL_MEM_OBJECT_IMAGE2D_ARRAY, 40, 3, 6),
                 73);
    picture_open(&thread, &both, r32, describe(CL_MEM_OBJECT_IMAGE1D, 40, 1, 1), 74);
    ok(clSetKernelArg(sum, 0, sizeof(box.mem), &box.mem));
    ok(clSetKernelArg(sum, 1, sizeof(out), &out));
    ok(clEnqueueNDRangeKernel(both.queues[0], sum, 1, NULL, &single, NULL, 0, NULL,
                              NULL));
    ok(clEnqueueReadBuffer(both.queues[0], out, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
    for (size_t i = 0; i < box.size; i += 4) {
        uint32_t v;

        memcpy(&v, box.model + i, 4);
        want = want * 31 + v;
    }
    assert_int_equal(got, want);
    ok(clSetKernelArg(layers, 0, sizeof(stack.mem), &stack.mem));
    ok(clSetKernelArg(layers, 1, sizeof(thread.mem), &thread.mem));
    ok(clEnqueueNDRangeKernel(both.queues[1], layers, 1, NULL, &width, NULL, 0, NULL,
                              NULL));
    ok(clFinish(both.queues[1]));
    ok(clEnqueueReadImage(both.queues[0], thread.mem, CL_TRUE, zero, line, 0, 0, row, 0,
                          NULL, NULL));
    assert_memory_equal(row, picture_at(&stack, 0, 1, 5), sizeof(row));
    picture_close(&box);
    picture_close(&stack);
    picture_close(&thread);
    ok(clReleaseMemObject(out));
    ok(clReleaseKernel(sum));
    ok(clReleaseKernel(layers));
    ok(clReleaseProgram(program));
}

/* ---- samplers -------------------------------------------------------------------------- */

enum { SAMPLES = 40, SAMPLE_BYTES = SAMPLES * SAMPLES * 16 };

static const struct mode {
    cl_bool normalized;
    cl_addressing_mode addressing;
    cl_filter_mode filter;
} modes[] = {
    {CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST},
    {CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_LINEAR},
    {CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_LINEAR},
    {CL_TRUE, CL_ADDRESS_REPEAT, CL_FILTER_NEAREST},
    {CL_TRUE, CL_ADDRESS_REPEAT, CL_FILTER_LINEAR},
    {CL_TRUE, CL_ADDRESS_MIRRORED_REPEAT, CL_FILTER_LINEAR},
};
enum { MODES = sizeof(modes) / sizeof(modes[0]) };

/** From a little outside of the image to a little outside of it. */
static float
scale_of(const struct mode *mode)
{
    return mode->normalized ? 0.07f : 0.9f;
}

uint8_t *
sample_images(cl_context ctx, cl_command_queue q, size_t *ret_size)
{
    const size_t global[2] = {SAMPLES, SAMPLES};
    const cl_image_format format = {CL_RGBA, CL_UNORM_INT8};
    const cl_image_desc desc = describe(CL_MEM_OBJECT_IMAGE2D, 32, 32, 1);
    uint8_t *content = pattern_new(32 * 32 * 4, 80);
    uint8_t *all = calloc(MODES, SAMPLE_BYTES);
    cl_program program = program_new(ctx);
    cl_kernel kernel = kernel_new(program, "sample");
    cl_int err = 1;
    cl_mem out = clCreateBuffer(ctx, 0, SAMPLE_BYTES, NULL, &err), image;

    ok(err);
    image = clCreateImage(ctx, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &format, &desc,
                          content, &err);
    ok(err);
    assert_non_null(all);
    for (size_t i = 0; i < MODES; i++) {
        float scale = scale_of(&modes[i]);
        cl_sampler sampler = clCreateSampler(
            ctx, modes[i].normalized, modes[i].addressing, modes[i].filter, &err);

        ok(err);
        ok(clSetKernelArg(kernel, 0, sizeof(image), &image));
        ok(clSetKernelArg(kernel, 1, sizeof(sampler), &sampler));
        ok(clSetKernelArg(kernel, 2, sizeof(scale), &scale));
        ok(clSetKernelArg(kernel, 3, sizeof(out), &out));
        ok(clEnqueueNDRangeKernel(q, kernel, 2, NULL, global, NULL, 0, NULL, NULL));
        ok(clReleaseSampler(sampler));
        ok(clEnqueueReadBuffer(q, out, CL_TRUE, 0, SAMPLE_BYTES, all + i * SAMPLE_BYTES,
                               0, NULL, NULL));
    }
    ok(clReleaseMemObject(image));
    ok(clReleaseMemObject(out));
    ok(clReleaseKernel(kernel));
    ok(clReleaseProgram(program));
    free(content);
    *ret_size = MODES * (size_t)SAMPLE_BYTES;
    return all;
}

static void
samplers_as_without_us(void **state)
{
    (void)state;
    assert_true(native_samples[0] != '\0');
    for (unsigned i = 0; i < both.count; i++) {
        size_t size;
        uint8_t *got = sample_images(both.ctx, both.queues[i], &size);
        uint8_t *want = malloc(size);
        FILE *file = fopen(native_samples, "rb");

        assert_non_null(file);
        assert_int_equal(fread(want, 1, size, file), size);
        fclose(file);
        assert_memory_equal(got, want, size);
        free(got);
        free(want);
    }
}

static void
samplers_are_asked(void **state)
{
    const cl_sampler_properties list[] = {CL_SAMPLER_ADDRESSING_MODE, CL_ADDRESS_REPEAT,
                                          CL_SAMPLER_FILTER_MODE, CL_FILTER_LINEAR, 0};
    const cl_sampler_properties twice[] = {CL_SAMPLER_FILTER_MODE, CL_FILTER_LINEAR,
                                           CL_SAMPLER_FILTER_MODE, CL_FILTER_LINEAR, 0};
    cl_sampler_properties told[8];
    cl_addressing_mode addressing;
    cl_filter_mode filter;
    cl_bool normalized;
    cl_context ctx;
    cl_uint refs;
    size_t size;
    cl_int err = 1;
    cl_sampler s = clCreateSamplerWithProperties(one.ctx, list, &err);

    (void)state;
    ok(err);
    ok(clGetSamplerInfo(s, CL_SAMPLER_ADDRESSING_MODE, sizeof(addressing), &addressing,
                        NULL));
    ok(clGetSamplerInfo(s, CL_SAMPLER_FILTER_MODE, sizeof(filter), &filter, NULL));
    ok(clGetSamplerInfo(s, CL_SAMPLER_NORMALIZED_COORDS, sizeof(normalized),
                        &normalized, NULL));
    ok(clGetSamplerInfo(s, CL_SAMPLER_CONTEXT, sizeof(ctx), &ctx, NULL));
    ok(clGetSamplerInfo(s, CL_SAMPLER_PROPERTIES, sizeof(told), told, &size));
    assert_int_equal(addressing, CL_ADDRESS_REPEAT);
    assert_int_equal(filter, CL_FILTER_LINEAR);
    assert_int_equal(normalized, CL_TRUE);
    assert_ptr_equal(ctx, one.ctx);
    assert_int_equal(size, sizeof(list));
    assert_memory_equal(told, list, sizeof(list));
    ok(clRetainSampler(s));
    ok(clGetSamplerInfo(s, CL_SAMPLER_REFERENCE_COUNT, sizeof(refs), &refs, NULL));
    assert_int_equal(refs, 2);
    ok(clReleaseSampler(s));
    ok(clReleaseSampler(s));
    assert_null(clCreateSamplerWithProperties(one.ctx, twice, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_null(clCreateSampler(one.ctx, CL_TRUE, 0x1234, CL_FILTER_LINEAR, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_int_equal(clReleaseSampler((cl_sampler)one.ctx), CL_INVALID_SAMPLER);
}

/* ---- wrong arguments --------------------------------------------------------------------- */

static void
wrong_arguments(void **state)
{
    cl_program program = program_new(one.ctx);
    cl_kernel invert = kernel_new(program, "invert");
    cl_kernel sample = kernel_new(program, "sample");
    const cl_image_desc desc = describe(CL_MEM_OBJECT_IMAGE2D, 8, 8, 1);
    cl_mem buffer = buffer_new(&one, 0, 64, NULL), nothing = NULL, in, out;
    cl_sampler none = NULL;
    struct picture box;
    cl_int err = 1;

    (void)state;
    in = clCreateImage(one.ctx, CL_MEM_READ_ONLY, &rgba8, &desc, NULL, &err);
    ok(err);
    out = clCreateImage(one.ctx, CL_MEM_WRITE_ONLY, &rgba8, &desc, NULL, &err);
    ok(err);
    picture_open(&box, &one, rgba8, describe(CL_MEM_OBJECT_IMAGE3D, 8, 8, 8), 75);
    ok(clSetKernelArg(invert, 0, sizeof(in), &in));
    ok(clSetKernelArg(invert, 1, sizeof(out), &out));
    assert_int_equal(clSetKernelArg(invert, 0, sizeof(out), &out),
                     CL_INVALID_ARG_VALUE);
    assert_int_equal(clSetKernelArg(invert, 1, sizeof(in), &in), CL_INVALID_ARG_VALUE);
    assert_int_equal(clSetKernelArg(invert, 0, 4, &in), CL_INVALID_ARG_SIZE);
    assert_int_equal(clSetKernelArg(invert, 0, sizeof(box.mem), &box.mem),
                     CL_INVALID_ARG_VALUE);
    assert_int_equal(clSetKernelArg(invert, 0, sizeof(buffer), &buffer),
                     CL_INVALID_MEM_OBJECT);
    assert_int_equal(clSetKernelArg(invert, 0, sizeof(nothing), &nothing),
                     CL_INVALID_MEM_OBJECT);
    assert_int_equal(clSetKernelArg(sample, 1, sizeof(none), &none),
                     CL_INVALID_SAMPLER);
    assert_int_equal(clSetKernelArg(sample, 1, sizeof(none), NULL), CL_INVALID_SAMPLER);
    assert_int_equal(clSetKernelArg(sample, 1, sizeof(in), &in), CL_INVALID_SAMPLER);
    assert_int_equal(clSetKernelArg(sample, 1, 4, &none), CL_INVALID_ARG_SIZE);
    assert_int_equal(clSetKernelArg(sample, 3, sizeof(in), &in), CL_INVALID_MEM_OBJECT);
    picture_close(&box);
    ok(clReleaseMemObject(in));
    ok(clReleaseMemObject(out));
    ok(clReleaseMemObject(buffer));
    ok(clReleaseKernel(invert));
    ok(clReleaseKernel(sample));
    ok(clReleaseProgram(program));
}

const struct CMUnitTest image_kernel_tests[] = {
    cmocka_unit_test(ping_pong),
    cmocka_unit_test(other_dimensions),
    cmocka_unit_test(samplers_as_without_us),
    cmocka_unit_test(samplers_are_asked),
    cmocka_unit_test(wrong_arguments),
};
const size_t image_kernel_test_count =
    sizeof(image_kernel_tests) / sizeof(image_kernel_tests[0]);
