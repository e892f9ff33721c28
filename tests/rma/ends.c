/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -k -n 3 -- rma_ends HOW
 *
 * The last process is gone, or late, at some point of its way: before a launch, between two,
 * in the middle by chance, in an exit() of a kernel, when its own ranks have returned and those
 * of the others run on, or one of them has not looked who came yet, or when it has come to a
 * launch that the others have not come to. The others' launches end in bounds, and say who it
 * was. Or it is doubled by fork(): then nothing happens to anybody but the child.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>
#include <time.h>
#include <unistd.h>

enum how { BEFORE, BETWEEN, CHANCE, EXITS, ENDING, LATE, GREETS, RETURNED, FORKED };
enum {
    WORLD = TELPHER_RMA_WORLD,
    RANKS = 2,
    LATE_S = 7, /* longer than anybody is waited for */
    BOUND_S = 40,
    LAUNCHES = 1000000
};

static int how;
static pid_t self;
static uint64_t cells[64];

/* Ends the last rank's process in the way under test. */
static void
end_here(telpher_rma *rma)
{
    if (how == EXITS) {
        exit(0);
    }
    if (how == FORKED) {
        pid_t child = fork();
        int status = -1;

        if (child == 0) {
            return; /* and goes on */
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
            WEXITSTATUS(status) != 0) {
            telpher_rma_fail(rma, TELPHER_ERR_PROTO);
        }
    }
}

TELPHER_RMA_KERNEL(kernel_ends)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, &cells[me], 8, &win);
    if (me == size - 1) {
        end_here(rma);
    }
    telpher_rma_put_value_notify(rma, win, (me + 1) % size, 0, me, 1);
    telpher_rma_wait(rma, 1, 1);
    if (how == ENDING && me < size - RANKS) { /* that process's ranks have returned */
        telpher_rma_wait_for(rma, 9, 1, 400000000);
    }
}

/* Its ranks need nobody. */
TELPHER_RMA_KERNEL(kernel_returns) { (void)rma; }

static void *
kill_later(void *us)
{
    struct timespec time = {0, (long)(uintptr_t)us * 1000};

    nanosleep(&time, NULL);
    kill(self, SIGKILL);
    return NULL;
}

static void
die_in(unsigned us)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, kill_later, (void *)(uintptr_t)us) != 0) {
        exit(1);
    }
}

/* A child stops this process when it has come to a launch, and lets it look at who came when the
 * last one has come, run and died. */
static void
stop_soon(void)
{
    if (fork() == 0) {
        usleep(300000);
        kill(self, SIGSTOP);
        usleep(1000000);
        kill(self, SIGCONT);
        _exit(0);
    }
}

/* Of the last process, before its n-th launch. */
static void
come_to_end(int n)
{
    if (how == BEFORE || (how == BETWEEN && n == 3)) {
        kill(self, SIGKILL);
    } else if (how == CHANCE && n == 1) {
        die_in((unsigned)(self * 7919) %
               60000); /* the next ranks have another number */
    } else if (how == ENDING) {
        die_in(100000);
    } else if (how == LATE) {
        sleep(LATE_S);
    } else if (how == GREETS &&
               n == 1) { /* the others come later, and find both at once */
        die_in(50000);
    } else if (how == RETURNED && n == 1) {
        usleep(600000);
        die_in(400000);
    }
}

/* Of the others. */
static void
come(telpher_rma_job *job, int n)
{
    if (how == GREETS && n == 1) {
        usleep(200000);
    } else if (how == RETURNED && n == 1 && telpher_rma_job_process(job) == 0) {
        stop_soon();
    } else if (how == RETURNED && n == 1) {
        usleep(600000);
    }
}

/* A launch has failed: with the right words. */
static int
is_told(telpher_rma_job *job, telpher_status status, const char *words)
{
    char lost[64];

    if (how == LATE && status == TELPHER_ERR_TIMEOUT) {
        return strstr(words, "process 2 has not started the launch of kernel_ends") !=
               NULL;
    }
    snprintf(lost, sizeof(lost), "process %u ", telpher_rma_job_processes(job) - 1);
    return status == TELPHER_ERR_PEER_LOST && strstr(words, lost) != NULL &&
           strstr(words, "is lost") != NULL;
}

/* Whether a child's launch failed with CANCELED, and another one is refused. */
static int
is_child_right(telpher_rma_job *job, telpher_status status)
{
    telpher_error err = {0};

    return status == TELPHER_ERR_CANCELED &&
           telpher_rma_run(job, &kernel_ends, NULL, &err) == TELPHER_ERR_UNSUPPORTED &&
           strstr(err.text, "fork()") != NULL;
}

static int
is_right(telpher_rma_job *job)
{
    int last = telpher_rma_job_process(job) == telpher_rma_job_processes(job) - 1;

    for (int n = 0; n < (how == FORKED ? 3 : LAUNCHES); n++) {
        telpher_error err = {0};
        telpher_status status;

        if (last) {
            come_to_end(n);
        } else {
            come(job, n);
        }
        status = telpher_rma_run(
            job, how == RETURNED && n == 1 ? &kernel_returns : &kernel_ends, NULL,
            &err);
        if (getpid() != self) {
            _exit(!is_child_right(job, status));
        }
        if (status != TELPHER_OK) {
            int good = ((last && how == LATE) || is_told(job, status, err.text)) &&
                       (how != RETURNED || n == 2);

            if (!good) {
                fprintf(stderr, "launch %d: %s: %s\n%s", n, telpher_status_text(status),
                        err.text, telpher_rma_report(job));
            }
            good =
                good && how != FORKED &&
                telpher_rma_run(job, &kernel_ends, NULL, NULL) == TELPHER_ERR_PEER_LOST;
            usleep(
                300000); /* the other one, if it is late, must not miss this one instead */
            return good;
        }
    }
    return how == FORKED;
}

int
main(int argc, char **argv)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    time_t begin = time(NULL);
    telpher_error err = {0};
    telpher_rma_job *job;
    int good;

    self = getpid();
    how = argc > 1 ? atoi(argv[1]) : 0;
    params.ranks = RANKS;
    params.timeout_ns =
        how == LATE ? 2000000000 : 30000000000u; /* nobody waits so long */
    if (telpher_rma_create(&params, &job, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    good = is_right(job) && time(NULL) - begin < BOUND_S;
    printf("process %u: %s\n", telpher_rma_job_process(job),
           good ? "knows" : "knows nothing");
    telpher_rma_destroy(job);
    return !good;
}
