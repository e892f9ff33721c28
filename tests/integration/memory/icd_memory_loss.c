/* SPDX-License-Identifier: Apache-2.0 */
/*
 * icd_memory: what is left when one of two servers loses its session. Runs last: the
 * context over both servers has lost one of them afterwards.
 */
#include "icd_memory.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "servers.h"

enum { SIZE = 4 << 20 };

static double
now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/** Commands under way over both servers end with an error, in bounded time. */
static void
expect_failure(const cl_event *events, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        cl_int status = 1;

        assert_int_equal(clWaitForEvents(1, &events[i]),
                         CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        ok(clGetEventInfo(events[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                          &status, NULL));
        assert_true(status < 0);
        ok(clReleaseEvent(events[i]));
    }
}

static void
one_server_is_lost(void **state)
{
    uint8_t *model = pattern_new(SIZE, 1), *got = malloc(SIZE);
    cl_mem there = buffer_new(&both, 0, SIZE, NULL); /* only on the lost server */
    cl_mem moving = buffer_new(&both, 0, SIZE, NULL); /* on its way from there */
    cl_mem shared = buffer_new(&both, CL_MEM_COPY_HOST_PTR, SIZE, model);
    cl_mem here = buffer_new(&both, 0, SIZE, NULL);
    double start = now_s();
    cl_event gate, waiting[3];
    cl_int err;

    (void)state;
    ok(clEnqueueWriteBuffer(both.queues[1], there, CL_TRUE, 0, SIZE, model, 0, NULL,
                            NULL));
    ok(clEnqueueWriteBuffer(both.queues[0], here, CL_TRUE, 0, SIZE, model, 0, NULL,
                            NULL));
    expect_content(both.queues[0], shared, model, SIZE);
    expect_content(both.queues[1], shared, model, SIZE);
    gate = clCreateUserEvent(both.ctx, &err);
    ok(err);
    ok(clEnqueueWriteBuffer(both.queues[1], moving, CL_FALSE, 0, SIZE, model, 1, &gate,
                            &waiting[0]));
    ok(clEnqueueReadBuffer(both.queues[0], moving, CL_FALSE, 0, SIZE, got, 0, NULL,
                           &waiting[1]));
    ok(clEnqueueMarkerWithWaitList(both.loose_queues[0], 1, &waiting[0], &waiting[2]));
    ok(clFlush(both.queues[0]));
    ok(clFlush(both.loose_queues[0]));
    ok(clFlush(both.queues[1]));

    assert_true(servers_kill_executors(&servers, 1) != 0);
    expect_failure(waiting, 3);
    ok(clSetUserEventStatus(gate, CL_COMPLETE));
    assert_true(clFinish(both.queues[1]) != CL_SUCCESS);
    assert_true(clEnqueueReadBuffer(both.queues[1], shared, CL_TRUE, 0, SIZE, got, 0,
                                    NULL, NULL) != CL_SUCCESS);
    assert_true(clEnqueueReadBuffer(both.queues[0], there, CL_TRUE, 0, SIZE, got, 0,
                                    NULL, NULL) != CL_SUCCESS);

    /* Buffers with a copy here survive, and a lost one is valid again after a write. */
    expect_content(both.queues[0], shared, model, SIZE);
    expect_content(both.queues[0], here, model, SIZE);
    ok(clEnqueueWriteBuffer(both.queues[0], there, CL_TRUE, 0, SIZE, model, 0, NULL,
                            NULL));
    expect_content(both.queues[0], there, model, SIZE);
    assert_true(now_s() - start < 10);
    ok(clReleaseEvent(gate));
    ok(clReleaseMemObject(there));
    ok(clReleaseMemObject(moving));
    ok(clReleaseMemObject(shared));
    ok(clReleaseMemObject(here));
    free(model);
    free(got);
}

const struct CMUnitTest loss_tests[] = {
    cmocka_unit_test(one_server_is_lost),
};
const size_t loss_test_count = sizeof(loss_tests) / sizeof(loss_tests[0]);
