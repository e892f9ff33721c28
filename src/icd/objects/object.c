/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common code of all handles: the check of a handle, the two reference counts, the lock of
 * the library, and the answer to a query.
 */
#include "icd/objects/object.h"
#include "base/container/map.h"
#include "icd/api.h"
#include "icd/commands/command_buffer.h"
#include "icd/icd.h"
#include "icd/icd_int.h"

#include <string.h>

#include "base/compiler.h"
#include "icd/objects/context.h"
#include "icd/session/session.h"

/** Objects whose last hold was dropped under the lock; linked by dispatch_data. */
static struct tp_icd_object *dead;

/**
 * Addresses of all live cl_mem and cl_sampler. A kernel argument is just bytes: this table
 * tells whether they are a handle, without access to the memory they may point to.
 */
static struct tp_map args;
static pthread_mutex_t args_lock = PTHREAD_MUTEX_INITIALIZER; /* leaf */

static bool
may_be_argument(const struct tp_icd_object *obj)
{
    return obj->kind == TP_ICD_MEM || obj->kind == TP_ICD_SAMPLER;
}

static void
note_argument(struct tp_icd_object *obj, bool alive)
{
    pthread_mutex_lock(&args_lock);
    if (alive) {
        (void)tp_map_put(&args, (uintptr_t)obj, obj); /* no room was logged */
    } else {
        tp_map_remove(&args, (uintptr_t)obj);
    }
    pthread_mutex_unlock(&args_lock);
}

static bool
is_argument(const void *handle, enum tp_icd_kind kind)
{
    const struct tp_icd_object *obj = NULL;
    bool found;

    pthread_mutex_lock(&args_lock);
    if (handle != NULL) {
        obj = tp_map_get(&args, (uintptr_t)handle);
    }
    found = obj != NULL && obj->kind == (uint32_t)kind;
    pthread_mutex_unlock(&args_lock);
    return found;
}

bool
tp_icd_is_mem(const void *handle)
{
    return is_argument(handle, TP_ICD_MEM);
}

bool
tp_icd_is_sampler(const void *handle)
{
    return is_argument(handle, TP_ICD_SAMPLER);
}

void
tp_icd_object_init(struct tp_icd_object *obj, enum tp_icd_kind kind, uint64_t id,
                   void (*destroy)(struct tp_icd_object *obj))
{
    obj->dispatch = tp_icd.dispatch;
    obj->dispatch_data = NULL;
    obj->kind = kind;
    obj->id = id;
    obj->destroy = destroy;
    atomic_init(&obj->refs, 1);
    atomic_init(&obj->holds, 1);
    if (may_be_argument(obj)) {
        note_argument(obj, true);
    }
}

void *
tp_icd_check(const void *handle, enum tp_icd_kind kind)
{
    const struct tp_icd_object *obj = handle;

    if (obj == NULL || ((uintptr_t)obj & (_Alignof(struct tp_icd_object) - 1)) != 0) {
        return NULL;
    }
    if (obj->kind != (uint32_t)kind || tp_icd_forked()) {
        return NULL;
    }
    return (void *)(uintptr_t)handle;
}

void
tp_icd_hold(struct tp_icd_object *obj)
{
    atomic_fetch_add_explicit(&obj->holds, 1, memory_order_relaxed);
}

/** @return true if this was the last hold. */
static bool
unhold(struct tp_icd_object *obj)
{
    uint32_t old = atomic_fetch_sub_explicit(&obj->holds, 1, memory_order_acq_rel);

    tp_assert(old != 0);
    return old == 1;
}

static void
destroy(struct tp_icd_object *obj)
{
    if (may_be_argument(obj)) {
        note_argument(obj, false);
    }
    obj->kind = TP_ICD_DEAD;
    obj->destroy(obj);
}

void
tp_icd_drop(struct tp_icd_object *obj)
{
    if (obj != NULL && unhold(obj)) {
        destroy(obj);
    }
}

void
tp_icd_drop_locked(struct tp_icd_object *obj)
{
    if (obj != NULL && unhold(obj)) {
        obj->dispatch_data = dead;
        dead = obj;
    }
}

void
tp_icd_retain(struct tp_icd_object *obj)
{
    /* refs counts from 0 again if the program released the handle and got it again from a
     * query, while another object held this one. */
    if (atomic_fetch_add_explicit(&obj->refs, 1, memory_order_relaxed) == 0) {
        tp_icd_hold(obj);
    }
}

void
tp_icd_release(struct tp_icd_object *obj)
{
    uint32_t old = atomic_load_explicit(&obj->refs, memory_order_relaxed);

    do {
        if (old == 0) {
            return; /* released more often than retained */
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &obj->refs, &old, old - 1, memory_order_acq_rel, memory_order_relaxed));
    if (old == 1) {
        tp_icd_drop(obj);
    }
}

void
tp_icd_put_releases(const struct _cl_context *ctx, uint32_t mask, uint64_t id)
{
    for (uint32_t i = 0; i < ctx->session_count; i++) {
        if ((mask >> i & 1) != 0) {
            tp_icd_put_release(ctx->sessions[i], id);
        }
    }
}

/** Entry points that retain and release any object of a kind. */
#define COUNT(name, how, type, kind, error)                                            \
    cl_int CL_API_CALL tp_cl##name(type handle)                                        \
    {                                                                                  \
        struct tp_icd_object *obj = tp_icd_check(handle, kind);                        \
                                                                                       \
        if (obj == NULL) {                                                             \
            return error;                                                              \
        }                                                                              \
        how(obj);                                                                      \
        return CL_SUCCESS;                                                             \
    }
#define COUNT_BOTH(name, type, kind, error)                                            \
    COUNT(Retain##name, tp_icd_retain, type, kind, error)                              \
    COUNT(Release##name, tp_icd_release, type, kind, error)

COUNT_BOTH(Context, cl_context, TP_ICD_CONTEXT, CL_INVALID_CONTEXT)
COUNT(RetainCommandQueue, tp_icd_retain, cl_command_queue, TP_ICD_QUEUE,
      CL_INVALID_COMMAND_QUEUE)
COUNT_BOTH(MemObject, cl_mem, TP_ICD_MEM, CL_INVALID_MEM_OBJECT)
COUNT_BOTH(Sampler, cl_sampler, TP_ICD_SAMPLER, CL_INVALID_SAMPLER)
COUNT_BOTH(Program, cl_program, TP_ICD_PROGRAM, CL_INVALID_PROGRAM)
COUNT_BOTH(Kernel, cl_kernel, TP_ICD_KERNEL, CL_INVALID_KERNEL)
COUNT_BOTH(Event, cl_event, TP_ICD_EVENT, CL_INVALID_EVENT)
COUNT_BOTH(CommandBufferKHR, cl_command_buffer_khr, TP_ICD_COMMANDS,
           CL_INVALID_COMMAND_BUFFER_KHR)

void
tp_icd_set_error(cl_int *errcode_ret, cl_int err)
{
    if (errcode_ret != NULL) {
        *errcode_ret = err;
    }
}

void
tp_icd_lock(void)
{
    pthread_mutex_lock(&tp_icd.lock);
}

void
tp_icd_unlock(void)
{
    struct tp_icd_object *list = dead;

    dead = NULL;
    pthread_mutex_unlock(&tp_icd.lock);
    while (list != NULL) {
        struct tp_icd_object *obj = list;

        list = obj->dispatch_data;
        destroy(obj);
    }
}

cl_int
tp_icd_answer(size_t value_size, void *value, size_t *size_ret, const void *src,
              size_t len)
{
    if (value != NULL) {
        if (value_size < len) {
            return CL_INVALID_VALUE;
        }
        if (len != 0) {
            memcpy(value, src, len);
        }
    }
    if (size_ret != NULL) {
        *size_ret = len;
    }
    return CL_SUCCESS;
}

cl_int
tp_icd_answer_text(size_t value_size, void *value, size_t *size_ret, const char *text)
{
    return tp_icd_answer(value_size, value, size_ret, text, strlen(text) + 1);
}
