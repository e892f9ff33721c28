/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: devices of one or more sessions, properties and callbacks. */
#include "icd/objects/context.h"
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <string.h>

#include "base/alloc.h"

/** A callback of clSetContextDestructorCallback. */
struct destructor {
    struct tp_list link;
    void(CL_CALLBACK *notify)(cl_context, void *);
    void *user;
};

struct tp_list tp_icd_contexts = {&tp_icd_contexts, &tp_icd_contexts};

/* ---- sessions and devices of a context ------------------------------------------------- */

uint32_t
tp_icd_context_session(const struct _cl_context *ctx,
                       const struct tp_icd_session *session)
{
    uint32_t i = 0;

    while (i < ctx->session_count && ctx->sessions[i] != session) {
        i++;
    }
    return i;
}

/** @return true if the context was created with this device. */
static bool
has_device(const struct _cl_context *ctx, const struct _cl_device_id *dev)
{
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        if (ctx->devices[i] == dev) {
            return true;
        }
    }
    return false;
}

int
tp_icd_context_device_session(const struct _cl_context *ctx,
                              const struct _cl_device_id *dev)
{
    for (uint32_t i = 0; has_device(ctx, dev) && i < ctx->session_count; i++) {
        if (ctx->sessions[i]->face == dev->server &&
            ctx->sessions[i]->face_platform == dev->platform) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- end -------------------------------------------------------------------------------- */

static void
context_free(struct _cl_context *ctx)
{
    for (uint32_t i = 0; i < ctx->session_count; i++) {
        tp_icd_session_use(ctx->sessions[i], false);
    }
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        tp_icd_drop(&ctx->devices[i]->obj);
    }
    tp_map_fini(&ctx->sent_files);
    tp_free(ctx->devices);
    tp_free(ctx->properties);
    tp_free(ctx);
}

/** Runs the callbacks, last registered first; then frees the context. */
static void
run_destructors(void *arg)
{
    struct _cl_context *ctx = arg;
    struct tp_list *link;

    while ((link = tp_list_pop_front(&ctx->destructors)) != NULL) {
        struct destructor *d = tp_list_entry(link, struct destructor, link);

        d->notify(ctx, d->user);
        tp_free(d);
    }
    context_free(ctx);
}

static void
context_destroy(struct tp_icd_object *obj)
{
    struct _cl_context *ctx = (struct _cl_context *)obj;

    tp_icd_lock();
    tp_list_remove(&ctx->link);
    tp_icd_unlock();
    tp_icd_movers_free(ctx);
    tp_icd_lock();
    tp_icd_put_releases(ctx, UINT32_MAX, obj->id);
    tp_icd_unlock();
    if (tp_list_is_empty(&ctx->destructors) ||
        tp_icd_callback(run_destructors, ctx) != TELPHER_OK) {
        run_destructors(ctx);
    }
}

/* ---- properties ------------------------------------------------------------------------- */

/** @return CL_SUCCESS, and the length of the list with its final 0 (0: there is none). */
static cl_int
check_properties(const cl_context_properties *list, uint32_t *ret_count)
{
    bool seen_platform = false, seen_sync = false;
    uint32_t i = 0;

    *ret_count = 0;
    if (list == NULL) {
        return CL_SUCCESS;
    }
    for (; list[i] != 0; i += 2) {
        bool *seen = list[i] == CL_CONTEXT_PLATFORM ? &seen_platform : &seen_sync;

        if (list[i] != CL_CONTEXT_PLATFORM && list[i] != CL_CONTEXT_INTEROP_USER_SYNC) {
            return CL_INVALID_PROPERTY;
        }
        if (*seen) {
            return CL_INVALID_PROPERTY;
        }
        *seen = true;
        if (list[i] == CL_CONTEXT_PLATFORM &&
            tp_icd_check((const void *)list[i + 1], TP_ICD_PLATFORM) == NULL) {
            return CL_INVALID_PLATFORM;
        }
    }
    *ret_count = i + 1;
    return CL_SUCCESS;
}

/* ---- creation ---------------------------------------------------------------------------- */

static struct _cl_context *
context_alloc(uint32_t devices, const cl_context_properties *properties, uint32_t count)
{
    struct _cl_context *ctx = tp_zalloc(sizeof(*ctx), "context");

    if (ctx == NULL) {
        return NULL;
    }
    tp_list_init(&ctx->destructors);
    tp_list_init(&ctx->queues);
    tp_list_init(&ctx->link);
    ctx->devices = tp_alloc_array(devices, sizeof(ctx->devices[0]), "context");
    if (count != 0) {
        ctx->properties = tp_memdup(properties, count * sizeof(*properties), "context");
        ctx->property_count = count;
    }
    if (ctx->devices == NULL || (count != 0 && ctx->properties == NULL)) {
        context_free(ctx);
        return NULL;
    }
    tp_icd_object_init(&ctx->obj, TP_ICD_CONTEXT, tp_icd_new_id(TP_WIRE_KIND_CONTEXT),
                       context_destroy);
    return ctx;
}

/** Adds a device and its session, unless they are already there. */
static cl_int
add_device(struct _cl_context *ctx, struct _cl_device_id *dev)
{
    struct tp_icd_session *session;
    telpher_status status;
    uint32_t index;

    if (has_device(ctx, dev)) {
        return CL_SUCCESS;
    }
    status = tp_icd_session_of(dev, &session);
    if (status != TELPHER_OK) {
        return tp_icd_cl_error(status);
    }
    index = tp_icd_context_session(ctx, session);
    if (index == TP_ICD_SESSIONS_MAX) {
        return CL_OUT_OF_RESOURCES;
    }
    if (index == ctx->session_count) {
        ctx->sessions[ctx->session_count++] = session;
        tp_icd_session_use(session, true);
    }
    ctx->devices[ctx->device_count++] = dev;
    tp_icd_hold(&dev->obj);
    return CL_SUCCESS;
}

/** Creates the context in all its sessions. */
static cl_int
put_creates(struct _cl_context *ctx)
{
    uint64_t *ids = tp_alloc_array(ctx->device_count, sizeof(ids[0]), "context");

    if (ids == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_icd_lock();
    tp_list_push_back(&tp_icd_contexts, &ctx->link);
    for (uint32_t session = 0; session < ctx->session_count; session++) {
        struct tp_wire_context_create msg = {.context = ctx->obj.id,
                                             .devices.data = ids};

        ctx->sessions[session] = tp_icd_session_current(ctx->sessions[session]);
        for (uint32_t i = 0; i < ctx->device_count; i++) {
            if (tp_icd_context_device_session(ctx, ctx->devices[i]) == (int)session) {
                ids[msg.devices.count++] = ctx->devices[i]->index;
            }
        }
        tp_icd_put(ctx->sessions[session], TP_WIRE_CONTEXT_CREATE, &msg);
    }
    tp_icd_unlock();
    tp_free(ids);
    return CL_SUCCESS;
}

/**
 * Creates a context of devices that have been checked.
 * @param skip leave out devices that are not available, unless none is.
 */
static cl_int
create(const cl_context_properties *properties, uint32_t property_count,
       struct _cl_device_id *const *devices, uint32_t count, bool skip,
       struct _cl_context **ret_ctx)
{
    struct _cl_context *ctx = context_alloc(count, properties, property_count);
    cl_int err = CL_SUCCESS;

    if (ctx == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        cl_int one = add_device(ctx, devices[i]);

        err = err == CL_SUCCESS ? one : err;
    }
    if (skip && ctx->device_count != 0) {
        err = CL_SUCCESS;
    }
    if (err == CL_SUCCESS) {
        err = put_creates(ctx);
    }
    if (err != CL_SUCCESS) {
        context_free(ctx);
        return err;
    }
    *ret_ctx = ctx;
    return CL_SUCCESS;
}

cl_context
tp_clCreateContext(const cl_context_properties *properties, cl_uint num_devices,
                   const cl_device_id *devices,
                   void(CL_CALLBACK *notify)(const char *, const void *, size_t,
                                             void *),
                   void *user, cl_int *errcode_ret)
{
    struct _cl_context *ctx = NULL;
    uint32_t property_count;
    cl_int err = check_properties(properties, &property_count);

    if (err == CL_SUCCESS &&
        (devices == NULL || num_devices == 0 || (notify == NULL && user != NULL))) {
        err = CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; err == CL_SUCCESS && i < num_devices; i++) {
        if (tp_icd_check(devices[i], TP_ICD_DEVICE) == NULL) {
            err = CL_INVALID_DEVICE;
        }
    }
    if (err == CL_SUCCESS) {
        err = create(properties, property_count, devices, num_devices, false, &ctx);
    }
    if (err == CL_SUCCESS) {
        ctx->notify = notify;
        ctx->notify_user = user;
    }
    tp_icd_set_error(errcode_ret, err);
    return ctx;
}

/** Finds the devices of a type and makes a context of those that are available. */
static cl_int
create_from_type(const cl_context_properties *properties, uint32_t property_count,
                 cl_device_type type, struct _cl_context **ret_ctx)
{
    struct _cl_platform_id *platform = tp_icd_platform();
    struct _cl_device_id **found;
    cl_uint count;
    cl_int err;

    if (platform == NULL) {
        return CL_INVALID_PLATFORM;
    }
    found = tp_alloc_array(platform->device_count, sizeof(found[0]), "devices");
    if (found == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    err = tp_icd_platform_find(platform, type, found, &count);
    if (err == CL_SUCCESS) {
        err = create(properties, property_count, found, count, true, ret_ctx);
    }
    tp_free(found);
    return err;
}

cl_context
tp_clCreateContextFromType(const cl_context_properties *properties, cl_device_type type,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t,
                                                     void *),
                           void *user, cl_int *errcode_ret)
{
    struct _cl_context *ctx = NULL;
    uint32_t property_count;
    cl_int err = check_properties(properties, &property_count);

    if (err == CL_SUCCESS && notify == NULL && user != NULL) {
        err = CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS) {
        err = create_from_type(properties, property_count, type, &ctx);
    }
    if (err == CL_SUCCESS) {
        ctx->notify = notify;
        ctx->notify_user = user;
    }
    tp_icd_set_error(errcode_ret, err);
    return ctx;
}

cl_int
tp_clGetContextInfo(cl_context context, cl_context_info param, size_t value_size,
                    void *value, size_t *size_ret)
{
    const struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    switch (param) {
    case CL_CONTEXT_REFERENCE_COUNT:
        return TP_ICD_ANSWER(cl_uint, ctx->obj.refs);
    case CL_CONTEXT_NUM_DEVICES:
        return TP_ICD_ANSWER(cl_uint, ctx->device_count);
    case CL_CONTEXT_DEVICES:
        return tp_icd_answer(value_size, value, size_ret, ctx->devices,
                             ctx->device_count * sizeof(cl_device_id));
    case CL_CONTEXT_PROPERTIES:
        return tp_icd_answer(value_size, value, size_ret, ctx->properties,
                             ctx->property_count * sizeof(cl_context_properties));
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- callbacks ----------------------------------------------------------------------------- */

cl_int
tp_clSetContextDestructorCallback(cl_context context,
                                  void(CL_CALLBACK *notify)(cl_context, void *),
                                  void *user)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct destructor *d;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if (notify == NULL) {
        return CL_INVALID_VALUE;
    }
    d = tp_zalloc(sizeof(*d), "destructor");
    if (d == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    d->notify = notify;
    d->user = user;
    tp_icd_lock();
    tp_list_push_front(&ctx->destructors, &d->link);
    tp_icd_unlock();
    return CL_SUCCESS;
}

/** A message queued for the program's callback. */
struct notice {
    struct _cl_context *ctx; /* held */
    char *text;
};

static void
run_notice(void *arg)
{
    struct notice *notice = arg;

    notice->ctx->notify(notice->text, NULL, 0, notice->ctx->notify_user);
    tp_icd_drop(&notice->ctx->obj);
    tp_free(notice->text);
    tp_free(notice);
}

void
tp_icd_context_notify(struct _cl_context *ctx, const char *text)
{
    struct notice *notice;

    if (ctx->notify == NULL) {
        return;
    }
    notice = tp_zalloc(sizeof(*notice), "notice");
    if (notice == NULL) {
        return;
    }
    notice->ctx = ctx;
    notice->text = tp_strdup(text, "notice");
    tp_icd_hold(&ctx->obj);
    if (notice->text == NULL || tp_icd_callback(run_notice, notice) != TELPHER_OK) {
        tp_icd_drop_locked(&ctx->obj);
        tp_free(notice->text);
        tp_free(notice);
    }
}
