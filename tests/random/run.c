/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a random program from its objects to its results. */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const cl_channel_type types[MEM_IMAGE_FORMATS] = {
    CL_UNSIGNED_INT8, CL_UNSIGNED_INT32, CL_UNORM_INT8, CL_FLOAT};
static const cl_mem_object_type forms[MEM_IMAGE_FORMS] = {
    CL_MEM_OBJECT_IMAGE1D, CL_MEM_OBJECT_IMAGE2D, CL_MEM_OBJECT_IMAGE2D_ARRAY,
    CL_MEM_OBJECT_IMAGE3D};

/* ---- objects -------------------------------------------------------------------------------- */

static cl_command_queue
queue_of_context(const struct run *r, unsigned context)
{
    for (unsigned i = 0; i < r->plan->queue_count; i++) {
        if (r->plan->queues[i].context == context) {
            return r->queues[i];
        }
    }
    return NULL;
}

static cl_mem
create_image(struct run *r, const struct mem_plan *m, void *content, cl_int *err)
{
    cl_image_format format = {CL_RGBA, types[m->format]};
    cl_image_desc desc = {.image_type = forms[m->form],
                          .image_width = m->extent[0],
                          .image_height = m->form == 0 ? 0 : m->extent[1]};

    if (m->form == 2) {
        desc.image_array_size = m->extent[2];
    } else if (m->form == 3) {
        desc.image_depth = m->extent[2];
    }
    return clCreateImage(r->world->contexts[m->context],
                         CL_MEM_READ_WRITE |
                             (m->source == MEM_COPIED ? CL_MEM_COPY_HOST_PTR : 0),
                         &format, &desc, m->source == MEM_COPIED ? content : NULL, err);
}

static cl_mem
create_mem(struct run *r, unsigned i, void *content, cl_int *err)
{
    const struct mem_plan *m = &r->plan->mems[i];
    cl_mem_flags flags = CL_MEM_READ_WRITE;

    if (m->parent >= 0) {
        cl_buffer_region region = {m->origin, m->size};

        return clCreateSubBuffer(r->mems[m->parent], 0, CL_BUFFER_CREATE_TYPE_REGION,
                                 &region, err);
    }
    if (m->image) {
        return create_image(r, m, content, err);
    }
    if (m->source >= MEM_SVM) {
        *err = pointer_alloc(r, i) ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE;
        if (m->source == MEM_USM || *err != CL_SUCCESS) {
            return NULL;
        }
        content = r->mem_shared[i];
    }
    flags |= m->source == MEM_COPIED                         ? CL_MEM_COPY_HOST_PTR
             : m->source == MEM_USED || m->source == MEM_SVM ? CL_MEM_USE_HOST_PTR
                                                             : 0;
    return clCreateBuffer(r->world->contexts[m->context], flags, m->size,
                          m->source == MEM_WRITTEN ? NULL : content, err);
}

static cl_int
write_mem(struct run *r, unsigned i, const void *content)
{
    const struct mem_plan *m = &r->plan->mems[i];
    cl_command_queue q = queue_of_context(r, m->context);
    const size_t origin[3] = {0};

    if (m->image) {
        return clEnqueueWriteImage(q, r->mems[i], CL_TRUE, origin, m->extent, 0, 0,
                                   content, 0, NULL, NULL);
    }
    if (m->source >= MEM_SVM) {
        return pointer_copy(r, (int)i, q, r->mem_shared[i], content, m->size);
    }
    return clEnqueueWriteBuffer(q, r->mems[i], CL_TRUE, 0, m->size, content, 0, NULL,
                                NULL);
}

/** Waits for all commands of a queue; without clFinish where that returns early. */
static cl_int
finish(const struct run *r, cl_command_queue q)
{
    cl_event event;
    cl_int err;

    if ((r->plan->features & PLAN_FINISHES) != 0) {
        return clFinish(q);
    }
    err = clEnqueueMarkerWithWaitList(q, 0, NULL, &event);
    if (err == CL_SUCCESS) {
        err = clWaitForEvents(1, &event);
        clReleaseEvent(event);
    }
    return err;
}

static void
create_objects(struct run *r)
{
    cl_int err;

    for (unsigned i = 0; i < r->plan->queue_count; i++) {
        const struct queue_plan *q = &r->plan->queues[i];

        /* drivers of 1.2 lack clCreateCommandQueueWithProperties, and the loader then spins */
        r->queues[i] = clCreateCommandQueue(
            r->world->contexts[q->context],
            r->world->devices[q->device % r->world->device_count],
            q->out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, &err);
        if (err != CL_SUCCESS) {
            fprintf(r->to, "queue %u call %d\n", i, err);
        }
    }
    for (unsigned i = 0; i < r->plan->mem_count; i++) {
        const struct mem_plan *m = &r->plan->mems[i];
        void *content = aligned_alloc(4096, (m->size + 4095) / 4096 * 4096);

        if (content == NULL) {
            abort();
        }
        run_pattern(content, m->size, plan_mix(r->plan->seed, 2000 + i));
        r->mems[i] = create_mem(r, i, content, &err);
        if (err == CL_SUCCESS && m->parent < 0 && m->source >= MEM_WRITTEN) {
            err = write_mem(r, i, content);
            finish(r, queue_of_context(r, m->context)); /* other queues use it, too */
        }
        if (err != CL_SUCCESS) {
            fprintf(r->to, "mem %u call %d\n", i, err);
        }
        r->mem_host[i] = content;
    }
}

static void
release_objects(struct run *r)
{
    for (unsigned i = 0; i < r->plan->op_count; i++) {
        if (r->events[i] != NULL) {
            clReleaseEvent(r->events[i]);
        }
        if (r->host_size[i] != 0) {
            free(r->host[i]);
        }
    }
    for (unsigned i = r->plan->mem_count; i-- > 0;) {
        if (r->mems[i] != NULL) {
            clReleaseMemObject(r->mems[i]);
        }
    }
    for (unsigned i = 0; i < r->plan->queue_count; i++) {
        if (r->queues[i] != NULL) {
            finish(r, r->queues[i]); /* the driver may use host memory until then */
            clReleaseCommandQueue(r->queues[i]);
        }
    }
    for (unsigned i = 0; i < r->plan->mem_count; i++) {
        free(r->mem_host[i]);
        pointer_free(r, i);
    }
}

/* ---- commands --------------------------------------------------------------------------------- */

static cl_int
run_op(struct run *r, int index)
{
    const struct op *op = &r->plan->ops[index];
    cl_event waits[PLAN_WAITS];
    cl_int err = CL_SUCCESS;

    switch (op->kind) {
    case OP_USER:
        r->events[index] = clCreateUserEvent(r->world->contexts[op->context], &err);
        return err;
    case OP_SET:
        return clSetUserEventStatus(r->events[op->target],
                                    r->plan->ops[op->target].status);
    case OP_WAIT:
        for (unsigned i = 0; i < op->wait_count; i++) {
            waits[i] = r->events[op->waits[i]];
        }
        return clWaitForEvents(op->wait_count, waits);
    case OP_FLUSH:
        return clFlush(r->queues[op->queue]);
    case OP_FINISH:
        return finish(r, r->queues[op->queue]);
    default:
        return run_command(r, index);
    }
}

/** The error of a call, or what OpenCL has for it where a driver names a user event's status. */
static cl_int
error_of(const struct run *r, const struct op *op, cl_int err)
{
    if (err == CL_SUCCESS || (r->plan->features & PLAN_WAIT_ERRORS) != 0) {
        return err;
    }
    for (unsigned i = 0; i < r->plan->op_count; i++) {
        if (r->plan->ops[i].kind == OP_USER && r->plan->ops[i].status == err) {
            return op->kind == OP_FINISH ? CL_SUCCESS
                                         : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        }
    }
    return err;
}

/* ---- results ---------------------------------------------------------------------------------- */

/** Callbacks may come later than the end of their command. */
static bool
await_callback(struct callback *callback)
{
    for (unsigned i = 0;
         callback->asked && i < 5000 && atomic_load(&callback->calls) == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return atomic_load(&callback->calls) == 1;
}

/** Drivers do not agree about the error of a command that waits for one that has failed. */
static int
comparable(const struct op *op, cl_int status)
{
    return status < 0 && op->kind != OP_USER ? -1 : status;
}

static void
report_op(struct run *r, unsigned i)
{
    const struct op *op = &r->plan->ops[i];
    cl_int status = 1;
    cl_command_type type = 0;

    if (r->host_size[i] != 0 && (op->kind == OP_READ || op->kind == OP_READ_RECT ||
                                 op->kind == OP_READ_IMAGE)) {
        fprintf(r->to, "op %u", i);
        run_print_content(r->to, r->host[i], r->host_size[i]);
    }
    if (r->events[i] != NULL) {
        if ((r->plan->features & PLAN_FINISHES) == 0) {
            clWaitForEvents(1, &r->events[i]);
        }
        clGetEventInfo(r->events[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                       &status, NULL);
        clGetEventInfo(r->events[i], CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL);
        fprintf(r->to, "op %u event status %d type 0x%x\n", i, comparable(op, status),
                (r->plan->features & PLAN_TYPES) != 0 ? pointer_type(type) : 0);
    }
    if (op->callback) {
        bool once = await_callback(&r->callbacks[i]);

        fprintf(r->to, "op %u callback %s status %d\n", i, once ? "once" : "not once",
                comparable(op, atomic_load(&r->callbacks[i].status)));
    }
}

static void
report_mem(struct run *r, unsigned i)
{
    const struct mem_plan *m = &r->plan->mems[i];
    cl_command_queue q = queue_of_context(r, m->context);
    const size_t origin[3] = {0};
    uint8_t *content = calloc(1, m->size);
    cl_int err;

    if (content == NULL) {
        abort();
    }
    if (m->source == MEM_USM && m->parent < 0) {
        err = pointer_copy(r, (int)i, q, content, r->mem_shared[i], m->size);
        fprintf(r->to, "mem %u call %d", i, err);
        run_print_content(r->to, content, m->size);
        free(content);
        return;
    }
    err = m->image ? clEnqueueReadImage(q, r->mems[i], CL_TRUE, origin, m->extent, 0, 0,
                                        content, 0, NULL, NULL)
                   : clEnqueueReadBuffer(q, r->mems[i], CL_TRUE, 0, m->size, content, 0,
                                         NULL, NULL);
    fprintf(r->to, "mem %u call %d", i, err);
    run_print_content(r->to, content, m->size);
    free(content);
}

static void
begin_kill(struct run *r, unsigned op)
{
    if (!r->kill->while_building && r->kill->op == op) {
        kill_begin(r->kill);
    }
}

void
run_plan(const struct world *w, const struct plan *plan, int fault, struct kill *kill,
         FILE *to)
{
    static struct run run; /* large */
    struct run *r = &run;

    memset(r, 0, sizeof(*r));
    r->world = w;
    r->plan = plan;
    r->fault = fault;
    r->kill = kill;
    r->to = to;
    create_objects(r);
    for (unsigned i = 0; i < plan->op_count; i++) {
        cl_int err;

        begin_kill(r, i);
        err = error_of(r, &plan->ops[i], run_op(r, (int)i));
        if (err != CL_SUCCESS) {
            fprintf(to, "op %u call %d\n", i, err);
        }
    }
    begin_kill(r, plan->op_count);
    for (unsigned i = 0; i < plan->op_count; i++) {
        report_op(r, i);
    }
    for (unsigned i = 0; i < plan->mem_count; i++) {
        report_mem(r, i);
    }
    kill_end(r->kill);
    release_objects(r);
}
