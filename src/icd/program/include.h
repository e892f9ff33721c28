/* SPDX-License-Identifier: Apache-2.0 */
/* The files of this machine that a build includes: they travel with it. */
#ifndef TELPHER_ICD_PROGRAM_INCLUDE_H
#define TELPHER_ICD_PROGRAM_INCLUDE_H

#include "base/container/buf.h"
#include "icd/icd.h"
#include "icd/program/program.h"

/** What a build takes along. */
struct tp_icd_includes {
    struct tp_buf records; /**< wire/files.h; empty: nothing is included */
    char *options; /**< heap; those of the build without -I */
};

/** Header programs of clCompileProgram. */
struct tp_icd_headers {
    cl_uint count;
    struct _cl_program *const *programs; /**< all with source */
    const char *const *names;
};

/**
 * Reads what the source includes, and what that includes: header programs first, then what
 * `#include` finds from the present folder and by the -I options. Only regular files that
 * a directive names are opened. Not under the lock: it reads files.
 *
 * @param ret gives what was found; to be ended by tp_icd_includes_fini() in any case
 * @return CL_SUCCESS, CL_OUT_OF_HOST_MEMORY
 */
cl_int tp_icd_includes_find(const struct _cl_program *program, const char *options,
                            const struct tp_icd_headers *headers,
                            struct tp_icd_includes *ret);
void tp_icd_includes_fini(struct tp_icd_includes *includes);

#endif
