/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that processes of one machine share: a file without a place in a file system,
 * which another process of the same user opens through /proc. It ends with its users.
 */
#ifndef TELPHER_BASE_OS_MEMFD_H
#define TELPHER_BASE_OS_MEMFD_H

#include <stdint.h>
#include <telpher/status.h>

/** The file's identity, for another process to open it. Plain numbers, for sending. */
struct tp_memfd_name {
    uint64_t size; /**< [bytes] */
    uint64_t device, inode; /**< that tell it from any other file */
    int32_t pid, fd; /**< of the process that has it open */
};

/**
 * Makes a file of @p size bytes of 0 that never changes its size.
 * @return OK and the descriptor, to be closed; NO_MEMORY, LIMIT (too many open files), IO
 */
telpher_status tp_memfd_create(const char *name, uint64_t size, int *ret_fd);

/** Maps all of it, shared; readable and writable. @return OK, NO_MEMORY. */
telpher_status tp_memfd_map(int fd, uint64_t size, void **ret_memory);

/** Tells how others open the file, as long as this process has it open.
 *  @return OK, IO. */
telpher_status tp_memfd_describe(int fd, struct tp_memfd_name *ret_name);

/**
 * Opens a file that another process, or this one, described. The name may come from
 * anywhere: what is opened is such a file, of that size, or nothing.
 * @return OK; NOT_FOUND (gone, or in another name space of processes), PERMISSION, INVALID
 *         (no file of tp_memfd_create()), LIMIT
 */
telpher_status tp_memfd_open(const struct tp_memfd_name *name, int *ret_fd);

#endif
