/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries about devices. Answers are the driver's, unchanged, except handles and features
 * that this version does not forward, which no answer may report.
 */
#include "icd/commands/command_buffer.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/objects/usm.h"
#include "icd/session/session.h"

#include <CL/cl_ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"

/* ---- what is answered without the driver ---------------------------------------------- */

/** An answer of so many bytes of 0. */
struct zero {
    cl_device_info param;
    uint8_t len; /**< [bytes] */
};

/** Features reported as missing for every driver. */
static const struct zero denied[] = {
    /* Memory of a remote device is not the host's. */
    {CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool)},
    {CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES,
     sizeof(cl_device_device_enqueue_capabilities)},
    {CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, sizeof(cl_command_queue_properties)},
    {CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, sizeof(cl_uint)},
    {CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, sizeof(cl_uint)},
    {CL_DEVICE_MAX_ON_DEVICE_QUEUES, sizeof(cl_uint)},
    {CL_DEVICE_MAX_ON_DEVICE_EVENTS, sizeof(cl_uint)},
};

/** Features reported as missing where images are unsupported. */
static const struct zero of_images[] = {
    {CL_DEVICE_IMAGE_SUPPORT, sizeof(cl_bool)},
    {CL_DEVICE_MAX_READ_IMAGE_ARGS, sizeof(cl_uint)},
    {CL_DEVICE_MAX_WRITE_IMAGE_ARGS, sizeof(cl_uint)},
    {CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, sizeof(cl_uint)},
    {CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof(size_t)},
    {CL_DEVICE_IMAGE2D_MAX_HEIGHT, sizeof(size_t)},
    {CL_DEVICE_IMAGE3D_MAX_WIDTH, sizeof(size_t)},
    {CL_DEVICE_IMAGE3D_MAX_HEIGHT, sizeof(size_t)},
    {CL_DEVICE_IMAGE3D_MAX_DEPTH, sizeof(size_t)},
    {CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, sizeof(size_t)},
    {CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, sizeof(size_t)},
    {CL_DEVICE_IMAGE_PITCH_ALIGNMENT, sizeof(cl_uint)},
    {CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, sizeof(cl_uint)},
    {CL_DEVICE_MAX_SAMPLERS, sizeof(cl_uint)},
};

/** Features reported as missing where pipes are unsupported. */
static const struct zero of_pipes[] = {
    {CL_DEVICE_PIPE_SUPPORT, sizeof(cl_bool)},
    {CL_DEVICE_MAX_PIPE_ARGS, sizeof(cl_uint)},
    {CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS, sizeof(cl_uint)},
    {CL_DEVICE_PIPE_MAX_PACKET_SIZE, sizeof(cl_uint)},
};

/** Answers for drivers older than the query: not supported. */
static const struct zero absent[] = {
    {CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, sizeof(cl_uint)},
    {CL_DEVICE_IMAGE_PITCH_ALIGNMENT, sizeof(cl_uint)},
    {CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, sizeof(cl_uint)},
    {CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, sizeof(size_t)},
    {CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE, sizeof(size_t)},
    {CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT, sizeof(cl_uint)},
    {CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT, sizeof(cl_uint)},
    {CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT, sizeof(cl_uint)},
    {CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, sizeof(cl_bool)},
    {CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT, sizeof(cl_bool)},
    {CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, sizeof(cl_bool)},
    {CL_DEVICE_MAX_NUM_SUB_GROUPS, sizeof(cl_uint)},
    {CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS, sizeof(cl_bool)},
    {CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof(cl_uint)},
    {CL_DEVICE_PARTITION_TYPE, 0},
    {CL_DEVICE_PARTITION_AFFINITY_DOMAIN, sizeof(cl_device_affinity_domain)},
};

/** Features that stand for images, where they cannot be made. */
static const char *const image_features[] = {
    "__opencl_c_images",
    "__opencl_c_3d_image_writes",
    "__opencl_c_read_write_images",
};

/** Queries of extensions that are not forwarded. */
static const struct {
    cl_device_info first, last;
} hidden[] = {
    {0x2000, 0x2fff}, /* termination, command buffers, named barriers, semaphores, … */
    {0x40e0, 0x40e0}, /* CL_DEVICE_SPIR_VERSIONS */
    {0x4104, 0x410f}, /* Intel: media, sub-group sizes, SIMD */
    {0x4190, 0x4195}, /* Intel: unified shared memory */
};

/* ---- words and versions ------------------------------------------------------------------ */

/** Reads "OpenCL 3.0 …" or "OpenCL C 1.2 …". */
static cl_version
parse_version(const char *text, const char *prefix)
{
    unsigned major, minor;
    size_t len = strlen(prefix);

    if (strncmp(text, prefix, len) != 0 ||
        sscanf(text + len, "%u.%u", &major, &minor) != 2) {
        return CL_MAKE_VERSION(1, 0, 0);
    }
    return CL_MAKE_VERSION(major, minor, 0);
}

/**
 * Maps a native version to one that this library implements. 2.x requires shared virtual
 * memory, pipes and queues on the device, so it becomes its subset 1.2. 3.0 is the newest
 * known version.
 */
static cl_version
presented_version(cl_version native)
{
    if (CL_VERSION_MAJOR(native) == 2) {
        return CL_MAKE_VERSION(1, 2, 0);
    }
    return TP_MIN(native, (cl_version)CL_MAKE_VERSION(3, 0, 0));
}

static cl_version
device_version(const struct _cl_device_id *dev)
{
    return presented_version(
        parse_version(tp_icd_device_text(dev, CL_DEVICE_VERSION, ""), "OpenCL "));
}

bool
tp_icd_device_has_pipes(const struct _cl_device_id *dev)
{
    return (dev->server->idle_features & TP_WIRE_FEATURE_PIPE) != 0 &&
           CL_VERSION_MAJOR(device_version(dev)) >= 3 &&
           tp_icd_device_number(dev, CL_DEVICE_PIPE_SUPPORT, CL_FALSE) != CL_FALSE;
}

/** Of OpenCL C: not above the device's. */
static cl_version
language_version(const struct _cl_device_id *dev)
{
    cl_version native = parse_version(
        tp_icd_device_text(dev, CL_DEVICE_OPENCL_C_VERSION, ""), "OpenCL C ");

    return TP_MIN(presented_version(native), device_version(dev));
}

/** Answers with the driver's text, its version replaced if we present another. */
static cl_int
answer_version_text(const char *native, const char *prefix, cl_version presented,
                    size_t value_size, void *value, size_t *size_ret)
{
    char text[512];
    const char *rest;

    if (parse_version(native, prefix) == presented &&
        strncmp(native, prefix, strlen(prefix)) == 0) {
        return tp_icd_answer_text(value_size, value, size_ret, native);
    }
    rest =
        strlen(native) > strlen(prefix) ? strchr(native + strlen(prefix), ' ') : NULL;
    snprintf(text, sizeof(text), "%s%u.%u%s", prefix, CL_VERSION_MAJOR(presented),
             CL_VERSION_MINOR(presented), rest != NULL ? rest : " ");
    return tp_icd_answer_text(value_size, value, size_ret, text);
}

/* ---- answers -------------------------------------------------------------------------------- */

/** Destination of an answer. */
struct query {
    const struct _cl_device_id *dev;
    size_t value_size;
    void *value;
    size_t *size_ret;
};

/** Returned for a parameter that the function does not know; no CL error. */
enum { NOT_HERE = 1 };

static cl_int
answer_bytes(const struct query *q, const void *src, size_t len)
{
    return tp_icd_answer(q->value_size, q->value, q->size_ret, src, len);
}

/** Answers with 0 if the list has the parameter. @return false: it has not. */
static cl_int
put_zero(const struct query *q, const struct zero *list, size_t count, uint32_t param)
{
    static const uint8_t bytes[sizeof(uint64_t)];

    for (size_t i = 0; i < count; i++) {
        if (list[i].param == param) {
            return answer_bytes(q, bytes, list[i].len);
        }
    }
    return NOT_HERE;
}

static cl_int
put_bits(const struct query *q, cl_bitfield bits)
{
    return answer_bytes(q, &bits, sizeof(bits));
}

static cl_int
put_extensions(const struct query *q)
{
    char *list = tp_icd_device_extensions(q->dev);
    cl_int err;

    if (list == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    err = tp_icd_answer_text(q->value_size, q->value, q->size_ret, list);
    tp_free(list);
    return err;
}

static cl_int
put_extensions_with_version(const struct query *q)
{
    char *names = tp_icd_device_extensions(q->dev);
    cl_name_version *list;
    size_t count;
    cl_int err;

    if (names == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    err = tp_icd_device_name_versions(q->dev, CL_DEVICE_EXTENSIONS_WITH_VERSION, names,
                                      &list, &count);
    if (err == CL_SUCCESS) {
        err = answer_bytes(q, list, count * sizeof(*list));
        tp_free(list);
    }
    tp_free(names);
    return err;
}

/**
 * Versions of OpenCL C that the device takes: never 2.x, never above the device's. They
 * may be above CL_DEVICE_OPENCL_C_VERSION, which is the last that needs no option.
 */
static cl_int
put_language_versions(const struct query *q)
{
    cl_version newest = device_version(q->dev);
    cl_name_version *native, list[16];
    size_t native_count =
        tp_icd_device_names(q->dev, CL_DEVICE_OPENCL_C_ALL_VERSIONS, &native);
    size_t count = 0;

    for (size_t i = 0; i < native_count && count < TP_ARRAY_LEN(list); i++) {
        if (CL_VERSION_MAJOR(native[i].version) != 2 && native[i].version <= newest) {
            list[count++] = native[i];
        }
    }
    tp_free(native);
    for (cl_version minor = 0; native_count == 0 && minor <= 2; minor++) {
        cl_version version = CL_MAKE_VERSION(1, minor, 0);

        if (version <= language_version(q->dev)) {
            list[count] = (cl_name_version){.version = version, .name = "OpenCL C"};
            count++;
        }
    }
    return answer_bytes(q, list, count * sizeof(list[0]));
}

static bool
is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

/** Without them other devices are not reached coherently, so no scope spans them. */
static bool
has_svm_atomics(const struct _cl_device_id *dev)
{
    return (tp_icd_device_svm(dev) & CL_DEVICE_SVM_ATOMICS) != 0;
}

static bool
is_masked(const struct _cl_device_id *dev, const char *feature)
{
    return strcmp(feature, "__opencl_c_device_enqueue") == 0 ||
           (!tp_icd_device_has_pipes(dev) &&
            strcmp(feature, "__opencl_c_pipes") == 0) ||
           (!has_svm_atomics(dev) &&
            strcmp(feature, "__opencl_c_atomic_scope_all_devices") == 0) ||
           (!tp_icd_device_has_sub_groups(dev) &&
            strcmp(feature, "__opencl_c_subgroups") == 0) ||
           (!dev->images &&
            is_one_of(feature, image_features, TP_ARRAY_LEN(image_features)));
}

static cl_int
put_features(const struct query *q)
{
    cl_name_version *list;
    size_t count = tp_icd_device_names(q->dev, CL_DEVICE_OPENCL_C_FEATURES, &list),
           kept = 0;
    cl_int err;

    if (CL_VERSION_MAJOR(device_version(q->dev)) < 3) {
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_masked(q->dev, list[i].name)) {
            list[kept++] = list[i];
        }
    }
    err = answer_bytes(q, list, kept * sizeof(*list));
    tp_free(list);
    return err;
}

static const cl_device_atomic_capabilities all_devices =
    CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES;
static const cl_device_atomic_capabilities least_memory =
    CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP;

static cl_int
put_atomics(const struct query *q, uint32_t param)
{
    cl_device_atomic_capabilities least = least_memory;

    if (param == CL_DEVICE_ATOMIC_FENCE_CAPABILITIES) {
        least |= CL_DEVICE_ATOMIC_ORDER_ACQ_REL;
    }
    least = tp_icd_device_number(q->dev, param, least);
    return put_bits(q, has_svm_atomics(q->dev) ? least : least & ~all_devices);
}

static cl_int
put_number(const struct query *q, cl_uint number)
{
    return answer_bytes(q, &number, sizeof(number));
}

static cl_bool
is_available(const struct _cl_device_id *dev)
{
    cl_bool available;

    if (dev->parent != NULL) {
        return !tp_icd_session_lost(tp_icd_sub_device_session(dev));
    }
    tp_icd_lock();
    available = dev->available;
    tp_icd_unlock();
    return available;
}

size_t
tp_icd_device_partitions(const struct _cl_device_id *dev,
                         cl_device_partition_property list[TP_ICD_PARTITIONS_MAX])
{
    struct tp_wire_fact fact;
    size_t count = 0;

    if (!tp_icd_device_fact(dev, CL_DEVICE_PARTITION_PROPERTIES, &fact)) {
        return 0;
    }
    for (size_t i = 0;
         i < fact.len / sizeof(list[0]) && count < (size_t)TP_ICD_PARTITIONS_MAX; i++) {
        cl_device_partition_property one;

        memcpy(&one, fact.data + i * sizeof(one), sizeof(one));
        if (one == CL_DEVICE_PARTITION_EQUALLY ||
            one == CL_DEVICE_PARTITION_BY_COUNTS ||
            one == CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN) {
            list[count++] = one;
        }
    }
    return count;
}

/** Those of the core; {0} if there is none. */
static cl_int
put_partitions(const struct query *q)
{
    cl_device_partition_property list[TP_ICD_PARTITIONS_MAX] = {0};
    size_t count = tp_icd_device_partitions(q->dev, list);

    return answer_bytes(q, list, TP_MAX(count, (size_t)1) * sizeof(list[0]));
}

/** Gives answers of this library that are not 0. @return false: use the driver's. */
static cl_int
put_own(const struct query *q, uint32_t param)
{
    static const cl_bitfield host_queue =
        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    const struct _cl_device_id *dev = q->dev;

    switch (param) {
    case CL_DEVICE_TYPE:
        return put_bits(q, dev->type);
    case CL_DEVICE_PLATFORM:
        return answer_bytes(q, &(cl_platform_id){tp_icd.platform},
                            sizeof(cl_platform_id));
    case CL_DEVICE_AVAILABLE:
        return put_number(q, is_available(dev));
    case CL_DEVICE_REFERENCE_COUNT: /* devices of servers are not counted */
        return put_number(q, dev->parent == NULL ? 1 : dev->obj.refs);
    case CL_DEVICE_PARENT_DEVICE:
        return answer_bytes(q, &(cl_device_id){dev->parent}, sizeof(cl_device_id));
    case CL_DEVICE_PARTITION_PROPERTIES:
        return put_partitions(q);
    case CL_DEVICE_EXECUTION_CAPABILITIES:
        return put_bits(q, CL_EXEC_KERNEL);
    case CL_DEVICE_QUEUE_ON_HOST_PROPERTIES:
        return put_bits(q, tp_icd_device_number(dev, param, CL_QUEUE_PROFILING_ENABLE) &
                               host_queue);
    case CL_DEVICE_SVM_CAPABILITIES:
        return put_bits(q, tp_icd_device_svm(dev));
    case CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL:
    case CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL:
    case CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL:
    case CL_DEVICE_CROSS_DEVICE_SHARED_MEM_CAPABILITIES_INTEL:
    case CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL:
        return tp_icd_device_has_usm(dev) ? put_bits(q, tp_icd_device_usm(dev, param))
                                          : NOT_HERE;
    case CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES:
    case CL_DEVICE_ATOMIC_FENCE_CAPABILITIES:
        return put_atomics(q, param);
    case CL_DEVICE_OPENCL_C_FEATURES:
        return put_features(q);
    case CL_DEVICE_EXTENSIONS:
        return put_extensions(q);
    case CL_DEVICE_EXTENSIONS_WITH_VERSION:
        return put_extensions_with_version(q);
    default:
        return NOT_HERE;
    }
}

static cl_int
put_il(const struct query *q)
{
    char list[TP_ICD_IL_TEXT_MAX];

    (void)tp_icd_device_il(q->dev, list, sizeof(list));
    return tp_icd_answer_text(q->value_size, q->value, q->size_ret, list);
}

/** The same languages, by name and version. */
static cl_int
put_ils(const struct query *q)
{
    enum { ILS_MAX = 32 };
    cl_name_version list[ILS_MAX];
    char text[TP_ICD_IL_TEXT_MAX], *save = NULL;
    size_t count = 0;

    (void)tp_icd_device_il(q->dev, text, sizeof(text));
    memset(list, 0, sizeof(list));
    for (const char *word = strtok_r(text, " ", &save); word != NULL && count < ILS_MAX;
         word = strtok_r(NULL, " ", &save)) {
        memcpy(list[count].name, "SPIR-V", sizeof("SPIR-V"));
        list[count++].version = parse_version(word, "SPIR-V_");
    }
    return answer_bytes(q, list, count * sizeof(list[0]));
}

/** The driver's table, or one made of the names, which ";" separates. */
static cl_int
put_built_in_kernels(const struct query *q)
{
    cl_name_version *list;
    const char *text = tp_icd_device_text(q->dev, CL_DEVICE_BUILT_IN_KERNELS, "");
    char *names = tp_strdup(text, "built-in kernels");
    size_t count;
    cl_int err = CL_OUT_OF_HOST_MEMORY;

    for (char *at = names; at != NULL && (at = strchr(at, ';')) != NULL;) {
        *at = ' ';
    }
    if (names != NULL) {
        err = tp_icd_device_name_versions(
            q->dev, CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION, names, &list, &count);
    }
    if (err == CL_SUCCESS) {
        err = answer_bytes(q, list, count * sizeof(*list));
        tp_free(list);
    }
    tp_free(names);
    return err;
}

/** Gives texts and versions of this library. @return false: use the driver's. */
static cl_int
put_version(const struct query *q, uint32_t param)
{
    switch (param) {
    case CL_DEVICE_VERSION:
        return answer_version_text(tp_icd_device_text(q->dev, param, ""), "OpenCL ",
                                   device_version(q->dev), q->value_size, q->value,
                                   q->size_ret);
    case CL_DEVICE_OPENCL_C_VERSION:
        return answer_version_text(tp_icd_device_text(q->dev, param, ""), "OpenCL C ",
                                   language_version(q->dev), q->value_size, q->value,
                                   q->size_ret);
    case CL_DEVICE_NUMERIC_VERSION:
        return put_number(q, device_version(q->dev));
    case CL_DEVICE_OPENCL_C_NUMERIC_VERSION_KHR:
        return put_number(q, language_version(q->dev));
    case CL_DEVICE_OPENCL_C_ALL_VERSIONS:
        return put_language_versions(q);
    case CL_DEVICE_IL_VERSION:
        return put_il(q);
    case CL_DEVICE_ILS_WITH_VERSION:
        return put_ils(q);
    case CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION:
        return put_built_in_kernels(q);
    case CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED:
        /* The driver passed, maybe; driver and Telpher together were not submitted. */
        return tp_icd_answer_text(q->value_size, q->value, q->size_ret,
                                  "v0000-00-00-00");
    default:
        return NOT_HERE;
    }
}

/** A query newer than the driver. */
static cl_int
put_absent(const struct query *q, uint32_t param)
{
    return param == CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE
               ? answer_bytes(q, &(size_t){1}, sizeof(size_t))
               : put_zero(q, absent, TP_ARRAY_LEN(absent), param);
}

static bool
is_hidden(const struct _cl_device_id *dev, uint32_t param)
{
    if (param == CL_DEVICE_SUB_GROUP_SIZES_INTEL ||
        param == CL_DEVICE_MAX_NAMED_BARRIER_COUNT_KHR) {
        return !tp_icd_device_has_sub_groups(dev);
    }
    if (param == CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR ||
        param == CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR) {
        return !tp_icd_device_has_commands(dev);
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(hidden); i++) {
        if (param >= hidden[i].first && param <= hidden[i].last) {
            return true;
        }
    }
    return false;
}

cl_int
tp_clGetDeviceInfo(cl_device_id device, cl_device_info param, size_t value_size,
                   void *value, size_t *size_ret)
{
    const struct query q = {tp_icd_check(device, TP_ICD_DEVICE), value_size, value,
                            size_ret};
    struct tp_wire_fact fact;
    cl_int err;

    if (q.dev == NULL) {
        return CL_INVALID_DEVICE;
    }
    err = put_zero(&q, denied, TP_ARRAY_LEN(denied), param);
    if (err == NOT_HERE && !q.dev->images) {
        err = put_zero(&q, of_images, TP_ARRAY_LEN(of_images), param);
    }
    if (err == NOT_HERE && !tp_icd_device_has_pipes(q.dev)) {
        err = put_zero(&q, of_pipes, TP_ARRAY_LEN(of_pipes), param);
    }
    err = err == NOT_HERE ? put_own(&q, param) : err;
    err = err == NOT_HERE ? put_version(&q, param) : err;
    if (err == NOT_HERE && !is_hidden(q.dev, param) &&
        tp_icd_device_fact(q.dev, param, &fact)) {
        err = answer_bytes(&q, fact.data, fact.len);
    }
    err = err == NOT_HERE ? put_absent(&q, param) : err;
    return err == NOT_HERE ? CL_INVALID_VALUE : err;
}
