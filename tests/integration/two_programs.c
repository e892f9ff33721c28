/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two programs at once on one server, one of them with sixteen threads. Every thread does
 * random commands on buffers of its own and of its program's, on queues of its own, and
 * compares what it reads with a model on the host.
 *
 *     two_programs             starts a server and both programs
 *     two_programs THREADS     is one of them
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "servers.h"

enum { THREADS_MAX = 16, COUNT = 1024, ROUNDS = 60, COMMANDS_MAX = 12, LIMIT_S = 100 };

/* The test driver has a kernel of this name and arguments, too. */
static const char source[] =
    "__kernel void inc(__global int *x, int by) { x[get_global_id(0)] += by; }\n";

static struct {
    cl_device_id device;
    cl_context context;
    cl_program program;
    cl_mem common; /* content as of fill_common; only read */
} shared;

struct worker {
    pthread_t thread;
    uint32_t random;
    cl_command_queue queue, other;
    cl_kernel kernel;
    cl_mem a, b;
    cl_int model_a[COUNT], model_b[COUNT], got[COUNT];
};

#define ok(call)                                                                       \
    do {                                                                               \
        cl_int err_ = (call);                                                          \
        if (err_ != CL_SUCCESS) {                                                      \
            fail(__LINE__, err_);                                                      \
        }                                                                              \
    } while (0)

static void
fail(int line, cl_int err)
{
    (void)fprintf(stderr, "two_programs.c:%d: program %ld: error %d\n", line,
                  (long)getpid(), err);
    _exit(1);
}

static uint32_t
any(struct worker *w, uint32_t below)
{
    w->random = w->random * 1664525U + 1013904223U;
    return (w->random >> 8) % below;
}

static cl_int
common_at(size_t i)
{
    return (cl_int)(i * 7 + 3);
}

static void
expect(const struct worker *w, const cl_int *model)
{
    if (memcmp(w->got, model, sizeof(w->got)) != 0) {
        (void)fprintf(stderr, "wrong values\n");
        fail(__LINE__, 0);
    }
}

/* ---- one thread ---- */

static void
run_kernel(struct worker *w)
{
    const size_t count = COUNT;
    cl_int v = (cl_int)any(w, 100);

    ok(clSetKernelArg(w->kernel, 0, sizeof(cl_mem), &w->a));
    ok(clSetKernelArg(w->kernel, 1, sizeof(v), &v));
    ok(clEnqueueNDRangeKernel(w->queue, w->kernel, 1, NULL, &count, NULL, 0, NULL,
                              NULL));
    for (size_t i = 0; i < COUNT; i++) {
        w->model_a[i] += v;
    }
}

static void
run_write(struct worker *w)
{
    size_t first = any(w, COUNT), count = 1 + any(w, (uint32_t)(COUNT - first));
    cl_int *values = malloc(count * sizeof(*values));

    if (values == NULL) {
        fail(__LINE__, CL_OUT_OF_HOST_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = w->model_a[first + i] = (cl_int)any(w, 1 << 20);
    }
    ok(clEnqueueWriteBuffer(w->queue, w->a, CL_TRUE, first * sizeof(cl_int),
                            count * sizeof(cl_int), values, 0, NULL, NULL));
    free(values);
}

static void
run_fill(struct worker *w)
{
    cl_int v = (cl_int)any(w, 1 << 20);

    ok(clEnqueueFillBuffer(w->queue, w->a, &v, sizeof(v), 0, sizeof(w->model_a), 0,
                           NULL, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        w->model_a[i] = v;
    }
}

static void
run_copy(struct worker *w)
{
    ok(clEnqueueCopyBuffer(w->queue, w->a, w->b, 0, 0, sizeof(w->model_a), 0, NULL,
                           NULL));
    memcpy(w->model_b, w->model_a, sizeof(w->model_b));
}

static void
run_common(struct worker *w)
{
    ok(clEnqueueCopyBuffer(w->queue, shared.common, w->a, 0, 0, sizeof(w->model_a), 0,
                           NULL, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        w->model_a[i] = common_at(i);
    }
}

/* The second queue takes over from the first by an event, and back. */
static void
run_other(struct worker *w)
{
    cl_event before, after;

    ok(clEnqueueMarkerWithWaitList(w->queue, 0, NULL, &before));
    ok(clFlush(w->queue));
    ok(clEnqueueCopyBuffer(w->other, w->b, w->a, 0, 0, sizeof(w->model_a), 1, &before,
                           &after));
    ok(clFlush(w->other));
    ok(clEnqueueBarrierWithWaitList(w->queue, 1, &after, NULL));
    ok(clReleaseEvent(before));
    ok(clReleaseEvent(after));
    memcpy(w->model_a, w->model_b, sizeof(w->model_a));
}

static void
run_map(struct worker *w)
{
    cl_int err, *values = clEnqueueMapBuffer(w->queue, w->a, CL_TRUE,
                                             CL_MAP_READ | CL_MAP_WRITE, 0,
                                             sizeof(w->model_a), 0, NULL, NULL, &err);

    ok(err);
    memcpy(w->got, values, sizeof(w->got));
    expect(w, w->model_a);
    values[any(w, COUNT)] = 5;
    memcpy(w->model_a, values, sizeof(w->model_a));
    ok(clEnqueueUnmapMemObject(w->queue, w->a, values, 0, NULL, NULL));
}

/* A buffer that lives shortly, as ids come and go. */
static void
run_object(struct worker *w)
{
    cl_int err;
    cl_mem mem = clCreateBuffer(shared.context, CL_MEM_COPY_HOST_PTR,
                                sizeof(w->model_b), w->model_b, &err);

    ok(err);
    ok(clEnqueueCopyBuffer(w->queue, mem, w->a, 0, 0, sizeof(w->model_a), 0, NULL,
                           NULL));
    ok(clReleaseMemObject(mem));
    memcpy(w->model_a, w->model_b, sizeof(w->model_a));
}

static void
check_both(struct worker *w)
{
    ok(clEnqueueReadBuffer(w->queue, w->a, CL_TRUE, 0, sizeof(w->got), w->got, 0, NULL,
                           NULL));
    expect(w, w->model_a);
    ok(clEnqueueReadBuffer(w->queue, w->b, CL_TRUE, 0, sizeof(w->got), w->got, 0, NULL,
                           NULL));
    expect(w, w->model_b);
}

static void *
work(void *arg)
{
    static void (*const commands[])(struct worker *) = {
        run_kernel, run_kernel, run_write, run_fill,  run_copy,
        run_common, run_other,  run_map,   run_object};
    struct worker *w = arg;

    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t n = any(w, COMMANDS_MAX); n > 0; n--) {
            commands[any(w, sizeof(commands) / sizeof(commands[0]))](w);
        }
        check_both(w);
    }
    return NULL;
}

/* ---- one program ---- */

static void
open_shared(void)
{
    const char *text = source;
    cl_int values[COUNT], err;
    cl_platform_id platform;

    for (size_t i = 0; i < COUNT; i++) {
        values[i] = common_at(i);
    }
    ok(clGetPlatformIDs(1, &platform, NULL));
    ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &shared.device, NULL));
    shared.context = clCreateContext(NULL, 1, &shared.device, NULL, NULL, &err);
    ok(err);
    shared.program = clCreateProgramWithSource(shared.context, 1, &text, NULL, &err);
    ok(err);
    ok(clBuildProgram(shared.program, 1, &shared.device, "", NULL, NULL));
    shared.common = clCreateBuffer(shared.context, CL_MEM_COPY_HOST_PTR, sizeof(values),
                                   values, &err);
    ok(err);
}

static void
open_worker(struct worker *w, uint32_t seed)
{
    cl_int err;

    memset(w, 0, sizeof(*w));
    w->random = seed;
    w->queue =
        clCreateCommandQueueWithProperties(shared.context, shared.device, NULL, &err);
    ok(err);
    w->other =
        clCreateCommandQueueWithProperties(shared.context, shared.device, NULL, &err);
    ok(err);
    w->kernel = clCreateKernel(shared.program, "inc", &err);
    ok(err);
    w->a = clCreateBuffer(shared.context, CL_MEM_COPY_HOST_PTR, sizeof(w->model_a),
                          w->model_a, &err);
    ok(err);
    w->b = clCreateBuffer(shared.context, CL_MEM_COPY_HOST_PTR, sizeof(w->model_b),
                          w->model_b, &err);
    ok(err);
}

static void
close_worker(const struct worker *w)
{
    ok(clReleaseMemObject(w->a));
    ok(clReleaseMemObject(w->b));
    ok(clReleaseKernel(w->kernel));
    ok(clReleaseCommandQueue(w->queue));
    ok(clReleaseCommandQueue(w->other));
}

static int
run_program(int threads)
{
    static struct worker workers[THREADS_MAX];

    open_shared();
    for (int i = 0; i < threads; i++) {
        open_worker(&workers[i], (uint32_t)(threads * 100 + i));
    }
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fail(__LINE__, 0);
        }
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        close_worker(&workers[i]);
    }
    ok(clReleaseMemObject(shared.common));
    ok(clReleaseProgram(shared.program));
    ok(clReleaseContext(shared.context));
    return 0;
}

/* ---- both ---- */

static pid_t
start_program(const char *self, const char *threads)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)alarm(LIMIT_S); /* no hang outlives us for long */
        (void)execl(self, self, threads, (char *)NULL);
        perror(self);
        _exit(127);
    }
    return pid;
}

static bool
ended_well(pid_t pid, const char *what)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        (void)fprintf(stderr, "the program with %s threads ended with %#x\n", what,
                      (unsigned)status);
    }
    return status == 0;
}

int
main(int argc, char **argv)
{
    struct servers servers;
    bool good;
    pid_t many, few;
    int threads = argc == 2 ? atoi(argv[1]) : 0;

    if (threads > 0 && threads <= THREADS_MAX) {
        return run_program(threads);
    }
    if (servers_start(&servers, 1) != 0) {
        return 1;
    }
    many = start_program(argv[0], "16");
    few = start_program(argv[0], "2");
    good = ended_well(few, "2");
    good = ended_well(many, "16") && good;
    servers_stop(&servers);
    return good ? 0 : 1;
}
