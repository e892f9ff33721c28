/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes of a client that does not check: sizes, flags, and messages about buffers and images
 * that name a pipe. Besides, a driver without pipes.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/test/test_driver.h"

struct test_daemon the_daemon;

static int
open_pipes(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_PIPES", "1");
}

static int
open_none(void **state)
{
    return test_open_driver_scene(state, NULL, NULL);
}

static int
open_limited(void **state)
{
    int rc;

    (void)setenv("TESTDRV_PIPES", "1", 1);
    rc = test_open_driver_scene(state, "TELPHER_MAX_MEMORY", "64M");
    (void)unsetenv("TESTDRV_PIPES");
    return rc;
}

static uint64_t
put_pipe(struct test_scene *c, uint64_t flags, uint32_t packet_size,
         uint32_t max_packets)
{
    const struct tp_wire_pipe_create m = {.mem = test_id(&c->s, TP_WIRE_KIND_MEM),
                                          .context = c->context,
                                          .flags = flags,
                                          .packet_size = packet_size,
                                          .max_packets = max_packets};

    test_put(&c->s, TP_WIRE_PIPE_CREATE, &m);
    return m.mem;
}

static int32_t
status_of(struct test_scene *c, uint64_t event)
{
    struct tp_wire_done done;

    test_expect_done(&c->s, event, &done);
    return done.status;
}

/* The status of a FILL of an object: what poisons it, or that it is no buffer. */
static int32_t
fill(struct test_scene *c, uint64_t mem)
{
    const struct tp_wire_fill m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                   .queue = c->queue,
                                   .mem = mem,
                                   .flags = TP_WIRE_NOTIFY,
                                   .size = 4,
                                   .pattern = {4, "abcd"}};

    test_put(&c->s, TP_WIRE_FILL, &m);
    return status_of(c, m.event);
}

static void
test_sizes_and_flags(void **state)
{
    struct test_scene *c = *state;

    assert_int_equal(fill(c, put_pipe(c, CL_MEM_READ_WRITE, 0, 1)),
                     CL_INVALID_PIPE_SIZE);
    assert_int_equal(fill(c, put_pipe(c, CL_MEM_READ_WRITE, 4, 0)),
                     CL_INVALID_PIPE_SIZE);
    assert_int_equal(fill(c, put_pipe(c, CL_MEM_READ_WRITE, 65, 1)),
                     CL_INVALID_PIPE_SIZE); /* the driver says so */
    assert_int_equal(fill(c, put_pipe(c, CL_MEM_USE_HOST_PTR, 4, 1)), CL_INVALID_VALUE);
    test_expect_alive(&c->s);
}

/* A pipe is no buffer, no parent of one, and no image. */
static void
test_is_no_buffer(void **state)
{
    struct test_scene *c = *state;
    const uint64_t pipe = put_pipe(c, CL_MEM_READ_WRITE, 4, 16);
    const struct tp_wire_sub_buffer_create sub = {.mem =
                                                      test_id(&c->s, TP_WIRE_KIND_MEM),
                                                  .parent = pipe,
                                                  .flags = CL_MEM_READ_WRITE,
                                                  .size = 4};
    const uint64_t region[6] = {0, 0, 0, 1, 1, 1};
    const struct tp_wire_read_image image = {.event =
                                                 test_id(&c->s, TP_WIRE_KIND_EVENT),
                                             .queue = c->queue,
                                             .mem = pipe,
                                             .flags = TP_WIRE_NOTIFY,
                                             .size = 4,
                                             .region = {6, region}};

    assert_int_equal(fill(c, pipe), CL_INVALID_MEM_OBJECT);
    test_put(&c->s, TP_WIRE_SUB_BUFFER_CREATE, &sub);
    assert_int_equal(fill(c, sub.mem), CL_INVALID_MEM_OBJECT);
    test_put(&c->s, TP_WIRE_READ_IMAGE, &image);
    assert_int_equal(status_of(c, image.event), CL_INVALID_MEM_OBJECT);
    test_expect_alive(&c->s);
}

/* Pipes count as device memory, also where their size has more than 32 bits. */
static void
test_size_limit(void **state)
{
    struct test_scene *c = *state;

    assert_int_equal(fill(c, put_pipe(c, CL_MEM_READ_WRITE, 64, UINT32_MAX)),
                     CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(fill(c, put_pipe(c, CL_MEM_READ_WRITE, 64, 1U << 26)),
                     CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(fill(c, put_pipe(c, CL_MEM_READ_WRITE, 64, 1)),
                     CL_INVALID_MEM_OBJECT); /* it is there, and no buffer */
    test_expect_alive(&c->s);
}

/* A kernel with a pipe and a buffer. */
static uint64_t
make_kernel(struct test_scene *c, const uint64_t *mems)
{
    static const char text[] =
        "kernel void pipe_put(write_only pipe int p, global int *x)";
    const struct tp_wire_program_source source = {
        .program = test_id(&c->s, TP_WIRE_KIND_PROGRAM),
        .context = c->context,
        .size = strlen(text),
        .source = TEST_TEXT(text)};
    const struct tp_wire_program_build build = {
        .request = test_id(&c->s, TP_WIRE_KIND_REQUEST), .program = source.program};
    const struct tp_wire_kernel_create kernel = {
        .kernel = test_id(&c->s, TP_WIRE_KIND_KERNEL),
        .program = source.program,
        .name = TEST_TEXT("pipe_put")};
    struct tp_wire_build_reply reply;

    test_put(&c->s, TP_WIRE_PROGRAM_SOURCE, &source);
    test_put(&c->s, TP_WIRE_PROGRAM_BUILD, &build);
    test_expect(&c->s, TP_WIRE_BUILD_REPLY, &reply);
    test_put(&c->s, TP_WIRE_KERNEL_CREATE, &kernel);
    for (uint32_t i = 0; i < 2; i++) {
        test_put(&c->s, TP_WIRE_KERNEL_ARG,
                 &(struct tp_wire_kernel_arg){.kernel = kernel.kernel,
                                              .index = i,
                                              .kind = TP_WIRE_ARG_MEM,
                                              .size = sizeof(mems[i]),
                                              .value = {sizeof(mems[i]), &mems[i]}});
    }
    return kernel.kernel;
}

static uint64_t
launch(struct test_scene *c, uint64_t kernel)
{
    const struct tp_wire_launch m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                     .queue = c->queue,
                                     .kernel = kernel,
                                     .flags = TP_WIRE_NOTIFY,
                                     .dims = 1,
                                     .sizes = TEST_IDS(0, 4)};

    test_put(&c->s, TP_WIRE_LAUNCH, &m);
    return m.event;
}

/* The client releases a pipe that a kernel waits to use, and launches the kernel again. */
static void
test_released_in_use(void **state)
{
    struct test_scene *c = *state;
    const uint64_t pipe = put_pipe(c, CL_MEM_READ_WRITE, 4, 16);
    const uint64_t mems[] = {pipe, c->mem}, kernel = make_kernel(c, mems);
    const uint64_t first = launch(c, kernel);

    test_put(&c->s, TP_WIRE_RELEASE, &(struct tp_wire_release){TEST_IDS(pipe)});
    assert_int_equal(status_of(c, first), 0);
    assert_true(status_of(c, launch(c, kernel)) < 0);
    test_expect_alive(&c->s);
}

/* A buffer in place of a pipe, and no object at all. */
static void
test_other_arguments(void **state)
{
    struct test_scene *c = *state;
    const uint64_t buffers[] = {c->mem, c->mem};
    const uint64_t pipes[] = {put_pipe(c, CL_MEM_READ_WRITE, 64, 1),
                              put_pipe(c, CL_MEM_READ_WRITE, 4, 1)};

    assert_true(status_of(c, launch(c, make_kernel(c, buffers))) < 0);
    test_use_new_queue(c, 0);
    assert_true(status_of(c, launch(c, make_kernel(c, pipes))) < 0);
    test_expect_alive(&c->s);
}

static void
test_driver_without(void **state)
{
    struct test_scene *c = *state;

    assert_int_equal(fill(c, put_pipe(c, CL_MEM_READ_WRITE, 4, 16)),
                     CL_INVALID_OPERATION);
    test_expect_alive(&c->s);
}

#define WITH(open, test)                                                               \
    cmocka_unit_test_setup_teardown(test, open, test_close_driver_scene)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_pipes, test_sizes_and_flags), WITH(open_pipes, test_is_no_buffer),
        WITH(open_limited, test_size_limit),    WITH(open_pipes, test_released_in_use),
        WITH(open_pipes, test_other_arguments), WITH(open_none, test_driver_without),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
