/* SPDX-License-Identifier: Apache-2.0 */
/* A build, compilation or link that runs on the pool, and the helpers that it needs. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_H

#include "base/text/sha256.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/program/program.h"

enum tp_exec_build_kind {
    TP_EXEC_BUILD,
    TP_EXEC_COMPILE,
    TP_EXEC_LINK,
    TP_EXEC_MAKE_BUILT_IN, /**< program of the driver's built-in kernels */
};

/** Parameters of a build, from its message. */
struct tp_exec_build_params {
    enum tp_exec_build_kind kind;
    uint64_t request, program;
    const struct tp_wire_u64s *devices;
    const struct tp_wire_bytes *options;
    const struct tp_wire_u64s *inputs; /**< of a link; else NULL */
    const struct tp_wire_u64s *headers; /**< programs, of a compilation; else NULL */
    const struct tp_wire_bytes
        *names; /**< of built-in kernels, or headers; else NULL */
};

struct tp_exec_build {
    struct tp_list link; /**< program->builds while it waits for content */
    enum tp_exec_build_kind kind;
    struct tp_exec_program *program;
    uint64_t request;
    cl_uint device_count;
    uint32_t *indices; /**< of the server's devices */
    cl_device_id *devices; /**< the same, native */
    char *options; /**< as the client gave them */
    const char *all_options; /**< with ours, while the driver builds; or NULL */
    char *names; /**< of built-in kernels, or of headers, each with its NUL; or NULL */
    size_t names_len; /**< [bytes] */
    size_t spec_count;
    struct tp_exec_spec *specs; /**< of the program at the time of the request */
    uint8_t *files; /**< records of the files it includes, set when it runs; or NULL */
    uint64_t files_len;
    cl_uint input_count;
    struct tp_exec_program **inputs; /**< held as readers until the end of the build */
    cl_uint header_count;
    struct tp_exec_program **headers; /**< held */
    bool has_key; /**< it can be cached */
    uint8_t key[TP_SHA256_BYTES];
    bool cached; /**< its result came from the cache */
    uint64_t generation; /**< generation of the program with this build */
};

struct tp_sha256;

/** Creates a build from the parameters of a message. @return 0 or the CL error */
int32_t tp_exec_build_new(struct tp_exec_program *p,
                          const struct tp_exec_build_params *params,
                          struct tp_exec_build **ret_build);
void tp_exec_build_free(struct tp_exec_build *build);
/** Option, with a number, of builds that repeat one with more files. */
#define TP_EXEC_ROUND " -DTELPHER_ROUND="
/** Makes the options for the driver: ours, then the client's. @return NULL: no memory */
char *tp_exec_build_options(const struct tp_exec_build *build);

/**
 * Sends content that is too large for a frame as a transfer started by the server.
 * @param content taken (tp_free)
 */
telpher_status tp_exec_send_content(struct tp_exec *x, uint64_t transfer, void *content,
                                    uint64_t size);

/** Reads the driver's log of one of the build's devices. @return NULL: none; tp_free() */
char *tp_exec_build_log(const struct tp_exec_build *build, cl_uint which);
/** Appends all facts of a program, and those of its kernels if it is @p executable.
 *  @return OK, NO_MEMORY, LIMIT */
telpher_status tp_exec_program_facts(struct tp_exec_build *build, bool executable,
                                     struct tp_buf *facts);
/** Appends names and argument facts of all kernels, which are stored with binaries. */
telpher_status tp_exec_argument_facts(struct tp_exec_program *p, struct tp_buf *facts);

/** Adds source text, headers and included files of the build to a digest. */
void tp_exec_build_sum(const struct tp_exec_build *build, struct tp_sha256 *sum);
/** Compiles the program for @p count devices, with the build's headers.
 *  @return 0 or the CL error */
int32_t tp_exec_build_compile(const struct tp_exec_build *build, cl_uint count,
                              const cl_device_id *devices, const char *options);

/* ---- options.c ---- */

/** True if options have the compiler write or load files, or, without a guard, read them. */
bool tp_exec_options_refused(const char *options, bool guarded);

/* ---- build_lock.c ---- */

/**
 * Waits, at most 20 s, until no other executor of this user builds the same program, where
 * the driver needs that. Pool threads, outside of the guard.
 * @return for tp_exec_build_unlock(); -1: there is no lock
 */
int tp_exec_build_lock(const struct tp_exec_build *build, const char *options);
void tp_exec_build_unlock(int fd);

/* ---- confined.c ---- */

/** True if the system can guard builds. Threads of the pool. */
bool tp_exec_builds_are_guarded(struct tp_exec *x);
/**
 * Runs fn(build, options), which compiles a source: it sees the client's files and those of
 * the driver.
 * @return what fn returns; CL_OUT_OF_RESOURCES; or an error of a build if the system cannot
 *         guard it and it might read files
 */
int32_t tp_exec_build_confined(struct tp_exec_build *build, const char *options,
                               int32_t (*fn)(struct tp_exec_build *build,
                                             const char *options));
/** Hands files that come during a build to it. @return false: there is none */
bool tp_exec_build_answer(struct tp_exec_program *p, const uint8_t *records,
                          uint64_t len);

/* ---- il.c ---- */

/** Creates the native program from SPIR-V. @return 0 or the CL error */
int32_t tp_exec_il_create(const struct tp_exec_program *p, cl_program *ret_native);
/** Sets the specialization constants of a build. @return 0 or the CL error */
int32_t tp_exec_il_specialize(const struct tp_exec_build *build);

/* ---- source.c ---- */

/** Creates the native program of a source. @return 0 or the CL error */
int32_t tp_exec_source_create(const struct tp_exec_program *p, cl_program *ret_native);
/** Prepares the native program for a build of source or IL. @return 0 or the CL error */
int32_t tp_exec_text_prepare(struct tp_exec_build *build);
/** Releases the native program before another run, unless other devices need it: Intel's
 *  runtime does not compile a failed program again. */
void tp_exec_text_forget(struct tp_exec_build *build);
/** Replaces it by a program created from binaries, built for all devices. @p native is
 *  taken. */
bool tp_exec_text_replace(struct tp_exec_build *build, cl_program native);
/**
 * Keeps the binaries of such a program, in the order of build->devices: drivers return no
 * binary of an object or library that was itself loaded from one. @return false: no memory
 */
bool tp_exec_text_keep(struct tp_exec_build *build, const size_t *sizes,
                       const uint8_t *const *binaries);
/** @return the binary kept for a device, or NULL */
const uint8_t *tp_exec_text_kept(const struct tp_exec_program *p, cl_device_id device,
                                 size_t *ret_size);
/** Records after a build for which devices the native program is built. */
void tp_exec_text_built(struct tp_exec_build *build);

#endif
