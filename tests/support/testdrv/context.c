/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts and command queues of the test driver. */
#include "td.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
destroy_context(struct td_obj *obj)
{
    cl_context c = (cl_context)obj;

    td_callback_run(c->on_destroy, c);
    free(c->props);
    free(c);
}

bool
td_context_has(cl_context context, cl_device_id device)
{
    for (cl_uint i = 0; i < context->num_devices; i++) {
        if (context->device[i] == device) {
            return true;
        }
    }
    return false;
}

void
td_context_notify(cl_context context, const char *text)
{
    fprintf(stderr, "testdrv: %s\n", text);
    if (context->notify != NULL) {
        context->notify(text, NULL, 0, context->notify_data);
    }
}

/* Checks a list of properties. @return its length with the final 0, in *ret_count. */
static cl_int
check_context_props(const cl_context_properties *props, size_t *ret_count)
{
    size_t n = 0;

    *ret_count = 0;
    if (props == NULL) {
        return CL_SUCCESS;
    }
    for (; props[n] != 0; n += 2) {
        switch (props[n]) {
        case CL_CONTEXT_PLATFORM:
            if ((cl_platform_id)props[n + 1] != td_platform()) {
                return CL_INVALID_PLATFORM;
            }
            break;
        case CL_CONTEXT_INTEROP_USER_SYNC:
            break;
        default:
            return CL_INVALID_PROPERTY;
        }
    }
    *ret_count = n + 1;
    return CL_SUCCESS;
}

static cl_int
check_devices(cl_uint count, const cl_device_id *devices)
{
    if (count == 0 || count > TD_DEVICES_MAX || devices == NULL) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (!td_is(devices[i], TD_DEVICE)) {
            return CL_INVALID_DEVICE;
        }
    }
    return CL_SUCCESS;
}

static cl_int
create_context(const cl_context_properties *props, cl_uint count,
               const cl_device_id *devices, cl_context *ret_context)
{
    size_t num_props;
    cl_int err = check_context_props(props, &num_props);
    cl_context c;

    if (err == CL_SUCCESS) {
        err = check_devices(count, devices);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    c = td_new(TD_CONTEXT, sizeof(*c), destroy_context);
    if (c == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    c->props_bytes = num_props * sizeof(*props);
    c->props = calloc(num_props + 1, sizeof(*props));
    if (c->props == NULL) {
        td_unref(c);
        return CL_OUT_OF_HOST_MEMORY;
    }
    if (num_props > 0) {
        memcpy(c->props, props, c->props_bytes);
    }
    c->num_devices = count;
    memcpy(c->device, devices, count * sizeof(*devices));
    *ret_context = c;
    return CL_SUCCESS;
}

typedef void(CL_CALLBACK *notify_fn)(const char *, const void *, size_t, void *);

CL_API_ENTRY cl_context CL_API_CALL
td_clCreateContext(const cl_context_properties *props, cl_uint num_devices,
                   const cl_device_id *devices, notify_fn notify, void *data,
                   cl_int *errcode_ret)
{
    cl_context c = NULL;
    cl_int err = td_enter("clCreateContext", "devices=%u", num_devices);

    if (err == CL_SUCCESS && notify == NULL && data != NULL) {
        err = CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS) {
        err = create_context(props, num_devices, devices, &c);
    }
    if (c != NULL) {
        c->notify = notify;
        c->notify_data = data;
    }
    td_set_error(errcode_ret, err);
    return c;
}

CL_API_ENTRY cl_context CL_API_CALL
td_clCreateContextFromType(const cl_context_properties *props, cl_device_type type,
                           notify_fn notify, void *data, cl_int *errcode_ret)
{
    cl_device_id devices[TD_DEVICES_MAX];
    cl_uint count = 0;
    cl_int err =
        td_enter("clCreateContextFromType", "type=%#llx", (unsigned long long)type);

    if (err == CL_SUCCESS) {
        err = td_clGetDeviceIDs(td_platform(), type, TD_DEVICES_MAX, devices, &count);
    }
    if (err != CL_SUCCESS) {
        td_set_error(errcode_ret, err);
        return NULL;
    }
    return td_clCreateContext(props, count, devices, notify, data, errcode_ret);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clRetainContext(cl_context context)
{
    cl_int err = td_enter("clRetainContext", "context=%u", td_id(context));

    return err != CL_SUCCESS ? err : td_retain(context, TD_CONTEXT, CL_INVALID_CONTEXT);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clReleaseContext(cl_context context)
{
    cl_int err = td_enter("clReleaseContext", "context=%u", td_id(context));

    return err != CL_SUCCESS ? err
                             : td_release(context, TD_CONTEXT, CL_INVALID_CONTEXT);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetContextInfo(cl_context c, cl_context_info name, size_t size, void *value,
                    size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetContextInfo", "context=%u name=%#x", td_id(c), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(c, TD_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    switch (name) {
    case CL_CONTEXT_REFERENCE_COUNT:
        return td_out_u32(out, td_api_refs(c));
    case CL_CONTEXT_NUM_DEVICES:
        return td_out_u32(out, c->num_devices);
    case CL_CONTEXT_DEVICES:
        return td_out_bytes(out, c->device, c->num_devices * sizeof(c->device[0]));
    case CL_CONTEXT_PROPERTIES:
        return td_out_bytes(out, c->props, c->props_bytes);
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clSetContextDestructorCallback(cl_context context,
                                  void(CL_CALLBACK *fn)(cl_context, void *), void *data)
{
    cl_int err =
        td_enter("clSetContextDestructorCallback", "context=%u", td_id(context));

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(context, TD_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    if (fn == NULL) {
        return CL_INVALID_VALUE;
    }
    return td_callback_add(&context->on_destroy,
                           (void(CL_CALLBACK *)(void *, void *))fn, data)
               ? CL_SUCCESS
               : CL_OUT_OF_HOST_MEMORY;
}

/* Nothing is left to run: each command holds a reference on its queue. */
static void
destroy_queue(struct td_obj *obj)
{
    cl_command_queue q = (cl_command_queue)obj;

    td_unref(q->last);
    td_unref(q->barrier);
    td_unref(q->context);
    td_queue_close(q); /* frees it, now or when its last thread has left */
}

/* Reads the property list; only what this driver has is allowed. */
static cl_int
read_queue_props(const cl_queue_properties *list,
                 cl_command_queue_properties *ret_props, size_t *ret_count)
{
    const cl_command_queue_properties known =
        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    size_t n = 0;

    *ret_props = 0;
    *ret_count = 0;
    if (list == NULL) {
        return CL_SUCCESS;
    }
    for (; list[n] != 0; n += 2) {
        if (list[n] != CL_QUEUE_PROPERTIES || n > 4) {
            return CL_INVALID_VALUE;
        }
        *ret_props = list[n + 1];
    }
    if ((*ret_props & CL_QUEUE_ON_DEVICE) != 0) {
        return CL_INVALID_QUEUE_PROPERTIES;
    }
    *ret_count = n + 1;
    return (*ret_props & ~known) == 0 ? CL_SUCCESS : CL_INVALID_VALUE;
}

static cl_int
create_queue(cl_context context, cl_device_id device, const cl_queue_properties *list,
             cl_command_queue *ret_queue)
{
    cl_command_queue_properties props;
    cl_command_queue q;
    size_t count;
    cl_int err;

    if (!td_is(context, TD_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    if (!td_is(device, TD_DEVICE) || !td_context_has(context, device)) {
        return CL_INVALID_DEVICE;
    }
    err = read_queue_props(list, &props, &count);
    if (err != CL_SUCCESS) {
        return err;
    }
    q = td_new(TD_QUEUE, sizeof(*q), destroy_queue);
    if (q == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    td_ref(context);
    q->context = context;
    q->device = device;
    q->props = props;
    q->prop_bytes = count * sizeof(*list);
    if (count > 0) {
        memcpy(q->prop_list, list, q->prop_bytes);
    }
    pthread_cond_init(&q->work, NULL);
    *ret_queue = q;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_command_queue CL_API_CALL
td_clCreateCommandQueue(cl_context context, cl_device_id device,
                        cl_command_queue_properties props, cl_int *errcode_ret)
{
    const cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, props, 0};
    cl_command_queue q = NULL;
    cl_int err = td_enter("clCreateCommandQueue", "context=%u device=%u props=%#llx",
                          td_id(context), td_id(device), (unsigned long long)props);

    if (err == CL_SUCCESS) {
        err = create_queue(context, device, list, &q);
    }
    if (q != NULL) {
        q->prop_bytes = 0; /* no list was given */
    }
    td_set_error(errcode_ret, err);
    return q;
}

CL_API_ENTRY cl_command_queue CL_API_CALL
td_clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                      const cl_queue_properties *list,
                                      cl_int *errcode_ret)
{
    cl_command_queue q = NULL;
    cl_int err = td_enter("clCreateCommandQueueWithProperties", "context=%u device=%u",
                          td_id(context), td_id(device));

    if (err == CL_SUCCESS) {
        err = create_queue(context, device, list, &q);
    }
    td_set_error(errcode_ret, err);
    return q;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clRetainCommandQueue(cl_command_queue queue)
{
    cl_int err = td_enter("clRetainCommandQueue", "queue=%u", td_id(queue));

    return err != CL_SUCCESS ? err
                             : td_retain(queue, TD_QUEUE, CL_INVALID_COMMAND_QUEUE);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clReleaseCommandQueue(cl_command_queue queue)
{
    cl_int err = td_enter("clReleaseCommandQueue", "queue=%u", td_id(queue));

    if (err != CL_SUCCESS) {
        return err;
    }
    if (td_is(queue, TD_QUEUE)) {
        td_flush(queue); /* the last release flushes; the others may */
    }
    return td_release(queue, TD_QUEUE, CL_INVALID_COMMAND_QUEUE);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetCommandQueueInfo(cl_command_queue q, cl_command_queue_info name, size_t size,
                         void *value, size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetCommandQueueInfo", "queue=%u name=%#x", td_id(q), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(q, TD_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (td_script()->version12 && name > CL_QUEUE_PROPERTIES) {
        return CL_INVALID_VALUE;
    }
    switch (name) {
    case CL_QUEUE_CONTEXT:
        return td_out_ptr(out, q->context);
    case CL_QUEUE_DEVICE:
        return td_out_ptr(out, q->device);
    case CL_QUEUE_REFERENCE_COUNT:
        return td_out_u32(out, td_api_refs(q));
    case CL_QUEUE_PROPERTIES:
        return td_out_u64(out, q->props);
    case CL_QUEUE_SIZE:
        return CL_INVALID_COMMAND_QUEUE; /* not a device queue */
    case CL_QUEUE_DEVICE_DEFAULT:
        return td_out_ptr(out, NULL);
    case CL_QUEUE_PROPERTIES_ARRAY:
        return td_out_bytes(out, q->prop_list, q->prop_bytes);
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clFlush(cl_command_queue queue)
{
    cl_int err = td_enter("clFlush", "queue=%u", td_id(queue));

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(queue, TD_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    td_flush(queue);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clFinish(cl_command_queue queue)
{
    const struct td_wait wait = {.blocking = CL_TRUE};
    cl_int err = td_enter("clFinish", "queue=%u", td_id(queue));

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(queue, TD_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    td_marker(queue, false, "clFinish", &wait);
    return CL_SUCCESS;
}
