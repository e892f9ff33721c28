/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and kernels of a session. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_PROGRAM_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_PROGRAM_H

#include "base/container/buf.h"
#include "base/container/map.h"
#include "daemon/cache/digest.h"
#include "daemon/executor/objects/objects.h"

/* ---- program.c, build.c, binary_load.c ---- */

struct tp_exec_build;
struct tp_exec_text;

/** Where a program comes from. */
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
    char *text; /**< source or IL; fixed once it is there */
    uint64_t text_len; /**< [bytes] */
    cl_program native; /**< from source or IL: made by the first build */
    bool building; /**< done_lock */
    unsigned waiting; /**< contents of it that are still coming; done_lock */
    unsigned readers; /**< PROGRAM_BINARIES and links under way; done_lock */
    struct tp_list builds; /**< one build that waits for either; done_lock */
    struct tp_buf stored; /**< argument facts that came with a binary */
    struct tp_buf specs; /**< struct tp_exec_spec of a program in IL; reader only */
    struct tp_map spec_places; /**< number of a constant → its place there, from 1 */
    uint32_t kernel_count; /**< kernels alive; reader only */
    bool had_kernels; /**< since the last build; the reader's, a build's meanwhile */
    uint8_t *files; /**< records for the next build, or NULL; done_lock */
    uint64_t files_len; /**< [bytes] */
    int32_t files_error; /**< why there are none; done_lock */
    uint64_t generation; /**< counts builds; done_lock */
    bool has_key; /**< as it was built last; while not building */
    uint8_t key[TP_SHA256_BYTES]; /**< of the cache */
    struct tp_exec_text *made_of; /**< what native was made of; source.c's */
};

struct tp_exec_kernel {
    struct tp_exec_object obj;
    struct tp_exec_program *program;
    cl_kernel native;
    uint32_t arg_count;
    int32_t *arg_errors; /**< of the last KERNEL_ARG for each */
    /** Memory and samplers set as arguments, or NULL. */
    struct tp_exec_object **objects;
};

/** NULL is fine. */
void tp_exec_text_free(struct tp_exec_text *text);
/** Submits a build to the pool. */
void tp_exec_build_submit(struct tp_exec_build *build);
/** Content is there (or failed). */
void tp_exec_program_arrived(struct tp_exec_program *p);
/** Somebody no longer needs the native program as it is: builds may run. */
void tp_exec_program_end_reading(struct tp_exec_program *p);
/** Enters a program without anything in it. @p ret_error gives 0 or the context's error */
telpher_status tp_exec_program_new(struct tp_exec *x, uint64_t id, uint64_t context,
                                   enum tp_exec_origin origin,
                                   struct tp_exec_program **ret_program,
                                   int32_t *ret_error);
/** Splits a binary into the native one and the facts stored with it. */
const uint8_t *tp_exec_binary_unwrap(const uint8_t *data, uint64_t size,
                                     uint64_t *ret_native_size,
                                     const uint8_t **ret_facts,
                                     uint64_t *ret_facts_size);
enum { TP_EXEC_BINARY_HEADER = 24 };

#endif
