/* SPDX-License-Identifier: Apache-2.0 */
/* The platform: initialization at the first call, devices, queries. */
#include "icd/objects/platform.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"
#include "icd/session/session_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/version.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/text/text.h"
#include "base/trace/log.h"

enum { VERSION_LEN = 11 /* of "OpenCL 3.0 " */ };

static atomic_bool forked;
static char *extensions; /**< of the platform; see tp_icd_platform_extensions */

bool
tp_icd_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

/** Runs in a child of fork(), where threads and connections do not exist. */
static void
in_child(void)
{
    forked = true;
}

uint64_t
tp_icd_new_id(enum tp_wire_kind kind)
{
    return tp_wire_id(
        kind, atomic_fetch_add_explicit(&tp_icd.next_id, 1, memory_order_relaxed));
}

/* ---- devices of the servers ---------------------------------------------------------- */

bool
tp_icd_device_fact(const struct _cl_device_id *dev, uint32_t param,
                   struct tp_wire_fact *ret_fact)
{
    for (; dev->parent != NULL; dev = dev->parent) {
        if (tp_icd_sub_device_fact(dev, param, ret_fact)) {
            return ret_fact->error == CL_SUCCESS;
        }
    }
    return tp_icd_facts_value(dev->server->facts, TP_WIRE_FACT_DEVICE, dev->index,
                              dev->platform, param, ret_fact);
}

/** @return the platform of a device of the server: its `sub`, found by its type. */
static bool
find_platform_of(const struct tp_icd_server *server, uint32_t index,
                 uint32_t *ret_platform)
{
    struct tp_wire_fact fact;

    for (uint32_t platform = 0; platform < server->platform_count; platform++) {
        if (tp_icd_facts_value(server->facts, TP_WIRE_FACT_DEVICE, index, platform,
                               CL_DEVICE_TYPE, &fact)) {
            *ret_platform = platform;
            return true;
        }
    }
    return false;
}

static void
keep_device(__attribute__((unused)) struct tp_icd_object *obj)
{
    /* Devices and the platform are never freed. */
}

void
tp_icd_device_limits(struct _cl_device_id *dev)
{
    dev->address_align_bytes =
        (cl_uint)tp_icd_device_number(dev, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024) / 8;
    dev->max_alloc_bytes =
        tp_icd_device_number(dev, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 128 << 20);
    dev->max_group_size = tp_icd_device_number(dev, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
    dev->images = tp_icd_device_has_images(dev);
}

static struct _cl_device_id *
device_create(struct tp_icd_server *server, uint32_t index, uint32_t platform)
{
    struct _cl_device_id *dev = tp_zalloc(sizeof(*dev), "device");

    if (dev == NULL) {
        return NULL;
    }
    tp_icd_object_init(&dev->obj, TP_ICD_DEVICE, 0, keep_device);
    dev->server = server;
    dev->index = index;
    dev->platform = platform;
    dev->type = tp_icd_device_number(dev, CL_DEVICE_TYPE, CL_DEVICE_TYPE_CPU);
    dev->available =
        tp_icd_device_number(dev, CL_DEVICE_AVAILABLE, CL_TRUE) != CL_FALSE;
    tp_icd_device_limits(dev);
    return dev;
}

enum { DEVICES_MAX = 4096 }; /* per server, so that a bad reply cannot exhaust memory */

/** Adds the devices of one server that answered. */
static telpher_status
add_devices(struct _cl_platform_id *platform, struct tp_icd_server *server)
{
    uint32_t count = tp_icd_facts_count(server->facts, TP_WIRE_FACT_DEVICE);

    server->platform_count = tp_icd_facts_count(server->facts, TP_WIRE_FACT_PLATFORM);
    if (count > DEVICES_MAX || server->platform_count > DEVICES_MAX) {
        tp_warn("icd", "server %s is left out: it says it has %u devices",
                server->address, TP_MAX(count, server->platform_count));
        return TELPHER_OK;
    }
    server->sessions =
        tp_alloc_array(server->platform_count, sizeof(server->sessions[0]), "places");
    if (server->sessions == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct _cl_device_id *dev, **devices;
        uint32_t of;

        if (!find_platform_of(server, i, &of)) {
            continue; /* its driver does not report its type */
        }
        devices = tp_realloc_array(platform->devices, platform->device_count + 1,
                                   sizeof(devices[0]), "devices");
        if (devices == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        platform->devices = devices;
        dev = device_create(server, i, of);
        if (dev == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        devices[platform->device_count++] = dev;
    }
    return TELPHER_OK;
}

/** Leaves one default device: the first that its driver reports as such, else the first. */
static struct _cl_device_id *
default_device(const struct _cl_platform_id *platform)
{
    for (size_t i = 0; i < platform->device_count; i++) {
        if ((platform->devices[i]->type & CL_DEVICE_TYPE_DEFAULT) != 0) {
            return platform->devices[i];
        }
    }
    for (size_t i = 0; i < platform->device_count; i++) {
        if ((platform->devices[i]->type & CL_DEVICE_TYPE_CUSTOM) == 0) {
            return platform->devices[i];
        }
    }
    return NULL; /* a custom device is never the default one */
}

static void
keep_one_default(struct _cl_platform_id *platform)
{
    struct _cl_device_id *first = default_device(platform);

    for (size_t i = 0; i < platform->device_count; i++) {
        if (platform->devices[i] != first) {
            platform->devices[i]->type &= ~(cl_device_type)CL_DEVICE_TYPE_DEFAULT;
        }
    }
}

/* ---- set-up ---------------------------------------------------------------------------- */

/** True if @p word is one of the blank-separated words of @p list. */
static bool
is_in(const void *arg, const char *word, size_t len)
{
    return tp_text_has_word(arg, ' ', word, len);
}

/** Builds the platform's extensions: its own and those that all devices have. */
static telpher_status
make_extensions(const struct _cl_platform_id *platform)
{
    char *common = tp_icd_device_extensions(platform->devices[0]);

    if (common == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (size_t i = 1; i < platform->device_count; i++) {
        char *has = tp_icd_device_extensions(platform->devices[i]);

        tp_text_keep_words(common, is_in, has != NULL ? has : "");
        tp_free(has);
    }
    extensions = tp_asprintf("extensions", "cl_khr_icd cl_pocl_content_size%s%s",
                             common[0] != '\0' ? " " : "", common);
    tp_free(common);
    return extensions == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_OK;
}

const char *
tp_icd_platform_extensions(void)
{
    return extensions;
}

/** Makes the list of servers from the setting. @return 0 if there is none. */
static size_t
make_servers(struct tp_icd_server **ret_servers)
{
    struct tp_icd_server *servers;
    struct tp_error err = {0};
    char **addresses;
    size_t count;

    if (tp_icd_settings.servers == NULL || tp_icd_settings.servers[0] == '\0') {
        return 0;
    }
    if (tp_client_parse_servers(tp_icd_settings.servers, &addresses, &count, &err) !=
        TELPHER_OK) {
        tp_warn("icd", "TELPHER_SERVERS: %s", tp_error_text(&err));
        return 0;
    }
    servers = tp_alloc_array(count, sizeof(*servers), "servers");
    if (servers == NULL) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        servers[i].address = addresses[i]; /* one block, never freed */
    }
    *ret_servers = servers;
    return count;
}

/** Fills the platform in. @return true if it has a device. */
static bool
populate(struct _cl_platform_id *platform)
{
    platform->server_count = make_servers(&platform->servers);
    if (platform->server_count == 0 ||
        tp_icd_discover(platform->servers, platform->server_count) != TELPHER_OK) {
        return false;
    }
    for (size_t i = 0; i < platform->server_count; i++) {
        if (platform->servers[i].facts != NULL &&
            add_devices(platform, &platform->servers[i]) != TELPHER_OK) {
            return false;
        }
    }
    if (platform->device_count == 0) {
        return false;
    }
    keep_one_default(platform);
    return make_extensions(platform) == TELPHER_OK;
}

/** The server's process that loads drivers has TELPHER_EXECUTOR=1; a path is a setting. */
static bool
is_executor(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): as any program, none sets variables now */
    const char *mark = getenv("TELPHER_EXECUTOR");

    return mark != NULL && strcmp(mark, "1") == 0;
}

static void
set_up(void)
{
    static struct _cl_platform_id platform;

    if (is_executor()) {
        return; /* a server does not forward to itself */
    }
    tp_icd_settings_load();
    tp_icd_object_init(&platform.obj, TP_ICD_PLATFORM, 0, keep_device);
    if (populate(&platform)) {
        tp_icd.pid = getpid();
        tp_icd.platform = &platform;
        pthread_atfork(NULL, NULL, in_child);
    }
}

struct _cl_platform_id *
tp_icd_platform(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (tp_icd_forked()) {
        return NULL;
    }
    pthread_once(&once, set_up);
    return tp_icd.platform;
}

/* ---- queries -------------------------------------------------------------------------- */

/** @return a text of the first server's driver, for the native platform name. */
static const char *
native_text(const struct _cl_platform_id *platform, uint32_t param,
            const char *if_absent)
{
    const struct _cl_device_id *dev = platform->devices[0];

    return tp_icd_settings.platform_name == TP_ICD_NAME_NATIVE
               ? tp_icd_facts_text(dev->server->facts, TP_WIRE_FACT_PLATFORM,
                                   dev->platform, 0, param, if_absent)
               : if_absent;
}

/** The version is that of our calls, whatever the driver's; its name may follow. */
static cl_int
answer_version(const struct _cl_platform_id *platform, size_t value_size, void *value,
               size_t *size_ret)
{
    const char *native = native_text(platform, CL_PLATFORM_VERSION, "");
    char text[256] = "OpenCL 3.0 Telpher " TELPHER_VERSION_STRING;

    if (strlen(native) > VERSION_LEN) {
        snprintf(text, sizeof(text), "OpenCL 3.0 %s", native + VERSION_LEN);
    }
    return tp_icd_answer_text(value_size, value, size_ret, text);
}

/** All devices have what the platform has; the first one says in which versions. */
static cl_int
answer_extensions_with_version(const struct _cl_platform_id *platform,
                               size_t value_size, void *value, size_t *size_ret)
{
    cl_name_version *list;
    size_t count;
    cl_int err = tp_icd_device_name_versions(platform->devices[0],
                                             CL_DEVICE_EXTENSIONS_WITH_VERSION,
                                             extensions, &list, &count);

    if (err == CL_SUCCESS) {
        err = tp_icd_answer(value_size, value, size_ret, list, count * sizeof(*list));
        tp_free(list);
    }
    return err;
}

cl_int
tp_clGetPlatformInfo(cl_platform_id handle, cl_platform_info param, size_t value_size,
                     void *value, size_t *size_ret)
{
    const struct _cl_platform_id *platform = tp_icd_check(handle, TP_ICD_PLATFORM);
    const char *text;

    if (platform == NULL) {
        return CL_INVALID_PLATFORM;
    }
    switch (param) {
    case CL_PLATFORM_PROFILE:
        text = "FULL_PROFILE";
        break;
    case CL_PLATFORM_VERSION:
        return answer_version(platform, value_size, value, size_ret);
    case CL_PLATFORM_NAME:
    case CL_PLATFORM_VENDOR:
        text = native_text(platform, param, "Telpher");
        break;
    case CL_PLATFORM_EXTENSIONS:
        text = extensions;
        break;
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        text = "TELPHER";
        break;
    case CL_PLATFORM_HOST_TIMER_RESOLUTION:
        return TP_ICD_ANSWER(cl_ulong, tp_icd_timer_resolution());
    case CL_PLATFORM_NUMERIC_VERSION:
        return TP_ICD_ANSWER(cl_version, CL_MAKE_VERSION(3, 0, 0));
    case CL_PLATFORM_EXTENSIONS_WITH_VERSION:
        return answer_extensions_with_version(platform, value_size, value, size_ret);
    default:
        return CL_INVALID_VALUE;
    }
    return tp_icd_answer_text(value_size, value, size_ret, text);
}

static const cl_device_type all_types =
    CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU |
    CL_DEVICE_TYPE_ACCELERATOR | CL_DEVICE_TYPE_CUSTOM;

cl_int
tp_icd_platform_find(struct _cl_platform_id *platform, cl_device_type type,
                     struct _cl_device_id **ret_devices, cl_uint *ret_count)
{
    struct _cl_device_id *first = default_device(platform);
    cl_uint count = 0;

    if (type == CL_DEVICE_TYPE_ALL) {
        type = all_types & ~(cl_device_type)CL_DEVICE_TYPE_CUSTOM;
    } else if (type == 0 || (type & ~all_types) != 0) {
        return CL_INVALID_DEVICE_TYPE;
    }
    for (size_t i = 0; i < platform->device_count; i++) {
        struct _cl_device_id *dev = platform->devices[i];
        cl_device_type wanted = type & ~(cl_device_type)CL_DEVICE_TYPE_DEFAULT;

        if ((dev->type & wanted) != 0 ||
            (dev == first && (type & CL_DEVICE_TYPE_DEFAULT) != 0)) {
            ret_devices[count++] = dev;
        }
    }
    *ret_count = count;
    return count == 0 ? CL_DEVICE_NOT_FOUND : CL_SUCCESS;
}

cl_int
tp_clGetDeviceIDs(cl_platform_id handle, cl_device_type type, cl_uint num_entries,
                  cl_device_id *devices, cl_uint *num_devices)
{
    struct _cl_platform_id *platform = tp_icd_check(handle, TP_ICD_PLATFORM);
    struct _cl_device_id **found;
    cl_uint count;
    cl_int err;

    if (platform == NULL) {
        return CL_INVALID_PLATFORM;
    }
    if ((num_entries == 0 && devices != NULL) ||
        (devices == NULL && num_devices == NULL)) {
        return CL_INVALID_VALUE;
    }
    found = tp_alloc_array(platform->device_count, sizeof(found[0]), "devices");
    if (found == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    err = tp_icd_platform_find(platform, type, found, &count);
    if (err == CL_SUCCESS) {
        if (num_devices != NULL) {
            *num_devices = count;
        }
        for (cl_uint i = 0; devices != NULL && i < TP_MIN(count, num_entries); i++) {
            devices[i] = found[i];
        }
    }
    tp_free(found);
    return err;
}

/** Does nothing: there is no compiler to unload. */
cl_int
tp_clUnloadPlatformCompiler(cl_platform_id platform)
{
    return tp_icd_check(platform, TP_ICD_PLATFORM) == NULL ? CL_INVALID_PLATFORM
                                                           : CL_SUCCESS;
}

cl_int
tp_clUnloadCompiler(void)
{
    return CL_SUCCESS;
}
