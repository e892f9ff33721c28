/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From facts to devices: docs/protocol.md section 6. The numbers of OpenCL's queries are
 * written here again, so that a machine without OpenCL headers builds the library.
 */
#include <string.h>

#include "api/api_int.h"
#include "base/text/text.h"
#include "wire/facts.h"

enum {
    PLATFORM_VERSION = 0x0901,
    PLATFORM_NAME = 0x0902,
    DEVICE_TYPE = 0x1000,
    DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    DEVICE_MAX_CLOCK_FREQUENCY = 0x100c,
    DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    DEVICE_GLOBAL_MEM_SIZE = 0x101f,
    DEVICE_AVAILABLE = 0x1027,
    DEVICE_NAME = 0x102b,
    DEVICE_VENDOR = 0x102c,
    DRIVER_VERSION = 0x102d,
    DEVICE_VERSION = 0x102f,
    DEVICE_SVM_CAPABILITIES = 0x1053,

    TYPE_CPU = 1 << 1,
    TYPE_GPU = 1 << 2,
    TYPE_ACCELERATOR = 1 << 3,
    TYPE_CUSTOM = 1 << 4,

    STRING_BYTES = 512, /* longer ones are cut */
};

struct strings {
    char platform_name[STRING_BYTES], platform_version[STRING_BYTES];
    char name[STRING_BYTES], vendor[STRING_BYTES];
    char version[STRING_BYTES], driver_version[STRING_BYTES];
};

static void
copy_string(char dst[STRING_BYTES], const struct tp_wire_fact *f)
{
    size_t len = f->len < STRING_BYTES - 1 ? f->len : STRING_BYTES - 1;

    memcpy(dst, f->data, len);
    dst[len] = '\0';
    tp_text_tame(dst, false);
}

/* An integer of 4 or 8 bytes; 0 for anything else. */
static uint64_t
get_integer(const struct tp_wire_fact *f)
{
    uint64_t wide = 0;

    if (f->len == 4 || f->len == 8) {
        memcpy(&wide, f->data, f->len); /* little-endian, as everything here */
    }
    return wide;
}

static uint32_t
get_type(const struct tp_wire_fact *f)
{
    uint64_t cl = get_integer(f);

    return ((cl & TYPE_CPU) != 0 ? TELPHER_DEVICE_CPU : 0) |
           ((cl & TYPE_GPU) != 0 ? TELPHER_DEVICE_GPU : 0) |
           ((cl & TYPE_ACCELERATOR) != 0 ? TELPHER_DEVICE_ACCELERATOR : 0) |
           ((cl & TYPE_CUSTOM) != 0 ? TELPHER_DEVICE_CUSTOM : 0);
}

static void
take_platform_fact(struct strings *s, const struct tp_wire_fact *f)
{
    if (f->param == PLATFORM_NAME) {
        copy_string(s->platform_name, f);
    } else if (f->param == PLATFORM_VERSION) {
        copy_string(s->platform_version, f);
    }
}

static void
take_device_fact(telpher_device_info *info, struct strings *s,
                 const struct tp_wire_fact *f)
{
    switch (f->param) {
    case DEVICE_TYPE:
        info->type = get_type(f);
        break;
    case DEVICE_MAX_COMPUTE_UNITS:
        info->compute_units = (uint32_t)get_integer(f);
        break;
    case DEVICE_MAX_CLOCK_FREQUENCY:
        info->clock_mhz = (uint32_t)get_integer(f);
        break;
    case DEVICE_MAX_MEM_ALLOC_SIZE:
        info->max_allocation_bytes = get_integer(f);
        break;
    case DEVICE_GLOBAL_MEM_SIZE:
        info->memory_bytes = get_integer(f);
        break;
    case DEVICE_AVAILABLE:
        info->available = get_integer(f) != 0;
        break;
    case DEVICE_SVM_CAPABILITIES:
        info->svm_native = get_integer(f);
        break;
    case DEVICE_NAME:
        copy_string(s->name, f);
        break;
    case DEVICE_VENDOR:
        copy_string(s->vendor, f);
        break;
    case DRIVER_VERSION:
        copy_string(s->driver_version, f);
        break;
    case DEVICE_VERSION:
        copy_string(s->version, f);
        break;
    default:
        break; /* not shown */
    }
}

/* A device in the facts of its server. */
struct place {
    const uint8_t *facts, *end;
    uint64_t features; /* of the server */
    uint32_t index, platform;
};

/* Gathers everything about one device from all facts and hands it over. */
static void
tell_device(const struct place *at, telpher_device_fn on_device, void *user)
{
    const uint8_t *facts = at->facts;
    struct strings s = {0};
    telpher_device_info info = {
        .struct_size = sizeof(info),
        .index = at->index,
        .platform_index = at->platform,
        .platform_name = s.platform_name,
        .platform_version = s.platform_version,
        .name = s.name,
        .vendor = s.vendor,
        .version = s.version,
        .driver_version = s.driver_version,
    };
    struct tp_wire_fact f;

    while (tp_wire_get_fact(&facts, at->end, &f)) {
        if (f.error != 0 || f.len == 0) {
            continue; /* the driver had no answer: 0, "" */
        }
        if (f.kind == TP_WIRE_FACT_PLATFORM && f.index == at->platform) {
            take_platform_fact(&s, &f);
        } else if (f.kind == TP_WIRE_FACT_DEVICE && f.index == at->index) {
            take_device_fact(&info, &s, &f);
        }
    }
    info.svm = tp_wire_svm(at->features, (info.type & TELPHER_DEVICE_CPU) != 0,
                           info.svm_native);
    on_device(user, &info);
}

telpher_status
tp_api_decode_devices(const uint8_t *facts, size_t len, uint64_t features,
                      telpher_device_fn on_device, void *user)
{
    const uint8_t *src = facts, *end = facts + len;
    uint32_t next = 0; /* devices are numbered in the order in which they come */
    struct tp_wire_fact f;

    while (tp_wire_get_fact(&src, end, &f)) {
        if (f.kind == TP_WIRE_FACT_DEVICE && f.index > next) {
            return TELPHER_ERR_PROTO;
        }
        next += f.kind == TP_WIRE_FACT_DEVICE && f.index == next;
    }
    if (src != end) {
        return TELPHER_ERR_PROTO;
    }
    next = 0;
    src = facts;
    while (tp_wire_get_fact(&src, end, &f)) {
        if (f.kind == TP_WIRE_FACT_DEVICE && f.index == next) {
            tell_device(&(struct place){facts, end, features, next, f.sub}, on_device,
                        user);
            next++;
        }
    }
    return TELPHER_OK;
}
