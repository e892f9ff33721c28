/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared virtual memory at the address that it has in the client.
 *
 * Where kernels use host memory, the client chooses the address and the executor maps
 * memory there: its own, or a file that the client shares. Elsewhere the driver allocates
 * and the client maps memory at the driver's address. A native buffer stands on each
 * allocation, so that content moves as that of any buffer.
 */
#include "daemon/executor/objects/svm.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/program/program.h"
#include "daemon/executor/transfer/shared_memory.h"

static const uint64_t device_flags =
    CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;

void
tp_exec_svm_unref(struct tp_exec_svm *svm)
{
    if (svm == NULL || !tp_refcount_put(&svm->refs)) {
        return;
    }
    if (svm->mapped != 0) {
        (void)munmap(svm->address, svm->mapped);
    } else {
        svm->cl->SVMFree(svm->context, svm->pointer);
    }
    tp_free(svm);
}

/* ---- memory ---- */

/*
 * Maps memory at exactly @p address; @p fd is the client's file, or -1.
 * @return 0; CL_INVALID_HOST_PTR: something is mapped there; another CL error
 */
static int32_t
map_at(struct tp_exec_svm *svm, uint64_t address, uint64_t size, int fd)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t len = (size + page - 1) / page * page;
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory;

    if (address % page != 0) {
        return CL_INVALID_VALUE;
    }
    memory = mmap((void *)(uintptr_t)address, len, PROT_READ | PROT_WRITE,
                  flags | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
    if (memory == MAP_FAILED) {
        return errno == EEXIST ? CL_INVALID_HOST_PTR : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    if ((uintptr_t)memory != address) { /* Linux before 4.17 takes it as a hint */
        (void)munmap(memory, len);
        return CL_INVALID_HOST_PTR;
    }
    svm->address = memory;
    svm->mapped = len;
    return 0;
}

/* Has the driver allocate whole pages, because the client maps pages. */
static int32_t
allocate_pages(struct tp_exec_svm *svm, uint64_t flags, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t len = (size + page - 1) / page * page;

    if (svm->cl->SVMAlloc == NULL || svm->cl->SVMFree == NULL) {
        return CL_INVALID_OPERATION;
    }
    svm->pointer = svm->cl->SVMAlloc(svm->context, flags, len, 0);
    if (svm->pointer != NULL && (uintptr_t)svm->pointer % page != 0) {
        svm->cl->SVMFree(svm->context, svm->pointer);
        svm->pointer = svm->cl->SVMAlloc(svm->context, flags, len + page, 0);
    }
    if (svm->pointer == NULL) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    svm->address = (uint8_t *)(((uintptr_t)svm->pointer + page - 1) / page * page);
    return 0;
}

static int32_t
create_svm(struct tp_exec_context *c, const struct tp_wire_svm_alloc *m, int fd,
           struct tp_exec_svm **ret_svm)
{
    struct tp_exec_svm *svm = tp_zalloc(sizeof(*svm), "svm");
    int32_t error;

    if (svm == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_refcount_init(&svm->refs);
    svm->size = m->size;
    svm->cl = &c->obj.x->cl;
    svm->context = c->native;
    error = m->address != 0 ? map_at(svm, m->address, m->size, fd)
                            : allocate_pages(svm, m->flags, m->size);
    if (error != 0) {
        tp_free(svm);
        return error;
    }
    *ret_svm = svm;
    return 0;
}

/* ---- buffers on it ---- */

static void CL_CALLBACK
buffer_ended(cl_mem native, void *svm)
{
    tp_exec_svm_unref(svm);
}

int32_t
tp_exec_svm_buffer(struct tp_exec_mem *mem, struct tp_exec_svm *svm, uint64_t origin)
{
    const struct tp_opencl *cl = &mem->obj.x->cl;
    int32_t error;

    mem->native =
        cl->CreateBuffer(mem->context->native, mem->flags | CL_MEM_USE_HOST_PTR,
                         mem->size, svm->address + origin, &error);
    if (error != 0) {
        mem->native = NULL;
        return error;
    }
    mem->svm = svm;
    tp_refcount_get(&svm->refs);
    if (svm->mapped != 0 && cl->SetMemObjectDestructorCallback != NULL) {
        tp_refcount_get(&svm->refs);
        if (cl->SetMemObjectDestructorCallback(mem->native, buffer_ended, svm) != 0) {
            tp_exec_svm_unref(svm);
        }
    }
    return 0;
}

/* ---- messages ---- */

static int32_t
make_memory(struct tp_exec_mem *mem, const struct tp_wire_svm_alloc *m, int fd)
{
    struct tp_exec *x = mem->obj.x;
    struct tp_exec_svm *svm;
    int32_t error = tp_exec_hold_context(x, m->context, &mem->context);

    if (error != 0) {
        return error;
    }
    if ((m->flags & ~device_flags) != 0 || m->size == 0 ||
        m->size > TP_WIRE_REGION_MAX || (m->shared != 0) != (fd >= 0) ||
        (fd >= 0 && !tp_exec_file_is_proper(fd, m->size))) {
        return CL_INVALID_VALUE;
    }
    mem->size = m->size;
    mem->flags = m->flags;
    if (!tp_exec_mem_charge(mem, m->size)) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    error = create_svm(mem->context, m, fd, &svm);
    if (error == 0) {
        error = tp_exec_svm_buffer(mem, svm, 0);
        tp_exec_svm_unref(svm);
    }
    return error;
}

telpher_status
tp_exec_on_svm_alloc(struct tp_exec *x, const struct tp_wire_svm_alloc *m)
{
    struct tp_wire_svm_alloc_reply reply = {.request = m->request};
    int fd = m->shared != 0 ? tp_stream_take_fd(x->stream) : -1;
    struct tp_exec_mem *mem;
    telpher_status status =
        m->shared > 1 ? TELPHER_ERR_PROTO
                      : tp_exec_create(x, m->mem, TP_WIRE_KIND_MEM, sizeof(*mem), &mem);

    if (status == TELPHER_OK) {
        reply.status = mem->obj.error != 0 ? mem->obj.error : make_memory(mem, m, fd);
        if (reply.status == 0) {
            reply.address = (uintptr_t)mem->svm->address;
        } else {
            mem->obj.error = reply.status;
            tp_exec_release(x, m->mem);
        }
        tp_exec_put(x, TP_WIRE_SVM_ALLOC_REPLY, &reply);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/* Drivers whose kernels reach all memory of the process may refuse the list. */
static void
tell_driver(struct tp_exec *x, cl_kernel kernel, void *const *pointers, size_t count)
{
    int32_t error = CL_INVALID_OPERATION;

    if (x->cl.SetKernelExecInfo != NULL) {
        error = x->cl.SetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS,
                                        count * sizeof(void *),
                                        count != 0 ? pointers : NULL);
    }
    if (error != 0) {
        tp_debug("executor", "clSetKernelExecInfo: %s", tp_opencl_error_name(error));
    }
}

telpher_status
tp_exec_on_exec_info(struct tp_exec *x, const struct tp_wire_exec_info *m)
{
    struct tp_exec_kernel *k;
    struct tp_exec_mem *mem;
    void **pointers;
    size_t count = 0;

    if (tp_exec_find(x, m->kernel, TP_WIRE_KIND_KERNEL, &k) != 0) {
        return TELPHER_OK; /* the LAUNCH will tell */
    }
    pointers = tp_alloc_array(m->mems.count + (size_t)1, sizeof(void *), "svm");
    if (pointers == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < m->mems.count; i++) {
        if (tp_exec_find(x, tp_wire_u64_at(&m->mems, i), TP_WIRE_KIND_MEM, &mem) == 0 &&
            mem->svm != NULL) {
            pointers[count++] = mem->svm->address;
        }
    }
    tell_driver(x, k->native, pointers, count);
    tp_free(pointers);
    return TELPHER_OK;
}

int32_t
tp_exec_svm_set_arg(struct tp_exec *x, cl_kernel kernel, uint32_t index,
                    const struct tp_wire_bytes *value,
                    struct tp_exec_object **ret_object)
{
    struct tp_exec_mem *mem = NULL;
    uint8_t *pointer = NULL;
    uint64_t parts[2]; /* id, offset */
    int32_t error = 0;

    if (value->len == sizeof(parts)) {
        memcpy(parts, value->data, sizeof(parts));
        error = tp_exec_find(x, parts[0], TP_WIRE_KIND_MEM, &mem);
        if (error == 0 && (mem->svm == NULL || mem->is_sub || parts[1] > mem->size)) {
            error = CL_INVALID_ARG_VALUE;
        }
        pointer = error == 0 ? mem->svm->address + parts[1] : NULL;
    }
    if (error == 0 && x->cl.SetKernelArgSVMPointer == NULL) {
        error = CL_INVALID_OPERATION;
    }
    if (error == 0) { /* NVIDIA's driver does not take NULL as a pointer of this kind */
        error = pointer != NULL
                    ? x->cl.SetKernelArgSVMPointer(kernel, index, pointer)
                    : x->cl.SetKernelArg(kernel, index, sizeof(cl_mem), NULL);
    }
    *ret_object = error == 0 && mem != NULL ? &mem->obj : NULL;
    return error;
}
