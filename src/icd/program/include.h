/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's files that a build reads: guesses which they are before the build, and
 * answers what the server's compiler asks for during it.
 */
#ifndef TELPHER_ICD_PROGRAM_INCLUDE_H
#define TELPHER_ICD_PROGRAM_INCLUDE_H

#include "base/container/buf.h"
#include "icd/icd.h"
#include "icd/program/program.h"

struct tp_icd_includes;

/** Header programs of clCompileProgram. */
struct tp_icd_headers {
    cl_uint count;
    struct _cl_program *const *programs; /**< all with source */
    const char *const *names;
};

/**
 * Reads the files that the lines #include "name" of a source, of its headers and of these
 * files name, in the folders of the options and in the present one. Opens regular files
 * only. Not under the lock: it reads files.
 *
 * @param program  has a source; kept until the end
 * @param ret_first gives records (wire/files.h) to send before the build; the caller ends it
 * @return CL_SUCCESS, CL_OUT_OF_HOST_MEMORY
 */
cl_int tp_icd_includes_create(const struct _cl_program *program, const char *options,
                              const struct tp_icd_headers *headers,
                              struct tp_icd_includes **ret_includes,
                              struct tp_buf *ret_first);
/** NULL is fine. */
void tp_icd_includes_destroy(struct tp_icd_includes *includes);
/**
 * Appends records with content for names that a compiler looks up, each with its NUL. Files
 * that the program does not name are said to be absent. Any thread.
 * @return OK, NO_MEMORY
 */
telpher_status tp_icd_includes_answer(struct tp_icd_includes *includes,
                                      const char *names, size_t len,
                                      struct tp_buf *out);

#endif
