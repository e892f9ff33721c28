/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes of a client that does not check: sizes, flags, and messages about buffers and images
 * that name a pipe. Besides, a driver without pipes.
 */
#include <CL/cl.h>
#include <stdio.h>
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
        WITH(open_pipes, test_sizes_and_flags),
        WITH(open_pipes, test_is_no_buffer),
        WITH(open_none, test_driver_without),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
