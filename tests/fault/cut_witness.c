/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The witness of the cut tests: a program whose results show whether a command ran twice, was
 * lost, or saw wrong content. It prints "exact" and exits with 0 if everything is as it must be.
 *
 *     cut_witness [ROUNDS [IDLE_MS [BYTES]]]
 *
 * A round increments a counter in each element by kernels, reads and checks it, writes and
 * reads a large known pattern back, lets a command wait for a user event, and counts
 * callbacks. ROUNDS 0: until standard input ends. IDLE_MS: pause between rounds. BYTES: of the
 * pattern, at most 96 KiB. With several servers, kernels of one round run on the first and the
 * last device in turn, so content and events pass between them.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum {
    COUNT = 1024,
    STEPS = 10,
    LARGE_MAX = 96 << 10,
    WAIT_MS = 30000,
    DEVICES_MAX = 16
};

static const char source[] =
    "__kernel void inc(__global int *x, int by) { x[get_global_id(0)] += by; }\n";

static cl_context context;
static cl_command_queue queue, other; /* of the last device, if there are several */
static cl_program program;
static cl_kernel kernel;
static cl_mem counters, large;
static int large_len = LARGE_MAX; /* [bytes] */
static cl_int expected; /* in each counter */
static _Atomic int called_back;
static _Atomic bool ends;
static bool was_away; /* the device was not available for a while */

/* An error is no wrong result: "failed". */
static void
must_cl(const char *what, cl_int err)
{
    if (err != CL_SUCCESS) {
        (void)printf("failed: %s: %d\n", what, err);
        (void)fflush(stdout);
        exit(1);
    }
}

static void
pause_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    (void)nanosleep(&time, NULL);
}

/* Looks whether the device is available. It is so again soon after the last command. */
static void *
watch_device(void *arg)
{
    cl_bool available = CL_TRUE;

    for (int late = 0; !ends || (!available && late < WAIT_MS / 5); late += ends) {
        must_cl("clGetDeviceInfo",
                clGetDeviceInfo(arg, CL_DEVICE_AVAILABLE, sizeof(available), &available,
                                NULL));
        was_away = was_away || !available;
        pause_ms(5);
    }
    /* a server may die after the last command: an error, not a wrong result */
    must_cl("device available in the end",
            available ? CL_SUCCESS : CL_DEVICE_NOT_AVAILABLE);
    return NULL;
}

static cl_device_id
open_all(void)
{
    const char *text = source;
    cl_platform_id platform;
    cl_device_id devices[DEVICES_MAX], device;
    cl_uint count;
    cl_int err, zero = 0;

    must_cl("clGetPlatformIDs", clGetPlatformIDs(1, &platform, NULL));
    must_cl("clGetDeviceIDs",
            clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count));
    device = devices[0];
    devices[1] = devices[count - 1];
    context = clCreateContext(NULL, count > 1 ? 2 : 1, devices, NULL, NULL, &err);
    must_cl("clCreateContext", err);
    queue = clCreateCommandQueueWithProperties(context, device, NULL, &err);
    must_cl("clCreateCommandQueueWithProperties", err);
    if (count > 1) {
        other = clCreateCommandQueueWithProperties(context, devices[1], NULL, &err);
        must_cl("clCreateCommandQueueWithProperties", err);
    }
    program = clCreateProgramWithSource(context, 1, &text, NULL, &err);
    must_cl("clCreateProgramWithSource", err);
    must_cl("clBuildProgram", clBuildProgram(program, 0, NULL, "", NULL, NULL));
    kernel = clCreateKernel(program, "inc", &err);
    must_cl("clCreateKernel", err);
    counters =
        clCreateBuffer(context, CL_MEM_READ_WRITE, COUNT * sizeof(cl_int), NULL, &err);
    must_cl("clCreateBuffer", err);
    large = clCreateBuffer(context, CL_MEM_READ_WRITE, large_len, NULL, &err);
    must_cl("clCreateBuffer", err);
    must_cl("clEnqueueFillBuffer",
            clEnqueueFillBuffer(queue, counters, &zero, sizeof(zero), 0,
                                COUNT * sizeof(cl_int), 0, NULL, NULL));
    return device;
}

static void
close_all(void)
{
    must_cl("clReleaseMemObject", clReleaseMemObject(counters));
    must_cl("clReleaseMemObject", clReleaseMemObject(large));
    must_cl("clReleaseKernel", clReleaseKernel(kernel));
    must_cl("clReleaseProgram", clReleaseProgram(program));
    must_cl("clReleaseCommandQueue", clReleaseCommandQueue(queue));
    if (other != NULL) {
        must_cl("clReleaseCommandQueue", clReleaseCommandQueue(other));
    }
    must_cl("clReleaseContext", clReleaseContext(context));
}

static void CL_CALLBACK
count_call(cl_event event, cl_int status, void *arg)
{
    (void)event;
    (void)arg;
    must_cl("status in a callback", status);
    called_back++;
}

static void
run_inc_on(cl_command_queue on, cl_int by, cl_uint wait_count, const cl_event *wait,
           cl_event *ret_event)
{
    const size_t size = COUNT;

    must_cl("clSetKernelArg", clSetKernelArg(kernel, 0, sizeof(counters), &counters));
    must_cl("clSetKernelArg", clSetKernelArg(kernel, 1, sizeof(by), &by));
    must_cl("clEnqueueNDRangeKernel",
            clEnqueueNDRangeKernel(on, kernel, 1, NULL, &size, NULL, wait_count, wait,
                                   ret_event));
    expected += by;
}

static void
run_inc(cl_int by, cl_uint wait_count, const cl_event *wait, cl_event *ret_event)
{
    run_inc_on(queue, by, wait_count, wait, ret_event);
}

/* Kernels on both devices in turn, each after the end of the one before. */
static void
pass_between(void)
{
    cl_event last = NULL, next;

    for (int i = 0; i < STEPS && other != NULL; i++) {
        run_inc_on(i % 2 == 0 ? other : queue, i + 1, last != NULL,
                   last != NULL ? &last : NULL, &next);
        must_cl("clFlush", clFlush(i % 2 == 0 ? other : queue));
        if (last != NULL) {
            must_cl("clReleaseEvent", clReleaseEvent(last));
        }
        last = next;
    }
    if (last != NULL) {
        must_cl("clWaitForEvents", clWaitForEvents(1, &last));
        must_cl("clReleaseEvent", clReleaseEvent(last));
    }
}

static void
check_counters(void)
{
    cl_int values[COUNT];

    must_cl("clEnqueueReadBuffer",
            clEnqueueReadBuffer(queue, counters, CL_TRUE, 0, sizeof(values), values, 0,
                                NULL, NULL));
    for (int i = 0; i < COUNT; i++) {
        must(values[i] == expected, "counter", values[i] - expected);
    }
}

static unsigned char
pattern(int round, int i)
{
    return (unsigned char)(i * 7 + i / 251 + round * 13);
}

/* Writes without and with waiting: the memory may be reused when a call has returned. */
static void
check_content(int round)
{
    static unsigned char out[LARGE_MAX], in[LARGE_MAX];
    cl_command_queue from = queue;

    for (int i = 0; i < large_len; i++) {
        out[i] = pattern(round, i);
    }
    must_cl(
        "clEnqueueWriteBuffer",
        clEnqueueWriteBuffer(queue, large, CL_TRUE, 0, large_len, out, 0, NULL, NULL));
    memset(out, 0xee, sizeof(out));
    if (other != NULL) {
        must_cl("clEnqueueMigrateMemObjects",
                clEnqueueMigrateMemObjects(other, 1, &large, 0, 0, NULL, NULL));
        must_cl("clFinish", clFinish(other));
        from = other;
    }
    must_cl("clEnqueueReadBuffer", clEnqueueReadBuffer(from, large, CL_FALSE, 0,
                                                       large_len, in, 0, NULL, NULL));
    must_cl("clFinish", clFinish(from));
    for (int i = 0; i < large_len; i++) {
        must(in[i] == pattern(round, i), "byte of content", i);
    }
}

/* Commands that wait for the program. */
static void
check_user_event(void)
{
    cl_int err;
    cl_event user = clCreateUserEvent(context, &err), done;

    must_cl("clCreateUserEvent", err);
    run_inc(3, 1, &user, &done);
    must_cl("clSetEventCallback",
            clSetEventCallback(done, CL_COMPLETE, count_call, NULL));
    must_cl("clFlush", clFlush(queue));
    must_cl("clSetUserEventStatus", clSetUserEventStatus(user, CL_COMPLETE));
    must_cl("clWaitForEvents", clWaitForEvents(1, &done));
    must_cl("clReleaseEvent", clReleaseEvent(done));
    must_cl("clReleaseEvent", clReleaseEvent(user));
}

static void
await_callbacks(int count)
{
    for (int ms = 0; called_back < count && ms < WAIT_MS; ms++) {
        pause_ms(1);
    }
    pause_ms(10); /* for one too many */
    must(called_back == count, "callbacks", called_back);
}

static bool
input_ended(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    return poll(&in, 1, 0) == 1 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int
main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1, round = 0;
    long idle_ms = argc > 2 ? atol(argv[2]) : 0;
    pthread_t watcher;

    large_len = argc > 3 ? atoi(argv[3]) : LARGE_MAX;
    must(large_len > 0 && large_len <= LARGE_MAX, "BYTES", large_len);
    must(pthread_create(&watcher, NULL, watch_device, open_all()) == 0,
         "pthread_create", 0);
    (void)printf("ready\n");
    (void)fflush(stdout);
    for (; rounds == 0 ? !input_ended() : round < rounds; round++) {
        for (int i = 0; i < STEPS; i++) {
            run_inc(i + 1, 0, NULL, NULL);
        }
        must_cl("clFinish", clFinish(queue));
        pass_between();
        check_user_event();
        check_counters();
        check_content(round);
        pause_ms(idle_ms);
    }
    await_callbacks(round);
    ends = true;
    must(pthread_join(watcher, NULL) == 0, "pthread_join", 0);
    close_all();
    if (was_away) {
        (void)printf("was away\n");
    }
    (void)printf("exact\n");
    (void)fflush(stdout);
    return 0;
}
