/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes what a process that handles bytes of clients does not need: the
 * user root, all capabilities, new privileges, new descriptors, processes and file sizes,
 * and all system calls except those that receive, send, wait, and manage memory.
 *
 * The filter returns EPERM instead of killing: C libraries differ in the optional calls
 * they try, and a call that fails does no harm.
 */
#include "daemon/sandbox.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"

enum { NOBODY = 65534 };

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

void
tp_sandbox_begin(void)
{
    const struct rlimit none = {0, 0};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_DUMPABLE, 0); /* keys are in this memory */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond RLIMIT_FSIZE fails */
}

static telpher_status
drop_user(struct tp_error *err)
{
    if (geteuid() != 0) {
        return TELPHER_OK;
    }
    if (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) != 0) {
        return tp_error_set_errno(
            err, errno, "cannot become the unprivileged user and group %d", NOBODY);
    }
    return TELPHER_OK;
}

static telpher_status
drop_capabilities(struct tp_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};

    if (syscall(SYS_capset, &header, none) != 0) {
        return tp_error_set_errno(err, errno, "cannot drop capabilities (capset)");
    }
    return TELPHER_OK;
}

static void
limit(int resource, rlim_t value)
{
    const struct rlimit l = {value, value};

    (void)setrlimit((__rlimit_resource_t)resource, &l); /* the filter forbids it too */
}

#ifdef ARCHITECTURE

static const int allowed[] = {
    SYS_read,          SYS_write,        SYS_readv,          SYS_writev,
    SYS_recvfrom,      SYS_recvmsg,      SYS_sendto,         SYS_sendmsg,
    SYS_ppoll,         SYS_shutdown,     SYS_close,          SYS_fstat,
    SYS_brk,           SYS_mmap,         SYS_munmap,         SYS_mremap,
    SYS_mprotect,      SYS_madvise,      SYS_futex,          SYS_getrandom,
    SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday,   SYS_nanosleep,
    SYS_getpid,        SYS_gettid,       SYS_sched_yield,    SYS_restart_syscall,
    SYS_rt_sigreturn,  SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_sigaltstack,
    SYS_exit,          SYS_exit_group,
#ifdef SYS_poll
    SYS_poll,
#endif
#ifdef SYS_time
    SYS_time,
#endif
};

static telpher_status
filter_calls(struct tp_error *err)
{
    struct sock_filter code[2 * TP_ARRAY_LEN(allowed) + 5] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    struct sock_fprog program = {.filter = code};
    unsigned short n = 4;

    for (size_t i = 0; i < TP_ARRAY_LEN(allowed); i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (unsigned)allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                             SECCOMP_RET_ERRNO | (EPERM & 0xffff));
    program.len = n;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 && errno != EINVAL) {
        return tp_error_set_errno(err, errno, "cannot filter system calls (seccomp)");
    }
    return TELPHER_OK; /* EINVAL: a kernel without seccomp; the rest applies */
}

#else

static telpher_status
filter_calls(struct tp_error *err)
{
    return TELPHER_OK; /* no table of system calls for this processor */
}

#endif

telpher_status
tp_sandbox_enter(const struct tp_sandbox_limits *limits, struct tp_error *err)
{
    telpher_status status = drop_user(err);

    if (status == TELPHER_OK) {
        status = drop_capabilities(err);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    (void)prctl(PR_SET_DUMPABLE, 0); /* setresuid has set it again */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* and cleared this one */
    if (limits->deadline != TP_CLOCK_FOREVER) {
        (void)alarm((unsigned)(tp_clock_remaining(limits->deadline) / TP_CLOCK_S) + 2);
    }
    limit(RLIMIT_NOFILE, limits->sockets); /* below it, poll() fails with EINVAL */
    limit(RLIMIT_NPROC, 0);
    limit(RLIMIT_FSIZE, 0);
    if (limits->processor_s != 0) {
        limit(RLIMIT_CPU, limits->processor_s);
    }
    return filter_calls(err);
}
