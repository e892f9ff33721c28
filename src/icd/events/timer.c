/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relates device clocks to the host's, which is this machine's monotonic clock. The server's
 * driver reads the device's clock at an unknown moment of a round trip. The middle of the
 * round trip is used, so the error is at most half of it.
 */
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/os/clock.h"

enum { EXCHANGES = 3 }; /* the shortest one is used */

/** One DEVICE_TIMER request in progress. */
struct exchange {
    struct tp_icd_ask ask;
    tp_ns sent_ns, received_ns;
    cl_ulong device_ns;
};

/** True if the driver of the device relates its clock to its host's. */
static bool
has_timer(const struct _cl_device_id *dev)
{
    cl_ulong ns = 0;

    (void)tp_icd_facts_number(dev->server->facts, TP_WIRE_FACT_PLATFORM, dev->platform,
                              0, CL_PLATFORM_HOST_TIMER_RESOLUTION, &ns, sizeof(ns));
    return ns != 0;
}

/** A query of the platform: 0 unless all devices support it. */
cl_ulong
tp_icd_timer_resolution(void)
{
    const struct _cl_platform_id *platform = tp_icd.platform;
    bool all = platform != NULL;

    for (size_t i = 0; all && i < platform->device_count; i++) {
        all = has_timer(platform->devices[i]);
    }
    return all ? 1 : 0;
}

static void
take_time(struct tp_icd_ask *ask, const void *reply)
{
    const struct tp_wire_device_timer_reply *msg = reply;
    struct exchange *x = tp_container_of(ask, struct exchange, ask);

    x->received_ns = tp_clock_ns();
    x->device_ns = msg->device_ns;
}

static cl_int
read_clocks(struct _cl_device_id *dev, cl_ulong *ret_device_ns, cl_ulong *ret_host_ns)
{
    struct exchange x = {.ask = {.type = TP_WIRE_DEVICE_TIMER,
                                 .reply_type = TP_WIRE_DEVICE_TIMER_REPLY,
                                 .take = take_time}};
    tp_ns shortest = TP_CLOCK_FOREVER;
    cl_int err = tp_icd_cl_error(tp_icd_session_of(dev, &x.ask.session));

    for (int i = 0; i < EXCHANGES && err == CL_SUCCESS; i++) {
        struct tp_wire_device_timer msg = {
            .request = tp_icd_new_id(TP_WIRE_KIND_REQUEST), .device = dev->index};
        tp_ns took;

        x.sent_ns = tp_clock_ns();
        err = tp_icd_ask(&x.ask, &msg, -1);
        took = tp_clock_between(x.sent_ns, x.received_ns);
        if (err == CL_SUCCESS && took < shortest) {
            shortest = took;
            *ret_device_ns = x.device_ns;
            *ret_host_ns = x.sent_ns + took / 2;
        }
    }
    return err;
}

cl_int
tp_clGetDeviceAndHostTimer(cl_device_id device, cl_ulong *device_time,
                           cl_ulong *host_time)
{
    struct _cl_device_id *dev = tp_icd_check(device, TP_ICD_DEVICE);
    cl_ulong device_ns = 0, host_ns = 0;
    cl_int err;

    if (dev == NULL) {
        return CL_INVALID_DEVICE;
    }
    if (tp_icd_timer_resolution() == 0) {
        return CL_INVALID_OPERATION;
    }
    if (device_time == NULL || host_time == NULL) {
        return CL_INVALID_VALUE;
    }
    err = read_clocks(dev, &device_ns, &host_ns);
    if (err == CL_SUCCESS) {
        *device_time = device_ns;
        *host_time = host_ns;
    }
    return err;
}

cl_int
tp_clGetHostTimer(cl_device_id device, cl_ulong *host_time)
{
    if (tp_icd_check(device, TP_ICD_DEVICE) == NULL) {
        return CL_INVALID_DEVICE;
    }
    if (tp_icd_timer_resolution() == 0) {
        return CL_INVALID_OPERATION;
    }
    if (host_time == NULL) {
        return CL_INVALID_VALUE;
    }
    *host_time = tp_clock_ns();
    return CL_SUCCESS;
}
