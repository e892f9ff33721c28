/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, kernels and arguments as far as they need no server. */
#include "icd/icd.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/world_test.h"

#include <time.h>

#define KERNEL TP_WIRE_FACT_KERNEL
#define ARG TP_WIRE_FACT_KERNEL_ARG

static void
add_arg(struct world_facts *f, uint32_t kernel, uint32_t arg, uint32_t address,
        const char *type, uint64_t qualifiers)
{
    world_add_u32(f, ARG, kernel, arg, CL_KERNEL_ARG_ADDRESS_QUALIFIER, address);
    world_add_u32(f, ARG, kernel, arg, CL_KERNEL_ARG_ACCESS_QUALIFIER,
                  CL_KERNEL_ARG_ACCESS_NONE);
    world_add_text(f, ARG, kernel, arg, CL_KERNEL_ARG_TYPE_NAME, type);
    world_add_u64(f, ARG, kernel, arg, CL_KERNEL_ARG_TYPE_QUALIFIER, qualifiers);
}

/** A program with two kernels, as if it had been built. */
struct built {
    struct world w;
    struct tp_icd_program *p;
};

static void
add_kernels(struct world_facts *f)
{
    world_add_text(f, KERNEL, 0, 0, CL_KERNEL_FUNCTION_NAME, "first");
    world_add_u32(f, KERNEL, 0, 0, CL_KERNEL_NUM_ARGS, 6);
    add_arg(f, 0, 0, CL_KERNEL_ARG_ADDRESS_GLOBAL, "float*", 0);
    add_arg(f, 0, 1, CL_KERNEL_ARG_ADDRESS_GLOBAL, "float*", CL_KERNEL_ARG_TYPE_CONST);
    add_arg(f, 0, 2, CL_KERNEL_ARG_ADDRESS_LOCAL, "float*", 0);
    add_arg(f, 0, 3, CL_KERNEL_ARG_ADDRESS_PRIVATE, "int3", 0);
    add_arg(f, 0, 4, CL_KERNEL_ARG_ADDRESS_PRIVATE, "struct own", 0);
    add_arg(f, 0, 5, CL_KERNEL_ARG_ADDRESS_PRIVATE, "ulong", 0);
    world_add_u64(f, TP_WIRE_FACT_KERNEL_DEVICE, 0, 0, CL_KERNEL_WORK_GROUP_SIZE, 128);
    world_add_u64(f, TP_WIRE_FACT_KERNEL_DEVICE, 0, 0, CL_KERNEL_LOCAL_MEM_SIZE, 32);
    world_add_text(f, KERNEL, 1, 0, CL_KERNEL_FUNCTION_NAME, "second");
    world_add_u32(f, KERNEL, 1, 0, CL_KERNEL_NUM_ARGS, 1); /* nothing said about it */
}

static void
built_init(struct built *b)
{
    struct world_facts none = {.len = 0}, f = {.len = 0};
    const char *source = "kernel void first() {}";
    cl_int err = -1;

    world_init(&b->w, &none);
    b->p = tp_icd_program_of(
        tp_clCreateProgramWithSource(&b->w.context, 1, &source, NULL, &err));
    assert_int_equal(err, CL_SUCCESS);
    add_kernels(&f);
    b->p->pub.facts[0] = world_parse(&f);
    b->p->pub.build_status[0] = CL_BUILD_SUCCESS;
    b->p->info[0].binary_type = CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
    b->p->kernels = tp_alloc_array(2, sizeof(char *), "kernels");
    b->p->kernels[0] = tp_strdup("first", "kernel");
    b->p->kernels[1] = tp_strdup("second", "kernel");
    b->p->kernel_names = 2;
}

static void
built_fini(struct built *b)
{
    assert_int_equal(tp_clReleaseProgram(&b->p->pub), CL_SUCCESS);
    assert_int_equal(b->w.context.obj.holds, 1);
    world_fini(&b->w);
}

static void
source_is_concatenated(void **state)
{
    const char *parts[] = {"abc", "de\0f", "gh"};
    const size_t lengths[] = {0, 4, 1};
    struct world_facts none = {.len = 0};
    struct world w;
    cl_program program;
    char text[16];
    size_t size;
    cl_int err;

    (void)state;
    world_init(&w, &none);
    program = tp_clCreateProgramWithSource(&w.context, 3, parts, lengths, &err);
    assert_int_equal(err, CL_SUCCESS);
    assert_int_equal(
        tp_clGetProgramInfo(program, CL_PROGRAM_SOURCE, sizeof(text), text, &size),
        CL_SUCCESS);
    assert_int_equal(size, 9);
    assert_memory_equal(text, "abcde\0fg", 9);
    assert_int_equal(tp_clGetProgramInfo(program, CL_PROGRAM_IL, 0, NULL, &size),
                     CL_SUCCESS);
    assert_int_equal(size, 0);
    assert_int_equal(
        tp_clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof(size), &size, NULL),
        CL_INVALID_PROGRAM_EXECUTABLE);
    assert_int_equal(tp_clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size),
                                         &size, NULL),
                     CL_SUCCESS);
    assert_int_equal(size, 0);
    assert_null(tp_clCreateKernel(program, "first", &err));
    assert_int_equal(err, CL_INVALID_PROGRAM_EXECUTABLE);
    tp_clReleaseProgram(program);
    parts[1] = NULL;
    assert_null(tp_clCreateProgramWithSource(&w.context, 3, parts, NULL, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    world_fini(&w);
}

static void
build_at_a_lost_session_fails_with_an_error(void **state)
{
    struct built b;
    cl_build_status status;

    (void)state;
    built_init(&b);
    assert_int_equal(tp_clBuildProgram(&b.p->pub, 0, NULL, "-DX", NULL, NULL),
                     CL_DEVICE_NOT_AVAILABLE);
    assert_int_equal(tp_clGetProgramBuildInfo(&b.p->pub, &b.w.device,
                                              CL_PROGRAM_BUILD_STATUS, sizeof(status),
                                              &status, NULL),
                     CL_SUCCESS);
    assert_int_equal(status, CL_BUILD_ERROR);
    assert_false(b.p->pub.building);
    assert_string_equal(b.p->pub.options[0], "-DX");
    assert_int_equal(tp_clBuildProgram(&b.p->pub, 1, NULL, "", NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(tp_clBuildProgram(&b.p->pub, 0, NULL, "", NULL, &b),
                     CL_INVALID_VALUE);
    built_fini(&b);
}

static _Atomic int notified;

static void CL_CALLBACK
on_built(cl_program program, void *user)
{
    (void)program;
    notified += *(int *)user;
}

static void
callback_runs_once_also_on_failure(void **state)
{
    struct built b;
    int one = 1;

    (void)state;
    built_init(&b);
    assert_int_equal(tp_clBuildProgram(&b.p->pub, 0, NULL, NULL, on_built, &one),
                     CL_SUCCESS);
    for (int i = 0; i < 2000 && notified == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    tp_pool_drain(tp_icd.callbacks);
    assert_int_equal(notified, 1);
    built_fini(&b);
}

static void
kernels_are_found_by_name(void **state)
{
    struct built b;
    cl_kernel kernel, all[2];
    char text[32];
    size_t count;
    cl_uint number;
    cl_int err;

    (void)state;
    built_init(&b);
    assert_int_equal(tp_clGetProgramInfo(&b.p->pub, CL_PROGRAM_NUM_KERNELS,
                                         sizeof(count), &count, NULL),
                     CL_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(tp_clGetProgramInfo(&b.p->pub, CL_PROGRAM_KERNEL_NAMES,
                                         sizeof(text), text, NULL),
                     CL_SUCCESS);
    assert_string_equal(text, "first;second");
    assert_null(tp_clCreateKernel(&b.p->pub, "third", &err));
    assert_int_equal(err, CL_INVALID_KERNEL_NAME);
    assert_null(tp_clCreateKernel(&b.p->pub, NULL, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    kernel = tp_clCreateKernel(&b.p->pub, "second", &err);
    assert_int_equal(err, CL_SUCCESS);
    assert_int_equal(
        tp_clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof(text), text, NULL),
        CL_SUCCESS);
    assert_string_equal(text, "second");
    /* A program with kernels is not built again. */
    assert_int_equal(tp_clBuildProgram(&b.p->pub, 0, NULL, "", NULL, NULL),
                     CL_INVALID_OPERATION);
    assert_int_equal(tp_clReleaseKernel(kernel), CL_SUCCESS);
    assert_int_equal(tp_clCreateKernelsInProgram(&b.p->pub, 1, all, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(tp_clCreateKernelsInProgram(&b.p->pub, 2, all, &number),
                     CL_SUCCESS);
    assert_int_equal(number, 2);
    tp_clReleaseKernel(all[0]);
    tp_clReleaseKernel(all[1]);
    assert_int_equal(b.p->pub.kernel_count, 0);
    built_fini(&b);
}

/** A kernel keeps its program. */
static void
program_outlives_its_release(void **state)
{
    struct built b;
    cl_kernel kernel;
    cl_program program;

    (void)state;
    built_init(&b);
    kernel = tp_clCreateKernel(&b.p->pub, "first", NULL);
    assert_non_null(kernel);
    assert_int_equal(tp_clReleaseProgram(&b.p->pub), CL_SUCCESS);
    assert_int_equal(
        tp_clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof(program), &program, NULL),
        CL_SUCCESS);
    assert_ptr_equal(program, &b.p->pub);
    assert_int_equal(tp_clReleaseKernel(kernel), CL_SUCCESS);
    assert_int_equal(b.w.context.obj.holds, 1);
    world_fini(&b.w);
}

static void
mem_destroyed(struct tp_icd_object *obj)
{
    (void)obj;
}

static void
arguments_are_checked(void **state)
{
    struct built b;
    struct _cl_mem mem = {.ctx = &b.w.context}, foreign = {.ctx = NULL};
    cl_mem handle = &mem, none = NULL, other = &foreign, garbage = (cl_mem)0x1234567;
    cl_int three[4] = {1, 2, 3, 0};
    uint64_t like_a_handle = (uintptr_t)&mem;
    cl_kernel k;

    (void)state;
    built_init(&b);
    tp_icd_object_init(&mem.obj, TP_ICD_MEM, 0, mem_destroyed);
    tp_list_init(&mem.args);
    tp_icd_object_init(&foreign.obj, TP_ICD_MEM, 0, mem_destroyed);
    k = tp_clCreateKernel(&b.p->pub, "first", NULL);
    assert_int_equal(tp_clSetKernelArg(NULL, 0, 8, &handle), CL_INVALID_KERNEL);
    assert_int_equal(tp_clSetKernelArg(k, 6, 8, &handle), CL_INVALID_ARG_INDEX);
    /* buffers */
    assert_int_equal(tp_clSetKernelArg(k, 0, 4, &handle), CL_INVALID_ARG_SIZE);
    assert_int_equal(tp_clSetKernelArg(k, 0, 8, &garbage), CL_INVALID_MEM_OBJECT);
    assert_int_equal(tp_clSetKernelArg(k, 0, 8, &other), CL_INVALID_MEM_OBJECT);
    assert_int_equal(tp_clSetKernelArg(k, 0, 8, &none), CL_SUCCESS);
    assert_int_equal(tp_clSetKernelArg(k, 0, 8, NULL), CL_SUCCESS);
    assert_int_equal(tp_clSetKernelArg(k, 0, 8, &handle), CL_SUCCESS);
    assert_int_equal(mem.obj.refs, 1);
    assert_int_equal(mem.obj.holds, 1); /* arguments keep nothing */
    assert_false(k->args[0].read_only);
    assert_true(k->args[1].read_only);
    /* local memory */
    assert_int_equal(tp_clSetKernelArg(k, 2, 64, three), CL_INVALID_ARG_VALUE);
    assert_int_equal(tp_clSetKernelArg(k, 2, 0, NULL), CL_INVALID_ARG_SIZE);
    assert_int_equal(tp_clSetKernelArg(k, 2, 64, NULL), CL_SUCCESS);
    /* values: three lanes take the room of four */
    assert_int_equal(tp_clSetKernelArg(k, 3, 12, three), CL_INVALID_ARG_SIZE);
    assert_int_equal(tp_clSetKernelArg(k, 3, 16, NULL), CL_INVALID_ARG_VALUE);
    assert_int_equal(tp_clSetKernelArg(k, 3, 16, three), CL_SUCCESS);
    assert_int_equal(tp_clSetKernelArg(k, 4, 12, three), CL_SUCCESS);
    /* a number that equals a handle stays a number */
    assert_int_equal(tp_clSetKernelArg(k, 5, 8, &like_a_handle), CL_SUCCESS);
    assert_int_equal(k->args[5].kind, TP_WIRE_ARG_VALUE);
    tp_clReleaseKernel(k);
    assert_int_equal(mem.obj.holds, 1);
    tp_icd_release(&mem.obj);
    tp_icd_release(&foreign.obj);
    built_fini(&b);
}

static void
undeclared_arguments_are_what_they_look_like(void **state)
{
    struct built b;
    struct _cl_mem mem = {.ctx = &b.w.context};
    cl_mem handle = &mem;
    uint64_t number = 0x1234567;
    cl_kernel k;

    (void)state;
    built_init(&b);
    tp_icd_object_init(&mem.obj, TP_ICD_MEM, 0, mem_destroyed);
    tp_list_init(&mem.args);
    k = tp_clCreateKernel(&b.p->pub, "second", NULL);
    assert_int_equal(tp_clSetKernelArg(k, 0, 8, &handle), CL_SUCCESS);
    assert_int_equal(k->args[0].kind, TP_WIRE_ARG_MEM);
    assert_int_equal(tp_clSetKernelArg(k, 0, 8, &number), CL_SUCCESS);
    assert_int_equal(k->args[0].kind, TP_WIRE_ARG_VALUE);
    assert_int_equal(tp_clSetKernelArg(k, 0, 8, NULL), CL_SUCCESS);
    assert_int_equal(k->args[0].kind, TP_WIRE_ARG_LOCAL);
    assert_int_equal(tp_clSetKernelArg(k, 0, 3, "ab"), CL_SUCCESS);
    assert_int_equal(mem.obj.holds, 1);
    tp_clReleaseKernel(k);
    tp_icd_release(&mem.obj);
    built_fini(&b);
}

static void
clones_have_the_values(void **state)
{
    struct built b;
    struct _cl_mem mem = {.ctx = &b.w.context};
    cl_mem handle = &mem;
    cl_int three[4] = {1, 2, 3, 4};
    cl_kernel k, copy;
    cl_int err;

    (void)state;
    built_init(&b);
    tp_icd_object_init(&mem.obj, TP_ICD_MEM, 0, mem_destroyed);
    tp_list_init(&mem.args);
    k = tp_clCreateKernel(&b.p->pub, "first", NULL);
    tp_clSetKernelArg(k, 0, 8, &handle);
    tp_clSetKernelArg(k, 3, 16, three);
    copy = tp_clCloneKernel(k, &err);
    assert_int_equal(err, CL_SUCCESS);
    three[0] = 9;
    tp_clSetKernelArg(k, 3, 16, three);
    tp_clReleaseKernel(k);
    assert_ptr_equal(copy->args[0].mem, &mem);
    assert_int_equal(((cl_int *)(void *)copy->args[3].value)[0], 1);
    assert_false(copy->args[1].set);
    tp_clReleaseKernel(copy);
    assert_int_equal(mem.obj.holds, 1);
    tp_icd_release(&mem.obj);
    built_fini(&b);
}

/** If any allocation fails, the call returns an error and leaks nothing. */
static void
want_of_memory_is_an_error(void **state)
{
    const char *source = "kernel void k() {}";
    struct built b;
    cl_int err = CL_SUCCESS, value[4] = {0};
    bool failed = true;

    (void)state;
    built_init(&b);
    for (uint64_t nth = 1; failed; nth++) {
        uint64_t live = tp_alloc_live();
        cl_program program;
        cl_kernel kernel = NULL, copy = NULL;

        tp_alloc_fail_nth(nth);
        program = tp_clCreateProgramWithSource(&b.w.context, 1, &source, NULL, &err);
        if (err == CL_SUCCESS) {
            kernel = tp_clCreateKernel(&b.p->pub, "first", &err);
        }
        if (err == CL_SUCCESS) {
            err = tp_clSetKernelArg(kernel, 3, 16, value);
        }
        if (err == CL_SUCCESS) {
            copy = tp_clCloneKernel(kernel, &err);
        }
        failed = tp_alloc_failed();
        tp_alloc_fail_nth(0);
        assert_int_equal(err, failed ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS);
        tp_clReleaseKernel(copy);
        tp_clReleaseKernel(kernel);
        tp_clReleaseProgram(program);
        assert_int_equal(tp_alloc_live(), live);
        assert_true(nth < 100);
    }
    built_fini(&b);
}

static void
queries_come_from_facts(void **state)
{
    struct built b;
    cl_kernel k;
    cl_uint address;
    cl_ulong local;
    size_t group;

    (void)state;
    built_init(&b);
    k = tp_clCreateKernel(&b.p->pub, "first", NULL);
    assert_int_equal(tp_clGetKernelArgInfo(k, 2, CL_KERNEL_ARG_ADDRESS_QUALIFIER,
                                           sizeof(address), &address, NULL),
                     CL_SUCCESS);
    assert_int_equal(address, CL_KERNEL_ARG_ADDRESS_LOCAL);
    assert_int_equal(tp_clGetKernelArgInfo(k, 2, CL_KERNEL_ARG_NAME, 0, NULL, &group),
                     CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
    assert_int_equal(tp_clGetKernelArgInfo(k, 6, CL_KERNEL_ARG_NAME, 0, NULL, &group),
                     CL_INVALID_ARG_INDEX);
    assert_int_equal(tp_clGetKernelArgInfo(k, 0, 0x9999, 0, NULL, &group),
                     CL_INVALID_VALUE);
    assert_int_equal(tp_clGetKernelWorkGroupInfo(k, NULL, CL_KERNEL_WORK_GROUP_SIZE,
                                                 sizeof(group), &group, NULL),
                     CL_SUCCESS);
    assert_int_equal(group, 128);
    tp_clSetKernelArg(k, 2, 100, NULL);
    assert_int_equal(tp_clGetKernelWorkGroupInfo(k, &b.w.device,
                                                 CL_KERNEL_LOCAL_MEM_SIZE,
                                                 sizeof(local), &local, NULL),
                     CL_SUCCESS);
    assert_int_equal(local, 132);
    assert_int_equal(tp_clGetKernelWorkGroupInfo(
                         k, &b.w.device, CL_KERNEL_GLOBAL_WORK_SIZE, 0, NULL, &group),
                     CL_INVALID_VALUE);
    assert_int_equal(
        tp_clGetKernelSubGroupInfo(k, &b.w.device, 0, 0, NULL, 0, NULL, NULL),
        CL_INVALID_OPERATION);
    tp_clReleaseKernel(k);
    built_fini(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_is_concatenated),
        cmocka_unit_test(build_at_a_lost_session_fails_with_an_error),
        cmocka_unit_test(callback_runs_once_also_on_failure),
        cmocka_unit_test(kernels_are_found_by_name),
        cmocka_unit_test(program_outlives_its_release),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(undeclared_arguments_are_what_they_look_like),
        cmocka_unit_test(clones_have_the_values),
        cmocka_unit_test(want_of_memory_is_an_error),
        cmocka_unit_test(queries_come_from_facts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
