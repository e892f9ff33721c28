/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cl_pocl_content_size: of a buffer with a size buffer, only the bytes that it counts move.
 *
 * The size is read when content would move, by a read of 8 bytes on the queue and after the
 * wait list of the command that needs the content: what orders the command after the writer
 * of the content orders the read. The call waits for it. While a user event of the program
 * is not set, it must not wait, and all of the content moves.
 */
#include "icd/commands/enqueue.h"
#include "icd/commands/read_write.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/migration/migration.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"

enum { WORTH_BYTES = 65536 }; /* content that is worth a round trip */

/** Reads how many bytes have a meaning. @return false: it is not known */
static bool
read_size(const struct tp_icd_op *op, struct _cl_mem *size_buffer, uint64_t *ret_size)
{
    struct tp_icd_content content;
    struct tp_icd_op read;

    tp_icd_content_set(&content, size_buffer, 0, sizeof(*ret_size), ret_size);
    return tp_icd_op_init(&read, op->q, CL_COMMAND_READ_BUFFER, op->wait_count,
                          op->wait_list, NULL) == CL_SUCCESS &&
           tp_icd_run_read(&read, true, &content) == CL_SUCCESS;
}

/** @return the size buffer of a buffer, held, if reading it is worth while; else NULL */
static struct _cl_mem *
take_size_buffer(const struct tp_icd_op *op, const struct _cl_mem *mem, uint64_t bytes)
{
    struct _cl_mem *size_buffer = NULL;

    if (bytes > WORTH_BYTES && op->q->ctx->user_events == 0) {
        size_buffer = mem->size_buffer;
    }
    if (size_buffer != NULL) {
        tp_icd_hold(&size_buffer->obj);
    }
    return size_buffer;
}

void
tp_icd_mem_shrink(const struct tp_icd_op *op)
{
    for (size_t i = 0; i < op->use_count; i++) {
        struct _cl_mem *root = tp_icd_mem_root(op->uses[i].mem), *size_buffer;
        uint64_t size;

        tp_icd_lock();
        size_buffer = root->size_buffer == NULL
                          ? NULL
                          : take_size_buffer(op, root, tp_icd_mem_stale(op, i));
        tp_icd_unlock();
        if (size_buffer == NULL) {
            continue;
        }
        if (read_size(op, size_buffer, &size)) {
            tp_icd_lock();
            tp_icd_mem_forget(root, size);
            tp_icd_unlock();
        }
        tp_icd_drop(&size_buffer->obj);
    }
}

void
tp_icd_content_cut(const struct tp_icd_op *op, struct tp_icd_content *content)
{
    struct _cl_mem *size_buffer;
    uint64_t size;

    tp_icd_lock();
    size_buffer = take_size_buffer(op, content->mem, content->size);
    tp_icd_unlock();
    if (size_buffer == NULL) {
        return;
    }
    if (read_size(op, size_buffer, &size) && size < content->offset + content->size) {
        /* a byte, so that the command is one */
        tp_icd_content_set(content, content->mem, content->offset,
                           size > content->offset ? size - content->offset : 1,
                           content->ptr);
    }
    tp_icd_drop(&size_buffer->obj);
}

/** Replaces the size buffer of a buffer. */
static void
set_size_buffer(struct _cl_mem *mem, struct _cl_mem *size_buffer)
{
    struct _cl_mem *before;

    tp_icd_lock();
    before = mem->size_buffer;
    mem->size_buffer = size_buffer;
    tp_icd_unlock();
    if (before != NULL) {
        tp_icd_drop(&before->obj);
    }
}

cl_int CL_API_CALL
tp_clSetContentSizeBufferPoCL(cl_mem buffer, cl_mem content_size_buffer)
{
    struct _cl_mem *mem = tp_icd_check(buffer, TP_ICD_MEM);
    struct _cl_mem *size_buffer = tp_icd_check(content_size_buffer, TP_ICD_MEM);

    if (mem == NULL || !tp_icd_mem_is_buffer(mem) || size_buffer == NULL ||
        !tp_icd_mem_is_buffer(size_buffer) || size_buffer->parent != NULL ||
        size_buffer == mem) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (mem->ctx != size_buffer->ctx) {
        return CL_INVALID_CONTEXT;
    }
    if (size_buffer->size < sizeof(cl_ulong)) {
        return CL_INVALID_BUFFER_SIZE;
    }
    tp_icd_hold(&size_buffer->obj);
    set_size_buffer(mem, size_buffer);
    set_size_buffer(size_buffer, NULL); /* it is no content: so no cycle of holds */
    return CL_SUCCESS;
}
