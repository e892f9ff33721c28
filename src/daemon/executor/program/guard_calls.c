/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's side of the guard: which calls are stopped, what they ask for, and how they
 * are answered. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "daemon/executor/program/guard_int.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

enum { FAKE_DEVICE = 0x7470 }; /* of the client's folders */

/* Numbers of arguments: where a call has what; -1 = nowhere. */
static const struct row {
    int number;
    enum tp_exec_call_kind kind;
    int8_t folder, name, flags, result;
} rows[] = {
#ifdef SYS_open
    {SYS_open, TP_EXEC_CALL_OPEN, -1, 0, 1, -1},
    {SYS_stat, TP_EXEC_CALL_STAT, -1, 0, -1, 1},
    {SYS_lstat, TP_EXEC_CALL_STAT, -1, 0, -1, 1},
    {SYS_access, TP_EXEC_CALL_ACCESS, -1, 0, -1, -1},
    {SYS_readlink, TP_EXEC_CALL_READLINK, -1, 0, -1, -1},
#endif
    {SYS_openat, TP_EXEC_CALL_OPEN, 0, 1, 2, -1},
    {SYS_newfstatat, TP_EXEC_CALL_STAT, 0, 1, 3, 2},
    {SYS_statx, TP_EXEC_CALL_STATX, 0, 1, 2, 4},
    {SYS_faccessat, TP_EXEC_CALL_ACCESS, 0, 1, -1, -1},
    {SYS_faccessat2, TP_EXEC_CALL_ACCESS, 0, 1, 3, -1},
    {SYS_readlinkat, TP_EXEC_CALL_READLINK, 0, 1, -1, -1},
    {SYS_getcwd, TP_EXEC_CALL_GETCWD, -1, -1, -1, 0},
};

#define LOAD(field)                                                                    \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define NEXT_UNLESS(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)

int
tp_exec_call_confine(void)
{
    enum { HEAD = 6 };
    struct sock_filter code[HEAD + 2 * TP_ARRAY_LEN(rows) + 1] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS), /* calls of other architectures */
        LOAD(nr),
        NEXT_UNLESS(
            SYS_openat2), /* its flags are not in registers; libraries do without */
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
    };
    struct sock_fprog program = {TP_ARRAY_LEN(code), code};

    for (size_t i = 0; i < TP_ARRAY_LEN(rows); i++) {
        code[HEAD + 2 * i] = (struct sock_filter)NEXT_UNLESS((unsigned)rows[i].number);
        code[HEAD + 2 * i + 1] = (struct sock_filter)RETURN(SECCOMP_RET_USER_NOTIF);
    }
    code[TP_ARRAY_LEN(code) - 1] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    if (ARCHITECTURE == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* Reads a text of a thread, page by page: what follows it may not be mapped. */
static bool
read_text(pid_t thread, uint64_t address, char *text, size_t room)
{
    size_t got = 0;

    while (got < room - 1) {
        size_t n = 4096 - (address + got) % 4096;
        struct iovec to = {text + got, n < room - 1 - got ? n : room - 1 - got};
        struct iovec from = {(void *)(uintptr_t)(address + got), to.iov_len};

        if (process_vm_readv(thread, &to, 1, &from, 1, 0) != (ssize_t)to.iov_len) {
            return false;
        }
        if (memchr(to.iov_base, '\0', to.iov_len) != NULL) {
            return true;
        }
        got += to.iov_len;
    }
    return false;
}

static uint64_t
argument(const struct seccomp_notif *req, int index, uint64_t otherwise)
{
    return index < 0 ? otherwise : req->data.args[index];
}

bool
tp_exec_call_read(const struct seccomp_notif *req, struct tp_exec_call *call)
{
    const struct row *row = NULL;

    for (size_t i = 0; i < TP_ARRAY_LEN(rows); i++) {
        row = rows[i].number == req->data.nr ? &rows[i] : row;
    }
    if (row == NULL) {
        return false;
    }
    call->kind = row->kind;
    call->thread = (pid_t)req->pid;
    call->folder = (int)argument(req, row->folder, (uint64_t)AT_FDCWD);
    call->flags = (int)argument(req, row->flags, 0);
    call->result = argument(req, row->result, 0);
    call->room = req->data.args[1];
    call->mask = (unsigned)req->data.args[3];
    call->nofollow =
        row->kind == TP_EXEC_CALL_READLINK ||
        (row->kind != TP_EXEC_CALL_OPEN && (call->flags & AT_SYMLINK_NOFOLLOW) != 0);
#ifdef SYS_lstat
    call->nofollow = call->nofollow || row->number == SYS_lstat;
#endif
    call->name[0] = '\0';
    return row->name < 0 || read_text(call->thread, req->data.args[row->name],
                                      call->name, sizeof(call->name));
}

static void
respond(int listener, const struct seccomp_notif *req, int error, int64_t value,
        unsigned flags)
{
    struct seccomp_notif_resp resp = {
        .id = req->id, .val = value, .error = -error, .flags = flags};

    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

void
tp_exec_call_continue(int listener, const struct seccomp_notif *req)
{
    respond(listener, req, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

/* Gives the thread a descriptor of its own, with its own position. */
static void
give_file(int listener, const struct seccomp_notif *req,
          const struct tp_exec_call *call, int fd)
{
    struct seccomp_notif_addfd add = {.id = req->id};
    char path[32] = "/proc/self/fd/";
    int own, given, n = fd;
    size_t len = strlen(path), digits = 1;

    while ((n /= 10) > 0) {
        digits++;
    }
    for (size_t i = digits; i-- > 0; fd /= 10) { /* snprintf may allocate */
        path[len + i] = (char)('0' + fd % 10);
    }
    path[len + digits] = '\0';
    own = open(path, O_RDONLY | O_CLOEXEC);
    if (own < 0) {
        respond(listener, req, errno, 0, 0);
        return;
    }
    add.srcfd = (unsigned)own;
    add.newfd_flags = (unsigned)call->flags & O_CLOEXEC;
    given = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    respond(listener, req, given < 0 ? errno : 0, given < 0 ? 0 : given, 0);
    (void)close(own);
}

/* Writes a result into the thread's memory. */
static int
write_result(const struct tp_exec_call *call, const void *data, size_t len)
{
    struct iovec from = {(void *)(uintptr_t)data, len};
    struct iovec to = {(void *)(uintptr_t)call->result, len};

    return process_vm_writev(call->thread, &from, 1, &to, 1, 0) == (ssize_t)len
               ? 0
               : EFAULT;
}

/* Numbers of folders differ as their names do. */
static uint64_t
number_of(const char *name)
{
    return tp_hash_add(TP_HASH_START, name, strlen(name)) | 1;
}

static int
tell_stat(const struct tp_exec_call *call, bool folder, int fd)
{
    struct stat st;

    memset(&st, 0, sizeof(st));
    if (!folder && fstat(fd, &st) != 0) {
        return errno;
    }
    st.st_mode = folder ? S_IFDIR | 0555 : S_IFREG | 0444;
    if (folder) {
        st.st_dev = FAKE_DEVICE;
        st.st_ino = number_of(call->name);
        st.st_nlink = 2;
        st.st_blksize = 4096;
    }
    return write_result(call, &st, sizeof(st));
}

static int
tell_statx(const struct tp_exec_call *call, bool folder, int fd)
{
    struct statx st;

    memset(&st, 0, sizeof(st));
    if (!folder && statx(fd, "", AT_EMPTY_PATH, call->mask, &st) != 0) {
        return errno;
    }
    st.stx_mode = folder ? S_IFDIR | 0555 : S_IFREG | 0444;
    if (folder) {
        st.stx_mask = STATX_BASIC_STATS;
        st.stx_dev_minor = FAKE_DEVICE;
        st.stx_ino = number_of(call->name);
        st.stx_nlink = 2;
        st.stx_blksize = 4096;
    }
    return write_result(call, &st, sizeof(st));
}

void
tp_exec_call_answer(int listener, const struct seccomp_notif *req,
                    const struct tp_exec_call *call, enum tp_exec_seen seen, int fd)
{
    bool folder = seen == TP_EXEC_SEEN_FOLDER;
    int error = 0;

    if (!folder && seen != TP_EXEC_SEEN_FILE) {
        respond(listener, req, ENOENT, 0, 0);
        return;
    }
    switch (call->kind) {
    case TP_EXEC_CALL_OPEN:
        if (!folder && (call->flags & O_ACCMODE) == O_RDONLY) {
            give_file(listener, req, call, fd);
            return;
        }
        /* nothing is written there, and folders are neither files nor listed */
        error = folder ? ENOENT : EACCES;
        break;
    case TP_EXEC_CALL_STAT:
        error = tell_stat(call, folder, fd);
        break;
    case TP_EXEC_CALL_STATX:
        error = tell_statx(call, folder, fd);
        break;
    case TP_EXEC_CALL_READLINK:
        error = EINVAL; /* no link */
        break;
    case TP_EXEC_CALL_ACCESS:
    case TP_EXEC_CALL_GETCWD: /* has no name to find */
        break;
    }
    respond(listener, req, error, 0, 0);
}

void
tp_exec_call_tell_folder(int listener, const struct seccomp_notif *req,
                         const struct tp_exec_call *call)
{
    static const char folder[] = TP_EXEC_PRESENT_FOLDER;
    int error = call->room < sizeof(folder)
                    ? ERANGE
                    : write_result(call, folder, sizeof(folder));

    respond(listener, req, error, error == 0 ? (int64_t)sizeof(folder) : 0, 0);
}
