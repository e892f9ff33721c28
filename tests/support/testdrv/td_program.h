/* SPDX-License-Identifier: Apache-2.0 */
/* The test driver: programs, kernels and their arguments. Included by td.h. */
#ifndef TESTDRV_TD_PROGRAM_H
#define TESTDRV_TD_PROGRAM_H

#include "td.h"

enum td_arg_kind { TD_ARG_GLOBAL, TD_ARG_CONSTANT, TD_ARG_LOCAL, TD_ARG_VALUE };

/** Declaration of one argument in the source. */
struct td_arg_info {
    enum td_arg_kind kind;
    char name[48];
    char type[48];
    size_t size; /* of a value; 0 = not known, any */
    cl_kernel_arg_type_qualifier quals;
};

struct td_kernel_info {
    struct td_kernel_info *next;
    char name[64];
    char attributes[64];
    cl_uint num_args;
    struct td_arg_info *arg;
};

/** Finds all kernels of a source text (parse.c). Gives a list; NULL if there is none. */
struct td_kernel_info *td_parse(const char *source);
void td_parse_free(struct td_kernel_info *list);

struct td_build {
    cl_build_status status;
    cl_program_binary_type type;
    char *log;
};

enum { TD_SPECS_MAX = 8 };
/** A specialization constant. */
struct td_spec {
    cl_uint id;
    size_t size;
    cl_ulong value;
};

struct _cl_program {
    struct td_obj obj;
    cl_context context;
    cl_uint num_devices;
    cl_device_id device[TD_DEVICES_MAX];
    char *source; /* of a binary: what it was made from */
    bool from_binary;
    void *il; /* as given; NULL: it is not of SPIR-V */
    size_t il_len;
    struct td_spec spec[TD_SPECS_MAX];
    unsigned num_specs;
    cl_ulong spec_sum; /* of all values, as they were at the latest build */
    char *options; /* of the latest build */
    struct td_build build[TD_DEVICES_MAX];
    struct td_kernel_info *kernels; /* known after the first good build, then fixed */
    unsigned live_kernels;
};

/** One argument's value. */
struct td_arg {
    bool set;
    cl_mem mem; /* holds a reference; NULL is a value too */
    size_t size; /* of the value, or of the local memory */
    uint8_t *value;
};

struct _cl_kernel {
    struct td_obj obj;
    cl_program program;
    const struct td_kernel_info *info; /* the program's */
    struct td_arg *arg;
};

/** Parameter of a kernel function: one call runs the whole range. */
struct td_launch {
    cl_uint dims;
    size_t offset[3], global[3], local[3];
    size_t items;
    cl_uint num_args;
    const struct td_arg_info *info;
    struct td_arg *arg; /* local memory is in value */
    cl_ulong spec_sum; /* of the program's specialization constants */
};

/** A program with source, which it takes (NULL: no memory), for some devices. */
cl_program td_program_new(cl_context context, cl_uint count,
                          const cl_device_id *devices, char *source);
/** True if a device takes SPIR-V. */
bool td_takes_il(cl_device_id dev);
/** Declarations of the kernels that need no source, the device's first ones; a NULL ends
    them. */
struct td_built_in {
    const char *name, *declaration;
};
const struct td_built_in *td_built_in_kernels(void);

/** A kernel of ours. @return CL_SUCCESS or what the command's event shall say. */
typedef cl_int (*td_function)(const struct td_launch *launch);
/** Those of pipes (pipe.c). */
cl_int td_kernel_pipe_put(const struct td_launch *l);
cl_int td_kernel_pipe_get(const struct td_launch *l);
/** @return the function for this kernel, NULL if there is none with such arguments. */
td_function td_builtin_find(const struct td_kernel_info *info);

/** Copies arguments, with references. @return false: no memory. */
bool td_args_copy(struct td_arg **ret_to, const struct td_arg *from, cl_uint count);
void td_args_free(struct td_arg *arg, cl_uint count);
/** A copy with a NUL behind it. */
char *td_strdup(const char *text, size_t len);

#endif
