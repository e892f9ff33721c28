/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers and sub-buffers. NVIDIA's driver ends the process when a sub-buffer is released before
 * one of the same parent that was made later. There they are released in turn: from the last one
 * back, once the client has released them, and the parent after them.
 */
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/objects/svm.h"
#include "daemon/executor/quirks.h"

enum {
    MEM_FLAGS = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY,
};

bool
tp_exec_mem_charge(struct tp_exec_mem *mem, uint64_t size)
{
    struct tp_exec *x = mem->obj.x;

    if (mem->obj.error != 0) {
        return false;
    }
    if (!tp_budget_take(&x->memory, size)) {
        (void)tp_exec_refuse(&mem->obj, CL_MEM_OBJECT_ALLOCATION_FAILURE,
                             "--max-memory or --max-user-memory");
        return false;
    }
    mem->charged = size;
    return true;
}

static int32_t
make_buffer(struct tp_exec_mem *mem, const struct tp_wire_buffer_create *m)
{
    struct tp_exec *x = mem->obj.x;
    int32_t error = tp_exec_hold_context(x, m->context, &mem->context);

    if (error != 0) {
        return error;
    }
    if ((m->flags & ~(uint64_t)MEM_FLAGS) != 0) {
        return CL_INVALID_VALUE;
    }
    mem->size = m->size;
    mem->flags = m->flags;
    if (!tp_exec_mem_charge(mem, m->size)) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    mem->native = tp_exec_host_buffer(mem);
    if (mem->native == NULL) {
        mem->native =
            x->cl.CreateBuffer(mem->context->native, m->flags, m->size, NULL, &error);
    }
    return error;
}

TP_EXEC_ON_CREATE(buffer, mem, mem, MEM, "clCreateBuffer")

/* Enters a native sub-buffer where sub-buffers are released in turn. */
static void
enter_sub_buffer(struct tp_exec_mem *sub, struct tp_exec_mem *parent)
{
    if (!tp_exec_has_quirk(sub->obj.x, TP_EXEC_QUIRK_SUB_BUFFERS_IN_TURN)) {
        return;
    }
    tp_exec_ref(&parent->obj);
    sub->parent = parent;
    tp_exec_ref(&sub->obj); /* until the driver has released it */
    sub->older_sub = parent->last_sub;
    parent->last_sub = sub;
}

static int32_t
make_sub_buffer(struct tp_exec_mem *mem, const struct tp_wire_sub_buffer_create *m)
{
    struct tp_exec *x = mem->obj.x;
    cl_buffer_region region = {m->origin, m->size};
    struct tp_exec_mem *parent;
    int32_t error = tp_exec_find_buffer(x, m->parent, &parent);

    if (error != 0) {
        return error;
    }
    if (mem->obj.error != 0) {
        return 0; /* beyond a limit */
    }
    if (parent->is_sub) {
        return CL_INVALID_MEM_OBJECT;
    }
    if ((m->flags & ~(uint64_t)MEM_FLAGS) != 0 || m->size > parent->size ||
        m->origin > parent->size - m->size) {
        return CL_INVALID_VALUE;
    }
    mem->context = parent->context;
    tp_exec_ref(&mem->context->obj);
    mem->size = m->size;
    mem->flags = m->flags;
    mem->is_sub = true;
    if (parent->svm != NULL) {
        return tp_exec_svm_buffer(mem, parent->svm, m->origin);
    }
    mem->native = x->cl.CreateSubBuffer(parent->native, m->flags,
                                        CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    if (error == 0) {
        mem->host = parent->host != NULL ? parent->host + m->origin : NULL;
        enter_sub_buffer(mem, parent);
    }
    return error;
}

TP_EXEC_ON_CREATE(sub_buffer, mem, mem, MEM, "clCreateSubBuffer")

static void
release_native(struct tp_exec_mem *mem)
{
    if (mem->native != NULL) {
        mem->obj.x->cl.ReleaseMemObject(mem->native);
        mem->native = NULL;
    }
}

/* Releases the sub-buffers of a parent in turn, and the parent if it has none left. */
static void
release_in_turn(struct tp_exec_mem *parent)
{
    struct tp_exec_mem *sub;

    tp_exec_ref(&parent->obj); /* the last sub-buffer may hold it */
    while ((sub = parent->last_sub) != NULL && sub->obj.released) {
        parent->last_sub = sub->older_sub;
        release_native(sub);
        tp_exec_unref(&sub->obj);
    }
    if (parent->last_sub == NULL && parent->obj.released) {
        release_native(parent);
    }
    tp_exec_unref(&parent->obj);
}

/* Native commands hold the native buffer themselves. */
void
tp_exec_mem_on_release(struct tp_exec_object *o)
{
    struct tp_exec_mem *mem = tp_container_of(o, struct tp_exec_mem, obj);

    release_in_turn(mem->parent != NULL ? mem->parent : mem);
    tp_exec_svm_unref(mem->svm);
    mem->svm = NULL;
}

void
tp_exec_mem_free(struct tp_exec_object *o)
{
    struct tp_exec_mem *mem = tp_container_of(o, struct tp_exec_mem, obj);

    tp_budget_give(&o->x->memory, mem->charged);
    tp_exec_unref(mem->parent != NULL ? &mem->parent->obj : NULL);
    tp_exec_unref(mem->context != NULL ? &mem->context->obj : NULL);
    tp_free(mem);
}
