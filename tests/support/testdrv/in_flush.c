/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that run on the thread that flushes a queue or waits for an event (script:
 * in_flush), as oclgrind has it: it runs what they wait for first, also in other queues,
 * and waits there for user events. There are no threads of ours then.
 */
#include "td.h"

#include <stdlib.h>

/* With td_mutex: the command of an event that is not complete; NULL: a user event. */
static struct td_cmd *
find_cmd(cl_event event)
{
    struct td_cmd *cmd = event->queue != NULL ? event->queue->all : NULL;

    while (cmd != NULL && cmd->event != event) {
        cmd = cmd->next;
    }
    return cmd;
}

/* With td_mutex: the first event of another command that this one waits for. */
static cl_event
find_needed(const struct td_cmd *cmd)
{
    for (cl_uint i = 0; i < cmd->num_dep; i++) {
        if (cmd->dep[i]->status > CL_COMPLETE && cmd->dep[i]->queue != NULL) {
            return cmd->dep[i];
        }
    }
    return NULL;
}

/* With td_mutex. @return false: it is not ready, or another thread has it */
static bool
take_ready(struct td_cmd *cmd)
{
    for (struct td_cmd **p = &cmd->queue->ready; *p != NULL; p = &(*p)->next_ready) {
        if (*p == cmd) {
            *p = cmd->next_ready;
            return true;
        }
    }
    return false;
}

/* With td_mutex, which is free meanwhile. */
static void
run_cmd(struct td_cmd *cmd)
{
    pthread_mutex_unlock(&td_mutex);
    td_cmd_run(cmd);
    pthread_mutex_lock(&td_mutex);
}

/* With td_mutex, which is free meanwhile: completes an event. */
static void
run_event(cl_event event)
{
    event->obj.refs++;
    while (event->status > CL_COMPLETE) {
        struct td_cmd *cmd = find_cmd(event);
        cl_event needed = cmd != NULL ? find_needed(cmd) : NULL;

        if (needed != NULL) {
            run_event(needed);
        } else if (cmd != NULL && take_ready(cmd)) {
            run_cmd(cmd);
        } else {
            pthread_cond_wait(&td_completed, &td_mutex);
        }
    }
    pthread_mutex_unlock(&td_mutex);
    td_unref(event);
    pthread_mutex_lock(&td_mutex);
}

void
td_run_event(cl_event event)
{
    pthread_mutex_lock(&td_mutex);
    run_event(event);
    pthread_mutex_unlock(&td_mutex);
}

/* With td_mutex: nothing tells a command any more that what it waits for is over. */
static void
unhook(struct td_cmd *cmd)
{
    for (cl_uint i = 0; i < cmd->num_dep; i++) {
        struct td_dependent **p = &cmd->dep[i]->dependents;

        while (*p != NULL) {
            struct td_dependent *d = *p;

            if (d->cmd == cmd) {
                *p = d->next;
                free(d);
            } else {
                p = &d->next;
            }
        }
    }
    cmd->missing = 0;
}

/* With td_mutex. @return the oldest command that is not over; NULL: none */
static struct td_cmd *
find_oldest(cl_command_queue queue)
{
    struct td_cmd *oldest = NULL;

    for (struct td_cmd *c = queue->all; c != NULL; c = c->next) {
        oldest = c->event->status > CL_COMPLETE ? c : oldest;
    }
    return oldest;
}

/* With td_mutex: takes a command that only fails, before what it waits for is over. */
static bool
take_failed(struct td_cmd *cmd)
{
    if (cmd->missing == 0) {
        return take_ready(cmd);
    }
    unhook(cmd);
    return true;
}

void
td_run_queue(cl_command_queue queue)
{
    struct td_cmd *cmd;

    pthread_mutex_lock(&td_mutex);
    cmd = queue->all;
    if (cmd != NULL && cmd->wait_failed && take_failed(cmd)) {
        run_cmd(cmd); /* it fails at once, and the others stay */
    } else {
        while ((cmd = find_oldest(queue)) != NULL) {
            run_event(cmd->event);
        }
    }
    pthread_mutex_unlock(&td_mutex);
}
