/* SPDX-License-Identifier: Apache-2.0 */
/* The test driver: events, commands and their queues. Included by td.h. */
#ifndef TESTDRV_TD_COMMAND_H
#define TESTDRV_TD_COMMAND_H

#include "td.h"

struct td_dependent {
    struct td_dependent *next;
    struct td_cmd *cmd;
    bool listed; /* in the wait list: a failure is passed on */
};

struct td_event_callback {
    struct td_event_callback *next;
    cl_int when;
    void(CL_CALLBACK *fn)(cl_event event, cl_int status, void *data);
    void *data;
};

struct _cl_event {
    struct td_obj obj;
    cl_context context;
    cl_command_queue queue; /* NULL: user event; holds a reference */
    cl_command_type type;
    cl_int status;
    bool untold; /* it has ended, and will say so: see td_script.untold */
    cl_ulong stamp[5]; /* queued, submit, start, end, complete [ns] */
    struct td_dependent *dependents;
    struct td_event_callback *callbacks;
};

/** One command. Its parameters lie behind it, in data. */
struct td_cmd {
    struct td_cmd *next_ready;
    struct td_cmd *next_gated;
    struct td_cmd *prev, *next; /* in queue->all */
    bool waits_for_all, is_barrier;
    cl_command_queue queue;
    cl_event event;
    const char *function; /* the entry that made it */
    cl_int (*run)(struct td_cmd *cmd);
    void (*fini)(struct td_cmd *cmd); /* frees what data refers to; may be NULL */
    unsigned missing; /* events and gates to wait for */
    bool wait_failed;
    void *held[4]; /* objects it needs; hold references */
    unsigned num_held;
    cl_event *dep; /* events it waits for; hold references */
    cl_uint num_dep;
    _Alignas(16) uint8_t data[];
};

/** Arguments common to all enqueue calls. */
struct td_wait {
    cl_uint count;
    const cl_event *list;
    cl_event *ret_event;
    cl_bool blocking;
};

cl_int td_check_wait(cl_context context, cl_uint count, const cl_event *list);
/**
 * With td_mutex: enters the command into its queue, behind what it waits for. It may run
 * as soon as the mutex is free. @param ret_old gives two events to drop, NULL or not.
 */
void td_cmd_link(struct td_cmd *cmd, const struct td_wait *wait, bool waits_for_all,
                 bool is_barrier, void *ret_old[2]);
/** With td_mutex: a command has become ready; makes or wakes a thread for it. */
void td_queue_wake(cl_command_queue queue);
/** NULL: no memory. The caller submits it or destroys it. */
struct td_cmd *td_cmd_create(cl_command_queue queue, cl_command_type type,
                             const char *function, size_t data_bytes);
void td_cmd_hold(struct td_cmd *cmd, void *obj);
void td_cmd_destroy(struct td_cmd *cmd);
/** Runs a command that was taken from the ready ones; it ends there. Not under td_mutex. */
void td_cmd_run(struct td_cmd *cmd);
/**
 * Takes @p cmd in every case; the wait list was checked by the caller.
 * @return what the enqueue call shall return.
 */
cl_int td_cmd_submit(struct td_cmd *cmd, const struct td_wait *wait);
/** Marker or barrier; with no wait list it waits for all earlier commands. */
cl_int td_marker(cl_command_queue queue, bool barrier, const char *function,
                 const struct td_wait *wait);
void td_flush(cl_command_queue queue);
/** Script in_flush (in_flush.c): runs on this thread what a queue has, or what an event
 *  needs to complete; returns when that is so. Not under td_mutex. */
void td_run_queue(cl_command_queue queue);
void td_run_event(cl_event event);
/** Broadcast whenever an event completes; with td_mutex. */
extern pthread_cond_t td_completed;
/**
 * Changes the status; starts and tells everything that waited for it. Not under td_mutex.
 * @return false if the event was complete already.
 */
bool td_event_set(cl_event event, cl_int status);
/** @return the final status. */
cl_int td_event_wait(cl_event event);
cl_event td_event_new(cl_context context, cl_command_queue queue, cl_command_type type);
/** The devices' clock: CLOCK_MONOTONIC, set ahead by the script. */
cl_ulong td_now_ns(void);

#endif
