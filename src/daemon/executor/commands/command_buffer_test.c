/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command buffers over the protocol alone: what one that means harm may try. Skipped where
 * the first device has no cl_khr_command_buffer.
 */
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/test/test_session.h"

static struct test_daemon the_daemon;

struct scene {
    struct test_session s;
    uint64_t context, queue, mem, commands;
};

static void
open_scene(struct scene *c)
{
    struct tp_wire_context_create context = {.devices = TEST_IDS(0)};
    struct tp_wire_queue_create queue = {.device = 0};
    struct tp_wire_buffer_create mem = {.flags = CL_MEM_READ_WRITE, .size = 64};

    test_session_open(&c->s, &the_daemon);
    test_session_start(&c->s);
    c->context = context.context = queue.context = mem.context =
        test_id(&c->s, TP_WIRE_KIND_CONTEXT);
    c->queue = queue.queue = test_id(&c->s, TP_WIRE_KIND_QUEUE);
    c->mem = mem.mem = test_id(&c->s, TP_WIRE_KIND_MEM);
    test_put(&c->s, TP_WIRE_CONTEXT_CREATE, &context);
    test_put(&c->s, TP_WIRE_QUEUE_CREATE, &queue);
    test_put(&c->s, TP_WIRE_BUFFER_CREATE, &mem);
}

static void
close_scene(struct scene *c)
{
    test_session_close(&c->s);
    test_daemon_wait_children(&the_daemon, 0);
}

static void
make(struct scene *c, uint64_t queue, uint64_t flags)
{
    struct tp_wire_commands_create m = {.queue = queue, .flags = flags};

    c->commands = m.commands = test_id(&c->s, TP_WIRE_KIND_COMMANDS);
    test_put(&c->s, TP_WIRE_COMMANDS_CREATE, &m);
}

/* RECORD of a message, its last bytes cut off or not. */
static void
put_record(struct scene *c, uint32_t type, const void *msg, size_t cut)
{
    const struct tp_wire_message *row = tp_wire_message((uint16_t)type);
    uint8_t body[512];
    struct tp_wire_record m = {.commands = c->commands, .type = type};

    assert_true(row->size(msg) <= sizeof(body));
    row->put(body, msg);
    m.body = (struct tp_wire_bytes){(uint32_t)(row->size(msg) - cut), body};
    test_put(&c->s, TP_WIRE_RECORD, &m);
}

static void
put_fill(struct scene *c, uint64_t mem, uint64_t offset,
         const struct tp_wire_u64s *wait)
{
    struct tp_wire_fill m = {.queue = c->queue,
                             .mem = mem,
                             .offset = offset,
                             .size = 64,
                             .pattern = TEST_TEXT("abcd")};

    if (wait != NULL) {
        m.wait = *wait;
    }
    put_record(c, TP_WIRE_FILL, &m, 0);
}

static void
finalize(struct scene *c)
{
    struct tp_wire_commands_finalize m = {.commands = c->commands};

    test_put(&c->s, TP_WIRE_COMMANDS_FINALIZE, &m);
}

/* @return status of an enqueue of the command buffer */
static int32_t
enqueue(struct scene *c, uint64_t commands)
{
    struct tp_wire_commands_enqueue m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                         .queue = c->queue,
                                         .commands = commands,
                                         .flags = TP_WIRE_NOTIFY};
    struct tp_wire_done done;

    test_put(&c->s, TP_WIRE_COMMANDS_ENQUEUE, &m);
    test_expect_done(&c->s, m.event, &done);
    return done.status;
}

static void
release(struct scene *c, uint64_t id)
{
    struct tp_wire_release m = {.ids = TEST_IDS(id)};

    test_put(&c->s, TP_WIRE_RELEASE, &m);
}

/* The driver's objects are kept while the command buffer lives, whatever is released. */
static void
test_released_too_early(void **state)
{
    struct scene c;

    (void)state;
    open_scene(&c);
    make(&c, c.queue, 1);
    put_fill(&c, c.mem, 0, NULL);
    finalize(&c);
    release(&c, c.mem);
    release(&c, c.context);
    assert_int_equal(enqueue(&c, c.commands), CL_SUCCESS);
    assert_int_equal(enqueue(&c, c.commands), CL_SUCCESS);
    release(&c, c.commands);
    assert_int_equal(enqueue(&c, c.commands), CL_INVALID_COMMAND_BUFFER_KHR);
    close_scene(&c);
}

/* Images that are none, and one that is, beside what does not fit it. */
static void
test_images_are_checked(void **state)
{
    struct tp_wire_image_create image = {.flags = CL_MEM_READ_WRITE,
                                         .image_type = CL_MEM_OBJECT_IMAGE2D,
                                         .channel_order = CL_RGBA,
                                         .channel_type = CL_UNSIGNED_INT8,
                                         .width = 4,
                                         .height = 4};
    struct tp_wire_fill_image fill = {.region = TEST_IDS(0, 0, 0, 4, 4, 1),
                                      .colour = {16, "0123456789abcdef"}};
    struct tp_wire_copy_image copy = {.region = TEST_IDS(0, 0, 0, 1, 0, 0, 4, 4, 1)};
    struct tp_wire_copy_image_to_buffer out = {.region = TEST_IDS(0, 0, 0, 4, 4, 1)};
    struct tp_wire_copy_buffer_to_image in = {.offset = UINT64_MAX,
                                              .region = TEST_IDS(0, 0, 0, 4, 4, 1)};
    struct scene c;

    (void)state;
    open_scene(&c);
    image.mem = test_id(&c.s, TP_WIRE_KIND_MEM);
    image.context = c.context;
    test_put(&c.s, TP_WIRE_IMAGE_CREATE, &image);
    fill.queue = copy.queue = out.queue = in.queue = c.queue;
    for (int i = 0; i < 6; i++) {
        fill.mem = i == 0 ? c.mem : image.mem;
        copy.src = image.mem;
        copy.dst = i == 1 ? c.queue : image.mem; /* the region leaves it */
        out.src = in.dst = image.mem;
        out.dst = i == 3 ? image.mem : c.mem;
        in.src = c.mem;
        make(&c, c.queue, 0);
        switch (i) {
        case 1:
        case 2:
            put_record(&c, TP_WIRE_COPY_IMAGE, &copy, 0);
            break;
        case 3:
            put_record(&c, TP_WIRE_COPY_IMAGE_TO_BUFFER, &out, 0);
            break;
        case 4:
            put_record(&c, TP_WIRE_COPY_BUFFER_TO_IMAGE, &in, 0);
            break;
        default:
            put_record(&c, TP_WIRE_FILL_IMAGE, &fill, 0);
            break;
        }
        finalize(&c);
        assert_int_equal(enqueue(&c, c.commands), i == 5 ? CL_SUCCESS
                                                  : i == 2 || i == 4
                                                      ? CL_INVALID_VALUE
                                                      : CL_INVALID_MEM_OBJECT);
    }
    close_scene(&c);
}

static void
test_errors_poison(void **state)
{
    const struct tp_wire_u64s future = TEST_IDS(5), none = TEST_IDS(0),
                              far = TEST_IDS(UINT64_MAX);
    struct scene c;

    (void)state;
    open_scene(&c);
    assert_int_equal(enqueue(&c, c.mem), CL_INVALID_COMMAND_BUFFER_KHR);
    make(&c, c.mem, 0); /* no queue */
    assert_int_equal(enqueue(&c, c.commands), CL_INVALID_COMMAND_QUEUE);
    make(&c, c.queue, 0xf0);
    assert_int_equal(enqueue(&c, c.commands), CL_INVALID_VALUE);
    make(&c, c.queue, 0); /* not finalized */
    assert_int_equal(enqueue(&c, c.commands), CL_INVALID_OPERATION);
    make(&c, c.queue, 0);
    put_fill(&c, c.queue, 0, NULL); /* no buffer */
    finalize(&c);
    assert_int_equal(enqueue(&c, c.commands), CL_INVALID_MEM_OBJECT);
    make(&c, c.queue, 0);
    put_fill(&c, c.mem, 60, NULL); /* behind the end */
    finalize(&c);
    assert_true(enqueue(&c, c.commands) < 0);
    for (int i = 0; i < 3; i++) {
        make(&c, c.queue, 0);
        put_fill(&c, c.mem, 0, i == 0 ? &future : i == 1 ? &none : &far);
        finalize(&c);
        assert_int_equal(enqueue(&c, c.commands), CL_INVALID_SYNC_POINT_WAIT_LIST_KHR);
    }
    make(&c, c.queue, 0); /* recorded behind its end */
    finalize(&c);
    put_fill(&c, c.mem, 0, NULL);
    assert_int_equal(enqueue(&c, c.commands), CL_INVALID_OPERATION);
    make(&c, c.queue, 0);
    put_fill(&c, c.mem, 0, NULL);
    finalize(&c);
    assert_int_equal(enqueue(&c, c.commands), CL_SUCCESS);
    close_scene(&c);
}

/* A malformed frame ends its session, and no other. */
static void
test_malformed_ends_the_session(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct scene c;
        struct tp_wire_fill_image fill_image = {.region = TEST_IDS(0, 0, 0, 1, 1, 1)};
        struct tp_wire_copy_image copy_image = {.region = TEST_IDS(0, 0, 0)};
        struct tp_wire_copy_image_to_buffer out = {.region = TEST_IDS(0)};
        struct tp_wire_fill fill = {.pattern = TEST_TEXT("abc")};
        struct tp_wire_barrier barrier = {0};
        struct tp_wire_launch launch = {.dims = 9};
        struct tp_wire_copy copy = {.rect = TEST_IDS(1, 2, 3)};
        struct tp_wire_marker marker = {0};

        open_scene(&c);
        make(&c, c.queue, 0);
        fill.queue = barrier.queue = launch.queue = copy.queue = c.queue;
        barrier.event = i == 4 ? test_id(&c.s, TP_WIRE_KIND_EVENT) : 0;
        barrier.flags = i == 5;
        switch (i) {
        case 0:
            put_record(&c, TP_WIRE_FILL, &fill, 0); /* a pattern of three bytes */
            break;
        case 1:
            put_record(&c, TP_WIRE_LAUNCH, &launch, 0);
            break;
        case 2:
            put_record(&c, TP_WIRE_COPY, &copy, 0);
            break;
        case 3:
            put_record(&c, TP_WIRE_MARKER, &marker, 0); /* cannot be recorded */
            break;
        case 7:
            put_record(&c, TP_WIRE_FILL_IMAGE, &fill_image, 0); /* no colour */
            break;
        case 8:
            put_record(&c, TP_WIRE_COPY_IMAGE, &copy_image, 0);
            break;
        case 9:
            put_record(&c, TP_WIRE_COPY_IMAGE_TO_BUFFER, &out, 0);
            break;
        default:
            put_record(&c, TP_WIRE_BARRIER, &barrier, i == 6 ? 1 : 0);
            break;
        }
        test_flush(&c.s);
        assert_int_not_equal(test_expect_end(&c.s), TELPHER_OK);
        close_scene(&c);
    }
}

/* Recorded commands count as objects, so that no client can fill the server's memory. */
static void
test_recording_is_bounded(void **state)
{
    const char *const options[] = {"--max-objects", "1000", NULL};
    struct test_daemon usual = the_daemon;
    struct scene c;

    (void)state;
    test_daemon_start(&the_daemon, options);
    open_scene(&c);
    make(&c, c.queue, 0);
    for (int i = 0; i < 2000; i++) {
        put_fill(&c, c.mem, 0, NULL);
    }
    test_flush(&c.s);
    assert_int_not_equal(test_expect_end(&c.s), TELPHER_OK);
    close_scene(&c);
    test_daemon_stop(&the_daemon);
    the_daemon = usual;
}

static bool
is_commands(const struct tp_wire_fact *f)
{
    return f->kind == TP_WIRE_FACT_DEVICE && f->index == 0 &&
           f->param == CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR &&
           f->error == CL_SUCCESS;
}

static int
start_daemon(void **state)
{
    *state = &the_daemon;
    test_daemon_start(&the_daemon, NULL);
    test_daemon_need(&the_daemon, is_commands, "a driver with cl_khr_command_buffer");
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released_too_early),
        cmocka_unit_test(test_errors_poison),
        cmocka_unit_test(test_images_are_checked),
        cmocka_unit_test(test_malformed_ends_the_session),
        cmocka_unit_test(test_recording_is_bounded),
    };

    return cmocka_run_group_tests(tests, start_daemon, test_daemon_teardown);
}
