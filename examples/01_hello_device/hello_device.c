/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first program of the course: lists the OpenCL devices there are, adds two vectors on
 * each, and checks the sums. Where a device is (in this machine or far away) makes
 * no difference to the program.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 100000, MAX_PLATFORMS = 16, MAX_DEVICES = 64 };

static const char source[] = "__kernel void add(__global const float *a,\n"
                             "                  __global const float *b,\n"
                             "                  __global float *sum)\n"
                             "{\n"
                             "    const size_t i = get_global_id(0);\n"
                             "    sum[i] = a[i] + b[i];\n"
                             "}\n";

static const char usage[] =
    "Usage: 01_hello_device [OPTION]...\n"
    "Lists OpenCL devices and adds two vectors on each.\n\n"
    "  --platform NAME  only platforms with NAME in their name\n"
    "  --list           list, compute nothing\n"
    "  --help           this text\n"
    "Exit status: 0 if there was a device and every sum is right.\n";

#define CHECK(call) check((call), #call)

static void
check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "01_hello_device: OpenCL error %d: %s\n", status, what);
        exit(EXIT_FAILURE);
    }
}

static cl_kernel
build_kernel(cl_context context, cl_device_id device)
{
    const char *text = source;
    char log[4096] = "";
    cl_int status;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &status);
    cl_kernel kernel;

    CHECK(status);
    if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) {
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1,
                              log, NULL);
        fprintf(stderr, "01_hello_device: the kernel does not build:\n%s\n", log);
        exit(EXIT_FAILURE);
    }
    kernel = clCreateKernel(program, "add", &status);
    CHECK(status);
    CHECK(clReleaseProgram(program)); /* the kernel keeps it alive */
    return kernel;
}

/* Creates a buffer with `content`, or an empty one, and makes it argument `index`. */
static cl_mem
create_argument(cl_context context, cl_kernel kernel, cl_uint index, float *content)
{
    const cl_mem_flags flags =
        content != NULL ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR : CL_MEM_WRITE_ONLY;
    cl_int status;
    cl_mem buffer =
        clCreateBuffer(context, flags, COUNT * sizeof(float), content, &status);

    CHECK(status);
    CHECK(clSetKernelArg(kernel, index, sizeof(buffer), &buffer));
    return buffer;
}

/* Returns whether all sums are right. */
static bool
add_vectors(cl_device_id device)
{
    static float a[COUNT], b[COUNT], sum[COUNT];
    const size_t global = COUNT;
    bool right = true;
    cl_int status;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    cl_command_queue queue;
    cl_kernel kernel;
    cl_mem buffers[3];

    CHECK(status);
    queue = clCreateCommandQueue(context, device, 0, &status);
    CHECK(status);
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)i;
        b[i] = (float)(2 * i);
        sum[i] = -1.0f;
    }
    kernel = build_kernel(context, device);
    buffers[0] = create_argument(context, kernel, 0, a);
    buffers[1] = create_argument(context, kernel, 1, b);
    buffers[2] = create_argument(context, kernel, 2, NULL);
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, sizeof(sum), sum, 0, NULL,
                              NULL));
    for (int i = 0; i < COUNT; i++) {
        right = right && sum[i] == (float)(3 * i);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(clReleaseMemObject(buffers[i]));
    }
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return right;
}

/* Lists a platform's devices and, unless `list_only`, computes on them. Returns how
 * many there are, or -1 if one computed wrong sums. */
static int
visit_platform(cl_platform_id platform, const char *name, bool list_only)
{
    cl_device_id devices[MAX_DEVICES];
    cl_uint count = 0;
    bool right = true;

    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &count) !=
        CL_SUCCESS) {
        return 0; /* a platform without devices is nothing wrong */
    }
    count = count < MAX_DEVICES ? count : MAX_DEVICES;
    for (cl_uint i = 0; i < count; i++) {
        const char *verdict = "";
        char device[256] = "";

        CHECK(
            clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof(device), device, NULL));
        if (!list_only) {
            const bool good = add_vectors(devices[i]);

            right = right && good;
            verdict = good ? ": 100000 sums, all right" : ": WRONG sums";
        }
        printf("%s, device %u: %s%s\n", name, i, device, verdict);
    }
    return right ? (int)count : -1;
}

static bool
visit_all(const char *wanted, bool list_only)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint count = 0;
    int devices = 0;

    if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &count) != CL_SUCCESS) {
        count = 0;
    }
    count = count < MAX_PLATFORMS ? count : MAX_PLATFORMS;
    for (cl_uint i = 0; i < count; i++) {
        char name[256] = "";
        int found;

        CHECK(clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(name), name,
                                NULL));
        if (strstr(name, wanted) == NULL) {
            continue;
        }
        found = visit_platform(platforms[i], name, list_only);
        if (found < 0) {
            return false;
        }
        devices += found;
    }
    if (devices == 0) {
        fputs("01_hello_device: no OpenCL device found\n", stderr);
    }
    return devices > 0;
}

int
main(int argc, char **argv)
{
    static const struct option names[] = {
        {"platform", required_argument, NULL, 'p'},
        {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *wanted = "";
    bool list_only = false;
    int option;

    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        switch (option) {
        case 'p':
            wanted = optarg;
            break;
        case 'l':
            list_only = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        default:
            fputs("Try '01_hello_device --help'.\n", stderr);
            return EXIT_FAILURE;
        }
    }
    return visit_all(wanted, list_only) ? EXIT_SUCCESS : EXIT_FAILURE;
}
