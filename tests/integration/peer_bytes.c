/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that peer_bytes.py runs: a buffer goes back and forth between two servers. Prints a
 * line `SIZE BYTES US` for each size: bytes on this machine's interfaces during the loop, and the
 * median time of a round. A kernel that returns 4 bytes checks the content after the loop.
 *
 * The last line, `sized BYTES BYTES`, is of a buffer of 4 MiB of which a kernel says, in
 * its size buffer (cl_pocl_content_size), that 64 KiB have a meaning: bytes on the interfaces
 * when another server used it, and when the program read it.
 *
 * `chain` is 200 kernels without content in common, which alternate between the servers, each
 * after the event of the last: a line `chain 0 US` with the time of the whole chain.
 *
 *     peer_bytes ROUNDS SIZE...
 *     peer_bytes chain
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <telpher/interop/CL/cl_ext_pocl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS_MAX = 1000,
    CHAIN_KERNELS = 200,
    SIZED_BYTES = 4 << 20,
    MEANT_BYTES = 64 << 10
};

static const char source[] =
    "kernel void add(global uint *a) { a[get_global_id(0)] += 1; }\n"
    "kernel void produce(global uint *a, uint value, global ulong *size)\n"
    "{ a[get_global_id(0)] = value; *size = get_global_size(0) * 4; }\n"
    "kernel void count_wrong(const global uint *a, uint want, global uint *wrong)\n"
    "{ if (a[get_global_id(0)] != want) { atomic_inc(wrong); } }\n";

struct program {
    cl_context context;
    cl_command_queue queue[2]; /* one of each server */
    cl_kernel add, produce, count_wrong;
    cl_platform_id platform;
    cl_mem wrong;
};

static void
check(cl_int err, const char *what)
{
    if (err != CL_SUCCESS) {
        (void)fprintf(stderr, "%s: error %d\n", what, err);
        exit(1);
    }
}

static double
now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* All bytes that the interfaces of this network namespace sent and received. */
static unsigned long long
wire_bytes(void)
{
    unsigned long long in, out, sum = 0;
    char line[512];
    FILE *file = fopen("/proc/self/net/dev", "r");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *colon = strchr(line, ':');

        if (colon != NULL && sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu",
                                    &in, &out) == 2) {
            sum += in + out;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return sum;
}

static void
open_program(struct program *p)
{
    const char *text = source;
    cl_device_id device[2];
    cl_program program;
    cl_uint count = 0;
    cl_int err;

    check(clGetPlatformIDs(1, &p->platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(p->platform, CL_DEVICE_TYPE_ALL, 2, device, &count),
          "devices");
    if (count != 2) {
        (void)fprintf(stderr, "%u devices instead of two\n", count);
        exit(1);
    }
    p->context = clCreateContext(NULL, 2, device, NULL, NULL, &err);
    check(err, "clCreateContext");
    for (int i = 0; i < 2; i++) {
        p->queue[i] =
            clCreateCommandQueueWithProperties(p->context, device[i], NULL, &err);
        check(err, "clCreateCommandQueueWithProperties");
    }
    program = clCreateProgramWithSource(p->context, 1, &text, NULL, &err);
    check(err, "clCreateProgramWithSource");
    check(clBuildProgram(program, 0, NULL, "", NULL, NULL), "clBuildProgram");
    p->add = clCreateKernel(program, "add", &err);
    check(err, "add");
    p->produce = clCreateKernel(program, "produce", &err);
    check(err, "produce");
    p->count_wrong = clCreateKernel(program, "count_wrong", &err);
    check(err, "count_wrong");
    p->wrong = clCreateBuffer(p->context, CL_MEM_READ_WRITE, 4, NULL, &err);
    check(err, "clCreateBuffer");
    check(clReleaseProgram(program), "clReleaseProgram");
}

static void
close_program(struct program *p)
{
    check(clReleaseMemObject(p->wrong), "clReleaseMemObject");
    check(clReleaseKernel(p->count_wrong), "clReleaseKernel");
    check(clReleaseKernel(p->produce), "clReleaseKernel");
    check(clReleaseKernel(p->add), "clReleaseKernel");
    for (int i = 0; i < 2; i++) {
        check(clReleaseCommandQueue(p->queue[i]), "clReleaseCommandQueue");
    }
    check(clReleaseContext(p->context), "clReleaseContext");
}

/* One increment on each server, and back: ends on the first. */
static void
run_round(struct program *p, size_t count)
{
    cl_event done[2];

    for (int i = 0; i < 2; i++) {
        check(clEnqueueNDRangeKernel(p->queue[i], p->add, 1, NULL, &count, NULL, i,
                                     i == 0 ? NULL : &done[0], &done[i]),
              "add");
    }
    check(clFinish(p->queue[1]), "clFinish");
    check(clReleaseEvent(done[0]), "clReleaseEvent");
    check(clReleaseEvent(done[1]), "clReleaseEvent");
}

static void
check_content(struct program *p, cl_mem mem, size_t count, cl_uint want)
{
    const cl_uint zero = 0;
    cl_uint wrong = 1;

    check(clEnqueueFillBuffer(p->queue[0], p->wrong, &zero, 4, 0, 4, 0, NULL, NULL),
          "clEnqueueFillBuffer");
    check(clSetKernelArg(p->count_wrong, 0, sizeof(mem), &mem), "argument");
    check(clSetKernelArg(p->count_wrong, 1, sizeof(want), &want), "argument");
    check(clSetKernelArg(p->count_wrong, 2, sizeof(p->wrong), &p->wrong), "argument");
    check(clEnqueueNDRangeKernel(p->queue[0], p->count_wrong, 1, NULL, &count, NULL, 0,
                                 NULL, NULL),
          "count_wrong");
    check(clEnqueueReadBuffer(p->queue[0], p->wrong, CL_TRUE, 0, 4, &wrong, 0, NULL,
                              NULL),
          "clEnqueueReadBuffer");
    if (wrong != 0) {
        (void)fprintf(stderr, "%u of %zu numbers are not %u\n", wrong, count, want);
        exit(1);
    }
}

static int
compare_times(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void
measure(struct program *p, size_t size, cl_uint rounds)
{
    static double times[ROUNDS_MAX];
    const cl_uint zero = 0;
    unsigned long long bytes;
    size_t count = size / 4;
    cl_int err;
    cl_mem mem = clCreateBuffer(p->context, CL_MEM_READ_WRITE, size, NULL, &err);

    check(err, "clCreateBuffer");
    check(clEnqueueFillBuffer(p->queue[0], mem, &zero, 4, 0, size, 0, NULL, NULL),
          "clEnqueueFillBuffer");
    check(clSetKernelArg(p->add, 0, sizeof(mem), &mem), "argument");
    run_round(p, count); /* the streams are there after it */
    bytes = wire_bytes();
    for (cl_uint i = 0; i < rounds; i++) {
        double begin = now_us();

        run_round(p, count);
        times[i] = now_us() - begin;
    }
    bytes = wire_bytes() - bytes;
    check_content(p, mem, count, 2 * (rounds + 1));
    qsort(times, rounds, sizeof(times[0]), compare_times);
    (void)printf("%zu %llu %.1f\n", size, bytes, times[rounds / 2]);
    check(clReleaseMemObject(mem), "clReleaseMemObject");
}

/* Fills the first @p count numbers on server 0, which says how many they are. */
static void
produce(struct program *p, cl_mem mem, cl_mem size, size_t count, cl_uint value)
{
    check(clSetKernelArg(p->produce, 0, sizeof(mem), &mem), "argument");
    check(clSetKernelArg(p->produce, 1, sizeof(value), &value), "argument");
    check(clSetKernelArg(p->produce, 2, sizeof(size), &size), "argument");
    check(clEnqueueNDRangeKernel(p->queue[0], p->produce, 1, NULL, &count, NULL, 0,
                                 NULL, NULL),
          "produce");
}

static void
expect(const cl_uint *numbers, size_t from, size_t to, cl_uint want)
{
    for (size_t i = from; i < to; i++) {
        if (numbers[i] != want) {
            (void)fprintf(stderr, "number %zu is %u, not %u\n", i, numbers[i], want);
            exit(1);
        }
    }
}

static void
measure_sized(struct program *p)
{
    const size_t all = SIZED_BYTES / 4, some = MEANT_BYTES / 4;
    static cl_uint numbers[SIZED_BYTES / 4];
    clSetContentSizeBufferPoCL_fn set_size;
    unsigned long long bytes[3];
    cl_mem mem, size;
    cl_event done;
    cl_int err;

    set_size = (clSetContentSizeBufferPoCL_fn)clGetExtensionFunctionAddressForPlatform(
        p->platform, "clSetContentSizeBufferPoCL");
    check(set_size != NULL ? CL_SUCCESS : CL_INVALID_VALUE, "cl_pocl_content_size");
    mem = clCreateBuffer(p->context, CL_MEM_READ_WRITE, SIZED_BYTES, NULL, &err);
    check(err, "clCreateBuffer");
    size = clCreateBuffer(p->context, CL_MEM_READ_WRITE, 8, NULL, &err);
    check(err, "clCreateBuffer");
    check(set_size(mem, size), "clSetContentSizeBufferPoCL");
    produce(p, mem, size, all, 1);
    produce(p, mem, size, some, 2);
    check(clFinish(p->queue[0]), "clFinish");
    bytes[0] = wire_bytes();
    check(clSetKernelArg(p->add, 0, sizeof(mem), &mem), "argument");
    check(clEnqueueNDRangeKernel(p->queue[1], p->add, 1, NULL, &some, NULL, 0, NULL,
                                 &done),
          "add");
    check(clWaitForEvents(1, &done), "clWaitForEvents");
    check(clReleaseEvent(done), "clReleaseEvent");
    bytes[1] = wire_bytes();
    memset(numbers, 0xee, sizeof(numbers));
    check(clEnqueueReadBuffer(p->queue[1], mem, CL_TRUE, 0, SIZED_BYTES, numbers, 0,
                              NULL, NULL),
          "clEnqueueReadBuffer");
    bytes[2] = wire_bytes();
    expect(numbers, 0, some, 3);
    expect(numbers, some, all, 0xeeeeeeee);
    produce(p, mem, size, all, 5); /* now all of it has a meaning */
    check(clFinish(p->queue[0]), "clFinish");
    check(clEnqueueReadBuffer(p->queue[1], mem, CL_TRUE, 0, SIZED_BYTES, numbers, 0,
                              NULL, NULL),
          "clEnqueueReadBuffer");
    expect(numbers, 0, all, 5);
    (void)printf("sized %llu %llu\n", bytes[1] - bytes[0], bytes[2] - bytes[1]);
    check(clReleaseMemObject(mem), "clReleaseMemObject");
    check(clReleaseMemObject(size), "clReleaseMemObject");
}

/* ---- a chain of events ---- */

static void
run_chain(struct program *p, cl_kernel kernels[2])
{
    const size_t one = 1;
    cl_event done = NULL;

    for (int i = 0; i < CHAIN_KERNELS; i++) {
        const cl_event last = done;

        check(clEnqueueNDRangeKernel(p->queue[i % 2], kernels[i % 2], 1, NULL, &one,
                                     NULL, last != NULL, last != NULL ? &last : NULL,
                                     &done),
              "add");
        if (last != NULL) {
            check(clReleaseEvent(last), "clReleaseEvent");
        }
    }
    check(clWaitForEvents(1, &done), "clWaitForEvents");
    check(clReleaseEvent(done), "clReleaseEvent");
}

static void
measure_chain(struct program *p)
{
    cl_kernel kernels[2];
    cl_mem mems[2];
    double begin;
    cl_uint ran[2] = {0, 0};
    cl_int err;

    for (int i = 0; i < 2; i++) {
        mems[i] = clCreateBuffer(p->context, CL_MEM_COPY_HOST_PTR, 4, &ran[i], &err);
        check(err, "clCreateBuffer");
        kernels[i] = clCloneKernel(p->add, &err);
        check(err, "clCloneKernel");
        check(clSetKernelArg(kernels[i], 0, sizeof(mems[i]), &mems[i]), "argument");
    }
    run_chain(p, kernels); /* the streams are there after it */
    begin = now_us();
    run_chain(p, kernels);
    (void)printf("chain 0 %.1f\n", now_us() - begin);
    for (int i = 0; i < 2; i++) {
        check(clEnqueueReadBuffer(p->queue[i], mems[i], CL_TRUE, 0, 4, &ran[i], 0, NULL,
                                  NULL),
              "clEnqueueReadBuffer");
        check(clReleaseMemObject(mems[i]), "clReleaseMemObject");
        check(clReleaseKernel(kernels[i]), "clReleaseKernel");
    }
    if (ran[0] != CHAIN_KERNELS || ran[1] != CHAIN_KERNELS) {
        (void)fprintf(stderr, "%u and %u kernels ran\n", ran[0], ran[1]);
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    struct program p;
    cl_uint rounds = argc > 2 ? (cl_uint)strtoul(argv[1], NULL, 10) : 0;

    if (argc == 2 && strcmp(argv[1], "chain") == 0) {
        open_program(&p);
        measure_chain(&p);
        close_program(&p);
        return 0;
    }
    if (rounds == 0 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: peer_bytes ROUNDS SIZE... or chain\n");
        return 64;
    }
    open_program(&p);
    for (int i = 2; i < argc; i++) {
        measure(&p, strtoul(argv[i], NULL, 10), rounds);
    }
    measure_sized(&p);
    close_program(&p);
    return 0;
}
