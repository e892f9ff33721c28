/* SPDX-License-Identifier: Apache-2.0 */
/* Runs plans on an OpenCL platform and writes down everything that a program can see. */
#ifndef TELPHER_TESTS_RANDOM_RUN_H
#define TELPHER_TESTS_RANDOM_RUN_H

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <stdatomic.h>

#include "plan.h"

/** Kernels of one context. */
enum kernel_name {
    K_ADD,
    K_MIX,
    K_REVERSE,
    K_COUNT,
    K_STRUCT,
    K_TABLE,
    K_NONE,
    K_GRID,
    K_TO_IMAGE_U,
    K_TO_IMAGE_F,
    K_FROM_IMAGE_U,
    K_FROM_IMAGE_F,
    KERNEL_NAMES
};

/** What programs of one platform have in common: devices, contexts, built kernels. */
struct world {
    cl_device_id devices[PLAN_DEVICES];
    cl_uint device_count;
    unsigned features; /**< of plans that the devices can run */
    cl_context contexts[PLAN_CONTEXTS];
    cl_program programs[PLAN_CONTEXTS];
    cl_kernel kernels[PLAN_CONTEXTS][KERNEL_NAMES];
    cl_sampler samplers[PLAN_CONTEXTS][2];
};

/** Finds the first platform whose name has @p name in it. @return false: said why on stderr */
bool world_find(struct world *w, const char *name, unsigned devices);
/** Makes contexts and builds kernels. @return false: said why on stderr */
bool world_open(struct world *w);
void world_close(struct world *w);

/** A program that runs. */
struct run {
    const struct world *world;
    const struct plan *plan;
    int fault; /**< enum op_kind that is done wrongly on purpose; -1: none */
    FILE *to;
    cl_command_queue queues[PLAN_QUEUES];
    cl_mem mems[PLAN_MEMS];
    void *mem_host[PLAN_MEMS]; /**< of buffers that use host memory */
    cl_event events[PLAN_OPS];
    void *host[PLAN_OPS]; /**< memory of transfers; of maps what the call returned */
    size_t host_size[PLAN_OPS];
    size_t row_pitch[PLAN_OPS], slice_pitch[PLAN_OPS]; /**< of maps */
    struct callback {
        atomic_int calls, status;
    } callbacks[PLAN_OPS];
};

/**
 * Runs a plan and writes a line for each result: errors, contents read, states of events,
 * the content of each object.
 */
void run_plan(const struct world *w, const struct plan *plan, int fault, FILE *to);

/** Enqueues one command. @return the call's error */
cl_int run_command(struct run *r, int index);
/** Sets the arguments of a kernel and enqueues it. @return the call's error */
cl_int run_kernel(struct run *r, int index, cl_uint wait_count, const cl_event *waits,
                  cl_event *event);
/** Fills memory with content that depends on a seed. */
void run_pattern(void *dst, size_t len, uint64_t seed);
/** Hash of content. */
uint64_t run_hash(const void *src, size_t len, uint64_t start);

#endif
