/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server dies under a program with copies on a second server: states of the program in which a
 * command that ran twice, or half, would show. Effects that cannot be repeated give an error or
 * end the copies. Each case is a process with servers of its own.
 */
#include "world.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "servers.h"

enum { COUNT = 4096, HALF = COUNT / 2, BOUND_S = 60, SLOW_ROUNDS = 200000000 };

static const char source[] =
    "__kernel void add(__global int *x, int first, int by) {\n"
    "  x[first + get_global_id(0)] += by;\n"
    "}\n"
    "__kernel void say(__global int *x) { printf(\"said\\n\"); x[0] += 1; }\n"
    "__kernel void slow(__global int *x, int rounds) {\n"
    "  uint v = x[0];\n"
    "  for (int i = 0; i < rounds; i++) { v = v * 1664525u + 1013904223u; }\n"
    "  x[0] = (int)v;\n"
    "}\n";
static const char global_source[] =
    "__global int calls = 0;\n"
    "__kernel void count(__global int *x) { calls++; x[0] = calls; }\n";

static cl_program program;
static cl_mem numbers;

static cl_program
build(const char *text, const char *options)
{
    cl_int err;
    cl_program built = clCreateProgramWithSource(both.ctx, 1, &text, NULL, &err);

    ok(err);
    if (clBuildProgram(built, 0, NULL, options, NULL, NULL) != CL_SUCCESS) {
        ok(clReleaseProgram(built));
        return NULL;
    }
    return built;
}

static cl_kernel
kernel_new(cl_program of, const char *name, cl_mem mem)
{
    cl_int err;
    cl_kernel kernel = clCreateKernel(of, name, &err);

    ok(err);
    ok(clSetKernelArg(kernel, 0, sizeof(mem), &mem));
    return kernel;
}

static int
setup(void **state)
{
    const cl_int zero = 0;
    cl_int err;

    (void)state;
    program = build(source, "");
    assert_non_null(program);
    numbers =
        clCreateBuffer(both.ctx, CL_MEM_READ_WRITE, COUNT * sizeof(cl_int), NULL, &err);
    ok(err);
    ok(clEnqueueFillBuffer(both.queues[0], numbers, &zero, sizeof(zero), 0,
                           COUNT * sizeof(zero), 0, NULL, NULL));
    ok(clFinish(both.queues[0]));
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    ok(clReleaseMemObject(numbers));
    ok(clReleaseProgram(program));
    return 0;
}

static void
add(cl_command_queue q, int first, int by, cl_uint wait_count, const cl_event *wait,
    cl_event *event)
{
    const size_t size = HALF;
    cl_kernel kernel = kernel_new(program, "add", numbers);

    ok(clSetKernelArg(kernel, 1, sizeof(first), &first));
    ok(clSetKernelArg(kernel, 2, sizeof(by), &by));
    ok(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &size, NULL, wait_count, wait,
                              event));
    ok(clReleaseKernel(kernel));
}

static void
expect_halves(int first, int second)
{
    static cl_int got[COUNT];

    ok(clEnqueueReadBuffer(both.queues[0], numbers, CL_TRUE, 0, sizeof(got), got, 0,
                           NULL, NULL));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(got[i], i < HALF ? first : second);
    }
}

static void
lose_first(void)
{
    assert_true(servers_kill_executors(&servers, 0) != 0);
}

/* A command that waits for the program holds back no commit of others, and is not repeated in
 * what they wrote beside it. */
static void
blocked_command(void **state)
{
    cl_event before, user, blocked, done;
    cl_int err, status;

    (void)state;
    user = clCreateUserEvent(both.ctx, &err);
    ok(err);
    add(both.loose_queues[0], 0, 1, 0, NULL, &before);
    add(both.loose_queues[0], HALF, 10, 1, &user, &blocked);
    add(both.loose_queues[0], 0, 100, 1, &before, &done);
    ok(clWaitForEvents(1, &done));
    lose_first();
    add(both.loose_queues[0], 0, 1000, 1, &done, NULL);
    ok(clSetUserEventStatus(user, CL_COMPLETE));
    ok(clFinish(both.loose_queues[0]));
    ok(clGetEventInfo(blocked, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                      &status, NULL));
    assert_int_equal(status, CL_COMPLETE);
    expect_halves(1101, 10);
    ok(clReleaseEvent(before));
    ok(clReleaseEvent(user));
    ok(clReleaseEvent(blocked));
    ok(clReleaseEvent(done));
}

/* Commands that were sent and not waited for, and content that is under way both ways. */
static void
unread_commands(void **state)
{
    enum { LARGE = 4 << 20, TIMES = 50 };
    uint8_t *model = pattern_new(LARGE, 5), *got = malloc(LARGE);
    cl_mem large = buffer_new(&both, 0, LARGE, NULL);

    (void)state;
    for (int i = 0; i < TIMES; i++) {
        add(both.queues[0], i % 2 * HALF, 1, 0, NULL, NULL);
    }
    ok(clEnqueueWriteBuffer(both.queues[0], large, CL_FALSE, 0, LARGE, model, 0, NULL,
                            NULL));
    ok(clEnqueueReadBuffer(both.queues[0], large, CL_FALSE, 0, LARGE, got, 0, NULL,
                           NULL));
    ok(clFlush(both.queues[0]));
    usleep(2000);
    lose_first();
    add(both.queues[1], 0, 5, 0, NULL, NULL);
    ok(clFinish(both.queues[1]));
    ok(clFinish(both.queues[0]));
    assert_memory_equal(got, model, LARGE);
    expect_halves(TIMES / 2 + 5, TIMES / 2);
    ok(clReleaseMemObject(large));
    free(model);
    free(got);
}

/* Puts what is printed into a file until there is text. @return standard output as it was */
static int
catch_text(FILE *file)
{
    int before = dup(STDOUT_FILENO);

    assert_true(before >= 0);
    (void)fflush(stdout);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    return before;
}

static void
await_text(FILE *file, int before)
{
    struct stat st = {0};

    for (int i = 0; i < BOUND_S * 100 && st.st_size == 0; i++) {
        usleep(10000);
        assert_int_equal(fstat(fileno(file), &st), 0);
    }
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    (void)close(before);
    (void)fclose(file);
    assert_true(st.st_size > 0);
}

/* Text that the program has seen cannot be taken back: what follows ends with an error. */
static void
printed_text(void **state)
{
    const size_t one_item = 1;
    const cl_int rounds = SLOW_ROUNDS;
    cl_mem other = buffer_new(&both, 0, sizeof(cl_int), NULL);
    cl_kernel say = kernel_new(program, "say", numbers);
    cl_kernel slow = kernel_new(program, "slow", other);
    cl_event events[2];
    cl_int status;
    FILE *file = tmpfile();
    int before;

    (void)state;
    assert_non_null(file);
    before = catch_text(file);
    ok(clSetKernelArg(slow, 1, sizeof(rounds), &rounds));
    ok(clEnqueueNDRangeKernel(both.queues[0], say, 1, NULL, &one_item, NULL, 0, NULL,
                              &events[0]));
    for (int i = 0; i < 100; i++) { /* longer than the test lives */
        ok(clEnqueueNDRangeKernel(both.queues[0], slow, 1, NULL, &one_item, NULL, 0,
                                  NULL, i == 99 ? &events[1] : NULL));
    }
    ok(clFlush(both.queues[0]));
    await_text(file, before);
    lose_first();
    assert_true(clWaitForEvents(1, &events[1]) != CL_SUCCESS);
    ok(clGetEventInfo(events[1], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                      &status, NULL));
    assert_true(status < 0);
    assert_true(clFinish(both.queues[0]) != CL_SUCCESS);
    ok(clReleaseEvent(events[0]));
    ok(clReleaseEvent(events[1]));
    ok(clReleaseKernel(say));
    ok(clReleaseKernel(slow));
    ok(clReleaseMemObject(other));
}

/* Variables of a program are not copied: the session is lost as without copies. */
static void
program_variable(void **state)
{
    const size_t one_item = 1;
    cl_program own = build(global_source, "-cl-std=CL2.0");
    cl_kernel count;
    cl_int err, got = 0;

    (void)state;
    if (own == NULL) {
        skip();
    }
    count = kernel_new(own, "count", numbers);
    ok(clEnqueueNDRangeKernel(both.queues[0], count, 1, NULL, &one_item, NULL, 0, NULL,
                              NULL));
    ok(clFinish(both.queues[0]));
    lose_first();
    (void)clEnqueueNDRangeKernel(both.queues[0], count, 1, NULL, &one_item, NULL, 0,
                                 NULL, NULL);
    err = clEnqueueReadBuffer(both.queues[0], numbers, CL_TRUE, 0, sizeof(got), &got, 0,
                              NULL, NULL);
    assert_true(err != CL_SUCCESS || got == 2);
    ok(clReleaseKernel(count));
    ok(clReleaseProgram(own));
}

/* Shared virtual memory ends the copies, and works. */
static void
shared_virtual_memory(void **state)
{
    const cl_int seven = 7;
    cl_int *shared = clSVMAlloc(both.ctx, CL_MEM_READ_WRITE, sizeof(seven), 0);

    (void)state;
    if (shared == NULL) {
        skip();
    }
    ok(clEnqueueSVMMemFill(both.queues[0], shared, &seven, sizeof(seven), sizeof(seven),
                           0, NULL, NULL));
    ok(clEnqueueSVMMap(both.queues[0], CL_TRUE, CL_MAP_READ, shared, sizeof(seven), 0,
                       NULL, NULL));
    assert_int_equal(*shared, seven);
    ok(clEnqueueSVMUnmap(both.queues[0], shared, 0, NULL, NULL));
    ok(clFinish(both.queues[0]));
    add(both.queues[0], 0, 3, 0, NULL, NULL);
    expect_halves(3, 0);
    clSVMFree(both.ctx, shared);
    lose_first();
    add(both.queues[0], 0, 3, 0, NULL, NULL);
    assert_true(clFinish(both.queues[0]) != CL_SUCCESS);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test_setup_teardown(blocked_command, setup, teardown),
    cmocka_unit_test_setup_teardown(unread_commands, setup, teardown),
    cmocka_unit_test_setup_teardown(printed_text, setup, teardown),
    cmocka_unit_test_setup_teardown(program_variable, setup, teardown),
    cmocka_unit_test_setup_teardown(shared_virtual_memory, setup, teardown),
};

static char **arguments; /* of main() */

static int
run_child(size_t i)
{
    return worlds_run_test(&cases[i], arguments, BOUND_S);
}

int
main(int argc, char **argv)
{
    (void)argc;
    arguments = argv;
    (void)setenv("TELPHER_KEEP_COPIES", "yes", 1);
    return worlds_run_apart(sizeof(cases) / sizeof(cases[0]), run_child);
}
