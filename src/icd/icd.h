/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ICD's global state, and a map of the files of this directory.
 *
 *   icd.c       exported symbols, dispatch table        platform.c  servers, devices
 *   capabilities.c      what drivers have that we can use       device.c    answers about devices
 *   subdevice.c parts of devices                        timer.c     their clocks
 *   facts.c     cached answers of drivers               context.c program.c kernel.c
 *   il.c        programs in SPIR-V                      builtin_kernels.c   programs of drivers' own
 *   subgroup.c  sub-groups of kernels                   suggested_size.c   work-groups that drivers suggest
 *   session*.c  server sessions, their reading thread   bulk.c      their bulk streams
 *   event*.c    events, waiting, callbacks              queue.c     queues, flush, finish
 *   blocking_write.c     blocking writes that return before they complete
 *   buffer.c       buffers, sub-buffers                    map.c       map and unmap
 *   image.c     images                                  sampler.c   samplers
 *   pipe.c      pipes
 *   command_buffer.c  command buffers                         entry.h     form of entry points of commands
 *   enqueue.c   steps common to all commands            move.c      moves content between sessions
 *   read_write.c copy.c kernels of enqueue: memory.h      internal_queue.c     internal queues
 *
 * A *server session* connects to one executor: one platform of one server. A context spans
 * one or more sessions. An object has the same id in every session (wire/frame.h).
 *
 * Lock order: tp_icd.lock, then a stream's own send lock. tp_icd.lock protects all object
 * state, events and directories. It is never held during I/O, waits or user callbacks.
 * Reference counts are atomic. Frames are appended to a stream under tp_icd.lock, so that
 * related frames stay adjacent. They are flushed after the lock is released.
 */
#ifndef TELPHER_ICD_ICD_H
#define TELPHER_ICD_ICD_H

#include <pthread.h>

#include "base/container/pool.h"
#include "icd/objects/platform.h"

/** Global state of the library. */
struct tp_icd_state {
    pthread_mutex_t lock; /**< see the top of this file */
    pid_t pid; /**< of the creating process; calls fail in a child of fork() */
    _Atomic uint64_t next_id;
    struct _cl_platform_id *platform; /**< NULL: no server, no platform */
    struct tp_pool *callbacks; /**< one thread that runs the program's callbacks */
    cl_icd_dispatch *dispatch; /**< the padded table of icd.c */
};
extern struct tp_icd_state tp_icd;

/** Initializes the library at the first call; thread-safe. @return the platform or NULL. */
struct _cl_platform_id *tp_icd_platform(void);
/** Allocates an id that no other object has. */
uint64_t tp_icd_new_id(enum tp_wire_kind kind);
void tp_icd_lock(void);
void tp_icd_unlock(void);
/** True in a child of fork(), where the library does not work. */
bool tp_icd_forked(void);

/* Entry points: one declaration for each slot of the table. */
#include "icd/api.h"

#endif
