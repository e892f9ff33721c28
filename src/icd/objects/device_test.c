/* SPDX-License-Identifier: Apache-2.0 */
/* Device queries return the driver's values, without features that are not forwarded. */
#include "icd/world_test.h"

#define DEV TP_WIRE_FACT_DEVICE, 0, 0

static void
add_name_version(struct world_facts *f, uint32_t param, const char *const *names,
                 size_t count)
{
    cl_name_version list[8] = {{0}};

    for (size_t i = 0; i < count; i++) {
        list[i].version = CL_MAKE_VERSION(3, 0, 0);
        strncpy(list[i].name, names[i], sizeof(list[i].name) - 1);
    }
    world_add(f, DEV, param, list, count * sizeof(list[0]));
}

static void
ask_text(const struct world *w, cl_device_info param, char *text, size_t room)
{
    assert_int_equal(
        tp_clGetDeviceInfo((cl_device_id)&w->device, param, room, text, NULL),
        CL_SUCCESS);
}

static uint64_t
ask_number(const struct world *w, cl_device_info param)
{
    uint64_t number = 0;
    size_t size = 0;

    assert_int_equal(tp_clGetDeviceInfo((cl_device_id)&w->device, param, sizeof(number),
                                        &number, &size),
                     CL_SUCCESS);
    assert_true(size == 4 || size == 8);
    return number;
}

/** A driver of 3.0 that can do everything. */
static void
make_rich(struct world_facts *f)
{
    static const char *const features[] = {"__opencl_c_images", "__opencl_c_fp64",
                                           "__opencl_c_subgroups"};

    world_add_text(f, DEV, CL_DEVICE_NAME, "Rich Device");
    world_add_text(f, DEV, CL_DEVICE_VERSION, "OpenCL 3.0 rich");
    world_add_text(f, DEV, CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 3.0 rich");
    world_add_text(f, DEV, CL_DEVICE_EXTENSIONS,
                   " cl_khr_fp64 cl_khr_gl_sharing  cl_khr_subgroups cl_khr_fp16 "
                   "cl_khr_integer_dot_product cl_khr_spir cl_khr_device_uuid");
    world_add_text(f, DEV, 0x106a, "uuid of sixteen");
    world_add_u32(f, DEV, CL_DEVICE_HOST_UNIFIED_MEMORY, 1);
    world_add_u32(f, DEV, CL_DEVICE_IMAGE_SUPPORT, 1);
    world_add_u64(f, DEV, CL_DEVICE_IMAGE2D_MAX_WIDTH, 16384);
    world_add_u64(f, DEV, CL_DEVICE_SVM_CAPABILITIES, 15);
    world_add_u64(f, DEV, CL_DEVICE_EXECUTION_CAPABILITIES,
                  CL_EXEC_KERNEL | CL_EXEC_NATIVE_KERNEL);
    world_add_u64(f, DEV, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, 3);
    world_add_u64(f, DEV, CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, 0x7f);
    world_add_u64(f, DEV, CL_DEVICE_GLOBAL_MEM_SIZE, 1ULL << 33);
    world_add_text(f, DEV, CL_DEVICE_IL_VERSION, "Other_3.0  SPIR-V_1.2 SPIR-V_1.4");
    world_add_text(f, DEV, CL_DEVICE_BUILT_IN_KERNELS, "some.kernel;another");
    world_add_text(f, DEV, 0x40e0, "1.2");
    add_name_version(f, CL_DEVICE_OPENCL_C_FEATURES, features, 3);
}

static void
words_of_the_driver_are_unchanged(void **state)
{
    struct world_facts f = {.len = 0};
    struct world w;
    char text[256];

    (void)state;
    make_rich(&f);
    world_init(&w, &f);
    ask_text(&w, CL_DEVICE_NAME, text, sizeof(text));
    assert_string_equal(text, "Rich Device");
    ask_text(&w, CL_DEVICE_VERSION, text, sizeof(text));
    assert_string_equal(text, "OpenCL 3.0 rich");
    ask_text(&w, CL_DEVICE_OPENCL_C_VERSION, text, sizeof(text));
    assert_string_equal(text, "OpenCL C 3.0 rich");
    assert_int_equal(ask_number(&w, CL_DEVICE_GLOBAL_MEM_SIZE), 1ULL << 33);
    assert_int_equal(ask_number(&w, CL_DEVICE_TYPE), CL_DEVICE_TYPE_GPU);
    assert_int_equal(ask_number(&w, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES), 3);
    world_fini(&w);
}

static void
nothing_is_claimed_that_is_not_forwarded(void **state)
{
    static const cl_device_info zero[] = {
        CL_DEVICE_HOST_UNIFIED_MEMORY, CL_DEVICE_IMAGE_SUPPORT,
        CL_DEVICE_IMAGE2D_MAX_WIDTH,   CL_DEVICE_SVM_CAPABILITIES,
        CL_DEVICE_PIPE_SUPPORT,        CL_DEVICE_PIPE_MAX_PACKET_SIZE,
        CL_DEVICE_PARENT_DEVICE,       CL_DEVICE_PARTITION_PROPERTIES,
        CL_DEVICE_MAX_ON_DEVICE_QUEUES};
    struct world_facts f = {.len = 0};
    struct world w;
    char text[256];
    cl_name_version features[8];
    size_t size;

    (void)state;
    make_rich(&f);
    world_init(&w, &f);
    for (size_t i = 0; i < sizeof(zero) / sizeof(zero[0]); i++) {
        assert_int_equal(ask_number(&w, zero[i]), 0);
    }
    assert_int_equal(ask_number(&w, CL_DEVICE_EXECUTION_CAPABILITIES), CL_EXEC_KERNEL);
    assert_int_equal(ask_number(&w, CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES),
                     0x7f & ~CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES);
    ask_text(&w, CL_DEVICE_EXTENSIONS, text, sizeof(text));
    assert_string_equal(text, "cl_khr_fp64 cl_khr_fp16 cl_khr_device_uuid");
    assert_int_equal(tp_clGetDeviceInfo(&w.device, 0x40e0, 0, NULL, &size),
                     CL_INVALID_VALUE);
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_OPENCL_C_FEATURES,
                                        sizeof(features), features, &size),
                     CL_SUCCESS);
    assert_int_equal(size, sizeof(features[0]));
    assert_string_equal(features[0].name, "__opencl_c_fp64");
    world_fini(&w);
}

/** SPIR-V, of whatever version, and no other language; built-in kernels. */
static void
programs_without_source(void **state)
{
    struct world_facts f = {.len = 0};
    struct world w;
    cl_name_version list[8];
    char text[256];
    size_t size;

    (void)state;
    make_rich(&f);
    world_init(&w, &f);
    ask_text(&w, CL_DEVICE_IL_VERSION, text, sizeof(text));
    assert_string_equal(text, "SPIR-V_1.2 SPIR-V_1.4");
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_ILS_WITH_VERSION,
                                        sizeof(list), list, &size),
                     CL_SUCCESS);
    assert_int_equal(size, 2 * sizeof(list[0]));
    assert_string_equal(list[1].name, "SPIR-V");
    assert_int_equal(list[1].version, CL_MAKE_VERSION(1, 4, 0));
    ask_text(&w, CL_DEVICE_BUILT_IN_KERNELS, text, sizeof(text));
    assert_string_equal(text, "some.kernel;another");
    assert_int_equal(tp_clGetDeviceInfo(&w.device,
                                        CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION,
                                        sizeof(list), list, &size),
                     CL_SUCCESS);
    assert_int_equal(size, 2 * sizeof(list[0]));
    assert_string_equal(list[1].name, "another");
    assert_int_equal(list[1].version, CL_MAKE_VERSION(1, 0, 0));
    world_fini(&w);
}

static void
sub_groups_are_the_drivers(void **state)
{
    static const char *const features[] = {"__opencl_c_subgroups"};
    struct world_facts f = {.len = 0};
    struct world w;
    cl_name_version list[8];
    char text[256];
    size_t size;

    (void)state;
    make_rich(&f);
    world_add_u32(&f, DEV, CL_DEVICE_MAX_NUM_SUB_GROUPS, 64);
    world_init(&w, &f);
    assert_int_equal(ask_number(&w, CL_DEVICE_MAX_NUM_SUB_GROUPS), 64);
    ask_text(&w, CL_DEVICE_EXTENSIONS, text, sizeof(text));
    assert_non_null(strstr(text, "cl_khr_subgroups"));
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_OPENCL_C_FEATURES,
                                        sizeof(list), list, &size),
                     CL_SUCCESS);
    assert_int_equal(size, 2 * sizeof(list[0]));
    assert_string_equal(list[1].name, features[0]);
    world_fini(&w);
}

static void
extensions_keep_their_versions(void **state)
{
    static const char *const known[] = {"cl_khr_fp64"};
    struct world_facts f = {.len = 0};
    struct world w;
    cl_name_version list[8];
    size_t size;

    (void)state;
    make_rich(&f);
    add_name_version(&f, CL_DEVICE_EXTENSIONS_WITH_VERSION, known, 1);
    world_init(&w, &f);
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_EXTENSIONS_WITH_VERSION,
                                        sizeof(list), list, &size),
                     CL_SUCCESS);
    assert_int_equal(size, 3 * sizeof(list[0]));
    assert_string_equal(list[0].name, "cl_khr_fp64");
    assert_int_equal(list[0].version, CL_MAKE_VERSION(3, 0, 0));
    assert_string_equal(list[2].name, "cl_khr_device_uuid");
    assert_int_equal(list[2].version, CL_MAKE_VERSION(1, 0, 0));
    world_fini(&w);
}

/** A driver that answers nothing newer than 1.2 is asked what 3.0 asks. */
static void
old_drivers_answer_new_queries(void **state)
{
    struct world_facts f = {.len = 0};
    struct world w;
    cl_name_version list[8];
    size_t size;

    (void)state;
    world_add_text(&f, DEV, CL_DEVICE_VERSION, "OpenCL 1.2 old");
    world_add_text(&f, DEV, CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 1.2 old");
    world_add_text(&f, DEV, CL_DEVICE_EXTENSIONS, "cl_khr_fp64");
    world_init(&w, &f);
    assert_int_equal(ask_number(&w, CL_DEVICE_NUMERIC_VERSION),
                     CL_MAKE_VERSION(1, 2, 0));
    assert_int_equal(ask_number(&w, CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT), 0);
    assert_int_equal(ask_number(&w, CL_DEVICE_ATOMIC_FENCE_CAPABILITIES),
                     CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_ORDER_ACQ_REL |
                         CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP);
    assert_int_equal(ask_number(&w, CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE), 1);
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_OPENCL_C_ALL_VERSIONS,
                                        sizeof(list), list, &size),
                     CL_SUCCESS);
    assert_int_equal(size, 3 * sizeof(list[0]));
    assert_int_equal(list[2].version, CL_MAKE_VERSION(1, 2, 0));
    assert_string_equal(list[2].name, "OpenCL C");
    assert_int_equal(
        tp_clGetDeviceInfo(&w.device, CL_DEVICE_OPENCL_C_FEATURES, 0, NULL, &size),
        CL_SUCCESS);
    assert_int_equal(size, 0);
    assert_int_equal(tp_clGetDeviceInfo(&w.device, 0x9999, 0, NULL, &size),
                     CL_INVALID_VALUE);
    world_fini(&w);
}

/** 2.x would promise what we lack; 1.2 is a subset of it. */
static void
drivers_of_2_are_shown_as_1_2(void **state)
{
    struct world_facts f = {.len = 0};
    struct world w;
    char text[64];

    (void)state;
    world_add_text(&f, DEV, CL_DEVICE_VERSION, "OpenCL 2.1 vendor build 7");
    world_add_text(&f, DEV, CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 2.0 ");
    world_init(&w, &f);
    ask_text(&w, CL_DEVICE_VERSION, text, sizeof(text));
    assert_string_equal(text, "OpenCL 1.2 vendor build 7");
    ask_text(&w, CL_DEVICE_OPENCL_C_VERSION, text, sizeof(text));
    assert_string_equal(text, "OpenCL C 1.2 ");
    assert_int_equal(ask_number(&w, CL_DEVICE_NUMERIC_VERSION),
                     CL_MAKE_VERSION(1, 2, 0));
    world_fini(&w);
}

/** Drivers of 3.0 may call 1.2 the version that needs no option, and take 3.0. */
static void
language_versions_reach_the_devices(void **state)
{
    const cl_name_version native[] = {{CL_MAKE_VERSION(1, 2, 0), "OpenCL C"},
                                      {CL_MAKE_VERSION(2, 0, 0), "OpenCL C"},
                                      {CL_MAKE_VERSION(3, 0, 0), "OpenCL C"}};
    struct world_facts f = {.len = 0};
    struct world w;
    cl_name_version list[8];
    size_t size;

    (void)state;
    world_add_text(&f, DEV, CL_DEVICE_VERSION, "OpenCL 3.0 x");
    world_add_text(&f, DEV, CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 1.2 x");
    world_add(&f, DEV, CL_DEVICE_OPENCL_C_ALL_VERSIONS, native, sizeof(native));
    world_init(&w, &f);
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_OPENCL_C_ALL_VERSIONS,
                                        sizeof(list), list, &size),
                     CL_SUCCESS);
    assert_int_equal(size, 2 * sizeof(list[0]));
    assert_int_equal(list[1].version, CL_MAKE_VERSION(3, 0, 0));
    world_fini(&w);
}

static void
sizes_are_checked(void **state)
{
    struct world_facts f = {.len = 0};
    struct world w;
    char text[4];
    size_t size = 0;

    (void)state;
    make_rich(&f);
    world_init(&w, &f);
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_NAME, 4, text, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_NAME, 0, NULL, &size),
                     CL_SUCCESS);
    assert_int_equal(size, sizeof("Rich Device"));
    assert_int_equal(tp_clGetDeviceInfo(&w.device, CL_DEVICE_TYPE, 4, text, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(
        tp_clGetDeviceInfo((cl_device_id)&w.context, CL_DEVICE_TYPE, 0, NULL, &size),
        CL_INVALID_DEVICE);
    world_fini(&w);
}

/** The driver has all kinds; from here holds what the server and the way to it allow. */
static void
shared_virtual_memory_is_what_holds(void **state)
{
    const cl_ulong coarse = CL_DEVICE_SVM_COARSE_GRAIN_BUFFER;
    const cl_ulong fine =
        coarse | CL_DEVICE_SVM_FINE_GRAIN_BUFFER | CL_DEVICE_SVM_ATOMICS;
    struct world_facts f = {.len = 0};
    struct world w;

    (void)state;
    make_rich(&f);
    world_init(&w, &f);
    tp_icd_settings.shared_memory = true;
    w.server.idle_features = TP_WIRE_FEATURE_SHARED; /* a server without it */
    assert_int_equal(ask_number(&w, CL_DEVICE_SVM_CAPABILITIES), 0);
    w.server.idle_features |= TP_WIRE_FEATURE_SVM; /* a GPU has pages of its own */
    assert_int_equal(ask_number(&w, CL_DEVICE_SVM_CAPABILITIES), coarse);
    w.device.type = CL_DEVICE_TYPE_CPU;
    assert_int_equal(ask_number(&w, CL_DEVICE_SVM_CAPABILITIES), fine);
    assert_int_equal(ask_number(&w, CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES), 0x7f);
    w.server.idle_features = TP_WIRE_FEATURE_SVM; /* a network between */
    assert_int_equal(ask_number(&w, CL_DEVICE_SVM_CAPABILITIES), coarse);
    w.server.idle_features |= TP_WIRE_FEATURE_SHARED;
    tp_icd_settings.shared_memory = false;
    assert_int_equal(ask_number(&w, CL_DEVICE_SVM_CAPABILITIES), coarse);
    world_fini(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_the_driver_are_unchanged),
        cmocka_unit_test(nothing_is_claimed_that_is_not_forwarded),
        cmocka_unit_test(programs_without_source),
        cmocka_unit_test(sub_groups_are_the_drivers),
        cmocka_unit_test(extensions_keep_their_versions),
        cmocka_unit_test(old_drivers_answer_new_queries),
        cmocka_unit_test(drivers_of_2_are_shown_as_1_2),
        cmocka_unit_test(language_versions_reach_the_devices),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(shared_virtual_memory_is_what_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
