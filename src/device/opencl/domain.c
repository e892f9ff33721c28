/* SPDX-License-Identifier: Apache-2.0 */
/* Copies chunks between host memory and OpenCL buffers. */
#include "device/opencl/domain.h"

#include <stdatomic.h>

#include "base/alloc.h"

struct domain {
    struct tp_device device;
    const struct tp_opencl *cl;
    cl_command_queue queue;
};

/* Arguments of a native callback. */
struct running {
    const struct tp_opencl *cl;
    _Atomic(struct tp_device_copy *) copy; /* orders start() before copied() */
};

cl_int
tp_opencl_queue_create(const struct tp_opencl *cl, cl_context context,
                       cl_device_id device, int version,
                       cl_command_queue_properties properties,
                       cl_command_queue *ret_queue)
{
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, properties, 0};
    cl_command_queue queue;
    cl_int error = CL_SUCCESS;

    if (version >= 200 && cl->CreateCommandQueueWithProperties != NULL) {
        queue = cl->CreateCommandQueueWithProperties(context, device, list, &error);
    } else {
        queue = cl->CreateCommandQueue(context, device, properties, &error);
    }
    if (error == CL_SUCCESS) {
        *ret_queue = queue;
    }
    return error;
}

static uint64_t
stamp(const struct tp_opencl *cl, cl_event event, cl_profiling_info which)
{
    cl_ulong ns = 0;

    if (cl->GetEventProfilingInfo(event, which, sizeof(ns), &ns, NULL) != CL_SUCCESS) {
        return 0;
    }
    return ns;
}

static void CL_CALLBACK
copied(cl_event event, cl_int status, void *arg)
{
    struct running *r = arg;
    struct tp_device_copy *copy = atomic_load(&r->copy);

    if (status >= 0) {
        copy->start_ns = stamp(r->cl, event, CL_PROFILING_COMMAND_START);
        copy->end_ns = stamp(r->cl, event, CL_PROFILING_COMMAND_END);
    }
    r->cl->ReleaseEvent(event);
    tp_free(r);
    copy->done(copy, status < 0 ? status : 0);
}

static bool
is_plain(const struct tp_device_box *box)
{
    return box->region[1] == 1 && box->region[2] == 1;
}

/* [bytes] where the first row of a box lies. */
static size_t
box_start(const struct tp_device_box *box)
{
    return box->origin[0] + box->origin[1] * box->row_pitch +
           box->origin[2] * box->slice_pitch;
}

/* A driver may refuse pitches that it does not need: those of single rows and slices. */
struct rect {
    size_t origin[3], region[3], zero[3], row, slice;
};

static struct rect
make_rect(const struct tp_device_box *box)
{
    struct rect r = {.row = box->row_pitch, .slice = box->slice_pitch};

    for (int i = 0; i < 3; i++) {
        r.origin[i] = box->origin[i];
        r.region[i] = box->region[i];
    }
    return r;
}

/* The same box in elements, as the calls for images want it. */
static struct rect
make_image_rect(const struct tp_device_box *box)
{
    struct rect r = make_rect(box);

    r.origin[0] /= box->element;
    r.region[0] /= box->element;
    return r;
}

static cl_int
enqueue_read(struct domain *d, struct tp_device_copy *copy, cl_event *ret_event)
{
    const struct tp_device_box *box = &copy->box;
    struct rect r;

    if (box->element != 0) {
        r = make_image_rect(box);
        return d->cl->EnqueueReadImage(d->queue, copy->mem, CL_FALSE, r.origin,
                                       r.region, 0, 0, copy->host, 0, NULL, ret_event);
    }
    if (is_plain(box)) {
        return d->cl->EnqueueReadBuffer(d->queue, copy->mem, CL_FALSE, box_start(box),
                                        box->region[0], copy->host, 0, NULL, ret_event);
    }
    r = make_rect(box);
    return d->cl->EnqueueReadBufferRect(d->queue, copy->mem, CL_FALSE, r.origin, r.zero,
                                        r.region, r.row, r.slice, 0, 0, copy->host, 0,
                                        NULL, ret_event);
}

static cl_int
enqueue_write(struct domain *d, struct tp_device_copy *copy, cl_event *ret_event)
{
    const struct tp_device_box *box = &copy->box;
    struct rect r;

    if (box->element != 0) {
        r = make_image_rect(box);
        return d->cl->EnqueueWriteImage(d->queue, copy->mem, CL_FALSE, r.origin,
                                        r.region, 0, 0, copy->host, 0, NULL, ret_event);
    }
    if (is_plain(box)) {
        return d->cl->EnqueueWriteBuffer(d->queue, copy->mem, CL_FALSE, box_start(box),
                                         box->region[0], copy->host, 0, NULL,
                                         ret_event);
    }
    r = make_rect(box);
    return d->cl->EnqueueWriteBufferRect(d->queue, copy->mem, CL_FALSE, r.origin,
                                         r.zero, r.region, r.row, r.slice, 0, 0,
                                         copy->host, 0, NULL, ret_event);
}

static int32_t
start(struct domain *d, struct tp_device_copy *copy,
      cl_int (*enqueue)(struct domain *, struct tp_device_copy *, cl_event *))
{
    struct running *r = tp_malloc(sizeof(*r), "copy");
    cl_event event;
    cl_int error;

    if (r == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    r->cl = d->cl;
    atomic_init(&r->copy, NULL);
    error = enqueue(d, copy, &event);
    if (error != CL_SUCCESS) {
        tp_free(r);
        return error;
    }
    atomic_store(&r->copy, copy);
    if (d->cl->SetEventCallback(event, CL_COMPLETE, copied, r) != CL_SUCCESS) {
        /* the driver has the memory already, so its end must be seen some way */
        copied(event, d->cl->WaitForEvents(1, &event), r);
    }
    return 0;
}

static int32_t
domain_read(struct tp_device *device, struct tp_device_copy *copy)
{
    return start(tp_container_of(device, struct domain, device), copy, enqueue_read);
}

static int32_t
domain_write(struct tp_device *device, struct tp_device_copy *copy)
{
    return start(tp_container_of(device, struct domain, device), copy, enqueue_write);
}

static void
domain_flush(struct tp_device *device)
{
    struct domain *d = tp_container_of(device, struct domain, device);

    (void)d->cl->Flush(d->queue);
}

static void
domain_destroy(struct tp_device *device)
{
    struct domain *d = tp_container_of(device, struct domain, device);

    d->cl->ReleaseCommandQueue(d->queue);
    tp_free(d);
}

static const struct tp_device_ops domain_ops = {
    .name = "opencl",
    .read = domain_read,
    .write = domain_write,
    .flush = domain_flush,
    .destroy = domain_destroy,
};

cl_int
tp_opencl_domain_create(const struct tp_opencl *cl, cl_context context,
                        cl_device_id device, int version, struct tp_device **ret_device)
{
    struct domain *d = tp_zalloc(sizeof(*d), "domain");
    cl_command_queue_properties can = 0;
    cl_int error;

    if (d == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    (void)cl->GetDeviceInfo(device, CL_DEVICE_QUEUE_PROPERTIES, sizeof(can), &can,
                            NULL);
    can &= CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    error = tp_opencl_queue_create(cl, context, device, version, can, &d->queue);
    if (error != CL_SUCCESS) {
        tp_free(d);
        return error;
    }
    d->device.ops = &domain_ops;
    d->cl = cl;
    *ret_device = &d->device;
    return CL_SUCCESS;
}
