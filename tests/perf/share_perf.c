/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_perf SECONDS SERVERS=MS...: clients of one telpherd, each a process with kernels of
 * MS milliseconds, and the device time that each has. SERVERS is its TELPHER_SERVERS: clients
 * on the Unix socket and on TCP are different users. Prints a line a client: kernels, their
 * device time by the driver's stamps, its part of the sum. scripts/bench/share runs it.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = 16384, FLIGHT = 4, CLIENTS_MAX = 16, TRIES = 5, ROUNDS = 6 };

static const char source[] =
    "__kernel void sleep_ms(int n, __global float *out)\n"
    "{\n"
    "    float x = get_global_id(0);\n"
    "    for (int i = 0; i < n; i++) { x = x * 0.999f + 1.0f; }\n"
    "    out[get_global_id(0)] = x;\n"
    "}\n";
/* The test driver knows its kernels by name and arguments. */
static const char test_source[] = "kernel void sleep_ms(int ms) {}\n";

struct client {
    cl_command_queue queue;
    cl_kernel kernel;
    bool sleeps; /* the test driver: its kernel sleeps */
};

static double
now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
check(cl_int error, const char *what)
{
    if (error != CL_SUCCESS) {
        (void)fprintf(stderr, "share_perf: %s: error %d\n", what, error);
        _exit(1);
    }
}

static void
open_client(struct client *c)
{
    const char *text;
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_program program;
    cl_mem out;
    char name[64] = "";
    cl_int error;

    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL),
          "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    check(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name), name, NULL),
          "clGetDeviceInfo");
    c->sleeps = strstr(name, "Test Device") != NULL;
    c->queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &error);
    check(error, "clCreateCommandQueue");
    text = c->sleeps ? test_source : source;
    program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    check(error, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    c->kernel = clCreateKernel(program, "sleep_ms", &error);
    check(error, "clCreateKernel");
    if (!c->sleeps) {
        out = clCreateBuffer(context, CL_MEM_WRITE_ONLY, ITEMS * sizeof(cl_float), NULL,
                             &error);
        check(error, "clCreateBuffer");
        check(clSetKernelArg(c->kernel, 1, sizeof(cl_mem), &out), "clSetKernelArg");
    }
}

static cl_event
launch(struct client *c)
{
    const size_t items = ITEMS;
    cl_event event;

    check(clEnqueueNDRangeKernel(c->queue, c->kernel, 1, NULL, &items, NULL, 0, NULL,
                                 &event),
          "clEnqueueNDRangeKernel");
    check(clFlush(c->queue), "clFlush");
    return event;
}

/* Waits for a kernel. @return its time on the device [s] */
static double
await(cl_event event)
{
    cl_ulong begin, end;

    check(clWaitForEvents(1, &event), "clWaitForEvents");
    check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(begin),
                                  &begin, NULL),
          "clGetEventProfilingInfo");
    check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(end), &end,
                                  NULL),
          "clGetEventProfilingInfo");
    (void)clReleaseEvent(event);
    return (double)(end - begin) / 1e9;
}

static void
set_count(struct client *c, cl_int count)
{
    check(clSetKernelArg(c->kernel, 0, sizeof(count), &count), "clSetKernelArg");
}

/* Sets the count for kernels of about @p ms. */
static void
calibrate(struct client *c, double ms)
{
    double count = 1000;

    if (c->sleeps) {
        set_count(c, (cl_int)ms);
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        double least = 1e9;

        set_count(c, (cl_int)count);
        for (int k = 0; k < TRIES; k++) {
            double took = await(launch(c));

            least = took < least ? took : least;
        }
        count *= ms / 1e3 / (least > 1e-6 ? least : 1e-6);
        count = count < 1 ? 1 : count > 2e9 ? 2e9 : count;
    }
    set_count(c, (cl_int)count);
}

/* Keeps kernels under way. Gives how many ended, and their device time. */
static void
work(struct client *c, double seconds, double ret_line[2])
{
    double end = now_s() + seconds, used = 0;
    cl_event events[FLIGHT];
    long done = 0;

    for (int i = 0; i < FLIGHT; i++) {
        events[i] = launch(c);
    }
    while (now_s() < end) {
        used += await(events[done % FLIGHT]);
        events[done++ % FLIGHT] = launch(c);
    }
    ret_line[0] = (double)done;
    ret_line[1] = used;
}

static void
run_client(char *server, double seconds, int start, int result)
{
    char *ms = strrchr(server, '=');
    struct client c;
    double line[2];
    char go;

    if (ms == NULL) {
        _exit(2);
    }
    *ms++ = '\0';
    (void)setenv("TELPHER_SERVERS", server, 1);
    open_client(&c);
    calibrate(&c, atof(ms));
    if (write(result, "r", 1) != 1 || read(start, &go, 1) != 1) {
        _exit(1);
    }
    work(&c, seconds, line);
    _exit(write(result, line, sizeof(line)) == (ssize_t)sizeof(line) ? 0 : 1);
}

int
main(int argc, char **argv)
{
    int start[2], results[CLIENTS_MAX][2], count = argc - 2;
    double lines[CLIENTS_MAX][2], sum = 0;
    char one;

    if (count < 1 || count > CLIENTS_MAX || pipe(start) != 0) {
        (void)fprintf(stderr, "usage: share_perf SECONDS SERVERS=MS...\n");
        return 2;
    }
    for (int i = 0; i < count; i++) { /* one after the other: each is alone meanwhile */
        if (pipe(results[i]) != 0) {
            return 1;
        }
        if (fork() == 0) {
            run_client(argv[2 + i], atof(argv[1]), start[0], results[i][1]);
        }
        (void)close(results[i][1]);
        if (read(results[i][0], &one, 1) != 1) { /* it has said why */
            return 1;
        }
    }
    for (int i = 0; i < count; i++) {
        (void)!write(start[1], "g", 1);
    }
    for (int i = 0; i < count; i++) {
        if (read(results[i][0], lines[i], sizeof(lines[i])) !=
            (ssize_t)sizeof(lines[i])) {
            return 1;
        }
        sum += lines[i][1];
    }
    for (int i = 0; i < count; i++) {
        printf("%-40s %8.0f kernels of %7.3f ms  %8.3f s  %5.1f %%\n", argv[2 + i],
               lines[i][0], lines[i][1] * 1e3 / lines[i][0], lines[i][1],
               100 * lines[i][1] / sum);
    }
    while (wait(NULL) > 0) {
    }
    return 0;
}
