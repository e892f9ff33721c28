/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table: no slot is empty, every entry point called with nothing gives an error and
 * not a crash, and what this version lacks gives the error that is due.
 */
#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/program/program.h"
#include "icd/world_test.h"

#include "base/compiler.h"

enum { SPARE_MIN = 32 };

/** Enough zeros for the longest list of parameters (14). */
#define ZEROS 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L

typedef intptr_t (*any_function)(intptr_t, ...);

static const char *const core_names[] = {
#define NAME(name) #name,
    TP_ICD_CORE(NAME)
#undef NAME
};

static void *const core_functions[] = {
#define FUNCTION(name) (void *)tp_##name,
    TP_ICD_CORE(FUNCTION)
#undef FUNCTION
};

static bool
is_one_of(const char *name, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(name, *list) == 0) {
            return true;
        }
    }
    return false;
}

/** Functions that give a pointer: NULL is their refusal. */
static bool
gives_pointer(const char *name)
{
    static const char *const no[] = {"clCreateKernelsInProgram", "clCreateSubDevices",
                                     NULL};
    static const char *const yes[] = {"clLinkProgram",
                                      "clCloneKernel",
                                      "clSVMAlloc",
                                      "clEnqueueMapBuffer",
                                      "clEnqueueMapImage",
                                      "clGetExtensionFunctionAddress",
                                      "clGetExtensionFunctionAddressForPlatform",
                                      NULL};

    return (strncmp(name, "clCreate", 8) == 0 && !is_one_of(name, no)) ||
           is_one_of(name, yes);
}

static void
nothing_gives_errors(void **state)
{
    static const char *const cannot_fail[] = {"clUnloadCompiler", "clSVMFree", NULL};

    (void)state;
    assert_int_equal(TP_ARRAY_LEN(core_names), 114);
    for (size_t i = 0; i < TP_ARRAY_LEN(core_names); i++) {
        intptr_t got = ((any_function)core_functions[i])(ZEROS);

        if (gives_pointer(core_names[i])) {
            if (got != 0) {
                fail_msg("%s gave an object", core_names[i]);
            }
        } else if (!is_one_of(core_names[i], cannot_fail) && (cl_int)got >= 0) {
            fail_msg("%s gave %d", core_names[i], (cl_int)got);
        }
    }
}

static void
no_slot_is_empty(void **state)
{
    void *const *slots = (void *const *)tp_icd.dispatch;
    size_t count = sizeof(cl_icd_dispatch) / sizeof(void *);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_non_null(slots[i]);
    }
    for (size_t i = 66; i < 75; i++) { /* sharing with OpenGL */
        (void)((any_function)slots[i])(ZEROS);
    }
    for (size_t i = count; i < count + SPARE_MIN; i++) {
        assert_int_equal((cl_int)((any_function)slots[i])(ZEROS), CL_INVALID_OPERATION);
    }
}

static void
core_entries_are_in_their_slots(void **state)
{
    (void)state;
#define SAME(name) assert_ptr_equal(tp_icd.dispatch->name, tp_##name);
    TP_ICD_CORE(SAME)
#undef SAME
}

/** Extension slots that make objects: NULL, and the error where it is asked for. */
static void
extension_slots_refuse(void **state)
{
    const cl_icd_dispatch *d = tp_icd.dispatch;
    cl_int err = 0;

    (void)state;
#define REFUSES(call)                                                                  \
    err = 0;                                                                           \
    assert_null(call);                                                                 \
    assert_int_equal(err, CL_INVALID_OPERATION)
    REFUSES(d->clCreateFromGLBuffer(NULL, 0, 0, &err));
    REFUSES(d->clCreateFromGLTexture(NULL, 0, 0, 0, 0, &err));
    REFUSES(d->clCreateFromGLTexture2D(NULL, 0, 0, 0, 0, &err));
    REFUSES(d->clCreateFromGLTexture3D(NULL, 0, 0, 0, 0, &err));
    REFUSES(d->clCreateFromGLRenderbuffer(NULL, 0, 0, &err));
    REFUSES(d->clCreateEventFromGLsyncKHR(NULL, NULL, &err));
    REFUSES(d->clCreateFromEGLImageKHR(NULL, NULL, NULL, 0, NULL, &err));
    REFUSES(d->clCreateEventFromEGLSyncKHR(NULL, NULL, NULL, &err));
    REFUSES(((void *(*)(void *, cl_mem_flags, void *,
                        cl_int *))d->clCreateFromD3D10BufferKHR)(NULL, 0, NULL, &err));
    REFUSES(((void *(*)(void *, cl_mem_flags, void *, cl_uint, cl_int *))
                 d->clCreateFromD3D11Texture2DKHR)(NULL, 0, NULL, 0, &err));
    REFUSES(((void *(*)(void *, cl_mem_flags, cl_uint, void *, cl_uint, cl_int *))
                 d->clCreateFromDX9MediaSurfaceKHR)(NULL, 0, 0, NULL, 0, &err));
#undef REFUSES
    assert_int_equal(d->clGetGLObjectInfo(NULL, NULL, NULL), CL_INVALID_OPERATION);
    assert_int_equal(d->clEnqueueAcquireEGLObjectsKHR(NULL, 0, NULL, 0, NULL, NULL),
                     CL_INVALID_OPERATION);
    assert_int_equal(d->clRetainDeviceEXT(NULL), CL_INVALID_OPERATION);
}

/** Calls of features that are missing fail as appendix H of the specification requires. */
static void
lacking_features_refuse(void **state)
{
    struct world_facts f = {.len = 0};
    struct world w;
    cl_int err = 0;
    cl_uint formats = 9;

    (void)state;
    world_init(&w, &f);
    assert_null(tp_clCreateImage(&w.context, 0, NULL, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    assert_null(tp_clCreateImage2D(&w.context, 0, NULL, 1, 1, 0, NULL, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    assert_null(tp_clCreateSamplerWithProperties(&w.context, NULL, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    assert_null(tp_clCreatePipe(&w.context, 0, 4, 4, NULL, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    assert_null(tp_clCreateProgramWithIL(&w.context, "il", 2, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    assert_null(tp_clCreateProgramWithBuiltInKernels(&w.context, 0, NULL, "k", &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_null(tp_clLinkProgram(&w.context, 0, NULL, NULL, 0, NULL, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_null(tp_clSVMAlloc(&w.context, 0, 16, 0));
    tp_clSVMFree(&w.context, &w);
    assert_int_equal(tp_clGetSupportedImageFormats(&w.context, 0, CL_MEM_OBJECT_IMAGE2D,
                                                   0, NULL, &formats),
                     CL_SUCCESS);
    assert_int_equal(formats, 0);
    assert_int_equal(tp_clGetSupportedImageFormats(&w.context, 0, CL_MEM_OBJECT_BUFFER,
                                                   0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(tp_clGetHostTimer(&w.device, NULL), CL_INVALID_OPERATION);
    assert_int_equal(tp_clCreateSubDevices(&w.device, NULL, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(tp_clSetDefaultDeviceCommandQueue(&w.context, &w.device, NULL),
                     CL_INVALID_OPERATION);
    assert_int_equal(tp_clRetainDevice(&w.device), CL_SUCCESS);
    assert_int_equal(tp_clReleaseDevice(&w.device), CL_SUCCESS);
    assert_int_equal(tp_clReleaseDevice((cl_device_id)&w.context), CL_INVALID_DEVICE);
    world_fini(&w);
}

/** Shared virtual memory on devices that have none, as OpenCL 3.0 has it. */
static void
shared_virtual_memory_refuses(void **state)
{
    struct world_facts f = {.len = 0};
    struct world w;
    struct _cl_command_queue queue = {.ctx = &w.context, .dev = &w.device};
    struct _cl_program program = {.ctx = &w.context};
    struct _cl_kernel kernel = {.program = &program};
    cl_command_queue q = &queue;
    cl_event event = (cl_event)&w; /* must stay */
    void *ptr = &w;
    const void *const_ptr = &w;
    const cl_bool fine = CL_TRUE;

    (void)state;
    world_init(&w, &f);
    tp_icd_object_init(&queue.obj, TP_ICD_QUEUE, 2, world_keep);
    tp_icd_object_init(&kernel.obj, TP_ICD_KERNEL, 3, world_keep);
    assert_null(tp_clSVMAlloc(NULL, CL_MEM_READ_WRITE, 16, 0));
    assert_null(tp_clSVMAlloc(&w.context, CL_MEM_READ_WRITE, 16, 0));
    assert_null(tp_clSVMAlloc(&w.context, CL_MEM_SVM_FINE_GRAIN_BUFFER, 16, 64));
    tp_clSVMFree(&w.context, ptr);
    tp_clSVMFree(&w.context, NULL);
#define REFUSES(name, ...)                                                             \
    assert_int_equal(tp_cl##name(q, __VA_ARGS__, 0, NULL, &event),                     \
                     CL_INVALID_OPERATION);                                            \
    assert_int_equal(tp_cl##name(NULL, __VA_ARGS__, 0, NULL, &event),                  \
                     CL_INVALID_COMMAND_QUEUE)
    REFUSES(EnqueueSVMFree, 1, &ptr, NULL, NULL);
    REFUSES(EnqueueSVMMemcpy, CL_TRUE, ptr, ptr, 4);
    REFUSES(EnqueueSVMMemFill, ptr, ptr, 1, 4);
    REFUSES(EnqueueSVMMap, CL_TRUE, CL_MAP_READ, ptr, 4);
    REFUSES(EnqueueSVMUnmap, ptr);
    REFUSES(EnqueueSVMMigrateMem, 1, &const_ptr, NULL, 0);
#undef REFUSES
    assert_ptr_equal(event, &w);
    assert_int_equal(tp_clSetKernelArgSVMPointer(&kernel, 0, ptr),
                     CL_INVALID_OPERATION);
    assert_int_equal(tp_clSetKernelArgSVMPointer(NULL, 0, ptr), CL_INVALID_KERNEL);
    assert_int_equal(tp_clSetKernelExecInfo(&kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS,
                                            sizeof(ptr), &ptr),
                     CL_INVALID_OPERATION);
    assert_int_equal(tp_clSetKernelExecInfo(&kernel,
                                            CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM,
                                            sizeof(fine), &fine),
                     CL_INVALID_OPERATION);
    assert_int_equal(
        tp_clSetKernelExecInfo(NULL, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof(ptr), &ptr),
        CL_INVALID_KERNEL);
    world_fini(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_gives_errors),
        cmocka_unit_test(no_slot_is_empty),
        cmocka_unit_test(core_entries_are_in_their_slots),
        cmocka_unit_test(extension_slots_refuse),
        cmocka_unit_test(lacking_features_refuse),
        cmocka_unit_test(shared_virtual_memory_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
