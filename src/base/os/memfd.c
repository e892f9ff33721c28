/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files. Their size is sealed, so that no mapping of them can lose its pages. */
#include "base/os/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os/descriptor.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

telpher_status
tp_memfd_create(const char *name, uint64_t size, int *ret_fd)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    telpher_status status;

    if (fd >= 0 && size <= INT64_MAX && ftruncate(fd, (off_t)size) == 0 &&
        fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == 0) {
        *ret_fd = fd;
        return TELPHER_OK;
    }
    status = size > INT64_MAX ? TELPHER_ERR_NO_MEMORY : tp_error_from_errno(errno);
    tp_descriptor_close(fd);
    return status;
}

telpher_status
tp_memfd_map(int fd, uint64_t size, void **ret_memory)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (memory == MAP_FAILED) {
        return TELPHER_ERR_NO_MEMORY;
    }
    *ret_memory = memory;
    return TELPHER_OK;
}

telpher_status
tp_memfd_describe(int fd, struct tp_memfd_name *ret_name)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return TELPHER_ERR_IO;
    }
    *ret_name = (struct tp_memfd_name){
        .size = (uint64_t)st.st_size,
        .device = st.st_dev,
        .inode = st.st_ino,
        .pid = getpid(),
        .fd = fd,
    };
    return TELPHER_OK;
}

static bool
is_same(const struct stat *st, const struct tp_memfd_name *name)
{
    return S_ISREG(st->st_mode) && st->st_dev == name->device &&
           st->st_ino == name->inode && st->st_size >= 0 &&
           (uint64_t)st->st_size == name->size;
}

telpher_status
tp_memfd_open(const struct tp_memfd_name *name, int *ret_fd)
{
    char path[64];
    struct stat st;
    int fd, seals;

    if (name->pid <= 0 || name->fd < 0) {
        return TELPHER_ERR_INVALID;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", name->pid, name->fd);
    if (stat(path, &st) != 0) { /* first looks, since opening some files does things */
        return tp_error_from_errno(errno);
    }
    if (!is_same(&st, name)) {
        return TELPHER_ERR_INVALID;
    }
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return tp_error_from_errno(errno);
    }
    seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &st) != 0 || !is_same(&st, name) || seals < 0 ||
        (seals & SEALS) != SEALS) {
        close(fd);
        return TELPHER_ERR_INVALID;
    }
    *ret_fd = fd;
    return TELPHER_OK;
}
