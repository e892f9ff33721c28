/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries all properties of platforms and devices. Answers are forwarded unchanged, except
 * for handles, which are invalid in other processes and are left out.
 */
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "device/opencl/inventory.h"
#include "wire/facts.h"

enum { ANSWER_MAX = 64 << 10 }; /* [bytes] what no driver's answer exceeds */

/* Queries first … last. Values that a driver does not support are recorded for core
 * queries only. */
struct range {
    cl_uint first, last;
    bool core;
};

static const struct range platform_ranges[] = {
    {CL_PLATFORM_PROFILE, CL_PLATFORM_EXTENSIONS_WITH_VERSION, true},
    {CL_PLATFORM_ICD_SUFFIX_KHR, CL_PLATFORM_ICD_SUFFIX_KHR, false},
};

static const struct range device_ranges[] = {
    {CL_DEVICE_TYPE, CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED, true},
    /* integer dot products, clocks of kernels */
    {0x1073, 0x1076, false},
    /* command buffers */
    {CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR,
     CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR, false},
    /* sub-groups, termination, named barriers */
    {0x2031, 0x2035, false},
    /* NVIDIA: compute capability, registers, warp, overlap, time-out, integrated, … */
    {0x4000, 0x400B, false},
    /* AMD: group sizes, offset of the clock, topology, board name, SIMD, memory, … */
    {0x4030, 0x404C, false},
    {CL_DEVICE_SPIR_VERSIONS, CL_DEVICE_SPIR_VERSIONS, false},
    /* Arm: compute units, job slots, scheduling, registers, warps */
    {0x40BF, 0x40BF, false},
    {0x41E0, 0x41F3, false},
    /* Intel: motion estimation, interops, sub-group sizes, PCI, unified memory, … */
    {0x407E, 0x407E, false},
    {0x4104, 0x410F, false},
    {0x417E, 0x4195, false},
    {0x4230, 0x4231, false},
    {0x4250, 0x4257, false},
};

static bool
is_handle(cl_uint param)
{
    return param == CL_DEVICE_PLATFORM || param == CL_DEVICE_PARENT_DEVICE;
}

cl_int
tp_opencl_ask(tp_opencl_query query, void *object, cl_uint param, void **ret_value,
              size_t *ret_size)
{
    size_t size = 0;
    cl_int error = query(object, param, 0, NULL, &size);
    void *value;

    if (error != CL_SUCCESS) {
        return error;
    }
    if (size > ANSWER_MAX && param != CL_PROGRAM_BUILD_LOG) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    value = tp_zalloc(size, "answer");
    if (value == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    error = size == 0 ? CL_SUCCESS : query(object, param, size, value, NULL);
    if (error != CL_SUCCESS) {
        tp_free(value);
        return error;
    }
    *ret_value = value;
    *ret_size = size;
    return CL_SUCCESS;
}

telpher_status
tp_opencl_facts_add(struct tp_buf *facts, uint16_t kind, uint32_t index, uint32_t sub,
                    uint32_t param, int32_t error, const void *data, size_t len)
{
    struct tp_wire_fact fact = {.kind = kind,
                                .index = index,
                                .sub = sub,
                                .param = param,
                                .error = error,
                                .len = (uint32_t)len,
                                .data = data};
    uint8_t *tail;
    telpher_status status;

    if (len > UINT32_MAX / 2) {
        return TELPHER_ERR_LIMIT;
    }
    status = tp_buf_reserve(facts, tp_wire_fact_size(fact.len), &tail);
    if (status == TELPHER_OK) {
        tp_wire_put_fact(tail, &fact);
        tp_buf_commit(facts, tp_wire_fact_size(fact.len));
    }
    return status;
}

struct subject {
    const struct tp_opencl *cl;
    void *handle;
    void *base; /* what it answers need not be said again; NULL: nothing is known */
};

static cl_int
query_platform(void *object, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct subject *s = object;

    return s->cl->GetPlatformInfo(s->handle, param, size, value, ret_size);
}

static cl_int
query_device(void *object, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct subject *s = object;

    return s->cl->GetDeviceInfo(s->handle, param, size, value, ret_size);
}

/* True if the subject's base gives the same answer. */
static bool
is_known(tp_opencl_query query, const struct subject *subject, cl_uint param,
         cl_int error, const void *value, size_t size)
{
    struct subject base = {subject->cl, subject->base, NULL};
    void *known = NULL;
    size_t known_size = 0;
    bool same = tp_opencl_ask(query, &base, param, &known, &known_size) == error &&
                known_size == size && (size == 0 || memcmp(known, value, size) == 0);

    tp_free(known);
    return same;
}

/* Asks one question and notes the answer. @p fact has kind, index and sub. */
static telpher_status
add_answer(tp_opencl_query query, struct subject *subject, cl_uint param, bool core,
           const struct tp_wire_fact *fact, struct tp_buf *facts)
{
    void *value = NULL;
    size_t size = 0;
    cl_int error = tp_opencl_ask(query, subject, param, &value, &size);
    telpher_status status = TELPHER_OK;

    if (subject->base != NULL ? !is_known(query, subject, param, error, value, size)
                              : error == CL_SUCCESS || core) {
        status = tp_opencl_facts_add(facts, fact->kind, fact->index, fact->sub, param,
                                     error, value, size);
    }
    tp_free(value);
    return status;
}

static telpher_status
add_ranges(tp_opencl_query query, struct subject *subject, const struct range *ranges,
           size_t range_count, const struct tp_wire_fact *fact, struct tp_buf *facts)
{
    telpher_status status = TELPHER_OK;

    for (size_t i = 0; i < range_count; i++) {
        for (cl_uint param = ranges[i].first;
             param <= ranges[i].last && status == TELPHER_OK; param++) {
            if (!is_handle(param)) {
                status = add_answer(query, subject, param, ranges[i].core, fact, facts);
            }
        }
    }
    return status;
}

telpher_status
tp_opencl_facts(const struct tp_opencl *cl, const struct tp_opencl_inventory *inventory,
                struct tp_buf *facts)
{
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0; i < inventory->platform_count && status == TELPHER_OK; i++) {
        struct subject s = {cl, inventory->platforms[i], NULL};
        struct tp_wire_fact fact = {.kind = TP_WIRE_FACT_PLATFORM, .index = i};

        status = add_ranges(query_platform, &s, platform_ranges,
                            TP_ARRAY_LEN(platform_ranges), &fact, facts);
    }
    for (uint32_t i = 0; i < inventory->device_count && status == TELPHER_OK; i++) {
        struct subject s = {cl, inventory->devices[i].id, NULL};
        struct tp_wire_fact fact = {.kind = TP_WIRE_FACT_DEVICE,
                                    .index = i,
                                    .sub = inventory->devices[i].platform};

        status = add_ranges(query_device, &s, device_ranges,
                            TP_ARRAY_LEN(device_ranges), &fact, facts);
        if (status == TELPHER_OK) {
            status = tp_opencl_image_formats(cl, inventory, i, facts);
        }
    }
    return status;
}

telpher_status
tp_opencl_facts_of_sub_device(const struct tp_opencl *cl, cl_device_id device,
                              cl_device_id base, uint32_t number, uint32_t platform,
                              struct tp_buf *facts)
{
    struct subject s = {cl, device, base};
    struct tp_wire_fact fact = {
        .kind = TP_WIRE_FACT_DEVICE, .index = number, .sub = platform};

    return add_ranges(query_device, &s, device_ranges, TP_ARRAY_LEN(device_ranges),
                      &fact, facts);
}
