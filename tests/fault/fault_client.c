/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL program of the fault tests: does one thing and says how it went, one line a
 * thing. Exit status 0: everything was as it must be.
 *
 *     fault_client compute        computes and checks until standard input ends
 *     fault_client later          finds the devices, and computes when standard input ends
 *     fault_client devices        how many there are
 *     fault_client any            one computation, which may fail but not give wrong values
 *     fault_client fail ERROR     a fill fails with it, the rest works
 *     fault_client hold MS        a command waits for a user event for so long
 *     fault_client fill           a fill and clFinish
 *     fault_client lose WHAT END  loses its server while it does WHAT
 *
 * WHAT: a kernel's name (crash, hang), fill (that enqueue call), loop (computes on and on),
 * write (64 MiB on and on). END: again (a new context works), retry (it does in some seconds),
 * gone (it fails in time).
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { COUNT = 4096, LARGE = 64 << 20, GONE_MS = 4000, RETRY_MS = 10000 };

/* The test driver has kernels of these names and arguments, too. */
static const char source[] =
    "__kernel void inc(__global int *x, int by) { x[get_global_id(0)] += by; }\n"
    "__kernel void crash(void) {\n"
    "  volatile size_t nowhere = 0;\n"
    "  *(volatile __global int *)nowhere = 1;\n"
    "}\n"
    "__kernel void hang(void) {\n"
    "  volatile int on = 1;\n"
    "  while (on) { }\n"
    "}\n";

struct program {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem buffer;
    int round;
};

static void
say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)printf("\n");
    (void)fflush(stdout);
}

/** @return the first error; then what is missing is NULL */
static cl_int
open_program(struct program *p)
{
    const char *text = source;
    cl_platform_id platform;
    cl_int err;

    memset(p, 0, sizeof(*p));
    err = clGetPlatformIDs(1, &platform, NULL);
    if (err == CL_SUCCESS) {
        err = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &p->device, NULL);
    }
    if (err == CL_SUCCESS) {
        p->context = clCreateContext(NULL, 1, &p->device, NULL, NULL, &err);
    }
    if (err == CL_SUCCESS) {
        p->queue =
            clCreateCommandQueueWithProperties(p->context, p->device, NULL, &err);
    }
    if (err == CL_SUCCESS) {
        p->program = clCreateProgramWithSource(p->context, 1, &text, NULL, &err);
    }
    if (err == CL_SUCCESS) {
        err = clBuildProgram(p->program, 1, &p->device, "", NULL, NULL);
    }
    if (err == CL_SUCCESS) {
        p->kernel = clCreateKernel(p->program, "inc", &err);
    }
    if (err == CL_SUCCESS) {
        p->buffer = clCreateBuffer(p->context, CL_MEM_READ_WRITE,
                                   COUNT * sizeof(cl_int), NULL, &err);
    }
    return err;
}

/** Releasing works whatever has happened. */
static void
close_program(const struct program *p)
{
    cl_int err = CL_SUCCESS;

    if (p->buffer != NULL) {
        err |= clReleaseMemObject(p->buffer);
    }
    if (p->kernel != NULL) {
        err |= clReleaseKernel(p->kernel);
    }
    if (p->program != NULL) {
        err |= clReleaseProgram(p->program);
    }
    if (p->queue != NULL) {
        err |= clReleaseCommandQueue(p->queue);
    }
    if (p->context != NULL) {
        err |= clReleaseContext(p->context);
    }
    must(err == CL_SUCCESS, "release", err);
}

/** One computation. @return its first error; ends the program if the values are wrong */
static cl_int
compute(struct program *p)
{
    static cl_int in[COUNT], out[COUNT];
    const size_t count = COUNT;
    cl_int v = ++p->round, err;

    for (int i = 0; i < COUNT; i++) {
        in[i] = i * v;
    }
    err = clEnqueueWriteBuffer(p->queue, p->buffer, CL_FALSE, 0, sizeof(in), in, 0,
                               NULL, NULL);
    if (err == CL_SUCCESS) {
        err = clSetKernelArg(p->kernel, 0, sizeof(cl_mem), &p->buffer);
    }
    if (err == CL_SUCCESS) {
        err = clSetKernelArg(p->kernel, 1, sizeof(v), &v);
    }
    if (err == CL_SUCCESS) {
        err = clEnqueueNDRangeKernel(p->queue, p->kernel, 1, NULL, &count, NULL, 0,
                                     NULL, NULL);
    }
    if (err == CL_SUCCESS) {
        err = clEnqueueReadBuffer(p->queue, p->buffer, CL_TRUE, 0, sizeof(out), out, 0,
                                  NULL, NULL);
    }
    for (int i = 0; i < COUNT && err == CL_SUCCESS; i++) {
        must(out[i] == in[i] + v, "value", out[i]);
    }
    return err;
}

static int
run_compute(void)
{
    struct program p;
    struct pollfd in = {.events = POLLIN};
    cl_int err = open_program(&p);

    must(err == CL_SUCCESS, "set-up", err);
    do {
        err = compute(&p);
        must(err == CL_SUCCESS, "computation", err);
        say("round %d", p.round);
    } while (poll(&in, 1, 2) == 0);
    close_program(&p);
    return 0;
}

/** Lists the devices, which opens sessions without an executor, and uses one later. */
static int
run_later(void)
{
    cl_platform_id platform;
    cl_device_id device;
    struct program p;
    cl_int err = clGetPlatformIDs(1, &platform, NULL);

    must(err == CL_SUCCESS, "clGetPlatformIDs", err);
    err = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    must(err == CL_SUCCESS, "clGetDeviceIDs", err);
    say("found");
    while (getchar() != EOF) {
    }
    err = open_program(&p);
    must(err == CL_SUCCESS, "set-up", err);
    err = compute(&p);
    must(err == CL_SUCCESS, "computation", err);
    close_program(&p);
    say("computed");
    return 0;
}

static int
run_devices(void)
{
    cl_platform_id platform = NULL;
    cl_uint platforms = 0, devices = 0;
    double start = now_ms();
    cl_int err = clGetPlatformIDs(1, &platform, &platforms);

    if (err == CL_SUCCESS && platforms != 0) {
        (void)clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &devices);
    } else {
        must(err == CL_PLATFORM_NOT_FOUND_KHR, "clGetPlatformIDs", err);
    }
    say("%u platforms, %u devices, %.0f ms", platforms, devices, now_ms() - start);
    return 0;
}

static int
run_any(void)
{
    struct program p;
    cl_int err = open_program(&p);

    for (int i = 0; i < 3 && err == CL_SUCCESS; i++) {
        err = compute(&p);
    }
    say("any: error %d", err);
    close_program(&p);
    return 0;
}

static void CL_CALLBACK
note_end(cl_event event, cl_int status, void *arg)
{
    (void)event;
    atomic_store((_Atomic cl_int *)arg, status);
}

/** A command that waits long for its program is no sign of a server that stands still. */
static int
run_hold(int ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    _Atomic cl_int ended = 1;
    struct program p;
    cl_int err = open_program(&p);
    cl_event gate = clCreateUserEvent(p.context, NULL), marker;

    must(err == CL_SUCCESS && gate != NULL, "opening", err);
    err = clEnqueueMarkerWithWaitList(p.queue, 1, &gate, &marker);
    must(err == CL_SUCCESS, "clEnqueueMarkerWithWaitList", err);
    err = clSetEventCallback(marker, CL_COMPLETE, note_end, &ended);
    must(err == CL_SUCCESS && clFlush(p.queue) == CL_SUCCESS, "callback", err);
    say("ready");
    (void)nanosleep(&time, NULL);
    must(ended == 1, "the callback", ended);
    must(clSetUserEventStatus(gate, CL_COMPLETE) == CL_SUCCESS, "the gate", 0);
    err = compute(&p);
    must(err == CL_SUCCESS, "computation", err);
    while (ended == 1) {
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    (void)clReleaseEvent(marker);
    (void)clReleaseEvent(gate);
    close_program(&p);
    say("held");
    return 0;
}

/** Starts what does not end by itself. @return its event */
static cl_event
start_command(struct program *p, const char *what)
{
    const cl_int zero = 0;
    const size_t one = 1;
    cl_event event = NULL;
    cl_kernel kernel;
    cl_int err = clEnqueueWriteBuffer(p->queue, p->buffer, CL_TRUE, 0, sizeof(zero),
                                      &zero, 0, NULL, NULL);

    must(err == CL_SUCCESS, "write", err);
    if (strcmp(what, "fill") == 0) {
        err = clEnqueueFillBuffer(p->queue, p->buffer, &zero, sizeof(zero), 0,
                                  sizeof(zero), 0, NULL, &event);
        must(err == CL_SUCCESS, "clEnqueueFillBuffer", err);
        return event;
    }
    kernel = clCreateKernel(p->program, what, &err);
    must(err == CL_SUCCESS, what, err);
    err =
        clEnqueueNDRangeKernel(p->queue, kernel, 1, NULL, &one, NULL, 0, NULL, &event);
    must(err == CL_SUCCESS, "clEnqueueNDRangeKernel", err);
    (void)clReleaseKernel(kernel);
    return event;
}

/** A command whose enqueue call may take long at the server. */
static int
run_fill(void)
{
    struct program p;
    cl_int err = open_program(&p);
    cl_event event;

    must(err == CL_SUCCESS, "opening", err);
    event = start_command(&p, "fill");
    (void)clFlush(p.queue);
    say("ready");
    err = clFinish(p.queue);
    must(err == CL_SUCCESS, "clFinish", err);
    (void)clReleaseEvent(event);
    close_program(&p);
    say("filled");
    return 0;
}

static void
lose_command(struct program *p, const char *what)
{
    cl_event event = start_command(p, what);
    cl_int status = 1, err;

    say("ready");
    err = clWaitForEvents(1, &event);
    must(err == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "clWaitForEvents", err);
    err = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                         &status, NULL);
    must(err == CL_SUCCESS, "clGetEventInfo", err);
    must(status == CL_DEVICE_NOT_AVAILABLE, "the command", status);
    (void)clReleaseEvent(event);
}

static void
lose_loop(struct program *p)
{
    cl_int err;

    while ((err = compute(p)) == CL_SUCCESS) {
        say("ready");
    }
    must(err == CL_DEVICE_NOT_AVAILABLE ||
             err == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
         "computation", err);
}

static void
lose_writes(struct program *p)
{
    cl_int err;
    cl_mem large = clCreateBuffer(p->context, CL_MEM_READ_WRITE, LARGE, NULL, &err);
    char *content = calloc(1, LARGE);

    must(err == CL_SUCCESS && content != NULL, "clCreateBuffer", err);
    do {
        say("ready");
        err = clEnqueueWriteBuffer(p->queue, large, CL_TRUE, 0, LARGE, content, 0, NULL,
                                   NULL);
    } while (err == CL_SUCCESS);
    must(err == CL_DEVICE_NOT_AVAILABLE ||
             err == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
         "write", err);
    free(content);
    (void)clReleaseMemObject(large);
}

/** A command that fails with an error of the driver's own, and then one that does not. */
static int
run_fail(cl_int expected)
{
    struct program p;
    cl_event event;
    cl_int status = 1, err = open_program(&p);

    must(err == CL_SUCCESS, "set-up", err);
    event = start_command(&p, "fill");
    err = clWaitForEvents(1, &event);
    must(err == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "clWaitForEvents", err);
    err = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                         &status, NULL);
    must(err == CL_SUCCESS && status == expected, "the command", status);
    (void)clReleaseEvent(event);
    err = compute(&p);
    must(err == CL_SUCCESS, "computation", err);
    close_program(&p);
    say("failed");
    return 0;
}

/** Objects of a lost server return an error. */
static void
expect_lost(struct program *p)
{
    cl_bool available = CL_TRUE;
    cl_int value, err;

    err = clFinish(p->queue);
    must(err == CL_DEVICE_NOT_AVAILABLE, "clFinish", err);
    err = clEnqueueReadBuffer(p->queue, p->buffer, CL_TRUE, 0, sizeof(value), &value, 0,
                              NULL, NULL);
    must(err == CL_DEVICE_NOT_AVAILABLE, "clEnqueueReadBuffer", err);
    err = clGetDeviceInfo(p->device, CL_DEVICE_AVAILABLE, sizeof(available), &available,
                          NULL);
    must(err == CL_SUCCESS && !available, "CL_DEVICE_AVAILABLE", err);
}

static int
run_lose(const char *what, const char *end)
{
    bool again = strcmp(end, "gone") != 0, retry = strcmp(end, "retry") == 0;
    struct program p;
    double start;
    cl_int err = open_program(&p);

    must(err == CL_SUCCESS, "set-up", err);
    if (strcmp(what, "loop") == 0) {
        lose_loop(&p);
    } else if (strcmp(what, "write") == 0) {
        lose_writes(&p);
    } else {
        lose_command(&p, what);
    }
    expect_lost(&p);
    close_program(&p);
    say("lost");
    start = now_ms();
    err = open_program(&p);
    while (err != CL_SUCCESS && retry && now_ms() - start < RETRY_MS) {
        usleep(10000);
        err = open_program(&p);
    }
    if (again) {
        must(err == CL_SUCCESS, "a new context", err);
        err = compute(&p);
        must(err == CL_SUCCESS, "a new computation", err);
    } else {
        must(err != CL_SUCCESS, "a new context", err);
        must(now_ms() - start < GONE_MS, "time to fail", (long)(now_ms() - start));
    }
    close_program(&p);
    say(again ? "again" : "gone");
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "compute") == 0) {
        return run_compute();
    }
    if (argc == 2 && strcmp(argv[1], "later") == 0) {
        return run_later();
    }
    if (argc == 2 && strcmp(argv[1], "devices") == 0) {
        return run_devices();
    }
    if (argc == 2 && strcmp(argv[1], "any") == 0) {
        return run_any();
    }
    if (argc == 3 && strcmp(argv[1], "fail") == 0) {
        return run_fail(atoi(argv[2]));
    }
    if (argc == 3 && strcmp(argv[1], "hold") == 0) {
        return run_hold(atoi(argv[2]));
    }
    if (argc == 2 && strcmp(argv[1], "fill") == 0) {
        return run_fill();
    }
    if (argc == 4 && strcmp(argv[1], "lose") == 0) {
        return run_lose(argv[2], argv[3]);
    }
    (void)fprintf(stderr,
                  "usage: fault_client compute|later|devices|any|fill|fail ERROR|"
                  "hold MS|lose WHAT again|retry|gone\n");
    return 2;
}
