/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities of devices as this library can forward them: supported extensions, and
 * whether a driver has what the calls of this library need.
 */
#include "icd/commands/command_buffer.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/platform.h"
#include "icd/objects/usm.h"

#include <CL/cl_ext.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/text/text.h"

/* ---- facts ----------------------------------------------------------------------------- */

/** @return the driver's text, or @p if_absent. */
const char *
tp_icd_device_text(const struct _cl_device_id *dev, uint32_t param,
                   const char *if_absent)
{
    struct tp_wire_fact fact;

    if (tp_icd_device_fact(dev, param, &fact) && fact.len > 0 &&
        fact.data[fact.len - 1] == '\0') {
        return (const char *)fact.data;
    }
    return if_absent;
}

/** The driver's table as an array; *ret_list is NULL when it has none. */
size_t
tp_icd_device_names(const struct _cl_device_id *dev, uint32_t param,
                    cl_name_version **ret_list)
{
    struct tp_wire_fact fact;
    size_t count;

    *ret_list = NULL;
    if (!tp_icd_device_fact(dev, param, &fact)) {
        return 0;
    }
    count = fact.len / sizeof(cl_name_version);
    *ret_list = tp_memdup(fact.data, fact.len, "names"); /* aligned */
    for (size_t i = 0; *ret_list != NULL && i < count; i++) {
        (*ret_list)[i].name[CL_NAME_VERSION_MAX_NAME_SIZE - 1] = '\0';
    }
    return *ret_list == NULL ? 0 : count;
}

/* ---- abilities ----------------------------------------------------------------------------- */

/** True if a device has command buffers of a version before 0.9.5. From 0.9.5 on the
 *  functions have other parameters than in the headers that we compile with. */
bool
tp_icd_device_has_commands(const struct _cl_device_id *dev)
{
    cl_name_version *known;
    size_t count = tp_icd_device_names(dev, CL_DEVICE_EXTENSIONS_WITH_VERSION, &known);
    struct tp_wire_fact fact;
    bool found = false;

    for (size_t i = 0; i < count; i++) {
        found = found ||
                (strcmp(known[i].name, CL_KHR_COMMAND_BUFFER_EXTENSION_NAME) == 0 &&
                 known[i].version < CL_MAKE_VERSION(0, 9, 5));
    }
    tp_free(known);
    return found &&
           tp_icd_device_fact(dev, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, &fact);
}

#define SUGGESTS "cl_khr_suggested_local_work_size"

static cl_device_svm_capabilities
native_svm(const struct _cl_device_id *dev)
{
    return tp_icd_device_number(dev, CL_DEVICE_SVM_CAPABILITIES, 0);
}

bool
tp_icd_device_takes_addresses(const struct _cl_device_id *dev)
{
    return tp_wire_svm_is_host((dev->type & CL_DEVICE_TYPE_CPU) != 0, native_svm(dev));
}

cl_device_svm_capabilities
tp_icd_device_svm(const struct _cl_device_id *dev)
{
    uint64_t features = dev->server->idle_features;

    if (!tp_icd_settings.shared_memory) {
        features &= ~TP_WIRE_FEATURE_SHARED;
    }
    return tp_wire_svm(features, (dev->type & CL_DEVICE_TYPE_CPU) != 0,
                       native_svm(dev));
}

bool
tp_icd_platform_has(bool (*able)(const struct _cl_device_id *dev))
{
    const struct _cl_platform_id *platform = tp_icd.platform;

    for (size_t i = 0; platform != NULL && i < platform->device_count; i++) {
        if (able(platform->devices[i])) {
            return true;
        }
    }
    return false;
}

bool
tp_icd_device_has_sub_groups(const struct _cl_device_id *dev)
{
    return tp_icd_device_number(dev, CL_DEVICE_MAX_NUM_SUB_GROUPS, 0) != 0;
}

bool
tp_icd_device_suggests(const struct _cl_device_id *dev)
{
    return (dev->server->idle_features & TP_WIRE_FEATURE_SUGGEST) != 0 &&
           tp_text_has_word(tp_icd_device_text(dev, CL_DEVICE_EXTENSIONS, ""), ' ',
                            SUGGESTS, strlen(SUGGESTS));
}

/** The language that programs in intermediate form are taken in. */
#define SPIRV "SPIR-V_"

static bool
is_spirv(__attribute__((unused)) const void *arg, const char *name,
         __attribute__((unused)) size_t len)
{
    return strncmp(name, SPIRV, strlen(SPIRV)) == 0;
}

size_t
tp_icd_device_il(const struct _cl_device_id *dev, char *list, size_t size)
{
    (void)snprintf(list, size, "%s", tp_icd_device_text(dev, CL_DEVICE_IL_VERSION, ""));
    tp_text_keep_words(list, is_spirv, NULL);
    return strlen(list);
}

bool
tp_icd_device_has_il(const struct _cl_device_id *dev)
{
    char list[TP_ICD_IL_TEXT_MAX];

    return tp_icd_device_il(dev, list, sizeof(list)) != 0;
}

/** Requirements of an extension besides the kernel language. */
enum need { NOTHING, COMMANDS, SUB_GROUPS, IL, SUGGESTED };

static bool
has(const struct _cl_device_id *dev, enum need need)
{
    switch (need) {
    case COMMANDS:
        return tp_icd_device_has_commands(dev);
    case SUB_GROUPS:
        return tp_icd_device_has_sub_groups(dev);
    case IL:
        return tp_icd_device_has_il(dev);
    case SUGGESTED:
        return tp_icd_device_suggests(dev);
    default:
        return true;
    }
}

/* ---- extensions ---------------------------------------------------------------------------- */

/**
 * Extensions that need no host function, or only implemented ones. With `query`, only if the
 * driver answered that query.
 */
static const struct {
    const char *name;
    cl_device_info query;
    enum need need;
} kept_extensions[] = {
    {"cl_khr_byte_addressable_store", 0, NOTHING},
    {"cl_khr_global_int32_base_atomics", 0, NOTHING},
    {"cl_khr_global_int32_extended_atomics", 0, NOTHING},
    {"cl_khr_local_int32_base_atomics", 0, NOTHING},
    {"cl_khr_local_int32_extended_atomics", 0, NOTHING},
    {"cl_khr_int64_base_atomics", 0, NOTHING},
    {"cl_khr_int64_extended_atomics", 0, NOTHING},
    {"cl_khr_fp16", 0, NOTHING},
    {"cl_khr_fp64", 0, NOTHING},
    {"cl_khr_select_fprounding_mode", 0, NOTHING},
    {"cl_khr_3d_image_writes", 0, NOTHING},
    {"cl_khr_depth_images", 0, NOTHING},
    {"cl_khr_image2d_from_buffer", CL_DEVICE_IMAGE_PITCH_ALIGNMENT, NOTHING},
    {"cl_khr_expect_assume", 0, NOTHING},
    {"cl_khr_extended_bit_ops", 0, NOTHING},
    {"cl_khr_extended_async_copies", 0, NOTHING},
    {"cl_khr_async_work_group_copy_fence", 0, NOTHING},
    {"cl_khr_work_group_uniform_arithmetic", 0, NOTHING},
    {"cl_khr_create_command_queue", 0, NOTHING},
    {CL_KHR_COMMAND_BUFFER_EXTENSION_NAME, 0, COMMANDS},
    {"cl_khr_extended_versioning", 0, NOTHING},
    {"cl_khr_subgroups", 0, SUB_GROUPS},
    {"cl_khr_subgroup_extended_types", 0, SUB_GROUPS},
    {"cl_khr_subgroup_non_uniform_vote", 0, SUB_GROUPS},
    {"cl_khr_subgroup_ballot", 0, SUB_GROUPS},
    {"cl_khr_subgroup_non_uniform_arithmetic", 0, SUB_GROUPS},
    {"cl_khr_subgroup_shuffle", 0, SUB_GROUPS},
    {"cl_khr_subgroup_shuffle_relative", 0, SUB_GROUPS},
    {"cl_khr_subgroup_clustered_reduce", 0, SUB_GROUPS},
    {"cl_khr_subgroup_rotate", 0, SUB_GROUPS},
    {"cl_khr_subgroup_named_barrier", CL_DEVICE_MAX_NAMED_BARRIER_COUNT_KHR,
     SUB_GROUPS},
    {SUGGESTS, 0, SUGGESTED},
    {"cl_khr_il_program", 0, IL},
    {"cl_khr_spirv_no_integer_wrap_decoration", 0, IL},
    {"cl_khr_spirv_extended_debug_info", 0, IL},
    {"cl_khr_spirv_linkonce_odr", 0, IL},
    {"cl_intel_subgroups", 0, SUB_GROUPS},
    {"cl_intel_subgroups_char", 0, SUB_GROUPS},
    {"cl_intel_subgroups_short", 0, SUB_GROUPS},
    {"cl_intel_subgroups_long", 0, SUB_GROUPS},
    {"cl_intel_subgroup_local_block_io", 0, SUB_GROUPS},
    {"cl_intel_required_subgroup_size", CL_DEVICE_SUB_GROUP_SIZES_INTEL, SUB_GROUPS},
    {"cl_intel_spirv_subgroups", 0, IL},
    {"cl_khr_integer_dot_product", 0x1073 /* …INTEGER_DOT_PRODUCT_CAPABILITIES_KHR */,
     NOTHING},
    {"cl_khr_kernel_clock", 0x1076 /* CL_DEVICE_KERNEL_CLOCK_CAPABILITIES_KHR */,
     NOTHING},
    {"cl_intel_bfloat16", 0, NOTHING},
    {"cl_intel_bfloat16_conversions", 0, NOTHING},
    {"cl_intel_sigmoid", 0, NOTHING},
    {"cl_intel_vec_len_hint", 0, NOTHING},
    {"cl_intel_split_work_group_barrier", 0, NOTHING},
    {"cl_intel_device_attribute_query", 0x4250 /* CL_DEVICE_IP_VERSION_INTEL */,
     NOTHING},
    {"cl_ext_cxx_for_opencl", 0x4230 /* …CXX_FOR_OPENCL_NUMERIC_VERSION_EXT */,
     NOTHING},
    {"cl_khr_device_uuid", 0x106a /* CL_DEVICE_UUID_KHR */, NOTHING},
    {"cl_ext_float_atomics", 0x4231 /* CL_DEVICE_SINGLE_FP_ATOMIC_CAPABILITIES_EXT */,
     NOTHING},
    {"cl_clang_storage_class_specifiers", 0, NOTHING},
    {"cl_amd_media_ops", 0, NOTHING},
    {"cl_amd_media_ops2", 0, NOTHING},
    {"cl_amd_popcnt", 0, NOTHING},
    {"cl_amd_device_attribute_query", 0x4037 /* CL_DEVICE_TOPOLOGY_AMD */, NOTHING},
    {"cl_nv_device_attribute_query", 0x4000 /* …COMPUTE_CAPABILITY_MAJOR_NV */,
     NOTHING},
    {"cl_nv_compiler_options", 0, NOTHING},
    {"cl_nv_pragma_unroll", 0, NOTHING},
    {"cl_arm_integer_dot_product_int8", 0, NOTHING},
    {"cl_arm_integer_dot_product_accumulate_int8", 0, NOTHING},
    {"cl_arm_integer_dot_product_accumulate_int16", 0, NOTHING},
    {"cl_arm_integer_dot_product_accumulate_saturate_int8", 0, NOTHING},
};

static bool
keeps_extension(const void *arg, const char *name, size_t len)
{
    const struct _cl_device_id *dev = arg;

    for (size_t i = 0; i < TP_ARRAY_LEN(kept_extensions); i++) {
        struct tp_wire_fact fact;

        if (strlen(kept_extensions[i].name) == len &&
            memcmp(kept_extensions[i].name, name, len) == 0) {
            return has(dev, kept_extensions[i].need) &&
                   (kept_extensions[i].query == 0 ||
                    tp_icd_device_fact(dev, kept_extensions[i].query, &fact));
        }
    }
    return false;
}

char *
tp_icd_device_extensions(const struct _cl_device_id *dev)
{
    char *list =
        tp_strdup(tp_icd_device_text(dev, CL_DEVICE_EXTENSIONS, ""), "extensions");
    char *all;

    if (list == NULL) {
        return NULL;
    }
    tp_text_keep_words(list, keeps_extension, dev);
    if (!tp_icd_device_has_usm(dev)) {
        return list;
    }
    all = tp_asprintf("extensions", "%s%s" TP_ICD_USM_NAME, list,
                      list[0] != '\0' ? " " : "");
    tp_free(list);
    return all;
}

/** @return the version that @p known gives a name, else 1.0.0. */
static cl_version
known_version(const char *name, size_t len, const cl_name_version *known,
              size_t known_count)
{
    for (size_t i = 0; i < known_count; i++) {
        if (strncmp(known[i].name, name, len) == 0 && known[i].name[len] == '\0') {
            return known[i].version;
        }
    }
    return CL_MAKE_VERSION(1, 0, 0);
}

/** @param known the driver's own table; see tp_icd_device_name_versions. */
static cl_int
name_versions(const char *names, const cl_name_version *known, size_t known_count,
              cl_name_version **ret_list, size_t *ret_count)
{
    size_t count = 0, i = 0;
    cl_name_version *list = NULL;
    const char *at = names;

    for (size_t n; (n = tp_text_word(&at, ' ')) != 0; at += n) {
        count++;
    }
    if (count != 0) {
        list = tp_alloc_array(count, sizeof(*list), "names");
        if (list == NULL) {
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    for (size_t n; (n = tp_text_word(&names, ' ')) != 0; names += n) {
        if (i < count && n < CL_NAME_VERSION_MAX_NAME_SIZE) {
            memcpy(list[i].name, names, n);
            list[i].version = known_version(names, n, known, known_count);
            i++;
        }
    }
    *ret_list = list;
    *ret_count = i;
    return CL_SUCCESS;
}

cl_int
tp_icd_device_name_versions(const struct _cl_device_id *dev, uint32_t param,
                            const char *names, cl_name_version **ret_list,
                            size_t *ret_count)
{
    cl_name_version *known;
    size_t known_count = tp_icd_device_names(dev, param, &known);
    cl_int err = name_versions(names, known, known_count, ret_list, ret_count);

    tp_free(known);
    return err;
}
