/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of pointers of OpenCL: which call copies them, with a driver of functions here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/opencl/memory/memory_int.h"

static const char *extensions;
static cl_unified_shared_memory_type_intel type;
static cl_device_svm_capabilities svm;
static unsigned usm_copies, svm_copies;

static cl_int CL_API_CALL
device_info(cl_device_id device, cl_device_info name, size_t size, void *value,
            size_t *ret_size)
{
    (void)device;
    switch (name) {
    case CL_DEVICE_EXTENSIONS:
        assert_true(strlen(extensions) < size);
        strcpy(value, extensions);
        *ret_size = strlen(extensions) + 1;
        return CL_SUCCESS;
    case CL_DEVICE_PLATFORM:
        *(cl_platform_id *)value = NULL;
        return CL_SUCCESS;
    case CL_DEVICE_SVM_CAPABILITIES:
        *(cl_device_svm_capabilities *)value = svm;
        return CL_SUCCESS;
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL
usm_memcpy(cl_command_queue queue, cl_bool blocking, void *dst, const void *src,
           size_t size, cl_uint wait_count, const cl_event *waits, cl_event *event)
{
    (void)queue;
    (void)event;
    assert_false(blocking);
    assert_true((wait_count == 0) == (waits == NULL));
    memcpy(dst, src, size);
    usm_copies++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
svm_memcpy(cl_command_queue queue, cl_bool blocking, void *dst, const void *src,
           size_t size, cl_uint wait_count, const cl_event *waits, cl_event *event)
{
    (void)queue;
    (void)event;
    assert_false(blocking);
    assert_true((wait_count == 0) == (waits == NULL));
    memcpy(dst, src, size);
    svm_copies++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
alloc_info(cl_context context, const void *ptr, cl_mem_info_intel name, size_t size,
           void *value, size_t *ret_size)
{
    (void)context;
    (void)ptr;
    (void)ret_size;
    assert_int_equal(name, CL_MEM_ALLOC_TYPE_INTEL);
    assert_int_equal(size, sizeof(type));
    memcpy(value, &type, sizeof(type));
    return CL_SUCCESS;
}

static void *CL_API_CALL
find_function(cl_platform_id platform, const char *name)
{
    clEnqueueMemcpyINTEL_fn copy = usm_memcpy;
    clGetMemAllocInfoINTEL_fn info = alloc_info;
    void *found = NULL;

    (void)platform;
    if (strcmp(name, "clEnqueueMemcpyINTEL") == 0) {
        memcpy(&found, &copy, sizeof(found));
    } else if (strcmp(name, "clGetMemAllocInfoINTEL") == 0) {
        memcpy(&found, &info, sizeof(found));
    }
    return found;
}

static struct tp_opencl_memories
make(void)
{
    struct tp_opencl_memories ms = {.loaded = true};

    ms.cl.GetDeviceInfo = device_info;
    ms.cl.GetExtensionFunctionAddressForPlatform = find_function;
    ms.cl.EnqueueSVMMemcpy = svm_memcpy;
    usm_copies = svm_copies = 0;
    return ms;
}

static void
copy(const struct tp_opencl_memories *ms, const struct tp_opencl_memory *m)
{
    char out = 7, in = 0;

    assert_int_equal(tp_opencl_pointer_copy(ms, m, NULL, &in, &out, 1, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(in, 7);
}

static void
test_usm(void **state)
{
    struct tp_opencl_memories ms = make();
    struct tp_opencl_site site = {.refs = 0};
    struct tp_opencl_memory m = {.site = &site};

    (void)state;
    extensions = "cl_khr_fp64 cl_intel_unified_shared_memory";
    type = CL_MEM_TYPE_DEVICE_INTEL;
    svm = 0;
    tp_opencl_usm_load(&ms.cl, &site);
    assert_int_equal(tp_opencl_pointer_classify(&ms, &m), TELPHER_OK);
    assert_true(m.usm);
    copy(&ms, &m);
    assert_int_equal(usm_copies, 1);
    assert_int_equal(svm_copies, 0);
}

/* A device may have both; a pointer that USM does not know is SVM's. */
static void
test_svm_beside_usm(void **state)
{
    struct tp_opencl_memories ms = make();
    struct tp_opencl_site site = {.refs = 0};
    struct tp_opencl_memory m = {.site = &site};

    (void)state;
    extensions = "cl_intel_unified_shared_memory";
    type = CL_MEM_TYPE_UNKNOWN_INTEL;
    svm = CL_DEVICE_SVM_COARSE_GRAIN_BUFFER;
    tp_opencl_usm_load(&ms.cl, &site);
    assert_int_equal(tp_opencl_pointer_classify(&ms, &m), TELPHER_OK);
    assert_false(m.usm);
    copy(&ms, &m);
    assert_int_equal(svm_copies, 1);
    svm = 0;
    assert_int_equal(tp_opencl_pointer_classify(&ms, &m), TELPHER_ERR_UNSUPPORTED);
}

static void
test_neither(void **state)
{
    struct tp_opencl_memories ms = make();
    struct tp_opencl_site site = {.refs = 0};
    struct tp_opencl_memory m = {.site = &site};

    (void)state;
    extensions = "cl_khr_fp64";
    svm = 0;
    tp_opencl_usm_load(&ms.cl, &site);
    assert_null(site.memcpy_usm);
    assert_int_equal(tp_opencl_pointer_classify(&ms, &m), TELPHER_ERR_UNSUPPORTED);
    svm = CL_DEVICE_SVM_COARSE_GRAIN_BUFFER;
    ms.cl.EnqueueSVMMemcpy = NULL;
    assert_int_equal(tp_opencl_pointer_classify(&ms, &m), TELPHER_ERR_UNSUPPORTED);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usm),
        cmocka_unit_test(test_svm_beside_usm),
        cmocka_unit_test(test_neither),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
