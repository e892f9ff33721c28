/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies_perf [MIB]: what TELPHER_KEEP_COPIES costs a program: memory and time of a buffer and of
 * an argument of a kernel, and the time of a kernel with clFinish. With MIB: then runs kernels until
 * standard input ends, with that much content beside, and prints the longest time of one, which
 * includes the pause when a new second server gets all content. scripts/bench/copies runs it.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFERS = 10000, ARGUMENTS = 20000, LAUNCHES = 1000, PAUSE_US = 500 };

static const char source[] =
    "__kernel void inc(__global int *x, int by) { x[get_global_id(0)] += by; }\n";

static cl_context context;
static cl_command_queue queue;
static cl_kernel kernel;
static cl_mem numbers;

static double
read_us(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double
now_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

/* Processor time of this thread: what a loaded machine changes least. */
static double
used_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

static void
check(cl_int error, const char *what)
{
    if (error != CL_SUCCESS) {
        (void)fprintf(stderr, "copies_perf: %s: error %d\n", what, error);
        _exit(1);
    }
}

static cl_mem
buffer_new(size_t size)
{
    cl_int error;
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &error);

    check(error, "clCreateBuffer");
    return mem;
}

static void
open_all(void)
{
    const char *text = source;
    cl_platform_id platform;
    cl_device_id device;
    cl_program program;
    cl_int error;

    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL),
          "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &error);
    check(error, "clCreateCommandQueue");
    program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    check(error, "clCreateProgramWithSource");
    check(clBuildProgram(program, 0, NULL, "", NULL, NULL), "clBuildProgram");
    kernel = clCreateKernel(program, "inc", &error);
    check(error, "clCreateKernel");
    check(clReleaseProgram(program), "clReleaseProgram");
    numbers = buffer_new(4096);
    check(clSetKernelArg(kernel, 0, sizeof(numbers), &numbers), "clSetKernelArg");
}

static void
launch(int by)
{
    const size_t size = 64;

    check(clSetKernelArg(kernel, 1, sizeof(by), &by), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 0, NULL, NULL),
          "clEnqueueNDRangeKernel");
}

static void
finish(void)
{
    check(clFinish(queue), "clFinish");
}

static void
measure_buffers(void)
{
    static cl_mem all[BUFFERS];
    size_t before = mallinfo2().uordblks;
    double begin = used_us();

    for (int i = 0; i < BUFFERS; i++) {
        all[i] = buffer_new(64);
    }
    begin = used_us() - begin;
    finish();
    (void)printf("buffer: %.2f us of processor time, %zu bytes\n", begin / BUFFERS,
                 (mallinfo2().uordblks - before) / BUFFERS);
    for (int i = 0; i < BUFFERS; i++) {
        check(clReleaseMemObject(all[i]), "clReleaseMemObject");
    }
}

static void
measure_launches(void)
{
    double used = used_us(), begin = now_us();

    for (int i = 0; i < ARGUMENTS; i++) {
        launch(i);
    }
    (void)printf("launch with a changed argument: %.2f us of processor time",
                 (used_us() - used) / ARGUMENTS);
    finish();
    (void)printf(", %.2f us until the end\n", (now_us() - begin) / ARGUMENTS);
    begin = now_us();
    for (int i = 0; i < LAUNCHES; i++) {
        launch(i);
        finish();
    }
    (void)printf("launch and finish: %.1f us\n", (now_us() - begin) / LAUNCHES);
}

static bool
input_ended(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    return poll(&in, 1, 0) == 1 && read(STDIN_FILENO, &byte, 1) <= 0;
}

static void
measure_pause(size_t mib)
{
    cl_mem large = buffer_new(mib << 20);
    double longest = 0;

    (void)printf("ready\n");
    (void)fflush(stdout);
    while (!input_ended()) {
        double begin = now_us();

        launch(1);
        finish();
        begin = now_us() - begin;
        longest = begin > longest ? begin : longest;
        (void)usleep(PAUSE_US);
    }
    (void)printf("longest launch and finish: %.1f ms\n", longest / 1e3);
    check(clReleaseMemObject(large), "clReleaseMemObject");
}

int
main(int argc, char **argv)
{
    open_all();
    launch(1);
    finish();
    if (argc > 1) {
        measure_pause((size_t)atol(argv[1]));
    } else {
        measure_buffers();
        measure_launches();
    }
    return 0;
}
