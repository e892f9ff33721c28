/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, stops and removes telpherd processes for tests. */
#include "servers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_TRIES = 900, TRY_NS = 50000000 }; /* drivers may take long to load */

#define PATIENCE "30s" /* of both sides for each other: the machine may be busy */

static void
nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TRY_NS}, NULL);
}

static void
socket_path(const struct servers *servers, unsigned i, char *dst, size_t cap)
{
    snprintf(dst, cap, "%s/%u.sock", servers->dir, i);
}

static pid_t
spawn(const char *path)
{
    pid_t parent = getpid(), pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == parent) {
            setenv("TELPHER_CACHE", "none", 0); /* unless a test has one of its own */
            setenv("TELPHER_PREFACE_TIMEOUT", PATIENCE, 0);
            setenv("TELPHER_PEER_TIMEOUT", PATIENCE, 0);
            setenv("TELPHER_DRAIN_TIMEOUT", "0", 0);
            execl(TELPHERD, "telpherd", "--socket", path, (char *)NULL);
        }
        perror(TELPHERD);
        _exit(127);
    }
    return pid;
}

/** @return 0 once somebody listens there; -1 if the server ended before. */
static int
await(const char *path, pid_t pid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    for (int i = 0; i < START_TRIES; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int status, bad = connect(fd, (struct sockaddr *)&address, sizeof(address));

        close(fd);
        if (bad == 0) {
            return 0;
        }
        if (waitpid(pid, &status, WNOHANG) == pid) {
            fprintf(stderr, "telpherd ended with status %d\n", status);
            return -1;
        }
        nap();
    }
    return -1;
}

/** A vendors folder that names our ICD alone. */
static int
set_environment(const struct servers *servers)
{
    char text[512] = "", path[100];
    FILE *file;

    snprintf(path, sizeof(path), "%s/telpher.icd", servers->dir);
    file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%s\n", ICD_LIBRARY) < 0 || fclose(file) != 0) {
        perror(path);
        return -1;
    }
    for (unsigned i = 0; i < servers->count; i++) {
        socket_path(servers, i, path, sizeof(path));
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sunix:%s",
                 i == 0 ? "" : ",", path);
    }
    setenv("TELPHER_SERVERS", text, 1);
    setenv("TELPHER_CONNECT_TIMEOUT", PATIENCE, 0);
    setenv("OCL_ICD_VENDORS", servers->dir, 1);
    return 0;
}

int
servers_start(struct servers *servers, unsigned count)
{
    char path[100];

    memset(servers, 0, sizeof(*servers));
    strcpy(servers->dir, "/tmp/telpher-test-XXXXXX");
    if (mkdtemp(servers->dir) == NULL) {
        perror(servers->dir);
        return -1;
    }
    for (servers->count = 0; servers->count < count; servers->count++) {
        socket_path(servers, servers->count, path, sizeof(path));
        servers->pid[servers->count] = spawn(path);
    }
    for (unsigned i = 0; i < count; i++) {
        socket_path(servers, i, path, sizeof(path));
        if (servers->pid[i] < 0 || await(path, servers->pid[i]) != 0) {
            servers_stop(servers);
            return -1;
        }
    }
    return set_environment(servers);
}

static void
end(struct servers *servers, unsigned i)
{
    char path[100];

    if (servers->pid[i] > 0) {
        kill(servers->pid[i], SIGTERM);
        waitpid(servers->pid[i], NULL, 0);
    }
    socket_path(servers, i, path, sizeof(path));
    unlink(path);
}

int
servers_restart(struct servers *servers, unsigned i, const char *vendors)
{
    char path[100];

    end(servers, i);
    socket_path(servers, i, path, sizeof(path));
    if (vendors != NULL) {
        setenv("OCL_ICD_VENDORS", vendors, 1);
    } else {
        unsetenv("OCL_ICD_VENDORS");
    }
    servers->pid[i] = spawn(path);
    setenv("OCL_ICD_VENDORS", servers->dir, 1);
    return servers->pid[i] < 0 ? -1 : await(path, servers->pid[i]);
}

unsigned
servers_find_executors(const struct servers *servers, unsigned i,
                       pid_t found[SERVERS_EXECUTORS_MAX])
{
    int server = servers->pid[i], pid;
    char path[64];
    unsigned count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", server, server);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    while (count < SERVERS_EXECUTORS_MAX && fscanf(file, "%d", &pid) == 1) {
        found[count++] = pid;
    }
    fclose(file);
    return count;
}

unsigned
servers_kill_executors(const struct servers *servers, unsigned i)
{
    pid_t executors[SERVERS_EXECUTORS_MAX];
    unsigned count = servers_find_executors(servers, i, executors), killed = 0;

    for (unsigned k = 0; k < count; k++) {
        killed += kill(executors[k], SIGKILL) == 0;
    }
    return killed;
}

int
servers_run_case(void (*what)(void), const char *addresses, unsigned limit_s)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        (void)alarm(limit_s);
        (void)setenv("TELPHER_SERVERS", addresses, 1);
        what();
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void
servers_stop(struct servers *servers)
{
    char path[100];

    for (unsigned i = 0; i < servers->count; i++) {
        end(servers, i);
    }
    snprintf(path, sizeof(path), "%s/telpher.icd", servers->dir);
    unlink(path);
    rmdir(servers->dir);
}
