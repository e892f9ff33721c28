/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the functions of cl_khr_command_buffer. */
#include "device/opencl/commands.h"

#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "device/opencl/inventory.h"

static cl_int
query_device(void *object, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct tp_opencl *const *cl = object;
    cl_device_id device = (cl_device_id)((void **)object)[1];

    return (*cl)->GetDeviceInfo(device, param, size, value, ret_size);
}

/* True if the device has the extension in a version that we know. */
static bool
has_extension(const struct tp_opencl *cl, cl_device_id device)
{
    void *subject[2] = {(void *)(uintptr_t)cl, device};
    cl_name_version *list;
    void *value = NULL;
    size_t size = 0;
    bool found = false;

    if (tp_opencl_ask(query_device, subject, CL_DEVICE_EXTENSIONS_WITH_VERSION, &value,
                      &size) != CL_SUCCESS) {
        return false;
    }
    list = value;
    for (size_t i = 0; i < size / sizeof(*list); i++) {
        list[i].name[CL_NAME_VERSION_MAX_NAME_SIZE - 1] = '\0';
        found =
            found || (strcmp(list[i].name, CL_KHR_COMMAND_BUFFER_EXTENSION_NAME) == 0 &&
                      list[i].version < TP_OPENCL_COMMANDS_NEXT);
    }
    tp_free(value);
    return found;
}

bool
tp_opencl_commands_load(const struct tp_opencl *cl, cl_platform_id platform,
                        cl_device_id device, struct tp_opencl_commands *ret_commands)
{
    static const struct {
        const char *name;
        size_t offset;
        bool needed;
    } functions[] = {
#define FUNCTION(name, needed)                                                         \
    {"cl" #name "KHR", offsetof(struct tp_opencl_commands, name), needed},
#define NEEDED(name) FUNCTION(name, true)
#define OF_IMAGES(name) FUNCTION(name, false)
        TP_OPENCL_COMMANDS(NEEDED) TP_OPENCL_IMAGE_COMMANDS(OF_IMAGES)
#undef OF_IMAGES
#undef NEEDED
#undef FUNCTION
    };
    struct tp_opencl_commands commands;

    if (!has_extension(cl, device)) {
        return false;
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(functions); i++) {
        void *address =
            cl->GetExtensionFunctionAddressForPlatform(platform, functions[i].name);

        if (address == NULL && functions[i].needed) {
            return false;
        }
        memcpy((char *)&commands + functions[i].offset, &address, sizeof(address));
    }
    *ret_commands = commands;
    return true;
}
