/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes buffers on memory of the executor where kernels use host memory: content from and for other
 * servers is then sent from and received into the buffer itself, without a copy, and without a
 * command of the driver.
 */
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"

/* [bytes] The largest alignment of a type is 128; drivers copy memory with less than a page's. */
enum { ALIGN = 4096, SMALL_ALIGN = 128 };

bool
tp_exec_uses_host_memory(const struct tp_exec_context *c)
{
    const struct tp_opencl *cl = &c->obj.x->cl;

    for (uint32_t i = 0; i < c->device_count; i++) {
        cl_device_svm_capabilities svm = 0;
        cl_device_type type = 0;

        if (cl->GetDeviceInfo(c->devices[i].native, CL_DEVICE_TYPE, sizeof(type), &type,
                              NULL) != CL_SUCCESS ||
            cl->GetDeviceInfo(c->devices[i].native, CL_DEVICE_SVM_CAPABILITIES,
                              sizeof(svm), &svm, NULL) != CL_SUCCESS ||
            (type & CL_DEVICE_TYPE_CPU) == 0 ||
            (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) == 0) {
            return false;
        }
    }
    return cl->SetMemObjectDestructorCallback != NULL;
}

/* Whether each device has buffers of this size; if not, the driver refuses with its own error. */
static bool
can_be_as_large(const struct tp_exec_context *c, size_t size)
{
    const struct tp_opencl *cl = &c->obj.x->cl;
    cl_ulong max;

    for (uint32_t i = 0; i < c->device_count; i++) {
        if (cl->GetDeviceInfo(c->devices[i].native, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
                              sizeof(max), &max, NULL) != CL_SUCCESS ||
            size > max) {
            return false;
        }
    }
    return true;
}

/* The driver does not use the memory any more. */
static void CL_CALLBACK
free_memory(cl_mem native, void *memory)
{
    tp_free(memory);
}

cl_mem
tp_exec_host_buffer(struct tp_exec_mem *mem)
{
    const struct tp_opencl *cl = &mem->obj.x->cl;
    uint8_t *memory;
    cl_mem native;
    cl_int error;

    if (!mem->context->uses_host_memory || mem->size == 0 ||
        !can_be_as_large(mem->context, mem->size)) {
        return NULL;
    }
    memory =
        tp_alloc_aligned(mem->size < ALIGN ? SMALL_ALIGN : ALIGN, mem->size, "buffer");
    if (memory == NULL) {
        return NULL; /* the driver says why not */
    }
    native = cl->CreateBuffer(mem->context->native, mem->flags | CL_MEM_USE_HOST_PTR,
                              mem->size, memory, &error);
    if (error == CL_SUCCESS &&
        cl->SetMemObjectDestructorCallback(native, free_memory, memory) == CL_SUCCESS) {
        mem->host = memory;
        return native;
    }
    if (error == CL_SUCCESS) {
        cl->ReleaseMemObject(native);
    }
    tp_free(memory);
    return NULL;
}

uint8_t *
tp_exec_host_range(const struct tp_exec_mem *mem, const struct tp_device_box *box)
{
    bool is_range = box->element == 0 && box->row_pitch == 0;

    return mem->host != NULL && is_range ? mem->host + box->origin[0] : NULL;
}
