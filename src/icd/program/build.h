/* SPDX-License-Identifier: Apache-2.0 */
/* One running call of clBuildProgram, clCompileProgram, clLinkProgram or
   clCreateProgramWithBuiltInKernels. */
#ifndef TELPHER_ICD_PROGRAM_BUILD_H
#define TELPHER_ICD_PROGRAM_BUILD_H

#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/program/include.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

enum tp_icd_build_kind { TP_ICD_BUILD, TP_ICD_COMPILE, TP_ICD_LINK, TP_ICD_BUILT_IN };

struct tp_icd_build;

/** The part of a build in one session. */
struct tp_icd_build_part {
    struct tp_icd_request req;
    struct tp_icd_build *build;
    uint32_t session_index;
    bool asked;
    cl_int result; /**< of the server's driver, or the error of a lost session */
    struct tp_icd_incoming facts;
};

struct tp_icd_build {
    enum tp_icd_build_kind kind;
    struct tp_icd_program *p; /* held */
    bool *selected; /**< [device_count] devices to build for */
    const char *options; /**< of the caller; borrowed while the requests are sent */
    const char *names; /**< of built-in kernels; borrowed likewise */
    struct tp_icd_includes *includes; /**< of a source; else NULL */
    struct tp_buf first_files; /**< records to send before the build */
    struct tp_buf header_names; /**< each with its NUL */
    struct tp_icd_headers headers; /**< borrowed while the requests are sent */
    uint64_t *inputs; /**< ids of a link's, or of header programs */
    uint16_t input_count;
    void(CL_CALLBACK *notify)(cl_program, void *);
    void *user;
    unsigned open; /**< parts without result, plus 1 while the caller sends requests */
    struct tp_icd_request merged; /**< done when the result is in the program */
    cl_int result;
    struct tp_icd_build_part parts[TP_ICD_SESSIONS_MAX];
};

/** Arguments common to all build calls. */
struct tp_icd_build_call {
    enum tp_icd_build_kind kind;
    cl_uint device_count;
    const cl_device_id *devices; /**< NULL: all of the program */
    const char *options; /**< may be NULL */
    void(CL_CALLBACK *notify)(cl_program, void *);
    void *user;
};

/* ---- build.c ---- */

/**
 * Creates a build for the devices of the call. Holds the program.
 * @return CL_SUCCESS, CL_INVALID_DEVICE, CL_OUT_OF_HOST_MEMORY
 */
cl_int tp_icd_build_create(struct _cl_program *program,
                           const struct tp_icd_build_call *call,
                           struct tp_icd_build **ret_build);
void tp_icd_build_free(struct tp_icd_build *b);
/** Runs the build, and waits for the result unless there is a callback; frees @p b. */
cl_int tp_icd_build_run(struct tp_icd_build *b);

/* ---- build_merge.c ---- */

/** Merges the result of one session into the program. Under the lock. */
void tp_icd_build_merge_part(struct tp_icd_build *b, struct tp_icd_build_part *part);

#endif
