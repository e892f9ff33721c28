/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The migrate runtime: a buffer goes back and forth between two devices, as in the paper of
 * PoCL-R: increment on A, migrate, increment on B, migrate back. A kernel that returns 4 bytes
 * checks the content after every finish, outside the measured time. A chain of kernels joined
 * by events alone shows what an event costs from one server to another.
 */
#include "bench/ocl/clutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOP_STEPS = 20, CHAIN_KERNELS = 200, DEVICES = 2 };

static const char source[] =
    "__kernel void increment(__global uint *a) { a[get_global_id(0)] += 1; }\n"
    "__kernel void count_wrong(__global const uint *a, uint want, __global uint "
    "*wrong)\n"
    "{ if (a[get_global_id(0)] != want) { atomic_inc(wrong); } }\n";

struct session {
    const struct bench_settings *settings;
    cl_platform_id platform;
    cl_device_id devices[DEVICES];
    cl_context context;
    cl_command_queue queues[DEVICES];
    cl_program program;
    cl_kernel increment, count_wrong;
    cl_kernel links[DEVICES]; /* of a chain: they increment `wrong` */
    cl_mem wrong[DEVICES]; /* one on each device: it shall not migrate */
    cl_mem buffer;
    size_t bytes;
    int place; /* index of the device that has the content */
    cl_uint steps; /* increments so far */
    unsigned long long traffic; /* [bytes] on the interface while time was taken */
    int traffic_steps;
};

/* ---- the session ---- */

static bool
find_devices(struct session *s)
{
    struct bench_settings settings = *s->settings;

    for (int i = 0; i < DEVICES; i++, settings.device++) {
        if (!ocl_find_device(&settings, &s->platform, &s->devices[i])) {
            return false;
        }
    }
    return true;
}

static bool
make_queues(struct session *s)
{
    const cl_uint zero = 0;
    cl_int status;

    s->context = clCreateContext(NULL, DEVICES, s->devices, NULL, NULL, &status);
    if (s->context == NULL) {
        return ocl_fail("clCreateContext", status);
    }
    for (int i = 0; i < DEVICES; i++) {
        s->queues[i] = clCreateCommandQueue(s->context, s->devices[i], 0, &status);
        if (s->queues[i] == NULL) {
            return ocl_fail("clCreateCommandQueue", status);
        }
        s->wrong[i] =
            clCreateBuffer(s->context, CL_MEM_READ_WRITE, sizeof(zero), NULL, &status);
        if (s->wrong[i] == NULL) {
            return ocl_fail("clCreateBuffer", status);
        }
    }
    return true;
}

static bool
make_kernels(struct session *s)
{
    const char *text = source;
    cl_int status;

    s->program = clCreateProgramWithSource(s->context, 1, &text, NULL, &status);
    if (s->program == NULL) {
        return ocl_fail("clCreateProgramWithSource", status);
    }
    OCL_TRY(clBuildProgram(s->program, DEVICES, s->devices, "", NULL, NULL));
    s->increment = clCreateKernel(s->program, "increment", &status);
    OCL_TRY(status);
    s->count_wrong = clCreateKernel(s->program, "count_wrong", &status);
    OCL_TRY(status);
    for (int i = 0; i < DEVICES; i++) {
        s->links[i] = clCreateKernel(s->program, "increment", &status);
        OCL_TRY(status);
        OCL_TRY(clSetKernelArg(s->links[i], 0, sizeof(s->wrong[i]), &s->wrong[i]));
    }
    return true;
}

/* Copes with a session that was opened in part. */
static void
close_session(void *session)
{
    struct session *s = session;

    for (int i = 0; i < DEVICES; i++) {
        if (s->wrong[i] != NULL) {
            clReleaseMemObject(s->wrong[i]);
        }
        if (s->queues[i] != NULL) {
            clReleaseCommandQueue(s->queues[i]);
        }
        if (s->links[i] != NULL) {
            clReleaseKernel(s->links[i]);
        }
    }
    if (s->increment != NULL) {
        clReleaseKernel(s->increment);
    }
    if (s->count_wrong != NULL) {
        clReleaseKernel(s->count_wrong);
    }
    if (s->program != NULL) {
        clReleaseProgram(s->program);
    }
    if (s->context != NULL) {
        clReleaseContext(s->context);
    }
    free(s);
}

static bool
open_session(const struct bench_settings *settings, void **ret_session)
{
    struct session *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return bench_fail("out of memory for a session");
    }
    s->settings = settings;
    if (find_devices(s) && ocl_print_info(s->platform, s->devices[0]) &&
        make_queues(s) && make_kernels(s)) {
        *ret_session = s;
        return true;
    }
    close_session(s);
    return false;
}

/* ---- commands ---- */

static bool
migrate(struct session *s, int to, const cl_event *after)
{
    OCL_TRY(clEnqueueMigrateMemObjects(s->queues[to], 1, &s->buffer, 0, after != NULL,
                                       after, NULL));
    s->place = to;
    return true;
}

static bool
increment(struct session *s, cl_event *ret_done)
{
    const size_t count = s->bytes / sizeof(cl_uint);

    OCL_TRY(clEnqueueNDRangeKernel(s->queues[s->place], s->increment, 1, NULL, &count,
                                   NULL, 0, NULL, ret_done));
    s->steps++;
    return true;
}

static bool
finish(const struct session *s)
{
    OCL_TRY(clFinish(s->queues[s->place]));
    return true;
}

/* Every number is what it shall be, says a kernel where the content is. */
static bool
check_content(struct session *s)
{
    const size_t count = s->bytes / sizeof(cl_uint);
    cl_command_queue queue = s->queues[s->place];
    cl_mem wrong = s->wrong[s->place];
    cl_uint found = 0;

    OCL_TRY(clEnqueueWriteBuffer(queue, wrong, CL_TRUE, 0, sizeof(found), &found, 0,
                                 NULL, NULL));
    OCL_TRY(clSetKernelArg(s->count_wrong, 0, sizeof(s->buffer), &s->buffer));
    OCL_TRY(clSetKernelArg(s->count_wrong, 1, sizeof(s->steps), &s->steps));
    OCL_TRY(clSetKernelArg(s->count_wrong, 2, sizeof(wrong), &wrong));
    OCL_TRY(clEnqueueNDRangeKernel(queue, s->count_wrong, 1, NULL, &count, NULL, 0,
                                   NULL, NULL));
    OCL_TRY(clEnqueueReadBuffer(queue, wrong, CL_TRUE, 0, sizeof(found), &found, 0,
                                NULL, NULL));
    return found == 0 || bench_fail("after %u steps %u of %zu numbers are wrong",
                                    s->steps, found, count);
}

/* ---- what is measured ---- */

/* Bytes that an interface of this network namespace has sent and received. */
static unsigned long long
interface_bytes(const char *name)
{
    unsigned long long in, out, sum = 0;
    char line[512];
    FILE *file = name != NULL ? fopen("/proc/self/net/dev", "r") : NULL;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *colon = strchr(line, ':');
        const char *start = line + strspn(line, " ");

        if (colon != NULL && (size_t)(colon - start) == strlen(name) &&
            strncmp(start, name, strlen(name)) == 0 &&
            sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &in, &out) ==
                2) {
            sum = in + out;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return sum;
}

/* Takes time and traffic of a part; the time is that of one step. */
static bool
measure(struct session *s, bool (*part)(struct session *s), int steps, double *ret_us)
{
    const unsigned long long bytes = interface_bytes(s->settings->interface);
    const double start = bench_now_us();
    const bool good = part(s);

    *ret_us = (bench_now_us() - start) / steps;
    s->traffic += interface_bytes(s->settings->interface) - bytes;
    s->traffic_steps += steps;
    return good;
}

static bool
do_migration(struct session *s)
{
    return migrate(s, 1 - s->place, NULL) && finish(s);
}

static bool
do_step(struct session *s)
{
    return migrate(s, 1 - s->place, NULL) && increment(s, NULL) && finish(s);
}

static bool
do_loop(struct session *s)
{
    cl_event done = NULL;

    for (int i = 0; i < LOOP_STEPS; i++) {
        const cl_event last = done;
        const bool good = migrate(s, 1 - s->place, last != NULL ? &last : NULL) &&
                          increment(s, &done);

        if (last != NULL) {
            clReleaseEvent(last);
        }
        if (!good) {
            return false;
        }
    }
    OCL_TRY(clReleaseEvent(done));
    return finish(s);
}

static bool
run_migration(void *session, double *own_us)
{
    struct session *s = session;

    return measure(s, do_migration, 1, own_us) && increment(s, NULL) &&
           check_content(s);
}

static bool
run_step(void *session, double *own_us)
{
    return measure(session, do_step, 1, own_us) && check_content(session);
}

static bool
run_loop(void *session, double *own_us)
{
    return measure(session, do_loop, LOOP_STEPS, own_us) && check_content(session);
}

/* ---- chains ---- */

/* Kernels that wait for the event of the one before, on @p devices devices in turn. */
static bool
run_links(struct session *s, int devices)
{
    const size_t one = 1;
    cl_event done = NULL;

    for (int i = 0; i < CHAIN_KERNELS; i++) {
        const cl_event last = done;
        const int at = i % devices;

        OCL_TRY(clEnqueueNDRangeKernel(s->queues[at], s->links[at], 1, NULL, &one, NULL,
                                       last != NULL, last != NULL ? &last : NULL,
                                       &done));
        if (last != NULL) {
            clReleaseEvent(last);
        }
    }
    OCL_TRY(clWaitForEvents(1, &done));
    OCL_TRY(clReleaseEvent(done));
    return true;
}

/* Runs a chain, and reads the counts of its kernels outside the time. */
static bool
run_chain_on(struct session *s, int devices, double *own_us)
{
    double start;

    for (int i = 0; i < devices; i++) {
        const cl_uint zero = 0;

        OCL_TRY(clEnqueueWriteBuffer(s->queues[i], s->wrong[i], CL_TRUE, 0,
                                     sizeof(zero), &zero, 0, NULL, NULL));
        OCL_TRY(clFinish(s->queues[i]));
    }
    start = bench_now_us();
    if (!run_links(s, devices)) {
        return false;
    }
    *own_us = (bench_now_us() - start) / CHAIN_KERNELS;
    for (int i = 0; i < devices; i++) {
        cl_uint ran = 0;

        OCL_TRY(clEnqueueReadBuffer(s->queues[i], s->wrong[i], CL_TRUE, 0, sizeof(ran),
                                    &ran, 0, NULL, NULL));
        if (ran != (cl_uint)(CHAIN_KERNELS / devices)) {
            return bench_fail("%u of %d kernels ran on device %d", ran,
                              CHAIN_KERNELS / devices, i);
        }
    }
    return true;
}

static bool
run_chain(void *session, double *own_us)
{
    return run_chain_on(session, DEVICES, own_us);
}

static bool
run_chain_one(void *session, double *own_us)
{
    return run_chain_on(session, 1, own_us);
}

static bool
start(void *session, size_t bytes)
{
    struct session *s = session;
    const cl_uint zero = 0;
    cl_int status;

    if (bytes % sizeof(zero) != 0) {
        return bench_fail("%zu is not a multiple of 4", bytes);
    }
    s->bytes = bytes;
    s->place = 0;
    s->steps = 0;
    s->traffic = 0;
    s->traffic_steps = 0;
    s->buffer = clCreateBuffer(s->context, CL_MEM_READ_WRITE, bytes, NULL, &status);
    if (s->buffer == NULL) {
        return ocl_fail("clCreateBuffer", status);
    }
    OCL_TRY(clEnqueueFillBuffer(s->queues[0], s->buffer, &zero, sizeof(zero), 0, bytes,
                                0, NULL, NULL));
    OCL_TRY(clSetKernelArg(s->increment, 0, sizeof(s->buffer), &s->buffer));
    return increment(s, NULL) && check_content(s);
}

/* Every run has checked its own. */
static bool
check(void *session)
{
    const struct session *s = session;

    if (s->settings->interface != NULL && s->traffic_steps > 0) {
        printf("traffic %zu %llu %d\n", s->bytes, s->traffic, s->traffic_steps);
    }
    return true;
}

static void
stop(void *session)
{
    struct session *s = session;

    if (s->buffer != NULL) {
        clReleaseMemObject(s->buffer);
        s->buffer = NULL;
    }
}

static const struct bench_case cases[] = {
    {"migrate", "migrate, clFinish; a kernel between, outside the time",
     &bench_migration, 1, "tcp_write", 1, start, run_migration, check, stop},
    {"step", "migrate, increment, clFinish", &bench_migration, 1, "tcp_write", 1, start,
     run_step, check, stop},
    {"loop", "20 times migrate and increment, one clFinish (per step)",
     &bench_migration, 1, "tcp_write", 1, start, run_loop, check, stop},
    {"chain", "200 kernels on both devices in turn, each after the last (per kernel)",
     &bench_batch, 1, "tcp_pingpong", 0.5, NULL, run_chain, check, NULL},
    {"chain_one", "the same on one device (per kernel)", &bench_batch, 1, NULL, 0, NULL,
     run_chain_one, check, NULL},
};

const struct bench_runtime bench_migrate = {
    .name = "migrate",
    .cases = cases,
    .case_count = sizeof(cases) / sizeof(cases[0]),
    .open = open_session,
    .close = close_session,
};
