/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that arrive together, on a driver that starts commands at once (PoCL): the executor
 * enqueues all before the first may run, and lets them run in every case. The test driver has
 * PoCL's name.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/test/test_driver.h"

enum { FEW = 3, MANY = 100, HELD_MAX = 512 };

struct test_daemon the_daemon;

static int
open_pocl(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_NAME", "Portable Computing Language");
}

static int
open_other(void **state)
{
    return test_open_driver_scene(state, NULL, NULL);
}

static void
set_arg(struct test_scene *c, uint64_t kernel, uint32_t index, enum tp_wire_arg kind,
        const void *value, uint32_t size)
{
    test_put(&c->s, TP_WIRE_KERNEL_ARG,
             &(struct tp_wire_kernel_arg){.kernel = kernel,
                                          .index = index,
                                          .kind = (uint8_t)kind,
                                          .size = size,
                                          .value = {size, value}});
}

/* A kernel that adds 1 to the first element of the buffer, which is 0. */
static uint64_t
make_kernel(struct test_scene *c)
{
    static const char text[] = "kernel void inc(global int *x, int v)";
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
        .name = TEST_TEXT("inc")};
    const int one = 1;
    struct tp_wire_build_reply reply;

    test_put(&c->s, TP_WIRE_PROGRAM_SOURCE, &source);
    test_put(&c->s, TP_WIRE_PROGRAM_BUILD, &build);
    test_expect(&c->s, TP_WIRE_BUILD_REPLY, &reply);
    test_put(&c->s, TP_WIRE_KERNEL_CREATE, &kernel);
    set_arg(c, kernel.kernel, 0, TP_WIRE_ARG_MEM, &c->mem, sizeof(c->mem));
    set_arg(c, kernel.kernel, 1, TP_WIRE_ARG_VALUE, &one, sizeof(one));
    memset(c->memory, 0, sizeof(int));
    test_write_whole(c, 0, sizeof(int));
    return kernel.kernel;
}

/* @param event  0: none, so that nothing says when it ends */
static void
launch(struct test_scene *c, uint64_t kernel, uint64_t event)
{
    test_put(&c->s, TP_WIRE_LAUNCH,
             &(struct tp_wire_launch){.event = event,
                                      .queue = c->queue,
                                      .kernel = kernel,
                                      .flags = event != 0 ? TP_WIRE_NOTIFY : 0,
                                      .dims = 1,
                                      .sizes = TEST_IDS(0, 1)});
}

/* Puts launches that leave together with what follows. @return the event of the last one */
static uint64_t
put_launches(struct test_scene *c, uint64_t kernel, int count)
{
    const uint64_t event = test_id(&c->s, TP_WIRE_KIND_EVENT);

    test_flush(&c->s);
    for (int i = 0; i < count; i++) {
        launch(c, kernel, i == count - 1 ? event : 0);
    }
    return event;
}

static void
expect_sum(struct test_scene *c, int sum)
{
    int got;

    test_read_whole(c, 0, sizeof(got));
    memcpy(&got, c->memory, sizeof(got));
    assert_int_equal(got, sum);
}

/* The batches in the driver's log: their number, and launches in the shortest and longest. */
struct batches {
    int count, least, most;
};

static struct batches
find_batches(void)
{
    struct batches b = {0, HELD_MAX + 1, 0};
    FILE *log = test_driver_log();
    int launches = 0;
    char line[256];

    while (fgets(line, sizeof(line), log) != NULL) {
        if (strncmp(line, "clCreateUserEvent ", 18) == 0) {
            launches = 0;
        } else if (strncmp(line, "clEnqueueNDRangeKernel ", 23) == 0) {
            launches++;
        } else if (strncmp(line, "clSetUserEventStatus ", 21) == 0) {
            b.count++;
            b.least = launches < b.least ? launches : b.least;
            b.most = launches > b.most ? launches : b.most;
        }
    }
    (void)fclose(log);
    return b;
}

/* ---- tests ---- */

static void
test_many_start_together(void **state)
{
    struct test_scene *c = *state;
    struct batches b;

    test_expect_success(c, put_launches(c, make_kernel(c), MANY));
    b = find_batches();
    assert_true(b.count >= 1);
    assert_true(b.least >= FEW);
    assert_int_equal(test_driver_calls("clCreateUserEvent"), b.count);
    expect_sum(c, MANY);
}

/* More than may wait: the driver gets them in parts. */
static void
test_very_many(void **state)
{
    struct test_scene *c = *state;
    struct batches b;

    test_expect_success(c, put_launches(c, make_kernel(c), 3 * HELD_MAX));
    b = find_batches();
    assert_true(b.count >= 3);
    assert_true(b.most <= HELD_MAX);
    expect_sum(c, 3 * HELD_MAX);
}

static void
test_few_start_at_once(void **state)
{
    struct test_scene *c = *state;

    test_expect_success(c, put_launches(c, make_kernel(c), FEW));
    assert_int_equal(test_driver_calls("clCreateUserEvent"), 0);
    expect_sum(c, FEW);
}

static void
test_out_of_order(void **state)
{
    struct test_scene *c = *state;
    const uint64_t kernel = make_kernel(c);

    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    test_expect_success(c, put_launches(c, kernel, MANY));
    assert_int_equal(test_driver_calls("clCreateUserEvent"), 0);
}

static void
test_other_driver(void **state)
{
    struct test_scene *c = *state;

    test_expect_success(c, put_launches(c, make_kernel(c), MANY));
    assert_int_equal(test_driver_calls("clCreateUserEvent"), 0);
    expect_sum(c, MANY);
}

/* A barrier between launches, whose call might wait for those before it, finds them started. */
static void
test_other_command_between(void **state)
{
    struct test_scene *c = *state;
    const uint64_t kernel = make_kernel(c), first = put_launches(c, kernel, MANY);
    struct tp_wire_barrier barrier = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                      .queue = c->queue,
                                      .flags = TP_WIRE_NOTIFY};
    FILE *log;
    int held = 0;
    char line[256];

    test_put(&c->s, TP_WIRE_BARRIER, &barrier);
    for (int i = 0; i < MANY; i++) {
        launch(c, kernel, 0);
    }
    test_expect_success(c, first);
    test_expect_success(c, barrier.event);
    expect_sum(c, 2 * MANY);
    log = test_driver_log();
    while (fgets(line, sizeof(line), log) != NULL) {
        held += strncmp(line, "clCreateUserEvent ", 18) == 0;
        held -= strncmp(line, "clSetUserEventStatus ", 21) == 0;
        if (strncmp(line, "clEnqueueBarrierWithWaitList ", 29) == 0) {
            assert_int_equal(held, 0);
        }
    }
    (void)fclose(log);
}

/* The queue is released, and another one waits for its launches, in the same batch. */
static void
test_queue_released(void **state)
{
    struct test_scene *c = *state;
    const uint64_t kernel = make_kernel(c), event = put_launches(c, kernel, MANY);
    struct tp_wire_marker marker = {.flags = TP_WIRE_NOTIFY, .wait = {1, &event}};

    test_release(c, c->queue);
    test_use_new_queue(c, 0);
    marker.queue = c->queue;
    marker.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    test_put(&c->s, TP_WIRE_MARKER, &marker);
    test_expect_success(c, event);
    test_expect_success(c, marker.event);
    expect_sum(c, MANY);
}

/* The first launch of a batch fails when it is enqueued; the others run. */
static void
test_first_fails(void **state)
{
    struct test_scene *c = *state;
    const uint64_t kernel = make_kernel(c), bad = test_id(&c->s, TP_WIRE_KIND_EVENT);
    struct tp_wire_done done;
    uint64_t event;

    test_flush(&c->s);
    test_put(&c->s, TP_WIRE_LAUNCH,
             &(struct tp_wire_launch){.event = bad,
                                      .queue = c->queue,
                                      .kernel = kernel,
                                      .flags = TP_WIRE_NOTIFY,
                                      .dims = 1,
                                      .sizes = TEST_IDS(0, 3, 2)}); /* 3 % 2 != 0 */
    for (int i = 0; i < MANY; i++) {
        launch(c, kernel, 0);
    }
    event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    launch(c, kernel, event);
    test_expect_done(&c->s, bad, &done);
    assert_true(done.status < 0);
    test_expect_success(c, event);
    expect_sum(c, MANY + 1);
}

/* The client leaves in the middle of a batch; the teardown sees the executor end. */
static void
test_client_leaves(void **state)
{
    struct test_scene *c = *state;
    const struct tp_wire_close m = {0};

    (void)put_launches(c, make_kernel(c), MANY);
    test_put(&c->s, TP_WIRE_CLOSE, &m);
    test_flush(&c->s);
}

#define POCL(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, open_pocl, test_close_driver_scene)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        POCL(test_many_start_together),
        POCL(test_very_many),
        POCL(test_few_start_at_once),
        POCL(test_out_of_order),
        cmocka_unit_test_setup_teardown(test_other_driver, open_other,
                                        test_close_driver_scene),
        POCL(test_other_command_between),
        POCL(test_queue_released),
        POCL(test_first_fails),
        POCL(test_client_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
