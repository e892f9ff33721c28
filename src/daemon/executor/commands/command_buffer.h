/* SPDX-License-Identifier: Apache-2.0 */
/* A command buffer: the driver's, and the objects that it keeps alive. */
#ifndef TELPHER_DAEMON_EXECUTOR_COMMANDS_COMMAND_BUFFER_H
#define TELPHER_DAEMON_EXECUTOR_COMMANDS_COMMAND_BUFFER_H

#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"

struct tp_exec_commands {
    struct tp_exec_object obj;
    struct tp_exec_queue *queue; /**< recorded for; held */
    cl_command_buffer_khr native;
    bool finalized;
    struct tp_buf points; /**< cl_sync_point_khr of each command */
    struct tp_buf mems; /**< cl_mem, retained */
    struct tp_buf objects; /**< struct tp_exec_object *: samplers */
    struct tp_buf kernels; /**< cl_kernel: our clones, or retained objects */
    uint32_t count; /**< commands; each counts as an object of the session */
};

#endif
