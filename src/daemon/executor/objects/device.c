/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds devices of the inventory, and creates sub-devices, whose numbers the client chooses.
 * A sub-device lives as long as the client or a context holds it.
 */
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"

enum { PROPERTIES_MAX = TP_WIRE_SUB_DEVICES_MAX + 3 }; /* type, counts, end, end */

struct sub_device {
    struct tp_exec_object obj;
    cl_device_id native;
    int version;
};

void
tp_exec_sub_device_free(struct tp_exec_object *o)
{
    struct sub_device *sub = tp_container_of(o, struct sub_device, obj);

    if (sub->native != NULL) {
        o->x->cl.ReleaseDevice(sub->native);
    }
    tp_free(sub);
}

bool
tp_exec_find_device(struct tp_exec *x, uint64_t number,
                    struct tp_exec_device *ret_device)
{
    struct sub_device *sub;

    if (number < x->inventory.device_count &&
        x->inventory.devices[number].platform == x->platform) {
        const struct tp_opencl_device *d = &x->inventory.devices[number];

        *ret_device =
            (struct tp_exec_device){(uint32_t)number, d->id, d->version, NULL};
        return true;
    }
    if (number < TP_WIRE_SUB_DEVICE_FIRST || number > UINT32_MAX ||
        tp_exec_find(x, tp_wire_id(TP_WIRE_KIND_DEVICE, number), TP_WIRE_KIND_DEVICE,
                     &sub) != 0) {
        return false;
    }
    *ret_device =
        (struct tp_exec_device){(uint32_t)number, sub->native, sub->version, &sub->obj};
    return true;
}

const struct tp_exec_device *
tp_exec_context_device(const struct tp_exec_context *c, uint64_t number)
{
    for (uint32_t i = 0; i < c->device_count; i++) {
        if (c->devices[i].number == number) {
            return &c->devices[i];
        }
    }
    return NULL;
}

bool
tp_exec_device_is_in(const struct tp_opencl *cl, cl_device_id device,
                     cl_device_id whole)
{
    while (device != NULL && device != whole) {
        cl_device_id parent = NULL;

        (void)cl->GetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof(cl_device_id),
                                &parent, NULL);
        device = parent;
    }
    return device != NULL;
}

/* ---- partitioning ---- */

/* One SUB_DEVICES on its way through the driver. */
struct partition {
    struct tp_exec *x;
    const struct tp_wire_sub_devices *m;
    struct tp_exec_device parent;
    cl_device_partition_property properties[PROPERTIES_MAX];
    cl_uint count; /* of sub-devices */
    cl_device_id *devices;
    struct tp_buf facts;
};

/*
 * Makes the driver's list of properties from the message. Some drivers do not check the numbers, so
 * numbers above the device's compute units are refused. @return 0 or the CL error
 */
static int32_t
take_properties(struct partition *p)
{
    const struct tp_wire_u64s *list = &p->m->properties;
    uint64_t type = list->count > 0 ? tp_wire_u64_at(list, 0) : 0;
    bool counts = type == CL_DEVICE_PARTITION_BY_COUNTS;
    cl_uint units = 0;

    if ((!counts && type != CL_DEVICE_PARTITION_EQUALLY &&
         type != CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN) ||
        list->count < 2 || (!counts && list->count > 2)) {
        return CL_INVALID_VALUE;
    }
    if (list->count > TP_WIRE_SUB_DEVICES_MAX + 1) {
        return CL_INVALID_DEVICE_PARTITION_COUNT;
    }
    (void)p->x->cl.GetDeviceInfo(p->parent.native, CL_DEVICE_MAX_COMPUTE_UNITS,
                                 sizeof(units), &units, NULL);
    p->properties[0] = (cl_device_partition_property)type;
    for (uint16_t i = 1; i < list->count; i++) {
        uint64_t value = tp_wire_u64_at(list, i);

        if (value == 0 || value > INT32_MAX ||
            (type != CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN && value > units)) {
            return counts ? CL_INVALID_DEVICE_PARTITION_COUNT : CL_INVALID_VALUE;
        }
        p->properties[i] = (cl_device_partition_property)value;
    }
    return 0;
}

/* Has the driver count them and, if there is room for any, make them. */
static int32_t
make_devices(struct partition *p)
{
    const struct tp_opencl *cl = &p->x->cl;
    int32_t error =
        cl->CreateSubDevices(p->parent.native, p->properties, 0, NULL, &p->count);

    if (error != 0 || p->m->room == 0) {
        return error;
    }
    if (p->count > p->m->room) {
        return CL_INVALID_VALUE;
    }
    p->devices = tp_alloc_array(p->count, sizeof(*p->devices), "sub-devices");
    if (p->devices == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    error = cl->CreateSubDevices(p->parent.native, p->properties, p->count, p->devices,
                                 NULL);
    if (error != 0) {
        tp_free(p->devices);
        p->devices = NULL;
    }
    return error;
}

/* Says what is different in the first one, and in the others than in that. */
static int32_t
gather_facts(struct partition *p)
{
    uint32_t platform = p->x->platform;
    telpher_status status = TELPHER_OK;

    for (cl_uint i = 0; i < p->count && status == TELPHER_OK; i++) {
        status = tp_opencl_facts_of_sub_device(
            &p->x->cl, p->devices[i], i == 0 ? p->parent.native : p->devices[0],
            p->m->first + i, platform, &p->facts);
        if (tp_buf_len(&p->facts) > TP_WIRE_BLOB_MAX) {
            status = TELPHER_ERR_LIMIT;
        }
    }
    return status == TELPHER_OK ? 0 : CL_OUT_OF_HOST_MEMORY;
}

/* Enters them under their numbers; from then on the table has them. */
static telpher_status
enter_devices(struct partition *p)
{
    for (cl_uint i = 0; i < p->count; i++) {
        struct sub_device *sub;
        telpher_status status =
            tp_exec_create(p->x, tp_wire_id(TP_WIRE_KIND_DEVICE, p->m->first + i),
                           TP_WIRE_KIND_DEVICE, sizeof(*sub), &sub);

        if (status != TELPHER_OK) {
            return status;
        }
        sub->native = p->devices[i];
        sub->version = p->parent.version;
        p->devices[i] = NULL;
    }
    return TELPHER_OK;
}

static void
partition_fini(struct partition *p)
{
    for (cl_uint i = 0; p->devices != NULL && i < p->count; i++) {
        if (p->devices[i] != NULL) {
            p->x->cl.ReleaseDevice(p->devices[i]);
        }
    }
    tp_free(p->devices);
    tp_buf_fini(&p->facts);
}

static telpher_status
partition_device(struct partition *p)
{
    struct tp_wire_sub_devices_reply reply = {.request = p->m->request};
    telpher_status status = TELPHER_OK;

    reply.status = tp_exec_find_device(p->x, p->m->device, &p->parent)
                       ? take_properties(p)
                       : CL_INVALID_DEVICE;
    if (reply.status == 0) {
        reply.status = make_devices(p);
    }
    if (reply.status == 0 && p->devices != NULL) {
        reply.status = gather_facts(p);
    }
    if (reply.status == 0) {
        reply.count = p->count;
        reply.facts = (struct tp_wire_bytes){(uint32_t)tp_buf_len(&p->facts),
                                             tp_buf_data(&p->facts)};
        if (p->devices != NULL) {
            status = enter_devices(p);
        }
    }
    tp_exec_put(p->x, TP_WIRE_SUB_DEVICES_REPLY, &reply);
    return status;
}

telpher_status
tp_exec_on_sub_devices(struct tp_exec *x, const struct tp_wire_sub_devices *m)
{
    struct partition p = {.x = x, .m = m};
    telpher_status status;

    if (m->first < TP_WIRE_SUB_DEVICE_FIRST || m->room > TP_WIRE_SUB_DEVICES_MAX ||
        m->first > UINT32_MAX - m->room) {
        return TELPHER_ERR_PROTO;
    }
    tp_buf_init(&p.facts, 0);
    status = partition_device(&p);
    partition_fini(&p);
    return status;
}

/* ---- clocks ---- */

/* Reads the clock of a device; the client dates it by the time of the exchange. */
static int32_t
read_clock(struct tp_exec *x, const struct tp_exec_device *d, cl_ulong *ret_device_ns)
{
    cl_ulong host_ns;

    if (d->version < 210 || x->cl.GetDeviceAndHostTimer == NULL) {
        return CL_INVALID_OPERATION;
    }
    return x->cl.GetDeviceAndHostTimer(d->native, ret_device_ns, &host_ns);
}

telpher_status
tp_exec_on_device_timer(struct tp_exec *x, const struct tp_wire_device_timer *m)
{
    struct tp_wire_device_timer_reply reply = {.request = m->request};
    struct tp_exec_device d;
    cl_ulong device_ns = 0;

    reply.status = tp_exec_find_device(x, m->device, &d) ? read_clock(x, &d, &device_ns)
                                                         : CL_INVALID_DEVICE;
    reply.device_ns = device_ns;
    tp_exec_put(x, TP_WIRE_DEVICE_TIMER_REPLY, &reply);
    return TELPHER_OK;
}
