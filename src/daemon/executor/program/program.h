/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and kernels of a session. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_PROGRAM_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_PROGRAM_H

#include "base/container/buf.h"
#include "base/container/map.h"
#include "base/text/sha256.h"
#include "daemon/executor/objects/objects.h"

/* ---- program.c, build.c, binary_load.c ---- */

struct tp_exec_build;
struct tp_exec_files;
struct tp_exec_text;

/** Origin of a program. */
enum tp_exec_origin {
    TP_EXEC_FROM_SOURCE,
    TP_EXEC_FROM_IL,
    TP_EXEC_FROM_BINARY,
    TP_EXEC_FROM_LINK,
    TP_EXEC_BUILT_IN,
};

/** Value of a specialization constant. */
struct tp_exec_spec {
    uint32_t id, len;
    uint8_t value[TP_WIRE_SPEC_MAX];
};

struct tp_exec_program {
    struct tp_exec_object obj;
    struct tp_exec_context *context;
    enum tp_exec_origin origin;
    char *text; /**< source or IL; constant once set */
    uint64_t text_len; /**< [bytes] */
    cl_program native; /**< from source or IL: created by the first build */
    bool building; /**< done_lock */
    unsigned waiting; /**< transfers of its content in progress; done_lock */
    unsigned readers; /**< PROGRAM_BINARIES and links under way; done_lock */
    struct tp_list builds; /**< a build that waits for content or readers; done_lock */
    struct tp_buf stored; /**< argument facts stored with a binary */
    struct tp_buf specs; /**< struct tp_exec_spec of a program in IL; reader only */
    struct tp_map spec_places; /**< id of a constant → its index in specs plus 1 */
    uint32_t kernel_count; /**< kernels alive; reader only */
    bool
        had_kernels; /**< since the last build; owned by the reader, or by a running build */
    uint8_t *files; /**< records for the next build, or NULL; done_lock */
    uint64_t files_len; /**< [bytes] */
    struct tp_exec_files *seen; /**< by the build that runs, or NULL; done_lock */
    int32_t files_error; /**< reason for their absence; done_lock */
    uint64_t generation; /**< counts builds; done_lock */
    bool has_key; /**< of the last build; valid while not building */
    uint8_t key[TP_SHA256_BYTES]; /**< key in the build cache */
    struct tp_exec_text *made_of; /**< inputs of native; owned by source.c */
};

enum { TP_EXEC_KERNEL_NAME = 64 };

struct tp_exec_kernel {
    struct tp_exec_object obj;
    struct tp_exec_program *program;
    cl_kernel native;
    char name[TP_EXEC_KERNEL_NAME]; /**< for warnings; may be cut */
    uint32_t arg_count;
    int32_t *arg_errors; /**< result of the last KERNEL_ARG of each argument */
    /** Memory and samplers set as arguments, or NULL. */
    struct tp_exec_object **objects;
};

/** NULL is fine. */
void tp_exec_text_free(struct tp_exec_text *text);
/** Submits a build to the pool. */
void tp_exec_build_submit(struct tp_exec_build *build);
/** Handles the end of a content transfer, successful or not. */
void tp_exec_program_arrived(struct tp_exec_program *p);
/** Ends one reader of the native program; without readers, builds may run. */
void tp_exec_program_end_reading(struct tp_exec_program *p);
/** Creates an empty program. @p ret_error gives 0 or the error of the context */
telpher_status tp_exec_program_new(struct tp_exec *x, uint64_t id, uint64_t context,
                                   enum tp_exec_origin origin,
                                   struct tp_exec_program **ret_program,
                                   int32_t *ret_error);
/** Splits a binary into the native binary and the facts stored with it. */
const uint8_t *tp_exec_binary_unwrap(const uint8_t *data, uint64_t size,
                                     uint64_t *ret_native_size,
                                     const uint8_t **ret_facts,
                                     uint64_t *ret_facts_size);
enum { TP_EXEC_BINARY_HEADER = 24 };

#endif
