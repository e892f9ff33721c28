/* SPDX-License-Identifier: Apache-2.0 */
/* A telpherd of our own: started on a Unix socket, awaited, ended with us. */
#include "telpher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    START_MS = 45000, /* drivers may take long to load the first time */
    STOP_MS = 5000,
};

/** Opens the socket on which the daemon says READY=1 (sd_notify(3)). */
static int
open_notify(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd;

    if (len >= sizeof(address.sun_path)) {
        return -1;
    }
    memcpy(address.sun_path, path, len);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void
exec_daemon(const char *program, const char *notify, const char *socket_path)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* Ctrl-C is for the program: we end the daemon after it. */
    setpgid(0, 0);
    setenv("NOTIFY_SOCKET", notify, 1);
    /* The driver set that programs are shown must not be the daemon's. */
    execl(program, "telpherd", "--socket", socket_path, "--drain-timeout", "0",
          (char *)NULL);
    fprintf(stderr, "telpher: starting %s: %s\n", program, strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

static int
pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static long
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/** @return 0 once READY=1 has arrived; -1 if the daemon ended or the time is over. */
static int
await_ready(int notify, pid_t pid)
{
    struct pollfd fds[2] = {{.fd = notify, .events = POLLIN},
                            {.fd = pidfd(pid), .events = POLLIN}};
    long end = now_ms() + START_MS, left;
    int ready = -1;

    while (ready != 0 && (left = end - now_ms()) > 0) {
        char text[512];
        ssize_t len;

        if (poll(fds, 2, (int)left) <= 0 || (fds[0].revents & POLLIN) == 0) {
            break;
        }
        len = recv(notify, text, sizeof(text) - 1, 0);
        text[len > 0 ? len : 0] = '\0';
        ready = strstr(text, "READY=1") != NULL ? 0 : -1;
    }
    if (fds[1].fd >= 0) {
        close(fds[1].fd);
    }
    return ready;
}

int
private_daemon_start(const char *dir, struct private_daemon *ret_daemon)
{
    char program[4096], notify_path[128];
    int notify, ready;
    pid_t pid;

    if (find_artefact(".", ".", "telpherd", program, sizeof(program)) != 0) {
        failure("no telpherd beside this program, at %s: install the server, or name "
                "one with -s HOST",
                program);
        return -1;
    }
    snprintf(notify_path, sizeof(notify_path), "%s/notify", dir);
    notify = open_notify(notify_path);
    pid = notify < 0 ? -1 : fork();
    if (pid == 0) {
        exec_daemon(program, notify_path, ret_daemon->socket);
    }
    ready = pid < 0 ? -1 : await_ready(notify, pid);
    if (notify >= 0) {
        close(notify);
    }
    unlink(notify_path);
    ret_daemon->pid = pid;
    if (ready != 0) {
        failure("the private telpherd (%s) did not start; its messages are above, "
                "TELPHER_LOG=debug gives more",
                program);
        private_daemon_stop(ret_daemon);
        return -1;
    }
    return 0;
}

void
private_daemon_stop(struct private_daemon *daemon)
{
    struct pollfd fd = {.events = POLLIN};

    if (daemon->pid <= 0) {
        return;
    }
    fd.fd = pidfd(daemon->pid);
    kill(daemon->pid, SIGTERM);
    if (poll(&fd, 1, STOP_MS) <= 0) {
        kill(daemon->pid, SIGKILL);
    }
    if (fd.fd >= 0) {
        close(fd.fd);
    }
    waitpid(daemon->pid, NULL, 0);
    unlink(daemon->socket);
    daemon->pid = 0;
}
