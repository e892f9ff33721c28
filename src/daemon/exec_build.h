/* SPDX-License-Identifier: Apache-2.0 */
/* A build on its way through the pool. */
#ifndef TELPHER_DAEMON_EXEC_BUILD_H
#define TELPHER_DAEMON_EXEC_BUILD_H

#include "daemon/exec.h"

struct tp_exec_build {
    struct tp_list link; /**< program->builds while its content is awaited */
    struct tp_exec_program *program;
    uint64_t request;
    cl_uint device_count;
    uint32_t *indices; /**< of the server's devices */
    cl_device_id *devices; /**< the same, native */
    char *options; /**< as the client gave them */
};

/** Makes a build of what a message says. @return 0 or the CL error */
int32_t tp_exec_build_new(struct tp_exec_program *p,
                          const struct tp_wire_program_build *m,
                          struct tp_exec_build **ret_build);
void tp_exec_build_free(struct tp_exec_build *build);

/**
 * Sends content that is too large for a frame as a transfer of ours.
 * @param content taken (tp_free)
 */
telpher_status tp_exec_send_content(struct tp_exec *x, uint64_t transfer, void *content,
                                    uint64_t size);

/** Appends all facts of a built program. @return OK, NO_MEMORY, LIMIT */
telpher_status tp_exec_program_facts(struct tp_exec_build *build, bool built,
                                     struct tp_buf *facts);
/** Appends name and argument facts of all kernels: what binaries carry along. */
telpher_status tp_exec_argument_facts(struct tp_exec_program *p, struct tp_buf *facts);

#endif
