/* SPDX-License-Identifier: Apache-2.0 */
/* Runs plans on an OpenCL platform and writes down everything that a program can see. */
#ifndef TELPHER_TESTS_RANDOM_RUN_H
#define TELPHER_TESTS_RANDOM_RUN_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <stdatomic.h>

#include "kill.h"
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
    K_CHASE,
    KERNEL_NAMES
};

/** Objects shared by programs of one platform: devices, contexts, built kernels. */
struct world {
    cl_device_id devices[PLAN_DEVICES];
    cl_uint device_count;
    unsigned features; /**< of plans that the devices can run */
    cl_context contexts[PLAN_CONTEXTS];
    cl_program programs[PLAN_CONTEXTS];
    cl_kernel kernels[PLAN_CONTEXTS][KERNEL_NAMES];
    size_t group[PLAN_CONTEXTS][KERNEL_NAMES]; /**< largest work-group of a kernel */
    cl_sampler samplers[PLAN_CONTEXTS][2];
    /** Unified shared memory; NULL: shared virtual memory is used instead. */
    struct usm {
        clDeviceMemAllocINTEL_fn alloc;
        clMemFreeINTEL_fn free;
        clEnqueueMemcpyINTEL_fn copy;
        clEnqueueMemFillINTEL_fn fill;
        clEnqueueMigrateMemINTEL_fn migrate;
        clSetKernelArgMemPointerINTEL_fn set_arg;
    } usm;
};

/** Finds the first platform whose name has @p name in it. @return false: said why on stderr */
bool world_find(struct world *w, const char *name, unsigned devices);
/** Makes contexts and builds kernels. @return false: said why on stderr */
bool world_open(struct world *w);
void world_close(struct world *w);
/** @return features that the devices of an open world lack, by trying */
unsigned world_probe(const struct world *w);

/** A program that runs. */
struct run {
    const struct world *world;
    const struct plan *plan;
    int fault; /**< enum op_kind that is done wrongly on purpose; -1: none */
    struct kill *kill; /**< of a server; it begins before one of the commands */
    FILE *to;
    cl_command_queue queues[PLAN_QUEUES];
    cl_mem mems[PLAN_MEMS];
    void *mem_host[PLAN_MEMS]; /**< of buffers that use host memory */
    void *mem_shared[PLAN_MEMS]; /**< of buffers with memory that has pointers */
    cl_event events[PLAN_OPS];
    void *chased[PLAN_OPS]; /**< pointers on their way into memory */
    void *host[PLAN_OPS]; /**< memory of transfers; of maps what the call returned */
    size_t host_size[PLAN_OPS];
    size_t row_pitch[PLAN_OPS], slice_pitch[PLAN_OPS]; /**< of maps */
    struct callback {
        bool asked; /**< the driver has it */
        atomic_int calls, status;
    } callbacks[PLAN_OPS];
};

/**
 * Runs a plan and writes a line for each result: errors, contents read, states of events,
 * the content of each object.
 */
void run_plan(const struct world *w, const struct plan *plan, int fault,
              struct kill *kill, FILE *to);

/** Enqueues one command. @return the call's error */
cl_int run_command(struct run *r, int index);
/** Sets the arguments of a kernel and enqueues it. @return the call's error */
cl_int run_kernel(struct run *r, int index, cl_uint wait_count, const cl_event *waits,
                  cl_event *event);
/** Looks up the functions of unified shared memory. */
void pointer_find(struct world *w, cl_platform_id platform);
/** Allocates memory with pointers for an object. @return false: there is none */
bool pointer_alloc(struct run *r, unsigned mem);
void pointer_free(struct run *r, unsigned mem);
/** @return address of an object's memory; NULL: it has none. */
uint8_t *pointer_of(const struct run *r, int mem);
/** Copies, waits for it. */
cl_int pointer_copy(const struct run *r, int mem, cl_command_queue q, void *dst,
                    const void *src, size_t size);
/** Enqueues a command by pointers. @param host memory of transfers */
cl_int pointer_enqueue(struct run *r, int index, void *host, cl_uint n,
                       const cl_event *waits, cl_event *event);
/** Sets an argument to the pointer to the memory of an object. */
cl_int pointer_set_arg(const struct run *r, cl_kernel kernel, cl_uint index, int mem);
/** Puts a pointer into one memory, runs a kernel that follows it, and clears it. */
cl_int pointer_chase(struct run *r, int index, cl_uint words, cl_uint n,
                     const cl_event *waits, cl_event *event);
/** @return type of a command, the same for all commands by pointers that do the same. */
cl_command_type pointer_type(cl_command_type type);

/** Fills memory with content that depends on a seed. */
void run_pattern(void *dst, size_t len, uint64_t seed);
/** Hash of content. */
uint64_t run_hash(const void *src, size_t len, uint64_t start);
/** Parts of a content that have a hash of their own, so that differences have a place. */
enum { RUN_PARTS = 16 };
/** Ends a line with the hash of content and those of its parts. */
void run_print_content(FILE *to, const void *src, size_t len);

#endif
