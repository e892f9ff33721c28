/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images and samplers of an executor, over the protocol alone: content there and back, and
 * what a client may do wrong. Skipped where telpherd finds no device with images.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "daemon/test/test_session.h"

enum { WIDTH = 64, HEIGHT = 32, PIXELS = WIDTH * HEIGHT };

struct scene {
    struct test_session s;
    uint64_t context, queue;
    uint64_t image; /* 2D, WIDTH x HEIGHT elements of 4 bytes */
    uint64_t buffer; /* as large */
};

static struct test_daemon the_daemon;

static struct tp_wire_image_create
flat_image(const struct scene *c)
{
    return (struct tp_wire_image_create){.context = c->context,
                                         .flags = CL_MEM_READ_WRITE,
                                         .image_type = CL_MEM_OBJECT_IMAGE2D,
                                         .channel_order = CL_RGBA,
                                         .channel_type = CL_UNSIGNED_INT8,
                                         .width = WIDTH,
                                         .height = HEIGHT};
}

static uint64_t
put_image(struct scene *c, struct tp_wire_image_create m)
{
    m.mem = test_id(&c->s, TP_WIRE_KIND_MEM);
    test_put(&c->s, TP_WIRE_IMAGE_CREATE, &m);
    return m.mem;
}

static int
open_scene(void **state)
{
    struct scene *c = calloc(1, sizeof(*c));
    struct tp_wire_context_create context = {.devices = TEST_IDS(0)};
    struct tp_wire_queue_create queue = {0};
    struct tp_wire_buffer_create buffer = {.flags = CL_MEM_READ_WRITE,
                                           .size = PIXELS * 4};

    assert_non_null(c);
    test_session_open(&c->s, &the_daemon);
    (void)test_session_start(&c->s);
    c->context = context.context = test_id(&c->s, TP_WIRE_KIND_CONTEXT);
    c->queue = queue.queue = test_id(&c->s, TP_WIRE_KIND_QUEUE);
    c->buffer = buffer.mem = test_id(&c->s, TP_WIRE_KIND_MEM);
    queue.context = buffer.context = c->context;
    test_put(&c->s, TP_WIRE_CONTEXT_CREATE, &context);
    test_put(&c->s, TP_WIRE_QUEUE_CREATE, &queue);
    test_put(&c->s, TP_WIRE_BUFFER_CREATE, &buffer);
    c->image = put_image(c, flat_image(c));
    *state = c;
    return 0;
}

static int
close_scene(void **state)
{
    struct scene *c = *state;

    test_session_close(&c->s);
    test_daemon_wait_children(&the_daemon, 0);
    free(c);
    return 0;
}

static int32_t
wait_done(struct scene *c, uint64_t event, struct tp_wire_done *ret_done)
{
    struct tp_wire_done done;

    test_expect_done(&c->s, event, &done);
    if (ret_done != NULL) {
        *ret_done = done;
    }
    return done.status;
}

/* READ_IMAGE of a region with content in DONE. @return its status */
static int32_t
read_region(struct scene *c, uint64_t mem, const uint64_t region[6], uint64_t size,
            struct tp_wire_done *ret_done)
{
    struct tp_wire_read_image m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                   .queue = c->queue,
                                   .mem = mem,
                                   .flags = TP_WIRE_NOTIFY,
                                   .size = size,
                                   .region = {6, region}};

    test_put(&c->s, TP_WIRE_READ_IMAGE, &m);
    return wait_done(c, m.event, ret_done);
}

static int32_t
write_region(struct scene *c, uint64_t mem, const uint64_t region[6], const void *data,
             uint32_t len)
{
    struct tp_wire_write_image m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                    .queue = c->queue,
                                    .mem = mem,
                                    .flags = TP_WIRE_NOTIFY,
                                    .size = len,
                                    .region = {6, region},
                                    .data = {len, data}};

    test_put(&c->s, TP_WIRE_WRITE_IMAGE, &m);
    return wait_done(c, m.event, NULL);
}

/* ---- what works ---- */

static void
test_content(void **state)
{
    static const uint64_t all[6] = {0, 0, 0, WIDTH, HEIGHT, 1};
    static const uint64_t part[6] = {60, 30, 0, 4, 2, 1};
    uint8_t zero[PIXELS * 4] = {0}, data[32];
    struct scene *c = *state;
    struct tp_wire_fill_image fill = {.queue = c->queue,
                                      .mem = c->image,
                                      .region = TEST_IDS(0, 0, 0, 2, 1, 1),
                                      .colour = TEST_TEXT("\7\0\0\0\10\0\0\0"
                                                          "\11\0\0\0\12\0\0\0")};
    struct tp_wire_done done;

    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i + 1);
    }
    assert_int_equal(write_region(c, c->image, all, zero, sizeof(zero)), CL_SUCCESS);
    assert_int_equal(write_region(c, c->image, part, data, sizeof(data)), CL_SUCCESS);
    test_put(&c->s, TP_WIRE_FILL_IMAGE, &fill);
    assert_int_equal(read_region(c, c->image, all, sizeof(zero), &done), CL_SUCCESS);
    assert_int_equal(done.data.len, sizeof(zero));
    memcpy(zero, "\7\10\11\12\7\10\11\12", 8);
    memcpy(zero + (30 * WIDTH + 60) * 4, data, 16);
    memcpy(zero + (31 * WIDTH + 60) * 4, data + 16, 16);
    assert_memory_equal(done.data.data, zero, sizeof(zero));
}

static void
test_copies(void **state)
{
    static const uint64_t row[6] = {0, 0, 0, WIDTH, 1, 1};
    static const uint64_t last[6] = {0, HEIGHT - 1, 0, WIDTH, 1, 1};
    struct scene *c = *state;
    uint64_t other = put_image(c, flat_image(c));
    uint8_t data[WIDTH * 4];
    struct tp_wire_copy_image copy = {.queue = c->queue,
                                      .src = c->image,
                                      .dst = other,
                                      .region =
                                          TEST_IDS(0, 0, 0, 0, 3, 0, WIDTH, 1, 1)};
    struct tp_wire_copy_image_to_buffer out = {.queue = c->queue,
                                               .src = other,
                                               .dst = c->buffer,
                                               .offset = 100,
                                               .region =
                                                   TEST_IDS(0, 3, 0, WIDTH, 1, 1)};
    struct tp_wire_copy_buffer_to_image in = {
        .queue = c->queue,
        .src = c->buffer,
        .dst = c->image,
        .offset = 100,
        .region = TEST_IDS(0, HEIGHT - 1, 0, WIDTH, 1, 1)};
    struct tp_wire_done done;

    memset(data, 0x5a, sizeof(data));
    assert_int_equal(write_region(c, c->image, row, data, sizeof(data)), CL_SUCCESS);
    test_put(&c->s, TP_WIRE_COPY_IMAGE, &copy);
    test_put(&c->s, TP_WIRE_COPY_IMAGE_TO_BUFFER, &out);
    test_put(&c->s, TP_WIRE_COPY_BUFFER_TO_IMAGE, &in);
    assert_int_equal(read_region(c, c->image, last, sizeof(data), &done), CL_SUCCESS);
    assert_memory_equal(done.data.data, data, sizeof(data));
}

/* ---- what is refused, one command or object at a time ---- */

static void
expect_failed(struct scene *c, struct tp_wire_image_create m, int32_t want)
{
    struct tp_wire_failed failed;
    uint64_t id = put_image(c, m);

    test_expect(&c->s, TP_WIRE_FAILED, &failed);
    assert_int_equal(failed.id, id);
    if (want != 0) {
        assert_int_equal(failed.status, want);
    }
}

static void
test_bad_images(void **state)
{
    struct scene *c = *state;
    struct tp_wire_image_create m = flat_image(c);

    m.channel_order = 0x1234;
    expect_failed(c, m, CL_IMAGE_FORMAT_NOT_SUPPORTED);
    m.channel_order = 0xffffffff;
    m.channel_type = 0;
    expect_failed(c, m, CL_IMAGE_FORMAT_NOT_SUPPORTED);
    m = flat_image(c);
    m.channel_order = CL_sRGB; /* three bytes */
    m.channel_type = CL_UNORM_INT8;
    expect_failed(c, m, CL_IMAGE_FORMAT_NOT_SUPPORTED);
    m = flat_image(c);
    m.image_type = CL_MEM_OBJECT_BUFFER;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR);
    m = flat_image(c);
    m.flags = CL_MEM_USE_HOST_PTR;
    expect_failed(c, m, CL_INVALID_VALUE);
    m = flat_image(c);
    m.context = c->queue;
    expect_failed(c, m, CL_INVALID_CONTEXT);
    m = flat_image(c);
    m.width = 0;
    expect_failed(c, m, CL_INVALID_IMAGE_SIZE);
    m.width = UINT64_MAX;
    expect_failed(c, m, CL_INVALID_IMAGE_SIZE);
    m.width = m.height = (uint64_t)1 << 31;
    expect_failed(c, m, CL_INVALID_IMAGE_SIZE);
    m.image_type = CL_MEM_OBJECT_IMAGE2D_ARRAY;
    m.array_size = (uint64_t)1 << 40;
    expect_failed(c, m, CL_INVALID_IMAGE_SIZE);
    m = flat_image(c);
    m.row_pitch = WIDTH * 4;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR);
    assert_int_equal(
        read_region(c, c->image, (const uint64_t[]){0, 0, 0, 1, 1, 1}, 4, NULL),
        CL_SUCCESS);
}

static void
test_bad_parents(void **state)
{
    struct scene *c = *state;
    struct tp_wire_image_create m = flat_image(c);

    m.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER;
    m.width = PIXELS;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR); /* of nothing */
    m.parent = c->image;
    expect_failed(c, m, CL_INVALID_MEM_OBJECT);
    m.parent = c->queue;
    expect_failed(c, m, CL_INVALID_MEM_OBJECT);
    m.parent = c->buffer;
    m.width = PIXELS + 1;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR);
    m.image_type = CL_MEM_OBJECT_IMAGE3D;
    m.width = m.depth = 4;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR);
    m = flat_image(c);
    m.parent = c->buffer;
    m.row_pitch = WIDTH * 4 - 4;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR);
    m.row_pitch = WIDTH * 4 + 2;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR);
    m.row_pitch = WIDTH * 4 + 4;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR); /* beyond the buffer */
    m.row_pitch = UINT64_MAX - 3;
    expect_failed(c, m, CL_INVALID_IMAGE_DESCRIPTOR);
}

static void
test_bad_regions(void **state)
{
    static const uint64_t regions[][6] = {
        {0, 0, 0, WIDTH + 1, 1, 1},  {1, 0, 0, WIDTH, 1, 1},
        {0, 0, 0, 1, 0, 1},          {0, HEIGHT, 0, 1, 1, 1},
        {0, 0, 1, 1, 1, 1},          {UINT64_MAX, 0, 0, 2, 1, 1},
        {2, 0, 0, UINT64_MAX, 1, 1}, {0, 0, 0, 1, 1, (uint64_t)1 << 62},
    };
    struct scene *c = *state;

    for (size_t i = 0; i < TP_ARRAY_LEN(regions); i++) {
        assert_int_equal(read_region(c, c->image, regions[i], 4, NULL),
                         CL_INVALID_VALUE);
        assert_int_equal(write_region(c, c->image, regions[i], "abcd", 4),
                         CL_INVALID_VALUE);
    }
    /* the content of two elements is not 4 bytes */
    assert_int_equal(
        read_region(c, c->image, (const uint64_t[]){0, 0, 0, 2, 1, 1}, 4, NULL),
        CL_INVALID_VALUE);
}

/* Layers count: some drivers do not look. */
static void
test_layers_are_bounds(void **state)
{
    struct scene *c = *state;
    struct tp_wire_image_create m = flat_image(c);
    uint64_t image;

    m.image_type = CL_MEM_OBJECT_IMAGE1D_ARRAY;
    m.array_size = 3;
    image = put_image(c, m);
    assert_int_equal(
        read_region(c, image, (const uint64_t[]){0, 2, 0, 1, 1, 1}, 4, NULL),
        CL_SUCCESS);
    assert_int_equal(
        read_region(c, image, (const uint64_t[]){0, 2, 0, 1, 2, 1}, 8, NULL),
        CL_INVALID_VALUE);
    assert_int_equal(
        write_region(c, image, (const uint64_t[]){0, 3, 0, 1, 1, 1}, "abcd", 4),
        CL_INVALID_VALUE);
}

static int32_t
copy_out(struct scene *c, uint64_t src, uint64_t dst, uint64_t offset)
{
    struct tp_wire_copy_image_to_buffer m = {
        .event = test_id(&c->s, TP_WIRE_KIND_EVENT),
        .queue = c->queue,
        .src = src,
        .dst = dst,
        .flags = TP_WIRE_NOTIFY,
        .offset = offset,
        .region = TEST_IDS(0, 0, 0, WIDTH, HEIGHT, 1)};

    test_put(&c->s, TP_WIRE_COPY_IMAGE_TO_BUFFER, &m);
    return wait_done(c, m.event, NULL);
}

static void
test_wrong_kinds(void **state)
{
    static const uint64_t one[6] = {0, 0, 0, 1, 1, 1};
    struct scene *c = *state;
    struct tp_wire_read read = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                .queue = c->queue,
                                .mem = c->image,
                                .flags = TP_WIRE_NOTIFY,
                                .size = 4};
    struct tp_wire_copy copy = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                .queue = c->queue,
                                .src = c->buffer,
                                .dst = c->image,
                                .flags = TP_WIRE_NOTIFY,
                                .size = 4};
    struct tp_wire_sub_buffer_create sub = {.mem = test_id(&c->s, TP_WIRE_KIND_MEM),
                                            .parent = c->image,
                                            .flags = CL_MEM_READ_WRITE,
                                            .size = 64};
    struct tp_wire_failed failed;

    test_put(&c->s, TP_WIRE_READ, &read);
    assert_int_equal(wait_done(c, read.event, NULL), CL_INVALID_MEM_OBJECT);
    test_put(&c->s, TP_WIRE_COPY, &copy);
    assert_int_equal(wait_done(c, copy.event, NULL), CL_INVALID_MEM_OBJECT);
    test_put(&c->s, TP_WIRE_SUB_BUFFER_CREATE, &sub);
    test_expect(&c->s, TP_WIRE_FAILED, &failed);
    assert_int_equal(failed.status, CL_INVALID_MEM_OBJECT);
    assert_int_equal(read_region(c, c->buffer, one, 4, NULL), CL_INVALID_MEM_OBJECT);
    assert_int_equal(read_region(c, c->queue, one, 4, NULL), CL_INVALID_MEM_OBJECT);
    assert_int_equal(copy_out(c, c->buffer, c->image, 0), CL_INVALID_MEM_OBJECT);
    assert_int_equal(copy_out(c, c->image, c->buffer, 1), CL_INVALID_VALUE);
    assert_int_equal(copy_out(c, c->image, c->buffer, UINT64_MAX), CL_INVALID_VALUE);
    assert_int_equal(copy_out(c, c->image, c->buffer, 0), CL_SUCCESS);
}

/* Content of an image that was cut inside an element fails alone. */
static void
test_cut_inside_an_element(void **state)
{
    enum { SIDE = 1024, SIZE = SIDE * SIDE * 4, STEP = 256 << 10 };
    struct scene *c = *state;
    struct tp_wire_image_create create = flat_image(c);
    struct tp_wire_write_image m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                    .queue = c->queue,
                                    .flags = TP_WIRE_NOTIFY,
                                    .size = SIZE,
                                    .region = TEST_IDS(0, 0, 0, SIDE, SIDE, 1)};
    uint8_t *data = tp_zalloc(SIZE, "content");

    assert_non_null(data);
    create.width = create.height = SIDE;
    m.mem = put_image(c, create);
    m.transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
    test_session_bulk(&c->s, &the_daemon);
    test_put(&c->s, TP_WIRE_WRITE_IMAGE, &m);
    test_flush(&c->s);
    assert_int_equal(tp_stream_send_data(c->s.bulk, m.transfer, 0, data, 3),
                     TELPHER_OK);
    for (uint32_t at = 3; at < SIZE; at += STEP) {
        uint32_t len = SIZE - at < STEP ? SIZE - at : STEP;

        assert_int_equal(tp_stream_send_data(c->s.bulk, m.transfer, at, data + at, len),
                         TELPHER_OK);
    }
    assert_int_equal(wait_done(c, m.event, NULL), CL_INVALID_VALUE);
    assert_int_equal(
        read_region(c, c->image, (const uint64_t[]){0, 0, 0, 1, 1, 1}, 4, NULL),
        CL_SUCCESS);
    tp_free(data);
}

/* ---- what breaks the session ---- */

static void
test_broken_messages(void **state)
{
    struct scene *c = *state;
    const struct tp_wire_read_image few = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                           .queue = c->queue,
                                           .mem = c->image,
                                           .flags = TP_WIRE_NOTIFY,
                                           .size = 4,
                                           .region = TEST_IDS(0, 0, 0, 1, 1)};
    struct tp_wire_read_image silent = few;
    struct tp_wire_write_image lean = {
        .queue = c->queue, .mem = c->image, .size = 8, .data = TEST_TEXT("abcd")};
    struct tp_wire_fill_image pale = {.queue = c->queue,
                                      .mem = c->image,
                                      .region = TEST_IDS(0, 0, 0, 1, 1, 1),
                                      .colour = TEST_TEXT("fifteen bytes!!")};
    struct tp_wire_copy_image twice = {
        .queue = c->queue, .src = c->image, .dst = c->image};
    struct tp_wire_sampler_create sampler = {.sampler = c->image,
                                             .context = c->context};
    const struct {
        uint16_t type;
        const void *msg;
    } bad[] = {{TP_WIRE_READ_IMAGE, &few},
               {TP_WIRE_READ_IMAGE, &silent},
               {TP_WIRE_WRITE_IMAGE, &lean},
               {TP_WIRE_FILL_IMAGE, &pale},
               {TP_WIRE_COPY_IMAGE, &twice},
               {TP_WIRE_SAMPLER_CREATE, &sampler},
               {TP_WIRE_IMAGE_CREATE, &(struct tp_wire_image_create){0}}};

    silent.region = (struct tp_wire_u64s)TEST_IDS(0, 0, 0, 1, 1, 1);
    silent.flags = 0;
    lean.region = silent.region;
    test_flush(&c->s);
    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        struct tp_wire_close closing;
        struct test_session s;

        test_session_open(&s, &the_daemon);
        (void)test_session_start(&s);
        test_put(&s, bad[i].type, bad[i].msg);
        test_expect(&s, TP_WIRE_CLOSE, &closing);
        assert_int_equal(closing.status, TELPHER_ERR_PROTO);
        assert_int_equal(test_expect_end(&s), TELPHER_ERR_PEER_LOST);
        test_session_close(&s);
    }
    /* no other object is affected */
    assert_int_equal(
        read_region(c, c->image, (const uint64_t[]){0, 0, 0, 1, 1, 1}, 4, NULL),
        CL_SUCCESS);
}

/* ---- samplers ---- */

static uint64_t
build_kernel(struct scene *c)
{
    static const char *source = "kernel void f(read_only image2d_t i, sampler_t s,\n"
                                "              global float4 *o)\n"
                                "{ o[0] = read_imagef(i, s, (float2)(0.5f)); }";
    struct tp_wire_program_source m = {.program = test_id(&c->s, TP_WIRE_KIND_PROGRAM),
                                       .context = c->context,
                                       .size = strlen(source),
                                       .source = {(uint32_t)strlen(source), source}};
    struct tp_wire_program_build b = {.request = test_id(&c->s, TP_WIRE_KIND_REQUEST),
                                      .program = m.program};
    struct tp_wire_kernel_create k = {.kernel = test_id(&c->s, TP_WIRE_KIND_KERNEL),
                                      .program = m.program,
                                      .name = TEST_TEXT("f")};
    struct tp_wire_build_reply reply;

    test_put(&c->s, TP_WIRE_PROGRAM_SOURCE, &m);
    test_put(&c->s, TP_WIRE_PROGRAM_BUILD, &b);
    test_expect(&c->s, TP_WIRE_BUILD_REPLY, &reply);
    assert_int_equal(reply.status, CL_SUCCESS);
    test_put(&c->s, TP_WIRE_KERNEL_CREATE, &k);
    return k.kernel;
}

static void
set_object(struct scene *c, uint64_t kernel, uint32_t index, uint8_t kind, uint64_t id)
{
    struct tp_wire_kernel_arg m = {.kernel = kernel,
                                   .index = index,
                                   .kind = kind,
                                   .size = sizeof(id),
                                   .value = {sizeof(id), &id}};

    test_put(&c->s, TP_WIRE_KERNEL_ARG, &m);
}

static int32_t
launch(struct scene *c, uint64_t kernel)
{
    struct tp_wire_launch m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                               .queue = c->queue,
                               .kernel = kernel,
                               .flags = TP_WIRE_NOTIFY,
                               .dims = 1,
                               .sizes = TEST_IDS(0, 1)};

    test_put(&c->s, TP_WIRE_LAUNCH, &m);
    return wait_done(c, m.event, NULL);
}

static void
test_samplers(void **state)
{
    struct scene *c = *state;
    struct tp_wire_image_create normal = flat_image(c);
    struct tp_wire_sampler_create create = {.sampler =
                                                test_id(&c->s, TP_WIRE_KIND_SAMPLER),
                                            .context = c->context,
                                            .addressing = CL_ADDRESS_CLAMP_TO_EDGE,
                                            .filter = CL_FILTER_NEAREST};
    uint64_t kernel = build_kernel(c);
    uint64_t ids[1] = {create.sampler};
    struct tp_wire_release release = {.ids = {1, ids}};

    normal.channel_type = CL_UNORM_INT8;
    set_object(c, kernel, 0, TP_WIRE_ARG_MEM, put_image(c, normal));
    set_object(c, kernel, 2, TP_WIRE_ARG_MEM, c->buffer);
    set_object(c, kernel, 1, TP_WIRE_ARG_SAMPLER, c->buffer);
    assert_int_equal(launch(c, kernel), CL_INVALID_SAMPLER);
    set_object(c, kernel, 1, TP_WIRE_ARG_SAMPLER, create.sampler); /* not made yet */
    assert_int_equal(launch(c, kernel), CL_INVALID_SAMPLER);
    test_put(&c->s, TP_WIRE_SAMPLER_CREATE, &create);
    set_object(c, kernel, 1, TP_WIRE_ARG_SAMPLER, create.sampler);
    assert_int_equal(launch(c, kernel), CL_SUCCESS);
    test_put(&c->s, TP_WIRE_RELEASE, &release);
    assert_int_equal(launch(c, kernel), CL_INVALID_KERNEL_ARGS);
}

/* ---- the daemon ---- */

static bool
is_formats(const struct tp_wire_fact *f)
{
    return f->kind == TP_WIRE_FACT_IMAGE_FORMATS && f->index == 0 && f->len > 0;
}

static int
start_daemon(void **state)
{
    *state = &the_daemon;
    test_daemon_start(&the_daemon, NULL);
    test_daemon_need(&the_daemon, is_formats, "an OpenCL device with images");
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, open_scene, close_scene)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(content),         TEST(copies),
        TEST(bad_images),      TEST(bad_parents),
        TEST(bad_regions),     TEST(layers_are_bounds),
        TEST(wrong_kinds),     TEST(cut_inside_an_element),
        TEST(broken_messages), TEST(samplers),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, start_daemon, test_daemon_teardown);
}
