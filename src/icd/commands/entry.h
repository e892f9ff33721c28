/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the entry points of commands: one that enqueues, and for most commands one that
 * records into a command buffer. Both have the same checks and the same frame.
 */
#ifndef TELPHER_ICD_COMMANDS_ENTRY_H
#define TELPHER_ICD_COMMANDS_ENTRY_H

#include "icd/commands/command_buffer.h"
#include "icd/commands/enqueue.h"

#define TP_ICD_UNWRAP(...) __VA_ARGS__

/**
 * clEnqueue<name>. @param params in parentheses: the parameters between the queue and the
 * events. @param run an expression that checks them and runs the command; it names the
 * parameters, and the command as `op`.
 */
#define TP_ICD_ENQUEUE(name, type, params, run)                                        \
    cl_int CL_API_CALL tp_clEnqueue##name(cl_command_queue queue,                      \
                                          TP_ICD_UNWRAP params, cl_uint wait_count,    \
                                          const cl_event *wait_list, cl_event *event)  \
    {                                                                                  \
        struct tp_icd_op command, *op = &command;                                      \
        cl_int err = tp_icd_op_init(op, queue, CL_COMMAND_##type, wait_count,          \
                                    wait_list, event);                                 \
                                                                                       \
        return err == CL_SUCCESS ? (run) : err;                                        \
    }

/** clCommand<name>KHR, likewise. */
#define TP_ICD_RECORD(name, type, params, run)                                         \
    cl_int CL_API_CALL tp_clCommand##name##KHR(                                        \
        cl_command_buffer_khr commands, cl_command_queue queue, TP_ICD_UNWRAP params,  \
        cl_uint sync_count, const cl_sync_point_khr *sync_list,                        \
        cl_sync_point_khr *point, cl_mutable_command_khr *handle)                      \
    {                                                                                  \
        const struct tp_icd_sync sync = {sync_count, sync_list, point};                \
        struct tp_icd_op command, *op = &command;                                      \
        cl_int err = tp_icd_op_init_record(op, commands, queue, CL_COMMAND_##type,     \
                                           &sync, handle);                             \
                                                                                       \
        return err == CL_SUCCESS ? (run) : err;                                        \
    }

/** Both. */
#define TP_ICD_COMMAND(name, type, params, run)                                        \
    TP_ICD_ENQUEUE(name, type, params, run)                                            \
    TP_ICD_RECORD(name, type, params, run)

#endif
