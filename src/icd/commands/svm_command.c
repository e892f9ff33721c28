/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on shared virtual memory. Each is the command of a buffer on the allocation that
 * the pointer is in; a pointer outside of all is the program's own memory.
 */
#include "icd/commands/enqueue.h"
#include "icd/commands/entry.h"
#include "icd/commands/map.h"
#include "icd/commands/read_write.h"
#include "icd/icd.h"
#include "icd/objects/object.h"
#include "icd/objects/svm.h"
#include "icd/objects/usm.h"

#include <string.h>

#include "base/alloc.h"

/** @return CL_INVALID_OPERATION for a context without SVM. */
static cl_int
check(const struct tp_icd_op *op)
{
    return tp_icd_context_has_svm(op->q->ctx) ? CL_SUCCESS : CL_INVALID_OPERATION;
}

/* ---- map, unmap, fill ---------------------------------------------------------------------- */

static cl_int
run_map(struct tp_icd_op *op, bool blocking, cl_map_flags flags, void *ptr, size_t size)
{
    struct tp_icd_map want = {.size = size, .flags = flags};
    void *mapped;
    cl_int err = check(op);

    if (err != CL_SUCCESS) {
        return err;
    }
    op->blocking = blocking;
    want.mem = tp_icd_svm_find(op->q->ctx, ptr, size, &want.offset);
    if (want.mem == NULL || size == 0 || tp_icd_usm_is_remote(want.mem)) {
        return CL_INVALID_VALUE;
    }
    err = tp_icd_map_flags_check(want.mem, flags);
    return err == CL_SUCCESS ? tp_icd_map_run(op, &want, &mapped) : err;
}

static cl_int
run_unmap(struct tp_icd_op *op, void *ptr)
{
    struct _cl_mem *mem = tp_icd_svm_find(op->q->ctx, ptr, 0, NULL);
    cl_int err = check(op);

    if (err == CL_SUCCESS && mem == NULL) {
        err = CL_INVALID_VALUE;
    }
    return err == CL_SUCCESS ? tp_icd_unmap_run(op, mem, ptr) : err;
}

static cl_int
run_fill(struct tp_icd_op *op, void *ptr, const void *pattern, size_t pattern_size,
         size_t size)
{
    size_t offset;
    struct _cl_mem *mem = tp_icd_svm_find(op->q->ctx, ptr, size, &offset);
    cl_int err = check(op);

    if (err == CL_SUCCESS && mem == NULL) {
        err = CL_INVALID_VALUE;
    }
    return err == CL_SUCCESS
               ? tp_icd_run_fill(op, mem, pattern, pattern_size, offset, size)
               : err;
}

/** Does nothing: advice has no effect. */
static cl_int
run_advise(struct tp_icd_op *op, const void *ptr, size_t size)
{
    cl_int err = check(op);

    if (err == CL_SUCCESS && tp_icd_svm_find(op->q->ctx, ptr, size, NULL) == NULL) {
        err = CL_INVALID_VALUE;
    }
    return err == CL_SUCCESS ? tp_icd_op_run(op, tp_icd_op_put_nothing, NULL) : err;
}

TP_ICD_ENQUEUE(SVMMap, SVM_MAP,
               (cl_bool blocking, cl_map_flags flags, void *ptr, size_t size),
               run_map(op, blocking != CL_FALSE, flags, ptr, size))
TP_ICD_ENQUEUE(SVMUnmap, SVM_UNMAP, (void *ptr), run_unmap(op, ptr))
TP_ICD_ENQUEUE(SVMMemFill, SVM_MEMFILL,
               (void *ptr, const void *pattern, size_t pattern_size, size_t size),
               run_fill(op, ptr, pattern, pattern_size, size))
TP_ICD_ENQUEUE(MemFillINTEL, MEMFILL_INTEL,
               (void *ptr, const void *pattern, size_t pattern_size, size_t size),
               run_fill(op, ptr, pattern, pattern_size, size))
TP_ICD_ENQUEUE(MemAdviseINTEL, MEMADVISE_INTEL,
               (const void *ptr, size_t size,
                __attribute__((unused)) cl_mem_advice_intel advice),
               run_advise(op, ptr, size))

/* ---- copy ------------------------------------------------------------------------------------ */

/** Copies between two places in the program's own memory, through a buffer: the queue's
 *  order and the wait list hold as for any command. */
static cl_int
copy_on_host(struct tp_icd_op *op, void *dst, const void *src, size_t size)
{
    struct tp_icd_content content;
    cl_event written = NULL;
    cl_mem mem;
    cl_int err;

    if (tp_icd_ranges_meet((uintptr_t)dst, size, (uintptr_t)src, size)) {
        return CL_MEM_COPY_OVERLAP;
    }
    mem = tp_clCreateBuffer(op->q->ctx, CL_MEM_READ_WRITE, size, NULL, &err);
    if (mem == NULL) {
        return err;
    }
    err = tp_clEnqueueWriteBuffer(op->q, mem, CL_FALSE, 0, size, src, op->wait_count,
                                  op->wait_list, &written);
    if (err == CL_SUCCESS) {
        op->wait_count = 1;
        op->wait_list = &written;
        tp_icd_content_set(&content, mem, 0, size, dst);
        err = tp_icd_run_read(op, op->blocking, &content);
        tp_clReleaseEvent(written);
    }
    tp_clReleaseMemObject(mem);
    return err;
}

/** Copies @p size bytes, not 0, by the kinds of the two pointers. */
static cl_int
copy(struct tp_icd_op *op, void *dst, const void *src, size_t size)
{
    size_t to_offset, from_offset;
    struct _cl_mem *to = tp_icd_svm_find(op->q->ctx, dst, size, &to_offset);
    struct _cl_mem *from = tp_icd_svm_find(op->q->ctx, src, size, &from_offset);
    struct tp_icd_content content;

    if (to != NULL && from != NULL) {
        return tp_icd_run_copy(op, from, to, from_offset, to_offset, size);
    }
    if (to != NULL) {
        tp_icd_content_set(&content, to, to_offset, size, src);
        return tp_icd_run_write(op, op->blocking, &content, size == to->size);
    }
    if (from != NULL) {
        tp_icd_content_set(&content, from, from_offset, size, dst);
        return tp_icd_run_read(op, op->blocking, &content);
    }
    return copy_on_host(op, dst, src, size);
}

static cl_int
run_copy(struct tp_icd_op *op, bool blocking, void *dst, const void *src, size_t size)
{
    cl_int err = check(op);

    if (err == CL_SUCCESS && (dst == NULL || src == NULL)) {
        err = CL_INVALID_VALUE;
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    op->blocking = blocking;
    return size != 0 ? copy(op, dst, src, size)
                     : tp_icd_op_run(op, tp_icd_op_put_nothing, NULL);
}

TP_ICD_ENQUEUE(SVMMemcpy, SVM_MEMCPY,
               (cl_bool blocking, void *dst, const void *src, size_t size),
               run_copy(op, blocking != CL_FALSE, dst, src, size))
TP_ICD_ENQUEUE(MemcpyINTEL, MEMCPY_INTEL,
               (cl_bool blocking, void *dst, const void *src, size_t size),
               run_copy(op, blocking != CL_FALSE, dst, src, size))

/* ---- migrate ------------------------------------------------------------------------------------ */

/** Finds the allocations. A part of one migrates with all of it, so its content counts. */
static cl_int
find_mems(const struct tp_icd_op *op, cl_uint count, const void **ptrs,
          const size_t *sizes, cl_mem *mems, cl_mem_migration_flags *flags)
{
    for (cl_uint i = 0; i < count; i++) {
        size_t size = sizes != NULL ? sizes[i] : 0;

        mems[i] = tp_icd_svm_find(op->q->ctx, ptrs[i], size, NULL);
        if (mems[i] == NULL) {
            return CL_INVALID_VALUE;
        }
        if (size != 0 && size != mems[i]->size) {
            *flags &= ~(cl_mem_migration_flags)CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        }
    }
    return CL_SUCCESS;
}

static cl_int
run_migrate(struct tp_icd_op *op, cl_uint count, const void **ptrs, const size_t *sizes,
            cl_mem_migration_flags flags)
{
    cl_int err = check(op);
    cl_mem *mems;

    if (err == CL_SUCCESS && (count == 0 || ptrs == NULL)) {
        err = CL_INVALID_VALUE;
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    mems = tp_alloc_array(count, sizeof(cl_mem), "migration");
    if (mems == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    err = find_mems(op, count, ptrs, sizes, mems, &flags);
    if (err == CL_SUCCESS) {
        err = tp_icd_run_migrate(op, count, mems, flags);
    }
    tp_free(mems);
    return err;
}

TP_ICD_ENQUEUE(SVMMigrateMem, SVM_MIGRATE_MEM,
               (cl_uint count, const void **ptrs, const size_t *sizes,
                cl_mem_migration_flags flags),
               run_migrate(op, count, ptrs, sizes, flags))
TP_ICD_ENQUEUE(MigrateMemINTEL, MIGRATEMEM_INTEL,
               (const void *ptr, size_t size, cl_mem_migration_flags flags),
               run_migrate(op, 1, &ptr, &size, flags))

/* ---- free --------------------------------------------------------------------------------------- */

typedef void(CL_CALLBACK *free_fn)(cl_command_queue queue, cl_uint count, void *ptrs[],
                                   void *user);

/** Arguments of a clEnqueueSVMFree until it runs. */
struct freeing {
    cl_command_queue queue; /* held by its event */
    free_fn notify;
    void *user;
    cl_uint count;
    void *ptrs[];
};

static void CL_CALLBACK
free_all(cl_event event, cl_int status, void *arg)
{
    struct freeing *f = arg;

    if (status == CL_COMPLETE && f->notify != NULL) {
        f->notify(f->queue, f->count, f->ptrs, f->user);
    }
    for (cl_uint i = 0; status == CL_COMPLETE && f->notify == NULL && i < f->count;
         i++) {
        tp_clSVMFree(f->queue->ctx, f->ptrs[i]);
    }
    tp_free(f);
}

/** Runs a marker whose callback frees. Takes @p f if it succeeds. */
static cl_int
free_after(struct tp_icd_op *op, struct freeing *f)
{
    cl_event turn, *ret_event = op->ret_event;
    cl_int err;

    op->ret_event = &turn;
    err = tp_icd_run_marker(op);
    if (err != CL_SUCCESS) {
        return err;
    }
    err = tp_clSetEventCallback(turn, CL_COMPLETE, free_all, f);
    if (err == CL_SUCCESS && ret_event != NULL) {
        *ret_event = turn;
        return CL_SUCCESS;
    }
    tp_clReleaseEvent(turn);
    return err;
}

static cl_int
run_free(struct tp_icd_op *op, cl_uint count, void *ptrs[], free_fn notify, void *user)
{
    struct freeing *f;
    cl_int err = check(op);

    if (err == CL_SUCCESS && (count == 0) != (ptrs == NULL)) {
        err = CL_INVALID_VALUE;
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    f = tp_zalloc(sizeof(*f) + count * sizeof(f->ptrs[0]), "svm");
    if (f == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    *f = (struct freeing){
        .queue = op->q, .notify = notify, .user = user, .count = count};
    if (count != 0) {
        memcpy(f->ptrs, ptrs, count * sizeof(f->ptrs[0]));
    }
    err = free_after(op, f);
    if (err != CL_SUCCESS) {
        tp_free(f);
    }
    return err;
}

TP_ICD_ENQUEUE(SVMFree, SVM_FREE,
               (cl_uint count, void *ptrs[], free_fn notify, void *user),
               run_free(op, count, ptrs, notify, user))
