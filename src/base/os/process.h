/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies a process to another one that may run on the same machine: whether they share
 * PIDs, and when one has ended.
 */
#ifndef TELPHER_BASE_OS_PROCESS_H
#define TELPHER_BASE_OS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <telpher/status.h>

enum { TP_PROCESS_MACHINE_BYTES = 16 };

/** Writes what all processes of this machine share, and no others: the kernel's boot id.
 *  @return OK; LIMIT, with errno, where there is no descriptor; UNSUPPORTED where /proc does not
 *          tell */
telpher_status tp_process_machine(uint8_t ret_machine[TP_PROCESS_MACHINE_BYTES]);

/** Plain numbers, for sending; of the machine's own byte order. */
struct tp_process {
    uint8_t machine[TP_PROCESS_MACHINE_BYTES]; /**< tp_process_machine() */
    uint64_t pid_ns, user_ns; /**< inodes of the name spaces */
    uint32_t uid; /**< effective */
    int32_t pid;
};

/** Describes the calling process. @return as tp_process_machine() */
telpher_status tp_process_self(struct tp_process *ret_self);

/** Lets tp_process_fence_all() of any process order this one's memory accesses.
 *  @return false: the kernel or a seccomp filter forbids it (membarrier, Linux 4.16) */
bool tp_process_fence_register(void);

/** A full memory barrier here and in all running threads of registered processes: interrupts the
 *  processors that run them. @return false: not supported */
bool tp_process_fence_all(void);

/** True if both numbers mean the same process in both processes (same PID
 *  namespace). A record of zeros, from an unreadable /proc, matches none. */
bool tp_process_is_near(const struct tp_process *a, const struct tp_process *b);

/** True if they are near (tp_process_is_near()), of one user, and with the same rights. */
bool tp_process_is_like(const struct tp_process *a, const struct tp_process *b);

/**
 * Opens a process that is near: the descriptor, to be closed, becomes readable when it ends.
 * @return OK; NOT_FOUND (it has ended), LIMIT, UNSUPPORTED
 */
telpher_status tp_process_open(const struct tp_process *process, int *ret_fd);

#endif
