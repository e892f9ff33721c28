/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of fault_steps.py: three servers, of which one may die or stop while content goes
 * from the first to the second. Says how the commands ended and what is left:
 *
 *     ready                   content is where it must be; goes on at a line of input
 *     ended S0 S1 S2 MS       status of the migration, of a copy after it, of a marker after that on
 *                             the third server, or errors of the calls; after so long
 *     alive A0 A1 A2          which servers still compute
 *     quiet MS                longest time without a round of the program beside, on the third one
 *
 * Exit status 0: each content that is left is exact, and servers that are left work together.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { SERVERS = 3, DEVICES_MAX = 48, SIZE = 24 << 20, SMALL = 256 << 10 };

static cl_context context;
static cl_command_queue queues[SERVERS];
static cl_mem probes[SERVERS];
static unsigned char pattern[SIZE], got[SIZE];
static _Atomic bool ends;
static double longest_ms;

static void
open_all(void)
{
    cl_platform_id platform;
    cl_device_id all[DEVICES_MAX], devices[SERVERS];
    cl_uint count;
    cl_int err;

    must(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS, "clGetPlatformIDs", 0);
    err = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, all, &count);
    must(err == CL_SUCCESS && count % SERVERS == 0, "devices", (long)count);
    for (cl_uint i = 0; i < SERVERS; i++) {
        devices[i] = all[i * (count / SERVERS)];
    }
    context = clCreateContext(NULL, SERVERS, devices, NULL, NULL, &err);
    must(err == CL_SUCCESS, "clCreateContext", err);
    for (int i = 0; i < SERVERS; i++) {
        queues[i] = clCreateCommandQueueWithProperties(context, devices[i], NULL, &err);
        must(err == CL_SUCCESS, "clCreateCommandQueueWithProperties", err);
        probes[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, 4, NULL, &err);
        must(err == CL_SUCCESS, "clCreateBuffer", err);
    }
}

static cl_mem
buffer_on(int server, size_t size)
{
    cl_int err;
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &err);

    must(err == CL_SUCCESS, "clCreateBuffer", err);
    err = clEnqueueWriteBuffer(queues[server], mem, CL_TRUE, 0, size, pattern, 0, NULL,
                               NULL);
    must(err == CL_SUCCESS, "clEnqueueWriteBuffer", err);
    return mem;
}

/* Writes on one server, and has the content on the third one, too. */
static cl_mem
buffer_on_two(int server)
{
    cl_mem mem = buffer_on(server, SMALL);
    cl_int err = clEnqueueMigrateMemObjects(queues[2], 1, &mem, 0, 0, NULL, NULL);

    must(err == CL_SUCCESS, "clEnqueueMigrateMemObjects", err);
    must(clFinish(queues[2]) == CL_SUCCESS, "clFinish", 2);
    return mem;
}

static void
expect_content(const char *what, int server, cl_mem mem, size_t size)
{
    cl_int err;

    memset(got, 0, size);
    err =
        clEnqueueReadBuffer(queues[server], mem, CL_TRUE, 0, size, got, 0, NULL, NULL);
    must(err == CL_SUCCESS, what, err);
    must(memcmp(got, pattern, size) == 0, what, server);
}

/* A program that has nothing to do with the others: nothing may hold it up. */
static void *
compute_beside(void *arg)
{
    cl_command_queue queue = arg;
    cl_int err, value = 0;
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, 4, NULL, &err);
    double last = now_ms(), now;

    for (cl_int i = 1; !ends; i++) {
        err = clEnqueueFillBuffer(queue, mem, &i, 4, 0, 4, 0, NULL, NULL);
        must(err == CL_SUCCESS, "fill beside", err);
        err = clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, 4, &value, 0, NULL, NULL);
        must(err == CL_SUCCESS && value == i, "read beside", err);
        now = now_ms();
        longest_ms = now - last > longest_ms ? now - last : longest_ms;
        last = now;
    }
    must(clReleaseMemObject(mem) == CL_SUCCESS, "clReleaseMemObject", 0);
    return NULL;
}

/* @return the status that a command ends with, or the error of the call */
static cl_int
await(cl_int err, cl_event event)
{
    cl_int status;

    if (err != CL_SUCCESS) {
        return err;
    }
    (void)clWaitForEvents(1, &event);
    err = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                         &status, NULL);
    must(err == CL_SUCCESS && status <= CL_COMPLETE, "event", status);
    return status;
}

static void
move(cl_mem moving, cl_mem copy, cl_int ret_status[3])
{
    cl_event events[3] = {NULL, NULL, NULL};
    double begin = now_ms();
    cl_int errors[3];

    errors[0] = clEnqueueMigrateMemObjects(queues[1], 1, &moving, 0, 0, NULL, events);
    errors[1] =
        clEnqueueCopyBuffer(queues[1], moving, copy, 0, 0, SIZE, 0, NULL, &events[1]);
    errors[2] = errors[1] != CL_SUCCESS
                    ? errors[1]
                    : clEnqueueMarkerWithWaitList(queues[2], 1, &events[1], &events[2]);
    for (int i = 0; i < SERVERS; i++) {
        (void)clFlush(queues[i]); /* fails where the server is lost */
    }
    for (int i = 0; i < 3; i++) {
        ret_status[i] = await(errors[i], events[i]);
    }
    (void)printf("ended %d %d %d %.0f\n", ret_status[0], ret_status[1], ret_status[2],
                 now_ms() - begin);
    (void)fflush(stdout);
    for (int i = 0; i < 3; i++) {
        must(events[i] == NULL || clReleaseEvent(events[i]) == CL_SUCCESS,
             "clReleaseEvent", i);
    }
}

/* @return which servers still compute */
static void
look_alive(bool ret_alive[SERVERS])
{
    const cl_int one = 1;

    for (int i = 0; i < SERVERS; i++) {
        ret_alive[i] = clEnqueueFillBuffer(queues[i], probes[i], &one, sizeof(one), 0,
                                           sizeof(one), 0, NULL, NULL) == CL_SUCCESS &&
                       clFinish(queues[i]) == CL_SUCCESS;
    }
    (void)printf("alive %d %d %d\n", ret_alive[0], ret_alive[1], ret_alive[2]);
    (void)fflush(stdout);
}

/* Servers that are left pass content to each other. */
static void
expect_pairs(const bool alive[SERVERS])
{
    for (int from = 0; from < SERVERS; from++) {
        for (int to = 0; to < SERVERS; to++) {
            if (from != to && alive[from] && alive[to]) {
                cl_mem mem = buffer_on(from, SMALL);

                expect_content("content that passes afterwards", to, mem, SMALL);
                must(clReleaseMemObject(mem) == CL_SUCCESS, "clReleaseMemObject", to);
            }
        }
    }
}

int
main(void)
{
    cl_mem moving, copy, kept[2];
    bool alive[SERVERS];
    cl_command_queue beside;
    cl_device_id device;
    pthread_t thread;
    cl_int status[3], err;

    for (int i = 0; i < SIZE; i++) {
        pattern[i] = (unsigned char)(i * 7 + i / 251);
    }
    open_all();
    moving = buffer_on(0, SIZE);
    copy = clCreateBuffer(context, CL_MEM_READ_WRITE, SIZE, NULL, &err);
    must(err == CL_SUCCESS, "clCreateBuffer", err);
    kept[0] = buffer_on_two(0);
    kept[1] = buffer_on_two(1);
    err = clGetCommandQueueInfo(queues[2], CL_QUEUE_DEVICE, sizeof(device), &device,
                                NULL);
    must(err == CL_SUCCESS, "clGetCommandQueueInfo", err);
    beside = clCreateCommandQueueWithProperties(context, device, NULL, &err);
    must(err == CL_SUCCESS, "clCreateCommandQueueWithProperties", err);
    (void)printf("ready\n");
    (void)fflush(stdout);
    must(getchar() == '\n', "a line of input", 0);
    must(pthread_create(&thread, NULL, compute_beside, beside) == 0, "pthread_create",
         0);
    move(moving, copy, status);
    look_alive(alive);
    must(status[0] == CL_COMPLETE || status[1] < 0, "copy without its content",
         status[1]);
    if (alive[0]) {
        expect_content("content at its first place", 0, moving, SIZE);
    }
    if (alive[1] && status[0] == CL_COMPLETE) {
        expect_content("content at its second place", 1, moving, SIZE);
    }
    if (alive[1] && status[1] == CL_COMPLETE) {
        expect_content("the copy", 1, copy, SIZE);
    }
    expect_content("content that is on the third, too", 2, kept[0], SMALL);
    expect_content("content that is on the third, too", 2, kept[1], SMALL);
    expect_pairs(alive);
    ends = true;
    must(pthread_join(thread, NULL) == 0, "pthread_join", 0);
    (void)printf("quiet %.0f\n", longest_ms);
    return 0;
}
