/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the OpenCL ICD and what its files offer each other.
 *
 *   icd.c       exported symbols, dispatch table        platform.c  servers, devices
 *   capabilities.c      what drivers have that we can use       device.c    answers about devices
 *   subdevice.c parts of devices                        timer.c     their clocks
 *   facts.c     cached answers of drivers               context.c program.c kernel.c
 *   il.c        programs in SPIR-V                      builtin_kernels.c   programs of drivers' own
 *   subgroup.c  sub-groups of kernels
 *   place*.c    a session with an executor, who reads   bulk.c      its bulk stream
 *   event*.c    events, waiting, callbacks              queue.c     queues, flush, finish
 *   blocking_write.c     writes that return before their end
 *   buffer.c       buffers, sub-buffers                    map.c       map and unmap
 *   image.c     images                                  sampler.c   samplers
 *   command_buffer.c  command buffers                         command_buffer_record.c    what is recorded there
 *   enqueue.c   what all commands have in common        move.c      content between places
 *   read_write.c copy.c kernels of enqueue: memory.h      internal_queue.c     internal queues
 *
 * A *place* is a session with one executor: one platform of one server. A context spans
 * one or more places. Objects have one id, the same at every place (wire/frame.h).
 *
 * Locks, in order of taking: tp_icd.lock (all object state, events, directories; never
 * held during I/O, waits or user callbacks), then a stream's own send lock. Reference
 * counts are atomic. Frames are put into a stream under tp_icd.lock, so that what belongs
 * together stays together; they are flushed after it is released.
 */
#ifndef TELPHER_ICD_ICD_H
#define TELPHER_ICD_ICD_H

#include <pthread.h>

#include "base/container/pool.h"
#include "icd/objects/platform.h"

/** What the whole library shares. */
struct tp_icd_state {
    pthread_mutex_t lock; /**< see the top of this file */
    pid_t pid; /**< of the process that made it; a fork's child fails calls */
    _Atomic uint64_t next_id;
    struct _cl_platform_id *platform; /**< NULL: no server, no platform */
    struct tp_pool *callbacks; /**< one thread that runs the program's callbacks */
    cl_icd_dispatch *dispatch; /**< the padded table of icd.c */
};
extern struct tp_icd_state tp_icd;

/** Sets up once; thread-safe. @return the platform or NULL. */
struct _cl_platform_id *tp_icd_platform(void);
/** A fresh id. */
uint64_t tp_icd_new_id(enum tp_wire_kind kind);
void tp_icd_lock(void);
void tp_icd_unlock(void);
/** True in a child of fork(), where nothing of ours works. */
bool tp_icd_forked(void);

/* Entry points: one declaration for each slot of the table. */
#include "icd/api.h"

#endif
