/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that crashes is named before the worker dies of it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "offload/worker_int.h"

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static const char *const fault_names[] = {"a bad address (SIGSEGV)", "a bus error",
                                          "an arithmetic error (SIGFPE)",
                                          "a bad instruction", "abort()"};

/* Only what may be called in a handler. */
static void
say(const char *text)
{
    ssize_t len = (ssize_t)strlen(text);

    if (write(STDERR_FILENO, text, (size_t)len) != len) {
        return;
    }
}

static void
on_fault(int number)
{
    const char *kernel = tp_worker_kernel_name();
    const char *what = "a signal";

    for (size_t i = 0; i < TP_ARRAY_LEN(faults); i++) {
        what = faults[i] == number ? fault_names[i] : what;
    }
    if (kernel != NULL) {
        say("telpher: kernel ");
        say(kernel);
        say(": ");
        say(what);
        say("; the worker ends, and the job with it\n");
    }
    signal(number, SIG_DFL);
    raise(number);
}

static pid_t worker; /* not its children */

static void
end_job(const char *call, int code)
{
    const char *kernel = tp_worker_kernel_name();

    if (kernel != NULL && getpid() == worker) {
        say("telpher: kernel ");
        say(kernel);
        say(call);
        PMPI_Abort(MPI_COMM_WORLD, code != 0 ? code : 1);
    }
}

static void
on_exit_call(void)
{
    end_job(" called exit(); the job ends\n", 1);
}

/*
 * In front of the C library's: a worker that is simply gone is taken for one that is done by
 * some launchers, which then end the job with success.
 */
TELPHER_CALL _Noreturn void
_exit(int code)
{
    end_job(" called _exit(); the job ends\n", code);
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

TELPHER_CALL _Noreturn void
_Exit(int code)
{
    _exit(code);
}

void
tp_worker_catch_faults(void)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(faults); i++) {
        struct sigaction act = {.sa_handler = on_fault, .sa_flags = SA_NODEFER}, old;

        /* a sanitizer or the program's own constructor may have been faster */
        if (sigaction(faults[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) {
            (void)sigaction(faults[i], &act, NULL);
        }
    }
    worker = getpid();
    (void)atexit(on_exit_call);
}
