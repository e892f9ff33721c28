/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts and kernels that random programs use, and launches of these kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

static const char source[] =
    "kernel void add(global uint *dst, uint n, uint x) {\n"
    "  size_t i = get_global_id(0);\n"
    "  if (i < n) dst[i] = dst[i] * 1664525u + x + (uint)get_group_id(0) * 0u; }\n"
    "kernel void blend(global uint *dst, const global uint *src, uint n, uint r) {\n"
    "  size_t i = get_global_id(0);\n"
    "  if (i < n) dst[i] = dst[i] ^ rotate(src[n - 1 - i], r); }\n"
    "kernel void reverse(global uint *dst, const global uint *src, local uint *tmp) {\n"
    "  size_t l = get_local_id(0), n = get_local_size(0), i = get_global_id(0);\n"
    "  tmp[l] = src[i];\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  dst[i] += tmp[n - 1 - l]; }\n"
    "kernel void count(volatile global uint *dst, const global uint *src, uint n, uint "
    "m) {\n"
    "  size_t i = get_global_id(0);\n"
    "  if (i < n) { uint at = src[i] % m;\n"
    "    if (at % 3 == 0) atomic_add(&dst[at], src[i]);\n"
    "    else if (at % 3 == 1) atomic_max(&dst[at], src[i]);\n"
    "    else atomic_xor(&dst[at], src[i] | 1u); } }\n"
    "struct many { uint a; ushort b; uchar c[2]; uint4 d; };\n"
    "kernel void structure(global uint *dst, uint n, struct many s, float4 f) {\n"
    "  size_t i = get_global_id(0);\n"
    "  if (i < n) dst[i] += s.a ^ s.b ^ s.c[i & 1] ^ s.d.w ^ as_uint(f.y); }\n"
    "kernel void table(global uint *dst, constant uint *src, uint n, uint m) {\n"
    "  size_t i = get_global_id(0);\n"
    "  if (i < n) dst[i] -= src[i % m] + src[dst[i] % m]; }\n"
    "kernel void none(global uint *dst, const global uint *src, uint n, uint x) {\n"
    "  size_t i = get_global_id(0);\n"
    "  if (i < n) dst[i] ^= src == 0 ? x : src[i]; }\n"
    "kernel void grid(global uint *dst, uint n, uint x) {\n"
    "  size_t i = get_global_id(0) - get_global_offset(0)\n"
    "    + get_global_size(0) * (get_global_id(1) - get_global_offset(1));\n"
    "  if (i < n) dst[i] += x * (uint)get_global_id(0) + (uint)get_global_id(1); }\n";

static const char image_source[] =
    "kernel void to_image_u(write_only image2d_t img, const global uint *src, uint n) "
    "{\n"
    "  int x = get_global_id(0), y = get_global_id(1);\n"
    "  uint v = src[(uint)(x + y * 41) % n];\n"
    "  write_imageui(img, (int2)(x, y), (uint4)(v, v >> 3, v >> 9, x + y) & 0xffu); }\n"
    "kernel void to_image_f(write_only image2d_t img, const global uint *src, uint n) "
    "{\n"
    "  int x = get_global_id(0), y = get_global_id(1);\n"
    "  uint v = src[(uint)(x + y * 41) % n];\n"
    "  write_imagef(img, (int2)(x, y), convert_float4((uint4)(v, v >> 3, v >> 9, x) & "
    "0xffu) / 256.0f); }\n"
    "kernel void from_image_u(global uint *dst, uint n, read_only image2d_t img, "
    "sampler_t s) {\n"
    "  int i = get_global_id(0);\n"
    "  uint4 v = read_imageui(img, s, (int2)(i % 45 - 2, i / 45 - 1));\n"
    "  if (i < n) dst[i] ^= v.x + 3 * v.y + 5 * v.z + 7 * v.w; }\n"
    "kernel void from_image_f(global uint *dst, uint n, read_only image2d_t img, "
    "sampler_t s) {\n"
    "  int i = get_global_id(0);\n"
    "  float4 v = read_imagef(img, s, (int2)(i % 45 - 2, i / 45 - 1));\n"
    "  if (i < n) dst[i] ^= as_uint(v.x) + 3 * as_uint(v.y) + 5 * as_uint(v.z) + "
    "as_uint(v.w); }\n";

static const char chase_source[] =
    "struct place { global uint *to; };\n"
    "kernel void chase(const global struct place *place, uint n, uint x) {\n"
    "  size_t i = get_global_id(0);\n"
    "  if (i < n) place->to[i] = place->to[i] * 22695477u + x; }\n";

static const char *const names[KERNEL_NAMES] = {
    "add",  "blend",      "reverse",    "count",        "structure",    "table", "none",
    "grid", "to_image_u", "to_image_f", "from_image_u", "from_image_f", "chase",
};

static bool
said(const char *what, cl_int err)
{
    if (err != CL_SUCCESS) {
        fprintf(stderr, "random_programs: %s: error %d\n", what, err);
    }
    return err == CL_SUCCESS;
}

/** Features that programs of a driver leave out, since natively it crashes, hangs, or gives
 *  different results each time. */
static const struct {
    const char *platform, *version; /**< parts of the texts; "": any */
    unsigned features;
    unsigned seed; /**< a program that shows it with --twice yes; 0: none kept */
} broken[] = {
    /* Blocking calls finish their queue. Commands that wait for failed events never end. No
       callback reports a failure by another command. */
    {"Portable", "", PLAN_LOOSE_BLOCKING | PLAN_FAILED_WAITS | PLAN_FAILED_CALLBACKS,
     0},
    {"Portable", "PoCL 3.", PLAN_PARTS_IN_COPIES, 0}, /* ends the process */
    {"Portable", "", PLAN_MARKERS_PAST_FAILURES, 904702}, /* fail with it */
    /* A user event that fails ends the process. */
    {"Intel", "", PLAN_FAILURES | PLAN_FAILED_WAITS | PLAN_FAILED_CALLBACKS, 0},
    {"Intel", "", PLAN_AFTER_WRITES, 19}, /* blocking writes return early */
    {"Intel", "", PLAN_USM_MIGRATIONS, 4}, /* are refused */
    {"rusticl", "", PLAN_FINISHES, 10}, /* clFinish returns before the end */
    {"rusticl", "", PLAN_STRUCTS, 3}, /* end the process */
    {"rusticl", "", PLAN_PARTS_IN_COPIES, 6}, /* have other content each time */
    {"NVIDIA", "", PLAN_MIGRATIONS, 110}, /* of sub-buffers end the process */
    /* A callback for a command that fails with another says that it has succeeded. */
    {"NVIDIA", "", PLAN_FAILED_CALLBACKS, 1002},
    {"NVIDIA", "", PLAN_LOOSE_FILLS, 138}, /* return when the image is filled */
    {"Oclgrind", "", PLAN_PASSING, 0}, /* clFlush waits for user events */
    {"Oclgrind", "", PLAN_CALLBACKS, 3}, /* of commands that have ended never come */
    {"Oclgrind", "", PLAN_OUT_OF_ORDER, 87}, /* markers do not wait */
    {"Oclgrind", "", PLAN_FAILED_WAITS, 76}, /* a blocking write succeeds */
    /* Commands that wait for a failed user event never end. */
    {"rusticl", "", PLAN_FAILURES | PLAN_FAILED_WAITS | PLAN_FAILED_CALLBACKS, 1},
};

static unsigned
broken_features(cl_platform_id platform)
{
    char name[256] = "", version[256] = "";
    unsigned features = 0;

    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name, NULL);
    clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof(version), version, NULL);
    for (unsigned i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        if (strstr(name, broken[i].platform) != NULL &&
            strstr(version, broken[i].version) != NULL) {
            features |= broken[i].features;
        }
    }
    return features;
}

bool
world_find(struct world *w, const char *name, unsigned devices)
{
    cl_platform_id platforms[16], platform = NULL;
    cl_uint count = 0;

    memset(w, 0, sizeof(*w));
    (void)clGetPlatformIDs(16, platforms, &count);
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char text[256] = "";
        cl_uint found = 0;

        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(text), text, NULL);
        platform = platforms[i];
        if (strstr(text, name) != NULL &&
            clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, PLAN_DEVICES, w->devices,
                           &found) == CL_SUCCESS) {
            w->device_count = found < devices ? found : devices;
            break;
        }
    }
    if (w->device_count == 0) {
        fprintf(stderr, "random_programs: no device of a platform named '%s'\n", name);
        return false;
    }
    w->features = PLAN_ALL_FEATURES & ~broken_features(platform);
    if (getenv("TELPHER_KEEP_COPIES") != NULL) { /* which ends with such memory */
        w->features &= ~((unsigned)PLAN_SVM | PLAN_USM);
    }
    for (cl_uint i = 0; i < w->device_count; i++) {
        cl_command_queue_properties q = 0;
        cl_bool images = CL_FALSE;
        cl_device_svm_capabilities svm = 0;

        clGetDeviceInfo(w->devices[i], CL_DEVICE_QUEUE_PROPERTIES, sizeof(q), &q, NULL);
        clGetDeviceInfo(w->devices[i], CL_DEVICE_IMAGE_SUPPORT, sizeof(images), &images,
                        NULL);
        w->features &= ~((q & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0
                             ? 0U
                             : (unsigned)PLAN_OUT_OF_ORDER);
        w->features &= ~(images ? 0U : (unsigned)PLAN_IMAGES);
        clGetDeviceInfo(w->devices[i], CL_DEVICE_SVM_CAPABILITIES, sizeof(svm), &svm,
                        NULL);
        w->features &= ~(svm != 0 ? 0U : (unsigned)PLAN_SVM | PLAN_USM);
    }
    pointer_find(w, platform);
    return true;
}

/** @return the largest work-group of a kernel that all devices run */
static size_t
group_of(const struct world *w, cl_kernel kernel)
{
    size_t least = SIZE_MAX;

    for (cl_uint i = 0; i < w->device_count; i++) {
        size_t size = 0;

        clGetKernelWorkGroupInfo(kernel, w->devices[i], CL_KERNEL_WORK_GROUP_SIZE,
                                 sizeof(size), &size, NULL);
        least = size < least ? size : least;
    }
    return least;
}

static bool
open_context(struct world *w, unsigned c)
{
    const char *texts[] = {source, (w->features & PLAN_IMAGES) != 0 ? image_source : "",
                           (w->features & PLAN_SVM) != 0 ? chase_source : ""};
    cl_int err;

    w->contexts[c] =
        clCreateContext(NULL, w->device_count, w->devices, NULL, NULL, &err);
    if (!said("clCreateContext", err)) {
        return false;
    }
    w->programs[c] = clCreateProgramWithSource(w->contexts[c], 3, texts, NULL, &err);
    if (!said("clCreateProgramWithSource", err) ||
        !said("clBuildProgram",
              clBuildProgram(w->programs[c], 0, NULL, "", NULL, NULL))) {
        return false;
    }
    for (unsigned k = 0; k < KERNEL_NAMES; k++) {
        unsigned needs = k == K_CHASE ? PLAN_SVM : k < K_TO_IMAGE_U ? 0 : PLAN_IMAGES;

        if ((w->features & needs) != needs) {
            continue;
        }
        w->kernels[c][k] = clCreateKernel(w->programs[c], names[k], &err);
        if (!said(names[k], err)) {
            return false;
        }
        w->group[c][k] = group_of(w, w->kernels[c][k]);
    }
    for (unsigned i = 0; i < 2 && (w->features & PLAN_IMAGES) != 0; i++) {
        /* oclgrind 21.10 never returns from clCreateSamplerWithProperties. */
        w->samplers[c][i] =
            clCreateSampler(w->contexts[c], CL_FALSE,
                            i == 0 ? CL_ADDRESS_CLAMP : CL_ADDRESS_CLAMP_TO_EDGE,
                            CL_FILTER_NEAREST, &err);
        if (!said("clCreateSampler", err)) {
            return false;
        }
    }
    return true;
}

bool
world_open(struct world *w)
{
    for (unsigned c = 0; c < PLAN_CONTEXTS; c++) {
        if (!open_context(w, c)) {
            return false;
        }
    }
    return true;
}

void
world_close(struct world *w)
{
    for (unsigned c = 0; c < PLAN_CONTEXTS; c++) {
        for (unsigned k = 0; k < KERNEL_NAMES; k++) {
            if (w->kernels[c][k] != NULL) {
                clReleaseKernel(w->kernels[c][k]);
            }
        }
        for (unsigned i = 0; i < 2; i++) {
            if (w->samplers[c][i] != NULL) {
                clReleaseSampler(w->samplers[c][i]);
            }
        }
        clReleaseProgram(w->programs[c]);
        clReleaseContext(w->contexts[c]);
    }
    memset(w->kernels, 0, sizeof(w->kernels));
    memset(w->samplers, 0, sizeof(w->samplers));
}

/* ---- launches ----------------------------------------------------------------------------- */

/** As the kernel "structure" has it. */
struct many {
    cl_uint a;
    cl_ushort b;
    cl_uchar c[2];
    cl_uint4 d;
};

/** A launch that is being prepared. */
struct launch {
    struct run *run;
    const struct op *op;
    cl_kernel kernel;
    cl_mem mem[2];
    cl_uint n, x; /**< words to compute; a number from the seed */
    cl_uint src_words;
    cl_uint dimensions;
    size_t global[2], local[2], offset[2];
    bool fixed_local;
    cl_int err; /**< first error of an argument */
};

static void
set_arg(struct launch *l, cl_uint index, size_t size, const void *value)
{
    cl_int err = clSetKernelArg(l->kernel, index, size, value);

    l->err = l->err == CL_SUCCESS ? err : l->err;
}

/** Sets an argument to the destination or the source. */
static void
set_mem(struct launch *l, cl_uint index, unsigned side)
{
    int mem = l->op->mem[side];
    bool pointer = l->run->mems[mem] == NULL ||
                   (plan_has_pointer(l->run->plan, mem) && (l->op->seed & 2) != 0);
    cl_int err = pointer
                     ? pointer_set_arg(l->run, l->kernel, index, mem)
                     : clSetKernelArg(l->kernel, index, sizeof(cl_mem), &l->mem[side]);

    l->err = l->err == CL_SUCCESS ? err : l->err;
}

static enum kernel_name
name_of(const struct plan *plan, const struct op *op)
{
    const struct mem_plan *image;

    if (op->kernel < KERNEL_OF_IMAGE) {
        return (enum kernel_name)op->kernel;
    }
    image = &plan->mems[op->mem[op->kernel == KERNEL_TO_IMAGE ? 0 : 1]];
    return (enum kernel_name)(
        (op->kernel == KERNEL_TO_IMAGE ? K_TO_IMAGE_U : K_FROM_IMAGE_U) +
        (image->format >= 2));
}

static void
set_buffer_args(struct launch *l)
{
    const struct op *op = l->op;
    struct many many = {.a = l->x};
    cl_float4 f = {{1, (float)(l->x & 0xffff), 3, 4}};
    cl_uint words = l->src_words;

    run_pattern(&many, sizeof(many), op->seed);
    set_mem(l, 0, 0);
    switch (op->kernel) {
    case KERNEL_MIX:
        set_mem(l, 1, 1);
        set_arg(l, 2, sizeof(l->n), &l->n);
        set_arg(l, 3, sizeof(l->x), &l->x);
        break;
    case KERNEL_REVERSE:
        set_mem(l, 1, 1);
        set_arg(l, 2, l->local[0] * sizeof(cl_uint), NULL);
        l->global[0] = l->n / l->local[0] * l->local[0];
        break;
    case KERNEL_COUNT:
    case KERNEL_TABLE:
        words = op->kernel == KERNEL_TABLE ? words : l->n;
        words = words > 64 ? 64 : words;
        set_mem(l, 1, 1);
        set_arg(l, 2, sizeof(l->n), &l->n);
        set_arg(l, 3, sizeof(words), &words);
        break;
    case KERNEL_STRUCT:
        set_arg(l, 1, sizeof(l->n), &l->n);
        set_arg(l, 2, sizeof(many), &many);
        set_arg(l, 3, sizeof(f), &f);
        break;
    case KERNEL_NONE:
        set_arg(l, 1, sizeof(cl_mem), NULL);
        set_arg(l, 2, sizeof(l->n), &l->n);
        set_arg(l, 3, sizeof(l->x), &l->x);
        break;
    default: /* KERNEL_ADD, KERNEL_GRID */
        set_arg(l, 1, sizeof(l->n), &l->n);
        set_arg(l, 2, sizeof(l->x), &l->x);
        break;
    }
}

static void
set_image_args(struct launch *l, const struct mem_plan *image,
               const cl_sampler *samplers)
{
    cl_uint words = l->src_words;

    set_mem(l, 0, 0);
    if (l->op->kernel == KERNEL_TO_IMAGE) {
        l->dimensions = 2;
        l->global[0] = image->extent[0];
        l->global[1] = image->extent[1];
        l->fixed_local = false;
        set_mem(l, 1, 1);
        set_arg(l, 2, sizeof(words), &words);
    } else {
        set_arg(l, 1, sizeof(l->n), &l->n);
        set_mem(l, 2, 1);
        set_arg(l, 3, sizeof(cl_sampler), &samplers[l->x & 1]);
    }
}

/** The kernel of the world, or a new one where arguments cannot change their kind. */
static cl_kernel
get_kernel(const struct run *r, const struct op *op, enum kernel_name name)
{
    cl_kernel kernel = r->world->kernels[op->context][name];

    if ((r->plan->features & PLAN_KEPT_KERNELS) == 0) {
        return clCreateKernel(r->world->programs[op->context], names[name], NULL);
    }
    clRetainKernel(kernel);
    return kernel;
}

cl_int
run_kernel(struct run *r, int index, cl_uint wait_count, const cl_event *waits,
           cl_event *event)
{
    const struct op *op = &r->plan->ops[index];
    const struct mem_plan *dst = &r->plan->mems[op->mem[0]];
    const struct mem_plan *src = op->mem[1] < 0 ? dst : &r->plan->mems[op->mem[1]];
    size_t words = dst->image ? 64 : dst->size / 4;
    enum kernel_name name;
    cl_int err;
    struct launch l = {.run = r, .op = op, .dimensions = 1, .x = (cl_uint)op->seed};

    if (!src->image && src->size / 4 < words && op->kernel != KERNEL_TABLE) {
        words = src->size / 4;
    }
    l.n = (cl_uint)(words > 20000 ? 20000 : words);
    l.src_words = (cl_uint)(src->size / 4);
    if (op->kernel == KERNEL_CHASE) {
        return pointer_chase(r, index, l.n, wait_count, waits, event);
    }
    name = name_of(r->plan, op);
    l.mem[0] = r->mems[op->mem[0]];
    l.mem[1] = op->mem[1] < 0 ? NULL : r->mems[op->mem[1]];
    l.fixed_local = op->local != 0 || op->kernel == KERNEL_REVERSE;
    l.local[0] = op->local != 0 ? (size_t)1 << (op->local - 1) : 8;
    while (l.local[0] > r->world->group[op->context][name]) {
        l.local[0] /= 2;
    }
    l.local[1] = 1;
    l.global[0] = (l.n + l.local[0] - 1) / l.local[0] * l.local[0];
    l.global[1] = 1;
    if (op->kernel == KERNEL_GRID) {
        l.dimensions = 2;
        l.global[1] = (l.n + 63) / 64;
        l.global[0] = 64;
        l.offset[0] = op->seed >> 32 & 7;
        l.offset[1] = op->seed >> 40 & 7;
    }
    l.kernel = get_kernel(r, op, name);
    if (op->kernel < KERNEL_OF_IMAGE) {
        set_buffer_args(&l);
    } else {
        set_image_args(&l, dst->image ? dst : src, r->world->samplers[op->context]);
    }
    err = l.err;
    if (err == CL_SUCCESS) {
        err = clEnqueueNDRangeKernel(r->queues[op->queue], l.kernel, l.dimensions,
                                     l.offset, l.global, l.fixed_local ? l.local : NULL,
                                     wait_count, waits, event);
    }
    clReleaseKernel(l.kernel);
    return err;
}
