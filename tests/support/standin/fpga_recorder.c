/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests, by LD_PRELOAD in front of libOpenCL: makes any driver look like XRT, the driver of
 * AMD's FPGAs, and records what a program asks of it in the file FPGA_RECORD. It refuses a buffer
 * before a binary was loaded, as XRT does. FPGA_SAVE names a file that gets the binary of a
 * program that was built from source.
 */
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MEM_EXT_PTR ((cl_mem_flags)1 << 31)

struct ext_ptr {
    unsigned argument;
    void *host;
    cl_kernel kernel;
};

static int is_loaded; /* a program was built */

#define REAL(name)                                                                     \
    __typeof__(&name) real;                                                            \
    void *real_symbol = dlsym(RTLD_NEXT, #name);                                       \
                                                                                       \
    memcpy(&real, &real_symbol, sizeof(real))

static void
record(const char *what, const char *name, unsigned argument, size_t bytes)
{
    const char *path = getenv("FPGA_RECORD");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;

    if (file != NULL) {
        fprintf(file, "%s %s %u %zu\n", what, name, argument, bytes);
        fclose(file);
    }
}

static void
record_kernel(const char *what, cl_kernel kernel, unsigned argument, size_t bytes)
{
    char name[64] = "none";

    if (kernel != NULL) {
        (void)clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof(name), name,
                              NULL);
    }
    record(what, name, argument, bytes);
}

EXPORT cl_int
clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t size,
                  void *value, size_t *ret_size)
{
    REAL(clGetPlatformInfo);

    if (name == CL_PLATFORM_NAME && value != NULL && size > strlen("Xilinx")) {
        memcpy(value, "Xilinx", sizeof("Xilinx"));
        return CL_SUCCESS;
    }
    return real(platform, name, size, value, ret_size);
}

EXPORT cl_program
clCreateProgramWithBinary(cl_context context, cl_uint count,
                          const cl_device_id *devices, const size_t *lens,
                          const unsigned char **binaries, cl_int *status,
                          cl_int *ret_error)
{
    REAL(clCreateProgramWithBinary);

    record("binary", "loaded", 0, lens[0]);
    return real(context, count, devices, lens, binaries, status, ret_error);
}

static void
save(cl_program program)
{
    const char *path = getenv("FPGA_SAVE");
    size_t len = 0;
    unsigned char *bytes = NULL;
    FILE *file;

    if (path != NULL &&
        clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(len), &len, NULL) ==
            CL_SUCCESS &&
        (bytes = malloc(len + 1)) != NULL &&
        clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, NULL) ==
            CL_SUCCESS &&
        (file = fopen(path, "wb")) != NULL) {
        (void)fwrite(bytes, 1, len, file);
        fclose(file);
    }
    free(bytes);
}

EXPORT cl_int
clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
               const char *options, void (*notify)(cl_program, void *), void *user)
{
    REAL(clBuildProgram);
    cl_int error = real(program, count, devices, options, notify, user);

    is_loaded |= error == CL_SUCCESS;
    save(program);
    return error;
}

EXPORT cl_mem
clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
               cl_int *ret_error)
{
    REAL(clCreateBuffer);
    const struct ext_ptr *ext = host;

    if ((flags & MEM_EXT_PTR) == 0) {
        return real(context, flags, bytes, host, ret_error);
    }
    if (!is_loaded || ext == NULL) {
        *ret_error = CL_INVALID_VALUE;
        return NULL;
    }
    record_kernel("buffer", ext->kernel, ext->argument, bytes);
    return real(context, flags & ~MEM_EXT_PTR, bytes, NULL, ret_error);
}

EXPORT cl_int
clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                       const size_t *offset, const size_t *global, const size_t *local,
                       cl_uint waits, const cl_event *list, cl_event *ret_event)
{
    REAL(clEnqueueNDRangeKernel);

    record_kernel("task", kernel, 0, global[0]);
    return real(queue, kernel, dims, offset, global, local, waits, list, ret_event);
}
