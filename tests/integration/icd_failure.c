/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that fail with a user event, while something else that they wait for is under
 * way: others go on. PoCL 3.1 ends the process of a program that does natively what is done
 * here (src/daemon/executor/held_events.c says why). What goes wrong stands still: an alarm ends it.
 */
#include <unistd.h>

#include "world.h"

enum {
    LIMIT_S = 200,
    LARGE = 3 << 20, /* [bytes] moved in chunks */
    LONG = 20000000, /* steps of a kernel: some tens of milliseconds */
    KEPT_S = 4, /* an executor's watchdog has looked more than twice */
};

static const char *source = "kernel void turn(global volatile int *x, int steps)"
                            "{ for (int i = 0; i < steps; i++) x[0] = x[0] * 3 + 1; }"
                            "kernel void nothing(int steps) {}";
static cl_program program;

/** A queue, user events, and a buffer that kernels take their time with. */
struct scene {
    cl_command_queue q;
    cl_event gates[2];
    cl_kernel turn, nothing;
    cl_mem mem;
    uint8_t *host;
};

static void
scene_init(struct scene *s, cl_command_queue_properties properties)
{
    cl_int err, steps = LONG;

    s->q = clCreateCommandQueue(one.ctx, one.devices[0], properties, &err);
    ok(err);
    s->host = calloc(1, LARGE);
    s->mem = buffer_new(&one, CL_MEM_COPY_HOST_PTR, LARGE, s->host);
    s->turn = clCreateKernel(program, "turn", &err);
    ok(err);
    s->nothing = clCreateKernel(program, "nothing", &err);
    ok(err);
    ok(clSetKernelArg(s->turn, 0, sizeof(s->mem), &s->mem));
    ok(clSetKernelArg(s->turn, 1, sizeof(steps), &steps));
    ok(clSetKernelArg(s->nothing, 0, sizeof(steps), &steps));
    for (int i = 0; i < 2; i++) {
        s->gates[i] = clCreateUserEvent(one.ctx, &err);
        ok(err);
    }
}

/** Everything of the server has ended well or not, and it still serves. */
static void
scene_fini(struct scene *s)
{
    uint8_t *model = pattern_new(LARGE, 1);
    cl_mem other = buffer_new(&one, CL_MEM_COPY_HOST_PTR, LARGE, model);

    (void)clFinish(s->q);
    expect_content(one.queues[0], other, model, LARGE);
    ok(clEnqueueWriteBuffer(s->q, other, CL_TRUE, 0, LARGE, model, 0, NULL, NULL));
    expect_content(s->q, other, model, LARGE);
    for (int i = 0; i < 2; i++) {
        ok(clReleaseEvent(s->gates[i]));
    }
    ok(clReleaseMemObject(other));
    ok(clReleaseKernel(s->turn));
    ok(clReleaseKernel(s->nothing));
    ok(clReleaseMemObject(s->mem));
    ok(clReleaseCommandQueue(s->q));
    free(s->host);
    free(model);
}

static void
launch(cl_command_queue q, cl_kernel kernel, int count)
{
    const size_t global = 1;

    while (count-- > 0) {
        ok(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    }
    ok(clFlush(q));
}

/** Waits for a command to fail, and forgets it. */
static void
expect_failure(cl_event ev)
{
    assert_int_equal(clWaitForEvents(1, &ev),
                     CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    ok(clReleaseEvent(ev));
}

/** Gives the server time to let go of what failed, wrongly: nothing takes its place. */
static void
let_it_go(struct scene *s)
{
    expect_content(one.queues[0], s->mem, s->host,
                   LARGE); /* takes the releases along */
    (void)sleep(KEPT_S);
}

/** Of two user events that a command waits for the second one ends long after it failed. */
static void
failed_long_before_the_rest_ends(void **state)
{
    struct scene s;
    cl_event done[2];

    (void)state;
    scene_init(&s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    ok(clEnqueueMarkerWithWaitList(s.q, 2, s.gates, &done[0]));
    ok(clEnqueueBarrierWithWaitList(s.q, 2, s.gates, NULL));
    ok(clEnqueueReadBuffer(s.q, s.mem, CL_FALSE, 0, LARGE, s.host, 2, s.gates,
                           &done[1]));
    ok(clFlush(s.q));
    ok(clSetUserEventStatus(s.gates[0], -7));
    expect_failure(done[0]);
    expect_failure(done[1]);
    let_it_go(&s);
    ok(clSetUserEventStatus(s.gates[1], CL_COMPLETE));
    scene_fini(&s);
}

/** Each read has a user event; that of the last one fails first. */
static void
reads_fail_beside_each_other(void **state)
{
    struct scene s;
    cl_event done[2];

    (void)state;
    scene_init(&s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    for (int i = 0; i < 2; i++) {
        ok(clEnqueueReadBuffer(s.q, s.mem, CL_FALSE, 0, LARGE, s.host, 1, &s.gates[i],
                               &done[i]));
    }
    ok(clFlush(s.q));
    ok(clSetUserEventStatus(s.gates[1], -7));
    expect_failure(done[1]);
    let_it_go(&s);
    ok(clSetUserEventStatus(s.gates[0], CL_COMPLETE));
    ok(clWaitForEvents(1, &done[0]));
    ok(clReleaseEvent(done[0]));
    scene_fini(&s);
}

/** Launches that nobody asks about, behind what fails. */
static void
launches_without_events_fail(void **state)
{
    struct scene s;
    cl_event done;

    (void)state;
    scene_init(&s, 0);
    ok(clEnqueueMarkerWithWaitList(s.q, 1, &s.gates[0], NULL));
    launch(s.q, s.nothing, 60);
    launch(s.q, s.turn, 60);
    ok(clEnqueueMarkerWithWaitList(s.q, 0, NULL, &done));
    ok(clFlush(s.q));
    ok(clSetUserEventStatus(s.gates[0], -7));
    expect_failure(done);
    ok(clSetUserEventStatus(s.gates[1], CL_COMPLETE));
    scene_fini(&s);
}

/** A command fails while launches before it run that nobody asks about. */
static void
fails_while_launches_run(void **state)
{
    struct scene s;
    cl_event done[3];

    (void)state;
    scene_init(&s, 0);
    launch(s.q, s.turn, 20);
    ok(clEnqueueMarkerWithWaitList(s.q, 1, &s.gates[0], &done[0]));
    ok(clEnqueueReadBuffer(s.q, s.mem, CL_FALSE, 0, LARGE, s.host, 1, &s.gates[0],
                           &done[1]));
    ok(clEnqueueWriteBuffer(s.q, s.mem, CL_FALSE, 0, LARGE, s.host, 1, &s.gates[1],
                            &done[2]));
    ok(clFlush(s.q));
    ok(clSetUserEventStatus(s.gates[0], -7));
    expect_failure(done[0]);
    expect_failure(done[1]);
    expect_failure(done[2]);
    ok(clSetUserEventStatus(s.gates[1], CL_COMPLETE));
    scene_fini(&s);
}

/** One that is never set, and let go. */
static void
user_event_that_nobody_sets(void **state)
{
    struct scene s;
    cl_event done, never;
    cl_int err;

    (void)state;
    scene_init(&s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    never = clCreateUserEvent(one.ctx, &err);
    ok(err);
    ok(clReleaseEvent(never));
    ok(clEnqueueMarkerWithWaitList(s.q, 2, s.gates, &done));
    ok(clFlush(s.q));
    ok(clSetUserEventStatus(s.gates[1], -7));
    expect_failure(done);
    ok(clSetUserEventStatus(s.gates[0], CL_COMPLETE));
    scene_fini(&s);
}

/** A buffer migrates to the host after the last command that wrote it has failed. */
static void
failed_before_migration(void **state)
{
    struct scene s;
    cl_event done[2];
    uint8_t zero = 0;

    (void)state;
    scene_init(&s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    ok(clEnqueueFillBuffer(s.q, s.mem, &zero, 1, 0, LARGE, 0, NULL, NULL));
    ok(clFinish(s.q)); /* the device has the latest content */
    ok(clEnqueueFillBuffer(s.q, s.mem, &zero, 1, 0, LARGE, 1, s.gates, &done[0]));
    ok(clFlush(s.q));
    ok(clSetUserEventStatus(s.gates[0], -7));
    expect_failure(done[0]);
    ok(clEnqueueMigrateMemObjects(s.q, 1, &s.mem, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL,
                                  &done[1]));
    ok(clWaitForEvents(1, &done[1]));
    ok(clReleaseEvent(done[1]));
    ok(clSetUserEventStatus(s.gates[1], CL_COMPLETE));
    scene_fini(&s);
}

static int
program_new(void **state)
{
    cl_int err;

    (void)state;
    program = clCreateProgramWithSource(one.ctx, 1, &source, NULL, &err);
    return err == CL_SUCCESS ? clBuildProgram(program, 1, one.devices, NULL, NULL, NULL)
                             : err;
}

static int
program_end(void **state)
{
    (void)state;
    return clReleaseProgram(program);
}

static int
run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_long_before_the_rest_ends),
        cmocka_unit_test(reads_fail_beside_each_other),
        cmocka_unit_test(launches_without_events_fail),
        cmocka_unit_test(fails_while_launches_run),
        cmocka_unit_test(user_event_that_nobody_sets),
        cmocka_unit_test(failed_before_migration),
    };

    return cmocka_run_group_tests_name("failure", tests, program_new, program_end);
}

int
main(int argc, char **argv)
{
    alarm(LIMIT_S);
    (void)setenv("MALLOC_PERTURB_", "165", 1); /* what is freed must not look alive */
    return worlds_run(argc, argv, run_all);
}
