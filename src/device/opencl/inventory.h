/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platforms and devices of a server. Their order is the same in every process, so that
 * executors find the devices by the numbers that the probe assigned.
 */
#ifndef TELPHER_DEVICE_OPENCL_INVENTORY_H
#define TELPHER_DEVICE_OPENCL_INVENTORY_H

#include "base/container/buf.h"
#include "device/opencl/api.h"

struct tp_opencl_device {
    cl_device_id id;
    uint32_t platform; /**< index in platforms */
    int version; /**< OpenCL version times 100: 120, 300 */
};

struct tp_opencl_inventory {
    cl_platform_id *platforms;
    uint32_t platform_count;
    struct tp_opencl_device *devices; /**< grouped by platform */
    uint32_t device_count;
};

/**
 * Enumerates platforms and devices. Excludes our own platform, devices below OpenCL 1.2,
 * devices that no pattern matches, and platforms without a remaining device.
 *
 * @param patterns shell patterns for "platform name: device name" or for the device name
 *                 alone, letter case ignored; none = every device
 * @param ret_inventory gives the lists; free with tp_opencl_inventory_fini()
 * @return OK (also with no device at all), NO_MEMORY, DEVICE (the loader failed)
 */
telpher_status tp_opencl_inventory_init(const struct tp_opencl *cl,
                                        const char *const *patterns,
                                        size_t pattern_count,
                                        struct tp_opencl_inventory *ret_inventory,
                                        struct tp_error *err);
void tp_opencl_inventory_fini(struct tp_opencl_inventory *inventory);

/**
 * Queries all properties of every platform and device and appends the answers as facts
 * (wire/facts.h). @return OK, NO_MEMORY, LIMIT
 */
telpher_status tp_opencl_facts(const struct tp_opencl *cl,
                               const struct tp_opencl_inventory *inventory,
                               struct tp_buf *facts);

/**
 * Appends the facts of a sub-device that differ from those of @p base, as facts of device
 * @p number of @p platform. @return OK, NO_MEMORY, LIMIT
 */
telpher_status tp_opencl_facts_of_sub_device(const struct tp_opencl *cl,
                                             cl_device_id device, cl_device_id base,
                                             uint32_t number, uint32_t platform,
                                             struct tp_buf *facts);

/**
 * Appends the image formats of a device, one fact per image type, if it has images. Creates
 * a temporary context, which the query needs. @return OK, NO_MEMORY, LIMIT
 */
telpher_status tp_opencl_image_formats(const struct tp_opencl *cl,
                                       const struct tp_opencl_inventory *inventory,
                                       uint32_t device, struct tp_buf *facts);

/** Appends one fact. @return OK, NO_MEMORY, LIMIT */
telpher_status tp_opencl_facts_add(struct tp_buf *facts, uint16_t kind, uint32_t index,
                                   uint32_t sub, uint32_t param, int32_t error,
                                   const void *data, size_t len);

/** A clGet…Info call with its first arguments bound. */
typedef cl_int (*tp_opencl_query)(void *object, cl_uint param, size_t size, void *value,
                                  size_t *ret_size);
/** Queries a property into a new block (tp_free). @return 0 or the driver's error */
cl_int tp_opencl_ask(tp_opencl_query query, void *object, cl_uint param,
                     void **ret_value, size_t *ret_size);

/** OpenCL version of a device times 100, from CL_DEVICE_VERSION; 0 if unreadable. */
int tp_opencl_device_version(const struct tp_opencl *cl, cl_device_id device);

#endif
