/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenCL program and a job of ranks share a buffer of a remote device. This is the OpenCL
 * program: it exports the buffer, starts the job, whose ranks put into the buffer at its server,
 * and adds up what is there with a kernel.
 *
 *     telpher run -s HOST -- 07_exported_buffer telpher launch -n 3 -- 07_exported_buffer_job
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <telpher/interop/opencl.h>

enum { COUNT = 1 << 20 }; /* numbers in the buffer */

static const char source[] =
    "kernel void add_up(global const uint *x, uint n, global ulong *sum) {\n"
    "    ulong s = 0;\n"
    "    for (uint i = 0; i < n; i++) s += x[i];\n"
    "    *sum = s;\n"
    "}\n";

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

static void
must(cl_int err, const char *what)
{
    if (err != CL_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, err);
        exit(EXIT_FAILURE);
    }
}

static void
open_device(void)
{
    cl_int err;

    must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL),
         "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    must(err, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &err);
    must(err, "clCreateCommandQueue");
}

/* [export] */
static void
export_buffer(cl_mem buffer, char token[TELPHER_OPENCL_TOKEN_BYTES])
{
    telpher_opencl_export_fn export =
        (telpher_opencl_export_fn)clGetExtensionFunctionAddressForPlatform(
            platform, "clExportBufferTELPHER");

    if (export == NULL) {
        fprintf(stderr, "the device is not Telpher's: start this with telpher run\n");
        exit(EXIT_FAILURE);
    }
    must(export(queue, buffer, 0, COUNT * sizeof(cl_uint),
                TELPHER_OPENCL_GET | TELPHER_OPENCL_PUT, 60000, token),
         "clExportBufferTELPHER");
}
/* [end of export] */

/* Runs a command that finds the token in its environment, and waits for its end. */
static void
run_job(char **command, const char *token)
{
    int status = -1;
    pid_t pid;

    (void)setenv("BUFFER_TOKEN", token, 1);
    pid = fork();
    if (pid == 0) {
        (void)execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "the job has failed\n");
        exit(EXIT_FAILURE);
    }
}

static cl_ulong
add_up(cl_mem buffer)
{
    const char *text = source;
    const cl_uint count = COUNT;
    const size_t one = 1;
    cl_ulong sum = 0;
    cl_int err;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &err);
    cl_mem result = clCreateBuffer(context, 0, sizeof(sum), NULL, &err);
    cl_kernel kernel;

    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    kernel = clCreateKernel(program, "add_up", &err);
    must(err, "clCreateKernel");
    must(clSetKernelArg(kernel, 0, sizeof(cl_mem), &buffer), "clSetKernelArg");
    must(clSetKernelArg(kernel, 1, sizeof(count), &count), "clSetKernelArg");
    must(clSetKernelArg(kernel, 2, sizeof(cl_mem), &result), "clSetKernelArg");
    must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL),
         "clEnqueueNDRangeKernel");
    must(clEnqueueReadBuffer(queue, result, CL_TRUE, 0, sizeof(sum), &sum, 0, NULL,
                             NULL),
         "clEnqueueReadBuffer");
    (void)clReleaseKernel(kernel);
    (void)clReleaseMemObject(result);
    (void)clReleaseProgram(program);
    return sum;
}

int
main(int argc, char **argv)
{
    const cl_uint nothing = 0;
    char token[TELPHER_OPENCL_TOKEN_BYTES];
    cl_ulong sum, want = 0;
    cl_mem buffer;
    cl_int err;

    if (argc < 2) {
        fprintf(stderr, "usage: %s COMMAND [ARG]...\n", argv[0]);
        return EXIT_FAILURE;
    }
    open_device();
    buffer = clCreateBuffer(context, 0, COUNT * sizeof(cl_uint), NULL, &err);
    must(err, "clCreateBuffer");
    must(clEnqueueFillBuffer(queue, buffer, &nothing, sizeof(nothing), 0,
                             COUNT * sizeof(cl_uint), 0, NULL, NULL),
         "clEnqueueFillBuffer");
    must(clFinish(queue), "clFinish"); /* puts do not wait for commands */
    export_buffer(buffer, token);
    run_job(argv + 1, token);
    sum = add_up(buffer);
    for (cl_ulong i = 0; i < COUNT; i++) {
        want += i;
    }
    printf("the kernel found %llu, it should be %llu\n", (unsigned long long)sum,
           (unsigned long long)want);
    (void)clReleaseMemObject(buffer);
    (void)clReleaseCommandQueue(queue);
    (void)clReleaseContext(context);
    return sum == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
