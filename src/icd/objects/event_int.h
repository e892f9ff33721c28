/* SPDX-License-Identifier: Apache-2.0 */
/* Insides of events, shared by event*.c alone. */
#ifndef TELPHER_ICD_OBJECTS_EVENT_INT_H
#define TELPHER_ICD_OBJECTS_EVENT_INT_H

#include "icd/objects/context.h"
#include "icd/objects/event.h"
#include "icd/session/session_int.h"

/** One registered callback. */
struct tp_icd_event_callback {
    struct tp_list link;
    struct tp_pool_job job; /* so that it comes, whatever memory there is then */
    struct _cl_event *ev; /* held while on its way to the callback thread */
    cl_int when, status;
    void(CL_CALLBACK *fn)(cl_event, cl_int, void *);
    void *user;
};

/** An event without queue and place, which holds @p ctx. @return NULL: no memory. */
struct _cl_event *tp_icd_event_alloc(struct _cl_context *ctx, cl_command_type type);
/** The library's own hold until the end: takes it unless it has it, and lets go. Lock held. */
void tp_icd_event_keep(struct _cl_event *ev);
void tp_icd_event_unkeep(struct _cl_event *ev);
/** Takes the callback and hands it to the callback thread. Lock held. */
void tp_icd_event_fire(struct tp_icd_event_callback *cb);
/** Puts SUBSCRIBE unless the server knows already. Lock held. */
void tp_icd_event_put_subscribe(struct _cl_event *ev);
/** Takes back what tp_icd_event_subscribe expected. Lock held. */
void tp_icd_event_stop_expecting(struct _cl_event *ev);
/** Waits for an event that ends without a message. @return its status. No lock held. */
cl_int tp_icd_event_wait_unread(struct _cl_event *ev);

#endif
