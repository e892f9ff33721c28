/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images in command buffers, on two servers: fills, copies with images and
 * buffers, and kernels, compared with values computed here. Skipped where no driver has
 * both.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "servers.h"

enum { W = 16, H = 8, PIXELS = W * H, BYTES = PIXELS * 4 };

#define ok(call) assert_int_equal((call), CL_SUCCESS)

#define FUNCTIONS(X)                                                                   \
    X(clCreateCommandBufferKHR)                                                        \
    X(clFinalizeCommandBufferKHR)                                                      \
    X(clReleaseCommandBufferKHR)                                                       \
    X(clEnqueueCommandBufferKHR)                                                       \
    X(clCommandCopyImageKHR)                                                           \
    X(clCommandCopyImageToBufferKHR)                                                   \
    X(clCommandCopyBufferToImageKHR)                                                   \
    X(clCommandFillImageKHR)                                                           \
    X(clCommandNDRangeKernelKHR)

static struct {
#define MEMBER(name) name##_fn name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} fn;

static struct {
    cl_platform_id platform;
    cl_device_id devices[4];
    cl_uint count;
    cl_context ctx;
    cl_command_queue queue, other; /* of the first device, and of one elsewhere */
    cl_mem a, b, buffer;
} all;

static const size_t whole[3] = {W, H, 1}, zero[3] = {0, 0, 0};
static const cl_image_format rgba = {CL_RGBA, CL_UNSIGNED_INT8};

/* ---- helpers ------------------------------------------------------------------------------ */

static cl_mem
make_image(const cl_image_format *format)
{
    const cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = W, .image_height = H};
    cl_int err = 1;
    cl_mem image = clCreateImage(all.ctx, CL_MEM_READ_WRITE, format, &desc, NULL, &err);

    ok(err);
    return image;
}

static cl_command_buffer_khr
make(void)
{
    cl_int err = 1;
    cl_command_buffer_khr c = fn.clCreateCommandBufferKHR(1, &all.queue, NULL, &err);

    ok(err);
    return c;
}

static void
run(cl_command_buffer_khr c)
{
    ok(fn.clFinalizeCommandBufferKHR(c));
    for (int i = 0; i < 3; i++) {
        ok(fn.clEnqueueCommandBufferKHR(0, NULL, c, 0, NULL, NULL));
        ok(clFinish(all.queue));
    }
    ok(fn.clReleaseCommandBufferKHR(c));
}

static void
clear(cl_command_queue queue, cl_mem image, cl_uint value)
{
    const cl_uint colour[4] = {value, value, value, value};

    ok(clEnqueueFillImage(queue, image, colour, zero, whole, 0, NULL, NULL));
    ok(clFinish(queue));
}

static bool
is_inside(int i, const size_t origin[3], const size_t region[3])
{
    size_t x = (size_t)i % W, y = (size_t)i / W;

    return x >= origin[0] && x < origin[0] + region[0] && y >= origin[1] &&
           y < origin[1] + region[1];
}

/** All elements of an image must be one value inside of a region and another outside. */
static void
expect(cl_command_queue queue, cl_mem image, const size_t origin[3],
       const size_t region[3], uint8_t inside, uint8_t outside)
{
    uint8_t got[BYTES];

    ok(clEnqueueReadImage(queue, image, CL_TRUE, zero, whole, 0, 0, got, 0, NULL,
                          NULL));
    for (int i = 0; i < PIXELS; i++) {
        assert_int_equal(got[4 * i], is_inside(i, origin, region) ? inside : outside);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

/** Fill a, copy a part to b, that to the buffer, and from there elsewhere into a. */
static void
fills_and_copies(void **unused)
{
    const size_t at[3] = {2, 1, 0}, to[3] = {5, 3, 0}, part[3] = {6, 2, 1};
    const cl_uint colour[4] = {77, 77, 77, 77}, dark[4] = {5, 5, 5, 5};
    cl_command_buffer_khr c = make();
    cl_sync_point_khr point;
    uint8_t bytes[BYTES];

    (void)unused;
    clear(all.queue, all.a, 1);
    clear(all.queue, all.b, 2);
    memset(bytes, 9, sizeof(bytes));
    ok(clEnqueueWriteBuffer(all.queue, all.buffer, CL_TRUE, 0, BYTES, bytes, 0, NULL,
                            NULL));
    ok(fn.clCommandFillImageKHR(c, NULL, all.a, dark, zero, whole, 0, NULL, &point,
                                NULL));
    ok(fn.clCommandFillImageKHR(c, NULL, all.a, colour, at, part, 1, &point, &point,
                                NULL));
    ok(fn.clCommandCopyImageKHR(c, NULL, all.a, all.b, at, to, part, 1, &point, &point,
                                NULL));
    ok(fn.clCommandCopyImageToBufferKHR(c, NULL, all.b, all.buffer, to, part, 64, 1,
                                        &point, &point, NULL));
    ok(fn.clCommandCopyBufferToImageKHR(c, NULL, all.buffer, all.a, 64, to, part, 1,
                                        &point, NULL, NULL));
    run(c);
    expect(all.queue, all.b, to, part, 77, 2);
    ok(clEnqueueReadBuffer(all.queue, all.buffer, CL_TRUE, 0, BYTES, bytes, 0, NULL,
                           NULL));
    for (int i = 0; i < BYTES; i++) {
        bool inside = i >= 64 && i < 64 + 6 * 2 * 4;

        assert_int_equal(bytes[i], inside ? 77 : 9);
    }
    clear(all.queue, all.a, 1); /* both regions at once are no rectangle */
    c = make();
    ok(fn.clCommandCopyBufferToImageKHR(c, NULL, all.buffer, all.a, 64, to, part, 0,
                                        NULL, NULL, NULL));
    run(c);
    expect(all.queue, all.a, to, part, 77, 1);
}

/** Content written by another server is moved here before the command buffer runs, and back. */
static void
content_follows(void **unused)
{
    const size_t part[3] = {W, 1, 1};
    cl_command_buffer_khr c = make();

    (void)unused;
    ok(fn.clCommandCopyImageKHR(c, NULL, all.a, all.b, zero, zero, part, 0, NULL, NULL,
                                NULL));
    ok(fn.clFinalizeCommandBufferKHR(c));
    for (uint8_t i = 1; i < 4; i++) {
        clear(all.other, all.a, 10u * i);
        clear(all.other, all.b, 100u + i);
        ok(fn.clEnqueueCommandBufferKHR(0, NULL, c, 0, NULL, NULL));
        ok(clFinish(all.queue));
        expect(all.other, all.b, zero, part, (uint8_t)(10 * i), (uint8_t)(100 + i));
    }
    ok(fn.clReleaseCommandBufferKHR(c));
}

/** A recorded kernel keeps its images. (PoCL 3.1 itself hangs with sampler arguments.) */
static void
kernels_keep_their_objects(void **unused)
{
    const char *source =
        "constant sampler_t s = CLK_FILTER_NEAREST | CLK_ADDRESS_CLAMP_TO_EDGE;"
        "kernel void k(read_only image2d_t from, write_only image2d_t to) {"
        "    int2 at = (int2)(get_global_id(0), get_global_id(1));"
        "    write_imageui(to, at, read_imageui(from, s, at) + (uint4)(1));"
        "}";
    const size_t global[2] = {W, H};
    cl_command_buffer_khr c = make();
    cl_int err;
    cl_program program = clCreateProgramWithSource(all.ctx, 1, &source, NULL, &err);
    cl_mem from = make_image(&rgba);
    cl_kernel kernel;

    (void)unused;
    ok(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    kernel = clCreateKernel(program, "k", &err);
    ok(err);
    clear(all.queue, from, 41);
    clear(all.queue, all.b, 0);
    ok(clSetKernelArg(kernel, 0, sizeof(from), &from));
    ok(clSetKernelArg(kernel, 1, sizeof(all.b), &all.b));
    ok(fn.clCommandNDRangeKernelKHR(c, NULL, NULL, kernel, 2, NULL, global, NULL, 0,
                                    NULL, NULL, NULL));
    ok(clReleaseMemObject(from));
    ok(clReleaseKernel(kernel));
    ok(clReleaseProgram(program));
    run(c);
    expect(all.queue, all.b, zero, whole, 42, 0);
}

static void
what_is_wrong_is_refused(void **unused)
{
    const size_t far[3] = {W, 0, 0}, part[3] = {4, 4, 1}, near[3] = {1, 1, 0};
    const cl_image_format other = {CL_R, CL_UNSIGNED_INT32};
    const cl_uint colour[4] = {0};
    const cl_sync_point_khr future = 3;
    cl_command_buffer_khr c = make();
    cl_mem odd = make_image(&other);

    (void)unused;
#define REFUSES(error, name, ...)                                                      \
    assert_int_equal(                                                                  \
        fn.clCommand##name##KHR(c, NULL, __VA_ARGS__, 0, NULL, NULL, NULL), error)
    REFUSES(CL_INVALID_VALUE, FillImage, all.a, colour, far, part);
    REFUSES(CL_INVALID_VALUE, FillImage, all.a, NULL, zero, part);
    REFUSES(CL_INVALID_MEM_OBJECT, FillImage, all.buffer, colour, zero, part);
    REFUSES(CL_INVALID_VALUE, CopyImage, all.a, all.b, zero, far, part);
    REFUSES(CL_IMAGE_FORMAT_MISMATCH, CopyImage, all.a, odd, zero, zero, part);
    REFUSES(CL_MEM_COPY_OVERLAP, CopyImage, all.a, all.a, zero, near, part);
    REFUSES(CL_INVALID_MEM_OBJECT, CopyImageToBuffer, all.buffer, all.a, zero, part, 0);
    REFUSES(CL_INVALID_VALUE, CopyImageToBuffer, all.a, all.buffer, zero, part, BYTES);
    REFUSES(CL_INVALID_VALUE, CopyBufferToImage, all.buffer, all.a, BYTES, zero, part);
    REFUSES(CL_INVALID_MEM_OBJECT, CopyBufferToImage, NULL, all.a, 0, zero, part);
#undef REFUSES
    assert_int_equal(fn.clCommandFillImageKHR(c, NULL, all.a, colour, zero, part, 1,
                                              &future, NULL, NULL),
                     CL_INVALID_SYNC_POINT_WAIT_LIST_KHR);
    assert_int_equal(fn.clCommandFillImageKHR(c, all.queue, all.a, colour, zero, part,
                                              0, NULL, NULL, NULL),
                     CL_INVALID_COMMAND_QUEUE);
    ok(fn.clFinalizeCommandBufferKHR(c));
    assert_int_equal(fn.clCommandFillImageKHR(c, NULL, all.a, colour, zero, part, 0,
                                              NULL, NULL, NULL),
                     CL_INVALID_OPERATION);
    ok(clReleaseMemObject(odd));
    ok(fn.clReleaseCommandBufferKHR(c));
}

/* ---- all of them -------------------------------------------------------------------------------- */

static bool
find_functions(void)
{
    char text[8192] = "";
    cl_bool images = CL_FALSE;

    clGetDeviceInfo(all.devices[0], CL_DEVICE_EXTENSIONS, sizeof(text), text, NULL);
    clGetDeviceInfo(all.devices[0], CL_DEVICE_IMAGE_SUPPORT, sizeof(images), &images,
                    NULL);
#define FIND(name)                                                                     \
    fn.name = (name##_fn)clGetExtensionFunctionAddressForPlatform(all.platform, #name);
    FUNCTIONS(FIND)
#undef FIND
    return images && strstr(text, CL_KHR_COMMAND_BUFFER_EXTENSION_NAME) != NULL &&
           fn.clCreateCommandBufferKHR != NULL;
}

static cl_int
open_all(void)
{
    cl_int err;

    all.ctx = clCreateContext(NULL, all.count, all.devices, NULL, NULL, &err);
    all.queue = clCreateCommandQueueWithProperties(all.ctx, all.devices[0], NULL, &err);
    all.other = clCreateCommandQueueWithProperties(all.ctx, all.devices[all.count - 1],
                                                   NULL, &err);
    all.buffer = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, BYTES, NULL, &err);
    all.a = make_image(&rgba);
    all.b = make_image(&rgba);
    return err;
}

static void
close_all(void)
{
    clReleaseMemObject(all.a);
    clReleaseMemObject(all.b);
    clReleaseMemObject(all.buffer);
    clReleaseCommandQueue(all.queue);
    clReleaseCommandQueue(all.other);
    clReleaseContext(all.ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_and_copies),
        cmocka_unit_test(content_follows),
        cmocka_unit_test(kernels_keep_their_objects),
        cmocka_unit_test(what_is_wrong_is_refused),
    };
    struct servers servers;
    int failed = 1;

    if (servers_start(&servers, 2) != 0) {
        return 1;
    }
    if (clGetPlatformIDs(1, &all.platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(all.platform, CL_DEVICE_TYPE_ALL, 4, all.devices, &all.count) !=
            CL_SUCCESS ||
        !find_functions()) {
        print_message("skipped: no driver here has images in command buffers\n");
        servers_stop(&servers);
        return 77;
    }
    if (open_all() == CL_SUCCESS) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        close_all();
    }
    servers_stop(&servers);
    return failed;
}
