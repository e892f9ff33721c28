/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface to the ICD loader: four exported functions and the dispatch table.
 *
 * A loader does not know the length of the table and does not check a slot before the call.
 * So every slot is filled; slots of missing extensions have functions that return an error.
 * Spare slots of that kind follow the last one, for loaders newer than our headers.
 */
#include "icd/icd.h"
#include "icd/commands/command_buffer.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/objects/usm.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* ---- slots of extensions ---------------------------------------------------------- */

static cl_int
refuse(void)
{
    return CL_INVALID_OPERATION;
}

static void *
refuse_object(cl_int *errcode_ret)
{
    tp_icd_set_error(errcode_ret, CL_INVALID_OPERATION);
    return NULL;
}

/* Stubs that create an object, by the parameters before errcode_ret. */
#define REFUSE(stub, ...)                                                              \
    static void *refuse_##stub(__VA_ARGS__, cl_int *errcode_ret)                       \
    {                                                                                  \
        return refuse_object(errcode_ret);                                             \
    }

REFUSE(gl_buffer, cl_context context, cl_mem_flags flags, cl_GLuint name)
REFUSE(gl_texture, cl_context context, cl_mem_flags flags, cl_GLenum target,
       cl_GLint level, cl_GLuint name)
REFUSE(gl_sync, cl_context context, cl_GLsync sync)
REFUSE(egl_image, cl_context context, CLeglDisplayKHR display, CLeglImageKHR image,
       cl_mem_flags flags, const cl_egl_image_properties_khr *properties)
REFUSE(egl_sync, cl_context context, CLeglSyncKHR sync, CLeglDisplayKHR display)
/* D3D and DX9: the types exist only on Windows; elsewhere the slots are void pointers. */
REFUSE(d3d_buffer, cl_context context, cl_mem_flags flags, void *resource)
REFUSE(d3d_texture, cl_context context, cl_mem_flags flags, void *resource,
       cl_uint subresource)
REFUSE(dx9_surface, cl_context context, cl_mem_flags flags, cl_uint adapter_type,
       void *surface_info, cl_uint plane)

/** Fills a slot whose function returns an object: the stub needs its parameters. */
#define OBJECT(name, stub) .name = (void *)(stub)
/** Fills a slot whose function returns an error code; the stub ignores its parameters. */
#define ERROR(name) .name = (void *)refuse
#define CORE(name) .name = tp_##name,

/* ---- the table -------------------------------------------------------------------- */

enum {
    TABLE_SLOTS = sizeof(cl_icd_dispatch) / sizeof(void *),
    SPARE_SLOTS = 64, /**< after the last slot of our headers */
};

/* clang-format off */
static union {
    cl_icd_dispatch named;
    void *slots[TABLE_SLOTS + SPARE_SLOTS];
} table = {.named = {
    TP_ICD_CORE(CORE)
    OBJECT(clCreateFromGLBuffer, refuse_gl_buffer),
    OBJECT(clCreateFromGLTexture, refuse_gl_texture),
    OBJECT(clCreateFromGLTexture2D, refuse_gl_texture),
    OBJECT(clCreateFromGLTexture3D, refuse_gl_texture),
    OBJECT(clCreateFromGLRenderbuffer, refuse_gl_buffer),
    ERROR(clGetGLObjectInfo), ERROR(clGetGLTextureInfo),
    ERROR(clEnqueueAcquireGLObjects), ERROR(clEnqueueReleaseGLObjects),
    ERROR(clGetGLContextInfoKHR),
    OBJECT(clCreateEventFromGLsyncKHR, refuse_gl_sync),
    ERROR(clGetDeviceIDsFromD3D10KHR),
    OBJECT(clCreateFromD3D10BufferKHR, refuse_d3d_buffer),
    OBJECT(clCreateFromD3D10Texture2DKHR, refuse_d3d_texture),
    OBJECT(clCreateFromD3D10Texture3DKHR, refuse_d3d_texture),
    ERROR(clEnqueueAcquireD3D10ObjectsKHR), ERROR(clEnqueueReleaseD3D10ObjectsKHR),
    ERROR(clGetDeviceIDsFromD3D11KHR),
    OBJECT(clCreateFromD3D11BufferKHR, refuse_d3d_buffer),
    OBJECT(clCreateFromD3D11Texture2DKHR, refuse_d3d_texture),
    OBJECT(clCreateFromD3D11Texture3DKHR, refuse_d3d_texture),
    OBJECT(clCreateFromDX9MediaSurfaceKHR, refuse_dx9_surface),
    ERROR(clEnqueueAcquireD3D11ObjectsKHR), ERROR(clEnqueueReleaseD3D11ObjectsKHR),
    ERROR(clGetDeviceIDsFromDX9MediaAdapterKHR),
    ERROR(clEnqueueAcquireDX9MediaSurfacesKHR), ERROR(clEnqueueReleaseDX9MediaSurfacesKHR),
    OBJECT(clCreateFromEGLImageKHR, refuse_egl_image),
    ERROR(clEnqueueAcquireEGLObjectsKHR), ERROR(clEnqueueReleaseEGLObjectsKHR),
    OBJECT(clCreateEventFromEGLSyncKHR, refuse_egl_sync),
    ERROR(clCreateSubDevicesEXT), ERROR(clRetainDeviceEXT), ERROR(clReleaseDeviceEXT),
    .clGetKernelSubGroupInfoKHR = tp_clGetKernelSubGroupInfo,
}};
/* clang-format on */

struct tp_icd_state tp_icd = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .next_id = 1,
    .dispatch = &table.named,
};

/** Fills the spare slots, and those of headers newer than this file. */
static __attribute__((constructor)) void
fill_spare_slots(void)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(table.slots); i++) {
        if (table.slots[i] == NULL) {
            table.slots[i] = (void *)refuse;
        }
    }
}

/* ---- exported functions ------------------------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))

EXPORT cl_int clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms,
                                     cl_uint *num_platforms);
EXPORT cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info param,
                                size_t value_size, void *value, size_t *size_ret);
EXPORT void *clGetExtensionFunctionAddress(const char *name);
EXPORT void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
                                                      const char *name);

cl_int
clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms,
                       cl_uint *num_platforms)
{
    cl_platform_id platform;

    if ((platforms == NULL && num_platforms == NULL) ||
        (platforms != NULL && num_entries == 0)) {
        return CL_INVALID_VALUE;
    }
    platform = tp_icd_platform();
    if (num_platforms != NULL) {
        *num_platforms = platform != NULL;
    }
    if (platform == NULL) {
        return CL_PLATFORM_NOT_FOUND_KHR;
    }
    if (platforms != NULL) {
        platforms[0] = platform;
    }
    return CL_SUCCESS;
}

cl_int
tp_clGetPlatformIDs(cl_uint num_entries, cl_platform_id *platforms,
                    cl_uint *num_platforms)
{
    return clIcdGetPlatformIDsKHR(num_entries, platforms, num_platforms);
}

cl_int
clGetPlatformInfo(cl_platform_id platform, cl_platform_info param, size_t value_size,
                  void *value, size_t *size_ret)
{
    return tp_clGetPlatformInfo(platform, param, value_size, value, size_ret);
}

/** Functions that can be looked up by name; only implemented ones. */
static const struct function {
    const char *name;
    void *address;
    bool of_platform; /**< of an extension, not of the loader */
    /** True for a device that supports it; some device must. NULL: no condition. */
    bool (*able)(const struct _cl_device_id *dev);
} functions[] = {
    {"clIcdGetPlatformIDsKHR", (void *)clIcdGetPlatformIDsKHR, false, NULL},
    {"clGetPlatformInfo", (void *)clGetPlatformInfo, false, NULL},
    {"clCreateCommandQueueWithPropertiesKHR",
     (void *)tp_clCreateCommandQueueWithProperties, true, NULL},
    {"clCreateProgramWithILKHR", (void *)tp_clCreateProgramWithIL, true,
     tp_icd_device_has_il},
    {"clGetKernelSubGroupInfoKHR", (void *)tp_clGetKernelSubGroupInfo, true,
     tp_icd_device_has_sub_groups},
    {"clGetKernelSuggestedLocalWorkSizeKHR",
     (void *)tp_clGetKernelSuggestedLocalWorkSizeKHR, true, tp_icd_device_suggests},
    {"clSetContentSizeBufferPoCL", (void *)tp_clSetContentSizeBufferPoCL, true, NULL},
    {"clExportBufferTELPHER", (void *)tp_clExportBufferTELPHER, true, NULL},
    {"clRevokeBufferTELPHER", (void *)tp_clRevokeBufferTELPHER, true, NULL},
    {"clEnqueuePutTELPHER", (void *)tp_clEnqueuePutTELPHER, true, NULL},
    {"clEnqueueGetTELPHER", (void *)tp_clEnqueueGetTELPHER, true, NULL},
    {"clGetServerRoutesTELPHER", (void *)tp_clGetServerRoutesTELPHER, true, NULL},
#define FUNCTION(name) {#name, (void *)tp_##name, true, tp_icd_device_has_commands},
    TP_ICD_COMMANDS_FUNCTIONS(FUNCTION)
#undef FUNCTION
#define FUNCTION(name) {#name, (void *)tp_##name, true, tp_icd_device_has_usm},
        TP_ICD_USM_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static void *
find_function(const char *name, bool of_platform)
{
    for (size_t i = 0; name != NULL && i < TP_ARRAY_LEN(functions); i++) {
        const struct function *f = &functions[i];

        if ((f->of_platform || !of_platform) && strcmp(f->name, name) == 0) {
            return f->able == NULL || tp_icd_platform_has(f->able) ? f->address : NULL;
        }
    }
    return NULL;
}

void *
tp_clGetExtensionFunctionAddress(const char *name)
{
    return find_function(name, false);
}

void *
tp_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    if (tp_icd_check(platform, TP_ICD_PLATFORM) == NULL) {
        return NULL;
    }
    return find_function(name, true);
}

void *
clGetExtensionFunctionAddress(const char *name)
{
    return tp_clGetExtensionFunctionAddress(name);
}

void *
clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    return tp_clGetExtensionFunctionAddressForPlatform(platform, name);
}
