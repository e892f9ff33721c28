/* SPDX-License-Identifier: Apache-2.0 */
/* Enumerates platforms and devices, with the filter of --device. */
#include "device/opencl/inventory.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"

enum {
    NAME_MAX_BYTES = 256,
    PLATFORMS_MAX = 64,
    DEVICES_MAX = 256, /* of one platform */
    VERSION_MIN = 120,
};

int
tp_opencl_device_version(const struct tp_opencl *cl, cl_device_id device)
{
    char text[NAME_MAX_BYTES] = "";
    int major, minor;

    if (cl->GetDeviceInfo(device, CL_DEVICE_VERSION, sizeof(text) - 1, text, NULL) !=
            CL_SUCCESS ||
        sscanf(text, "OpenCL %d.%d", &major, &minor) != 2) {
        return 0;
    }
    return major * 100 + minor * 10;
}

static bool
matches(const char *platform, const char *device, const char *const *patterns,
        size_t count)
{
    char both[2 * NAME_MAX_BYTES];

    (void)snprintf(both, sizeof(both), "%s: %s", platform, device);
    for (size_t i = 0; i < count; i++) {
        if (fnmatch(patterns[i], device, FNM_CASEFOLD) == 0 ||
            fnmatch(patterns[i], both, FNM_CASEFOLD) == 0) {
            return true;
        }
    }
    return count == 0;
}

/* True if the device is to be offered. */
static bool
wanted(const struct tp_opencl *cl, const char *platform, cl_device_id device,
       const char *const *patterns, size_t count)
{
    char name[NAME_MAX_BYTES] = "";
    int version = tp_opencl_device_version(cl, device);

    if (cl->GetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name) - 1, name, NULL) !=
            CL_SUCCESS ||
        !matches(platform, name, patterns, count)) {
        return false;
    }
    if (version < VERSION_MIN) {
        tp_info("opencl", "device %s of %s left out: OpenCL %d.%d, 1.2 is needed", name,
                platform, version / 100, version % 100 / 10);
        return false;
    }
    return true;
}

/* All devices of a platform. CL_DEVICE_TYPE_ALL leaves out custom devices; a driver that
   does not must not list them twice. */
static cl_uint
list_devices(const struct tp_opencl *cl, cl_platform_id platform, cl_device_id *ids)
{
    cl_device_id custom[DEVICES_MAX];
    cl_uint count = 0, found = 0;

    if (cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, ids, &count) !=
        CL_SUCCESS) {
        count = 0;
    }
    count = TP_MIN(count, (cl_uint)DEVICES_MAX);
    if (cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, DEVICES_MAX, custom,
                         &found) != CL_SUCCESS) {
        found = 0;
    }
    for (cl_uint i = 0; i < found && i < DEVICES_MAX && count < DEVICES_MAX; i++) {
        bool listed = false;

        for (cl_uint k = 0; k < count && !listed; k++) {
            listed = ids[k] == custom[i];
        }
        if (!listed) {
            ids[count++] = custom[i];
        }
    }
    return count;
}

/* Appends the wanted devices of one platform; drops the platform if there is none. */
static telpher_status
add_platform(const struct tp_opencl *cl, cl_platform_id platform,
             const char *const *patterns, size_t count, struct tp_opencl_inventory *inv)
{
    char name[NAME_MAX_BYTES] = "";
    cl_device_id ids[DEVICES_MAX];
    cl_uint found;
    uint32_t before = inv->device_count;
    struct tp_opencl_device *devices;

    (void)cl->GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name) - 1, name, NULL);
    if (strcmp(name, "Telpher") == 0) {
        return TELPHER_OK;
    }
    found = list_devices(cl, platform, ids);
    devices = tp_realloc_array(inv->devices, inv->device_count + found + 1,
                               sizeof(*devices), "devices");
    if (devices == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    inv->devices = devices;
    for (cl_uint i = 0; i < found; i++) {
        if (wanted(cl, name, ids[i], patterns, count)) {
            devices[inv->device_count++] = (struct tp_opencl_device){
                ids[i], inv->platform_count, tp_opencl_device_version(cl, ids[i])};
        }
    }
    if (inv->device_count > before) {
        inv->platforms[inv->platform_count++] = platform;
    }
    return TELPHER_OK;
}

telpher_status
tp_opencl_inventory_init(const struct tp_opencl *cl, const char *const *patterns,
                         size_t pattern_count,
                         struct tp_opencl_inventory *ret_inventory,
                         struct tp_error *err)
{
    struct tp_opencl_inventory inv = {.platforms = NULL};
    cl_platform_id ids[PLATFORMS_MAX];
    cl_uint found = 0;
    cl_int error = cl->GetPlatformIDs(PLATFORMS_MAX, ids, &found);
    telpher_status status = TELPHER_OK;

    if (error != CL_SUCCESS && error != CL_PLATFORM_NOT_FOUND_KHR) {
        return tp_error_set(err, TELPHER_ERR_DEVICE, "clGetPlatformIDs: %s",
                            tp_opencl_error_name(error));
    }
    found = error == CL_SUCCESS ? TP_MIN(found, (cl_uint)PLATFORMS_MAX) : 0;
    inv.platforms = tp_alloc_array(found + 1, sizeof(*inv.platforms), "platforms");
    if (inv.platforms == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (cl_uint i = 0; i < found && status == TELPHER_OK; i++) {
        status = add_platform(cl, ids[i], patterns, pattern_count, &inv);
    }
    if (status != TELPHER_OK) {
        tp_opencl_inventory_fini(&inv);
        return status;
    }
    *ret_inventory = inv;
    return TELPHER_OK;
}

void
tp_opencl_inventory_fini(struct tp_opencl_inventory *inventory)
{
    tp_free(inventory->platforms);
    tp_free(inventory->devices);
    *inventory = (struct tp_opencl_inventory){.platforms = NULL};
}
