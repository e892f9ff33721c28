/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueues the commands of random programs. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

void
run_pattern(void *dst, size_t len, uint64_t seed)
{
    uint8_t *to = dst;
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        if (i % 8 == 0) {
            value = plan_random(&seed);
        }
        to[i] = (uint8_t)(value >> i % 8 * 8);
    }
}

uint64_t
run_hash(const void *src, size_t len, uint64_t start)
{
    const uint8_t *at = src;
    uint64_t h = start ^ UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++) {
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

void
run_print_content(FILE *to, const void *src, size_t len)
{
    const uint8_t *at = src;

    fprintf(to, " content %016llx parts ", (unsigned long long)run_hash(src, len, 0));
    for (size_t i = 0; i < RUN_PARTS; i++) {
        size_t from = len * i / RUN_PARTS, end = len * (i + 1) / RUN_PARTS;

        fprintf(to, "%02x", (unsigned)(run_hash(at + from, end - from, i) >> 32 & 255));
    }
    fputc('\n', to);
}

/** Memory for a transfer, which lives until the program ends. */
static void *
host_memory(struct run *r, int index, uint64_t seed)
{
    size_t size = r->plan->ops[index].size;

    r->host[index] = malloc(size + 1);
    if (r->host[index] == NULL) {
        abort();
    }
    r->host_size[index] = size;
    run_pattern(r->host[index], size, seed);
    return r->host[index];
}

static cl_int
map_object(struct run *r, int index, cl_uint n, const cl_event *waits, cl_event *event)
{
    const struct op *op = &r->plan->ops[index];
    cl_command_queue q = r->queues[op->queue];
    cl_mem mem = r->mems[op->mem[0]];
    cl_map_flags flags = op->invalidate    ? CL_MAP_WRITE_INVALIDATE_REGION
                         : op->status != 0 ? CL_MAP_READ | CL_MAP_WRITE
                                           : CL_MAP_READ;
    cl_bool blocking = op->blocking ? CL_TRUE : CL_FALSE;
    cl_int err;

    if (op->by_pointer) {
        r->host[index] = pointer_of(r, op->mem[0]) + op->offset[0];
        err = clEnqueueSVMMap(q, blocking, flags, r->host[index], op->size, n, waits,
                              event);
    } else if (r->plan->mems[op->mem[0]].image) {
        r->host[index] = clEnqueueMapImage(
            q, mem, blocking, flags, op->origin[0], op->region, &r->row_pitch[index],
            &r->slice_pitch[index], n, waits, event, &err);
    } else {
        r->host[index] = clEnqueueMapBuffer(q, mem, blocking, flags, op->offset[0],
                                            op->size, n, waits, event, &err);
    }
    return err;
}

/** Reads what a map shows, and writes to it if it is for that. */
static void
use_map(struct run *r, int index)
{
    const struct op *op = &r->plan->ops[index];
    const struct mem_plan *mem = &r->plan->mems[op->mem[0]];
    size_t row = mem->image ? op->region[0] * mem->pixel : op->size;
    size_t rows = mem->image ? op->region[1] : 1,
           slices = mem->image ? op->region[2] : 1;
    uint64_t h = 0;

    if (r->host[index] == NULL) {
        return;
    }
    for (size_t i = 0; i < rows * slices; i++) {
        uint8_t *at = (uint8_t *)r->host[index] + i % rows * r->row_pitch[index] +
                      i / rows * r->slice_pitch[index];

        h = op->invalidate ? h : run_hash(at, row, h);
        if (op->invalidate || (op->status != 0 && (op->seed & 1) != 0)) {
            run_pattern(at, row, op->seed + i);
        } else if (op->status != 0) {
            run_pattern(at, row / 2, op->seed + i);
        }
    }
    fprintf(r->to, "op %d map content %016llx\n", index, (unsigned long long)h);
}

static cl_int
unmap_object(struct run *r, int index, cl_uint n, const cl_event *waits,
             cl_event *event)
{
    const struct op *op = &r->plan->ops[index];

    use_map(r, op->target);
    if (r->plan->ops[op->target].by_pointer) {
        return clEnqueueSVMUnmap(r->queues[op->queue], r->host[op->target], n, waits,
                                 event);
    }
    return clEnqueueUnmapMemObject(r->queues[op->queue], r->mems[op->mem[0]],
                                   r->host[op->target], n, waits, event);
}

static cl_int
fill_object(struct run *r, int index, cl_uint n, const cl_event *waits, cl_event *event)
{
    const struct op *op = &r->plan->ops[index];
    uint8_t bytes[128];

    run_pattern(bytes, sizeof(bytes), op->seed);
    if (op->kind == OP_FILL) {
        return clEnqueueFillBuffer(r->queues[op->queue], r->mems[op->mem[0]], bytes,
                                   op->row_pitch[0], op->offset[0], op->size, n, waits,
                                   event);
    }
    for (unsigned i = 0; i < 4 && r->plan->mems[op->mem[0]].format >= 2; i++) {
        ((cl_float *)(void *)bytes)[i] = (float)bytes[16 + i] / 256.0F;
    }
    return clEnqueueFillImage(r->queues[op->queue], r->mems[op->mem[0]], bytes,
                              op->origin[0], op->region, n, waits, event);
}

static cl_int
run_image(struct run *r, int index, cl_uint n, const cl_event *waits, cl_event *event)
{
    const struct op *op = &r->plan->ops[index];
    cl_command_queue q = r->queues[op->queue];
    cl_mem mem = r->mems[op->mem[0]];
    cl_mem src = op->mem[1] < 0 ? NULL : r->mems[op->mem[1]];
    cl_bool blocking = op->blocking ? CL_TRUE : CL_FALSE;

    switch (op->kind) {
    case OP_WRITE_IMAGE:
        return clEnqueueWriteImage(q, mem, blocking, op->origin[0], op->region,
                                   op->row_pitch[1], 0, host_memory(r, index, op->seed),
                                   n, waits, event);
    case OP_READ_IMAGE:
        return clEnqueueReadImage(q, mem, blocking, op->origin[0], op->region,
                                  op->row_pitch[1], 0, host_memory(r, index, op->seed),
                                  n, waits, event);
    case OP_COPY_IMAGE:
        return clEnqueueCopyImage(q, src, mem, op->origin[1], op->origin[0], op->region,
                                  n, waits, event);
    case OP_IMAGE_TO_BUFFER:
        return clEnqueueCopyImageToBuffer(q, src, mem, op->origin[0], op->region,
                                          op->offset[0], n, waits, event);
    default:
        return clEnqueueCopyBufferToImage(q, src, mem, op->offset[0], op->origin[0],
                                          op->region, n, waits, event);
    }
}

static cl_int
run_rectangle(struct run *r, int index, cl_uint n, const cl_event *waits,
              cl_event *event)
{
    const struct op *op = &r->plan->ops[index];
    cl_command_queue q = r->queues[op->queue];
    cl_mem mem = r->mems[op->mem[0]];
    cl_bool blocking = op->blocking ? CL_TRUE : CL_FALSE;
    size_t region[3] = {op->region[0], op->region[1], op->region[2]};

    if (r->fault == (int)op->kind && region[1] > 1) {
        region[1]--;
    }
    switch (op->kind) {
    case OP_WRITE_RECT:
        return clEnqueueWriteBufferRect(
            q, mem, blocking, op->origin[0], op->origin[1], region, op->row_pitch[0],
            op->slice_pitch[0], op->row_pitch[1], op->slice_pitch[1],
            host_memory(r, index, op->seed), n, waits, event);
    case OP_READ_RECT:
        return clEnqueueReadBufferRect(
            q, mem, blocking, op->origin[0], op->origin[1], region, op->row_pitch[0],
            op->slice_pitch[0], op->row_pitch[1], op->slice_pitch[1],
            host_memory(r, index, op->seed), n, waits, event);
    default:
        return clEnqueueCopyBufferRect(q, r->mems[op->mem[1]], mem, op->origin[1],
                                       op->origin[0], region, op->row_pitch[1],
                                       op->slice_pitch[1], op->row_pitch[0],
                                       op->slice_pitch[0], n, waits, event);
    }
}

static cl_int
enqueue(struct run *r, int index, cl_uint n, const cl_event *waits, cl_event *event)
{
    const struct op *op = &r->plan->ops[index];
    cl_command_queue q = r->queues[op->queue];
    cl_mem mem = op->mem[0] < 0 ? NULL : r->mems[op->mem[0]];
    cl_bool blocking = op->blocking ? CL_TRUE : CL_FALSE;

    if (op->by_pointer && op->kind != OP_MAP) {
        bool transfers = op->kind == OP_WRITE || op->kind == OP_READ;

        return pointer_enqueue(r, index,
                               transfers ? host_memory(r, index, op->seed) : NULL, n,
                               waits, event);
    }
    switch (op->kind) {
    case OP_WRITE:
        return clEnqueueWriteBuffer(q, mem, blocking, op->offset[0], op->size,
                                    host_memory(r, index, op->seed), n, waits, event);
    case OP_READ:
        return clEnqueueReadBuffer(q, mem, blocking, op->offset[0], op->size,
                                   host_memory(r, index, op->seed), n, waits, event);
    case OP_COPY:
        return clEnqueueCopyBuffer(q, r->mems[op->mem[1]], mem, op->offset[1],
                                   op->offset[0], op->size, n, waits, event);
    case OP_FILL:
    case OP_FILL_IMAGE:
        return fill_object(r, index, n, waits, event);
    case OP_WRITE_RECT:
    case OP_READ_RECT:
    case OP_COPY_RECT:
        return run_rectangle(r, index, n, waits, event);
    case OP_KERNEL:
        return run_kernel(r, index, n, waits, event);
    case OP_MIGRATE:
        return clEnqueueMigrateMemObjects(
            q, 1, &mem, op->invalidate ? CL_MIGRATE_MEM_OBJECT_HOST : 0, n, waits,
            event);
    case OP_MAP:
        return map_object(r, index, n, waits, event);
    case OP_UNMAP:
        return unmap_object(r, index, n, waits, event);
    case OP_MARKER:
        return clEnqueueMarkerWithWaitList(q, n, waits, event);
    case OP_BARRIER:
        return clEnqueueBarrierWithWaitList(q, n, waits, event);
    default:
        return run_image(r, index, n, waits, event);
    }
}

static void CL_CALLBACK
note_callback(cl_event event, cl_int status, void *user)
{
    struct callback *callback = user;

    (void)event;
    atomic_store(&callback->status, status);
    atomic_fetch_add(&callback->calls, 1);
}

cl_int
run_command(struct run *r, int index)
{
    const struct op *op = &r->plan->ops[index];
    cl_event waits[PLAN_WAITS];
    cl_int err;

    for (unsigned i = 0; i < op->wait_count; i++) {
        const struct op *before = &r->plan->ops[op->waits[i]];

        waits[i] = r->events[op->waits[i]];
        if (before->kind < OP_USER && before->queue != op->queue) {
            clFlush(r->queues[before->queue]);
        }
    }
    err = enqueue(r, index, op->wait_count, op->wait_count == 0 ? NULL : waits,
                  op->has_event ? &r->events[index] : NULL);
    if (err == CL_SUCCESS && op->callback) {
        r->callbacks[index].asked =
            clSetEventCallback(r->events[index], CL_COMPLETE, note_callback,
                               &r->callbacks[index]) == CL_SUCCESS;
    }
    if (r->events[index] != NULL && op->release_early) {
        clReleaseEvent(r->events[index]);
        r->events[index] = NULL;
    }
    return err;
}
