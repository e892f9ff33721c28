/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of the test driver and the threads that run them: one a queue, a few if it is
 * out of order, started when first needed. All order comes from events: a command is
 * ready when nothing it waits for is missing.
 */
#include "td.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct td_cmd *
td_cmd_create(cl_command_queue queue, cl_command_type type, const char *function,
              size_t data_bytes)
{
    struct td_cmd *cmd = calloc(1, sizeof(*cmd) + data_bytes);

    if (cmd == NULL) {
        return NULL;
    }
    cmd->event = td_event_new(queue->context, queue, type);
    if (cmd->event == NULL) {
        free(cmd);
        return NULL;
    }
    td_ref(queue);
    cmd->queue = queue;
    cmd->function = function;
    cmd->missing = 1; /* td_cmd_link() takes it away */
    return cmd;
}

void
td_cmd_hold(struct td_cmd *cmd, void *obj)
{
    td_ref(obj);
    cmd->held[cmd->num_held++] = obj;
}

/* Lets go of what the command needed to run. */
static void
drop_needs(struct td_cmd *cmd)
{
    if (cmd->fini != NULL) {
        cmd->fini(cmd);
        cmd->fini = NULL;
    }
    while (cmd->num_held > 0) {
        td_unref(cmd->held[--cmd->num_held]);
    }
    while (cmd->num_dep > 0) {
        td_unref(cmd->dep[--cmd->num_dep]);
    }
    free(cmd->dep);
    cmd->dep = NULL;
}

void
td_cmd_destroy(struct td_cmd *cmd)
{
    drop_needs(cmd);
    td_unref(cmd->event);
    td_unref(cmd->queue);
    free(cmd);
}

/* The queue's references on the event end here: an event has one on its queue. */
static void
unlink_cmd(struct td_cmd *cmd)
{
    cl_command_queue q = cmd->queue;
    cl_event last;
    cl_event barrier;

    pthread_mutex_lock(&td_mutex);
    last = q->last == cmd->event ? q->last : NULL;
    q->last = last != NULL ? NULL : q->last;
    barrier = q->barrier == cmd->event ? q->barrier : NULL;
    q->barrier = barrier != NULL ? NULL : q->barrier;
    if (cmd->prev != NULL) {
        cmd->prev->next = cmd->next;
    } else {
        q->all = cmd->next;
    }
    if (cmd->next != NULL) {
        cmd->next->prev = cmd->prev;
    }
    pthread_mutex_unlock(&td_mutex);
    td_unref(last);
    td_unref(barrier);
}

static cl_int
execute(struct td_cmd *cmd)
{
    cl_int status;

    if (td_script()->delay_us > 0) {
        usleep(td_script()->delay_us);
    }
    status = td_enter_command(cmd->function);
    return status == CL_SUCCESS && cmd->run != NULL ? cmd->run(cmd) : status;
}

/* The event completes after everything else was let go: who sees it complete may count
   objects. A barrier made meanwhile finds the command in the queue, or its end. */
void
td_cmd_run(struct td_cmd *cmd)
{
    cl_int status = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;

    td_event_set(cmd->event, CL_SUBMITTED);
    if (!cmd->wait_failed) {
        td_event_set(cmd->event, CL_RUNNING);
        status = execute(cmd);
    }
    drop_needs(cmd);
    td_event_set(cmd->event, status);
    unlink_cmd(cmd);
    td_cmd_destroy(cmd);
}

static void
free_queue(cl_command_queue q)
{
    pthread_cond_destroy(&q->work);
    free(q);
}

static void *
work(void *arg)
{
    cl_command_queue q = arg;
    bool last;

    pthread_mutex_lock(&td_mutex);
    for (;;) {
        struct td_cmd *cmd;

        while (q->ready == NULL && !q->closing) {
            q->idle++;
            pthread_cond_wait(&q->work, &td_mutex);
            q->idle--;
        }
        if (q->ready == NULL) {
            break;
        }
        cmd = q->ready;
        q->ready = cmd->next_ready;
        pthread_mutex_unlock(&td_mutex);
        td_cmd_run(cmd);
        pthread_mutex_lock(&td_mutex);
    }
    last = --q->workers == 0;
    pthread_mutex_unlock(&td_mutex);
    if (last) {
        free_queue(q);
    }
    return NULL;
}

static void
start_worker(cl_command_queue q)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, work, q) == 0) {
        q->workers++;
    } else if (q->workers == 0) {
        fprintf(stderr, "testdrv: no thread for a queue\n");
        abort();
    }
    pthread_attr_destroy(&attr);
}

void
td_queue_wake(cl_command_queue q)
{
    bool out_of_order = (q->props & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
    unsigned most = out_of_order ? TD_OOO_WORKERS : 1;
    unsigned ready = 0;

    if (td_script()->in_flush) {
        return;
    }
    for (struct td_cmd *c = q->ready; c != NULL; c = c->next_ready) {
        ready++;
    }
    if (ready > q->idle && q->workers < most) {
        start_worker(q);
    }
    pthread_cond_signal(&q->work);
}

void
td_queue_close(cl_command_queue q)
{
    bool unused;

    pthread_mutex_lock(&td_mutex);
    q->closing = true;
    unused = q->workers == 0;
    pthread_cond_broadcast(&q->work);
    pthread_mutex_unlock(&td_mutex);
    if (unused) {
        free_queue(q);
    }
}

/* One reference is the command's; a second one is the program's or the waiting call's. */
static void
share_event(cl_event event, const struct td_wait *wait)
{
    pthread_mutex_lock(&td_mutex);
    event->obj.api_refs = wait->ret_event != NULL;
    event->obj.refs += (wait->ret_event != NULL) + (wait->blocking != CL_FALSE);
    pthread_mutex_unlock(&td_mutex);
}

cl_int
td_cmd_submit(struct td_cmd *cmd, const struct td_wait *wait)
{
    cl_command_queue queue = cmd->queue;
    cl_event event = cmd->event;
    cl_int status = CL_SUCCESS;
    void *old[2];

    share_event(event, wait);
    pthread_mutex_lock(&td_mutex);
    td_cmd_link(cmd, wait, cmd->waits_for_all, cmd->is_barrier, old);
    pthread_mutex_unlock(&td_mutex); /* from here on the command may be gone */
    td_unref(old[0]);
    td_unref(old[1]);
    if (wait->blocking) {
        td_flush(queue);
        status = td_event_wait(event);
        td_unref(event);
    }
    if (wait->ret_event != NULL && status == CL_SUCCESS) {
        *wait->ret_event = event;
    } else if (wait->ret_event != NULL) {
        td_release(event, TD_EVENT, CL_INVALID_EVENT);
    }
    return status;
}

cl_int
td_marker(cl_command_queue queue, bool barrier, const char *function,
          const struct td_wait *wait)
{
    cl_command_type type = barrier ? CL_COMMAND_BARRIER : CL_COMMAND_MARKER;
    struct td_cmd *cmd = td_cmd_create(queue, type, function, 0);

    if (cmd == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    cmd->waits_for_all = wait->count == 0;
    cmd->is_barrier = barrier;
    return td_cmd_submit(cmd, wait);
}
