/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow around a cylinder by the lattice-Boltzmann method, an ordinary OpenCL program.
 *
 * The channel is cut into strips, one for each device of one context:
 *
 *     inlet -> | strip 0 | strip 1 | ... | -> outlet
 *
 * A step of a strip is two kernels on its in-order queue: first the inner columns, which
 * need nothing from elsewhere, then the two edge columns, which need the neighbours'
 * halos of the step before. Each device pulls its halos (three directions of one
 * column, a few KB) on a second queue as soon as the neighbour's edges are done, while
 * its own inner columns are computed. Events alone order the devices: the host waits
 * for nothing but now and then for an old step, so as not to run too far ahead. All
 * arguments are set once; even and odd steps have their own kernel objects.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include "lbm.h"
#include "lbm_cl.h" /* lbm.cl as a string: lbm_kernel_source */

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LEFT, RIGHT, SIDES };
enum { STEPS_AHEAD = 32, DIRECTIONS = 9, UNTIMED_STEPS = 2 };

/* The directions, as in lbm.cl. */
static const int cx[DIRECTIONS] = {0, 1, 0, -1, 0, 1, 1, -1, -1};
static const int cy[DIRECTIONS] = {0, 0, 1, 0, -1, 1, -1, -1, 1};

/* One device's share of the channel. Index `p`: 0 for even steps, 1 for odd ones. */
struct strip {
    cl_device_id device;
    cl_command_queue compute, transfer;
    int first, width; /* columns */
    cl_mem state[2], walls;
    cl_mem halo_in[2][SIDES], halo_out[2][SIDES];
    cl_kernel inner[2], edges[2]; /* a step from state p to state 1 - p */
    cl_event edges_done; /* of the last step enqueued */
    cl_event halo_ready[SIDES]; /* what the next step's edges must wait for */
    cl_event throttle; /* edges_done of STEPS_AHEAD steps ago */
};

struct simulation {
    struct lbm_options options;
    cl_context context;
    cl_program program;
    struct strip strips[LBM_MAX_DEVICES];
    int count;
};

#define CHECK(call) check((call), #call, __LINE__)

static void
check(cl_int status, const char *what, int line)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "lbm: OpenCL error %d, line %d: %s\n", status, line, what);
        exit(EXIT_FAILURE);
    }
}

static double
seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- set-up --------------------------------------------------------------------- */

static cl_platform_id
find_platform(const char *wanted)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    char *end;
    unsigned long index;

    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS || count == 0) {
        lbm_fail("no OpenCL platform found", "");
    }
    count = count < 16 ? count : 16;
    index = strtoul(wanted, &end, 10);
    if (*end == '\0' && index < count) {
        return platforms[index];
    }
    for (cl_uint i = 0; i < count; i++) {
        char name[256] = "";

        CHECK(clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(name), name,
                                NULL));
        if (strstr(name, wanted) != NULL) {
            return platforms[i];
        }
    }
    lbm_fail("no OpenCL platform is called ", wanted);
    return NULL;
}

static void
build_program(struct simulation *sim)
{
    const char *source = lbm_kernel_source;
    char log[16384] = "";
    cl_int status;

    sim->program = clCreateProgramWithSource(sim->context, 1, &source, NULL, &status);
    CHECK(status);
    if (clBuildProgram(sim->program, 0, NULL, "", NULL, NULL) != CL_SUCCESS) {
        clGetProgramBuildInfo(sim->program, sim->strips[0].device, CL_PROGRAM_BUILD_LOG,
                              sizeof(log) - 1, log, NULL);
        lbm_fail("the kernels do not build:\n", log);
    }
}

static void
open_devices(struct simulation *sim)
{
    const struct lbm_options *o = &sim->options;
    const cl_platform_id platform = find_platform(o->platform);
    cl_device_id devices[LBM_MAX_DEVICES];
    cl_uint found = 0;
    cl_int status;

    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, LBM_MAX_DEVICES, devices,
                       &found) != CL_SUCCESS ||
        found == 0) {
        lbm_fail("the platform has no device", "");
    }
    sim->count = found < LBM_MAX_DEVICES ? (int)found : LBM_MAX_DEVICES;
    if (o->devices > sim->count) {
        lbm_fail("the platform has fewer devices than wanted", "");
    }
    sim->count = o->devices > 0 ? o->devices : sim->count;
    if (o->flow.width < 3 * sim->count) {
        lbm_fail("the channel is too short for so many devices", "");
    }
    sim->context =
        clCreateContext(NULL, (cl_uint)sim->count, devices, NULL, NULL, &status);
    CHECK(status);
    for (int i = 0; i < sim->count; i++) {
        char name[256] = "";

        sim->strips[i].device = devices[i];
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof(name), name, NULL));
        printf("Device %d: %s\n", i, name);
    }
}

/* Population q of the undisturbed stream, with which everything starts. */
static cl_float
stream(const struct lbm_flow *flow, int q)
{
    static const float weight[] = {4.0f / 9, 1.0f / 9, 1.0f / 36};
    const float along = (float)cx[q] * flow->speed;

    return weight[abs(cx[q]) + abs(cy[q])] *
           (1 + 3 * along + 4.5f * along * along - 1.5f * flow->speed * flow->speed);
}

/* Creates a buffer of `count` planes, plane i filled with direction q[i] of the
 * stream. */
static cl_mem
create_filled(struct simulation *sim, struct strip *s, const int *q, int count,
              size_t plane)
{
    const size_t bytes = plane * sizeof(cl_float);
    cl_int status;
    cl_mem buffer = clCreateBuffer(sim->context, CL_MEM_READ_WRITE,
                                   (size_t)count * bytes, NULL, &status);

    CHECK(status);
    for (int i = 0; i < count; i++) {
        const cl_float value = stream(&sim->options.flow, q[i]);

        CHECK(clEnqueueFillBuffer(s->compute, buffer, &value, sizeof(value),
                                  (size_t)i * bytes, bytes, 0, NULL, NULL));
    }
    return buffer;
}

/* Bit q: the cell that direction q comes from, (x, y) - c(q), is solid. A solid cell
 * has all bits: nothing enters it. */
static cl_ushort
walls_around(const struct lbm_flow *flow, int x, int y)
{
    unsigned bits = 0;

    for (int q = 1; q < DIRECTIONS; q++) {
        if (lbm_is_solid(flow, x, y) || lbm_is_solid(flow, x - cx[q], y - cy[q])) {
            bits |= 1u << q;
        }
    }
    return (cl_ushort)bits;
}

static cl_mem
create_walls(struct simulation *sim, const struct strip *s)
{
    const int pitch = sim->options.flow.height + 2;
    const size_t bytes = (size_t)s->width * (size_t)pitch * sizeof(cl_ushort);
    cl_ushort *walls = malloc(bytes);
    cl_int status;
    cl_mem buffer;

    if (walls == NULL) {
        lbm_fail("out of memory", "");
    }
    for (int i = 0; i < s->width * pitch; i++) {
        walls[i] =
            walls_around(&sim->options.flow, s->first + i / pitch, i % pitch - 1);
    }
    buffer = clCreateBuffer(sim->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                            bytes, walls, &status);
    CHECK(status);
    free(walls);
    return buffer;
}

/* Both states, and the halos. The inlet is a left halo that nobody ever updates. */
static void
create_buffers(struct simulation *sim, struct strip *s)
{
    static const int all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    static const int inwards[SIDES][3] = {{1, 5, 6}, {3, 8, 7}};
    const size_t pitch = (size_t)sim->options.flow.height + 2; /* rows of stream */

    s->walls = create_walls(sim, s);
    for (int p = 0; p < 2; p++) {
        s->state[p] = create_filled(sim, s, all, DIRECTIONS, pitch * (size_t)s->width);
        for (int side = 0; side < SIDES; side++) {
            s->halo_in[p][side] = create_filled(sim, s, inwards[side], 3, pitch);
            s->halo_out[p][side] = create_filled(sim, s, inwards[1 - side], 3, pitch);
        }
    }
}

static cl_kernel
kernel_with(struct simulation *sim, const char *name, int count, const size_t *sizes,
            const void *const *values)
{
    cl_int status;
    cl_kernel kernel = clCreateKernel(sim->program, name, &status);

    CHECK(status);
    for (int i = 0; i < count; i++) {
        CHECK(clSetKernelArg(kernel, (cl_uint)i, sizes[i], values[i]));
    }
    return kernel;
}

static void
create_kernels(struct simulation *sim, struct strip *s)
{
    const struct lbm_flow *flow = &sim->options.flow;
    const float viscosity = flow->speed * 2 * flow->radius / flow->reynolds;
    const cl_float omega = 1.0f / (3.0f * viscosity + 0.5f);
    const cl_int pitch = flow->height + 2;
    const cl_int width = s->width;
    const cl_int outlet = s->first + s->width == flow->width;
    const size_t sizes[] = {sizeof(cl_mem), sizeof(cl_mem), sizeof(cl_mem),
                            sizeof(cl_int), sizeof(cl_int), sizeof(cl_float),
                            sizeof(cl_mem), sizeof(cl_mem), sizeof(cl_mem),
                            sizeof(cl_mem), sizeof(cl_int)};

    for (int p = 0; p < 2; p++) {
        const void *values[] = {&s->state[p],
                                &s->state[1 - p],
                                &s->walls,
                                &width,
                                &pitch,
                                &omega,
                                &s->halo_in[p][LEFT],
                                &s->halo_in[p][RIGHT],
                                &s->halo_out[1 - p][LEFT],
                                &s->halo_out[1 - p][RIGHT],
                                &outlet};

        s->inner[p] = kernel_with(sim, "step_inner", 6, sizes, values);
        s->edges[p] = kernel_with(sim, "step_edges", 11, sizes, values);
    }
}

static void
create_strips(struct simulation *sim)
{
    for (int i = 0; i < sim->count; i++) {
        struct strip *s = &sim->strips[i];
        cl_int status;

        s->first = sim->options.flow.width * i / sim->count;
        s->width = sim->options.flow.width * (i + 1) / sim->count - s->first;
        s->compute = clCreateCommandQueue(sim->context, s->device, 0, &status);
        CHECK(status);
        s->transfer = clCreateCommandQueue(sim->context, s->device, 0, &status);
        CHECK(status);
        create_buffers(sim, s);
        create_kernels(sim, s);
        CHECK(clFinish(s->compute));
    }
}

/* --- the run -------------------------------------------------------------------- */

/* Enqueues a kernel over all rows of `columns` columns from `first` on. */
static void
enqueue(struct strip *s, cl_kernel kernel, int height, int first, int columns,
        cl_uint waits, const cl_event *wait_for, cl_event *ret_done)
{
    const size_t offset[2] = {1, (size_t)first};
    const size_t global[2] = {(size_t)height, (size_t)columns};
    size_t local[2] = {64, 1};

    while (global[0] % local[0] != 0) {
        local[0] /= 2;
    }
    CHECK(clEnqueueNDRangeKernel(s->compute, kernel, 2, offset, global, local, waits,
                                 wait_for, ret_done));
}

static void
release(cl_event *event)
{
    if (*event != NULL) {
        clReleaseEvent(*event);
        *event = NULL;
    }
}

static void
enqueue_step(struct simulation *sim, int i, int p)
{
    struct strip *s = &sim->strips[i];
    const int height = sim->options.flow.height;
    cl_event halos[SIDES];
    cl_uint waits = 0;

    for (int side = 0; side < SIDES; side++) {
        if (s->halo_ready[side] != NULL) {
            halos[waits++] = s->halo_ready[side];
        }
    }
    if (s->width > 2) {
        enqueue(s, s->inner[p], height, 1, s->width - 2, 0, NULL, NULL);
    }
    release(&s->edges_done);
    enqueue(s, s->edges[p], height, 0, 2, waits, waits > 0 ? halos : NULL,
            &s->edges_done);
    release(&s->halo_ready[LEFT]);
    release(&s->halo_ready[RIGHT]);
    CHECK(clFlush(s->compute)); /* other queues wait for its events */
}

/* Strip i pulls what its neighbours' edges have just written. Two sets of halos are
 * enough: a neighbour overwrites one only two steps later, after edges that waited
 * (through the strips' mutual halos) for everything that reads it. */
static void
enqueue_halos(struct simulation *sim, int i, int p)
{
    struct strip *s = &sim->strips[i];
    const size_t bytes = 3 * (size_t)(sim->options.flow.height + 2) * sizeof(float);

    for (int side = 0; side < SIDES; side++) {
        const int n = side == LEFT ? i - 1 : i + 1;

        if (n >= 0 && n < sim->count) {
            CHECK(clEnqueueCopyBuffer(
                s->transfer, sim->strips[n].halo_out[1 - p][1 - side],
                s->halo_in[1 - p][side], 0, 0, bytes, 1, &sim->strips[n].edges_done,
                &s->halo_ready[side]));
        }
    }
    CHECK(clFlush(s->transfer));
}

/* Waits until all but the last STEPS_AHEAD steps are done. */
static void
throttle(struct simulation *sim)
{
    for (int i = 0; i < sim->count; i++) {
        struct strip *s = &sim->strips[i];

        if (s->throttle != NULL) {
            CHECK(clWaitForEvents(1, &s->throttle));
            release(&s->throttle);
        }
        s->throttle = s->edges_done;
        CHECK(clRetainEvent(s->throttle));
    }
}

static void
finish(struct simulation *sim)
{
    for (int i = 0; i < sim->count; i++) {
        CHECK(clFinish(sim->strips[i].compute));
        CHECK(clFinish(sim->strips[i].transfer));
    }
}

static double
million_updates(const struct simulation *sim, int steps)
{
    return 1e-6 * steps * sim->options.flow.width * sim->options.flow.height;
}

static void
show_progress(const struct simulation *sim, int step, double elapsed)
{
    static const char bar[] = "########################################";
    const int steps = sim->options.steps;
    const int filled = (int)(40LL * step / steps);
    const double rate = elapsed > 0 ? million_updates(sim, step) / elapsed : 0;
    static int last = -1;

    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r[%-40.*s] %3d%%  step %d of %d  %.1f MLUPS%s", filled, bar,
                (int)(100LL * step / steps), step, steps, rate,
                step == steps ? "\n" : "");
    } else if (10LL * step / steps != last) {
        last = (int)(10LL * step / steps);
        fprintf(stderr, "step %d of %d, %.1f MLUPS\n", step, steps, rate);
    }
}

static void
run_steps(struct simulation *sim, int first, int last)
{
    const double start = seconds_now();

    for (int step = first; step < last; step++) {
        for (int i = 0; i < sim->count; i++) {
            enqueue_step(sim, i, step % 2);
        }
        for (int i = 0; i < sim->count; i++) {
            enqueue_halos(sim, i, step % 2);
        }
        if (step % STEPS_AHEAD == 0) {
            throttle(sim);
            show_progress(sim, step, seconds_now() - start);
        }
    }
    finish(sim);
}

/* The first steps are not timed: some drivers compile a kernel when it first runs. */
static void
run(struct simulation *sim)
{
    const int steps = sim->options.steps;
    const int untimed = steps > UNTIMED_STEPS ? UNTIMED_STEPS : 0;
    double start;
    double elapsed;

    run_steps(sim, 0, untimed);
    start = seconds_now();
    run_steps(sim, untimed, steps);
    elapsed = seconds_now() - start;
    show_progress(sim, steps, elapsed);
    printf("%d steps of %d x %d cells on %d device%s: %.2f s, %.1f MLUPS\n", steps,
           sim->options.flow.width, sim->options.flow.height, sim->count,
           sim->count == 1 ? "" : "s", elapsed,
           million_updates(sim, steps - untimed) / elapsed);
}

static struct lbm_field
read_field(struct simulation *sim)
{
    const int p = sim->options.steps % 2;
    const size_t height = (size_t)sim->options.flow.height;
    const cl_int pitch = sim->options.flow.height + 2;
    struct lbm_field field = {sim->options.flow.width, sim->options.flow.height, NULL};

    field.u = malloc(2 * (size_t)field.width * height * sizeof(float));
    if (field.u == NULL) {
        lbm_fail("out of memory", "");
    }
    for (int i = 0; i < sim->count; i++) {
        struct strip *s = &sim->strips[i];
        const size_t bytes = 2 * (size_t)s->width * height * sizeof(float);
        const cl_int width = s->width;
        cl_int status;
        cl_mem u =
            clCreateBuffer(sim->context, CL_MEM_WRITE_ONLY, bytes, NULL, &status);
        const size_t sizes[] = {sizeof(cl_mem), sizeof(cl_mem), sizeof(cl_int),
                                sizeof(cl_int), sizeof(cl_mem)};
        const void *values[] = {&s->state[p], &u, &width, &pitch, &s->walls};
        cl_kernel kernel;

        CHECK(status);
        kernel = kernel_with(sim, "velocity", 5, sizes, values);
        enqueue(s, kernel, field.height, 0, s->width, 0, NULL, NULL);
        CHECK(clEnqueueReadBuffer(s->compute, u, CL_FALSE, 0, bytes,
                                  field.u + 2 * (size_t)s->first * height, 0, NULL,
                                  NULL));
        clReleaseKernel(kernel);
        clReleaseMemObject(u);
    }
    finish(sim);
    return field;
}

static void
destroy_strips(struct simulation *sim)
{
    for (int i = 0; i < sim->count; i++) {
        struct strip *s = &sim->strips[i];

        release(&s->edges_done);
        release(&s->throttle);
        for (int k = 0; k < 2; k++) { /* both states, both sides */
            release(&s->halo_ready[k]);
            clReleaseKernel(s->inner[k]);
            clReleaseKernel(s->edges[k]);
            clReleaseMemObject(s->state[k]);
            for (int side = 0; side < SIDES; side++) {
                clReleaseMemObject(s->halo_in[k][side]);
                clReleaseMemObject(s->halo_out[k][side]);
            }
        }
        clReleaseMemObject(s->walls);
        clReleaseCommandQueue(s->compute);
        clReleaseCommandQueue(s->transfer);
    }
    clReleaseProgram(sim->program);
    clReleaseContext(sim->context);
}

struct lbm_field
lbm_run(const struct lbm_options *options)
{
    static struct simulation sim;
    struct lbm_field field;

    sim.options = *options;
    open_devices(&sim);
    build_program(&sim);
    create_strips(&sim);
    run(&sim);
    field = read_field(&sim);
    destroy_strips(&sim);
    return field;
}
