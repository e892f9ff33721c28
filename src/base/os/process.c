/* SPDX-License-Identifier: Apache-2.0 */
/* Processes as others see them: /proc and pidfds. */
#include "base/os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/hex.h"

telpher_status
tp_process_machine(uint8_t ret_machine[TP_PROCESS_MACHINE_BYTES])
{
    char text[40] = "", digits[33];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    ssize_t got;

    if (fd < 0) {
        return tp_error_from_errno(errno) == TELPHER_ERR_LIMIT
                   ? TELPHER_ERR_LIMIT
                   : TELPHER_ERR_UNSUPPORTED;
    }
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    for (ssize_t i = 0; i < got && count < 32; i++) {
        if (text[i] != '-') {
            digits[count++] = text[i];
        }
    }
    digits[count] = '\0';
    return tp_hex_decode(ret_machine, TP_PROCESS_MACHINE_BYTES, digits) == TELPHER_OK
               ? TELPHER_OK
               : TELPHER_ERR_UNSUPPORTED;
}

static bool
inode_of(const char *path, uint64_t *ret_inode)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        return false;
    }
    *ret_inode = st.st_ino;
    return true;
}

telpher_status
tp_process_self(struct tp_process *ret_self)
{
    struct tp_process self = {.uid = geteuid(), .pid = getpid()};
    telpher_status status = tp_process_machine(self.machine);

    if (status != TELPHER_OK) {
        return status;
    }
    if (!inode_of("/proc/self/ns/pid", &self.pid_ns) ||
        !inode_of("/proc/self/ns/user", &self.user_ns)) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    *ret_self = self;
    return TELPHER_OK;
}

bool
tp_process_fence_register(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

bool
tp_process_fence_all(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

bool
tp_process_is_near(const struct tp_process *a, const struct tp_process *b)
{
    return a->pid_ns != 0 && a->pid_ns == b->pid_ns &&
           memcmp(a->machine, b->machine, sizeof(a->machine)) == 0;
}

bool
tp_process_is_like(const struct tp_process *a, const struct tp_process *b)
{
    return tp_process_is_near(a, b) && a->uid == b->uid && a->user_ns == b->user_ns;
}

telpher_status
tp_process_open(const struct tp_process *process, int *ret_fd)
{
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);

    if (fd < 0) {
        return errno == ESRCH    ? TELPHER_ERR_NOT_FOUND
               : errno == ENOSYS ? TELPHER_ERR_UNSUPPORTED
                                 : tp_error_from_errno(errno);
    }
    *ret_fd = fd;
    return TELPHER_OK;
}
