/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwards the output of printf in kernels. Drivers write it to standard output, which the
 * executor replaces by a pipe. A thread reads the pipe, and every completion reads it
 * first, so that PRINTF is sent before the DONE of the kernel that printed. Completions
 * skip the read while no program can print: it costs a system call before each DONE.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/executor.h"

enum { PIPE_BYTES = 1 << 20, READ_BYTES = 32 << 10 };

struct tp_exec_printf {
    struct tp_exec *x;
    int fd; /* reading end */
    _Atomic bool expected; /* some program may print; never reset */
    struct tp_mutex lock; /* keeps the order of read and append; guards the buffer */
    char buf[READ_BYTES];
};

static bool
drain_some(struct tp_exec_printf *p)
{
    ssize_t got = read(p->fd, p->buf, sizeof(p->buf));

    if (got > 0) {
        struct tp_wire_printf m = {.text = {(uint32_t)got, p->buf}};

        tp_exec_put(p->x, TP_WIRE_PRINTF, &m);
    }
    return got > 0;
}

/* True if the text contains "printf", or may build the name by token pasting. */
static bool
may_print(const void *text, size_t len)
{
    static const char name[] = "printf", paste[] = "##";

    return memmem(text, len, name, sizeof(name) - 1) != NULL ||
           memmem(text, len, paste, sizeof(paste) - 1) != NULL;
}

void
tp_exec_printf_expect(struct tp_exec_printf *p, const void *text, size_t len)
{
    if (p != NULL && (text == NULL || may_print(text, len))) {
        atomic_store(&p->expected, true);
    }
}

void
tp_exec_printf_drain(struct tp_exec_printf *p)
{
    if (p == NULL || !atomic_load_explicit(&p->expected, memory_order_relaxed)) {
        return;
    }
    (void)fflush(stdout);
    tp_mutex_lock(&p->lock);
    while (drain_some(p)) {
    }
    tp_mutex_unlock(&p->lock);
}

static void *
drain_loop(void *arg)
{
    struct tp_exec_printf *p = arg;
    struct pollfd fd = {.fd = p->fd, .events = POLLIN};

    for (;;) {
        if (poll(&fd, 1, -1) < 0 && errno != EINTR) {
            return NULL;
        }
        tp_mutex_lock(&p->lock);
        (void)drain_some(p);
        tp_mutex_unlock(&p->lock);
        tp_exec_flush(p->x);
    }
}

telpher_status
tp_exec_printf_create(struct tp_exec *x, struct tp_exec_printf **ret)
{
    struct tp_exec_printf *p = tp_zalloc(sizeof(*p), "printf");
    pthread_t thread;
    int fds[2];

    if (p == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (pipe2(fds, O_CLOEXEC) != 0) {
        tp_free(p);
        return TELPHER_ERR_LIMIT;
    }
    (void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    (void)dup2(fds[1], STDOUT_FILENO);
    (void)close(fds[1]);
    p->x = x;
    p->fd = fds[0];
    tp_mutex_init(&p->lock);
    *ret = p;
    /* without the thread, a kernel that prints much would fill the pipe and block */
    return tp_thread_create(&thread, "printf", drain_loop, p);
}
