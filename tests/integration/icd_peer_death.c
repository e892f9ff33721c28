/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server dies at some moment of a migration between two servers: before it is flushed, and
 * at moments up to its end. All events end in bounded time, content that is current elsewhere
 * survives, and the other server goes on. A lost session does not come back, so each case is a
 * process of its own with servers of its own.
 */
#include "world.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "servers.h"

enum { SIZE = 16 << 20, SMALL = 1 << 20, BOUND_S = 60 };

/* [us] after the flush; negative: before it */
static const int moments[] = {-1, 0, 300, 1000, 2500, 5000, 10000, 20000};
enum { MOMENTS = sizeof(moments) / sizeof(moments[0]) };

static int dying; /* 0: the server that has the content; 1: the one that it goes to */
static int moment;

/* A migration, a command on its content, and a marker on the first server after that. */
static void
put_migration(cl_mem moving, cl_mem copy, cl_event events[3])
{
    ok(clEnqueueMigrateMemObjects(both.queues[1], 1, &moving, 0, 0, NULL, &events[0]));
    ok(clEnqueueCopyBuffer(both.queues[1], moving, copy, 0, 0, SIZE, 0, NULL,
                           &events[1]));
    ok(clEnqueueMarkerWithWaitList(both.loose_queues[0], 1, &events[1], &events[2]));
}

static void
flush_all(void)
{
    for (int i = 0; i < 2; i++) {
        (void)clFlush(both.queues[i]); /* fails on the lost server */
        (void)clFlush(both.loose_queues[i]);
    }
}

/* @return whether the first succeeded, after all have ended */
static bool
await(const cl_event events[3])
{
    cl_int status[3];

    for (int i = 0; i < 3; i++) {
        (void)clWaitForEvents(1, &events[i]);
        ok(clGetEventInfo(events[i], CL_EVENT_COMMAND_EXECUTION_STATUS,
                          sizeof(status[i]), &status[i], NULL));
        assert_true(status[i] <= CL_COMPLETE);
        ok(clReleaseEvent(events[i]));
    }
    assert_true(status[0] == CL_COMPLETE || status[1] < 0); /* failures cascade */
    /* A server may tell the other that the copy has ended, and die before it tells the client. */
    assert_true(status[1] == CL_COMPLETE || status[2] < 0 ||
                (dying == 1 && moment >= 0));
    return status[0] == CL_COMPLETE;
}

static void
server_dies(void **state)
{
    int other = 1 - dying;
    uint8_t *model = pattern_new(SIZE, 1), *got = malloc(SIZE);
    cl_mem moving = buffer_new(&both, 0, SIZE, NULL);
    cl_mem copy = buffer_new(&both, 0, SIZE, NULL);
    cl_mem kept = buffer_new(&both, 0, SMALL, NULL);
    cl_event events[3];
    cl_int err;

    (void)state;
    ok(clEnqueueWriteBuffer(both.queues[0], moving, CL_TRUE, 0, SIZE, model, 0, NULL,
                            NULL));
    ok(clEnqueueWriteBuffer(both.queues[other], kept, CL_TRUE, 0, SMALL, model, 0, NULL,
                            NULL));
    ok(clFinish(both.queues[0]));
    ok(clFinish(both.queues[other]));
    put_migration(moving, copy, events);
    if (moment >= 0) {
        flush_all();
        usleep((useconds_t)moment);
    }
    assert_true(servers_kill_executors(&servers, (unsigned)dying) != 0);
    flush_all();
    if (!await(events)) {
        assert_int_equal(dying == 0 ? clFinish(both.queues[0]) != CL_SUCCESS : 1, 1);
    }
    if (dying == 1) {
        expect_content(both.queues[0], moving, model, SIZE);
    } else {
        err = clEnqueueReadBuffer(both.queues[1], moving, CL_TRUE, 0, SIZE, got, 0,
                                  NULL, NULL);
        assert_true(err != CL_SUCCESS || memcmp(got, model, SIZE) == 0);
    }
    expect_content(both.queues[other], kept, model, SMALL);
    ok(clEnqueueWriteBuffer(both.queues[other], moving, CL_TRUE, 0, SIZE, model, 0,
                            NULL, NULL));
    expect_content(both.queues[other], moving, model, SIZE);
    ok(clReleaseMemObject(moving));
    ok(clReleaseMemObject(copy));
    ok(clReleaseMemObject(kept));
    free(model);
    free(got);
}

static char **arguments; /* of main() */

static int
run_child(size_t i)
{
    const struct CMUnitTest test = cmocka_unit_test(server_dies);
    int status;

    dying = (int)i / MOMENTS;
    moment = moments[i % MOMENTS];
    status = worlds_run_test(&test, arguments, BOUND_S);
    if (status != 0 && status != 77) {
        printf("failed: server %d dies at %d us\n", dying, moment);
        (void)fflush(stdout);
    }
    return status;
}

int
main(int argc, char **argv)
{
    (void)argc;
    arguments = argv;
    return worlds_run_apart((size_t)2 * MOMENTS, run_child);
}
