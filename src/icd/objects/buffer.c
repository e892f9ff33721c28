/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers and sub-buffers: creation, queries, release; and the code shared with images. Only
 * the client handles host flags and host pointers. A session gets a plain object at its
 * first use there.
 */
#include "icd/commands/geometry.h"
#include "icd/commands/map.h"
#include "icd/events/callback.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/migration/host_view.h"
#include "icd/migration/migration.h"
#include "icd/objects/context.h"
#include "icd/objects/image.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/objects/svm.h"
#include "icd/program/program.h"
#include "icd/session/session.h"
#include "icd/session/shared_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

static const cl_mem_flags device_flags =
    CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
static const cl_mem_flags pointer_flags =
    CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
static const cl_mem_flags host_flags =
    CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;

/** A registered destructor callback. */
struct destructor {
    struct tp_list link;
    void(CL_CALLBACK *fn)(cl_mem, void *);
    void *user;
};

/* ---- the end ------------------------------------------------------------------------ */

static void
free_mem(struct _cl_mem *mem)
{
    tp_icd_view_destroy(mem);
    tp_icd_directory_destroy(mem->directory, mem->ctx->session_count);
    if (mem->upload != NULL) {
        tp_icd_drop(&mem->upload->obj);
    }
    if (mem->shares_shadow) {
        tp_icd_lock();
        (void)tp_icd_share_free(mem->ctx->sessions[0], mem->shadow);
        tp_icd_unlock();
    } else if (mem->shadow != NULL && mem->shadow != mem->host_ptr) {
        munmap(mem->shadow, tp_icd_mem_host_bytes(mem));
    }
    if (mem->size_buffer != NULL) {
        tp_icd_drop(&mem->size_buffer->obj);
    }
    if (mem->parent != NULL) {
        tp_icd_drop(&mem->parent->obj);
    }
    tp_icd_drop(&mem->ctx->obj);
    tp_free(mem->properties);
    tp_free(mem->image);
    tp_free(mem);
}

/** Runs the callbacks on the callback thread, last registered first. */
static void
run_destructors(void *arg)
{
    struct _cl_mem *mem = arg;
    struct tp_list *link;

    while ((link = tp_list_pop_front(&mem->destructors)) != NULL) {
        struct destructor *d = tp_list_entry(link, struct destructor, link);

        d->fn(mem, d->user);
        tp_free(d);
    }
    free_mem(mem);
}

/** Frees maps that the program never unmapped. Under the lock. */
static void
free_maps(struct _cl_mem *mem)
{
    tp_list_for_each_entry_safe(struct tp_icd_map, map, &tp_icd_mem_root(mem)->maps,
                                link) {
        if (map->mem == mem) {
            tp_list_remove(&map->link);
            tp_free(map);
        }
    }
}

/** Clears the kernel arguments that were set to it. Under the lock. */
static void
forget_args(struct _cl_mem *mem)
{
    struct tp_list *first;

    while ((first = tp_list_pop_front(&mem->args)) != NULL) {
        struct tp_icd_arg *arg = tp_list_entry(first, struct tp_icd_arg, mem_link);

        arg->mem = NULL;
        arg->set = false;
    }
}

static void
destroy_mem(struct tp_icd_object *obj)
{
    struct _cl_mem *mem = (struct _cl_mem *)obj;

    tp_icd_lock();
    tp_icd_mem_close(mem);
    tp_icd_put_releases(mem->ctx, mem->created, obj->id);
    free_maps(mem);
    forget_args(mem);
    tp_icd_unlock();
    if (tp_list_is_empty(&mem->destructors) ||
        tp_icd_callback(run_destructors, mem) != TELPHER_OK) {
        run_destructors(mem);
    }
}

/* ---- checks --------------------------------------------------------------------------- */

static bool
at_most_one(cl_mem_flags flags, cl_mem_flags of)
{
    cl_mem_flags given = flags & of;

    return (given & (given - 1)) == 0;
}

bool
tp_icd_mem_flags_are_valid(cl_mem_flags flags)
{
    if ((flags & ~(device_flags | pointer_flags | host_flags)) != 0 ||
        !at_most_one(flags, device_flags) || !at_most_one(flags, host_flags)) {
        return false;
    }
    return (flags & CL_MEM_USE_HOST_PTR) == 0 ||
           (flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)) == 0;
}

bool
tp_icd_context_may_allocate(const struct _cl_context *ctx, size_t size)
{
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        if (size <= ctx->devices[i]->max_alloc_bytes) {
            return true;
        }
    }
    return false;
}

static cl_int
check_buffer(const struct _cl_context *ctx, const cl_mem_properties *properties,
             cl_mem_flags flags, size_t size, const void *host_ptr)
{
    bool wants_ptr = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if (properties != NULL && properties[0] != 0) {
        return CL_INVALID_PROPERTY;
    }
    if (!tp_icd_mem_flags_are_valid(flags)) {
        return CL_INVALID_VALUE;
    }
    if (size == 0 || !tp_icd_context_may_allocate(ctx, size)) {
        return CL_INVALID_BUFFER_SIZE;
    }
    return (host_ptr != NULL) == wants_ptr ? CL_SUCCESS : CL_INVALID_HOST_PTR;
}

static bool
is_aligned_for(const struct _cl_device_id *dev, size_t origin)
{
    return dev->address_align_bytes <= 1 || origin % dev->address_align_bytes == 0;
}

cl_int
tp_icd_mem_check(const struct _cl_command_queue *q, cl_mem handle)
{
    const struct _cl_mem *mem = tp_icd_check(handle, TP_ICD_MEM);

    if (mem == NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (mem->ctx != q->ctx) {
        return CL_INVALID_CONTEXT;
    }
    return mem->parent == NULL || tp_icd_mem_root(handle)->svm != NULL ||
                   is_aligned_for(q->dev, mem->origin)
               ? CL_SUCCESS
               : CL_MISALIGNED_SUB_BUFFER_OFFSET;
}

cl_int
tp_icd_buffer_check(const struct _cl_command_queue *q, cl_mem handle)
{
    cl_int err = tp_icd_mem_check(q, handle);

    if (err == CL_SUCCESS || err == CL_MISALIGNED_SUB_BUFFER_OFFSET) {
        err = tp_icd_mem_is_buffer(handle) ? err : CL_INVALID_MEM_OBJECT;
    }
    return err;
}

bool
tp_icd_mem_host_may(const struct _cl_mem *mem, cl_map_flags what)
{
    cl_mem_flags refused = CL_MEM_HOST_NO_ACCESS;

    if ((what & CL_MAP_READ) != 0) {
        refused |= CL_MEM_HOST_WRITE_ONLY;
    }
    if ((what & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0) {
        refused |= CL_MEM_HOST_READ_ONLY;
    }
    return (mem->flags & refused) == 0;
}

/* ---- making them ------------------------------------------------------------------------ */

struct _cl_mem *
tp_icd_mem_create(struct _cl_context *ctx, cl_mem_flags flags, size_t size)
{
    struct _cl_mem *mem = tp_zalloc(sizeof(*mem), "memory object");

    if (mem == NULL) {
        return NULL;
    }
    tp_icd_object_init(&mem->obj, TP_ICD_MEM, tp_icd_new_id(TP_WIRE_KIND_MEM),
                       destroy_mem);
    mem->ctx = ctx;
    mem->flags = flags;
    mem->size = size;
    tp_list_init(&mem->maps);
    tp_list_init(&mem->args);
    tp_list_init(&mem->destructors);
    tp_icd_hold(&ctx->obj);
    return mem;
}

cl_mem_flags
tp_icd_mem_wire_flags(const struct _cl_mem *mem)
{
    cl_mem_flags flags = mem->flags & device_flags;

    return flags != 0 ? flags : CL_MEM_READ_WRITE;
}

void
tp_icd_mem_ensure(struct _cl_mem *mem, struct _cl_context *ctx, uint32_t session_index)
{
    struct tp_icd_session *session = ctx->sessions[session_index];

    if ((mem->created & (1U << session_index)) != 0) {
        return;
    }
    mem->created |= 1U << session_index;
    if (mem->parent != NULL) {
        tp_icd_mem_ensure(mem->parent, ctx, session_index);
    }
    if (mem->image != NULL) {
        tp_icd_image_put_create(mem, ctx, session_index);
        return;
    }
    if (tp_icd_mem_is_pipe(mem)) {
        tp_icd_pipe_put_create(mem, ctx, session_index);
        return;
    }
    if (mem->parent == NULL) {
        tp_icd_put(session, TP_WIRE_BUFFER_CREATE,
                   &(struct tp_wire_buffer_create){.mem = mem->obj.id,
                                                   .context = ctx->obj.id,
                                                   .flags = tp_icd_mem_wire_flags(mem),
                                                   .size = mem->size});
        return;
    }
    tp_icd_put(
        session, TP_WIRE_SUB_BUFFER_CREATE,
        &(struct tp_wire_sub_buffer_create){.mem = mem->obj.id,
                                            .parent = tp_icd_mem_root(mem)->obj.id,
                                            .flags = tp_icd_mem_wire_flags(mem),
                                            .origin = mem->origin,
                                            .size = mem->size});
}

/** Copies the content given with an object now; it may be sent later. */
static cl_int
take_content(struct _cl_mem *mem, const void *host_ptr, const struct tp_icd_box *box)
{
    struct tp_icd_stage *stage = tp_icd_stage_create(0, mem->size);
    cl_int err;

    if (stage == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_icd_stage_fill(stage, host_ptr, box);
    tp_icd_lock();
    err = tp_icd_mem_first(mem, stage);
    tp_icd_unlock();
    return err;
}

/** Flushes if required, or if enough frames are queued. */
static void
flush_new(const struct _cl_mem *mem, bool has_content)
{
    if (tp_icd_context_spans(mem->ctx)) {
        return;
    }
    if (has_content && mem->size > TP_WIRE_INLINE_MAX) {
        tp_icd_flush(mem->ctx->sessions[0]);
    } else {
        tp_icd_flush_if_full(mem->ctx->sessions[0]);
    }
}

cl_int
tp_icd_mem_set_properties(struct _cl_mem *mem, const cl_mem_properties *list)
{
    if (list == NULL) {
        return CL_SUCCESS;
    }
    mem->properties = tp_memdup(list, sizeof(*list), "properties");
    if (mem->properties == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    mem->property_count = 1; /* the 0 at the end: no property is known */
    return CL_SUCCESS;
}

cl_int
tp_icd_mem_fill(struct _cl_mem *mem, const cl_mem_properties *properties,
                void *host_ptr, const struct tp_icd_box *box)
{
    cl_int err = tp_icd_mem_set_properties(mem, properties);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (tp_icd_context_spans(mem->ctx)) {
        mem->directory = tp_icd_directory_create(mem->ctx, mem->size);
        if (mem->directory == NULL) {
            return CL_OUT_OF_HOST_MEMORY;
        }
    } else {
        tp_icd_lock();
        tp_icd_mem_ensure(mem, mem->ctx, 0);
        tp_icd_unlock();
    }
    if ((mem->flags & CL_MEM_USE_HOST_PTR) != 0) {
        mem->host_ptr = host_ptr;
    }
    if (host_ptr != NULL) {
        err = take_content(mem, host_ptr, box);
    }
    flush_new(mem, host_ptr != NULL);
    return err;
}

/** Completes a new buffer over shared virtual memory as a part of it. */
static cl_int
adopt_svm(struct _cl_mem *mem, struct _cl_mem *svm, size_t offset,
          const cl_mem_properties *properties)
{
    mem->host_ptr = svm->svm + offset;
    if (tp_icd_usm_is_remote(svm)) {
        return CL_INVALID_HOST_PTR;
    }
    if (mem->size > svm->size - offset) {
        return CL_INVALID_BUFFER_SIZE;
    }
    tp_icd_mem_adopt(mem, svm, offset);
    return tp_icd_mem_set_properties(mem, properties);
}

static cl_int
create_buffer(cl_context context, const cl_mem_properties *properties,
              cl_mem_flags flags, size_t size, void *host_ptr, cl_mem *ret_mem)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    cl_int err = check_buffer(ctx, properties, flags, size, host_ptr);
    struct _cl_mem *mem, *svm = NULL;
    size_t offset;

    if (err != CL_SUCCESS) {
        return err;
    }
    mem = tp_icd_mem_create(ctx, flags != 0 ? flags : CL_MEM_READ_WRITE, size);
    if (mem == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    if ((flags & CL_MEM_USE_HOST_PTR) != 0) {
        svm = tp_icd_svm_find(ctx, host_ptr, 1, &offset);
    }
    err = svm != NULL ? adopt_svm(mem, svm, offset, properties)
                      : tp_icd_mem_fill(mem, properties, host_ptr, NULL);
    if (err != CL_SUCCESS) {
        tp_icd_release(&mem->obj);
        return err;
    }
    *ret_mem = mem;
    return CL_SUCCESS;
}

cl_mem CL_API_CALL
tp_clCreateBufferWithProperties(cl_context context, const cl_mem_properties *properties,
                                cl_mem_flags flags, size_t size, void *host_ptr,
                                cl_int *errcode_ret)
{
    cl_mem mem = NULL;
    cl_int err = create_buffer(context, properties, flags, size, host_ptr, &mem);

    tp_icd_set_error(errcode_ret, err);
    return mem;
}

cl_mem CL_API_CALL
tp_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                  cl_int *errcode_ret)
{
    return tp_clCreateBufferWithProperties(context, NULL, flags, size, host_ptr,
                                           errcode_ret);
}

/* ---- sub-buffers -------------------------------------------------------------------------- */

/** @return false if a sub-buffer would be allowed more than its parent. */
static bool
flags_fit_parent(cl_mem_flags flags, cl_mem_flags parent)
{
    if ((parent & CL_MEM_WRITE_ONLY) != 0 &&
        (flags & (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY)) != 0) {
        return false;
    }
    if ((parent & CL_MEM_READ_ONLY) != 0 &&
        (flags & (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY)) != 0) {
        return false;
    }
    if ((parent & CL_MEM_HOST_WRITE_ONLY) != 0 &&
        (flags & CL_MEM_HOST_READ_ONLY) != 0) {
        return false;
    }
    if ((parent & CL_MEM_HOST_READ_ONLY) != 0 &&
        (flags & CL_MEM_HOST_WRITE_ONLY) != 0) {
        return false;
    }
    return (parent & CL_MEM_HOST_NO_ACCESS) == 0 ||
           (flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY)) == 0;
}

bool
tp_icd_mem_inherit(cl_mem_flags flags, cl_mem_flags parent, cl_mem_flags *ret_flags)
{
    if (!tp_icd_mem_flags_are_valid(flags) || (flags & pointer_flags) != 0 ||
        !flags_fit_parent(flags, parent)) {
        return false;
    }
    if ((flags & device_flags) == 0) {
        flags |= parent & device_flags;
    }
    if ((flags & host_flags) == 0) {
        flags |= parent & host_flags;
    }
    *ret_flags = flags | (parent & pointer_flags);
    return true;
}

void
tp_icd_mem_adopt(struct _cl_mem *mem, struct _cl_mem *parent, size_t offset)
{
    mem->parent = parent;
    mem->origin = parent->origin + offset;
    if (parent->host_ptr != NULL) {
        mem->host_ptr = (uint8_t *)parent->host_ptr + offset;
    }
    tp_icd_hold(&parent->obj);
    if (!tp_icd_context_spans(mem->ctx)) {
        tp_icd_lock();
        tp_icd_mem_ensure(mem, mem->ctx, 0);
        tp_icd_unlock();
    }
}

static bool
is_aligned_for_some(const struct _cl_context *ctx, size_t origin)
{
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        if (is_aligned_for(ctx->devices[i], origin)) {
            return true;
        }
    }
    return false;
}

/** True for a sub-buffer, and false for a buffer over shared virtual memory. */
static bool
is_sub_buffer(const struct _cl_mem *mem)
{
    return mem->parent != NULL && mem->parent->svm == NULL;
}

static cl_int
check_sub_buffer(const struct _cl_mem *parent, cl_mem_flags *flags,
                 cl_buffer_create_type type, const cl_buffer_region *region)
{
    if (parent == NULL || is_sub_buffer(parent) || !tp_icd_mem_is_buffer(parent)) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (!tp_icd_mem_inherit(*flags, parent->flags, flags) ||
        type != CL_BUFFER_CREATE_TYPE_REGION || region == NULL) {
        return CL_INVALID_VALUE;
    }
    if (region->size == 0) {
        return CL_INVALID_BUFFER_SIZE;
    }
    if (!tp_icd_range_fits(region->origin, region->size, parent->size)) {
        return CL_INVALID_VALUE;
    }
    return is_aligned_for_some(parent->ctx, region->origin)
               ? CL_SUCCESS
               : CL_MISALIGNED_SUB_BUFFER_OFFSET;
}

static cl_int
create_sub_buffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                  const cl_buffer_region *region, cl_mem *ret_mem)
{
    struct _cl_mem *parent = tp_icd_check(buffer, TP_ICD_MEM);
    cl_int err = check_sub_buffer(parent, &flags, type, region);
    struct _cl_mem *mem;

    if (err != CL_SUCCESS) {
        return err;
    }
    mem = tp_icd_mem_create(parent->ctx, flags, region->size);
    if (mem == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_icd_mem_adopt(mem, parent, region->origin);
    *ret_mem = mem;
    return CL_SUCCESS;
}

cl_mem CL_API_CALL
tp_clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                     const void *info, cl_int *errcode_ret)
{
    cl_mem mem = NULL;
    cl_int err = create_sub_buffer(buffer, flags, type, info, &mem);

    tp_icd_set_error(errcode_ret, err);
    return mem;
}

/* ---- counts, callbacks, queries --------------------------------------------------------------- */

cl_int CL_API_CALL
tp_clSetMemObjectDestructorCallback(cl_mem memobj,
                                    void(CL_CALLBACK *fn)(cl_mem, void *), void *user)
{
    struct _cl_mem *mem = tp_icd_check(memobj, TP_ICD_MEM);
    struct destructor *d;

    if (mem == NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (fn == NULL) {
        return CL_INVALID_VALUE;
    }
    d = tp_zalloc(sizeof(*d), "destructor");
    if (d == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    d->fn = fn;
    d->user = user;
    tp_icd_lock();
    tp_list_push_front(&mem->destructors, &d->link);
    tp_icd_unlock();
    return CL_SUCCESS;
}

cl_int CL_API_CALL
tp_clGetMemObjectInfo(cl_mem memobj, cl_mem_info name, size_t value_size, void *value,
                      size_t *size_ret)
{
    struct _cl_mem *mem = tp_icd_check(memobj, TP_ICD_MEM);

    if (mem == NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    switch (name) {
    case CL_MEM_TYPE:
        return TP_ICD_ANSWER(cl_mem_object_type, mem->image != NULL ? mem->image->type
                                                 : tp_icd_mem_is_pipe(mem)
                                                     ? CL_MEM_OBJECT_PIPE
                                                     : CL_MEM_OBJECT_BUFFER);
    case CL_MEM_FLAGS:
        return TP_ICD_ANSWER(cl_mem_flags, mem->flags);
    case CL_MEM_SIZE:
        return TP_ICD_ANSWER(size_t, mem->size);
    case CL_MEM_HOST_PTR:
        return TP_ICD_ANSWER(void *, mem->host_ptr);
    case CL_MEM_MAP_COUNT:
        return TP_ICD_ANSWER(cl_uint, mem->map_count);
    case CL_MEM_REFERENCE_COUNT:
        return TP_ICD_ANSWER(cl_uint, atomic_load(&mem->obj.refs));
    case CL_MEM_CONTEXT:
        return TP_ICD_ANSWER(cl_context, mem->ctx);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return TP_ICD_ANSWER(cl_mem, is_sub_buffer(mem) ? mem->parent : NULL);
    case CL_MEM_OFFSET:
        return TP_ICD_ANSWER(size_t, mem->image == NULL && is_sub_buffer(mem)
                                         ? mem->origin - mem->parent->origin
                                         : 0);
    case CL_MEM_USES_SVM_POINTER:
        return TP_ICD_ANSWER(cl_bool, tp_icd_mem_root(mem)->svm != NULL);
    case CL_MEM_PROPERTIES:
        return tp_icd_answer(value_size, value, size_ret, mem->properties,
                             mem->property_count * sizeof(*mem->properties));
    default:
        return CL_INVALID_VALUE;
    }
}
