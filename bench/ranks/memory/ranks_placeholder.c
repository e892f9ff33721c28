/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of an FPGA. Its driver places a buffer where the argument of a kernel is connected, so a
 * binary with an empty kernel for each bank is loaded first: placeholder_D (DDR), placeholder_B
 * (HBM) and placeholder_P (PLRAM). XRT, AMD's driver, takes kernel and argument by its extension
 * cl_mem_ext_ptr_t. It skips transfers of buffers that no kernel has written; the empty kernel
 * runs before each measured iteration, so that the driver cannot know.
 */
#include "bench/ranks/memory/ranks_memory.h"

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/interop/opencl.h>

/** XRT's CL/cl_ext_xilinx.h: which argument of which kernel a buffer is for. */
struct ext_ptr {
    unsigned argument;
    void *host;
    cl_kernel kernel;
};
#define MEM_EXT_PTR ((cl_mem_flags)1 << 31) /* its CL_MEM_EXT_PTR_XILINX */

static const char source[] = "kernel void placeholder_D(global char *p) {}\n"
                             "kernel void placeholder_B(global char *p) {}\n"
                             "kernel void placeholder_P(global char *p) {}\n";

static struct {
    cl_context context;
    cl_device_id device;
    cl_command_queue queue;
    cl_program program;
    bool has_banks; /* the driver is XRT */
} s;

static void
need(const struct ranks_pair *p, cl_int error, const char *what)
{
    char text[32];

    if (error != CL_SUCCESS) {
        snprintf(text, sizeof(text), "OpenCL error %d", error);
        ranks_memory_fail(p, what, text);
    }
}

bool
ranks_has_placeholder(const struct ranks_pair *p, char letter)
{
    return letter == 'B' || letter == 'P' ||
           (letter == 'D' && p->o->placeholder != NULL);
}

/* The file's bytes; the caller frees them. */
static unsigned char *
read_file(const struct ranks_pair *p, const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    long len = -1;
    unsigned char *bytes = NULL;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (len = ftell(file)) > 0) {
        rewind(file);
        bytes = malloc((size_t)len);
    }
    if (bytes == NULL || fread(bytes, 1, (size_t)len, file) != (size_t)len) {
        ranks_memory_fail(p, "cannot read the placeholder kernels", path);
    }
    fclose(file);
    *ret_len = (size_t)len;
    return bytes;
}

static void
load_program(struct ranks_pair *p)
{
    const char *path = p->o->placeholder, *text = source;
    cl_int error, status = CL_SUCCESS;
    size_t len = 0;
    unsigned char *bytes;

    if (path == NULL) {
        s.program = clCreateProgramWithSource(s.context, 1, &text, NULL, &error);
    } else {
        bytes = read_file(p, path, &len);
        s.program =
            clCreateProgramWithBinary(s.context, 1, &s.device, &len,
                                      (const unsigned char **)&bytes, &status, &error);
        free(bytes);
        error = error != CL_SUCCESS ? error : status;
    }
    need(p, error, path != NULL ? path : "placeholder kernels, no --placeholder FILE");
    need(p, clBuildProgram(s.program, 1, &s.device, NULL, NULL, NULL),
         path != NULL ? path : "placeholder kernels, no --placeholder FILE");
}

static void
open_site(struct ranks_pair *p)
{
    void *context, *device;
    cl_platform_id platform;
    char name[128] = "";
    cl_int error;

    if (s.program != NULL) {
        return;
    }
    ranks_opencl_site(p, &context, &device);
    s.context = context;
    s.device = device;
    s.queue = clCreateCommandQueueWithProperties(s.context, s.device, NULL, &error);
    need(p, error, "a queue for placeholder kernels");
    need(p,
         clGetDeviceInfo(s.device, CL_DEVICE_PLATFORM, sizeof(platform), &platform,
                         NULL),
         "platform");
    need(p, clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name, NULL),
         "platform");
    s.has_banks = strstr(name, "Xilinx") != NULL;
    load_program(p);
}

static cl_kernel
make_kernel(const struct ranks_pair *p, char letter)
{
    char name[] = "placeholder_D";
    cl_int error;
    cl_kernel kernel;

    name[sizeof(name) - 2] = letter;
    kernel = clCreateKernel(s.program, name, &error);
    need(p, error, name);
    return kernel;
}

void *
ranks_placeholder_alloc(struct ranks_pair *p, char letter, size_t bytes)
{
    struct ext_ptr ext = {0};
    cl_mem buffer;
    cl_int error;
    void *memory;

    open_site(p);
    if (letter != 'D' && !s.has_banks) {
        ranks_memory_fail(p, letter == 'B' ? "memory B" : "memory P",
                          "this driver has no banks (cl_mem_ext_ptr_t, of XRT)");
    }
    ext.kernel = make_kernel(p, letter);
    buffer =
        clCreateBuffer(s.context, CL_MEM_READ_WRITE | (s.has_banks ? MEM_EXT_PTR : 0),
                       bytes, s.has_banks ? &ext : NULL, &error);
    need(p, error, "a buffer in a bank");
    ranks_check(p, telpher_opencl_register(p->ctx, buffer, s.queue, &memory),
                "a buffer in a bank");
    need(p, clReleaseMemObject(buffer), "a buffer in a bank"); /* Telpher keeps it */
    need(p, clReleaseKernel(ext.kernel), "a placeholder kernel");
    return memory;
}

void
ranks_placeholder_free(struct ranks_pair *p, void *memory)
{
    ranks_check(p, telpher_mem_unregister(p->ctx, memory), "memory");
}

void
ranks_placeholder_run(struct ranks_pair *p, const void *memory)
{
    char letter = p->o->places[p->first ? 0 : 1];
    size_t one = 1;
    cl_kernel kernel = make_kernel(p, letter);
    cl_mem buffer;

    ranks_check(p, telpher_opencl_buffer(p->ctx, memory, &buffer, NULL),
                "a buffer in a bank");
    need(p, clSetKernelArg(kernel, 0, sizeof(buffer), &buffer), "a placeholder kernel");
    need(p, clEnqueueNDRangeKernel(s.queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL),
         "a placeholder kernel");
    need(p, clFinish(s.queue), "a placeholder kernel");
    need(p, clReleaseKernel(kernel), "a placeholder kernel");
}
