/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves content from server to server: a PUSH where it is, a PULL where it is needed. This
 * process sees their ends only.
 */
#include "icd/events/callback.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/migration/migration.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"

#include "base/alloc.h"

enum {
    UNREAD_MAX = 256
}; /* ends of commands before a thread of the library reads them */

/** A PULL under way, for its completion callback. */
struct haul {
    struct _cl_mem *root; /**< held */
    uint32_t session_index;
    tp_icd_move_end ended;
};

static void
pull_ended(struct _cl_event *ev)
{
    struct haul *haul = ev->on_end_user;

    haul->ended(haul->root, haul->session_index, ev);
    tp_icd_drop_locked(&haul->root->obj);
    tp_free(haul);
}

/** Creates the event of a PUSH or a PULL on an internal queue. NULL: no memory. */
static struct _cl_event *
event_on(struct _cl_context *ctx, uint32_t session_index)
{
    struct _cl_command_queue *mover = tp_icd_mover(ctx, session_index);

    return mover == NULL ? NULL
                         : tp_icd_event_create(mover, CL_COMMAND_MIGRATE_MEM_OBJECTS);
}

/** The members that PUSH and PULL have in common, but for flags. */
#define HAUL(root, what, ev, wanted, values)                                           \
    .event = (ev)->obj.id, .queue = (ev)->queue->obj.id, .mem = (root)->obj.id,        \
    .peer = (what)->peer, .offset = (what)->offset, .size = (what)->size,              \
    .transfer = (what)->transfer, .wait = *(wanted),                                   \
    .region = (root)->image != NULL ? tp_icd_whole_image(root, values)                 \
                                    : (struct tp_wire_u64s)                            \
    {                                                                                  \
        0, NULL                                                                        \
    }

struct _cl_event *
tp_icd_push(struct _cl_mem *root, const struct tp_icd_haul *what,
            const struct tp_wire_u64s *wait)
{
    struct _cl_event *ev = event_on(root->ctx, what->session_index);
    uint64_t values[6];

    if (ev == NULL) {
        return NULL;
    }
    /* the PULL reports a failure, too */
    tp_icd_put(ev->session, TP_WIRE_PUSH,
               &(struct tp_wire_push){HAUL(root, what, ev, wait, values)});
    tp_icd_hold(&ev->obj);
    tp_icd_event_give(ev, NULL);
    return ev;
}

struct _cl_event *
tp_icd_pull(struct _cl_mem *root, const struct tp_icd_haul *what,
            const struct tp_wire_u64s *wait, tp_icd_move_end ended)
{
    struct haul *haul = tp_zalloc(sizeof(*haul), "move");
    struct _cl_event *ev =
        haul == NULL ? NULL : event_on(root->ctx, what->session_index);
    uint64_t values[6];

    if (ev == NULL) {
        tp_free(haul);
        return NULL;
    }
    *haul = (struct haul){root, what->session_index, ended};
    tp_icd_hold(&root->obj);
    tp_icd_put(ev->session, TP_WIRE_PULL,
               &(struct tp_wire_pull){HAUL(root, what, ev, wait, values),
                                      .flags = TP_WIRE_NOTIFY});
    ev->on_end = pull_ended;
    ev->on_end_user = haul;
    tp_icd_event_set_told(ev);
    if (tp_icd_session_unread(ev->session) >= UNREAD_MAX) {
        tp_icd_event_subscribe(ev);
    }
    tp_icd_hold(&ev->obj);
    tp_icd_event_give(ev, NULL);
    return ev;
}
