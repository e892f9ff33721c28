/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content moves to another server while an earlier move waits for a user event that the program
 * sets later, or that fails. A move that stands still is ended by an alarm.
 */
#include <unistd.h>

#include "world.h"

enum { LIMIT_S = 60, SMALL = 4096, LARGE = 3 << 20 };

/** A buffer and its copy, made on the other server. */
struct pair {
    cl_mem from, to;
    cl_event copied;
};

static void
fill(cl_command_queue q, struct pair *p, size_t size, cl_event wait,
     cl_event *ret_event)
{
    const cl_uint value = 0x01020304;

    p->from = buffer_new(&both, 0, size, NULL);
    p->to = buffer_new(&both, 0, size, NULL);
    ok(clEnqueueFillBuffer(q, p->from, &value, sizeof(value), 0, size, wait != NULL,
                           wait != NULL ? &wait : NULL, ret_event));
    ok(clFlush(q));
}

static void
copy(cl_command_queue q, struct pair *p, size_t size, cl_event wait)
{
    ok(clEnqueueCopyBuffer(q, p->from, p->to, 0, 0, size, wait != NULL,
                           wait != NULL ? &wait : NULL, &p->copied));
    ok(clFlush(q));
}

static cl_int
status_of(cl_event event)
{
    cl_int status = CL_QUEUED;

    ok(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
                      NULL));
    return status;
}

static void
pair_free(struct pair *p)
{
    ok(clReleaseEvent(p->copied));
    ok(clReleaseMemObject(p->to));
    ok(clReleaseMemObject(p->from));
}

/** Queues of the first and the second server: a pair that waits and one that does not. */
static void
pass(size_t size, cl_int end)
{
    struct pair waits, goes;
    cl_event user, filled;
    cl_command_queue own[2];
    cl_int err;

    for (unsigned i = 0; i < 2; i++) {
        own[i] = clCreateCommandQueue(both.ctx, both.devices[i], 0, &err);
        ok(err);
    }
    fill(own[0], &goes, size, NULL, NULL);
    ok(clFinish(own[0]));
    user = clCreateUserEvent(both.ctx, &err);
    ok(err);
    fill(both.queues[0], &waits, size, user, &filled);
    copy(both.queues[1], &waits, size, filled);
    copy(own[1], &goes, size, NULL);
    ok(clWaitForEvents(1, &goes.copied)); /* before the user event is set */
    ok(clSetUserEventStatus(user, end));
    (void)clWaitForEvents(1, &waits.copied);
    assert_int_equal(status_of(waits.copied) < 0, end < 0);
    assert_int_equal(status_of(goes.copied), CL_COMPLETE);
    ok(clReleaseEvent(user));
    ok(clReleaseEvent(filled));
    pair_free(&waits);
    pair_free(&goes);
    for (unsigned i = 0; i < 2; i++) {
        ok(clReleaseCommandQueue(own[i]));
    }
}

static void
a_move_passes_one_that_waits(void **state)
{
    (void)state;
    pass(SMALL, CL_COMPLETE);
    pass(LARGE, CL_COMPLETE);
}

static void
a_move_passes_one_that_fails(void **state)
{
    (void)state;
    pass(SMALL, -5);
    pass(LARGE, -5);
}

static int
run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_passes_one_that_waits),
        cmocka_unit_test(a_move_passes_one_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int
main(int argc, char **argv)
{
    alarm(LIMIT_S);
    return worlds_run(argc, argv, run_all);
}
