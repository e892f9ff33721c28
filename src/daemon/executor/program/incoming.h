/* SPDX-License-Identifier: Apache-2.0 */
/* Content of a program on its way: source, binaries, files that a build includes. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_INCOMING_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_INCOMING_H

#include "daemon/executor/executor.h"
#include "daemon/executor/program/program.h"

struct tp_exec_incoming {
    struct tp_exec_program *program; /**< held */
    uint8_t *content;
    uint64_t size; /**< [bytes], taken from exec->host */
    uint64_t request; /**< PROGRAM_BINARY: to be answered; 0 = source */
    uint16_t binary_count; /**< PROGRAM_BINARY */
    uint64_t *sizes;
    cl_device_id *devices;
};

/**
 * Makes room for @p size bytes of a program. @return 0; else a CL error, and for what a
 * limit forbids the program is poisoned with it
 */
int32_t tp_exec_incoming_new(struct tp_exec_program *p, uint64_t size,
                             struct tp_exec_incoming **ret_in);
void tp_exec_incoming_free(struct tp_exec_incoming *in);
/** True for no transfer, and for one that brings something. */
bool tp_exec_is_proper_transfer(uint64_t transfer, uint64_t size);
/**
 * Announces the transfer that brings the content; builds of the program wait for it.
 * @param in      taken, also on failure
 * @param arrived gets @p in, which is then its own
 * @return OK, or what breaks the session
 */
telpher_status tp_exec_incoming_await(struct tp_exec_incoming *in, uint64_t transfer,
                                      void (*arrived)(void *arg, int32_t error,
                                                      uint64_t start_ns,
                                                      uint64_t end_ns));

#endif
