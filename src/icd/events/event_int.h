/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of events, for event*.c only. */
#ifndef TELPHER_ICD_OBJECTS_EVENT_INT_H
#define TELPHER_ICD_OBJECTS_EVENT_INT_H

#include "icd/events/event.h"
#include "icd/objects/context.h"
#include "icd/session/session_int.h"

/** One registered callback. */
struct tp_icd_event_callback {
    struct tp_list link;
    struct tp_pool_job job; /* preallocated: the call cannot fail for lack of memory */
    struct _cl_event *ev; /* held while queued for the callback thread */
    cl_int when, status;
    void(CL_CALLBACK *fn)(cl_event, cl_int, void *);
    void *user;
};

/** Creates an event without queue and session; it holds @p ctx. @return NULL: no memory. */
struct _cl_event *tp_icd_event_alloc(struct _cl_context *ctx, cl_command_type type);
/** Takes or drops the library's own hold, which lasts until the event ends. Lock held. */
void tp_icd_event_keep(struct _cl_event *ev);
void tp_icd_event_unkeep(struct _cl_event *ev);
/** Unlinks the callback and queues it for the callback thread. Lock held. */
void tp_icd_event_fire(struct tp_icd_event_callback *cb);
/** Appends SUBSCRIBE unless DONE is requested already. Lock held. */
void tp_icd_event_put_subscribe(struct _cl_event *ev);
/** Undoes the tp_icd_expect of tp_icd_event_subscribe. Lock held. */
void tp_icd_event_stop_expecting(struct _cl_event *ev);
/** Waits for an event that ends without a frame. @return its status. No lock held. */
cl_int tp_icd_event_wait_unread(struct _cl_event *ev);

#endif
