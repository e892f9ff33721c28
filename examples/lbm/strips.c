/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, buffers and kernels of the flow: a strip of the channel for each device. */
#include "strips.h"
#include "lbm_cl.h" /* lbm.cl as a string: lbm_kernel_source */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIRECTIONS = 9 };

/* The directions, as in lbm.cl. */
static const int cx[DIRECTIONS] = {0, 1, 0, -1, 0, 1, 1, -1, -1};
static const int cy[DIRECTIONS] = {0, 0, 1, 0, -1, 1, -1, -1, 1};

void
lbm_check(cl_int status, const char *what, int line)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "lbm: OpenCL error %d, line %d: %s\n", status, line, what);
        exit(EXIT_FAILURE);
    }
}

void
lbm_release_event(cl_event *event)
{
    if (*event != NULL) {
        clReleaseEvent(*event);
        *event = NULL;
    }
}

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
    if (o->ranks > 1) { /* they take turns at the devices */
        devices[0] = devices[o->rank % sim->count];
        sim->count = 1;
    }
    if (o->flow.width < 3 * sim->count * o->ranks) {
        lbm_fail("the channel is too short for so many devices", "");
    }
    sim->context =
        clCreateContext(NULL, (cl_uint)sim->count, devices, NULL, NULL, &status);
    CHECK(status);
    for (int i = 0; i < sim->count; i++) {
        char name[256] = "";

        sim->strips[i].device = devices[i];
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof(name), name, NULL));
        if (!o->profile) {
            printf("Device %d: %s\n", o->rank + i, name);
        }
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

/* Both states, and the halos. The inlet is a left halo that is never updated. */
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
    for (int side = 0; side < SIDES && sim->options.ranks > 1; side++) {
        s->sent[side] = malloc(3 * pitch * sizeof(float));
        s->received[side] = malloc(3 * pitch * sizeof(float));
        if (s->sent[side] == NULL || s->received[side] == NULL) {
            lbm_fail("out of memory", "");
        }
    }
}

cl_kernel
lbm_create_kernel(struct simulation *sim, const char *name, int count,
                  const size_t *sizes, const void *const *values)
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

        s->inner[p] = lbm_create_kernel(sim, "step_inner", 6, sizes, values);
        s->edges[p] = lbm_create_kernel(sim, "step_edges", 11, sizes, values);
    }
}

void
lbm_create_strips(struct simulation *sim)
{
    open_devices(sim);
    build_program(sim);
    for (int i = 0; i < sim->count; i++) {
        const struct lbm_options *o = &sim->options;
        const int index = o->rank + i, count = sim->count * o->ranks;
        struct strip *s = &sim->strips[i];
        cl_int status;

        s->first = lbm_first_column(&o->flow, index, count);
        s->width = lbm_first_column(&o->flow, index + 1, count) - s->first;
        s->compute =
            clCreateCommandQueue(sim->context, s->device,
                                 o->profile ? CL_QUEUE_PROFILING_ENABLE : 0, &status);
        CHECK(status);
        s->transfer = clCreateCommandQueue(sim->context, s->device, 0, &status);
        CHECK(status);
        create_buffers(sim, s);
        create_kernels(sim, s);
        CHECK(clFinish(s->compute));
    }
}

void
lbm_destroy_strips(struct simulation *sim)
{
    for (int i = 0; i < sim->count; i++) {
        struct strip *s = &sim->strips[i];

        for (int k = 0; k < 2; k++) { /* both states, both sides, both parts */
            lbm_release_event(&s->done[k]);
            lbm_release_event(&s->throttle[k]);
            free(s->sent[k]);
            free(s->received[k]);
            lbm_release_event(&s->halo_ready[k]);
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
