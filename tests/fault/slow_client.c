/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of fault_slow.py: gives a server more than it takes at once.
 *
 *     slow_client writes COUNT MS     so many writes of 4 KiB behind a kernel of MS; each one arrives
 *     slow_client refused COUNT ROOM  the same behind a user event, which is set after the last write:
 *                                     at least ROOM of them are done, and what the server has no
 *                                     memory for fails
 *     slow_client contexts COUNT      so many contexts, each with a buffer of 8 KiB that has its content
 *
 * Exit status 0: everything was as it must be.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { WORDS = 1024, CONTEXT_WORDS = 2048 };

/* A kernel of the test driver. */
static const char source[] = "__kernel void sleep_ms(int ms) { }\n";

static cl_device_id device;

static cl_command_queue
create_queue(cl_context context)
{
    cl_int err;
    cl_command_queue queue =
        clCreateCommandQueueWithProperties(context, device, NULL, &err);

    must(err == CL_SUCCESS, "clCreateCommandQueueWithProperties", err);
    return queue;
}

static cl_context
create_context(void)
{
    cl_int err;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &err);

    must(err == CL_SUCCESS, "clCreateContext", err);
    return context;
}

/** A buffer for @p count writes, each of WORDS words from the word with its number on. */
static cl_mem
create_target(cl_context context, int count)
{
    cl_int err;
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE,
                                sizeof(cl_int) * ((size_t)count + WORDS), NULL, &err);

    must(err == CL_SUCCESS, "clCreateBuffer", err);
    return mem;
}

static cl_int
enqueue_write(cl_command_queue queue, cl_mem mem, int number, cl_event *event)
{
    cl_int content[WORDS];

    for (int i = 0; i < WORDS; i++) {
        content[i] = number;
    }
    return clEnqueueWriteBuffer(queue, mem, CL_FALSE, sizeof(cl_int) * (size_t)number,
                                sizeof(content), content, 0, NULL, event);
}

static void
enqueue_sleep(cl_context context, cl_command_queue queue, cl_int ms)
{
    const char *text = source;
    const size_t one = 1;
    cl_int err;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &err);
    cl_kernel kernel;

    must(err == CL_SUCCESS, "clCreateProgramWithSource", err);
    err = clBuildProgram(program, 1, &device, "", NULL, NULL);
    must(err == CL_SUCCESS, "clBuildProgram", err);
    kernel = clCreateKernel(program, "sleep_ms", &err);
    must(err == CL_SUCCESS, "clCreateKernel", err);
    err = clSetKernelArg(kernel, 0, sizeof(ms), &ms);
    must(err == CL_SUCCESS, "clSetKernelArg", err);
    err = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
    must(err == CL_SUCCESS, "clEnqueueNDRangeKernel", err);
    (void)clReleaseKernel(kernel);
    (void)clReleaseProgram(program);
}

/** The first word of a write stays; later ones begin behind it. */
static void
expect_writes(cl_command_queue queue, cl_mem mem, int count)
{
    size_t size = sizeof(cl_int) * (size_t)count;
    cl_int *got = malloc(size);
    cl_int err;

    must(got != NULL, "malloc", 0);
    err = clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, size, got, 0, NULL, NULL);
    must(err == CL_SUCCESS, "clEnqueueReadBuffer", err);
    for (int i = 0; i < count; i++) {
        must(got[i] == i, "write that is lost", i);
    }
    free(got);
}

static void
run_writes(int count, int ms)
{
    cl_context context = create_context();
    cl_command_queue queue = create_queue(context);
    cl_mem mem = create_target(context, count);
    double start = now_ms();
    cl_int err;

    enqueue_sleep(context, queue, ms);
    must(clFlush(queue) == CL_SUCCESS, "clFlush", 0);
    for (int i = 0; i < count; i++) {
        err = enqueue_write(queue, mem, i, NULL);
        must(err == CL_SUCCESS, "clEnqueueWriteBuffer", err);
    }
    (void)printf("%d writes queued in %.0f ms\n", count, now_ms() - start);
    expect_writes(queue, mem, count);
    (void)clReleaseMemObject(mem);
    (void)clReleaseCommandQueue(queue);
    (void)clReleaseContext(context);
}

/** @return how many were refused; the others completed */
static int
count_refused(cl_event *events, int count)
{
    int refused = 0;

    for (int i = 0; i < count; i++) {
        cl_int status = 1, err;

        err = clWaitForEvents(1, &events[i]);
        must(err == CL_SUCCESS || err == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
             "clWaitForEvents", err);
        err = clGetEventInfo(events[i], CL_EVENT_COMMAND_EXECUTION_STATUS,
                             sizeof(status), &status, NULL);
        must(err == CL_SUCCESS, "clGetEventInfo", err);
        must(status == CL_COMPLETE || status == CL_OUT_OF_HOST_MEMORY,
             "status of a write", status);
        refused += status != CL_COMPLETE;
        (void)clReleaseEvent(events[i]);
    }
    return refused;
}

static void
run_refused(int count, int room)
{
    cl_context context = create_context();
    cl_command_queue queue = create_queue(context);
    cl_mem mem = create_target(context, count);
    cl_event *events = calloc((size_t)count, sizeof(cl_event));
    cl_int err;
    cl_event gate = clCreateUserEvent(context, &err);
    int refused;

    must(err == CL_SUCCESS && events != NULL, "clCreateUserEvent", err);
    err = clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL);
    must(err == CL_SUCCESS, "clEnqueueBarrierWithWaitList", err);
    for (int i = 0; i < count; i++) {
        err = enqueue_write(queue, mem, i, &events[i]);
        must(err == CL_SUCCESS, "clEnqueueWriteBuffer", err);
    }
    must(clSetUserEventStatus(gate, CL_COMPLETE) == CL_SUCCESS, "the gate", 0);
    refused = count_refused(events, count);
    must(refused > 0 && refused <= count - room, "writes refused", refused);
    (void)printf("%d of %d writes refused\n", refused, count);
    must(enqueue_write(queue, mem, 0, NULL) == CL_SUCCESS, "a write after them", 0);
    expect_writes(queue, mem, 1);
    free(events);
    (void)clReleaseEvent(gate);
    (void)clReleaseMemObject(mem);
    (void)clReleaseCommandQueue(queue);
    (void)clReleaseContext(context);
}

struct place {
    cl_context context;
    cl_mem mem;
};

static struct place
create_place(cl_int number)
{
    cl_int content[CONTEXT_WORDS], err;
    struct place place = {.context = create_context()};

    for (int i = 0; i < CONTEXT_WORDS; i++) {
        content[i] = number;
    }
    place.mem = clCreateBuffer(place.context, CL_MEM_COPY_HOST_PTR, sizeof(content),
                               content, &err);
    must(err == CL_SUCCESS, "clCreateBuffer", err);
    return place;
}

static void
expect_place(const struct place *place, cl_int number)
{
    cl_int content[CONTEXT_WORDS], err;
    cl_command_queue queue = create_queue(place->context);

    err = clEnqueueReadBuffer(queue, place->mem, CL_TRUE, 0, sizeof(content), content,
                              0, NULL, NULL);
    must(err == CL_SUCCESS, "clEnqueueReadBuffer", err);
    for (int i = 0; i < CONTEXT_WORDS; i++) {
        must(content[i] == number, "content of context", number);
    }
    (void)clReleaseCommandQueue(queue);
    (void)clReleaseMemObject(place->mem);
    (void)clReleaseContext(place->context);
}

static void
run_contexts(int count)
{
    struct place *places = calloc((size_t)count, sizeof(*places));
    double start = now_ms();

    must(places != NULL, "calloc", 0);
    for (int i = 0; i < count; i++) {
        places[i] = create_place(i);
    }
    (void)printf("%d contexts queued in %.0f ms\n", count, now_ms() - start);
    (void)fflush(stdout);
    for (int i = 0; i < count; i++) {
        expect_place(&places[i], i);
    }
    free(places);
}

int
main(int argc, char **argv)
{
    cl_platform_id platform;
    cl_int err = clGetPlatformIDs(1, &platform, NULL);
    int count = argc > 2 ? atoi(argv[2]) : 0;

    must(err == CL_SUCCESS, "clGetPlatformIDs", err);
    err = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    must(err == CL_SUCCESS, "clGetDeviceIDs", err);
    if (argc == 4 && strcmp(argv[1], "writes") == 0) {
        run_writes(count, atoi(argv[3]));
    } else if (argc == 4 && strcmp(argv[1], "refused") == 0) {
        run_refused(count, atoi(argv[3]));
    } else if (argc == 3 && strcmp(argv[1], "contexts") == 0) {
        run_contexts(count);
    } else {
        must(false,
             "usage: slow_client writes COUNT MS|refused COUNT ROOM|contexts COUNT", 2);
    }
    (void)printf("done\n");
    return 0;
}
