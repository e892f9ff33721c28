/* SPDX-License-Identifier: Apache-2.0 */
/* Receives content of a program: source, binaries, or files that a build includes. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_INCOMING_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_INCOMING_H

#include "daemon/executor/executor.h"
#include "daemon/executor/program/program.h"

struct tp_exec_incoming {
    struct tp_exec_program *program; /**< held */
    uint8_t *content;
    uint64_t size; /**< [bytes], taken from exec->host */
    uint64_t request; /**< PROGRAM_BINARY: request to answer; 0 = source */
    uint16_t binary_count; /**< PROGRAM_BINARY */
    uint64_t *sizes;
    cl_device_id *devices;
};

/**
 * Allocates @p size bytes for content of a program. @return 0; else a CL error. If a limit
 * is exceeded, the program is poisoned with it.
 */
int32_t tp_exec_incoming_new(struct tp_exec_program *p, uint64_t size,
                             struct tp_exec_incoming **ret_in);
void tp_exec_incoming_free(struct tp_exec_incoming *in);
/** True for no transfer, and for a transfer with content. */
bool tp_exec_is_proper_transfer(uint64_t transfer, uint64_t size);
/**
 * Starts the transfer of the content; builds of the program wait for it.
 * @param in      taken, also on failure
 * @param arrived is called with @p in and takes it
 * @return OK, or an error that ends the session
 */
telpher_status tp_exec_incoming_await(struct tp_exec_incoming *in, uint64_t transfer,
                                      void (*arrived)(void *arg, int32_t error,
                                                      uint64_t start_ns,
                                                      uint64_t end_ns));

#endif
