/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy_program MS FLIGHT: keeps FLIGHT kernels of MS milliseconds under way on one queue until
 * its standard input ends, and writes and reads 4096 bytes with each. For the test driver,
 * whose kernel sleeps. Prints "ready" once the first kernel has ended.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 4096, FLIGHT_MAX = 64 };

static void
check(cl_int error, const char *what)
{
    if (error != CL_SUCCESS) {
        (void)fprintf(stderr, "busy_program: %s: error %d\n", what, error);
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    const char *text = "kernel void sleep_ms(int ms) {}";
    cl_int ms = argc == 3 ? atoi(argv[1]) : 0, error;
    long flight = argc == 3 ? atol(argv[2]) : 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    static char content[BYTES];
    const size_t one = 1;
    cl_event events[FLIGHT_MAX] = {NULL};
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem buffer;

    if (flight < 1 || flight > FLIGHT_MAX) {
        return 64;
    }
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL),
          "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &error);
    check(error, "clCreateCommandQueue");
    buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &error);
    check(error, "clCreateBuffer");
    program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    check(error, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    kernel = clCreateKernel(program, "sleep_ms", &error);
    check(error, "clCreateKernel");
    check(clSetKernelArg(kernel, 0, sizeof(ms), &ms), "clSetKernelArg");
    for (long i = 0; poll(&input, 1, 0) == 0; i++) {
        cl_event *event = &events[i % flight];

        if (*event != NULL) {
            check(clWaitForEvents(1, event), "clWaitForEvents");
            check(clReleaseEvent(*event), "clReleaseEvent");
        }
        if (i == flight) {
            (void)puts("ready");
            (void)fflush(stdout);
        }
        check(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, BYTES, content, 0, NULL,
                                   NULL),
              "clEnqueueWriteBuffer");
        check(
            clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, event),
            "clEnqueueNDRangeKernel");
        check(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, BYTES, content, 0, NULL,
                                  NULL),
              "clEnqueueReadBuffer");
        check(clFlush(queue), "clFlush");
    }
    check(clFinish(queue), "clFinish");
    for (long i = 0; i < flight; i++) {
        if (events[i] != NULL) {
            check(clReleaseEvent(events[i]), "clReleaseEvent");
        }
    }
    check(clReleaseKernel(kernel), "clReleaseKernel");
    check(clReleaseProgram(program), "clReleaseProgram");
    check(clReleaseMemObject(buffer), "clReleaseMemObject");
    check(clReleaseCommandQueue(queue), "clReleaseCommandQueue");
    check(clReleaseContext(context), "clReleaseContext");
    return 0;
}
