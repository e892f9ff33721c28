/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of device memory. Where all buffers are on a device that has a kernel for the
 * operation and the type, the algorithms run on them as they are, and combine by kernels.
 * Everything else is computed in copies in host memory. Ranks choose apart: messages are the same.
 */
#include "ampi/intercomm.h"
#include "ampi/op.h"
#include "ampi/process.h"
#include "ampi/type.h"

/* ---- room ---- */

/* Allocating waits for all kernels, so the last memory is kept. The context frees it. */
static struct {
    void *at;
    size_t bytes;
    uint32_t kind;
    bool used;
} kept;

static void *
allocate(uint32_t kind, size_t bytes)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    void *at = NULL;

    if (telpher_mem_alloc(tp_ampi.ctx, kind, bytes, &at) != TELPHER_OK) {
        at = NULL;
    }
    (void)tp_ampi_heap_use(heap);
    return at;
}

static void
release(void *room)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);

    (void)telpher_mem_free(tp_ampi.ctx, room);
    (void)tp_ampi_heap_use(heap);
}

void *
tp_ampi_room_take(uint32_t kind, size_t bytes)
{
    if (kept.used) {
        return allocate(kind, bytes);
    }
    if (kept.at != NULL && (kept.kind != kind || kept.bytes < bytes)) {
        release(kept.at);
        kept.at = NULL;
    }
    if (kept.at == NULL) {
        kept.at = allocate(kind, bytes);
        kept.bytes = bytes;
        kept.kind = kind;
    }
    kept.used = kept.at != NULL;
    return kept.at;
}

void
tp_ampi_room_give(void *room)
{
    if (room == kept.at) {
        kept.used = false;
    } else {
        release(room);
    }
}

/* ---- combining ---- */

telpher_status
tp_ampi_combine_by_kernel(MPI_Op op, MPI_Datatype type, const void *lower,
                          const void *higher, void *out, size_t count)
{
    uint32_t operation, element;
    size_t elements;
    struct tp_ampi_heap *heap;
    telpher_status status;

    if (!tp_ampi_op_of_device(op, type, count, &operation, &element, &elements)) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    heap = tp_ampi_heap_use(NULL);
    status = telpher_mem_combine(tp_ampi.ctx, operation, element, lower, higher, out,
                                 elements);
    (void)tp_ampi_heap_use(heap);
    return status;
}

/* Memories of different devices meet in host memory. */
static int
combine_in_host_memory(const struct tp_ampi_call *call, const void *lower,
                       const void *higher, void *out, size_t count)
{
    size_t len = tp_ampi_type_size(call->in.type) * count;
    struct tp_ampi_stage one = {0}, other = {0};
    int error = tp_ampi_stage_open(&one, call->comm, lower, 0, len, true);

    if (error == MPI_SUCCESS) {
        error = tp_ampi_stage_open(&other, call->comm, higher, 0, len, true);
    }
    if (error == MPI_SUCCESS) {
        tp_ampi_op_combine(call->op, one.at, other.at, other.at, count, call->in.type);
        error = tp_ampi_copy_memory(call->comm, out, other.at, len);
    }
    error = tp_ampi_stage_close(&one, call->comm, false, error);
    return tp_ampi_stage_close(&other, call->comm, false, error);
}

int
tp_ampi_combine(const struct tp_ampi_call *call, const void *lower, const void *higher,
                void *out, size_t count)
{
    telpher_status status;

    if (call->kind == TELPHER_MEM_HOST) {
        tp_ampi_op_combine(call->op, lower, higher, out, count, call->in.type);
        return MPI_SUCCESS;
    }
    status =
        tp_ampi_combine_by_kernel(call->op, call->in.type, lower, higher, out, count);
    return status == TELPHER_ERR_UNSUPPORTED
               ? combine_in_host_memory(call, lower, higher, out, count)
               : tp_ampi_error(call->comm, tp_ampi_class_of(status),
                               "%s: the device cannot combine %zu elements: %s",
                               call->name, count, telpher_status_name(status));
}

/* ---- where ---- */

/* Elements of a reduction's operand. */
static size_t
operand_count(const struct tp_ampi_call *call)
{
    size_t count = 0;

    if (call->run != tp_ampi_run_reduce_scatter) {
        return call->in.count;
    }
    for (int i = 0; i < call->comm->size; i++) {
        count += tp_ampi_side_count(&call->in, i);
    }
    return count;
}

static int
run_staged(const struct tp_ampi_call *call)
{
    size_t size = tp_ampi_type_size(call->in.type), all = size * operand_count(call);
    bool in_place = call->out.at == MPI_IN_PLACE;
    bool has_result = call->run != tp_ampi_run_reduce || call->comm->rank == call->root;
    size_t result = in_place || call->run != tp_ampi_run_reduce_scatter
                        ? all
                        : size * tp_ampi_side_count(&call->in, call->comm->rank);
    struct tp_ampi_call staged = *call;
    struct tp_ampi_stage out = {0}, in = {0};
    int error = MPI_SUCCESS;

    staged.device = false;
    if (!in_place) {
        error = tp_ampi_stage_open(&out, call->comm, call->out.at, 0, all, true);
        staged.out.at = out.at;
    }
    if (error == MPI_SUCCESS && has_result) {
        error = tp_ampi_stage_open(&in, call->comm, call->in.at, 0, result,
                                   in_place || call->run == tp_ampi_run_exscan);
        staged.in.at = in.at;
    }
    if (error == MPI_SUCCESS) {
        error = staged.comm->local != NULL ? tp_ampi_run_between(&staged)
                                           : staged.run(&staged);
    }
    error = tp_ampi_stage_close(&in, call->comm, true, error);
    return tp_ampi_stage_close(&out, call->comm, false, error);
}

static uint32_t
kind_of(const void *at)
{
    telpher_mem_info info = {.struct_size = sizeof(info)};
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    telpher_status status = telpher_mem_query(tp_ampi.ctx, at, &info);

    (void)tp_ampi_heap_use(heap);
    return status == TELPHER_OK ? info.kind : TELPHER_MEM_HOST;
}

/* The kind of memory that all buffers of a call are in, if the device has a kernel for it. */
static uint32_t
find_kind(const struct tp_ampi_call *call)
{
    bool has_result = call->run != tp_ampi_run_reduce || call->comm->rank == call->root;
    bool in_place = call->out.at == MPI_IN_PLACE;
    const char *operand = in_place ? call->in.at : call->out.at;
    uint32_t kind = kind_of(operand);

    if (call->comm->local != NULL || kind == TELPHER_MEM_HOST ||
        tp_ampi_type_size(call->in.type) * operand_count(call) <
            tp_ampi.settings.device_reduce ||
        (has_result && kind_of(call->in.at) != kind) ||
        tp_ampi_combine_by_kernel(call->op, call->in.type, operand, operand,
                                  (void *)(uintptr_t)operand, 0) != TELPHER_OK) {
        return TELPHER_MEM_HOST;
    }
    return kind;
}

int
tp_ampi_run_on_device(const struct tp_ampi_call *call)
{
    struct tp_ampi_call there = *call;

    there.kind = find_kind(call);
    return there.kind != TELPHER_MEM_HOST ? there.run(&there) : run_staged(call);
}
