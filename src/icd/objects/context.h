/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts and command queues. */
#ifndef TELPHER_ICD_OBJECTS_CONTEXT_H
#define TELPHER_ICD_OBJECTS_CONTEXT_H

#include "base/container/list.h"
#include "base/container/map.h"
#include "icd/session/session.h"
#include "wire/launch.h"

enum { TP_ICD_SESSIONS_MAX = 32 }; /**< sessions of one context: bits of a mask */

/* ---- context.c ------------------------------------------------------------------ */

struct _cl_context {
    struct tp_icd_object obj;
    struct _cl_device_id **devices;
    uint32_t device_count;
    _Atomic(struct tp_icd_session *)
        sessions[TP_ICD_SESSIONS_MAX]; /**< one changes when another takes its place */
    uint32_t session_count;
    /** Internal queue in each session, NULL = not created yet. internal_queue.c creates and
     *  frees them (tp_icd_movers_free); they do not hold the context. */
    struct _cl_command_queue *mover[TP_ICD_SESSIONS_MAX];
    uint32_t lone_movers; /**< sessions whose queue is for one transfer, as a mask */
    cl_context_properties *properties; /**< as given, with the final 0; NULL = none */
    uint32_t property_count;
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *);
    void *notify_user;
    struct tp_list destructors;
    struct tp_list queues; /**< the program's */
    uint32_t queue_count;
    uint32_t user_events; /**< user events not set yet */
    bool has_failed; /**< some event ended with an error: others may follow */
    _Atomic bool has_coherent; /**< had memory that host and devices use at once */
    struct tp_list link; /**< in tp_icd_contexts */
    struct tp_map
        sent_files; /**< included files, by the first bytes of their digests */
    uint64_t early_count; /**< early writes of its queues so far: blocking_write.c */
};
/** All contexts. Under the lock. */
extern struct tp_list tp_icd_contexts;
/** @return index of a session in the context, for masks and arrays. */
uint32_t tp_icd_context_session(const struct _cl_context *ctx,
                                const struct tp_icd_session *session);
/** @return the session index of a device, or -1 if it is not in the context. */
int tp_icd_context_device_session(const struct _cl_context *ctx,
                                  const struct _cl_device_id *dev);
/** Queues a call of the context's notify callback. Under the lock. */
void tp_icd_context_notify(struct _cl_context *ctx, const char *text);

/* ---- queue.c -------------------------------------------------------------------- */

struct _cl_command_queue {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    struct _cl_device_id *dev;
    _Atomic(struct tp_icd_session *) session; /**< as in ctx */
    uint32_t session_index; /**< in ctx */
    cl_command_queue_properties properties;
    cl_queue_properties *property_list; /**< as given, with the final 0; NULL = none */
    uint32_t property_count;
    struct tp_list
        open; /**< events of commands not known to be complete, oldest first */
    uint64_t next_seq; /**< of the next event, from 1 */
    uint64_t
        read_seq; /**< the last command that puts content into the program's memory */
    bool has_followed; /**< a command has waited for an event of another queue */
    uint64_t done_seq; /**< highest seq that DONE was received for */
    uint64_t work_seq; /**< seq of the last command that is no early write */
    uint64_t
        gated_seq; /**< the last command that waits for more than the queue's order */
    bool busy; /**< a frame was appended since the last finish began */
    unsigned finishing; /**< threads inside a finish that waits */
    cl_int async_error; /**< of commands without event; the next finish returns it */
    struct tp_list context_link; /**< in ctx->queues */
    struct tp_wire_last_launch last; /**< that the server remembers, too */
    struct _cl_event *barrier; /**< out of order: of the last one, until it ends */
    /* Blocking writes that returned before they completed, see blocking_write.c. */
    struct _cl_event
        *early; /**< of the last one, or of a marker after it, until it ends */
    uint64_t early_no; /**< its number in the context */
    uint64_t
        early_seen; /**< commands here are ordered after early writes up to this number */
    uint64_t
        bare_seq; /**< DONE of this seq comes after the last one without event; or 0 */
};
bool tp_icd_queue_in_order(const struct _cl_command_queue *q);

#endif
