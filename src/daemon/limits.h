/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource limits of one session and of one user: settings of telpherd that its executors enforce. A
 * request beyond a limit fails with an OpenCL error whose text names the option. The
 * session ends only if no single request can fail instead.
 */
#ifndef TELPHER_DAEMON_LIMITS_H
#define TELPHER_DAEMON_LIMITS_H

#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

/** X(member, "option"); options.c describes each. */
#define TP_DAEMON_LIMITS(X)                                                            \
    X(objects, "max-objects")                                                          \
    X(contexts, "max-contexts")                                                        \
    X(queues, "max-queues")                                                            \
    X(mems, "max-buffers")                                                             \
    X(programs, "max-programs")                                                        \
    X(kernels, "max-kernels")                                                          \
    X(memory_bytes, "max-memory")                                                      \
    X(host_bytes, "max-host-memory")                                                   \
    X(user_memory_bytes, "max-user-memory")                                            \
    X(user_host_bytes, "max-user-host-memory")                                         \
    X(user_objects, "max-user-objects")                                                \
    X(user_builds, "max-user-builds")                                                  \
    X(program_bytes, "max-program")                                                    \
    X(unread_bytes, "max-unread")                                                      \
    X(build_timeout_ns, "build-timeout")                                               \
    X(transfer_timeout_ns, "transfer-timeout")                                         \
    X(kernel_timeout_ns, "kernel-timeout")                                             \
    X(kernel_warning_ns, "kernel-warning")                                             \
    X(keep_session_ns, "keep-session")                                                 \
    X(peer_timeout_ns, "peer-timeout")                                                 \
    X(peer_silence_ns, "peer-silence")

/** The values. For bytes and times, 0 = no limit. */
struct tp_daemon_limits {
#define TP_DAEMON_LIMIT_MEMBER(member, option) uint64_t member;
    TP_DAEMON_LIMITS(TP_DAEMON_LIMIT_MEMBER)
#undef TP_DAEMON_LIMIT_MEMBER
};

#define TP_DAEMON_LIMIT_ONE(member, option) +1
enum { TP_DAEMON_LIMIT_COUNT = 0 TP_DAEMON_LIMITS(TP_DAEMON_LIMIT_ONE) };
#undef TP_DAEMON_LIMIT_ONE

/** Buffer size for one limit as text [bytes]. */
enum { TP_DAEMON_LIMIT_TEXT = 64 };

/** Sets every limit to "no limit". */
void tp_daemon_limits_none(struct tp_daemon_limits *limits);
/** Writes limit number @p i as "option=value", for the executor's command line. */
void tp_daemon_limit_print(const struct tp_daemon_limits *limits, size_t i,
                           char dst[TP_DAEMON_LIMIT_TEXT]);
/** Parses the text that tp_daemon_limit_print() writes. @return OK, INVALID */
telpher_status tp_daemon_limit_read(struct tp_daemon_limits *limits, const char *text);

#endif
