/* SPDX-License-Identifier: Apache-2.0 */
/* Other hosts of `telpher launch`, reached by ssh: programs, whether one answers, its folders. */
#include "telpher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool
host_is_here(const char *host)
{
    char name[256] = "";

    gethostname(name, sizeof(name) - 1);
    return strcmp(host, "localhost") == 0 || strcmp(host, name) == 0;
}

/* A host that has vanished is noticed after 15 s. */
static void
become_ssh(const char *host, const char *command)
{
    execlp("ssh", "ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
           "ServerAliveInterval=5", host, command, (char *)NULL);
    failure("cannot execute ssh for host %s: %s; is it installed?", host,
            strerror(errno));
    _exit(EXIT_CANNOT_RUN);
}

/** Appends @p text in quotes that a shell takes off again. @return 0, or -1: too long */
static int
quote(char *dst, size_t cap, const char *text)
{
    size_t len = strlen(dst);

    for (const char *c = text;; c++) {
        const char *piece = c == text ? " '" : "";
        char one[2] = {*c, '\0'};
        const char *body = *c == '\0' ? "'" : *c == '\'' ? "'\\''" : one;
        int n = snprintf(dst + len, cap - len, "%s%s", piece, body);

        if (n < 0 || (size_t)n >= cap - len) {
            return -1;
        }
        len += (size_t)n;
        if (*c == '\0') {
            return 0;
        }
    }
}

void
host_exec(const char *host, char **program, char *variables)
{
    static char command[32768] =
        "while read -r v && [ -n \"$v\" ]; do export \"$v\"; done; cd";
    char cwd[4096];
    int lines[2];

    if (getcwd(cwd, sizeof(cwd)) == NULL || quote(command, sizeof(command), cwd) != 0) {
        _exit(failure("ssh to %s: the working folder has no path, or one too long for "
                      "the command: %s",
                      host, strerror(errno)));
    }
    strncat(command, " && exec", sizeof(command) - strlen(command) - 1);
    for (char **arg = program; *arg != NULL; arg++) {
        if (quote(command, sizeof(command), *arg) != 0) {
            _exit(failure("ssh to %s: the command line is longer than %zu bytes", host,
                          sizeof(command)));
        }
    }
    strcat(variables, "\n");
    if (pipe(lines) != 0 ||
        write(lines[1], variables, strlen(variables)) != (ssize_t)strlen(variables)) {
        _exit(failure("cannot pass the rank's variables to ssh for %s (pipe): %s", host,
                      strerror(errno)));
    }
    dup2(lines[0], STDIN_FILENO);
    close(lines[0]);
    close(lines[1]);
    become_ssh(host, command);
}

/* Runs a command of a shell there, without input and output. @return its exit code, or -1 */
static int
run_there(const char *host, const char *command)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null >= 0) {
            dup2(null, STDIN_FILENO);
            dup2(null, STDOUT_FILENO);
            dup2(null, STDERR_FILENO);
        }
        become_ssh(host, command);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool
host_answers(const char *host)
{
    return host_is_here(host) || run_there(host, "true") == 0;
}

void
host_remove_folder(const char *host, const char *path)
{
    char command[128];
    int len = snprintf(command, sizeof(command), "rm -rf %s", path);

    if (!host_is_here(host) && len > 0 && (size_t)len < sizeof(command)) {
        (void)run_there(host, command);
    }
}
