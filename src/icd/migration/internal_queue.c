/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internal queue that a context has in each session, for transfers without a command of
 * the program: first content of buffers, moves between sessions. The context owns the queue,
 * which does not hold the context; its events do.
 *
 * While a user event is not set, a transfer may wait for the program. Where it would delay the
 * next one, which the program may wait for before it sets the event, each has a queue of its own.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/migration/migration.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"

static void
destroy_mover(struct tp_icd_object *obj)
{
    tp_free(obj);
}

enum { VENDOR_NVIDIA = 0x10de };

static struct _cl_device_id *
first_device(const struct _cl_context *ctx, uint32_t session_index)
{
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        if (tp_icd_context_device_session(ctx, ctx->devices[i]) == (int)session_index) {
            return ctx->devices[i];
        }
    }
    return NULL;
}

/**
 * Out of order if the device supports it: every command has a full wait list, and a command
 * that waits for the program must not delay the next.
 */
static cl_command_queue_properties
mover_properties(const struct _cl_device_id *dev)
{
    struct tp_wire_fact fact;
    cl_command_queue_properties able = 0;

    if (tp_icd_device_fact(dev, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, &fact) &&
        fact.len == sizeof(able)) {
        memcpy(&able, fact.data, sizeof(able));
    }
    return able & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
}

/**
 * True if a command that waits for the program delays the next one of an internal queue, and
 * fails it with itself: in order, and with NVIDIA's driver out of order, too.
 */
static bool
delays(const struct _cl_device_id *dev)
{
    return mover_properties(dev) == 0 ||
           tp_icd_device_number(dev, CL_DEVICE_VENDOR_ID, 0) == VENDOR_NVIDIA;
}

/** Gives up the internal queue of a session; its commands go on. */
static void
retire_mover(struct _cl_context *ctx, uint32_t session_index)
{
    struct _cl_command_queue *q = ctx->mover[session_index];

    if (q != NULL) {
        ctx->mover[session_index] = NULL;
        tp_icd_put_release(q->session, q->obj.id);
        tp_icd_drop_locked(&q->obj);
    }
}

static struct _cl_command_queue *
create_mover(struct _cl_context *ctx, uint32_t session_index, struct _cl_device_id *dev)
{
    struct _cl_command_queue *q = tp_zalloc(sizeof(*q), "mover");

    if (q == NULL) {
        return NULL;
    }
    tp_icd_object_init(&q->obj, TP_ICD_QUEUE, tp_icd_new_id(TP_WIRE_KIND_QUEUE),
                       destroy_mover);
    q->ctx = ctx;
    q->dev = dev;
    q->session = ctx->sessions[session_index];
    q->session_index = session_index;
    q->properties = mover_properties(dev);
    tp_list_init(&q->open);
    tp_icd_put(q->session, TP_WIRE_QUEUE_CREATE,
               &(struct tp_wire_queue_create){.queue = q->obj.id,
                                              .context = ctx->obj.id,
                                              .device = dev->index,
                                              .properties = q->properties});
    return q;
}

struct _cl_command_queue *
tp_icd_mover(struct _cl_context *ctx, uint32_t session_index)
{
    const uint32_t bit = 1U << session_index;
    struct _cl_device_id *dev = first_device(ctx, session_index);
    bool alone = ctx->user_events > 0 && dev != NULL && delays(dev);

    if (alone || (ctx->lone_movers & bit) != 0) {
        retire_mover(ctx, session_index);
    }
    if (ctx->mover[session_index] == NULL && dev != NULL) {
        ctx->mover[session_index] = create_mover(ctx, session_index, dev);
    }
    ctx->lone_movers = (ctx->lone_movers & ~bit) | (alone ? bit : 0);
    return ctx->mover[session_index];
}

void
tp_icd_movers_free(struct _cl_context *ctx)
{
    for (uint32_t i = 0; i < ctx->session_count; i++) {
        struct _cl_command_queue *q = ctx->mover[i];

        if (q != NULL) {
            tp_icd_lock();
            tp_icd_put_release(q->session, q->obj.id);
            tp_icd_unlock();
            tp_icd_drop(&q->obj);
        }
    }
}
