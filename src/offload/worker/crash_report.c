/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the name of a kernel that crashes, from the signal handler. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "offload/worker/worker_int.h"

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define AND_ENDS "; the worker ends, and the job with it\n"
static const char *const fault_words[] = {
    ": a bad address (SIGSEGV)" AND_ENDS, ": a bus error" AND_ENDS,
    ": an arithmetic error (SIGFPE)" AND_ENDS, ": a bad instruction" AND_ENDS,
    ": abort()" AND_ENDS};

/*
 * Async-signal-safe functions only. One write, then a delay: some launchers end the job
 * without the output that they have not read yet.
 */
static void
say(const char *kernel, const char *what)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    const char *const words[] = {"telpher: kernel ", kernel, what};
    struct iovec parts[3];

    for (size_t i = 0; i < TP_ARRAY_LEN(words); i++) {
        parts[i].iov_base = (void *)(uintptr_t)words[i];
        parts[i].iov_len = strlen(words[i]);
    }
    if (writev(STDERR_FILENO, parts, TP_ARRAY_LEN(parts)) > 0) {
        (void)nanosleep(&nap, NULL);
    }
}

/* The previous handlers: of a sanitizer, the program, or a library of the MPI (UCX). */
static struct sigaction before[TP_ARRAY_LEN(faults)];

static void
on_fault(int number, siginfo_t *info, void *context)
{
    const char *kernel = tp_offload_worker_kernel_name();
    size_t i = 0;

    while (faults[i] != number) {
        i++;
    }
    if (kernel != NULL) {
        say(kernel, fault_words[i]);
    }
    if ((before[i].sa_flags & SA_SIGINFO) != 0) {
        before[i].sa_sigaction(number, info, context);
    } else if (before[i].sa_handler != SIG_DFL && before[i].sa_handler != SIG_IGN) {
        before[i].sa_handler(number);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static pid_t worker; /* not its children */

static void
end_job(const char *call, int code)
{
    const char *kernel = tp_offload_worker_kernel_name();

    if (kernel != NULL && getpid() == worker) {
        say(kernel, call);
        PMPI_Abort(MPI_COMM_WORLD, code != 0 ? code : 1);
    }
}

static void
on_exit_call(void)
{
    end_job(" called exit(); the job ends\n", 1);
}

static _Noreturn void
exit_job(int code)
{
    end_job(" called _exit(); the job ends\n", code);
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

/*
 * Interpose the C library's: some launchers take a worker that vanished for one that finished,
 * and end the job with success.
 */
TELPHER_CALL extern __typeof__(exit_job) _exit __attribute__((alias("exit_job")));
TELPHER_CALL extern __typeof__(exit_job) _Exit __attribute__((alias("exit_job")));

void
tp_offload_worker_catch_faults(void)
{
    if (worker == getpid()) {
        return;
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(faults); i++) {
        struct sigaction act = {.sa_sigaction = on_fault,
                                .sa_flags = SA_NODEFER | SA_SIGINFO};

        (void)sigaction(faults[i], &act, &before[i]);
    }
    worker = getpid();
    (void)atexit(on_exit_call);
}
