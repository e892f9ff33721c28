/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatch table of the test driver and the three functions it exports. What it does
 * not have refuses with CL_INVALID_OPERATION, in the shape of its entry: those that give
 * an object set the error behind their last argument and return NULL.
 */
#include "td.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_ENTRIES = 32 }; /* a newer loader's table is longer than ours */

static cl_int
refuse(void)
{
    return CL_INVALID_OPERATION;
}

static void *
refuse_svm_alloc(void)
{
    return NULL;
}

/* Arguments of these entries are words: handles, pointers, flags, sizes. */
#define ARG(name) void *name __attribute__((unused))
#define REFUSE_OBJECT(name, ...)                                                       \
    static void *refuse_##name(__VA_ARGS__, cl_int *errcode_ret)                       \
    {                                                                                  \
        td_set_error(errcode_ret, CL_INVALID_OPERATION);                               \
        return NULL;                                                                   \
    }
#define ARGS_2 ARG(a), ARG(b)
#define ARGS_3 ARGS_2, ARG(c)
#define ARGS_4 ARGS_3, ARG(d)
#define ARGS_5 ARGS_4, ARG(e)
#define ARGS_6 ARGS_5, ARG(f)
#define ARGS_7 ARGS_6, ARG(g)
#define ARGS_9 ARGS_7, ARG(h), ARG(i)
REFUSE_OBJECT(after_1, ARG(a))
REFUSE_OBJECT(after_2, ARGS_2)
REFUSE_OBJECT(after_3, ARGS_3)
REFUSE_OBJECT(after_4, ARGS_4)
REFUSE_OBJECT(after_5, ARGS_5)
REFUSE_OBJECT(after_6, ARGS_6)
REFUSE_OBJECT(after_7, ARGS_7)
REFUSE_OBJECT(after_9, ARGS_9)
REFUSE_OBJECT(after_11, ARGS_9, ARG(j), ARG(k))

static struct {
    cl_icd_dispatch table;
    void *spare[SPARE_ENTRIES];
} all;

cl_icd_dispatch *const td_dispatch = &all.table;

/* Entries that give an object, by the number of arguments before errcode_ret. */
static void
fill_object_refusals(cl_icd_dispatch *t)
{
    t->clCreateSampler = (void *)refuse_after_4;
    t->clCreateSamplerWithProperties = (void *)refuse_after_2;
    t->clCreateImage = (void *)refuse_after_5;
    t->clCreateImageWithProperties = (void *)refuse_after_6;
    t->clCreateImage2D = (void *)refuse_after_7;
    t->clCreateImage3D = (void *)refuse_after_9;
    t->clCreatePipe = (void *)refuse_after_5;
    t->clCreateProgramWithBuiltInKernels = (void *)refuse_after_4;
    t->clCreateProgramWithIL = (void *)refuse_after_3;
    t->clEnqueueMapImage = (void *)refuse_after_11;
    t->clSVMAlloc = (void *)refuse_svm_alloc;
    t->clCreateFromGLBuffer = (void *)refuse_after_3;
    t->clCreateFromGLTexture = (void *)refuse_after_5;
    t->clCreateFromGLTexture2D = (void *)refuse_after_5;
    t->clCreateFromGLTexture3D = (void *)refuse_after_5;
    t->clCreateFromGLRenderbuffer = (void *)refuse_after_3;
    t->clCreateEventFromGLsyncKHR = (void *)refuse_after_2;
    t->clCreateFromEGLImageKHR = (void *)refuse_after_5;
    t->clCreateEventFromEGLSyncKHR = (void *)refuse_after_3;
    t->clCreateFromD3D10BufferKHR = (void *)refuse_after_3;
    t->clCreateFromD3D10Texture2DKHR = (void *)refuse_after_4;
    t->clCreateFromD3D10Texture3DKHR = (void *)refuse_after_4;
    t->clCreateFromD3D11BufferKHR = (void *)refuse_after_3;
    t->clCreateFromD3D11Texture2DKHR = (void *)refuse_after_4;
    t->clCreateFromD3D11Texture3DKHR = (void *)refuse_after_4;
    t->clCreateFromDX9MediaSurfaceKHR = (void *)refuse_after_5;
}

/* A driver of version 1.2 has the entries of OpenCL 2.x and 3.0 refuse, too. */
static void
fill_table_30(cl_icd_dispatch *t)
{
    if (td_script()->version12) {
        t->clCreateCommandQueueWithProperties = (void *)refuse_after_3;
        t->clCloneKernel = (void *)refuse_after_1;
        t->clCreateBufferWithProperties = (void *)refuse_after_5;
        return;
    }
#define FILL(name) t->name = td_##name;
    TD_ENTRIES_30(FILL)
    if (td_script()->timer) {
        TD_ENTRIES_TIMER(FILL)
    }
    if (td_script()->svm > 0) {
        TD_ENTRIES_SVM(FILL)
    }
    if (td_script()->il > 0) {
        TD_ENTRIES_IL(FILL)
    }
    if (td_script()->sub_group > 0) {
        FILL(clGetKernelSubGroupInfo)
    }
    if (td_script()->pipes) {
        FILL(clCreatePipe)
    }
#undef FILL
}

__attribute__((constructor)) static void
fill_table(void)
{
    void **entry = (void **)&all;

    for (size_t i = 0; i < sizeof(all) / sizeof(*entry); i++) {
        entry[i] = (void *)refuse;
    }
    fill_object_refusals(&all.table);
#define FILL(name) all.table.name = td_##name;
    TD_ENTRIES_12(FILL)
    if (td_script()->built_in) {
        FILL(clCreateProgramWithBuiltInKernels)
    }
#undef FILL
    fill_table_30(&all.table);
}

#define EXPORT __attribute__((visibility("default")))

static CL_API_ENTRY cl_int CL_API_CALL
icd_get_platform_ids(cl_uint num_entries, cl_platform_id *platforms,
                     cl_uint *num_platforms)
{
    return td_clGetPlatformIDs(num_entries, platforms, num_platforms);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL
clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms,
                       cl_uint *num_platforms)
{
    return icd_get_platform_ids(num_entries, platforms, num_platforms);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL
clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t size,
                  void *value, size_t *ret_size)
{
    return td_clGetPlatformInfo(platform, name, size, value, ret_size);
}

CL_API_ENTRY void *CL_API_CALL
td_clGetExtensionFunctionAddress(const char *name)
{
    /* The addresses of the hidden ones: the loader must not find its own functions. */
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0) {
        return (void *)icd_get_platform_ids;
    }
    return strcmp(name, "clGetPlatformInfo") == 0 ? (void *)td_clGetPlatformInfo : NULL;
}

EXPORT CL_API_ENTRY void *CL_API_CALL
clGetExtensionFunctionAddress(const char *name)
{
    return td_clGetExtensionFunctionAddress(name);
}

CL_API_ENTRY void *CL_API_CALL
td_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    (void)platform;
    return td_script()->suggests > 0 &&
                   strcmp(name, "clGetKernelSuggestedLocalWorkSizeKHR") == 0
               ? (void *)td_clGetKernelSuggestedLocalWorkSizeKHR
               : NULL;
}
