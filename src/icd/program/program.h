/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, kernels, their arguments, samplers, limits of launches. */
#ifndef TELPHER_ICD_PROGRAM_PROGRAM_H
#define TELPHER_ICD_PROGRAM_PROGRAM_H

#include "icd/objects/context.h"

/* ---- program.c, kernel.c ----------------------------------------------------------- */

struct _cl_program {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    struct _cl_device_id **devices;
    uint32_t device_count;
    char *source; /**< NUL-terminated; NULL: from something else */
    size_t source_len; /**< [bytes] without NUL */
    uint8_t *il; /**< SPIR-V; NULL: from something else */
    size_t il_len; /**< [bytes] */
    uint32_t sent; /**< mask of the sessions that have the source or binary */
    cl_build_status *build_status; /**< [device_count] */
    char **options; /**< [device_count]; NULL = never built */
    /** Facts of the last build in each session; NULL = not built there. */
    struct tp_icd_facts *facts[TP_ICD_SESSIONS_MAX];
    bool building;
    _Atomic uint32_t kernel_count; /**< live kernels: a rebuild is then refused */
};

struct _cl_sampler {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    cl_bool normalized;
    cl_addressing_mode addressing;
    cl_filter_mode filter;
    cl_sampler_properties *properties; /**< as given, with the final 0; NULL = none */
    uint32_t property_count;
    uint32_t created; /**< mask of the sessions where it exists */
};
/** Creates it in a session of its context unless it exists there. Under the lock. */
void tp_icd_sampler_ensure(struct _cl_sampler *sampler, uint32_t session_index);

struct tp_icd_arg {
    bool set;
    uint8_t kind; /**< enum tp_wire_arg */
    uint8_t declared; /**< reported by the compiler: enum tp_wire_arg, 0xff unknown */
    bool read_only; /**< const, __constant or read_only: keeps other copies valid */
    bool write_only; /**< an image that the kernel may not read */
    cl_mem_object_type object; /**< type of image or pipe it accepts, 0 = a buffer */
    uint32_t value_size; /**< [bytes] of a by-value type, 0 = unknown */
    uint32_t sent; /**< mask of the sessions that have the current value */
    size_t size;
    struct _cl_mem
        *mem; /* not held, as OpenCL requires; ARG_MEM, ARG_SVM, NULL = null pointer */
    size_t offset; /**< [bytes] of an ARG_SVM pointer in mem */
    struct tp_list mem_link; /**< in mem->args, so that freeing mem clears it */
    struct _cl_sampler *sampler; /* held; ARG_SAMPLER */
    uint8_t *value; /**< size bytes, ARG_VALUE */
};

struct _cl_kernel {
    struct tp_icd_object obj;
    struct _cl_program *program; /* held */
    char *name;
    uint32_t index; /**< in the program's facts */
    uint32_t created; /**< mask of the sessions where it exists */
    uint32_t arg_count;
    struct tp_icd_arg *args;
    const void **svm_ptrs; /**< allocations that it may reach otherwise, as given */
    uint32_t svm_count;
    bool svm_set; /**< there is or was a list */
    uint32_t svm_sent; /**< mask of the sessions that have the list */
    uint8_t usm_kinds; /**< tp_icd_usm_bit() of all memory that it may reach */
    uint64_t usm_changes; /**< tp_icd_svm_changes() of the list */
    _Atomic(struct tp_icd_launch_limits *) limits; /**< of devices it was launched on */
};
/** @return facts of the kernel in the session of a device; NULL if not built there. */
const struct tp_icd_facts *tp_icd_kernel_facts(const struct _cl_kernel *kernel,
                                               const struct _cl_device_id *dev);
/** Arguments that travel in a LAUNCH_AGAIN. */
struct tp_icd_again_args {
    uint8_t bytes[TP_WIRE_AGAIN_ARGS_MAX];
    uint8_t *at; /**< end of what is there */
};
/** Appends KERNEL_CREATE and the arguments not yet sent. Those that fit go to @p again
 *  unless it is NULL, others become KERNEL_ARGs. Under the lock. */
void tp_icd_kernel_ensure(struct _cl_kernel *kernel, uint32_t session_index,
                          struct tp_icd_again_args *again);

/** Copies the list of a kernel's SVM allocations. Under the lock.
 *  @return CL_SUCCESS, CL_OUT_OF_HOST_MEMORY */
cl_int tp_icd_exec_info_copy(struct _cl_kernel *to, const struct _cl_kernel *from);
/** Appends EXEC_INFO unless the session has it. Under the lock. */
void tp_icd_exec_info_put(struct _cl_kernel *kernel, uint32_t session_index);

/** Limits for launches of a kernel on a device; immutable after creation. */
struct tp_icd_launch_limits {
    struct tp_icd_launch_limits *next;
    const struct _cl_device_id *dev; /**< one of the program's */
    size_t range; /**< last work-item */
    size_t items[3]; /**< of a work-group in each dimension; SIZE_MAX: not known */
    size_t required[3]; /**< work-group of the source; required[0] = 0: none */
    size_t group; /**< work-items of a work-group; 0: not known */
    size_t local_used, local_has; /**< [bytes] by the source; SIZE_MAX: not known */
    bool uneven; /**< work-groups need not divide the global size */
};
/** Finds the limits, which live as long as the kernel. Any thread.
 *  @return CL_SUCCESS, CL_INVALID_PROGRAM_EXECUTABLE, CL_OUT_OF_HOST_MEMORY */
cl_int tp_icd_launch_limits(struct _cl_kernel *kernel, const struct _cl_device_id *dev,
                            const struct tp_icd_launch_limits **ret_limits);
/** Checks what a launch without a work-group size is checked for, apart from content and
 *  local memory; it must have work-items. @return what clEnqueueNDRangeKernel would say */
cl_int tp_icd_launch_check_range(const struct _cl_command_queue *q,
                                 struct _cl_kernel *kernel, cl_uint dims,
                                 const size_t *offset, const size_t *global);
void tp_icd_launch_limits_free(struct _cl_kernel *kernel);

#endif
