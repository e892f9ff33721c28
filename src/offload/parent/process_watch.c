/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches those processes of the other side that run on this machine. If one ends
 * unexpectedly, some MPIs end the job, others hang. This thread logs which process
 * ended, gives the launcher time to end the job, and then ends it.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/descriptor.h"
#include "base/trace/log.h"
#include "offload/offload_int.h"

enum { WATCHED_MAX = 1024 };

struct watched {
    int fd, rank, pid;
    const char *who;
    const void *group;
};

static struct tp_mutex lock = TP_MUTEX_INIT;
static struct watched watched[WATCHED_MAX];
static int count, wake[2] = {-1, -1};
static bool running;
static pthread_t thread;

static _Noreturn void
report_death(const struct watched *w)
{
    char words[160];

    snprintf(words, sizeof(words),
             "%s %d (process %d) has ended in the middle of its work; the job is ended",
             w->who, w->rank, w->pid);
    tp_offload_world_abort(words);
}

/* True if one has ended. An entry removed meanwhile may refer to a reused
 * descriptor. */
static void
look(void)
{
    tp_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        struct pollfd fd = {watched[i].fd, POLLIN, 0};

        if (poll(&fd, 1, 0) == 1) {
            struct watched w = watched[i];

            tp_mutex_unlock(&lock);
            report_death(&w);
        }
    }
    tp_mutex_unlock(&lock);
}

static void *
run(void *unused)
{
    static struct pollfd fds[WATCHED_MAX + 1];
    char byte;

    for (;;) {
        int looked;

        tp_mutex_lock(&lock);
        looked = count;
        for (int i = 0; i < looked; i++) {
            fds[i + 1] = (struct pollfd){watched[i].fd, POLLIN, 0};
        }
        tp_mutex_unlock(&lock);
        fds[0] = (struct pollfd){wake[0], POLLIN, 0};
        if (poll(fds, (nfds_t)looked + 1, -1) < 0) {
            continue;
        }
        if (fds[0].revents != 0 && read(wake[0], &byte, 1) == 0) {
            return NULL;
        }
        look();
    }
}

static void
finish(void)
{
    close(wake[1]);
    tp_thread_join(thread);
    close(wake[0]);
}

/* With the lock held. */
static bool
start(void)
{
    if (!running && pipe(wake) == 0) {
        running = tp_thread_create(&thread, "tp-watch", run, NULL) == TELPHER_OK;
        if (running) {
            (void)atexit(finish);
        }
    }
    return running;
}

static void
kick(void)
{
    if (running && write(wake[1], "", 1) < 0) {
        tp_debug("offload",
                 "cannot wake the watching thread; it checks at its next interval");
    }
}

void
tp_offload_watch_add(const struct tp_process *process, const char *who, int rank,
                     const void *group)
{
    struct tp_process self;
    int fd;

    if (tp_process_self(&self) != TELPHER_OK || !tp_process_is_near(&self, process) ||
        tp_process_open(process, &fd) != TELPHER_OK) {
        return; /* the launcher handles that */
    }
    tp_mutex_lock(&lock);
    if (count < WATCHED_MAX && start()) {
        watched[count++] = (struct watched){fd, rank, process->pid, who, group};
        fd = -1;
    }
    kick();
    tp_mutex_unlock(&lock);
    tp_descriptor_close(fd);
}

void
tp_offload_watch_remove(const void *group)
{
    tp_mutex_lock(&lock);
    for (int i = count - 1; i >= 0; i--) {
        if (watched[i].group == group) {
            close(watched[i].fd);
            watched[i] = watched[--count];
        }
    }
    kick();
    tp_mutex_unlock(&lock);
}
