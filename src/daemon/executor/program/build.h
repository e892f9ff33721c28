/* SPDX-License-Identifier: Apache-2.0 */
/* A build, compilation or link on its way through the pool. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_H

#include "daemon/cache/digest.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/program/program.h"

enum tp_exec_build_kind {
    TP_EXEC_BUILD,
    TP_EXEC_COMPILE,
    TP_EXEC_LINK,
    TP_EXEC_MAKE_BUILT_IN, /**< of kernels that the driver brings along */
};

/** What a message asks for. */
struct tp_exec_build_params {
    enum tp_exec_build_kind kind;
    uint64_t request, program;
    const struct tp_wire_u64s *devices;
    const struct tp_wire_bytes *options;
    const struct tp_wire_u64s *inputs; /**< of a link; else NULL */
    const struct tp_wire_bytes *names; /**< of built-in kernels; else NULL */
};

struct tp_exec_build {
    struct tp_list link; /**< program->builds while its content is awaited */
    enum tp_exec_build_kind kind;
    struct tp_exec_program *program;
    uint64_t request;
    cl_uint device_count;
    uint32_t *indices; /**< of the server's devices */
    cl_device_id *devices; /**< the same, native */
    char *options; /**< as the client gave them */
    char *names; /**< of built-in kernels, or NULL */
    size_t spec_count;
    struct tp_exec_spec *specs; /**< the program's when the build was asked for */
    uint8_t *files; /**< records of what it includes, taken when it runs; or NULL */
    uint64_t files_len;
    cl_uint input_count;
    struct tp_exec_program **inputs; /**< read-held until it is over */
    bool has_key; /**< it can be cached */
    uint8_t key[TP_SHA256_BYTES];
    bool cached; /**< it came from there */
    uint64_t generation; /**< the program's, with this build */
};

/** Makes a build of what a message says. @return 0 or the CL error */
int32_t tp_exec_build_new(struct tp_exec_program *p,
                          const struct tp_exec_build_params *params,
                          struct tp_exec_build **ret_build);
void tp_exec_build_free(struct tp_exec_build *build);
/** What the driver is told: the client's options and ours. @return NULL: no memory */
char *tp_exec_build_options(const struct tp_exec_build *build);

/**
 * Sends content that is too large for a frame as a transfer of ours.
 * @param content taken (tp_free)
 */
telpher_status tp_exec_send_content(struct tp_exec *x, uint64_t transfer, void *content,
                                    uint64_t size);

/** Appends all facts of a program; of its kernels if it is @p executable. @return OK,
 *  NO_MEMORY, LIMIT */
telpher_status tp_exec_program_facts(struct tp_exec_build *build, bool executable,
                                     struct tp_buf *facts);
/** Appends name and argument facts of all kernels: what binaries carry along. */
telpher_status tp_exec_argument_facts(struct tp_exec_program *p, struct tp_buf *facts);

/* ---- il.c ---- */

/** Makes the native program of SPIR-V. @return 0 or the CL error */
int32_t tp_exec_il_create(const struct tp_exec_program *p, cl_program *ret_native);
/** Gives the native program the constants of a build. @return 0 or the CL error */
int32_t tp_exec_il_specialize(const struct tp_exec_build *build);

/* ---- source.c ---- */

/** Gives a build of source or IL the native program it needs. @return 0 or the CL error */
int32_t tp_exec_text_prepare(struct tp_exec_build *build);
/** Puts a program of binaries in its place, taken, as built for all devices. */
bool tp_exec_text_replace(struct tp_exec_build *build, cl_program native);
/**
 * Keeps the binaries of such a program, by build->devices: drivers give none of an object
 * or library that they only loaded. @return false: no memory
 */
bool tp_exec_text_keep(struct tp_exec_build *build, const size_t *sizes,
                       const uint8_t *const *binaries);
/** @return what was kept for a device, or NULL */
const uint8_t *tp_exec_text_kept(const struct tp_exec_program *p, cl_device_id device,
                                 size_t *ret_size);
/** A build is over: notes for which devices the native program has something. */
void tp_exec_text_built(struct tp_exec_build *build);

#endif
