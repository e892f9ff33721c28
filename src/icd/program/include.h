/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the client's files that a program includes, to send them with its build. */
#ifndef TELPHER_ICD_PROGRAM_INCLUDE_H
#define TELPHER_ICD_PROGRAM_INCLUDE_H

#include "base/container/buf.h"
#include "icd/icd.h"
#include "icd/program/program.h"

/** The files sent with a build. */
struct tp_icd_includes {
    struct tp_buf records; /**< wire/files.h; empty: no file is included */
    char *options; /**< heap; the build's options without -I */
};

/** Header programs of clCompileProgram. */
struct tp_icd_headers {
    cl_uint count;
    struct _cl_program *const *programs; /**< all with source */
    const char *const *names;
};

/**
 * Reads the files that the source includes, recursively. Header programs come first, then
 * files found from the current directory and by the -I options. Opens only regular files
 * that a directive names. Not under the lock: it reads files.
 *
 * @param ret gives the files; free with tp_icd_includes_fini() in any case
 * @return CL_SUCCESS, CL_OUT_OF_HOST_MEMORY
 */
cl_int tp_icd_includes_find(const struct _cl_program *program, const char *options,
                            const struct tp_icd_headers *headers,
                            struct tp_icd_includes *ret);
void tp_icd_includes_fini(struct tp_icd_includes *includes);

#endif
