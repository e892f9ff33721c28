/* SPDX-License-Identifier: Apache-2.0 */
/* Strips of the channel, shared by the run of the flow (lbm.c) and its set-up (strips.c). */
#ifndef LBM_STRIPS_H
#define LBM_STRIPS_H

#define CL_TARGET_OPENCL_VERSION 120
#include "lbm.h"

#include <CL/cl.h>

enum { LEFT, RIGHT, SIDES };
enum { EDGES, INNER, PARTS };

/* One device's share of the channel. Index `p`: 0 for even steps, 1 for odd ones. */
struct strip {
    cl_device_id device;
    cl_command_queue compute, transfer;
    int first, width; /* columns */
    cl_mem state[2], walls;
    cl_mem halo_in[2][SIDES], halo_out[2][SIDES];
    cl_kernel inner[2], edges[2]; /* a step from state p to state 1 - p */
    cl_event
        done[PARTS]; /* of the last step enqueued; INNER in steps that are measured */
    cl_event halo_ready[SIDES]; /* what the next step's edges must wait for */
    cl_event throttle[PARTS]; /* as done, of STEPS_AHEAD steps ago */
    double busy_ns; /* in kernels of the steps that were measured */
    int measured;
    float *sent[SIDES],
        *received[SIDES]; /* halos on their way to and from other processes */
};

struct simulation {
    struct lbm_options options;
    cl_context context;
    cl_program program;
    struct strip strips[LBM_MAX_DEVICES];
    int count; /* of this process */
};

#define CHECK(call) lbm_check((call), #call, __LINE__)

void lbm_check(cl_int status, const char *what, int line);

/** Opens the devices, builds the kernels and fills the strips of this process. */
void lbm_create_strips(struct simulation *sim);

void lbm_destroy_strips(struct simulation *sim);

/** A kernel with its first @p count arguments set. */
cl_kernel lbm_create_kernel(struct simulation *sim, const char *name, int count,
                            const size_t *sizes, const void *const *values);

/** Releases an event, if there is one. */
void lbm_release_event(cl_event *event);

#endif
