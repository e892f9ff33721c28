/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy_program MS FLIGHT: keeps FLIGHT kernels of MS milliseconds under way on one queue until
 * its standard input ends, and writes and reads 4096 bytes with each. For the test driver,
 * whose kernel sleeps. Prints "ready" once the first kernel has ended.
 *
 * busy_program MS FLIGHT blocked: FLIGHT kernels on two queues cannot run before a user event,
 * which is set at the end of the input. "ready": they are sent.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <poll.h>
#include <stdbool.h>
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

/* The first kernel waits for the user event, the others each for the one before, by its event
 * or by the order of their queue. */
static void
run_blocked(cl_context context, const cl_command_queue queues[2], cl_kernel kernel,
            long flight, struct pollfd *input)
{
    const size_t one = 1;
    cl_int error;
    cl_event user = clCreateUserEvent(context, &error), events[FLIGHT_MAX];

    check(error, "clCreateUserEvent");
    for (long i = 0; i < flight; i++) {
        cl_uint waits = i % 4 == 1 ? 0 : 1;

        check(clEnqueueNDRangeKernel(queues[i / 2 % 2], kernel, 1, NULL, &one, NULL,
                                     waits,
                                     waits == 0 ? NULL
                                     : i == 0   ? &user
                                                : &events[i - 1],
                                     &events[i]),
              "clEnqueueNDRangeKernel");
    }
    check(clFlush(queues[0]), "clFlush");
    check(clFlush(queues[1]), "clFlush");
    (void)puts("ready");
    (void)fflush(stdout);
    (void)poll(input, 1, -1);
    check(clSetUserEventStatus(user, CL_COMPLETE), "clSetUserEventStatus");
    check(clFinish(queues[0]), "clFinish");
    check(clFinish(queues[1]), "clFinish");
    for (long i = 0; i < flight; i++) {
        check(clReleaseEvent(events[i]), "clReleaseEvent");
    }
    check(clReleaseEvent(user), "clReleaseEvent");
}

int
main(int argc, char **argv)
{
    const char *text = "kernel void sleep_ms(int ms) {}";
    cl_int ms = argc >= 3 ? atoi(argv[1]) : 0, error;
    long flight = argc >= 3 ? atol(argv[2]) : 0;
    bool blocked = argc == 4;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    static char content[BYTES];
    const size_t one = 1;
    cl_event events[FLIGHT_MAX] = {NULL};
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue, other;
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
    other = clCreateCommandQueue(context, device, 0, &error);
    check(error, "clCreateCommandQueue");
    buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &error);
    check(error, "clCreateBuffer");
    program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    check(error, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    kernel = clCreateKernel(program, "sleep_ms", &error);
    check(error, "clCreateKernel");
    check(clSetKernelArg(kernel, 0, sizeof(ms), &ms), "clSetKernelArg");
    if (blocked) {
        run_blocked(context, (cl_command_queue[]){queue, other}, kernel, flight,
                    &input);
    }
    for (long i = 0; !blocked && poll(&input, 1, 0) == 0; i++) {
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
    check(clReleaseCommandQueue(other), "clReleaseCommandQueue");
    check(clReleaseContext(context), "clReleaseContext");
    return 0;
}
