/* SPDX-License-Identifier: Apache-2.0 */
/* Platform and devices of the test driver, and the answers to their queries. */
#include "td.h"

#include <stdio.h>
#include <string.h>

#define EXTENSIONS "cl_khr_byte_addressable_store cl_khr_global_int32_base_atomics"

static const char *
extensions(void)
{
    return td_script()->suggests > 0 ? EXTENSIONS " cl_khr_suggested_local_work_size"
                                     : EXTENSIONS;
}

static struct _cl_platform_id platform;
static struct _cl_device_id device[TD_DEVICES_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
make_devices(void)
{
    platform.obj =
        (struct td_obj){.dispatch = td_dispatch, .kind = TD_PLATFORM, .id = 1};
    for (unsigned i = 0; i < TD_DEVICES_MAX; i++) {
        device[i].obj =
            (struct td_obj){.dispatch = td_dispatch, .kind = TD_DEVICE, .id = i + 1};
        snprintf(device[i].name, sizeof(device[i].name), "Telpher Test Device %u", i);
    }
}

cl_platform_id
td_platform(void)
{
    pthread_once(&once, make_devices);
    return &platform;
}

cl_device_id
td_device(unsigned index)
{
    td_platform();
    return &device[index];
}

cl_int
td_out_bytes(const struct td_out *out, const void *bytes, size_t len)
{
    if (out->value != NULL) {
        if (out->size < len) {
            return CL_INVALID_VALUE;
        }
        if (len > 0) {
            memcpy(out->value, bytes, len);
        }
    }
    if (out->ret_size != NULL) {
        *out->ret_size = len;
    }
    return CL_SUCCESS;
}

cl_int
td_out_text(const struct td_out *out, const char *text)
{
    return td_out_bytes(out, text, strlen(text) + 1);
}

cl_int
td_out_u32(const struct td_out *out, cl_uint value)
{
    return td_out_bytes(out, &value, sizeof(value));
}

cl_int
td_out_u64(const struct td_out *out, cl_ulong value)
{
    return td_out_bytes(out, &value, sizeof(value));
}

cl_int
td_out_size(const struct td_out *out, size_t value)
{
    return td_out_bytes(out, &value, sizeof(value));
}

cl_int
td_out_ptr(const struct td_out *out, const void *value)
{
    return td_out_bytes(out, &value, sizeof(value));
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetPlatformIDs(cl_uint num_entries, cl_platform_id *platforms,
                    cl_uint *num_platforms)
{
    cl_int err = td_enter("clGetPlatformIDs", "entries=%u", num_entries);

    if (err != CL_SUCCESS) {
        return err;
    }
    if ((num_entries == 0) != (platforms == NULL) ||
        (platforms == NULL && num_platforms == NULL)) {
        return CL_INVALID_VALUE;
    }
    if (platforms != NULL) {
        platforms[0] = td_platform();
    }
    if (num_platforms != NULL) {
        *num_platforms = 1;
    }
    return CL_SUCCESS;
}

static const char *
version_text(void)
{
    return td_script()->version12 ? "OpenCL 1.2 Telpher Test Driver"
                                  : "OpenCL 3.0 Telpher Test Driver";
}

static cl_version
version_number(void)
{
    return td_script()->version12 ? CL_MAKE_VERSION(1, 2, 0) : CL_MAKE_VERSION(3, 0, 0);
}

/* Fills name and version of each word of a list of extensions. */
static cl_int
out_extensions(const struct td_out *out, const char *list)
{
    cl_name_version ext[8];
    size_t count = 0;

    memset(ext, 0, sizeof(ext));
    while (*list != '\0' && count < 8) {
        size_t len = strcspn(list, " ");

        memcpy(ext[count].name, list, len);
        ext[count++].version = CL_MAKE_VERSION(1, 0, 0);
        list += len + strspn(list + len, " ");
    }
    return td_out_bytes(out, ext, count * sizeof(ext[0]));
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetPlatformInfo(cl_platform_id which, cl_platform_info name, size_t size,
                     void *value, size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetPlatformInfo", "name=%#x", name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (which != NULL && which != td_platform()) {
        return CL_INVALID_PLATFORM;
    }
    if (td_script()->version12 && (name == CL_PLATFORM_NUMERIC_VERSION ||
                                   name == CL_PLATFORM_EXTENSIONS_WITH_VERSION ||
                                   name == CL_PLATFORM_HOST_TIMER_RESOLUTION)) {
        return CL_INVALID_VALUE;
    }
    switch (name) {
    case CL_PLATFORM_PROFILE:
        return td_out_text(out, "FULL_PROFILE");
    case CL_PLATFORM_VERSION:
        return td_out_text(out, version_text());
    case CL_PLATFORM_NAME:
        return td_out_text(out, td_script()->name);
    case CL_PLATFORM_VENDOR:
        return td_out_text(out, "Telpher");
    case CL_PLATFORM_EXTENSIONS:
        return td_out_text(out, "cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return td_out_text(out, "TELPHERTEST");
    case CL_PLATFORM_HOST_TIMER_RESOLUTION:
        return td_out_u64(out, td_script()->timer ? 1 : 0);
    case CL_PLATFORM_NUMERIC_VERSION:
        return td_out_u32(out, version_number());
    case CL_PLATFORM_EXTENSIONS_WITH_VERSION:
        return out_extensions(out, "cl_khr_icd");
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetDeviceIDs(cl_platform_id which, cl_device_type type, cl_uint num_entries,
                  cl_device_id *devices, cl_uint *num_devices)
{
    const cl_device_type known = CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_CPU |
                                 CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR |
                                 CL_DEVICE_TYPE_CUSTOM;
    cl_uint count = td_script()->devices;
    cl_int err = td_enter("clGetDeviceIDs", "type=%#llx entries=%u",
                          (unsigned long long)type, num_entries);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (which != NULL && which != td_platform()) {
        return CL_INVALID_PLATFORM;
    }
    if (type == 0 || (type != CL_DEVICE_TYPE_ALL && (type & ~known) != 0)) {
        return CL_INVALID_DEVICE_TYPE;
    }
    if ((num_entries == 0) != (devices == NULL) ||
        (devices == NULL && num_devices == NULL)) {
        return CL_INVALID_VALUE;
    }
    if (type == CL_DEVICE_TYPE_ALL) {
        type = known & ~(cl_device_type)CL_DEVICE_TYPE_CUSTOM;
    }
    if ((type & td_script()->device_type) == 0) {
        count = (type & CL_DEVICE_TYPE_DEFAULT) != 0 && count > 0 ? 1 : 0;
    }
    for (cl_uint i = 0; i < num_entries && i < count; i++) {
        devices[i] = td_device(i);
    }
    if (num_devices != NULL) {
        *num_devices = count;
    }
    return count > 0 ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

enum answer { U32, U64, SIZE, TEXT, NOTHING };

/** A query whose answer never changes. */
struct fact {
    cl_device_info name;
    enum answer answer;
    uint64_t number;
    const char *text;
};

static const struct fact facts[] = {
    {CL_DEVICE_MAX_COMPUTE_UNITS, U32, 2, NULL},
    {CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, U32, 3, NULL},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, SIZE, TD_GROUP_MAX, NULL},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR, U32, 1, NULL},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT, U32, 1, NULL},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT, U32, 1, NULL},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_LONG, U32, 1, NULL},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, U32, 1, NULL},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE, U32, 1, NULL},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF, U32, 0, NULL},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR, U32, 1, NULL},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT, U32, 1, NULL},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_INT, U32, 1, NULL},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG, U32, 1, NULL},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, U32, 1, NULL},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE, U32, 1, NULL},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, U32, 0, NULL},
    {CL_DEVICE_MAX_CLOCK_FREQUENCY, U32, 1000, NULL},
    {CL_DEVICE_ADDRESS_BITS, U32, 64, NULL},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, U64, TD_ALLOC_MAX_BYTES, NULL},
    {CL_DEVICE_IMAGE_SUPPORT, U32, CL_FALSE, NULL},
    {CL_DEVICE_MAX_READ_IMAGE_ARGS, U32, 0, NULL},
    {CL_DEVICE_MAX_WRITE_IMAGE_ARGS, U32, 0, NULL},
    {CL_DEVICE_IMAGE2D_MAX_WIDTH, SIZE, 0, NULL},
    {CL_DEVICE_IMAGE2D_MAX_HEIGHT, SIZE, 0, NULL},
    {CL_DEVICE_IMAGE3D_MAX_WIDTH, SIZE, 0, NULL},
    {CL_DEVICE_IMAGE3D_MAX_HEIGHT, SIZE, 0, NULL},
    {CL_DEVICE_IMAGE3D_MAX_DEPTH, SIZE, 0, NULL},
    {CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, SIZE, 0, NULL},
    {CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, SIZE, 0, NULL},
    {CL_DEVICE_MAX_SAMPLERS, U32, 0, NULL},
    {CL_DEVICE_MAX_PARAMETER_SIZE, SIZE, 1024, NULL},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, U32, TD_BASE_ALIGN_BYTES * 8u, NULL},
    {CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE, U32, TD_BASE_ALIGN_BYTES, NULL},
    {CL_DEVICE_SINGLE_FP_CONFIG, U64, CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN, NULL},
    {CL_DEVICE_DOUBLE_FP_CONFIG, U64, 0, NULL},
    {CL_DEVICE_GLOBAL_MEM_CACHE_TYPE, U32, CL_NONE, NULL},
    {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, U32, 0, NULL},
    {CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, U64, 0, NULL},
    {CL_DEVICE_GLOBAL_MEM_SIZE, U64, 4 * TD_ALLOC_MAX_BYTES, NULL},
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, U64, 65536, NULL},
    {CL_DEVICE_MAX_CONSTANT_ARGS, U32, 8, NULL},
    {CL_DEVICE_LOCAL_MEM_TYPE, U32, CL_GLOBAL, NULL},
    {CL_DEVICE_LOCAL_MEM_SIZE, U64, TD_LOCAL_MEM_BYTES, NULL},
    {CL_DEVICE_ERROR_CORRECTION_SUPPORT, U32, CL_FALSE, NULL},
    {CL_DEVICE_PROFILING_TIMER_RESOLUTION, SIZE, 1, NULL},
    {CL_DEVICE_ENDIAN_LITTLE, U32, CL_TRUE, NULL},
    {CL_DEVICE_AVAILABLE, U32, CL_TRUE, NULL},
    {CL_DEVICE_EXECUTION_CAPABILITIES, U64, CL_EXEC_KERNEL, NULL},
    {CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, U64,
     CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, NULL},
    {CL_DEVICE_VENDOR, TEXT, 0, "Telpher"},
    {CL_DEVICE_PROFILE, TEXT, 0, "FULL_PROFILE"},
    {CL_DEVICE_PRINTF_BUFFER_SIZE, SIZE, 65536, NULL},
    {CL_DEVICE_PREFERRED_INTEROP_USER_SYNC, U32, CL_TRUE, NULL},
    {CL_DEVICE_PARENT_DEVICE, U64, 0, NULL},
    {CL_DEVICE_PARTITION_MAX_SUB_DEVICES, U32, 0, NULL},
    {CL_DEVICE_PARTITION_PROPERTIES, U64, 0, NULL},
    {CL_DEVICE_PARTITION_AFFINITY_DOMAIN, U64, 0, NULL},
    {CL_DEVICE_PARTITION_TYPE, NOTHING, 0, NULL},
    {CL_DEVICE_REFERENCE_COUNT, U32, 1, NULL},
};

/* Queries of OpenCL 3.0 devices only. */
static const struct fact facts_30[] = {
    {CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, U64,
     CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP, NULL},
    {CL_DEVICE_ATOMIC_FENCE_CAPABILITIES, U64,
     CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_ORDER_ACQ_REL |
         CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP,
     NULL},
    {CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, U32, CL_FALSE, NULL},
    {CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT, U32, CL_FALSE, NULL},
    {CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, U32, CL_FALSE, NULL},
    {CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES, U64, 0, NULL},
    {CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, U64, 0, NULL},
    {CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, U32, 0, NULL},
    {CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, U32, 0, NULL},
    {CL_DEVICE_MAX_ON_DEVICE_QUEUES, U32, 0, NULL},
    {CL_DEVICE_MAX_ON_DEVICE_EVENTS, U32, 0, NULL},
    {CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, U32, 0, NULL},
    {CL_DEVICE_IMAGE_PITCH_ALIGNMENT, U32, 0, NULL},
    {CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, U32, 0, NULL},
    {CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, SIZE, 0, NULL},
    {CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE, SIZE, 0, NULL},
    {CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT, U32, 0, NULL},
    {CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT, U32, 0, NULL},
    {CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT, U32, 0, NULL},
    {CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS, U32, CL_FALSE, NULL},
    {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, SIZE, 1, NULL},
    {CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED, TEXT, 0, "v0000-00-00-00"},
};

static const struct fact *
find_fact(const struct fact *table, size_t count, cl_device_info name)
{
    for (size_t i = 0; i < count; i++) {
        if (table[i].name == name) {
            return &table[i];
        }
    }
    return NULL;
}

static cl_int
out_fact(const struct td_out *out, cl_device_info name)
{
    const struct fact *f = find_fact(facts, sizeof(facts) / sizeof(facts[0]), name);

    if (f == NULL && !td_script()->version12) {
        f = find_fact(facts_30, sizeof(facts_30) / sizeof(facts_30[0]), name);
    }
    if (f == NULL) {
        return CL_INVALID_VALUE;
    }
    switch (f->answer) {
    case U32:
        return td_out_u32(out, (cl_uint)f->number);
    case U64:
        return td_out_u64(out, f->number);
    case SIZE:
        return td_out_size(out, (size_t)f->number);
    case TEXT:
        return td_out_text(out, f->text);
    case NOTHING:
        break;
    }
    return td_out_bytes(out, NULL, 0);
}

bool
td_takes_il(cl_device_id dev)
{
    return dev->obj.id <= td_script()->il;
}

static cl_int
out_built_in(const struct td_out *out)
{
    const struct td_built_in *kernel = td_built_in_kernels();
    cl_name_version list[8];
    size_t count = 0;

    memset(list, 0, sizeof(list));
    for (; kernel->name != NULL; kernel++) {
        list[count].version = CL_MAKE_VERSION(1, 0, 0);
        snprintf(list[count++].name, sizeof(list[0].name), "%s", kernel->name);
    }
    return td_out_bytes(out, list, count * sizeof(list[0]));
}

/* The names, ";" between them. */
static cl_int
out_built_in_names(const struct td_out *out)
{
    const struct td_built_in *kernel = td_built_in_kernels();
    char names[64] = "";

    for (; kernel->name != NULL; kernel++) {
        size_t n = strlen(names);

        snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? ";" : "", kernel->name);
    }
    return td_out_text(out, names);
}

/* Versions and what else is computed, of an OpenCL 3.0 device. */
static cl_int
out_30(cl_device_id dev, const struct td_out *out, cl_device_info name)
{
    static const cl_name_version il[] = {{CL_MAKE_VERSION(1, 0, 0), "SPIR-V"}};
    static const cl_name_version pipes[] = {
        {CL_MAKE_VERSION(3, 0, 0), "__opencl_c_pipes"}};
    unsigned sub_group = td_script()->sub_group;
    static const cl_name_version c[] = {{CL_MAKE_VERSION(1, 0, 0), "OpenCL C"},
                                        {CL_MAKE_VERSION(1, 1, 0), "OpenCL C"},
                                        {CL_MAKE_VERSION(1, 2, 0), "OpenCL C"},
                                        {CL_MAKE_VERSION(3, 0, 0), "OpenCL C"}};

    switch (name) {
    case CL_DEVICE_NUMERIC_VERSION:
        return td_out_u32(out, version_number());
    case CL_DEVICE_EXTENSIONS_WITH_VERSION:
        return out_extensions(out, extensions());
    case CL_DEVICE_OPENCL_C_ALL_VERSIONS:
        return td_out_bytes(out, c, sizeof(c));
    case CL_DEVICE_IL_VERSION:
        return td_out_text(out, td_takes_il(dev) ? "SPIR-V_1.0" : "");
    case CL_DEVICE_ILS_WITH_VERSION:
        return td_out_bytes(out, il, td_takes_il(dev) ? sizeof(il) : 0);
    case CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION:
        return out_built_in(out);
    case CL_DEVICE_SVM_CAPABILITIES:
        return td_out_u64(
            out, (td_script()->svm > 0 ? CL_DEVICE_SVM_COARSE_GRAIN_BUFFER : 0) |
                     (td_script()->fine ? CL_DEVICE_SVM_FINE_GRAIN_BUFFER : 0));
    case CL_DEVICE_PIPE_SUPPORT:
    case CL_DEVICE_MAX_PIPE_ARGS:
    case CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS:
        return td_out_u32(out, td_script()->pipes ? 1 : 0);
    case CL_DEVICE_PIPE_MAX_PACKET_SIZE:
        return td_out_u32(out, td_script()->pipes ? TD_PACKET_MAX_BYTES : 0);
    case CL_DEVICE_OPENCL_C_FEATURES:
        return td_out_bytes(out, pipes, td_script()->pipes ? sizeof(pipes) : 0);
    case CL_DEVICE_MAX_NUM_SUB_GROUPS:
        return td_out_u32(out, sub_group > 0 ? TD_GROUP_MAX / sub_group : 0);
    default:
        return out_fact(out, name);
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetDeviceInfo(cl_device_id dev, cl_device_info name, size_t size, void *value,
                   size_t *ret_size)
{
    static const size_t items[3] = {TD_GROUP_MAX, TD_GROUP_MAX, TD_GROUP_MAX};
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetDeviceInfo", "device=%u name=%#x", td_id(dev), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(dev, TD_DEVICE)) {
        return CL_INVALID_DEVICE;
    }
    switch (name) {
    case CL_DEVICE_TYPE:
        return td_out_u64(out, td_script()->device_type);
    case CL_DEVICE_NAME:
        return td_out_text(out, dev->name);
    case CL_DEVICE_PLATFORM:
        return td_out_ptr(out, td_platform());
    case CL_DEVICE_BUILT_IN_KERNELS:
        return out_built_in_names(out);
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_LINKER_AVAILABLE:
        return td_out_u32(out, td_script()->device_type != CL_DEVICE_TYPE_CUSTOM);
    case CL_DEVICE_EXTENSIONS:
        return td_out_text(out, extensions());
    case CL_DEVICE_VERSION:
        return td_out_text(out, version_text());
    case CL_DRIVER_VERSION:
        return td_out_text(out, td_script()->driver);
    case CL_DEVICE_OPENCL_C_VERSION:
        return td_out_text(out, "OpenCL C 1.2 ");
    case CL_DEVICE_VENDOR_ID:
        return td_out_u32(out, td_script()->vendor);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return td_out_u32(out, td_script()->unified);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return td_out_bytes(out, items, sizeof(items));
    default:
        return td_script()->version12 ? out_fact(out, name) : out_30(dev, out, name);
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clRetainDevice(cl_device_id dev)
{
    cl_int err = td_enter("clRetainDevice", "device=%u", td_id(dev));

    return err != CL_SUCCESS       ? err
           : td_is(dev, TD_DEVICE) ? CL_SUCCESS
                                   : CL_INVALID_DEVICE;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clReleaseDevice(cl_device_id dev)
{
    cl_int err = td_enter("clReleaseDevice", "device=%u", td_id(dev));

    return err != CL_SUCCESS       ? err
           : td_is(dev, TD_DEVICE) ? CL_SUCCESS
                                   : CL_INVALID_DEVICE;
}
