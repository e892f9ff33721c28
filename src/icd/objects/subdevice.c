/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-devices. The server's driver partitions a device, which costs a round trip. The reply
 * has the facts in which the parts differ from the device, so that queries cost none. A
 * sub-device belongs to the session that created it.
 */
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/container/refcount.h"

/** State shared by the sub-devices of one call. */
struct tp_icd_subs {
    struct tp_refcount refs; /**< one a part */
    struct tp_icd_session *session;
    struct tp_icd_facts *facts; /**< in what they differ from the parent */
    uint32_t first; /**< number of the first one; the others differ from that */
};

static _Atomic uint64_t next_number = TP_WIRE_SUB_DEVICE_FIRST;

bool
tp_icd_sub_device_fact(const struct _cl_device_id *dev, uint32_t param,
                       struct tp_wire_fact *ret_fact)
{
    const struct tp_icd_subs *subs = dev->subs;

    return tp_icd_facts_get(subs->facts, TP_WIRE_FACT_DEVICE, dev->index, dev->platform,
                            param, ret_fact) ||
           tp_icd_facts_get(subs->facts, TP_WIRE_FACT_DEVICE, subs->first,
                            dev->platform, param, ret_fact);
}

struct tp_icd_session *
tp_icd_sub_device_session(const struct _cl_device_id *dev)
{
    return dev->subs->session;
}

/* ---- life ---------------------------------------------------------------------------- */

static void
subs_unref(struct tp_icd_subs *subs)
{
    if (tp_refcount_put(&subs->refs)) {
        tp_icd_facts_destroy(subs->facts);
        tp_free(subs);
    }
}

static void
sub_device_destroy(struct tp_icd_object *obj)
{
    struct _cl_device_id *dev = (struct _cl_device_id *)obj;

    tp_icd_lock();
    tp_icd_put_release(dev->subs->session, obj->id);
    tp_icd_unlock();
    subs_unref(dev->subs);
    tp_icd_drop(&dev->parent->obj);
    tp_free(dev);
}

/** Makes the handle of one part. @return NULL: no memory, the server's part is released */
static struct _cl_device_id *
sub_device_create(struct _cl_device_id *parent, struct tp_icd_subs *subs,
                  uint32_t number)
{
    struct _cl_device_id *dev = tp_zalloc(sizeof(*dev), "sub-device");
    uint64_t id = tp_wire_id(TP_WIRE_KIND_DEVICE, number);

    if (dev == NULL) {
        tp_icd_lock();
        tp_icd_put_release(subs->session, id);
        tp_icd_unlock();
        return NULL;
    }
    tp_icd_object_init(&dev->obj, TP_ICD_DEVICE, id, sub_device_destroy);
    dev->server = parent->server;
    dev->platform = parent->platform;
    dev->parent = parent;
    dev->subs = subs;
    dev->index = number;
    dev->type = parent->type & ~(cl_device_type)CL_DEVICE_TYPE_DEFAULT;
    tp_refcount_get(&subs->refs);
    tp_icd_hold(&parent->obj);
    tp_icd_device_limits(dev);
    return dev;
}

cl_int
tp_clRetainDevice(cl_device_id device)
{
    struct _cl_device_id *dev = tp_icd_check(device, TP_ICD_DEVICE);

    if (dev == NULL) {
        return CL_INVALID_DEVICE;
    }
    if (dev->parent != NULL) { /* devices of servers are not counted */
        tp_icd_retain(&dev->obj);
    }
    return CL_SUCCESS;
}

cl_int
tp_clReleaseDevice(cl_device_id device)
{
    struct _cl_device_id *dev = tp_icd_check(device, TP_ICD_DEVICE);

    if (dev == NULL) {
        return CL_INVALID_DEVICE;
    }
    if (dev->parent != NULL) {
        tp_icd_release(&dev->obj);
    }
    return CL_SUCCESS;
}

/* ---- the request ----------------------------------------------------------------------- */

/** One SUB_DEVICES request in progress. */
struct partition {
    struct tp_icd_ask ask;
    uint64_t values[TP_WIRE_SUB_DEVICES_MAX + 1]; /**< type, then its numbers */
    uint16_t value_count;
    uint32_t room;
    uint32_t count; /**< of parts, as the server says */
    struct tp_icd_facts *facts; /**< NULL until it has made them */
};

static void
take_reply(struct tp_icd_ask *ask, const void *reply)
{
    const struct tp_wire_sub_devices_reply *msg = reply;
    struct partition *part = tp_container_of(ask, struct partition, ask);

    part->count = msg->count;
    if (part->room == 0) {
        return;
    }
    ask->result = tp_icd_cl_error(
        msg->count == 0 || msg->count > part->room
            ? TELPHER_ERR_PROTO
            : tp_icd_facts_create(msg->facts.data, msg->facts.len, &part->facts));
}

/** Asks the server and waits. @param first number of the first part */
static cl_int
ask_server(struct partition *part, const struct _cl_device_id *dev, uint32_t first)
{
    const struct tp_wire_sub_devices msg = {
        .request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
        .device = dev->index,
        .first = first,
        .room = part->room,
        .properties = {part->value_count, part->values}};

    part->ask.type = TP_WIRE_SUB_DEVICES;
    part->ask.reply_type = TP_WIRE_SUB_DEVICES_REPLY;
    part->ask.take = take_reply;
    return tp_icd_ask(&part->ask, &msg, -1);
}

/* ---- clCreateSubDevices ------------------------------------------------------------------ */

static bool
can_partition(const struct _cl_device_id *dev, cl_device_partition_property how)
{
    cl_device_partition_property list[TP_ICD_PARTITIONS_MAX];
    size_t count = tp_icd_device_partitions(dev, list), i = 0;

    while (i < count && list[i] != how) {
        i++;
    }
    return i < count;
}

static const struct _cl_device_id *
root_of(const struct _cl_device_id *dev)
{
    while (dev->parent != NULL) {
        dev = dev->parent;
    }
    return dev;
}

/** Copies the program's list; never reads beyond its first 0. */
static cl_int
read_properties(struct partition *part, const struct _cl_device_id *dev,
                const cl_device_partition_property *list)
{
    bool counts;
    size_t most;

    if (list == NULL || !can_partition(root_of(dev), list[0])) {
        return CL_INVALID_VALUE;
    }
    if (!can_partition(dev, list[0])) {
        return CL_DEVICE_PARTITION_FAILED; /* other devices of its kind can be */
    }
    counts = list[0] == CL_DEVICE_PARTITION_BY_COUNTS;
    most = counts ? TP_WIRE_SUB_DEVICES_MAX : 1;
    part->values[0] = (uint64_t)list[0];
    part->value_count = 1;
    while (list[part->value_count] != 0) {
        if (part->value_count > most) {
            return counts ? CL_INVALID_DEVICE_PARTITION_COUNT : CL_INVALID_VALUE;
        }
        part->values[part->value_count] = (uint64_t)list[part->value_count];
        part->value_count++;
    }
    if (part->value_count == 1) {
        return counts ? CL_INVALID_DEVICE_PARTITION_COUNT : CL_INVALID_VALUE;
    }
    return CL_SUCCESS;
}

/** Reserves numbers. @return false: all 2^32 have been used */
static bool
reserve_numbers(uint32_t count, uint32_t *ret_first)
{
    uint64_t first = atomic_fetch_add(&next_number, count);

    *ret_first = (uint32_t)first;
    return first + count <= UINT32_MAX;
}

/** Creates handles for all sub-devices of the server's reply, or none. */
static cl_int
make_handles(struct partition *part, struct _cl_device_id *parent, uint32_t first,
             cl_device_id *devices)
{
    struct tp_icd_subs *subs = tp_zalloc(sizeof(*subs), "sub-devices");
    cl_int err = subs == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
    uint32_t made = 0;

    if (subs == NULL) {
        return err;
    }
    tp_refcount_init(&subs->refs);
    subs->session = part->ask.session;
    subs->first = first;
    subs->facts = part->facts;
    part->facts = NULL;
    for (uint32_t i = 0; i < part->count; i++) {
        struct _cl_device_id *dev = sub_device_create(parent, subs, first + i);

        if (dev == NULL) {
            err = CL_OUT_OF_HOST_MEMORY;
        } else {
            devices[made++] = dev;
        }
    }
    while (err != CL_SUCCESS && made > 0) {
        tp_icd_release(&devices[--made]->obj);
    }
    subs_unref(subs);
    return err;
}

static cl_int
partition(struct partition *part, struct _cl_device_id *dev, cl_uint num_devices,
          cl_device_id *devices)
{
    telpher_status status = tp_icd_session_of(dev, &part->ask.session);
    uint32_t first;
    cl_int err;

    if (status != TELPHER_OK) {
        return tp_icd_cl_error(status);
    }
    part->room =
        devices == NULL ? 0 : TP_MIN(num_devices, (cl_uint)TP_WIRE_SUB_DEVICES_MAX);
    if (!reserve_numbers(part->room, &first)) {
        return CL_OUT_OF_RESOURCES;
    }
    err = ask_server(part, dev, first);
    if (err == CL_SUCCESS && devices != NULL) {
        err = make_handles(part, dev, first, devices);
    }
    tp_icd_facts_destroy(part->facts);
    return err;
}

cl_int
tp_clCreateSubDevices(cl_device_id device,
                      const cl_device_partition_property *properties,
                      cl_uint num_devices, cl_device_id *devices,
                      cl_uint *num_devices_ret)
{
    struct _cl_device_id *dev = tp_icd_check(device, TP_ICD_DEVICE);
    struct partition *part;
    cl_int err;

    if (dev == NULL) {
        return CL_INVALID_DEVICE;
    }
    if (devices != NULL && num_devices == 0) {
        return CL_INVALID_VALUE;
    }
    part = tp_zalloc(sizeof(*part), "sub-devices");
    if (part == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    err = read_properties(part, dev, properties);
    if (err == CL_SUCCESS) {
        err = partition(part, dev, num_devices, devices);
    }
    if (err == CL_SUCCESS && num_devices_ret != NULL) {
        *num_devices_ret = part->count;
    }
    tp_free(part);
    return err;
}
