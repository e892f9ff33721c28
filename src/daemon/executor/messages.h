/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages that an executor accepts on the command stream, and their handlers. The
 * macros declare tp_exec_on_launch() and so on; grep finds the definitions of the handlers,
 * but not these declarations, nor the decoders (tp_wire_get_launch(), wire/messages.c).
 */
#ifndef TELPHER_DAEMON_EXECUTOR_MESSAGES_H
#define TELPHER_DAEMON_EXECUTOR_MESSAGES_H

#include "wire/messages.h"

struct tp_exec;

/* ---- one handler per message. @return OK, or an error that ends the session ---- */

#define TP_EXEC_MESSAGES(X)                                                            \
    X(SUB_DEVICES, sub_devices)                                                        \
    X(DEVICE_TIMER, device_timer)                                                      \
    X(CONTEXT_CREATE, context_create)                                                  \
    X(QUEUE_CREATE, queue_create)                                                      \
    X(BUFFER_CREATE, buffer_create)                                                    \
    X(SUB_BUFFER_CREATE, sub_buffer_create)                                            \
    X(PIPE_CREATE, pipe_create)                                                        \
    X(PROGRAM_SOURCE, program_source)                                                  \
    X(PROGRAM_IL, program_il)                                                          \
    X(SPEC_CONSTANT, spec_constant)                                                    \
    X(PROGRAM_BUILT_IN, program_built_in)                                              \
    X(PROGRAM_BINARY, program_binary)                                                  \
    X(PROGRAM_BUILD, program_build)                                                    \
    X(PROGRAM_BINARIES, program_binaries)                                              \
    X(PROGRAM_COMPILE, program_compile)                                                \
    X(PROGRAM_LINK, program_link)                                                      \
    X(PROGRAM_FILES, program_files)                                                    \
    X(KERNEL_CREATE, kernel_create)                                                    \
    X(SUB_GROUP_INFO, sub_group_info)                                                  \
    X(SUGGESTED_SIZE, suggested_size)                                                  \
    X(KERNEL_ARG, kernel_arg)                                                          \
    X(SVM_ALLOC, svm_alloc)                                                            \
    X(EXEC_INFO, exec_info)                                                            \
    X(USER_EVENT_CREATE, user_event_create)                                            \
    X(USER_EVENT_SET, user_event_set)                                                  \
    X(RELEASE, release)                                                                \
    X(LAUNCH, launch)                                                                  \
    X(LAUNCH_AGAIN, launch_again)                                                      \
    X(READ, read)                                                                      \
    X(WRITE, write)                                                                    \
    X(COPY, copy)                                                                      \
    X(FILL, fill)                                                                      \
    X(MARKER, marker)                                                                  \
    X(BARRIER, barrier)                                                                \
    X(MIGRATE, migrate)                                                                \
    X(SUBSCRIBE, subscribe)                                                            \
    X(SHARE, share)                                                                    \
    X(UNSHARE, unshare)                                                                \
    X(PIECE, piece)                                                                    \
    X(COMMANDS_CREATE, commands_create)                                                \
    X(RECORD, record)                                                                  \
    X(COMMANDS_FINALIZE, commands_finalize)                                            \
    X(COMMANDS_ENQUEUE, commands_enqueue)                                              \
    X(ABORT, abort)                                                                    \
    X(IMAGE_CREATE, image_create)                                                      \
    X(SAMPLER_CREATE, sampler_create)                                                  \
    X(READ_IMAGE, read_image)                                                          \
    X(WRITE_IMAGE, write_image)                                                        \
    X(COPY_IMAGE, copy_image)                                                          \
    X(COPY_IMAGE_TO_BUFFER, copy_image_to_buffer)                                      \
    X(COPY_BUFFER_TO_IMAGE, copy_buffer_to_image)                                      \
    X(FILL_IMAGE, fill_image)                                                          \
    X(PEER_ACCEPT, peer_accept)                                                        \
    X(PEER_CONNECT, peer_connect)                                                      \
    X(PUSH, push)                                                                      \
    X(PULL, pull)                                                                      \
    X(FORWARD, forward)                                                                \
    X(PEER_EVENT, peer_event)                                                          \
    X(PEER_LOST, peer_lost)                                                            \
    X(EXPORT, export)                                                                  \
    X(ENDPOINT, endpoint)                                                              \
    X(PING, ping)                                                                      \
    X(CLOSE, close)

#define TP_EXEC_DECLARE(NAME, name)                                                    \
    telpher_status tp_exec_on_##name(struct tp_exec *x, const struct tp_wire_##name *m);
TP_EXEC_MESSAGES(TP_EXEC_DECLARE)
#undef TP_EXEC_DECLARE

#endif
