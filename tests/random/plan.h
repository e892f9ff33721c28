/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random OpenCL programs. A plan is made from a seed alone: objects, and commands with their
 * wait lists. Commands that conflict are ordered by events, queues or waits of the host, so
 * that every conforming driver computes the same content.
 *
 * A seed gives a list of intents, each with random numbers of its own. Planning turns the
 * intents that are kept into commands and adds the commands that order them. Thus any subset
 * of the intents is a valid program, which makes failures easy to shrink.
 */
#ifndef TELPHER_TESTS_RANDOM_PLAN_H
#define TELPHER_TESTS_RANDOM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    PLAN_CONTEXTS = 2, /**< contexts; programs use one or more of them */
    PLAN_DEVICES = 4,
    PLAN_QUEUES = 8,
    PLAN_MEMS = 24,
    PLAN_INTENTS = 64,
    PLAN_OPS = 512,
    PLAN_WAITS = 8,
};

/** Features that programs may use. */
enum plan_feature {
    PLAN_IMAGES = 1,
    PLAN_OUT_OF_ORDER = 2, /**< queues that are out of order */
    PLAN_USER_EVENTS = 4,
    PLAN_FAILURES = 8, /**< user events that fail; needs PLAN_USER_EVENTS */
    PLAN_PARTS_IN_COPIES = 16, /**< sub-buffers in copies of rectangles and images */
    /** Blocking calls while others of their queue wait for the host. */
    PLAN_LOOSE_BLOCKING = 32,
    PLAN_FAILED_WAITS = 64, /**< wait lists with events that have failed */
    PLAN_FAILED_CALLBACKS = 128, /**< callbacks of commands that fail with others */
    PLAN_SVM = 256, /**< buffers over shared virtual memory, used by pointers as well */
    PLAN_USM = 512, /**< unified shared memory of a device, used by pointers alone */
    /** Commands that other queues order after a blocking write by its return alone. */
    PLAN_AFTER_WRITES = 1024,
    PLAN_USM_MIGRATIONS = 2048,
    PLAN_FINISHES = 4096, /**< clFinish, after which all commands have ended */
    PLAN_STRUCTS = 8192, /**< arguments of kernels that are a struct */
    /** Markers with wait lists while a command of their out-of-order queue will fail. */
    PLAN_MARKERS_PAST_FAILURES = 16384,
    /** Rectangles whose last slice, with its pitch, ends behind the buffer. */
    PLAN_LOOSE_PITCHES = 32768,
    PLAN_TYPES = 65536, /**< types of commands are compared */
    /** Kernels whose arguments are pointers in one launch and buffers in another. */
    PLAN_KEPT_KERNELS = 131072,
    /** Commands of out-of-order queues pass earlier ones that wait for a user event. Without it a
     *  program has either such queues or user events. */
    PLAN_PASSING = 262144,
    /** After a failure clFinish succeeds, and calls say that a wait has failed, not why. */
    PLAN_WAIT_ERRORS = 524288,
    PLAN_MIGRATIONS = 1048576, /**< clEnqueueMigrateMemObjects */
    PLAN_LOOSE_FILLS = 2097152, /**< fills of images that wait for user events */
    PLAN_CALLBACKS = 4194304, /**< of commands that may have ended by then */
    PLAN_ALL_FEATURES = 8388607,
};

enum op_kind {
    /* Commands of buffers. */
    OP_WRITE,
    OP_READ,
    OP_COPY,
    OP_FILL,
    OP_WRITE_RECT,
    OP_READ_RECT,
    OP_COPY_RECT,
    OP_KERNEL,
    OP_MIGRATE,
    OP_MAP,
    OP_UNMAP,
    /* Commands of images. */
    OP_WRITE_IMAGE,
    OP_READ_IMAGE,
    OP_COPY_IMAGE,
    OP_FILL_IMAGE,
    OP_IMAGE_TO_BUFFER,
    OP_BUFFER_TO_IMAGE,
    /* Order. */
    OP_MARKER,
    OP_BARRIER,
    OP_USER, /**< creates a user event, which is the event of this op */
    OP_SET, /**< sets the user event `target` */
    OP_WAIT, /**< the host waits for the events of the wait list */
    OP_FLUSH,
    OP_FINISH,
    OP_KINDS
};

enum kernel_kind {
    KERNEL_ADD,
    KERNEL_MIX,
    KERNEL_REVERSE, /**< by local memory */
    KERNEL_COUNT, /**< by atomics */
    KERNEL_STRUCT, /**< an argument that is a struct by value */
    KERNEL_TABLE, /**< constant memory */
    KERNEL_NONE, /**< a buffer argument that is NULL */
    KERNEL_GRID, /**< two dimensions, with offset */
    KERNEL_OF_IMAGE, /**< and the later ones use images */
    KERNEL_TO_IMAGE = KERNEL_OF_IMAGE,
    KERNEL_FROM_IMAGE,
    KERNEL_CHASE, /**< follows a pointer in its source, which no argument names */
    KERNEL_KINDS
};

/** Where the first content of a buffer comes from. */
enum mem_source {
    MEM_COPIED,
    MEM_USED,
    MEM_WRITTEN,
    MEM_SVM, /**< memory of clSVMAlloc; written */
    MEM_USM, /**< memory of clDeviceMemAllocINTEL, no object; written */
};

enum { MEM_IMAGE_FORMATS = 4, MEM_IMAGE_FORMS = 4 };

/** A buffer, a sub-buffer or an image. */
struct mem_plan {
    uint8_t context;
    bool image;
    int16_t parent; /**< of a sub-buffer; -1: none */
    size_t origin; /**< [bytes] in the parent */
    size_t size; /**< [bytes] */
    enum mem_source source;
    uint8_t form; /**< of an image: 1D, 2D, array of 2D, 3D */
    uint8_t format; /**< of an image, all with 4 channels */
    size_t pixel; /**< [bytes] */
    size_t extent[3]; /**< of an image: pixels, rows, slices */
};

struct queue_plan {
    uint8_t context, device;
    bool out_of_order;
};

struct op {
    enum op_kind kind;
    uint8_t context, queue;
    int16_t mem[2]; /**< destination or only object, source; -1: none */
    int16_t target; /**< OP_SET: its OP_USER; OP_UNMAP: its OP_MAP */
    int16_t intent;
    uint64_t seed; /**< of content and arguments */
    size_t offset[2], size; /**< [bytes] of plain transfers and maps */
    size_t origin[2][3], region[3]; /**< of rectangles and images: [bytes] or pixels */
    size_t row_pitch[2], slice_pitch[2];
    uint8_t kernel,
        local; /**< log2 of the work-group's size + 1; 0: the driver's choice */
    int status; /**< OP_USER: what it will be set to; OP_MAP: nonzero if for writing */
    bool invalidate; /**< OP_MAP */
    bool blocking, has_event;
    bool release_early; /**< the event, right after the command is enqueued */
    bool callback;
    bool by_pointer; /**< all its memory has pointers, which it uses */
    uint8_t wait_count;
    int16_t waits[PLAN_WAITS];
};

struct plan_options {
    unsigned devices; /**< 1 .. PLAN_DEVICES */
    unsigned features; /**< enum plan_feature */
};

struct plan {
    uint64_t seed;
    unsigned features; /**< of the options */
    unsigned contexts, queue_count, mem_count, intent_count, op_count;
    struct queue_plan queues[PLAN_QUEUES];
    struct mem_plan mems[PLAN_MEMS];
    struct op ops[PLAN_OPS];
};

/** The memory that an object is or is a part of. */
static inline int
plan_root(const struct plan *plan, int mem)
{
    return plan->mems[mem].parent < 0 ? mem : plan->mems[mem].parent;
}

/** True if the host has a pointer to the memory of an object that devices can use. */
static inline bool
plan_has_pointer(const struct plan *plan, int mem)
{
    return plan->mems[plan_root(plan, mem)].source >= MEM_SVM;
}

/** Number of intents that a seed has. */
unsigned plan_intents(uint64_t seed);
/** Makes the program of @p seed with those intents whose bit is set in @p kept. */
void plan_make(struct plan *plan, const struct plan_options *all, uint64_t seed,
               uint64_t kept);
/** Writes the program for people. */
void plan_print(const struct plan *plan, FILE *to);

/** Random numbers: the same on each machine. */
uint64_t plan_random(uint64_t *state);
/** Mixes two numbers into the state of a generator. */
uint64_t plan_mix(uint64_t a, uint64_t b);
/** Below a limit. */
static inline size_t
plan_below(uint64_t *state, size_t limit)
{
    return (size_t)(plan_random(state) % limit);
}

/** True in @p percent of all cases. */
static inline bool
plan_chance(uint64_t *state, unsigned percent)
{
    return plan_below(state, 100) < percent;
}

#endif
