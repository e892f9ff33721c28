/* SPDX-License-Identifier: Apache-2.0 */
/* Shared virtual memory through the ICD: what the parts of the test share, and its start. */
#include "icd_svm.h"

#include <stdio.h>

static const char source[] =
    "struct node { struct node global *next; long value; };\n"
    "kernel void scale(global int *x, int factor) { x[get_global_id(0)] *= factor; }\n"
    "kernel void add(global int *to, global const int *from)\n"
    "{ size_t i = get_global_id(0); to[i] += from != 0 ? from[i] : 1; }\n"
    "kernel void sum(global struct node *list, global long *result)\n"
    "{ long s = 0; long n = 0;\n"
    "  for (; list != 0; list = list->next) { s += list->value; n++; }\n"
    "  result[0] = s; result[1] = n; }\n"
    "kernel void extend(global struct node *list, global struct node *more, int "
    "count)\n"
    "{ while (list->next != 0) list = list->next;\n"
    "  for (int i = 0; i < count; i++) {\n"
    "    list->next = &more[i]; list = list->next;\n"
    "    list->value = 1000 + i; list->next = 0; } }\n"
    "struct item { long next; long value; };\n"
    "kernel void sum_items(global struct item *list, global long *result)\n"
    "{ long s = 0; long n = 0;\n"
    "  for (long i = 0; i >= 0; i = list[i].next) { s += list[i].value; n++; }\n"
    "  result[0] = s; result[1] = n; }\n"
    "kernel void extend_items(global struct item *list, global struct item *more, int "
    "count)\n"
    "{ long at = 0; while (list[at].next >= 0) at = list[at].next;\n"
    "  list[at].next = 1000000;\n"
    "  for (int i = 0; i < count; i++) {\n"
    "    more[i].value = 1000 + i; more[i].next = i + 1 < count ? i + 1000001 : -1; } "
    "}\n"
    "struct place { global int *to; };\n" /* OpenCL C 1.2 refuses pointers to pointers */
    "kernel void follow(global struct place *place) { place->to[1] = 77; }\n"
    "kernel void hammer(volatile global int *counter, int times)\n"
    "{ for (int i = 0; i < times; i++) atomic_inc(counter); }\n"
    "kernel void meet(volatile global int *flags)\n"
    "{ atomic_xchg(&flags[0], 1);\n"
    "  for (long i = 0; i < 20000000000L && atomic_add(&flags[1], 0) == 0; i++) ;\n"
    "  flags[2] = flags[1] + 1; }\n";

static cl_program programs[2];

static cl_device_svm_capabilities
capabilities(const struct world *w)
{
    cl_device_svm_capabilities can = 0;

    ok(clGetDeviceInfo(w->devices[0], CL_DEVICE_SVM_CAPABILITIES, sizeof(can), &can,
                       NULL));
    return can;
}

bool
has_fine(const struct world *w)
{
    return (capabilities(w) & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
}

int *
svm_new(const struct world *w, size_t count)
{
    int *ints = clSVMAlloc(w->ctx, CL_MEM_READ_WRITE, count * sizeof(int), 0);

    assert_non_null(ints);
    return ints;
}

int
value_of(size_t i, int seed)
{
    return (int)(i * 2654435761U % 100003) + seed;
}

void
fill_on_host(cl_command_queue q, int *ints, size_t count, int seed)
{
    ok(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, ints,
                       count * sizeof(int), 0, NULL, NULL));
    for (size_t i = 0; i < count; i++) {
        ints[i] = value_of(i, seed);
    }
    ok(clEnqueueSVMUnmap(q, ints, 0, NULL, NULL));
}

void
expect_ints(cl_command_queue q, int *ints, size_t count, int seed, int factor)
{
    ok(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, ints, count * sizeof(int), 0, NULL,
                       NULL));
    for (size_t i = 0; i < count; i++) {
        if (ints[i] != value_of(i, seed) * factor) {
            fail_msg("int %zu of %zu is %d, should be %d", i, count, ints[i],
                     value_of(i, seed) * factor);
        }
    }
    ok(clEnqueueSVMUnmap(q, ints, 0, NULL, NULL));
    ok(clFinish(q));
}

cl_kernel
kernel_new(const struct world *w, const char *name)
{
    cl_program *program = &programs[w == &both];
    const char *text = source;
    cl_kernel kernel;
    cl_int err;

    if (*program == NULL) {
        *program = clCreateProgramWithSource(w->ctx, 1, &text, NULL, &err);
        ok(err);
        ok(clBuildProgram(*program, 0, NULL, "", NULL, NULL));
    }
    kernel = clCreateKernel(*program, name, &err);
    ok(err);
    return kernel;
}

void
run_kernel(cl_command_queue q, cl_kernel kernel, size_t global)
{
    ok(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
}

static int
run_all(void)
{
    int failed;

    if (capabilities(&one) == 0) {
        printf("skipped: the driver has no shared virtual memory\n");
        return WORLDS_SKIPPED;
    }
    failed = _cmocka_run_group_tests("memory", svm_memory_tests, svm_memory_test_count,
                                     NULL, NULL);

    failed += _cmocka_run_group_tests("kernels", svm_kernel_tests,
                                      svm_kernel_test_count, NULL, NULL);
    failed += _cmocka_run_group_tests("usm", svm_usm_tests, svm_usm_test_count,
                                      svm_usm_begin, NULL);
    for (int i = 0; i < 2; i++) {
        if (programs[i] != NULL) {
            clReleaseProgram(programs[i]);
        }
    }
    return failed;
}

int
main(int argc, char **argv)
{
    return worlds_run(argc, argv, run_all);
}
