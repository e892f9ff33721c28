/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manages the id table and the life cycle of objects. The table belongs to the reader and
 * holds one reference to each object; commands in progress, builds and callbacks hold others.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build_cache.h"

/* The error code of an invalid id, and the destructors, by kind of object. */
static const struct kind {
    int32_t invalid;
    void (*on_release)(struct tp_exec_object *o);
    void (*free)(struct tp_exec_object *o);
} kinds[] = {
    [TP_WIRE_KIND_CONTEXT] = {CL_INVALID_CONTEXT, tp_exec_context_on_release,
                              tp_exec_context_free},
    [TP_WIRE_KIND_QUEUE] = {CL_INVALID_COMMAND_QUEUE, tp_exec_queue_on_release,
                            tp_exec_queue_free},
    [TP_WIRE_KIND_MEM] = {CL_INVALID_MEM_OBJECT, tp_exec_mem_on_release,
                          tp_exec_mem_free},
    [TP_WIRE_KIND_PROGRAM] = {CL_INVALID_PROGRAM, tp_exec_cache_on_release,
                              tp_exec_program_free},
    [TP_WIRE_KIND_KERNEL] = {CL_INVALID_KERNEL, NULL, tp_exec_kernel_free},
    [TP_WIRE_KIND_EVENT] = {CL_INVALID_EVENT, tp_exec_event_on_release,
                            tp_exec_event_free},
    [TP_WIRE_KIND_DEVICE] = {CL_INVALID_DEVICE, NULL, tp_exec_sub_device_free},
    [TP_WIRE_KIND_SAMPLER] = {CL_INVALID_SAMPLER, NULL, tp_exec_sampler_free},
    [TP_WIRE_KIND_COMMANDS] = {CL_INVALID_COMMAND_BUFFER_KHR, NULL,
                               tp_exec_commands_free},
    [TP_WIRE_KIND_EXPORT] = {CL_INVALID_MEM_OBJECT, tp_exec_export_on_release,
                             tp_exec_export_free},
};

/* The user's objects, if they are limited: the counter is shared with other processes. */
static const struct tp_budget_outer *
objects_of_user(const struct tp_exec *x)
{
    const struct tp_budget_outer *o = &x->share.outer[TP_SHARE_objects];

    return o->max != 0 ? o : NULL;
}

static void
count_for_user(struct tp_exec *x)
{
    const struct tp_budget_outer *o = objects_of_user(x);

    if (o == NULL || tp_budget_outer_take(o, 1)) {
        return;
    }
    if (!tp_exec_cache_give_way(x) || !tp_budget_outer_take(o, 1)) {
        tp_exec_die(x, TELPHER_ERR_LIMIT,
                    "more objects and commands under way than one user may have "
                    "(--max-user-objects)");
    }
}

void
tp_exec_count(struct tp_exec *x)
{
    count_for_user(x);
    if (atomic_fetch_add(&x->object_count, 1) >= x->limits.objects &&
        (!tp_exec_cache_give_way(x) ||
         atomic_load(&x->object_count) > x->limits.objects)) {
        tp_exec_die(x, TELPHER_ERR_LIMIT,
                    "more objects and commands under way than one session may have "
                    "(--max-objects)");
    }
}

/* Counts an object with those of its kind, and refuses it if there are too many. */
static void
count_kind(struct tp_exec_object *o)
{
    const struct tp_daemon_limits *l = &o->x->limits;
    const struct {
        uint64_t max;
        const char *option;
    } rows[TP_EXEC_KINDS] = {
        [TP_WIRE_KIND_CONTEXT] = {l->contexts, "--max-contexts"},
        [TP_WIRE_KIND_QUEUE] = {l->queues, "--max-queues"},
        [TP_WIRE_KIND_MEM] = {l->mems, "--max-buffers"},
        [TP_WIRE_KIND_PROGRAM] = {l->programs, "--max-programs"},
        [TP_WIRE_KIND_KERNEL] = {l->kernels, "--max-kernels"},
    };

    if ((unsigned)o->kind < TP_EXEC_KINDS &&
        atomic_fetch_add(&o->x->kind_count[o->kind], 1) >= rows[o->kind].max &&
        (!tp_exec_cache_give_way(o->x) ||
         atomic_load(&o->x->kind_count[o->kind]) > rows[o->kind].max)) {
        (void)tp_exec_refuse(o, CL_OUT_OF_RESOURCES, rows[o->kind].option);
    }
}

void
tp_exec_count_late(struct tp_exec *x)
{
    const struct tp_budget_outer *o = objects_of_user(x);

    if (o != NULL) {
        atomic_fetch_add(o->all, 1);
        atomic_fetch_add(o->own, 1);
    }
    atomic_fetch_add(&x->object_count, 1);
}

void
tp_exec_uncount(struct tp_exec *x, uint64_t count)
{
    if (objects_of_user(x) != NULL) {
        tp_budget_outer_give(objects_of_user(x), count);
    }
    atomic_fetch_sub(&x->object_count, count);
}

telpher_status
tp_exec_create(struct tp_exec *x, uint64_t id, enum tp_wire_kind kind, size_t size,
               void *ret_object)
{
    struct tp_exec_object *o;
    telpher_status status;

    if (tp_wire_id_kind(id) != kind) {
        return TELPHER_ERR_PROTO;
    }
    o = tp_zalloc(size, "object");
    if (o == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    o->x = x;
    o->id = id;
    o->kind = kind;
    tp_refcount_init(&o->refs);
    status = tp_map_put(&x->objects, id, o);
    if (status != TELPHER_OK) {
        tp_free(o);
        return status == TELPHER_ERR_EXISTS ? TELPHER_ERR_PROTO : status;
    }
    tp_exec_count(x);
    count_kind(o);
    *(struct tp_exec_object **)ret_object = o;
    return TELPHER_OK;
}

int32_t
tp_exec_find(struct tp_exec *x, uint64_t id, enum tp_wire_kind kind, void *ret_object)
{
    struct tp_exec_object *o =
        tp_wire_id_kind(id) == kind ? tp_map_get(&x->objects, id) : NULL;

    if (o == NULL) {
        return kinds[kind].invalid;
    }
    if (o->error != 0) {
        return o->error;
    }
    *(struct tp_exec_object **)ret_object = o;
    return 0;
}

int32_t
tp_exec_hold_context(struct tp_exec *x, uint64_t id,
                     struct tp_exec_context **ret_context)
{
    int32_t error = tp_exec_find(x, id, TP_WIRE_KIND_CONTEXT, ret_context);

    if (error == 0) {
        tp_exec_ref(&(*ret_context)->obj);
    }
    return error;
}

int32_t
tp_exec_find_buffer(struct tp_exec *x, uint64_t id, struct tp_exec_mem **ret_mem)
{
    int32_t error = tp_exec_find(x, id, TP_WIRE_KIND_MEM, ret_mem);

    return error == 0 && ((*ret_mem)->element != 0 || (*ret_mem)->is_pipe)
               ? CL_INVALID_MEM_OBJECT
               : error;
}

void
tp_exec_poison(struct tp_exec_object *o, int32_t error, const char *call)
{
    if (error != 0 && o->error == 0) {
        o->error = error;
        tp_exec_failed(o->x, o->id, error, call);
    }
}

int32_t
tp_exec_refuse(struct tp_exec_object *o, int32_t error, const char *option)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "more than telpherd %s allows", option);
    tp_exec_poison(o, error, text);
    return error;
}

void
tp_exec_ref(struct tp_exec_object *o)
{
    tp_refcount_get(&o->refs);
}

void
tp_exec_unref(struct tp_exec_object *o)
{
    if (o != NULL && tp_refcount_put(&o->refs)) {
        tp_exec_uncount(o->x, 1);
        if ((unsigned)o->kind < TP_EXEC_KINDS && o->id != 0) {
            atomic_fetch_sub(&o->x->kind_count[o->kind], 1);
        }
        kinds[o->kind].free(o);
    }
}

void
tp_exec_release(struct tp_exec *x, uint64_t id)
{
    struct tp_exec_object *o = tp_map_remove(&x->objects, id);

    if (o == NULL) {
        return;
    }
    o->released = true;
    if (kinds[o->kind].on_release != NULL) {
        kinds[o->kind].on_release(o);
    }
    tp_exec_unref(o);
}

telpher_status
tp_exec_on_release(struct tp_exec *x, const struct tp_wire_release *m)
{
    for (size_t i = 0; i < m->ids.count; i++) {
        tp_exec_release(x, tp_wire_u64_at(&m->ids, i));
    }
    return TELPHER_OK;
}

void
tp_exec_release_all(struct tp_exec *x)
{
    static const enum tp_wire_kind order[] = {
        TP_WIRE_KIND_EXPORT,  TP_WIRE_KIND_COMMANDS, TP_WIRE_KIND_EVENT,
        TP_WIRE_KIND_KERNEL,  TP_WIRE_KIND_PROGRAM,  TP_WIRE_KIND_MEM,
        TP_WIRE_KIND_SAMPLER, TP_WIRE_KIND_QUEUE,    TP_WIRE_KIND_CONTEXT,
        TP_WIRE_KIND_DEVICE};

    for (size_t i = 0; i < TP_ARRAY_LEN(order); i++) {
        size_t cursor = 0;
        uint64_t id;

        while (tp_map_next(&x->objects, &cursor, &id, NULL)) {
            if (tp_wire_id_kind(id) == order[i]) {
                tp_exec_release(x, id);
            }
        }
    }
}
