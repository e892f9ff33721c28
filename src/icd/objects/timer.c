/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relates device clocks to the host's, which is this machine's monotonic clock. The server's
 * driver reads the device's clock at an unknown moment of a round trip. The middle of the
 * round trip is used, so the error is at most half of it.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/callback.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/os/clock.h"

enum { EXCHANGES = 3 }; /* the shortest one is used */

/** One DEVICE_TIMER request in progress. */
struct ask {
    struct tp_icd_request req;
    struct tp_icd_session *session;
    tp_ns sent_ns, received_ns;
    cl_ulong device_ns;
    cl_int result;
};

/** True if the driver of the device relates its clock to its host's. */
static bool
has_timer(const struct _cl_device_id *dev)
{
    struct tp_wire_fact fact;
    cl_ulong ns = 0;

    if (tp_icd_facts_get(dev->server->facts, TP_WIRE_FACT_PLATFORM, dev->platform, 0,
                         CL_PLATFORM_HOST_TIMER_RESOLUTION, &fact) &&
        fact.error == CL_SUCCESS && fact.len == sizeof(ns)) {
        memcpy(&ns, fact.data, sizeof(ns));
    }
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
on_reply(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
         const uint8_t *end)
{
    struct ask *ask = req->user;
    struct tp_wire_device_timer_reply msg;

    ask->received_ns = tp_clock_ns();
    if (type == TP_WIRE_DEVICE_TIMER_REPLY &&
        tp_wire_get_device_timer_reply(body, end, &msg)) {
        ask->result = msg.status <= 0 ? msg.status : CL_OUT_OF_RESOURCES;
        ask->device_ns = msg.device_ns;
    } else {
        ask->result =
            tp_icd_cl_error(type == 0 ? TELPHER_ERR_PEER_LOST : TELPHER_ERR_PROTO);
    }
    tp_icd_settle(ask->session, req);
}

static cl_int
exchange(struct ask *ask, const struct _cl_device_id *dev)
{
    struct tp_wire_device_timer msg = {.request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
                                       .device = dev->index};
    telpher_status status;

    ask->req =
        (struct tp_icd_request){.id = msg.request, .reply = on_reply, .user = ask};
    ask->sent_ns = tp_clock_ns();
    status = tp_icd_ask(ask->session, &ask->req, TP_WIRE_DEVICE_TIMER, &msg);
    return status == TELPHER_OK ? ask->result : tp_icd_cl_error(status);
}

static cl_int
read_clocks(struct _cl_device_id *dev, cl_ulong *ret_device_ns, cl_ulong *ret_host_ns)
{
    struct ask ask = {.session = NULL};
    tp_ns shortest = TP_CLOCK_FOREVER;
    telpher_status status = tp_icd_session_of(dev, &ask.session);
    cl_int err = tp_icd_cl_error(status);

    for (int i = 0; i < EXCHANGES && err == CL_SUCCESS; i++) {
        tp_ns took;

        err = exchange(&ask, dev);
        took = tp_clock_between(ask.sent_ns, ask.received_ns);
        if (err == CL_SUCCESS && took < shortest) {
            shortest = took;
            *ret_device_ns = ask.device_ns;
            *ret_host_ns = ask.sent_ns + took / 2;
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
