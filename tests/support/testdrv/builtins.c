/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the test driver. A program's source must declare them with these
 * arguments; its bodies are for other drivers:
 *
 *   add(global int *a, global int *b, global int *c)   c[i] = a[i] + b[i]
 *   wrong(…the same…)                                  c[i] = a[i] + b[i] + 1
 *   inc(global int *x, int by)                         x[i] += by
 *   fill(global int *x, int value)                     x[i] = value
 *   copy(global int *from, global int *to)             to[i] = from[i]
 *   scale(global float *x, float by)                   x[i] *= by
 *   sum(global int *x, int count, global int *out)     out[0] = x[0] + … + x[count - 1]
 *   pack(global uchar *out, …values…)                  out = the values' bytes, in order
 *   range(global ulong *out)     out = offset[3], global[3], local[3], dimensions
 *   local_bytes(global ulong *out, local int *memory)  out[0] = size of the local memory
 *   spec(global int *x)          x[0] = the sum of the specialization constants
 *   camera(global int *frame, global ulong *bytes, int number)
 *                        frame = that frame of the file TESTDRV_CAMERA, bytes[0] = its size;
 *                        the file has for each frame its size, 8 bytes, and the frame
 *   pipe_put(pipe int p, global int *x)                writes x[i] to p, or x[i] = -1
 *   pipe_get(pipe int p, global int *x)                x[i] = what p had, or -1
 *   sleep_ms(int ms)     print(int value)     hang()     crash()
 *
 * i is get_global_id(0). A pointer may be const, global or constant.
 */
#include "td.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Elements [0 .. ret_count) of argument @p index; NULL for a NULL buffer. */
static void *
elements(const struct td_launch *l, cl_uint index, size_t size, size_t *ret_count)
{
    cl_mem mem = l->arg[index].mem;

    *ret_count = mem != NULL ? mem->size / size : 0;
    return mem != NULL ? mem->data : NULL;
}

static cl_int
int_value(const struct td_launch *l, cl_uint index)
{
    cl_int value;

    memcpy(&value, l->arg[index].value, sizeof(value));
    return value;
}

/* A kernel that reaches outside its buffers fails instead of breaking the process. */
static cl_int
out_of_bounds(void)
{
    fprintf(stderr, "testdrv: a kernel reaches outside a buffer\n");
    return CL_OUT_OF_RESOURCES;
}

/* First and last work-item, in dimension 0. @return false if not all < @p count. */
static bool
items_within(const struct td_launch *l, size_t count)
{
    return l->offset[0] + l->global[0] <= count;
}

static cl_int
add_with(const struct td_launch *l, cl_int more)
{
    size_t n[3];
    const cl_int *a = elements(l, 0, sizeof(*a), &n[0]);
    const cl_int *b = elements(l, 1, sizeof(*b), &n[1]);
    cl_int *c = elements(l, 2, sizeof(*c), &n[2]);

    if (!items_within(l, n[0]) || !items_within(l, n[1]) || !items_within(l, n[2])) {
        return out_of_bounds();
    }
    for (size_t i = l->offset[0]; i < l->offset[0] + l->global[0]; i++) {
        c[i] = (cl_int)((cl_uint)a[i] + (cl_uint)b[i] + (cl_uint)more);
    }
    return CL_COMPLETE;
}

static cl_int
kernel_add(const struct td_launch *l)
{
    return add_with(l, 0);
}

static cl_int
kernel_wrong(const struct td_launch *l)
{
    return add_with(l, 1);
}

static cl_int
kernel_inc(const struct td_launch *l)
{
    size_t n;
    cl_int *x = elements(l, 0, sizeof(*x), &n);

    if (!items_within(l, n)) {
        return out_of_bounds();
    }
    for (size_t i = l->offset[0]; i < l->offset[0] + l->global[0]; i++) {
        x[i] = (cl_int)((cl_uint)x[i] + (cl_uint)int_value(l, 1));
    }
    return CL_COMPLETE;
}

static cl_int
kernel_fill(const struct td_launch *l)
{
    size_t n;
    cl_int *x = elements(l, 0, sizeof(*x), &n);

    if (!items_within(l, n)) {
        return out_of_bounds();
    }
    for (size_t i = l->offset[0]; i < l->offset[0] + l->global[0]; i++) {
        x[i] = int_value(l, 1);
    }
    return CL_COMPLETE;
}

static cl_int
kernel_copy(const struct td_launch *l)
{
    size_t n[2];
    const cl_int *from = elements(l, 0, sizeof(*from), &n[0]);
    cl_int *to = elements(l, 1, sizeof(*to), &n[1]);

    if (!items_within(l, n[0]) || !items_within(l, n[1])) {
        return out_of_bounds();
    }
    memmove(to + l->offset[0], from + l->offset[0], l->global[0] * sizeof(*to));
    return CL_COMPLETE;
}

static cl_int
kernel_scale(const struct td_launch *l)
{
    size_t n;
    cl_float *x = elements(l, 0, sizeof(*x), &n);
    cl_float by;

    memcpy(&by, l->arg[1].value, sizeof(by));
    if (!items_within(l, n)) {
        return out_of_bounds();
    }
    for (size_t i = l->offset[0]; i < l->offset[0] + l->global[0]; i++) {
        x[i] *= by;
    }
    return CL_COMPLETE;
}

static cl_int
kernel_sum(const struct td_launch *l)
{
    size_t n[2];
    const cl_int *x = elements(l, 0, sizeof(*x), &n[0]);
    cl_int *out = elements(l, 2, sizeof(*out), &n[1]);
    cl_int count = int_value(l, 1);
    cl_uint total = 0;

    if (count < 0 || (size_t)count > n[0] || n[1] < 1) {
        return out_of_bounds();
    }
    for (cl_int i = 0; i < count; i++) {
        total += (cl_uint)x[i];
    }
    out[0] = (cl_int)total;
    return CL_COMPLETE;
}

static cl_int
kernel_pack(const struct td_launch *l)
{
    size_t n;
    size_t used = 0;
    uint8_t *out = elements(l, 0, 1, &n);

    for (cl_uint i = 1; i < l->num_args; i++) {
        if (l->info[i].kind != TD_ARG_VALUE) {
            continue;
        }
        if (l->arg[i].size > n - used) {
            return out_of_bounds();
        }
        memcpy(out + used, l->arg[i].value, l->arg[i].size);
        used += l->arg[i].size;
    }
    return CL_COMPLETE;
}

static cl_int
kernel_range(const struct td_launch *l)
{
    size_t n;
    cl_ulong *out = elements(l, 0, sizeof(*out), &n);

    if (n < 10) {
        return out_of_bounds();
    }
    for (int i = 0; i < 3; i++) {
        out[i] = l->offset[i];
        out[3 + i] = l->global[i];
        out[6 + i] = l->local[i];
    }
    out[9] = l->dims;
    return CL_COMPLETE;
}

static cl_int
kernel_local_bytes(const struct td_launch *l)
{
    size_t n;
    cl_ulong *out = elements(l, 0, sizeof(*out), &n);

    if (n < 1) {
        return out_of_bounds();
    }
    memset(l->arg[1].value, 1, l->arg[1].size);
    out[0] = l->arg[1].size;
    return CL_COMPLETE;
}

static cl_int
kernel_spec(const struct td_launch *l)
{
    size_t n;
    cl_int *x = elements(l, 0, sizeof(*x), &n);

    if (n < 1) {
        return out_of_bounds();
    }
    x[0] = (cl_int)l->spec_sum;
    return CL_COMPLETE;
}

/* Reads the size of frame @p number, 0 for the first again after the last.
   @return false: the file has no frame */
static bool
find_frame(FILE *file, cl_int number, uint64_t *ret_bytes)
{
    cl_int seen = 0;

    while (fread(ret_bytes, sizeof(*ret_bytes), 1, file) == 1) {
        if (seen++ == number) {
            return true;
        }
        if (*ret_bytes > TD_ALLOC_MAX_BYTES ||
            fseek(file, (long)*ret_bytes, SEEK_CUR) != 0) {
            return false;
        }
    }
    rewind(file);
    return seen > 0 && find_frame(file, number % seen, ret_bytes);
}

/* A camera whose frames come from a file. */
static cl_int
kernel_camera(const struct td_launch *l)
{
    size_t size, count;
    uint8_t *frame = elements(l, 0, 1, &size);
    cl_ulong *bytes = elements(l, 1, sizeof(*bytes), &count);
    const char *name = td_script()->camera;
    FILE *file = name != NULL ? fopen(name, "rbe") : NULL;
    uint64_t found = 0;
    bool good = file != NULL && count > 0 && int_value(l, 2) >= 0 &&
                find_frame(file, int_value(l, 2), &found) && found <= size &&
                fread(frame, 1, found, file) == found;

    if (file != NULL) {
        fclose(file);
    }
    if (!good) {
        fprintf(stderr, "testdrv: TESTDRV_CAMERA has no frame that the buffer holds\n");
        return CL_OUT_OF_RESOURCES;
    }
    bytes[0] = found;
    return CL_COMPLETE;
}

static cl_int
kernel_sleep_ms(const struct td_launch *l)
{
    usleep((useconds_t)int_value(l, 0) * 1000);
    return CL_COMPLETE;
}

/* As a kernel's printf: one line a work-item, written before the command completes. */
static cl_int
kernel_print(const struct td_launch *l)
{
    for (size_t i = l->offset[0]; i < l->offset[0] + l->global[0]; i++) {
        printf("work-item %zu: %d\n", i, int_value(l, 0));
    }
    fflush(stdout);
    return CL_COMPLETE;
}

static cl_int
kernel_hang(const struct td_launch *l)
{
    (void)l;
    td_hang();
}

static cl_int
kernel_crash(const struct td_launch *l)
{
    (void)l;
    td_crash();
}

/** A letter an argument: p pointer to global or constant, l local, 4 a value of 4 bytes;
    '.' at the end: any more. */
static const struct {
    const char *name;
    const char *args;
    td_function function;
} builtin[] = {
    {"add", "ppp", kernel_add},
    {"wrong", "ppp", kernel_wrong},
    {"inc", "p4", kernel_inc},
    {"fill", "p4", kernel_fill},
    {"copy", "pp", kernel_copy},
    {"scale", "p4", kernel_scale},
    {"sum", "p4p", kernel_sum},
    {"pack", "p.", kernel_pack},
    {"range", "p", kernel_range},
    {"local_bytes", "pl", kernel_local_bytes},
    {"sleep_ms", "4", kernel_sleep_ms},
    {"print", "4", kernel_print},
    {"hang", "", kernel_hang},
    {"crash", "", kernel_crash},
    {"spec", "p", kernel_spec},
    {"camera", "pp4", kernel_camera},
    {"pipe_put", "pp", td_kernel_pipe_put},
    {"pipe_get", "pp", td_kernel_pipe_get},
};

static bool
arg_matches(char letter, const struct td_arg_info *arg)
{
    switch (letter) {
    case 'p':
        return arg->kind == TD_ARG_GLOBAL || arg->kind == TD_ARG_CONSTANT;
    case 'l':
        return arg->kind == TD_ARG_LOCAL;
    default:
        return arg->kind == TD_ARG_VALUE && arg->size == 4;
    }
}

static bool
args_match(const char *letters, const struct td_kernel_info *info)
{
    for (cl_uint i = 0; i < info->num_args; i++) {
        if (letters[i] == '.') {
            return true;
        }
        if (letters[i] == '\0' || !arg_matches(letters[i], &info->arg[i])) {
            return false;
        }
    }
    return letters[info->num_args] == '\0' || letters[info->num_args] == '.';
}

td_function
td_builtin_find(const struct td_kernel_info *info)
{
    for (size_t i = 0; i < sizeof(builtin) / sizeof(builtin[0]); i++) {
        if (strcmp(info->name, builtin[i].name) == 0 &&
            args_match(builtin[i].args, info)) {
            return builtin[i].function;
        }
    }
    return NULL;
}
