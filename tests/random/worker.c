/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that run random programs: both ends of their pipes. */
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

/** Programs after which contexts and kernels are made anew; least time to build them. */
enum { PROGRAMS_OF_A_WORLD = 100, START_SECONDS = 120 };

#define END_LINE ".\n"

/* ---- the worker's end ------------------------------------------------------------------------- */

/** Kills a server while contexts are created and kernels built. */
static bool
open_under_kill(struct world *w, struct kill *kill)
{
    bool opened;

    world_close(w);
    kill_begin(kill);
    opened = world_open(w);
    kill_end(kill);
    return opened;
}

int
worker_main(const char *platform, unsigned devices, int fault)
{
    static struct plan plan; /* large */
    struct world w;
    struct plan_options options = {.devices = devices};
    struct kill kill;
    uint64_t seed, kept;
    unsigned programs = 0;
    int brokers[2];
    int answers = dup(STDOUT_FILENO); /* what drivers print goes elsewhere */
    FILE *to = answers < 0 ? NULL : fdopen(answers, "w");

    if (to == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
        !world_find(&w, platform, devices) || !world_open(&w)) {
        return 1;
    }
    w.features &= ~world_probe(&w);
    fprintf(to, "%u\n" END_LINE, w.features);
    fflush(to);
    while (scanf("%u %" SCNu64 " %" SCNx64 " %d %d", &options.features, &seed, &kept,
                 &brokers[0], &brokers[1]) == 5) {
        if (++programs % PROGRAMS_OF_A_WORLD == 0) {
            world_close(&w);
            if (!world_open(&w)) {
                return 1;
            }
        }
        plan_make(&plan, &options, seed, kept);
        kill_choose(&kill, seed, plan.op_count);
        kill.brokers[0] = brokers[0];
        kill.brokers[1] = brokers[1];
        if (brokers[0] != 0 && kill.while_building && !open_under_kill(&w, &kill)) {
            return 1;
        }
        run_plan(&w, &plan, fault, &kill, to);
        fprintf(to, END_LINE);
        fflush(to);
    }
    world_close(&w);
    fclose(to);
    return 0;
}

/* ---- the other end ---------------------------------------------------------------------------- */

static void
become_worker(const struct worker *w, const int *to, const int *from)
{
    char devices[16], fault[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (w->vendors != NULL) {
        setenv("OCL_ICD_VENDORS", w->vendors, 1);
    } else {
        unsetenv("OCL_ICD_VENDORS");
    }
    if (w->errors != 0) {
        (void)dup2(w->errors, STDERR_FILENO);
    }
    snprintf(devices, sizeof(devices), "%u", w->devices);
    snprintf(fault, sizeof(fault), "%d", w->fault);
    if (dup2(to[0], STDIN_FILENO) >= 0 && dup2(from[1], STDOUT_FILENO) >= 0) {
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        execl("/proc/self/exe", "random_programs", "--worker", w->platform, devices,
              fault, (char *)NULL);
    }
    perror("random_programs: cannot start a worker");
    _exit(127);
}

static int
milliseconds_left(const struct timespec *end)
{
    struct timespec now;
    long long left;

    clock_gettime(CLOCK_MONOTONIC, &now);
    left = (long long)(end->tv_sec - now.tv_sec) * 1000 +
           (end->tv_nsec - now.tv_nsec) / 1000000;
    return left < 0 ? 0 : (int)left;
}

/** Reads until the line that ends an answer. */
static enum outcome
read_answer(struct worker *w, unsigned seconds)
{
    size_t len = 0, cap = 0;
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)seconds;
    for (;;) {
        struct pollfd fd = {.fd = w->from, .events = POLLIN};
        ssize_t n;

        if (cap - len < 2) {
            cap = cap == 0 ? 65536 : cap * 2;
            w->text = realloc(w->text, cap);
            if (w->text == NULL) {
                abort();
            }
        }
        if (poll(&fd, 1, milliseconds_left(&end)) == 0) {
            w->text[len] = '\0';
            return HUNG;
        }
        n = read(w->from, w->text + len, cap - len - 1);
        if (n <= 0 && errno != EINTR) {
            w->text[len] = '\0';
            return DIED;
        }
        len += n > 0 ? (size_t)n : 0;
        w->text[len] = '\0';
        if (len >= 2 && strcmp(w->text + len - 2, END_LINE) == 0 &&
            (len == 2 || w->text[len - 3] == '\n')) {
            w->text[len - 2] = '\0';
            return RAN;
        }
    }
}

bool
worker_start(struct worker *w)
{
    int to[2], from[2];

    if (pipe(to) != 0) {
        return false;
    }
    if (pipe(from) != 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    w->pid = fork();
    if (w->pid == 0) {
        become_worker(w, to, from);
    }
    close(to[0]);
    close(from[1]);
    w->to = to[1];
    w->from = from[0];
    if (w->pid < 0 ||
        read_answer(w, w->seconds > START_SECONDS ? w->seconds : START_SECONDS) !=
            RAN) {
        worker_stop(w);
        return false;
    }
    w->features = (unsigned)strtoul(w->text, NULL, 10);
    return true;
}

void
worker_stop(struct worker *w)
{
    if (w->pid > 0) {
        close(w->to);
        close(w->from);
        kill(w->pid, SIGKILL);
        waitpid(w->pid, NULL, 0);
    }
    w->pid = 0;
}

/** Says how a process ended that should not have. */
static void
note_end(struct worker *w)
{
    int status = 0;

    if (waitpid(w->pid, &status, WNOHANG) != w->pid) {
        return;
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr,
                "random_programs: the process on platform %s ended by signal %d\n",
                w->platform, WTERMSIG(status));
    } else {
        fprintf(stderr, "random_programs: the process on platform %s ended with %d\n",
                w->platform, WEXITSTATUS(status));
    }
    close(w->to);
    close(w->from);
    w->pid = 0;
}

/** Runs the command that looks at a hung process. */
static void
run_on_hang(const struct worker *w)
{
    char command[1024];

    snprintf(command, sizeof(command), "%s %d", w->on_hang, (int)w->pid);
    if (system(command) != 0) {
        fprintf(stderr, "random_programs: failed: %s\n", command);
    }
}

enum outcome
worker_end(struct worker *w)
{
    pid_t ended = 0;
    int status = 0;

    close(w->to);
    for (unsigned i = 0; i < w->seconds * 200 && ended == 0; i++) {
        ended = waitpid(w->pid, &status, WNOHANG);
        if (ended == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        }
    }
    if (ended == 0) {
        kill(w->pid, SIGKILL);
        waitpid(w->pid, NULL, 0);
    }
    close(w->from);
    w->pid = 0;
    return ended == 0                                      ? HUNG
           : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? RAN
                                                           : DIED;
}

enum outcome
worker_run(struct worker *w, unsigned features, uint64_t seed, uint64_t kept,
           const pid_t *brokers)
{
    enum outcome outcome;

    if (w->pid == 0 && !worker_start(w)) {
        return DIED;
    }
    if (dprintf(w->to, "%u %" PRIu64 " %" PRIx64 " %d %d\n", features, seed, kept,
                brokers != NULL ? (int)brokers[0] : 0,
                brokers != NULL ? (int)brokers[1] : 0) < 0) {
        outcome = DIED;
    } else {
        outcome = read_answer(w, w->seconds);
    }
    if (outcome == HUNG && w->on_hang != NULL) {
        run_on_hang(w);
    } else if (outcome == DIED) {
        note_end(w);
    }
    if (outcome != RAN) {
        worker_stop(w);
    }
    return outcome;
}
